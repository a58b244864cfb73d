/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include "pool/failure.h"
#include "pool/fences.h"
#include "pool/kind.h"
#include "pool/memory.h"
#include "pool/park.h"
#include "pool/refuse.h"
#include "pool/registry.h"
#include "pool/serve.h"
#include "pool/settle.h"
#include "pool/stream_id.h"
#include "pool/wait.h"

static crmm_priv_pool *pool_of(crmm_resource *resource)
{
    return (crmm_priv_pool *)resource;
}

/* ---- allocation ---- */

/* Of a block: sizes are counted in 30 bits. */
static const size_t MOST_BYTES = (size_t)(UINT32_MAX / 4) << CRMM_PRIV_POOL_GRANULE_SHIFT;

static uint32_t granules_of(size_t bytes)
{
    return (uint32_t)((bytes + CRMM_PRIV_POOL_GRANULE - 1) >> CRMM_PRIV_POOL_GRANULE_SHIFT);
}

static inline bool is_cached(const crmm_priv_pool *pool, size_t bytes, size_t alignment)
{
    return bytes <= pool->largest_cached && alignment <= CRMM_PRIV_POOL_GRANULE;
}

/* Large blocks, and those with an alignment of their own. */
static inline crmm_status allocate_direct(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                          crmm_stream stream, size_t bytes, size_t alignment,
                                          void **ptr)
{
    size_t granules =
        alignment > CRMM_PRIV_POOL_GRANULE ? alignment >> CRMM_PRIV_POOL_GRANULE_SHIFT : 1;

    if (bytes > pool->maximum || bytes > MOST_BYTES || alignment > MOST_BYTES) {
        return crmm_priv_pool_fail_too_large(
            pool, bytes, alignment, pool->maximum < MOST_BYTES ? pool->maximum : MOST_BYTES);
    }
    void *block = NULL;
    crmm_priv_pool_growth growth = crmm_priv_pool_serve_direct(
        pool, cache, stream, granules_of(bytes), (uint32_t)granules, &block);
    if (block == NULL) {
        return crmm_priv_pool_fail(pool, bytes, granules_of(bytes), growth);
    }
    *ptr = block;
    return CRMM_SUCCESS;
}

/* A large block that is parked. Where none has the size they all go to their heaps: a place is
 * chosen among all that is free. */
static void *allocate_parked(crmm_priv_pool_cache *cache, size_t bytes, size_t alignment)
{
    void *block = NULL;

    if (bytes <= MOST_BYTES && alignment <= CRMM_PRIV_POOL_GRANULE) {
        block = crmm_priv_pool_park_take(cache, granules_of(bytes));
    }
    if (block == NULL) {
        (void)crmm_priv_pool_park_flush(cache);
    }
    return block;
}

/* A block of a class for the program. */
__attribute__((noinline)) static crmm_status hand_out(crmm_priv_pool_cache *cache,
                                                      size_t class_index, void *block, void **ptr)
{
    (void)crmm_priv_pool_cache_find_chunk(cache, block);
    crmm_priv_pool_mark_live(&cache->marks, crmm_priv_pool_cache_granule(cache, block),
                             class_index);
    *ptr = block;
    return CRMM_SUCCESS;
}

/* The cache has no block of the class: fetch one, and a few for later. */
__attribute__((noinline)) static crmm_status allocate_missed(crmm_priv_pool *pool,
                                                             crmm_priv_pool_cache *cache,
                                                             crmm_stream stream, size_t class_index,
                                                             size_t bytes, void **ptr)
{
    void *extra[CRMM_PRIV_POOL_MOST_SMALL];
    void *block = NULL;

    uint32_t more = crmm_priv_pool_cache_missed(cache, class_index);

    crmm_priv_pool_growth growth = crmm_priv_pool_serve(
        pool, cache, stream, crmm_priv_pool_class_size(class_index), &block, extra, &more);
    if (block == NULL) {
        return crmm_priv_pool_fail(pool, bytes, crmm_priv_pool_class_size(class_index), growth);
    }
    if (more > 0) {
        more = crmm_priv_pool_cache_fill(cache, class_index, extra, more);
    }
    if (more > 0) {
        crmm_priv_pool_give_to_heaps(pool, extra, more, crmm_priv_pool_cache_owner(cache),
                                     crmm_priv_pool_cache_epoch(cache));
    }
    return hand_out(cache, class_index, block, ptr);
}

/* Somebody else looks at the cache just now, or could. */
__attribute__((noinline)) static crmm_status allocate_locked(crmm_priv_pool *pool,
                                                             crmm_priv_pool_cache *cache,
                                                             crmm_stream stream, size_t class_index,
                                                             size_t bytes, void **ptr)
{
    void *block = crmm_priv_pool_cache_get(cache, class_index);

    return block == NULL ? allocate_missed(pool, cache, stream, class_index, bytes, ptr)
                         : hand_out(cache, class_index, block, ptr);
}

/* The cache has to be found or made first, and mostly has nothing in it then. */
__attribute__((noinline)) static crmm_status allocate_slow(crmm_priv_pool *pool, crmm_stream stream,
                                                           uint64_t id, size_t class_index,
                                                           size_t bytes, void **ptr)
{
    if (crmm_priv_pool_is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        return crmm_priv_pool_refuse(pool, stream, bytes, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_find_cache(pool, id, stream);
    if (cache == NULL) {
        return crmm_priv_pool_no_host_memory(pool, bytes);
    }
    return allocate_locked(pool, cache, stream, class_index, bytes, ptr);
}

/* Large blocks, and those with an alignment of their own. */
__attribute__((always_inline)) static inline crmm_status allocate_uncached_for(
    crmm_priv_pool *pool, crmm_stream stream, uint64_t id, size_t bytes, size_t alignment,
    void **ptr)
{
    if (crmm_priv_pool_is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        return crmm_priv_pool_refuse(pool, stream, bytes, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_cache_of(pool, id);
    if (cache == NULL) {
        cache = crmm_priv_pool_find_cache(pool, id, stream);
    }
    if (cache == NULL) {
        return crmm_priv_pool_no_host_memory(pool, bytes);
    }
    if (bytes > pool->largest_cached && crmm_priv_pool_has_parked(cache)) {
        void *parked = allocate_parked(cache, bytes, alignment);
        if (parked != NULL) {
            *ptr = parked;
            return CRMM_SUCCESS;
        }
    }
    return allocate_direct(pool, cache, stream, bytes, alignment, ptr);
}

__attribute__((noinline)) static crmm_status allocate_uncached(crmm_priv_pool *pool,
                                                               crmm_stream stream, size_t bytes,
                                                               size_t alignment, void **ptr)
{
    return allocate_uncached_for(pool, stream, crmm_priv_pool_id_of(pool, stream), bytes, alignment,
                                 ptr);
}

/* The path that is meant to be taken: few instructions, and what is not on it is called last. The
 * bytes, beside their class, are what an error says was asked for. */
static inline crmm_status allocate_cached(crmm_priv_pool *pool, crmm_stream stream, uint64_t id,
                                          size_t class_index, size_t bytes, void **ptr)
{
    crmm_priv_pool_cache *cache = crmm_priv_pool_cache_of(pool, id);

    if (__builtin_expect(cache == NULL, 0)) {
        return allocate_slow(pool, stream, id, class_index, bytes, ptr);
    }
    if (__builtin_expect(!crmm_priv_bias_enter(&cache->lock), 0)) {
        return allocate_locked(pool, cache, stream, class_index, bytes, ptr);
    }
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    if (__builtin_expect(shelf->next == shelf->first, 0)) {
        crmm_priv_bias_leave(&cache->lock);
        return allocate_missed(pool, cache, stream, class_index, bytes, ptr);
    }
    void *block = crmm_priv_pool_cache_pop(cache, shelf);
    crmm_priv_bias_leave(&cache->lock);
    size_t granule = crmm_priv_pool_cache_granule(cache, block);
    if (__builtin_expect(granule >= cache->chunk_granules, 0)) {
        return hand_out(cache, class_index, block, ptr);
    }
    crmm_priv_pool_mark_live(&cache->marks, granule, class_index);
    *ptr = block;
    return CRMM_SUCCESS;
}

crmm_status crmm_priv_pool_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr)
{
    crmm_priv_pool *pool = pool_of(resource);

    if (__builtin_expect(!is_cached(pool, bytes, alignment), 0)) {
        return allocate_uncached(pool, stream, bytes, alignment, ptr);
    }
    size_t class_index = crmm_priv_pool_class_of_bytes(bytes);
    return allocate_cached(pool, stream, crmm_priv_pool_id_of(pool, stream), class_index, bytes,
                           ptr);
}

crmm_status crmm_priv_pool_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr)
{
    crmm_priv_pool *pool = pool_of(resource);

    if (!is_cached(pool, bytes, alignment)) {
        return allocate_uncached_for(pool, NULL, CRMM_PRIV_POOL_NO_STREAM, bytes, alignment, ptr);
    }
    return allocate_cached(pool, NULL, CRMM_PRIV_POOL_NO_STREAM,
                           crmm_priv_pool_class_of_bytes(bytes), bytes, ptr);
}

/* ---- deallocation ---- */

/* Whether a block of allocate_direct() can begin there. */
static bool may_be_direct(const void *ptr, size_t bytes)
{
    return (uintptr_t)ptr % CRMM_PRIV_POOL_GRANULE == 0 && bytes <= MOST_BYTES;
}

/* The heap that a block would lie in; NULL: in none, or it is none of allocate_direct(). */
static crmm_priv_pool_heap *heap_of_direct(crmm_priv_pool_cache *cache, const void *ptr,
                                           size_t bytes)
{
    if (!may_be_direct(ptr, bytes)) {
        return NULL;
    }
    bool found = crmm_priv_pool_cache_granule(cache, ptr) < cache->chunk_granules ||
                 crmm_priv_pool_cache_find_chunk(cache, ptr);
    return found ? cache->chunk_heap : NULL;
}

/* The counterpart of allocate_direct(): the block is parked, or goes to its heap. Whether there is
 * such a block, and whether it is time for crmm_priv_pool_cache_fence(). */
static bool release_direct(crmm_priv_pool *pool, crmm_priv_pool_cache *cache, void *ptr,
                           size_t bytes, bool *is_time)
{
    crmm_priv_pool_heap *heap = heap_of_direct(cache, ptr, bytes);
    uint64_t epoch = crmm_priv_pool_cache_now(cache);
    bool is_large = bytes > pool->largest_cached;
    bool may_park = is_large && crmm_priv_pool_may_park(cache);

    if (heap == NULL) {
        return false;
    }
    if (is_large && !may_park && crmm_priv_pool_has_parked(cache)) {
        (void)crmm_priv_pool_park_flush(cache); /* it was allowed before */
    }
    crmm_priv_pool_heap_lock(heap);
    uint32_t index = crmm_priv_pool_take_over(heap, ptr, granules_of(bytes));
    if (index == 0) {
        crmm_priv_pool_heap_unlock(heap);
        return false;
    }
    bool is_parked = may_park && crmm_priv_pool_lived_shortly(heap, index);
    if (!is_parked) {
        crmm_priv_pool_release_to(pool, heap, index, crmm_priv_pool_cache_owner(cache), epoch);
    }
    if (is_large) {
        crmm_priv_pool_heap_return(heap);
    }
    uint32_t turn = is_large && !is_parked ? crmm_priv_pool_heap_turn(heap) : heap->turn;
    crmm_priv_pool_heap_unlock(heap);
    /* Until it is parked it counts as in use, and nobody finds it. */
    *is_time = is_parked ? crmm_priv_pool_park(cache,
                                               &(crmm_priv_pool_parked){.block = ptr,
                                                                        .heap = heap,
                                                                        .index = index,
                                                                        .size = granules_of(bytes)},
                                               turn)
                         : crmm_priv_pool_cache_note(cache, bytes, turn);
    return true;
}

__attribute__((noinline)) static void deallocate_direct(crmm_priv_pool *pool,
                                                        crmm_priv_pool_cache *cache,
                                                        crmm_stream stream, void *ptr, size_t bytes,
                                                        size_t alignment)
{
    bool is_time = false;

    if (!release_direct(pool, cache, ptr, bytes, &is_time)) {
        crmm_priv_pool_report_block(pool, ptr, bytes, alignment);
    } else if (is_time) {
        crmm_priv_pool_cache_fence(cache, stream);
    }
}

/* A block that was found to be right goes to a shelf that is full, or that somebody else looks at.
 */
__attribute__((noinline)) static void put_back(crmm_priv_pool_cache *cache, crmm_stream stream,
                                               size_t class_index, void *ptr)
{
    if (crmm_priv_pool_cache_put(cache, class_index, ptr)) {
        crmm_priv_pool_cache_look(cache, stream);
    }
}

/* A block of allocate_direct() goes to its heap, marked as nobody's. false: there is no such block.
 */
static bool release_stranded(const crmm_priv_pool *pool, crmm_priv_pool_heap *heap, void *ptr,
                             size_t bytes, uint64_t epoch)
{
    if (!may_be_direct(ptr, bytes)) {
        return false;
    }
    crmm_priv_pool_heap_lock(heap);
    uint32_t index = crmm_priv_pool_take_over(heap, ptr, granules_of(bytes));
    if (index != 0) {
        crmm_priv_pool_release_to(pool, heap, index, CRMM_PRIV_POOL_STRANDED, epoch);
    }
    crmm_priv_pool_heap_unlock(heap);
    return index != 0;
}

/* The same for any block: no cache can be made. */
__attribute__((noinline, cold)) static void deallocate_stranded(crmm_priv_pool *pool, void *ptr,
                                                                size_t bytes, size_t alignment)
{
    crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    uint64_t epoch = __atomic_load_n(&pool->stranded_epoch, __ATOMIC_ACQUIRE);
    bool right = false;

    if (!is_cached(pool, bytes, alignment)) {
        if (chunk == NULL || !release_stranded(pool, chunk->heap, ptr, bytes, epoch)) {
            crmm_priv_pool_report_block(pool, ptr, bytes, alignment);
        }
        return;
    }
    if (chunk != NULL) {
        right = ((uintptr_t)ptr - chunk->base) % CRMM_PRIV_POOL_GRANULE == 0 &&
                crmm_priv_pool_mark_free(
                    &chunk->marks, ((uintptr_t)ptr - chunk->base) >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                    crmm_priv_pool_class_of_bytes(bytes));
    }
    if (!right) {
        crmm_priv_pool_report_block(pool, ptr, bytes, alignment);
        return;
    }
    crmm_priv_pool_give_to_heaps(pool, &ptr, 1, CRMM_PRIV_POOL_STRANDED, epoch);
}

void crmm_priv_pool_deallocate_known(crmm_priv_pool *pool, crmm_stream stream, uint64_t id,
                                     void *ptr, size_t bytes, size_t alignment)
{
    crmm_priv_pool_cache *cache = crmm_priv_pool_cache_of(pool, id);

    if (cache == NULL) {
        cache = crmm_priv_pool_find_cache(pool, id, stream);
    } else {
        crmm_priv_pool_remember_handle(pool, cache, stream);
    }
    if (cache == NULL) {
        deallocate_stranded(pool, ptr, bytes, alignment);
        return;
    }
    if (!is_cached(pool, bytes, alignment)) {
        deallocate_direct(pool, cache, stream, ptr, bytes, alignment);
        return;
    }
    size_t class_index = crmm_priv_pool_class_of_bytes(bytes);
    bool right = crmm_priv_pool_cache_find_chunk(cache, ptr);
    size_t granule = crmm_priv_pool_cache_granule(cache, ptr);
    right = right && granule < cache->chunk_granules &&
            crmm_priv_pool_mark_free(&cache->marks, granule, class_index);
    if (!right) {
        crmm_priv_pool_report_block(pool, ptr, bytes, alignment);
        return;
    }
    put_back(cache, stream, class_index, ptr);
}

/* The cache has to be found or made, waited for, or emptied; or something is wrong. */
__attribute__((noinline)) static void deallocate_slow(crmm_priv_pool *pool, crmm_stream stream,
                                                      bool is_sync, void *ptr, size_t bytes,
                                                      size_t alignment)
{
    uint64_t id = is_sync ? CRMM_PRIV_POOL_NO_STREAM : crmm_priv_pool_id_of(pool, stream);

    if (crmm_priv_pool_is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        crmm_priv_pool_report_stream(pool, stream, ptr, bytes, crmm_priv_stream_id_code(id));
        return;
    }
    crmm_priv_pool_deallocate_known(pool, stream, id, ptr, bytes, alignment);
}

static inline void deallocate_for(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                  crmm_stream stream, bool is_sync, void *ptr, size_t bytes,
                                  size_t alignment)
{
    if (__builtin_expect(cache == NULL, 0)) {
        deallocate_slow(pool, stream, is_sync, ptr, bytes, alignment);
        return;
    }
    if (__builtin_expect(!is_cached(pool, bytes, alignment), 0)) {
        deallocate_direct(pool, cache, stream, ptr, bytes, alignment);
        return;
    }
    size_t class_index = crmm_priv_pool_class_of_bytes(bytes);
    size_t granule = crmm_priv_pool_cache_granule(cache, ptr);
    if (__builtin_expect(granule >= cache->chunk_granules ||
                             !crmm_priv_pool_mark_free(&cache->marks, granule, class_index),
                         0)) {
        deallocate_slow(pool, stream, is_sync, ptr, bytes, alignment);
        return;
    }
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    if (__builtin_expect(!crmm_priv_bias_enter(&cache->lock), 0)) {
        put_back(cache, stream, class_index, ptr);
        return;
    }
    if (__builtin_expect(shelf->next == shelf->end, 0)) {
        crmm_priv_bias_leave(&cache->lock);
        put_back(cache, stream, class_index, ptr);
        return;
    }
    bool is_time = crmm_priv_pool_cache_push(cache, shelf, ptr);
    crmm_priv_bias_leave(&cache->lock);
    if (__builtin_expect(is_time, 0)) {
        crmm_priv_pool_cache_look(cache, stream);
    }
}

/* The identity is not asked for where the handle is known: only whether the stream is captured. */
void crmm_priv_pool_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment)
{
    crmm_priv_pool *pool = pool_of(resource);

    if (__builtin_expect(crmm_priv_pool_is_created(stream), 1)) {
        int code = crmm_priv_stream_check_capture(stream);
        if (__builtin_expect(code != 0, 0)) {
            crmm_priv_pool_report_stream(pool, stream, ptr, bytes, code);
            return;
        }
    } else if (stream == CRMM_STREAM_PER_THREAD) {
        /* Whether it is captured is told with its id. */
        deallocate_slow(pool, stream, false, ptr, bytes, alignment);
        return;
    }
    deallocate_for(pool, crmm_priv_pool_cache_behind(pool, stream), stream, false, ptr, bytes,
                   alignment);
}

void crmm_priv_pool_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment)
{
    crmm_priv_pool *pool = pool_of(resource);

    deallocate_for(pool, crmm_priv_pool_cache_of(pool, CRMM_PRIV_POOL_NO_STREAM), NULL, true, ptr,
                   bytes, alignment);
}

void crmm_priv_pool_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    crmm_priv_pool *pool = pool_of(resource);
    const crmm_priv_pool_chunk *chunk =
        crmm_priv_pool_is_forked(pool) ? NULL : crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    size_t bytes = chunk == NULL ? 0 : crmm_priv_pool_block_bytes(pool, chunk, ptr);

    if (crmm_priv_pool_is_forked(pool)) {
        crmm_priv_pool_report_stream(pool, stream, ptr, 0, 0);
    } else if (bytes == 0) {
        crmm_priv_pool_report_block(pool, ptr, 0, CRMM_PRIV_POOL_GRANULE);
    } else {
        /* A small block that did not come from a cache has an alignment of its own. */
        bool is_marked = crmm_priv_pool_marked_class(chunk, ptr) != UINT32_MAX;
        size_t alignment = is_marked ? CRMM_PRIV_POOL_GRANULE : CRMM_PRIV_POOL_GRANULE * 2;
        if (pool->is_stream_ordered) {
            crmm_priv_pool_deallocate(resource, stream, ptr, bytes, alignment);
        } else {
            crmm_priv_pool_deallocate_sync(resource, ptr, bytes, alignment);
        }
    }
}

/* ---- the other operations ---- */

crmm_status crmm_priv_pool_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    crmm_priv_pool *pool = pool_of(resource);
    size_t further = 0;

    if (crmm_priv_pool_is_forked(pool)) {
        return crmm_priv_pool_refuse(pool, NULL, 0, 0);
    }
    (void)crmm_priv_pool_flush_all(pool);
    crmm_priv_pool_pause_solo(pool);
    crmm_priv_pool_settle_streams(pool);
    *released = crmm_priv_pool_release(pool, bytes_to_keep);
    /* What is left may be free, but for work that nobody knows to be complete. */
    if (crmm_priv_pool_held(pool) > bytes_to_keep && !crmm_priv_pool_is_settled(pool) &&
        crmm_priv_pool_wait_for_all(pool) == 0) {
        *released += crmm_priv_pool_release(pool, bytes_to_keep);
    }
    crmm_priv_pool_resume_solo(pool);
    if (crmm_resource_trim(pool->upstream, bytes_to_keep, &further) == CRMM_SUCCESS &&
        !pool->is_in_place) {
        /* What went from the pool to an upstream that keeps it, and from there on, counts once. */
        *released = further > *released ? further : *released;
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_pool_memory_resource_retire_stream(crmm_resource *pool, crmm_stream stream)
{
    if (!crmm_priv_pool_is_pool(pool, "crmm_pool_memory_resource_retire_stream")) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    crmm_priv_pool *own = pool_of(pool);
    uint64_t id = crmm_priv_pool_is_forked(own) ? UINT64_MAX : crmm_priv_pool_id_of(own, stream);
    if (!crmm_priv_is_stream_id(id)) {
        return crmm_priv_pool_refuse(own, stream, 0, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_find_cache(own, id, stream);
    if (cache == NULL) {
        return crmm_priv_pool_no_host_memory(own, 0);
    }
    (void)crmm_priv_pool_flush_all(own);
    return crmm_priv_cuda_check("cuEventRecord",
                                crmm_priv_pool_stream_fence(&own->streams, cache->stream, stream));
}
