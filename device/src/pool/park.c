/* SPDX-License-Identifier: Apache-2.0 */
#include "park.h"

#include "accounts.h"
#include "fences.h"

enum { OLD = 8 /* fences of a stream from which on it is taken to live long */ };

bool crmm_priv_pool_may_park(const crmm_priv_pool_cache *cache, size_t bytes)
{
    const crmm_priv_pool *pool = cache->pool;
    bool is_old = cache->fences >= OLD || cache->fence_limit == INT64_MAX;

    return is_old && bytes > pool->largest_cached && pool->cache_option == 0 && !pool->is_tight &&
           pool->release_threshold == SIZE_MAX &&
           __atomic_load_n(&pool->solo, __ATOMIC_RELAXED) != 0;
}

static void set(crmm_priv_pool_cache *cache, const crmm_priv_pool_parked *one)
{
    crmm_priv_pool_parked *parked = &cache->parked;

    parked->block = one->block;
    parked->heap = one->heap;
    parked->epoch = one->epoch;
    parked->index = one->index;
    __atomic_store_n(&parked->size, one->size, __ATOMIC_RELAXED);
}

static void unset(crmm_priv_pool_cache *cache)
{
    __atomic_store_n(&cache->parked.size, 0u, __ATOMIC_RELAXED);
}

/* To its heap, as its stream's at the time when it was parked; counted as given back now. */
static bool give_back(crmm_priv_pool_cache *cache, const crmm_priv_pool_parked *one)
{
    crmm_priv_pool_heap_lock(one->heap);
    crmm_priv_pool_release_to(cache->pool, one->heap, one->index, crmm_priv_pool_cache_owner(cache),
                              one->epoch);
    uint32_t turn = crmm_priv_pool_heap_turn(one->heap);
    crmm_priv_pool_heap_unlock(one->heap);
    return crmm_priv_pool_cache_note_locked(cache, crmm_priv_pool_bytes_of(one->size), turn);
}

/* A live block is the program's no more, but in use still. false: there is no such block. */
static bool take_over(crmm_priv_pool_parked *one)
{
    crmm_priv_extents *extents = &one->heap->extents;
    uint64_t at = (uintptr_t)one->block >> CRMM_PRIV_POOL_GRANULE_SHIFT;

    crmm_priv_pool_heap_lock(one->heap);
    one->index = crmm_priv_extents_lookup(extents, at);
    bool right = one->index != 0 && extents->all[one->index].is_direct &&
                 extents->all[one->index].size == one->size;
    if (right) {
        extents->all[one->index].is_direct = 0;
    }
    crmm_priv_pool_heap_unlock(one->heap);
    return right;
}

bool crmm_priv_pool_park_put(crmm_priv_pool_cache *cache, crmm_priv_pool_heap *heap, void *ptr,
                             uint32_t size, bool *is_time)
{
    crmm_priv_pool_parked one = {
        .block = ptr,
        .heap = heap,
        .epoch = cache->stream == NULL ? 0 : crmm_priv_pool_stream_epoch(cache->stream),
        .size = size};
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool right = take_over(&one);

    if (right) {
        const crmm_priv_pool_parked before = cache->parked;
        set(cache, &one);
        *is_time = before.size != 0 && give_back(cache, &before);
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return right;
}

void *crmm_priv_pool_park_take(crmm_priv_pool_cache *cache, uint32_t size)
{
    void *block = NULL;
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);

    if (cache->parked.size == size) {
        const crmm_priv_pool_parked *one = &cache->parked;
        crmm_priv_pool_heap_lock(one->heap);
        one->heap->extents.all[one->index].is_direct = 1;
        crmm_priv_pool_heap_unlock(one->heap);
        block = one->block;
        unset(cache);
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return block;
}

void crmm_priv_pool_park_clear(crmm_priv_pool_cache *cache)
{
    if (cache->parked.size != 0) {
        (void)give_back(cache, &cache->parked);
        unset(cache);
    }
}

bool crmm_priv_pool_park_flush(crmm_priv_pool_cache *cache)
{
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool any = cache->parked.size != 0;

    crmm_priv_pool_park_clear(cache);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return any;
}
