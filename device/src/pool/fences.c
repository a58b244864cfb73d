/* SPDX-License-Identifier: Apache-2.0 */
#include "fences.h"

#include "memory.h"
#include "park.h"
#include "registry.h"
#include "settle.h"
#include "stream_id.h"

enum {
    SHARE = 16,              /* caches together hold a sixteenth of the pool */
    LOWEST_BUDGET = 1 << 20, /* bytes */
    FIRST_FENCE = 64 << 10,  /* bytes given back on a new stream before it is fenced */
    TURNS = 8,               /* large blocks given back for a fence of a stream */
    SHARED_TURNS = 4,        /* and of any stream */
    MOST_CREDIT = 32 * TURNS,
    EAGER = 1024 /* fences, at first */
};

/* ---- the pool's limits ---- */

/* Whether what streams give back without a fence may soon be wanted: there is little to grow by. */
static bool is_near_maximum(const crmm_priv_pool *pool)
{
    return crmm_priv_pool_held(pool) >= pool->maximum - pool->maximum / 8;
}

/*
 * Bytes that may be given back on a stream before they are fenced: what no other stream can use.
 * Alone nobody else wants it; among several threads recording an event is slow, since they get into
 * each other's way in the driver.
 */
static size_t highest_fence(const crmm_priv_pool *pool)
{
    size_t held = crmm_priv_pool_held(pool);

    if (pool->solo != 0) {
        return ((size_t)16 << 20) + held / 32;
    }
    if (pool->is_tight || crmm_priv_pool_is_eager(pool)) {
        return FIRST_FENCE;
    }
    if (pool->heap_count > 1) {
        return ((size_t)16 << 20) + held / 256;
    }
    return ((size_t)4 << 20) + held / (is_near_maximum(pool) ? 1024 : 256);
}

void crmm_priv_pool_set_budget(crmm_priv_pool *pool)
{
    size_t caches = pool->cache_count > 0 ? pool->cache_count : 1;
    size_t budget = crmm_priv_pool_held(pool) / SHARE / caches;

    if (pool->cache_option == SIZE_MAX || pool->starving > 0) {
        budget = 0;
    } else if (pool->cache_option != 0) {
        budget = pool->cache_option;
    } else if (budget < LOWEST_BUDGET) {
        size_t most = pool->maximum / SHARE / caches;
        budget = most < LOWEST_BUDGET ? most : LOWEST_BUDGET;
    }
    __atomic_store_n(&pool->budget, budget, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->fence_limit, highest_fence(pool), __ATOMIC_RELAXED);
}

void crmm_priv_pool_be_eager(crmm_priv_pool *pool)
{
    uint64_t records = __atomic_load_n(&pool->streams.records, __ATOMIC_RELAXED);

    pthread_mutex_lock(&pool->mutex);
    if (!crmm_priv_pool_is_eager(pool)) {
        pool->eager_span = pool->eager_span == 0 ? EAGER : pool->eager_span * 2;
    }
    __atomic_store_n(&pool->eager_until, records + pool->eager_span, __ATOMIC_RELAXED);
    crmm_priv_pool_set_budget(pool);
    pthread_mutex_unlock(&pool->mutex);
}

/* A fence is due: it may be the last one of an eager time. */
static void end_eagerness(crmm_priv_pool *pool)
{
    uint64_t until = __atomic_load_n(&pool->eager_until, __ATOMIC_RELAXED);

    if (until == 0 || __atomic_load_n(&pool->streams.records, __ATOMIC_RELAXED) < until) {
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    if (pool->eager_until == until) {
        __atomic_store_n(&pool->eager_until, 0, __ATOMIC_RELAXED);
        crmm_priv_pool_set_budget(pool);
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- the account of a cache ---- */

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

/* Turns of the only heap for which no fence was recorded, as far as they count. */
static uint32_t unspent(const crmm_priv_pool_heap *heap)
{
    uint32_t spent = __atomic_load_n(&heap->spent_turns, __ATOMIC_ACQUIRE);

    /* Later than what another thread may have spent up to. */
    return at_most(__atomic_load_n(&heap->turn, __ATOMIC_RELAXED) - spent, MOST_CREDIT);
}

/* Whether large blocks have earned a fence: of this stream, and of all of them, but for one that
 * has long had none. Not among several heaps, where recording is slow, and not where nobody else
 * can want it. */
static bool has_earned(const crmm_priv_pool_cache *cache)
{
    crmm_priv_pool *pool = cache->pool;

    return cache->credit >= TURNS && cache->fence_limit != INT64_MAX &&
           __atomic_load_n(&pool->solo, __ATOMIC_RELAXED) == 0 &&
           crmm_priv_pool_heap_count(pool) == 1 &&
           (cache->credit == MOST_CREDIT ||
            unspent(crmm_priv_pool_heap_of(pool, 0)) >= SHARED_TURNS);
}

/* A fence is recorded. Threads that do so at the same time may spend the same turns. */
static void spend(crmm_priv_pool_cache *cache)
{
    crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(cache->pool, 0);

    if (cache->credit < TURNS) {
        return; /* it is for bytes that were given back */
    }
    uint32_t left = unspent(heap);
    cache->credit = left < SHARED_TURNS ? 0 : cache->credit - TURNS;
    left -= at_most(left, SHARED_TURNS);
    __atomic_store_n(&heap->spent_turns, __atomic_load_n(&heap->turn, __ATOMIC_RELAXED) - left,
                     __ATOMIC_RELEASE);
}

static bool has_many_streams(const crmm_priv_pool *pool)
{
    return crmm_priv_pool_streams_end(&pool->streams) - CRMM_PRIV_POOL_FIRST_STREAM >=
           CRMM_PRIV_POOL_MANY_STREAMS;
}

void crmm_priv_pool_set_fence_limit(crmm_priv_pool_cache *cache)
{
    int64_t highest = (int64_t)__atomic_load_n(&cache->pool->fence_limit, __ATOMIC_RELAXED);
    int64_t limit = (int64_t)(cache->fenced / 8);

    limit = limit < FIRST_FENCE ? FIRST_FENCE : limit;
    if (cache->fences == 0 && has_many_streams(cache->pool)) {
        limit = 0; /* most of them live shortly, and their entries are wanted */
    }
    cache->fence_limit = limit < highest ? limit : highest;
    if (cache->stream == NULL || cache->id == CRMM_PRIV_POOL_LEGACY_STREAM) {
        cache->fence_limit = INT64_MAX; /* it does not die: when another wants it is enough */
    }
    cache->allowance = cache->fence_limit;
    if (cache->pool->release_threshold != SIZE_MAX) {
        cache->allowance = 0; /* after every free memory may have to go back */
    }
    __atomic_store_n(&cache->left, cache->allowance, __ATOMIC_RELAXED);
}

/*
 * Blocks given back beyond the limit before there is a fence: the first one at once, since the
 * stream may not live long; later a few large ones are as little to lose as many small ones are
 * much.
 */
static uint32_t few_blocks(const crmm_priv_pool_cache *cache)
{
    enum { FEW_IN_A_FULL_POOL = 4, FEW = 8, FEW_OF_ONE_STREAM = 16 };
    const crmm_priv_pool *pool = cache->pool;
    uint32_t most = is_near_maximum(pool) ? FEW_IN_A_FULL_POOL : FEW;

    if (pool->is_tight || pool->release_threshold != SIZE_MAX || cache->fences == 0 ||
        crmm_priv_pool_is_eager(pool)) {
        return 1;
    }
    if (__atomic_load_n(&pool->solo, __ATOMIC_RELAXED) != 0) {
        most = FEW_OF_ONE_STREAM;
    }
    return cache->fences < most ? cache->fences : most;
}

static int64_t unfenced_of(const crmm_priv_pool_cache *cache)
{
    int64_t left = __atomic_load_n(&cache->left, __ATOMIC_RELAXED);
    return left <= CRMM_PRIV_POOL_WANTED ? 0 : cache->allowance - left;
}

/* Whether there is something to do now; the cache is locked. */
static bool is_due(crmm_priv_pool_cache *cache)
{
    if (cache->stream == NULL) {
        return true;
    }
    cache->looks += unfenced_of(cache) > cache->fence_limit ||
                    crmm_priv_pool_held(cache->pool) > cache->pool->release_threshold;
    return __atomic_load_n(&cache->left, __ATOMIC_RELAXED) <= CRMM_PRIV_POOL_WANTED ||
           cache->looks >= few_blocks(cache) || has_earned(cache);
}

bool crmm_priv_pool_cache_note_locked(crmm_priv_pool_cache *cache, size_t bytes, uint32_t turn)
{
    /* Among several heaps it may be another one's, and does not count. */
    cache->credit = at_most(cache->credit + at_most(turn - cache->turn, MOST_CREDIT), MOST_CREDIT);
    cache->turn = turn;
    return (crmm_priv_pool_cache_count(cache, bytes) || has_earned(cache)) && is_due(cache);
}

bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes, uint32_t turn)
{
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool is_time = crmm_priv_pool_cache_note_locked(cache, bytes, turn);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return is_time;
}

/* Close the account: what was given back so far has a fence from now on. */
static void close_account(crmm_priv_pool_cache *cache)
{
    enum { YOUNG = 8 }; /* fences */

    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    /* A stream or thread that does not live long leaves nothing at hand behind a fence. */
    if (__atomic_load_n(&cache->left, __ATOMIC_RELAXED) <= CRMM_PRIV_POOL_WANTED ||
        cache->fences < YOUNG || crmm_priv_pool_is_eager(cache->pool)) {
        crmm_priv_pool_cache_flush(cache);
    }
    crmm_priv_pool_park_clear(cache); /* others find it in its heap */
    cache->fences++;
    cache->fenced += (uint64_t)unfenced_of(cache);
    cache->looks = 0;
    spend(cache);
    cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    crmm_priv_pool_set_fence_limit(cache);
    crmm_priv_bias_release(&cache->lock, is_inside);
}

/* Whether a handle is still that of the cache's stream, and not of a later one's. */
static bool is_behind(const crmm_priv_pool_cache *cache, crmm_stream handle)
{
    return !crmm_priv_pool_is_created(handle) || crmm_priv_stream_id_of(handle) == cache->id;
}

void crmm_priv_pool_cache_look(crmm_priv_pool_cache *cache, crmm_stream handle)
{
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    bool is_time = is_due(cache);
    crmm_priv_bias_release(&cache->lock, is_inside);
    if (is_time) {
        crmm_priv_pool_cache_fence(cache, handle);
    }
}

/* Whether there is a page or more that is not handed out. */
static bool has_idle_page(crmm_priv_pool *pool)
{
    return crmm_priv_pool_held(pool) >= crmm_priv_pool_live(pool) + pool->page;
}

void crmm_priv_pool_cache_fence(crmm_priv_pool_cache *cache, crmm_stream handle)
{
    crmm_priv_pool *pool = cache->pool;

    end_eagerness(pool);
    if (cache->stream != NULL && is_behind(cache, handle)) {
        close_account(cache);
        (void)crmm_priv_pool_stream_fence(&pool->streams, cache->stream, handle);
    } else if (cache->stream != NULL) {
        crmm_priv_pool_forget_handle(pool, cache, handle);
    }
    if (crmm_priv_pool_held(pool) > pool->release_threshold) {
        /* A few small blocks at hand would keep each page. */
        if (has_idle_page(pool)) {
            (void)crmm_priv_pool_flush_own(pool);
        }
        crmm_priv_pool_settle_streams(pool);
        (void)crmm_priv_pool_release(pool, pool->release_threshold);
    }
}
