/* SPDX-License-Identifier: Apache-2.0 */
#include "recording_resource.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_numbers.h"

struct recorded_block {
    recorded_block *next;
    unsigned char *memory; /* what the heap gave, with a guard before and behind the block */
    unsigned size;         /* its size is 2^this */
    void *ptr;
    size_t bytes;
    size_t alignment;
};

static _Thread_local bool expected_sync;
static _Thread_local crmm_stream expected_stream;

void recording_expect(bool sync, crmm_stream stream)
{
    expected_sync = sync;
    expected_stream = stream;
}

/* ---- what is wrong; the mutex is held ---- */

__attribute__((format(printf, 2, 3))) static void note(recording_resource *recording,
                                                       const char *format, ...)
{
    va_list arguments;

    if (recording->wrong++ == 0) {
        va_start(arguments, format);
        (void)vsnprintf(recording->first_wrong, sizeof(recording->first_wrong), format, arguments);
        va_end(arguments);
    }
}

static void check_kind(recording_resource *recording, bool sync, crmm_stream stream)
{
    if (sync != expected_sync || (!sync && stream != expected_stream)) {
        note(recording, "a call was made as %s, stream %p, and arrived as %s, stream %p",
             expected_sync ? "sync" : "async", (void *)expected_stream, sync ? "sync" : "async",
             (void *)stream);
    }
}

static recorded_block **bucket_of(recording_resource *recording, const void *ptr)
{
    return &recording->buckets[((uintptr_t)ptr >> 4) % RECORDING_BUCKETS];
}

/* ---- allocation ---- */

/* Whether a call is to be refused, and how; CRMM_SUCCESS: by success with NULL. */
static bool is_refused(const recording_resource *recording, crmm_status *status)
{
    static const crmm_status ways[] = {CRMM_ERROR_OUT_OF_MEMORY, CRMM_ERROR_BAD_ALLOC,
                                       CRMM_ERROR_CUDA, CRMM_SUCCESS};
    uint64_t state = recording->seed + recording->allocations;

    *status = CRMM_ERROR_OUT_OF_MEMORY;
    if (recording->fail_call != 0 && recording->fail_call == recording->allocations) {
        return true;
    }
    *status = ways[random_below(&state, sizeof(ways) / sizeof(ways[0]))];
    return random_below(&state, 1000) < recording->fail_per_thousand;
}

/* Around each block, as much as an adaptor could be wrong by at most. Memory is aligned to twice
 * the alignment of any block, which lies at an odd multiple of its own. */
enum { GUARD_BYTES = 512, GUARD = 0xA5, MEMORY_ALIGNMENT = 2 * RECORDING_ALIGNMENT };

/* Memory of 2^`size` bytes, aligned to more than any block. */
static unsigned char *take_memory(recording_resource *recording, unsigned size)
{
    unsigned char *memory = recording->spare[size];

    recording->spare[size] = NULL;
    return memory != NULL ? memory : aligned_alloc(MEMORY_ALIGNMENT, (size_t)1 << size);
}

static void give_memory(recording_resource *recording, unsigned char *memory, unsigned size)
{
    free(recording->spare[size]);
    recording->spare[size] = memory;
}

static recorded_block *make_block(recording_resource *recording, size_t bytes, size_t alignment)
{
    size_t before = MEMORY_ALIGNMENT + alignment;
    unsigned size = 0;
    recorded_block *block = calloc(1, sizeof(*block));

    while ((size_t)1 << size < before + bytes + GUARD_BYTES) {
        size++;
    }
    unsigned char *memory = block == NULL ? NULL : take_memory(recording, size);
    if (memory == NULL) {
        free(block);
        return NULL;
    }
    memset(memory, GUARD, before);
    memset(memory + before + bytes, GUARD, GUARD_BYTES);
    *block = (recorded_block){.memory = memory,
                              .size = size,
                              .ptr = memory + before,
                              .bytes = bytes,
                              .alignment = alignment};
    return block;
}

static bool has_its_guards(const recorded_block *block)
{
    const unsigned char *ptr = block->ptr;
    bool good = true;

    for (const unsigned char *byte = block->memory; byte < ptr; byte++) {
        good &= *byte == GUARD;
    }
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        good &= ptr[block->bytes + i] == GUARD;
    }
    return good;
}

static void enter(recording_resource *recording, recorded_block *block)
{
    recorded_block **bucket = bucket_of(recording, block->ptr);

    block->next = *bucket;
    *bucket = block;
    recording->live_blocks++;
    recording->live_bytes += block->bytes;
    if (recording->live_bytes > recording->peak_bytes) {
        recording->peak_bytes = recording->live_bytes;
    }
}

static crmm_status allocate(recording_resource *recording, size_t bytes, size_t alignment,
                            void **ptr)
{
    crmm_status status = CRMM_SUCCESS;

    recording->allocations++;
    if (is_refused(recording, &status)) {
        recording->refused++;
        *ptr = NULL;
        return status == CRMM_SUCCESS
                   ? status
                   : crmm_set_last_error(status, 0, "the recording resource was told to fail");
    }
    if (alignment > RECORDING_ALIGNMENT) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0,
                                   "the recording resource gives no more than 256");
    }
    recorded_block *block =
        bytes > RECORDING_MOST_BYTES ? NULL : make_block(recording, bytes, alignment);
    if (block == NULL) {
        return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "no memory for so much");
    }
    enter(recording, block);
    *ptr = block->ptr;
    return CRMM_SUCCESS;
}

static crmm_status recording_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                      size_t alignment, void **ptr)
{
    recording_resource *recording = (recording_resource *)resource;

    pthread_mutex_lock(&recording->mutex);
    check_kind(recording, false, stream);
    crmm_status status = allocate(recording, bytes, alignment, ptr);
    pthread_mutex_unlock(&recording->mutex);
    return status;
}

static crmm_status recording_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                           void **ptr)
{
    recording_resource *recording = (recording_resource *)resource;

    pthread_mutex_lock(&recording->mutex);
    check_kind(recording, true, NULL);
    crmm_status status = allocate(recording, bytes, alignment, ptr);
    pthread_mutex_unlock(&recording->mutex);
    return status;
}

/* ---- deallocation ---- */

/* Take a block out; NULL: it is unknown, or comes back otherwise than it went. */
static recorded_block *take(recording_resource *recording, const void *ptr, size_t bytes,
                            size_t alignment)
{
    recorded_block **link = bucket_of(recording, ptr);

    while (*link != NULL && (*link)->ptr != ptr) {
        link = &(*link)->next;
    }
    recorded_block *block = *link;
    if (block == NULL) {
        note(recording, "%p (%zu, %zu) came back and was never given", ptr, bytes, alignment);
        return NULL;
    }
    if (block->bytes != bytes || block->alignment != alignment) {
        note(recording, "%p was given as (%zu, %zu) and came back as (%zu, %zu)", ptr, block->bytes,
             block->alignment, bytes, alignment);
        return NULL;
    }
    if (!has_its_guards(block)) {
        note(recording, "memory around a block of %zu bytes was written to", bytes);
    }
    *link = block->next;
    recording->live_blocks--;
    recording->live_bytes -= bytes;
    return block;
}

static void deallocate(recording_resource *recording, bool sync, crmm_stream stream,
                       const void *ptr, size_t bytes, size_t alignment)
{
    pthread_mutex_lock(&recording->mutex);
    check_kind(recording, sync, stream);
    recorded_block *block = take(recording, ptr, bytes, alignment);
    if (block != NULL) {
        give_memory(recording, block->memory, block->size);
    }
    pthread_mutex_unlock(&recording->mutex);
    free(block);
    (void)sched_yield(); /* let another thread have the address before this one returns */
}

static void recording_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                 size_t bytes, size_t alignment)
{
    deallocate((recording_resource *)resource, false, stream, ptr, bytes, alignment);
}

static void recording_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                      size_t alignment)
{
    deallocate((recording_resource *)resource, true, NULL, ptr, bytes, alignment);
}

/* ---- its life ---- */

static void recording_destroy(crmm_resource *resource)
{
    ((recording_resource *)resource)->destroyed = true;
}

static const crmm_resource_ops recording_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = recording_allocate_sync,
    .deallocate_sync = recording_deallocate_sync,
    .destroy = recording_destroy,
    .allocate = recording_allocate,
    .deallocate = recording_deallocate,
};

void recording_resource_init(recording_resource *recording, crmm_properties properties)
{
    memset(recording, 0, sizeof(*recording));
    pthread_mutex_init(&recording->mutex, NULL);
    crmm_resource_init(&recording->base, &recording_ops, "recording_resource", properties);
}

void recording_resource_finish(recording_resource *recording)
{
    for (size_t i = 0; i < RECORDING_BUCKETS; i++) {
        while (recording->buckets[i] != NULL) {
            recorded_block *block = recording->buckets[i];
            recording->buckets[i] = block->next;
            free(block->memory);
            free(block);
        }
    }
    for (size_t i = 0; i < RECORDING_SIZES; i++) {
        free(recording->spare[i]);
    }
    pthread_mutex_destroy(&recording->mutex);
}
