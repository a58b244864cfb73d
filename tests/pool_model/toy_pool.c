/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool for testing the checker: powers of two, one lock, an event for each free block. It keeps
 * to the rules unless it is told to break one.
 */
#include <pthread.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/interfaces/resource.h>
#include <crmm/internal/floor_event.h>

#include "subject.h"

enum { CLASSES = 48, SMALLEST = 256, CHUNK = 4 << 20, CHUNKS = 1024, LARGEST_ALIGNMENT = 1 << 21 };

typedef struct toy_block {
    struct toy_block *next;
    char *ptr;
    uint64_t stream; /* where it was given back */
    crmm_stream handle;
    crmm_priv_event event; /* recorded there; NULL: nothing is pending */
    bool is_stranded;      /* nobody knows when it is complete */
} toy_block;

typedef struct toy_pool {
    struct crmm_resource base;
    crmm_resource *upstream;
    unsigned flaws;
    size_t maximum;
    pthread_mutex_t mutex;
    crmm_memory_info info;
    toy_block *free[CLASSES];
    char *bump;
    size_t bump_bytes;
    struct {
        void *base;
        size_t bytes;
    } chunks[CHUNKS];
    size_t chunk_count;
} toy_pool;

static unsigned class_of(size_t bytes, size_t alignment)
{
    size_t most = bytes > alignment ? bytes : alignment;

    most = most > SMALLEST ? most : SMALLEST;
    return 64 - (unsigned)__builtin_clzll(most - 1);
}

static size_t size_of(unsigned class_number)
{
    return (size_t)1 << class_number;
}

static crmm_status refuse(const char *why)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, why);
}

/* ---- new memory ---- */

static crmm_status add_chunk(toy_pool *pool, size_t bytes)
{
    size_t size = bytes > CHUNK ? bytes : CHUNK;
    void *base = NULL;

    if (pool->chunk_count == CHUNKS ||
        (pool->maximum != 0 && size > pool->maximum - pool->info.held)) {
        return refuse("the maximum is reached");
    }
    crmm_status status = crmm_allocate_sync(pool->upstream, size, LARGEST_ALIGNMENT, &base);
    if (status == CRMM_SUCCESS) {
        pool->chunks[pool->chunk_count].base = base;
        pool->chunks[pool->chunk_count++].bytes = size;
        pool->bump = base;
        pool->bump_bytes = size;
        pool->info.held += size;
        pool->info.peak_held = pool->info.held;
    }
    return status;
}

static crmm_status carve(toy_pool *pool, size_t size, char **ptr)
{
    size_t skip = (size - (uintptr_t)pool->bump % size) % size;
    crmm_status status = CRMM_SUCCESS;

    if (skip + size > pool->bump_bytes) {
        status = add_chunk(pool, size);
        skip = 0;
    }
    if (status == CRMM_SUCCESS) {
        size_t step = (pool->flaws & TOY_SHORT_STEP) != 0 && size > SMALLEST ? size / 2 : size;
        *ptr = pool->bump + skip;
        pool->bump += skip + step;
        pool->bump_bytes -= skip + step;
    }
    return status;
}

/* ---- memory that was given back ---- */

static void forget_event(toy_block *block)
{
    if (block->event != NULL) {
        (void)crmm_priv_event_destroy(block->event);
        block->event = NULL;
    }
}

static char *take_out(toy_block **link)
{
    toy_block *block = *link;
    char *ptr = block->ptr;

    *link = block->next;
    forget_event(block);
    free(block);
    return ptr;
}

/* The first block that can be had at once: the stream's own, or one that is complete. */
static char *take_ready(toy_pool *pool, unsigned class_number, const uint64_t *stream)
{
    for (toy_block **link = &pool->free[class_number]; *link != NULL; link = &(*link)->next) {
        toy_block *block = *link;
        if ((stream != NULL && block->stream == *stream) ||
            (!block->is_stranded && block->event == NULL)) {
            return take_out(link);
        }
    }
    for (toy_block **link = &pool->free[class_number]; *link != NULL; link = &(*link)->next) {
        if ((*link)->event != NULL && crmm_priv_event_query((*link)->event) == 0) {
            return take_out(link);
        }
    }
    return NULL;
}

static int make_wait(const toy_pool *pool, toy_block *block, const crmm_stream *stream)
{
    int code = 0;

    if ((pool->flaws & TOY_LATE_RECORD) != 0) {
        code = crmm_priv_event_record(block->event, block->handle);
    }
    if (code == 0 && stream != NULL && (pool->flaws & TOY_NO_WAIT) == 0) {
        code = crmm_priv_stream_wait_event(*stream, block->event);
    }
    if (code == 0 && stream == NULL && (pool->flaws & TOY_SYNC_PENDING) == 0) {
        code = crmm_priv_event_synchronize(block->event);
    }
    return code;
}

/* Mark what is queued on a block's stream now. */
static void mark(toy_block *block)
{
    if (crmm_priv_event_create(block->handle, &block->event) != 0) {
        block->event = NULL;
        block->is_stranded = true;
    } else if (crmm_priv_event_record(block->event, block->handle) != 0) {
        forget_event(block);
        block->is_stranded = true;
    }
}

/*
 * A stream that has waited for another one's latest block has waited for the older ones behind it
 * too, and takes them over. Its wait is new work, which whoever takes them from it must wait for.
 */
static void take_over(toy_block *older, uint64_t from, uint64_t stream, crmm_stream handle)
{
    for (; older != NULL; older = older->next) {
        if (older->event != NULL && older->stream == from) {
            forget_event(older);
            older->stream = stream;
            older->handle = handle;
            mark(older);
        }
    }
}

static char *take_pending(toy_pool *pool, unsigned class_number, const crmm_stream *stream,
                          const uint64_t *id)
{
    bool is_stale = (pool->flaws & TOY_STALE_MARK) != 0;

    for (toy_block **link = &pool->free[class_number]; *link != NULL; link = &(*link)->next) {
        toy_block *block = *link;
        if (block->event == NULL) {
            continue;
        }
        if (stream != NULL && is_stale) {
            take_over(block->next, block->stream, *id, *stream);
        }
        if (make_wait(pool, block, stream) != 0) {
            continue;
        }
        if (stream != NULL && !is_stale) {
            take_over(block->next, block->stream, *id, *stream);
        }
        return take_out(link);
    }
    return NULL;
}

static crmm_status allocate(toy_pool *pool, const crmm_stream *stream, const uint64_t *id,
                            unsigned class_number, void **ptr)
{
    crmm_status status = CRMM_SUCCESS;

    (void)pthread_mutex_lock(&pool->mutex);
    char *found = take_ready(pool, class_number, id);
    if (found == NULL) {
        found = take_pending(pool, class_number, stream, id);
    }
    if (found == NULL) {
        status = carve(pool, size_of(class_number), &found);
    }
    if (status == CRMM_SUCCESS) {
        *ptr = found;
        pool->info.live += size_of(class_number);
        if (pool->info.peak_live < pool->info.live) {
            pool->info.peak_live = pool->info.live;
        }
        pool->info.allocations++;
    }
    (void)pthread_mutex_unlock(&pool->mutex);
    return status;
}

static void deallocate(toy_pool *pool, const crmm_stream *stream, uint64_t id, void *ptr,
                       unsigned class_number)
{
    toy_block *block = malloc(sizeof(*block));

    if (block == NULL) {
        abort();
    }
    *block = (toy_block){.ptr = ptr, .stream = id, .handle = stream != NULL ? *stream : NULL};
    (void)pthread_mutex_lock(&pool->mutex);
    if (stream != NULL) {
        mark(block);
    }
    block->next = pool->free[class_number];
    pool->free[class_number] = block;
    pool->info.live -= size_of(class_number);
    pool->info.allocations--;
    (void)pthread_mutex_unlock(&pool->mutex);
}

/* ---- operations ---- */

static crmm_status toy_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                size_t alignment, void **ptr)
{
    uint64_t id = crmm_priv_stream_id_of(stream);

    if (!crmm_priv_is_stream_id(id)) {
        return crmm_set_last_error(CRMM_ERROR_UNSUPPORTED, 0, "toy pool: the stream is captured");
    }
    return allocate((toy_pool *)resource, &stream, &id, class_of(bytes, alignment), ptr);
}

static crmm_status toy_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                     void **ptr)
{
    return allocate((toy_pool *)resource, NULL, NULL, class_of(bytes, alignment), ptr);
}

static void toy_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                           size_t alignment)
{
    uint64_t id = crmm_priv_stream_id_of(stream);

    if (!crmm_priv_is_stream_id(id)) {
        crmm_report_misuse(&(crmm_misuse){.struct_size = sizeof(crmm_misuse),
                                          .kind = CRMM_MISUSE_UNSUPPORTED,
                                          .message = "toy pool: the stream is captured"});
        return;
    }
    deallocate((toy_pool *)resource, &stream, id, ptr, class_of(bytes, alignment));
}

static void toy_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    deallocate((toy_pool *)resource, NULL, 0, ptr, class_of(bytes, alignment));
}

static void toy_destroy(crmm_resource *resource)
{
    toy_pool *pool = (toy_pool *)resource;

    if ((pool->flaws & TOY_EARLY_RELEASE) == 0) {
        while (crmm_priv_device_wait() != 0) {
        }
    }
    for (int i = 0; i < CLASSES; i++) {
        while (pool->free[i] != NULL) {
            (void)take_out(&pool->free[i]);
        }
    }
    for (size_t i = 0; i < pool->chunk_count; i++) {
        crmm_deallocate_sync(pool->upstream, pool->chunks[i].base, pool->chunks[i].bytes,
                             LARGEST_ALIGNMENT);
    }
    crmm_resource_release(&pool->upstream);
    (void)pthread_mutex_destroy(&pool->mutex);
    crmm_resource_storage_free(resource);
}

static crmm_status toy_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    (void)resource;
    (void)bytes_to_keep;
    *released = 0;
    return CRMM_SUCCESS;
}

static crmm_status toy_info(const crmm_resource *resource, crmm_memory_info *info)
{
    toy_pool *pool = (toy_pool *)(uintptr_t)resource;

    (void)pthread_mutex_lock(&pool->mutex);
    *info = pool->info;
    (void)pthread_mutex_unlock(&pool->mutex);
    info->struct_size = sizeof(*info);
    info->cached = info->held - info->live;
    return CRMM_SUCCESS;
}

static const crmm_resource_ops toy_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = toy_allocate_sync,
    .deallocate_sync = toy_deallocate_sync,
    .destroy = toy_destroy,
    .allocate = toy_allocate,
    .deallocate = toy_deallocate,
    .trim = toy_trim,
    .info = toy_info,
};

crmm_status toy_pool_create(crmm_resource *upstream, const subject_options *options, unsigned flaws,
                            crmm_resource **out)
{
    toy_pool *pool = crmm_resource_storage_allocate(sizeof(*pool));

    if (pool == NULL) {
        return refuse("no host memory");
    }
    crmm_resource_init(&pool->base, &toy_ops, "toy_pool",
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    pool->upstream = crmm_resource_retain(upstream);
    pool->flaws = flaws;
    pool->maximum = options->maximum_pool_size;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    *out = &pool->base;
    return CRMM_SUCCESS;
}
