/* SPDX-License-Identifier: Apache-2.0 */
#include "park.h"

#include "accounts.h"
#include "fences.h"

enum { OLD = 8 /* fences of a thread's on a stream, from which on that is taken to live long */ };

bool crmm_priv_pool_may_park(const crmm_priv_pool_cache *cache, size_t bytes)
{
    const crmm_priv_pool *pool = cache->pool;
    bool is_old = cache->fences >= OLD || cache->fence_limit == INT64_MAX;
    bool is_alone = __atomic_load_n(&pool->solo, __ATOMIC_RELAXED) != 0 &&
                    __atomic_load_n(&pool->cache_count, __ATOMIC_RELAXED) == 1;

    return is_old && is_alone && bytes > pool->largest_cached && pool->cache_option == 0 &&
           !pool->is_tight && pool->release_threshold == SIZE_MAX;
}

static void set(crmm_priv_pool_cache *cache, const crmm_priv_pool_parked *one)
{
    crmm_priv_pool_parked *parked = &cache->parked;

    parked->block = one->block;
    parked->heap = one->heap;
    parked->index = one->index;
    __atomic_store_n(&parked->size, one->size, __ATOMIC_RELAXED);
}

bool crmm_priv_pool_park_put(crmm_priv_pool_cache *cache, crmm_priv_pool_heap *heap, void *ptr,
                             uint32_t size, bool *is_time)
{
    crmm_priv_pool_parked one = {.block = ptr, .heap = heap, .size = size};
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);

    crmm_priv_pool_heap_lock(heap);
    one.index = crmm_priv_pool_take_over(heap, ptr, size);
    crmm_priv_pool_heap_unlock(heap);
    if (one.index != 0) {
        bool has_made_way = cache->parked.size != 0;
        crmm_priv_pool_park_clear(cache);
        set(cache, &one);
        bool is_beyond = crmm_priv_pool_cache_count(cache, crmm_priv_pool_bytes_of(size));
        *is_time = is_beyond && has_made_way && crmm_priv_pool_cache_is_due(cache);
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return one.index != 0;
}

/* What was given back last is so no more. Since then there was no fence of the cache's. */
static void uncount(crmm_priv_pool_cache *cache, size_t bytes)
{
    int64_t left = __atomic_load_n(&cache->left, __ATOMIC_RELAXED);
    int64_t before = left + (int64_t)bytes;

    if (left > CRMM_PRIV_POOL_WANTED) {
        __atomic_store_n(&cache->left, before < cache->allowance ? before : cache->allowance,
                         __ATOMIC_RELAXED);
    }
}

void *crmm_priv_pool_park_take(crmm_priv_pool_cache *cache, uint32_t size)
{
    const crmm_priv_pool_parked *one = &cache->parked;
    void *block = NULL;
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);

    if (one->size == size) {
        crmm_priv_pool_heap_lock(one->heap);
        one->heap->extents.all[one->index].is_direct = 1;
        crmm_priv_pool_heap_unlock(one->heap);
        block = one->block;
        set(cache, &(crmm_priv_pool_parked){0});
        uncount(cache, crmm_priv_pool_bytes_of(size));
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return block;
}

void crmm_priv_pool_park_clear(crmm_priv_pool_cache *cache)
{
    const crmm_priv_pool_parked *one = &cache->parked;

    if (one->size == 0) {
        return;
    }
    crmm_priv_pool_heap_lock(one->heap);
    crmm_priv_pool_release_to(cache->pool, one->heap, one->index, crmm_priv_pool_cache_owner(cache),
                              crmm_priv_pool_cache_now(cache));
    uint32_t turn = crmm_priv_pool_heap_turn(one->heap);
    crmm_priv_pool_heap_unlock(one->heap);
    set(cache, &(crmm_priv_pool_parked){0});
    (void)crmm_priv_pool_cache_note_locked(cache, 0, turn); /* its bytes are counted */
}

bool crmm_priv_pool_park_flush(crmm_priv_pool_cache *cache)
{
    if (crmm_priv_pool_is_parked(cache, 0)) {
        return false;
    }
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool any = cache->parked.size != 0;

    crmm_priv_pool_park_clear(cache);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return any;
}
