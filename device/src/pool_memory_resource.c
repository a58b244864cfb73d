/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>
#include <crmm/internal/validate.h>

#include "pool/fences.h"
#include "pool/guard.h"
#include "pool/kind.h"
#include "pool/memory.h"
#include "pool/registry.h"
#include "pool/serve.h"
#include "pool/settle.h"

static const char class_name[] = "pool_memory_resource";

static const size_t DEFAULT_PAGE = (size_t)4 << 20; /* see docs/pool.md for why */
static const size_t TIGHT_PAGE = (size_t)2 << 20;
static const size_t PAGE_UNIT = (size_t)2 << 20; /* the granularity of devices */

static crmm_priv_pool *pool_of(crmm_resource *resource)
{
    return (crmm_priv_pool *)resource;
}

/* ---- the process ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t generation; /* a forked child has a higher one than its parent */

static void note_fork(void)
{
    __atomic_store_n(&generation, generation + 1, __ATOMIC_RELAXED);
    crmm_priv_pool_forget_caches();
}

static void handle_forks(void)
{
    (void)pthread_atfork(NULL, NULL, note_fork);
}

/* A pool's locks may be held by threads that a forked child has not, and its memory is CUDA's. */
static bool is_forked(const crmm_priv_pool *pool)
{
    return pool->generation != __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

/* ---- streams ----
 * The legacy stream has a number of its own, since CUDA need not be asked about it. */

static inline bool is_created(crmm_stream stream)
{
    return (uintptr_t)stream > (uintptr_t)CRMM_STREAM_PER_THREAD;
}

/* The per-thread stream of the pool's device, whichever is current. */
static uint64_t per_thread_id(const crmm_priv_pool *pool)
{
    int previous = -1;
    int code = crmm_priv_cuda_try_enter_device(pool->device, &previous);

    if (code != 0) {
        return crmm_priv_no_stream_id(code);
    }
    uint64_t id = crmm_priv_stream_id_of(CRMM_STREAM_PER_THREAD);
    crmm_priv_cuda_leave_device(previous);
    return id;
}

__attribute__((noinline)) static uint64_t default_id(const crmm_priv_pool *pool, crmm_stream stream)
{
    return stream == CRMM_STREAM_PER_THREAD ? per_thread_id(pool) : CRMM_PRIV_POOL_LEGACY_STREAM;
}

/* What is no id is told apart by crmm_priv_is_stream_id(). */
static inline uint64_t id_of(const crmm_priv_pool *pool, crmm_stream stream)
{
    return __builtin_expect(is_created(stream), 1) ? crmm_priv_stream_id_of(stream)
                                                   : default_id(pool, stream);
}

__attribute__((noinline, cold)) static crmm_status refuse(const crmm_priv_pool *pool,
                                                          crmm_stream stream, size_t bytes,
                                                          int code)
{
    if (is_forked(pool)) {
        return FAIL_BYTES(CRMM_ERROR_FORKED, 0, bytes,
                          "%s: a pool cannot be used in a forked child of the process that made it",
                          crmm_priv_pool_name(pool));
    }
    if (code == CRMM_PRIV_CAPTURING) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: stream %p is being captured, and what a pool hands out in a capture "
                          "could not be given back in it",
                          crmm_priv_pool_name(pool), (void *)stream);
    }
    crmm_status status = crmm_priv_cuda_stream_failed(crmm_priv_pool_name(pool), stream, code);
    if (bytes > 0) {
        crmm_priv_fail_for(bytes, "no %zu bytes: ", bytes);
    }
    return status;
}

/* ---- allocation ---- */

static uint32_t granules_of(size_t bytes)
{
    return (uint32_t)((bytes + CRMM_PRIV_POOL_GRANULE - 1) >> CRMM_PRIV_POOL_GRANULE_SHIFT);
}

static crmm_status no_host_memory(const crmm_priv_pool *pool, size_t bytes)
{
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes, "%s: no host memory for a cache",
                      crmm_priv_pool_name(pool));
}

static inline bool is_cached(const crmm_priv_pool *pool, size_t bytes, size_t alignment)
{
    return bytes <= pool->largest_cached && alignment <= CRMM_PRIV_POOL_GRANULE;
}

/* Large blocks, and those with an alignment of their own. */
__attribute__((noinline)) static crmm_status allocate_direct(crmm_priv_pool *pool,
                                                             crmm_priv_pool_cache *cache,
                                                             crmm_stream stream, size_t bytes,
                                                             size_t alignment, void **ptr)
{
    const size_t most = (size_t)(UINT32_MAX / 4) << CRMM_PRIV_POOL_GRANULE_SHIFT;
    size_t granules =
        alignment > CRMM_PRIV_POOL_GRANULE ? alignment >> CRMM_PRIV_POOL_GRANULE_SHIFT : 1;
    uint32_t none = 0;

    if (bytes > pool->maximum || bytes > most || alignment > most) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: %zu bytes with alignment %zu are more than it may hold, %zu",
                          crmm_priv_pool_name(pool), bytes, alignment,
                          pool->maximum < most ? pool->maximum : most);
    }
    void *block = NULL;
    crmm_priv_pool_growth growth = crmm_priv_pool_serve(
        pool, cache, stream, granules_of(bytes), (uint32_t)granules, true, &block, NULL, &none);
    if (block == NULL) {
        return crmm_priv_pool_fail(pool, bytes, growth);
    }
    *ptr = block;
    return CRMM_SUCCESS;
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

    crmm_priv_pool_growth growth =
        crmm_priv_pool_serve(pool, cache, stream, crmm_priv_pool_class_size(class_index), 1, false,
                             &block, extra, &more);
    if (block == NULL) {
        return crmm_priv_pool_fail(pool, bytes, growth);
    }
    if (more > 0) {
        more = crmm_priv_pool_cache_fill(cache, class_index, extra, more);
    }
    if (more > 0) {
        uint16_t owner = cache->stream == NULL ? CRMM_PRIV_POOL_CLEAN : cache->stream->index;
        crmm_priv_pool_give_to_heaps(pool, extra, more, owner, crmm_priv_pool_cache_epoch(cache));
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
    if (is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        return refuse(pool, stream, bytes, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_find_cache(pool, id, stream);
    if (cache == NULL) {
        return no_host_memory(pool, bytes);
    }
    return allocate_locked(pool, cache, stream, class_index, bytes, ptr);
}

/* Large blocks, and those with an alignment of their own. */
static crmm_status allocate_uncached_for(crmm_priv_pool *pool, crmm_stream stream, uint64_t id,
                                         size_t bytes, size_t alignment, void **ptr)
{
    if (is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        return refuse(pool, stream, bytes, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_cache_of(pool, id);
    if (cache == NULL) {
        cache = crmm_priv_pool_find_cache(pool, id, stream);
    }
    return cache == NULL ? no_host_memory(pool, bytes)
                         : allocate_direct(pool, cache, stream, bytes, alignment, ptr);
}

__attribute__((noinline)) static crmm_status allocate_uncached(crmm_priv_pool *pool,
                                                               crmm_stream stream, size_t bytes,
                                                               size_t alignment, void **ptr)
{
    return allocate_uncached_for(pool, stream, id_of(pool, stream), bytes, alignment, ptr);
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
    return allocate_cached(pool, stream, id_of(pool, stream), class_index, bytes, ptr);
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

__attribute__((noinline, cold)) static void report_forked(const crmm_priv_pool *pool,
                                                          const void *ptr, size_t bytes)
{
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_FORKED,
                                   .resource_name = crmm_priv_pool_name(pool),
                                   .ptr = ptr,
                                   .bytes = bytes},
                     "%s: %p given back in a forked child", crmm_priv_pool_name(pool), ptr);
}

/* A block that is not known, or not so. */
__attribute__((noinline, cold)) static void report_block(crmm_priv_pool *pool, void *ptr,
                                                         size_t bytes, size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_FOREIGN_POINTER,
                         .resource_name = crmm_priv_pool_name(pool),
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment};
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);

    if (chunk == NULL) {
        crmm_priv_report(found, "%s: %p given back with %zu bytes is not from this pool",
                         crmm_priv_pool_name(pool), ptr, bytes);
        return;
    }
    size_t live = crmm_priv_pool_block_bytes(pool, chunk, ptr);
    if (live != 0) {
        found.kind = CRMM_MISUSE_SIZE_MISMATCH;
        crmm_priv_report(
            found, "%s: %p given back with %zu bytes and alignment %zu is a block of %zu bytes",
            crmm_priv_pool_name(pool), ptr, bytes, alignment, live);
        return;
    }
    if (crmm_priv_pool_is_block_start(pool, chunk, ptr)) {
        found.kind = CRMM_MISUSE_DOUBLE_FREE;
        crmm_priv_report(found, "%s: %p of %zu bytes was given back before",
                         crmm_priv_pool_name(pool), ptr, bytes);
        return;
    }
    crmm_priv_report(found, "%s: no block of this pool begins at %p, given back with %zu bytes",
                     crmm_priv_pool_name(pool), ptr, bytes);
}

void crmm_priv_pool_report_block(crmm_priv_pool *pool, void *ptr, size_t bytes, size_t alignment)
{
    if (is_forked(pool)) {
        report_forked(pool, ptr, bytes);
    } else {
        report_block(pool, ptr, bytes, alignment);
    }
}

__attribute__((noinline, cold)) static void report_stream(crmm_priv_pool *pool, crmm_stream stream,
                                                          void *ptr, size_t bytes, int code)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_CUDA,
                         .native_code = code,
                         .resource_name = crmm_priv_pool_name(pool),
                         .ptr = ptr,
                         .bytes = bytes};

    if (is_forked(pool)) {
        report_forked(pool, ptr, bytes);
        return;
    }
    if (code == CRMM_PRIV_CAPTURING) {
        found.kind = CRMM_MISUSE_UNSUPPORTED;
        found.native_code = 0;
        crmm_priv_report(found, "%s: %p given back on stream %p, which is being captured",
                         crmm_priv_pool_name(pool), ptr, (void *)stream);
        return;
    }
    if (crmm_priv_cuda_ready(crmm_priv_pool_name(pool)) != CRMM_SUCCESS) {
        return; /* the program is ending */
    }
    crmm_priv_report(found, "%s: %p given back on stream %p, of which CUDA says: %s (%s)",
                     crmm_priv_pool_name(pool), ptr, (void *)stream,
                     crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
}

/* The counterpart of allocate_direct(). false: there is no such block. */
static bool release_direct(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache, void *ptr,
                           size_t bytes)
{
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);

    if (chunk == NULL || (uintptr_t)ptr % CRMM_PRIV_POOL_GRANULE != 0 ||
        bytes > (size_t)UINT32_MAX << CRMM_PRIV_POOL_GRANULE_SHIFT) {
        return false;
    }
    crmm_priv_pool_heap *heap = chunk->heap;
    uint16_t owner = cache->stream == NULL ? CRMM_PRIV_POOL_CLEAN : cache->stream->index;
    uint64_t epoch = cache->stream == NULL ? 0 : crmm_priv_pool_stream_epoch(cache->stream);

    crmm_priv_pool_heap_lock(heap);
    crmm_priv_extents *extents = &heap->extents;
    uint32_t index =
        crmm_priv_extents_lookup(extents, (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT);
    bool right = index != 0 && extents->all[index].is_direct &&
                 extents->all[index].size == granules_of(bytes);
    if (right) {
        extents->all[index].is_direct = 0;
        if (!crmm_priv_extents_reserve_owner(extents, owner)) {
            owner = CRMM_PRIV_POOL_STRANDED;
            epoch = __atomic_load_n(&pool->stranded_epoch, __ATOMIC_ACQUIRE);
        }
        crmm_priv_extents_release(extents, index, owner, epoch);
    }
    crmm_priv_pool_heap_unlock(heap);
    return right;
}

__attribute__((noinline)) static void deallocate_direct(crmm_priv_pool *pool,
                                                        crmm_priv_pool_cache *cache,
                                                        crmm_stream stream, void *ptr, size_t bytes,
                                                        size_t alignment)
{
    if (!release_direct(pool, cache, ptr, bytes)) {
        report_block(pool, ptr, bytes, alignment);
        return;
    }
    if (crmm_priv_pool_cache_note(cache, bytes)) {
        crmm_priv_pool_cache_look(cache, stream);
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

/* No cache can be made: the block goes to its heap, marked as nobody's. */
__attribute__((noinline, cold)) static void deallocate_stranded(crmm_priv_pool *pool, void *ptr,
                                                                size_t bytes, size_t alignment)
{
    crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    bool right = false;

    if (chunk != NULL && is_cached(pool, bytes, alignment)) {
        right = ((uintptr_t)ptr - chunk->base) % CRMM_PRIV_POOL_GRANULE == 0 &&
                crmm_priv_pool_mark_free(
                    &chunk->marks, ((uintptr_t)ptr - chunk->base) >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                    crmm_priv_pool_class_of_bytes(bytes));
    }
    if (!right) {
        report_block(pool, ptr, bytes, alignment);
        return;
    }
    crmm_priv_pool_give_to_heaps(pool, &ptr, 1, CRMM_PRIV_POOL_STRANDED,
                                 __atomic_load_n(&pool->stranded_epoch, __ATOMIC_ACQUIRE));
}

/* The cache has to be found or made, waited for, or emptied; or something is wrong. */
__attribute__((noinline)) static void deallocate_slow(crmm_priv_pool *pool, crmm_stream stream,
                                                      bool is_sync, void *ptr, size_t bytes,
                                                      size_t alignment)
{
    crmm_priv_pool_cache *known = is_sync ? NULL : crmm_priv_pool_cache_behind(pool, stream);

    if (known != NULL && !is_cached(pool, bytes, alignment)) {
        deallocate_direct(pool, known, stream, ptr, bytes, alignment);
        return;
    }
    uint64_t id = is_sync ? CRMM_PRIV_POOL_NO_STREAM : id_of(pool, stream);
    if (is_forked(pool) || !crmm_priv_is_stream_id(id)) {
        report_stream(pool, stream, ptr, bytes, crmm_priv_stream_id_code(id));
        return;
    }
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
        report_block(pool, ptr, bytes, alignment);
        return;
    }
    put_back(cache, stream, class_index, ptr);
}

static inline void deallocate_for(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                  crmm_stream stream, bool is_sync, void *ptr, size_t bytes,
                                  size_t alignment)
{
    if (__builtin_expect(cache == NULL || !is_cached(pool, bytes, alignment), 0)) {
        deallocate_slow(pool, stream, is_sync, ptr, bytes, alignment);
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

    if (__builtin_expect(is_created(stream), 1)) {
        int code = crmm_priv_stream_check_capture(stream);
        if (__builtin_expect(code != 0, 0)) {
            report_stream(pool, stream, ptr, bytes, code);
            return;
        }
    } else if (stream == CRMM_STREAM_PER_THREAD) {
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
        is_forked(pool) ? NULL : crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    size_t bytes = chunk == NULL ? 0 : crmm_priv_pool_block_bytes(pool, chunk, ptr);

    if (is_forked(pool)) {
        report_stream(pool, stream, ptr, 0, 0);
    } else if (bytes == 0) {
        report_block(pool, ptr, 0, CRMM_PRIV_POOL_GRANULE);
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

/* ---- with guards ---- */

/* What a call finds out about its stream, and what work that it queues there needs besides: of the
 * default streams, that no capture forbids their use. */
static int look_at_stream(const crmm_priv_pool *pool, const crmm_stream *stream, uint64_t *id)
{
    int previous = -1;
    int code = 0;

    *id = stream != NULL ? id_of(pool, *stream) : CRMM_PRIV_POOL_NO_STREAM;
    if (!crmm_priv_is_stream_id(*id)) {
        return crmm_priv_stream_id_code(*id);
    }
    if (stream != NULL && !is_created(*stream)) {
        code = crmm_priv_cuda_try_enter_device(pool->device, &previous);
        if (code == 0) {
            code = crmm_priv_stream_check_capture(*stream);
            crmm_priv_cuda_leave_device(previous);
        }
    }
    return code;
}

crmm_status crmm_priv_pool_may_allocate(const crmm_priv_pool *pool, const crmm_stream *stream,
                                        size_t bytes, uint64_t *id)
{
    int code = is_forked(pool) ? -1 : look_at_stream(pool, stream, id);
    return code == 0 ? CRMM_SUCCESS : refuse(pool, stream != NULL ? *stream : NULL, bytes, code);
}

bool crmm_priv_pool_may_deallocate(crmm_priv_pool *pool, const crmm_stream *stream, void *ptr,
                                   size_t bytes, uint64_t *id)
{
    int code = is_forked(pool) ? -1 : look_at_stream(pool, stream, id);
    if (code != 0) {
        report_stream(pool, stream != NULL ? *stream : NULL, ptr, bytes, code);
    }
    return code == 0;
}

/* ---- the other operations ---- */

crmm_resource *crmm_priv_pool_upstream(const crmm_resource *resource)
{
    return ((const crmm_priv_pool *)resource)->upstream;
}

crmm_status crmm_priv_pool_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    crmm_priv_pool *pool = pool_of(resource);
    size_t further = 0;

    if (is_forked(pool)) {
        return refuse(pool, NULL, 0, 0);
    }
    (void)crmm_priv_pool_flush_all(pool);
    crmm_priv_pool_set_solo(pool, 0);
    crmm_priv_pool_settle_streams(pool);
    *released = crmm_priv_pool_release(pool, bytes_to_keep);
    /* What is left may be free, but for work that nobody knows to be complete. */
    if (crmm_priv_pool_held(pool) > bytes_to_keep && !crmm_priv_pool_is_settled(pool) &&
        crmm_priv_pool_wait_for_all(pool) == 0) {
        *released += crmm_priv_pool_release(pool, bytes_to_keep);
    }
    if (crmm_resource_trim(pool->upstream, bytes_to_keep, &further) == CRMM_SUCCESS &&
        !pool->is_in_place) {
        /* What went from the pool to an upstream that keeps it, and from there on, counts once. */
        *released = further > *released ? further : *released;
    }
    return CRMM_SUCCESS;
}

static size_t pool_describe(const crmm_resource *resource, char *text, size_t size)
{
    const crmm_priv_pool *pool = (const crmm_priv_pool *)resource;
    char maximum[32] = "none";
    int length;

    if (pool->maximum != SIZE_MAX) {
        (void)snprintf(maximum, sizeof(maximum), "%zu", pool->maximum);
    }
    length = snprintf(text, size, "%s (device %d, maximum %s, %s of %zu%s%s)",
                      crmm_priv_pool_name(pool), pool->device, maximum,
                      pool->is_in_place ? "grown in place by pages" : "chunks", pool->page,
                      pool->is_tight ? ", tight" : "", pool->validates ? ", validating" : "");
    return crmm_priv_describe_over(pool->upstream, text, size, (size_t)length);
}

/* ---- the end ---- */

static void free_parts(crmm_priv_pool *pool)
{
    crmm_priv_pool_delete_caches(pool);
    free(pool->open);
    crmm_priv_pool_chunks_finish(&pool->chunks);
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        crmm_priv_extents_finish(&pool->heaps[i]->extents);
        pthread_mutex_destroy(&pool->heaps[i]->mutex);
        free(pool->heaps[i]);
    }
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->grown);
}

static void report_leak(const crmm_priv_pool *pool, size_t live, size_t left)
{
    if (live > 0) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                          .resource_name = crmm_priv_pool_name(pool),
                          .bytes = live},
            "%s: released with %zu bytes alive; the memory that holds them, %zu bytes, is lost",
            crmm_priv_pool_name(pool), live, left);
    }
}

/* Nobody has it, and a CUDA call has failed that would have given it back. */
static void report_lost(const crmm_priv_pool *pool, size_t left, size_t addresses)
{
    if (left + addresses > 0) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_CUDA,
                                       .native_code = crmm_last_error()->native_code,
                                       .resource_name = crmm_priv_pool_name(pool),
                                       .bytes = left},
                         "%s: released, and %zu bytes of memory and %zu of addresses are lost: %s",
                         crmm_priv_pool_name(pool), left, addresses, crmm_last_error()->message);
    }
}

/* A call that failed once is made again: there is no next time. A CUDA error code. */
static int settle(crmm_priv_pool *pool)
{
    crmm_priv_pool_settle_streams(pool);
    if (crmm_priv_pool_is_settled(pool)) {
        return 0;
    }
    int code = crmm_priv_pool_wait_for_all(pool);
    return code == 0 ? 0 : crmm_priv_pool_wait_for_all(pool);
}

/* Give everything back and say what stays, and why. */
static void give_back(crmm_priv_pool *pool)
{
    size_t addresses = 0;

    (void)crmm_priv_pool_flush_all(pool);
    size_t live = crmm_priv_pool_live(pool);
    crmm_priv_pool_set_solo(pool, 0);
    /* Without the wait only what is known to be complete goes. */
    (void)crmm_priv_cuda_check("a wait for the device", settle(pool));
    size_t left = crmm_priv_pool_give_back(pool, &addresses);
    if (pool->guard != NULL) {
        crmm_priv_pool_guard_report_leaks(pool);
    } else {
        report_leak(pool, live, left);
    }
    if (live == 0) {
        report_lost(pool, left, addresses);
    }
}

void crmm_priv_pool_destroy(crmm_resource *resource)
{
    crmm_priv_pool *pool = pool_of(resource);
    const crmm_error before = *crmm_last_error();
    /* At exit CUDA takes everything back; in a forked child nothing here is the child's. */
    bool usable =
        !is_forked(pool) &&
        (pool->device < 0 || crmm_priv_cuda_ready(crmm_priv_pool_name(pool)) == CRMM_SUCCESS);

    if (usable) {
        give_back(pool);
    }
    crmm_priv_pool_streams_finish(&pool->streams); /* where CUDA is gone, so are the events */
    crmm_resource *upstream = pool->upstream;
    crmm_priv_pool_guard_finish(pool, usable);
    free_parts(pool);
    crmm_resource_storage_free(resource);
    crmm_resource_release(&upstream);
    crmm_priv_restore_error(&before);
}

static const crmm_resource_ops pool_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_pool_allocate_sync,
    .deallocate_sync = crmm_priv_pool_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = crmm_priv_pool_allocate,
    .deallocate = crmm_priv_pool_deallocate,
    .deallocate_ptr = crmm_priv_pool_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = pool_describe,
};

/* A table of its own, so that the other one asks nobody whether blocks have guards. */
static const crmm_resource_ops guarded_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_pool_guard_allocate_sync,
    .deallocate_sync = crmm_priv_pool_guard_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = crmm_priv_pool_guard_allocate,
    .deallocate = crmm_priv_pool_guard_deallocate,
    .deallocate_ptr = crmm_priv_pool_guard_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = pool_describe,
};

/* The table that a resource has if it is a pool. */
static const crmm_resource_ops *ops_of(const crmm_resource *resource)
{
    return resource != NULL && resource->ops == &guarded_ops ? &guarded_ops : &pool_ops;
}

/* ---- creation ---- */

_Static_assert(sizeof(crmm_pool_memory_resource_options) == 12 * sizeof(size_t),
               "options structs have no padding");

void crmm_pool_memory_resource_options_init(crmm_pool_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static crmm_status check_options(const crmm_pool_memory_resource_options *options)
{
    size_t maximum = options->maximum_pool_size;

    if (maximum != 0 && options->initial_pool_size > maximum) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->initial_pool_size %zu is more than maximum_pool_size %zu",
                    class_name, options->initial_pool_size, maximum);
    }
    if (maximum != 0 && options->target_pool_size > maximum) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->target_pool_size %zu is more than maximum_pool_size %zu",
                    class_name, options->target_pool_size, maximum);
    }
    if (options->handle_size > CRMM_PRIV_POOL_MOST_AT_ONCE ||
        options->initial_pool_size > CRMM_PRIV_POOL_MOST_AT_ONCE ||
        options->target_pool_size > PTRDIFF_MAX / 4) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: options->handle_size %zu, initial_pool_size %zu or target_pool_size %zu "
                    "is more than can exist",
                    class_name, options->handle_size, options->initial_pool_size,
                    options->target_pool_size);
    }
    return CRMM_SUCCESS;
}

/* The later slots of a table exist only as far as its size says. */
static void look_at_upstream(crmm_priv_pool *pool)
{
    const crmm_resource_ops *ops = pool->upstream->ops;
    const size_t in_place = offsetof(crmm_resource_ops, unreserve) + sizeof(ops->unreserve);
    const size_t moving = offsetof(crmm_resource_ops, move_end) + sizeof(ops->move_end);

    pool->is_stream_ordered = crmm_resource_has(pool->upstream, CRMM_STREAM_ORDERED);
    pool->is_in_place = !pool->is_rigid && ops->struct_size >= in_place && ops->reserve != NULL &&
                        ops->commit != NULL && ops->decommit != NULL && ops->unreserve != NULL;
    pool->can_move = pool->is_in_place && ops->struct_size >= moving && ops->move_begin != NULL &&
                     ops->move_end != NULL;
}

static void take_options(crmm_priv_pool *pool, const crmm_pool_memory_resource_options *options)
{
    size_t page = options->handle_size;

    if (page == 0) {
        page = options->tight != 0 ? TIGHT_PAGE : DEFAULT_PAGE;
    }
    if (pool->unit == 0) {
        pool->page = crmm_align_up(page, PAGE_UNIT);
    } else {
        pool->page = pool->is_in_place ? DEFAULT_PAGE : page;
    }
    pool->maximum = options->maximum_pool_size != 0 ? options->maximum_pool_size : SIZE_MAX;
    pool->target = options->target_pool_size;
    pool->is_tight = options->tight != 0;
    /* Larger blocks then have their exact size. */
    pool->largest_cached =
        (size_t)(pool->is_tight ? CRMM_PRIV_POOL_SMALL : CRMM_PRIV_POOL_LARGEST_CLASS)
        << CRMM_PRIV_POOL_GRANULE_SHIFT;
    pool->validates = options->validate != 0;
    pool->cache_option = options->stream_cache_size;
    pool->on_chunk = options->on_chunk;
    pool->on_chunk_user_data = options->on_chunk_user_data;
    pool->release_threshold = SIZE_MAX;
    if (options->release_threshold != 0) {
        pool->release_threshold =
            options->release_threshold == CRMM_RELEASE_ALL ? 0 : (size_t)options->release_threshold;
    }
    pool->most_heaps = CRMM_PRIV_POOL_MOST_HEAPS;
    if (options->heap_count != 0 && options->heap_count < CRMM_PRIV_POOL_MOST_HEAPS) {
        pool->most_heaps = (uint32_t)options->heap_count;
    } else if (options->heap_count == 0 && pool->is_tight) {
        pool->most_heaps = 1;
    }
}

static crmm_status choose_device(crmm_priv_pool *pool)
{
    pool->device = crmm_resource_device(pool->upstream);
    if (pool->device >= 0 || !pool->is_stream_ordered) {
        return CRMM_SUCCESS;
    }
    return crmm_priv_cuda_current_device(&pool->device);
}

static crmm_status set_up(crmm_priv_pool *pool, const crmm_pool_memory_resource_options *options)
{
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->grown, NULL);
    look_at_upstream(pool);
    take_options(pool, options);
    pool->stranded_epoch = 1;
    crmm_status status = choose_device(pool);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_pool_streams_init(&pool->streams, pool->device);
    if (crmm_priv_pool_add_heap(pool) == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    crmm_priv_pool_set_budget(pool);
    if (pool->validates) {
        status = crmm_priv_pool_guard_create(pool, &pool_ops);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    int previous = -1;
    status = crmm_priv_cuda_enter_device(pool->device, &previous);
    if (status == CRMM_SUCCESS && options->initial_pool_size > 0) {
        status = crmm_priv_pool_prime(pool, options->initial_pool_size);
        crmm_priv_cuda_leave_device(previous);
    } else if (status == CRMM_SUCCESS) {
        crmm_priv_cuda_leave_device(previous);
    }
    return status;
}

crmm_status crmm_priv_pool_create(const crmm_priv_pool_kind *kind, crmm_resource *upstream,
                                  const crmm_pool_memory_resource_options *options,
                                  crmm_resource **out)
{
    crmm_priv_pool *created = crmm_resource_storage_allocate(kind->size);

    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", kind->name);
    }
    (void)pthread_once(&once, handle_forks);
    created->upstream = crmm_resource_retain(upstream);
    created->unit = kind->unit;
    created->is_rigid = kind->is_rigid;
    created->serial = crmm_priv_pool_next_serial();
    created->generation = __atomic_load_n(&generation, __ATOMIC_RELAXED);
    const crmm_resource_ops *ops = options->validate != 0 ? &guarded_ops : kind->ops;
    crmm_resource_init(&created->base, ops, kind->name, crmm_resource_properties(upstream));
    created->base.reserved[CRMM_PRIV_PROPERTIES] |= CRMM_PRIV_ANY_DEVICE;
    if (crmm_resource_has(upstream, CRMM_STREAM_ORDERED)) {
        created->base.reserved[CRMM_PRIV_PROPERTIES] |= CRMM_PRIV_KEEPS_RULES;
    }
    crmm_status status = set_up(created, options);
    if (status != CRMM_SUCCESS) {
        crmm_error why = *crmm_last_error();
        crmm_priv_pool_destroy(&created->base);
        crmm_priv_restore_error(&why);
        return status;
    }
    if (created->device >= 0) {
        crmm_resource_bind_device(&created->base, created->device);
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}

static const crmm_priv_pool_kind pool_kind = {
    .name = class_name, .ops = &pool_ops, .size = sizeof(crmm_priv_pool)};

crmm_status crmm_pool_memory_resource_create(crmm_resource *upstream,
                                             const crmm_pool_memory_resource_options *options,
                                             crmm_resource **out)
{
    crmm_pool_memory_resource_options known;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS && out == NULL) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    if (status == CRMM_SUCCESS) {
        status = check_options(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_resource *own = NULL;
    if (upstream == NULL) {
        status = crmm_vmm_memory_resource_create(NULL, &own);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    status = crmm_priv_pool_create(&pool_kind, upstream != NULL ? upstream : own, &known, out);
    crmm_resource_release(&own);
    return status;
}

/* ---- what else a pool tells ---- */

bool crmm_priv_pool_is_pool(const crmm_resource *resource, const char *who)
{
    return crmm_priv_require_class(who, resource, ops_of(resource)) == CRMM_SUCCESS;
}

size_t crmm_pool_memory_resource_pool_size(const crmm_resource *pool)
{
    if (!crmm_priv_check_class("crmm_pool_memory_resource_pool_size", pool, ops_of(pool))) {
        return 0;
    }
    return crmm_priv_pool_held((const crmm_priv_pool *)pool);
}

crmm_status crmm_pool_memory_resource_retire_stream(crmm_resource *pool, crmm_stream stream)
{

    crmm_status status =
        crmm_priv_require_class("crmm_pool_memory_resource_retire_stream", pool, ops_of(pool));
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_pool *own = pool_of(pool);
    uint64_t id = is_forked(own) ? UINT64_MAX : id_of(own, stream);
    if (!crmm_priv_is_stream_id(id)) {
        return refuse(own, stream, 0, crmm_priv_stream_id_code(id));
    }
    crmm_priv_pool_cache *cache = crmm_priv_pool_find_cache(own, id, stream);
    if (cache == NULL) {
        return no_host_memory(own, 0);
    }
    (void)crmm_priv_pool_flush_all(own);
    return crmm_priv_cuda_check("cuEventRecord",
                                crmm_priv_pool_stream_fence(&own->streams, cache->stream, stream));
}
