/* SPDX-License-Identifier: Apache-2.0 */
#include "park.h"

#include "accounts.h"
#include "fences.h"

enum {
    OLD = 8, /* fences of a thread's on a stream, from which on that is taken to live long */
    LATEST = 0,
    EARLIER = 1
};
_Static_assert(CRMM_PRIV_POOL_MOST_PARKED == 2, "the latest one, and the one before");

bool crmm_priv_pool_may_park(const crmm_priv_pool_cache *cache)
{
    const crmm_priv_pool *pool = cache->pool;
    bool is_old = cache->fences >= OLD || cache->fence_limit == INT64_MAX;

    return is_old && cache->stream != NULL &&
           __atomic_load_n(&pool->thread_count, __ATOMIC_RELAXED) == 1 && pool->cache_option == 0 &&
           !pool->is_tight && pool->release_threshold == SIZE_MAX;
}

static void set(crmm_priv_pool_parked *parked, const crmm_priv_pool_parked *one)
{
    parked->block = one->block;
    parked->heap = one->heap;
    parked->index = one->index;
    __atomic_store_n(&parked->size, one->size, __ATOMIC_RELAXED);
}

/* One of them goes to its heap. */
static void clear(crmm_priv_pool_cache *cache, crmm_priv_pool_parked *one)
{
    if (one->size == 0) {
        return;
    }
    crmm_priv_pool_heap_lock(one->heap);
    crmm_priv_pool_release_to(cache->pool, one->heap, one->index, crmm_priv_pool_cache_owner(cache),
                              crmm_priv_pool_cache_now(cache));
    (void)crmm_priv_pool_heap_turn(one->heap);
    crmm_priv_pool_heap_unlock(one->heap);
    set(one, &(crmm_priv_pool_parked){0});
}

bool crmm_priv_pool_park(crmm_priv_pool_cache *cache, const crmm_priv_pool_parked *one,
                         uint32_t turn)
{
    crmm_priv_pool_parked *parked = cache->parked;
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);

    if (parked[LATEST].size != 0) {
        clear(cache, &parked[EARLIER]);
        set(&parked[EARLIER], &parked[LATEST]);
    }
    set(&parked[LATEST], one);
    bool is_time =
        crmm_priv_pool_cache_note_locked(cache, crmm_priv_pool_bytes_of(one->size), turn);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return is_time;
}

/* What was given back is so no more. Since then there was no fence of the cache's. */
static void uncount(crmm_priv_pool_cache *cache, size_t bytes)
{
    int64_t left = __atomic_load_n(&cache->left, __ATOMIC_RELAXED);
    int64_t before = left + (int64_t)bytes;

    if (left > CRMM_PRIV_POOL_WANTED) {
        __atomic_store_n(&cache->left, before < cache->allowance ? before : cache->allowance,
                         __ATOMIC_RELAXED);
    }
    cache->looks -= cache->looks > 0;
}

void *crmm_priv_pool_park_take(crmm_priv_pool_cache *cache, uint32_t size)
{
    void *block = NULL;
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    crmm_priv_pool_parked *one =
        &cache->parked[cache->parked[LATEST].size == size ? LATEST : EARLIER];

    if (one->size == size) {
        crmm_priv_pool_heap_lock(one->heap);
        crmm_priv_pool_hand_out(one->heap, one->index, true);
        crmm_priv_pool_heap_unlock(one->heap);
        block = one->block;
        set(one, &(crmm_priv_pool_parked){0});
        uncount(cache, crmm_priv_pool_bytes_of(size));
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return block;
}

void crmm_priv_pool_park_clear(crmm_priv_pool_cache *cache)
{
    clear(cache, &cache->parked[EARLIER]);
    clear(cache, &cache->parked[LATEST]);
}

bool crmm_priv_pool_park_flush(crmm_priv_pool_cache *cache)
{
    if (!crmm_priv_pool_has_parked(cache)) {
        return false;
    }
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool any = crmm_priv_pool_has_parked(cache);

    crmm_priv_pool_park_clear(cache);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return any;
}
