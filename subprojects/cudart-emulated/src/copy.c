/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of ranges at the call, and the work itself when an operation runs. */
#include "emulated.h"

#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define STAGED_LIMIT (2 * MIB) /* larger copies from pageable memory wait */

/* Whether the device can reach any memory of the host. */
bool pageable_access(const struct device *device)
{
    bool known;
    return device_attribute(device->id, cudaDevAttrPageableMemoryAccess, &known) != 0;
}

static bool device_reaches(const struct range *range, const struct device *from, bool write)
{
    switch (range->kind) {
    case RANGE_DEVICE:
        return from == NULL || from == range->device || from->peer[range->device->id];
    case RANGE_MAPPED: {
        const unsigned need = write ? 3 : 1;
        if (from != NULL) {
            return (range->access[from->id] & need) == need;
        }
        for (int d = 0; d < MAX_DEVICES; d++) {
            if ((range->access[d] & need) == need) {
                return true;
            }
        }
        return false;
    }
    default:
        return true;
    }
}

bool range_accessible(const struct range *range, const struct device *from)
{
    return range->kind == RANGE_POOL ? pool_accessible(range->pool, from)
                                     : device_reaches(range, from, false);
}

cudaError_t memory_check(uintptr_t va, size_t size, bool write, const struct device *from,
                         struct range **first)
{
    struct range *range = range_find(va);
    *first = range;
    if (range == NULL) {
        return arena_owns(va) || va == 0 || va + size < va ? cudaErrorInvalidValue : cudaSuccess;
    }
    if (range->kind == RANGE_POOL) {
        return pool_check(range, va, size, from);
    }
    while (true) {
        if (!device_reaches(range, from, write)) {
            return cudaErrorInvalidValue;
        }
        size_t here = range->va + range->requested - va;
        if (va - range->va >= range->requested) {
            return cudaErrorInvalidValue;
        }
        if (here >= size) {
            return cudaSuccess;
        }
        if (range->kind != RANGE_MAPPED) {
            return cudaErrorInvalidValue;
        }
        va += here;
        size -= here;
        range = range_find(va);
        if (range == NULL || range->kind != RANGE_MAPPED) {
            return cudaErrorInvalidValue;
        }
    }
}

/* ---- execution ---- */

static void lost(const struct op *op, uintptr_t va)
{
    violation("lifetime",
              "%s of stream %llu (operation %llu) uses %p, which was freed or unmapped while the "
              "operation was pending",
              function_name(op->fn), (unsigned long long)op->stream_id, (unsigned long long)op->seq,
              (void *)va);
    device_set_sticky(cudaErrorLaunchFailure);
}

/* A chunk first: the block in it may have been freed, in order, after the operation was queued. */
static struct range *backing_at(uintptr_t va)
{
    struct range *chunk = chunk_find(va);
    return chunk != NULL ? chunk : range_find(va);
}

/* The bytes at an address that an operation was given, unless they have gone since. */
static unsigned char *piece(const struct op *op, uintptr_t va, uint64_t serial, uintptr_t base,
                            size_t *length)
{
    if (serial == 0) {
        *length = SIZE_MAX;
        return (unsigned char *)va;
    }
    struct range *range = backing_at(va);
    if (range == NULL || (va == base && range->serial != serial)) {
        lost(op, va);
        return NULL;
    }
    return range_bytes(range, va, length);
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static void execute_memset(struct op *op)
{
    const struct work *work = &op->work;
    size_t done = 0;
    while (done < work->size) {
        size_t length;
        unsigned char *at = piece(op, work->dst + done, work->dst_serial, work->dst, &length);
        if (at == NULL) {
            return;
        }
        size_t step = smallest(length, work->size - done, SIZE_MAX);
        memset(at, work->value, step);
        done += step;
    }
}

static void execute_copy(struct op *op)
{
    const struct work *work = &op->work;
    size_t done = 0;
    while (done < work->size) {
        size_t to_length, from_length = SIZE_MAX;
        const unsigned char *from =
            work->staged != NULL
                ? work->staged + done
                : piece(op, work->src + done, work->src_serial, work->src, &from_length);
        unsigned char *to = piece(op, work->dst + done, work->dst_serial, work->dst, &to_length);
        if (from == NULL || to == NULL) {
            return;
        }
        size_t step = smallest(to_length, from_length, work->size - done);
        memmove(to, from, step);
        done += step;
    }
}

/* Whether a device can reach the whole range; blocks of pools only as far as their chunk. */
static bool kernel_range_valid(const struct kernel_range *range, const struct device *device)
{
    struct range *first = chunk_find(range->va);
    if (first != NULL) {
        return range->size <= first->va + first->size - range->va;
    }
    return memory_check(range->va, range->size, range->write, NULL, &first) == cudaSuccess &&
           (first != NULL || pageable_access(device));
}

static void execute_kernel(struct op *op)
{
    struct kernel *kernel = op->work.kernel;
    for (size_t i = 0; i < kernel->count; i++) {
        struct kernel_range *range = &kernel->ranges[i];
        if (!kernel_range_valid(range, op->stream->device)) {
            violation("kernel",
                      "a kernel of stream %llu accesses %zu bytes at %p, which are not "
                      "memory that a device can reach",
                      (unsigned long long)op->stream_id, range->size, (void *)range->va);
            device_set_sticky(cudaErrorIllegalAddress);
            return;
        }
        const struct range *backing = backing_at(range->va);
        if (range->serial != 0 && (backing == NULL || backing->serial != range->serial)) {
            lost(op, range->va);
            return;
        }
        if (!range->write || range->value < 0) {
            continue;
        }
        if (backing == NULL) {
            memset((void *)range->va, range->value, range->size);
            continue;
        }
        for (size_t done = 0; done < range->size;) {
            size_t length;
            unsigned char *at =
                range_bytes(backing_at(range->va + done), range->va + done, &length);
            size_t step = smallest(length, range->size - done, SIZE_MAX);
            memset(at, range->value, step);
            done += step;
        }
    }
    if (kernel->fn != NULL) {
        kernel->fn(kernel->user_data);
    }
}

void work_execute(struct op *op)
{
    if (device_sticky() != cudaSuccess) {
        return;
    }
    switch (op->work.kind) {
    case WORK_MEMSET:
        execute_memset(op);
        break;
    case WORK_COPY:
        execute_copy(op);
        break;
    case WORK_KERNEL:
        execute_kernel(op);
        break;
    case WORK_PREFETCH:
        managed_prefetched(&op->work);
        break;
    case WORK_FREE:
        if (op->work.dst_serial != 0) { /* of cudaMalloc; pools keep their own books */
            malloc_free_quietly(op->work.dst);
        }
        break;
    default:
        break;
    }
}

void work_release(struct work *work)
{
    free(work->staged);
    work->staged = NULL;
    if (work->kernel != NULL && --work->kernel->refs == 0) {
        free(work->kernel);
    }
    work->kernel = NULL;
    graph_release(work->graph);
    work->graph = NULL;
}

static bool overlap(uintptr_t a, size_t a_size, uintptr_t b, size_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

static bool work_touches(const struct work *work, uintptr_t va, size_t size)
{
    if (work->kind == WORK_MEMSET || work->kind == WORK_COPY) {
        return overlap(work->dst, work->size, va, size) ||
               (work->kind == WORK_COPY && work->staged == NULL &&
                overlap(work->src, work->size, va, size));
    }
    if (work->kind == WORK_KERNEL) {
        for (size_t i = 0; i < work->kernel->count; i++) {
            if (overlap(work->kernel->ranges[i].va, work->kernel->ranges[i].size, va, size)) {
                return true;
            }
        }
    }
    return false;
}

static bool reported_pending(const struct stream *stream, uintptr_t va, size_t size, enum fn fn)
{
    for (const struct op *op = stream->head; op != NULL; op = op->next) {
        if (work_touches(&op->work, va, size)) {
            violation("lifetime",
                      "%s of %zu bytes at %p while %s of stream %llu (operation %llu), which uses "
                      "them, is pending",
                      function_name(fn), size, (void *)va, function_name(op->fn),
                      (unsigned long long)op->stream_id, (unsigned long long)op->seq);
            return true;
        }
    }
    return false;
}

/* Memory goes away by a call that does not wait: nothing may still use it. */
void memory_retire(uintptr_t va, size_t size, enum fn fn)
{
    const struct range *range = range_find(va);
    bool elsewhere = range != NULL && range->kind == RANGE_MAPPED && range->physical->refs > 2;
    bool reported = false;
    for (int d = 0; d < config.devices && !reported; d++) {
        for (const struct stream *s = devices[d].streams; s != NULL && !reported; s = s->next) {
            reported = s->head != NULL && reported_pending(s, va, size, fn);
        }
    }
    if (!reported && CHECKER_ON && !elsewhere) {
        checker_host_access(va, size, true, function_name(fn));
    }
    if (range == NULL || range->kind != RANGE_MAPPED) {
        checker_forget(va, size);
    }
}

/* ---- memset ---- */

static cudaError_t submit_memset(uintptr_t va, int value, size_t size, struct stream *stream,
                                 enum fn fn, bool synchronous)
{
    struct range *range;
    if (size == 0) {
        return capture_guard_legacy(stream);
    }
    cudaError_t err = memory_check(va, size, true, stream->device, &range);
    if (err != cudaSuccess || (range == NULL && !pageable_access(stream->device))) {
        return cudaErrorInvalidValue;
    }
    const struct work work = {.kind = WORK_MEMSET,
                              .value = value,
                              .dst = va,
                              .size = size,
                              .dst_serial = range == NULL ? 0 : range_backing(range)->serial};
    bool wait = synchronous && range != NULL &&
                (range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED);
    err = stream_submit(stream, &work, fn);
    if (err == cudaSuccess && wait && stream->capture == NULL) {
        engine_wait_last(stream);
    }
    return err;
}

cudaError_t memset_async(void *ptr, int value, size_t count, cudaStream_t handle, enum fn fn)
{
    struct stream *stream;
    cudaError_t err = stream_find(handle, &stream);
    return err != cudaSuccess ? err
                              : submit_memset((uintptr_t)ptr, value, count, stream, fn, false);
}

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    BEGIN(cudaMemset, 0);
    engine_mischief();
    struct stream *stream;
    err = stream_find(cudaStreamLegacy, &stream);
    END(err != cudaSuccess ? err
                           : submit_memset((uintptr_t)devPtr, value, count, stream, this_fn, true));
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    BEGIN(cudaMemsetAsync, 0);
    engine_mischief();
    END(memset_async(devPtr, value, count, stream, this_fn));
}

/* ---- copies ---- */

struct sides {
    struct range *dst, *src;
};

static bool host_side(const struct range *range)
{
    return range == NULL || range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED;
}

static cudaError_t check_direction(const struct sides *sides, enum cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return host_side(sides->dst) && host_side(sides->src) ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemcpyHostToDevice:
        return sides->dst == NULL ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToHost:
        return sides->src == NULL ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDeviceToDevice:
        return sides->dst == NULL || sides->src == NULL ? cudaErrorInvalidValue : cudaSuccess;
    case cudaMemcpyDefault:
        return cudaSuccess;
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t check_copy(uintptr_t dst, uintptr_t src, size_t size, enum cudaMemcpyKind kind,
                              struct sides *sides)
{
    if ((unsigned)kind > cudaMemcpyDefault) {
        return cudaErrorInvalidMemcpyDirection;
    }
    cudaError_t err = memory_check(dst, size, true, NULL, &sides->dst);
    if (err == cudaSuccess) {
        err = memory_check(src, size, false, NULL, &sides->src);
    }
    return err == cudaSuccess ? check_direction(sides, kind) : err;
}

/* Whether the call returns only when the copy is done. */
static bool copy_waits(const struct sides *sides, size_t size, bool synchronous)
{
    bool to_host = host_side(sides->dst);
    bool from_host = host_side(sides->src);
    if (synchronous) {
        return to_host || from_host;
    }
    if ((to_host && from_host) || sides->dst == NULL) {
        return true;
    }
    return sides->src == NULL && (size > STAGED_LIMIT || config.pageable_waits);
}

static cudaError_t submit_copy(uintptr_t dst, uintptr_t src, size_t size, enum cudaMemcpyKind kind,
                               struct stream *stream, enum fn fn, bool synchronous)
{
    struct sides sides;
    if (size == 0) {
        return (unsigned)kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection
                                                  : capture_guard_legacy(stream);
    }
    cudaError_t err = check_copy(dst, src, size, kind, &sides);
    if (err != cudaSuccess) {
        return err;
    }
    struct work work = {.kind = WORK_COPY,
                        .dst = dst,
                        .src = src,
                        .size = size,
                        .dst_serial = sides.dst == NULL ? 0 : range_backing(sides.dst)->serial,
                        .src_serial = sides.src == NULL ? 0 : range_backing(sides.src)->serial};
    bool capturing = stream->capture != NULL;
    bool wait = !capturing && copy_waits(&sides, size, synchronous);
    if (sides.src == NULL && !wait && !capturing) {
        work.staged = malloc(size);
        if (work.staged == NULL) {
            return cudaErrorMemoryAllocation;
        }
        memcpy(work.staged, (const void *)src, size);
    }
    err = stream_submit(stream, &work, fn);
    if (err != cudaSuccess) {
        work_release(&work);
        return err;
    }
    if (wait) {
        engine_wait_last(stream);
        return device_sticky();
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    BEGIN(cudaMemcpy, 0);
    engine_mischief();
    struct stream *stream;
    err = stream_find(cudaStreamLegacy, &stream);
    END(err != cudaSuccess
            ? err
            : submit_copy((uintptr_t)dst, (uintptr_t)src, count, kind, stream, this_fn, true));
}

cudaError_t memcpy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                         cudaStream_t handle, enum fn fn)
{
    struct stream *stream;
    cudaError_t err = stream_find(handle, &stream);
    return err != cudaSuccess
               ? err
               : submit_copy((uintptr_t)dst, (uintptr_t)src, count, kind, stream, fn, false);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    BEGIN(cudaMemcpyAsync, 0);
    engine_mischief();
    END(memcpy_async(dst, src, count, kind, stream, this_fn));
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    BEGIN(cudaMemcpyPeer, 0);
    engine_mischief();
    if (!device_valid(dstDevice) || !device_valid(srcDevice)) {
        END(cudaErrorInvalidDevice);
    }
    struct stream *stream;
    err = stream_find(cudaStreamLegacy, &stream);
    END(err != cudaSuccess ? err
                           : submit_copy((uintptr_t)dst, (uintptr_t)src, count,
                                         cudaMemcpyDeviceToDevice, stream, this_fn, true));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    BEGIN(cudaMemcpyPeerAsync, 0);
    engine_mischief();
    if (!device_valid(dstDevice) || !device_valid(srcDevice)) {
        END(cudaErrorInvalidDevice);
    }
    END(memcpy_async(dst, src, count, cudaMemcpyDeviceToDevice, stream, this_fn));
}
