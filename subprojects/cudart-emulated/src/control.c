/* SPDX-License-Identifier: Apache-2.0 */
/* The test header's functions. */
#include "emulated.h"

#include "control.h"

#include <stdlib.h>
#include <string.h>

struct option {
    const char *name;
    bool *value;
};

static void begin(void)
{
    process_start();
    engine_lock();
}

static cudaError_t end(cudaError_t err)
{
    engine_unlock();
    return err;
}

static bool set_flag(const char *name, bool value)
{
    const struct option options[] = {
        {"reuse_handles", &config.reuse_handles},
        {"malloc_waits", &config.malloc_waits},
        {"free_waits", &config.free_waits},
        {"host_free_waits", &config.host_free_waits},
        {"pageable_waits", &config.pageable_waits},
        {"capture_queries", &config.capture_queries_allowed},
        {"host_threads", &config.host_thread_per_stream},
        {"idle_queries", &config.idle_queries},
        {"pool_never_reuses", &config.pool_never_reuses},
        {"checker", &config.checker},
        {"quiet", &config.quiet},
        {"abort", &config.abort_on_violation},
        {"no_peers", &config.no_peers},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(options[i].name, name) == 0) {
            *options[i].value = value;
            return true;
        }
    }
    return false;
}

int cudart_emulated_set_option(const char *name, unsigned long long value)
{
    begin();
    bool known = true;
    if (strcmp(name, "alignment") == 0) {
        config.alignment = value == 256 ? 256 : 512;
    } else if (strcmp(name, "queue_depth") == 0) {
        config.queue_depth = (size_t)value;
    } else if (strcmp(name, "pool_largest") == 0) {
        config.pool_largest = (size_t)value;
    } else {
        known = set_flag(name, value != 0);
    }
    end(cudaSuccess);
    return known ? 0 : -1;
}

void cudart_emulated_set_seed(unsigned long long seed)
{
    begin();
    config_set_seed(seed);
    end(cudaSuccess);
}

int cudart_emulated_set_memory(int device, size_t bytes)
{
    begin();
    bool valid = device >= 0 && device < MAX_DEVICES;
    if (valid) {
        config.memory[device] = bytes;
        devices[device].memory = bytes;
    }
    end(cudaSuccess);
    return valid ? 0 : -1;
}

int cudart_emulated_set_devices(int count)
{
    begin();
    bool valid = count >= 0 && count <= MAX_DEVICES;
    if (valid) {
        config.devices = count;
    }
    end(cudaSuccess);
    return valid ? 0 : -1;
}

int cudart_emulated_set_attribute(int device, int attribute, int value)
{
    begin();
    bool done = override_add(device, attribute, value);
    end(cudaSuccess);
    return done ? 0 : -1;
}

void cudart_emulated_set_driver_version(int version)
{
    begin();
    config.driver_version = version;
    end(cudaSuccess);
}

int cudart_emulated_usage(int device, struct cudart_emulated_usage *usage)
{
    begin();
    bool valid = device_valid(device) && usage != NULL;
    if (valid) {
        usage->allocated = devices[device].blocks;
        usage->peak_allocated = devices[device].blocks_peak;
        usage->physical = devices[device].physical;
        usage->peak_physical = devices[device].physical_peak;
    }
    end(cudaSuccess);
    return valid ? 0 : -1;
}

size_t cudart_emulated_pinned(size_t *peak)
{
    begin();
    size_t now = totals.pinned;
    if (peak != NULL) {
        *peak = totals.pinned_peak;
    }
    end(cudaSuccess);
    return now;
}

size_t cudart_emulated_reserved(void)
{
    begin();
    size_t now = totals.ranges;
    end(cudaSuccess);
    return now;
}

int cudart_emulated_fail(const char *function, unsigned long long first, unsigned long long count,
                         cudaError_t error)
{
    begin();
    bool done = fault_add(function, first, count, 0, error);
    end(cudaSuccess);
    return done ? 0 : -1;
}

int cudart_emulated_fail_randomly(const char *function, unsigned per_thousand, cudaError_t error)
{
    begin();
    bool done = per_thousand == 0 || fault_add(function, 1, 0, per_thousand, error);
    end(cudaSuccess);
    return done ? 0 : -1;
}

void cudart_emulated_clear_faults(void)
{
    begin();
    fault_clear();
    end(cudaSuccess);
}

unsigned long long cudart_emulated_calls(const char *function)
{
    unsigned long long calls = 0;
    begin();
    if (function == NULL) {
        for (int fn = 0; fn < FN_COUNT; fn++) {
            calls += call_counts[fn];
        }
    } else if (function_by_name(function) != FN_COUNT) {
        calls = call_counts[function_by_name(function)];
    }
    end(cudaSuccess);
    return calls;
}

static struct kernel *kernel_new(const struct cudart_emulated_range *ranges, size_t count)
{
    struct kernel *kernel = malloc(sizeof *kernel + count * sizeof *kernel->ranges);
    if (kernel == NULL) {
        return NULL;
    }
    *kernel = (struct kernel){.refs = 1, .count = count};
    for (size_t i = 0; i < count; i++) {
        struct range *range = range_find((uintptr_t)ranges[i].ptr);
        kernel->ranges[i] =
            (struct kernel_range){.va = (uintptr_t)ranges[i].ptr,
                                  .size = ranges[i].size,
                                  .write = ranges[i].write != 0,
                                  .value = ranges[i].value,
                                  .serial = range == NULL ? 0 : range_backing(range)->serial};
    }
    return kernel;
}

/* Whether the chunk of a pool holds the range in one live block, as far as can be told. */
static bool block_holds(const struct stream *stream, const struct range *chunk, uintptr_t va,
                        size_t size)
{
    const struct range *block = range_find(va);
    if (block == NULL) { /* another graph's may be live again when this one is launched */
        return chunk->pool == NULL && stream->capture != NULL;
    }
    size_t offset = va - block->va;
    return block->kind == RANGE_POOL && offset <= block->requested &&
           size <= block->requested - offset;
}

/*
 * When the kernel runs, a block may have been freed by a call that came after this one, so its
 * chunk is all that can be asked for then: what is wrong with the block itself is seen here only.
 */
static void check_pool_blocks(const struct stream *stream,
                              const struct cudart_emulated_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uintptr_t va = (uintptr_t)ranges[i].ptr;
        const struct range *chunk = chunk_find(va);
        if (chunk != NULL && ranges[i].size != 0 &&
            !block_holds(stream, chunk, va, ranges[i].size)) {
            violation("lifetime",
                      "a kernel of stream %llu accesses %zu bytes at %p, which no live block of a "
                      "pool holds",
                      (unsigned long long)stream->id, ranges[i].size, ranges[i].ptr);
        }
    }
}

cudaError_t cudart_emulated_kernel(cudaStream_t stream, const struct cudart_emulated_range *ranges,
                                   size_t count, void (*function)(void *), void *user_data)
{
    struct stream *found;
    if (count != 0 && ranges == NULL) {
        return cudaErrorInvalidValue;
    }
    begin();
    engine_mischief();
    cudaError_t err = device_sticky();
    if (err == cudaSuccess) {
        err = stream_find(stream, &found);
    }
    if (err != cudaSuccess) {
        return end(err);
    }
    struct work work = {.kind = WORK_KERNEL, .kernel = kernel_new(ranges, count)};
    if (work.kernel == NULL) {
        return end(cudaErrorMemoryAllocation);
    }
    work.kernel->fn = function;
    work.kernel->user_data = user_data;
    check_pool_blocks(found, ranges, count);
    err = stream_submit(found, &work, FN_COUNT);
    if (err != cudaSuccess) {
        work_release(&work);
    }
    return end(err);
}

enum direction { READ, WRITE };

/* Between a buffer of the test and emulated memory. */
static cudaError_t move(uintptr_t va, unsigned char *buffer, size_t size, enum direction direction,
                        const char *what)
{
    struct range *range;
    cudaError_t err = size == 0 ? cudaSuccess : memory_check(va, size, false, NULL, &range);
    if (size == 0 || err != cudaSuccess) {
        return err;
    }
    if (range == NULL) {
        return cudaErrorInvalidValue;
    }
    if (what != NULL && CHECKER_ON) {
        checker_host_access(va, size, direction == WRITE, what);
    }
    for (size_t done = 0; buffer != NULL && done < size;) {
        size_t length;
        unsigned char *at = range_bytes(range_find(va + done), va + done, &length);
        size_t step = length < size - done ? length : size - done;
        if (direction == READ) {
            memcpy(buffer + done, at, step);
        } else {
            memcpy(at, buffer + done, step);
        }
        done += step;
    }
    return cudaSuccess;
}

cudaError_t cudart_emulated_host_read(void *to, const void *ptr, size_t size)
{
    begin();
    return end(move((uintptr_t)ptr, to, size, READ, "a read by the host"));
}

cudaError_t cudart_emulated_host_write(void *ptr, const void *from, size_t size)
{
    unsigned char *bytes;
    memcpy(&bytes, &from, sizeof bytes);
    begin();
    return end(move((uintptr_t)ptr, bytes, size, WRITE, "a write by the host"));
}

cudaError_t cudart_emulated_host_access(const void *ptr, size_t size, int write)
{
    begin();
    return end(move((uintptr_t)ptr, NULL, size, write != 0 ? WRITE : READ,
                    write != 0 ? "a write by the host" : "a read by the host"));
}

cudaError_t cudart_emulated_peek(void *to, const void *ptr, size_t size)
{
    begin();
    return end(move((uintptr_t)ptr, to, size, READ, NULL));
}

unsigned long long cudart_emulated_pending(void)
{
    unsigned long long pending = 0;
    begin();
    for (int d = 0; d < MAX_DEVICES; d++) {
        for (const struct stream *s = devices[d].streams; s != NULL; s = s->next) {
            pending += s->pending;
        }
    }
    end(cudaSuccess);
    return pending;
}

unsigned long long cudart_emulated_executed(void)
{
    begin();
    unsigned long long executed = engine.executed;
    end(cudaSuccess);
    return executed;
}

unsigned long long cudart_emulated_violations(void)
{
    begin();
    unsigned long long count = violation_count();
    end(cudaSuccess);
    return count;
}

const char *cudart_emulated_violation(unsigned long long index)
{
    begin();
    const char *text = violation_text(index);
    end(cudaSuccess);
    return text;
}

void cudart_emulated_clear_violations(void)
{
    begin();
    violation_clear();
    end(cudaSuccess);
}

void cudart_emulated_reset(void)
{
    begin();
    reset_everything();
    end(cudaSuccess);
}
