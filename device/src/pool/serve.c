/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include <crmm/internal/fail.h>

#include "accounts.h"
#include "fences.h"
#include "gather.h"
#include "park.h"
#include "registry.h"
#include "search.h"
#include "settle.h"
#include "wait.h"

enum {
    SELDOM = 256,      /* shortages of a heap among several, between two wide searches */
    SETTLE_EVERY = 16, /* large blocks that are given back */
    CROWDED = 96,      /* collisions that make a thread move to another heap */
    COLLISION = 8      /* what one counts, and a block from another heap */
};

static const size_t WORTH_A_HEAP = (size_t)16 << 20; /* bytes of a pool for each of its heaps */

typedef crmm_priv_pool_request request;

/* ---- heaps ---- */

/* Move all of this thread's caches of a pool to a heap. The pool's lock is held. */
static void move_to(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache, uint32_t heap)
{
    for (crmm_priv_pool_cache *other = pool->caches; other != NULL; other = other->next_of_pool) {
        if (other->thread == cache->thread) {
            pool->heaps[other->heap]->users--;
            pool->heaps[heap]->users++;
            other->heap = heap;
        }
    }
}

/* Move to the heap with the fewest users, or a new one. */
static void part(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache)
{
    uint32_t count = crmm_priv_pool_heap_count(pool);

    if (count < pool->most_heaps && crmm_priv_pool_held(pool) / (count + 1) >= WORTH_A_HEAP) {
        (void)crmm_priv_pool_add_heap(pool);
    }
    pthread_mutex_lock(&pool->mutex);
    uint32_t best = cache->heap;
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        best = pool->heaps[i]->users + 1 < pool->heaps[best]->users ? i : best;
    }
    move_to(pool, cache, best);
    pthread_mutex_unlock(&pool->mutex);
}

/* Another thread had the heap last. Those that hand it over to each other often part: what costs is
 * not the lock but that all of the heap's memory moves between processors. The heap is locked, and
 * so is the one that this thread takes from afterwards. */
__attribute__((noinline)) static crmm_priv_pool_heap *note_collision(crmm_priv_pool *pool,
                                                                     crmm_priv_pool_cache *cache,
                                                                     crmm_priv_pool_heap *heap)
{
    crmm_priv_pool_thread *self = cache->thread;

    heap->last = self;
    self->collisions += COLLISION;
    if (self->collisions < CROWDED || pool->most_heaps == 1) {
        return heap;
    }
    self->collisions = 0;
    self->has_parted = self->has_followed;
    crmm_priv_pool_heap_unlock(heap);
    part(pool, cache);
    heap = crmm_priv_pool_heap_of(pool, cache->heap);
    crmm_priv_pool_heap_lock(heap);
    heap->last = self;
    return heap;
}

/* Lock the heap that a thread takes from. */
static inline crmm_priv_pool_heap *lock_own(crmm_priv_pool *pool, crmm_priv_pool_cache *cache)
{
    crmm_priv_pool_thread *self = cache->thread;
    crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, cache->heap);

    crmm_priv_pool_heap_lock(heap);
    if (__builtin_expect(heap->last != self, 0)) {
        return note_collision(pool, cache, heap);
    }
    self->collisions -= self->collisions > 0;
    return heap;
}

/* A thread whose blocks lie in another heap finds none in its own, takes the long way each time,
 * and gives back to there. It goes after them; but if others are there whom it leaves again, memory
 * comes to its own heap instead. */
static void end_straying(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache, uint32_t heap)
{
    crmm_priv_pool_thread *self = cache->thread;

    self->collisions = 0;
    self->fetches = self->has_parted;
    self->has_followed = !self->has_parted;
    self->has_parted = false;
    if (self->has_followed) {
        pthread_mutex_lock(&pool->mutex);
        move_to(pool, cache, heap);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* A large request was served at last: maybe by another heap. Small ones are few there, since their
 * own heap grows. */
static void note_source(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache, const void *ptr)
{
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_heap_count(pool) == 1
                                            ? NULL
                                            : crmm_priv_pool_chunks_find(&pool->chunks, ptr);

    if (chunk == NULL || chunk->heap->index == cache->heap) {
        return;
    }
    cache->thread->collisions += COLLISION;
    if (cache->thread->collisions >= CROWDED) {
        end_straying(pool, cache, chunk->heap->index);
    }
}

/* ---- the order ---- */

/* What there is when all that caches hold is in the heaps. */
static void *search_flushed(const request *req, bool is_direct)
{
    void *ptr = NULL;

    /* One's own first, which interrupts nobody. */
    if (crmm_priv_pool_flush_own(req->pool) > 0) {
        ptr = crmm_priv_pool_search(req, is_direct);
    }
    if (ptr == NULL && crmm_priv_pool_flush_all(req->pool) > 0) {
        ptr = crmm_priv_pool_search(req, is_direct);
    }
    return ptr;
}

/* How often to wait on the CPU: for as many fences as there can be now. While others go on, there
 * are always more. */
static uint32_t most_waits(const crmm_priv_pool *pool)
{
    return crmm_priv_pool_streams_end(&pool->streams) * CRMM_PRIV_POOL_FENCES;
}

/* A chunk cannot be moved, but it can go back before another one comes. */
static void make_way(const request *req)
{
    crmm_priv_pool *pool = req->pool;
    size_t need = crmm_priv_pool_bytes_of(crmm_priv_pool_need(req));
    size_t limit = crmm_priv_pool_free_limit(pool, need);

    if (pool->is_in_place || crmm_priv_pool_held(pool) + need <= limit) {
        return;
    }
    /* A lone stream's memory is its own, and nobody's as far as its work is complete. */
    crmm_priv_pool_pause_solo(pool);
    crmm_priv_pool_complete_own(req);
    for (uint32_t waits = most_waits(pool);
         pool->is_tight && waits > 0 && crmm_priv_pool_wait_for_oldest(pool); waits--) {
    }
    crmm_priv_pool_settle_streams(pool);
    crmm_priv_pool_earn_slack(pool, crmm_priv_pool_release(pool, limit > need ? limit - need : 0));
    crmm_priv_pool_resume_solo(pool);
}

/* The pool holds more than it ever needed, or waits: because much that others gave back has no
 * fence? */
static void note_lack(const request *req)
{
    enum { MUCH = 8, MOST = 2 }; /* of the pool, the part; among several heaps events are slow */
    size_t unfenced = crmm_priv_pool_unfenced(req->pool, req->stream);
    size_t part = crmm_priv_pool_heap_count(req->pool) == 1 ? MUCH : MOST;

    if (unfenced > 0 && unfenced >= crmm_priv_pool_held(req->pool) / part) {
        crmm_priv_pool_be_eager(req->pool);
    }
}

/* Grow until the request can be served. NULL: it is at its maximum, or upstream refuses. */
static void *grow(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    enum { ATTEMPTS = 1000 }; /* that other threads may take away what was meant for this one */

    make_way(req);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        crmm_priv_pool_complete_own(req);
        *growth = crmm_priv_pool_grow(req);
        if (*growth != CRMM_PRIV_POOL_GREW) {
            return NULL;
        }
        void *ptr = crmm_priv_pool_look(req, req->heap, is_direct);
        if (ptr == NULL) {
            ptr = crmm_priv_pool_gather(req, req->heap, is_direct);
        }
        if (ptr != NULL) {
            crmm_priv_pool_note_peak(req->pool);
            /* Not before: meanwhile others would take what it grew by. */
            if (crmm_priv_pool_is_beyond_limit(req->pool)) {
                note_lack(req);
            }
            return ptr;
        }
    }
    return NULL;
}

/* Memory that nobody uses stands in the way: of the maximum, or of upstream. */
static void *grow_anew(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    enum { ATTEMPTS = 2 }; /* what the maximum leaves room for, upstream may refuse still */
    crmm_priv_pool *pool = req->pool;
    size_t need = crmm_priv_pool_bytes_of(crmm_priv_pool_need(req));
    /* Memory comes in whole pages. */
    size_t in_pages = pool->is_in_place ? crmm_priv_pool_round_up(need, pool->page) : need;
    void *ptr = NULL;

    for (int attempt = 0; attempt < ATTEMPTS && ptr == NULL; attempt++) {
        size_t held = crmm_priv_pool_held(pool);
        size_t keep = held > need ? held - need : 0;
        if (*growth == CRMM_PRIV_POOL_AT_MAXIMUM) {
            if (need > pool->maximum) {
                return NULL;
            }
            keep = in_pages <= pool->maximum ? pool->maximum - in_pages : 0;
        }
        if (crmm_priv_pool_release(pool, keep) == 0) {
            return NULL;
        }
        ptr = grow(req, is_direct, growth);
    }
    return ptr;
}

/* Neighbours together, or more memory. */
static void *join_or_grow(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = crmm_priv_pool_gather_all(req, is_direct);

    if (ptr == NULL) {
        ptr = grow(req, is_direct, growth);
    }
    return ptr != NULL ? ptr : grow_anew(req, is_direct, growth);
}

/* The same request, but nothing is too good for it. */
static request spendthrift(const request *req)
{
    request any = *req;

    any.is_thrifty = false;
    return any;
}

/* Whether the program has too much for this request below the maximum, whatever is done: then
 * nothing is. With several threads, what is just on its way from one place to another counts as
 * the program's. */
static bool is_hopeless(const request *req)
{
    crmm_priv_pool *pool = req->pool;
    const size_t on_its_way = (size_t)CRMM_PRIV_POOL_LARGEST_CLASS * CRMM_PRIV_POOL_MOST_BIG
                              << CRMM_PRIV_POOL_GRANULE_SHIFT;
    size_t need = crmm_priv_pool_bytes_of(req->size);

    if (need <= crmm_priv_pool_room(pool)) {
        return false;
    }
    size_t live = crmm_priv_pool_live(pool);
    size_t threads = __atomic_load_n(&pool->thread_count, __ATOMIC_RELAXED);
    size_t doubtful = threads > 1 ? threads * on_its_way : 0;
    live = live > doubtful ? live - doubtful : 0;
    return need > pool->maximum || live > pool->maximum - need;
}

/* Everything that waits for nobody. */
static void *without_waiting(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = crmm_priv_pool_search(req, is_direct);

    if (ptr == NULL) {
        ptr = search_flushed(req, is_direct);
    }
    if (ptr == NULL && is_hopeless(req)) {
        *growth = CRMM_PRIV_POOL_AT_MAXIMUM;
        return NULL;
    }
    if (ptr == NULL) {
        /* For the next time: now what they had at hand is in the heaps. */
        crmm_priv_pool_want(req->pool, req->stream);
        ptr = join_or_grow(req, is_direct, growth);
    }
    if (ptr == NULL && req->is_thrifty) {
        const request any = spendthrift(req);
        ptr = crmm_priv_pool_search(&any, is_direct);
    }
    return ptr;
}

/* After a wait: what is there now, and what can be had beside it. */
static void *look_again(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = crmm_priv_pool_search(req, is_direct);

    return ptr != NULL ? ptr : join_or_grow(req, is_direct, growth);
}

/* A lone stream's memory is treated like one's of several from now on: what is complete can make
 * way or be moved, without a wait. */
static void *look_apart(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    crmm_priv_pool_complete_own(req);
    crmm_priv_pool_settle_streams(req->pool);
    crmm_priv_pool_heap_lock(req->heap);
    bool is_any = crmm_priv_extents_set(&req->heap->extents, CRMM_PRIV_POOL_CLEAN)->granules > 0;
    crmm_priv_pool_heap_unlock(req->heap);
    return is_any ? look_again(req, is_direct, growth) : NULL;
}

/* Threads that go on keep nothing at hand while others wait: what these let go of would be there
 * again before it is seen. */
static void count_starving(crmm_priv_pool *pool, int more)
{
    pthread_mutex_lock(&pool->mutex);
    pool->starving = (uint32_t)((int)pool->starving + more);
    crmm_priv_pool_set_budget(pool);
    pthread_mutex_unlock(&pool->mutex);
}

/* What is left to try when all else failed. While other threads are busy, they take some of what is
 * found into their caches, or give it back anew: then it is not all seen at the first time. */
static void *by_waiting(const request *thrifty, bool is_direct, crmm_priv_pool_growth *growth)
{
    enum { ATTEMPTS = 64 };
    const request any = spendthrift(thrifty);
    const request *req = &any;
    crmm_priv_pool *pool = req->pool;
    uint32_t waits = most_waits(pool);
    bool all_seen = false;
    void *ptr = NULL;

    count_starving(pool, 1);
    /* A lone stream's memory is not looked at for what is complete, and would stay the oldest. */
    bool was_solo = __atomic_load_n(&pool->solo, __ATOMIC_RELAXED) != 0;
    crmm_priv_pool_pause_solo(pool);
    if (was_solo) {
        ptr = look_apart(req, is_direct, growth);
    }
    for (int attempt = 0; attempt < ATTEMPTS && ptr == NULL && !all_seen; attempt++) {
        (void)crmm_priv_pool_flush_all(pool);
        for (; ptr == NULL && waits > 0 &&
               (crmm_priv_pool_wait_for_block(req) || crmm_priv_pool_wait_for_oldest(pool));
             waits--) {
            ptr = look_again(req, is_direct, growth);
        }
        if (ptr == NULL) {
            note_lack(req);
        }
        if (ptr == NULL && crmm_priv_pool_wait_for_all(pool) == 0) {
            ptr = crmm_priv_pool_search_all(req, is_direct, &all_seen);
            ptr = ptr != NULL ? ptr : join_or_grow(req, is_direct, growth);
        } else {
            all_seen = true;
        }
        if (ptr == NULL && !all_seen) {
            crmm_priv_pool_want(pool, req->stream);
        }
    }
    crmm_priv_pool_resume_solo(pool);
    count_starving(pool, -1);
    return ptr;
}

/* Among several heaps a shortage is common, and the others' memory seldom worth the search. */
static bool is_worth_searching(const request *req)
{
    crmm_priv_pool_heap *heap = req->heap;

    if (req->pool->is_tight || crmm_priv_pool_heap_count(req->pool) == 1 ||
        crmm_priv_pool_held(req->pool) >= req->pool->maximum / 2) {
        return true;
    }
    uint32_t shortages = __atomic_add_fetch(&heap->shortages, 1, __ATOMIC_RELAXED);
    return shortages % SELDOM == 0 || crmm_priv_pool_bytes_of(req->size) >= req->pool->page;
}

/* Everything, in its order. What one's own heap has, or grows by, comes first where others' memory
 * is not wanted, or `fetches`: growing takes what is idle elsewhere. */
static void *try_all(const request *req, bool fetches, bool is_direct,
                     crmm_priv_pool_growth *growth)
{
    void *ptr = NULL;

    if (fetches || !is_worth_searching(req)) {
        ptr = crmm_priv_pool_gather(req, req->heap, is_direct);
        if (ptr == NULL) {
            ptr = grow(req, is_direct, growth);
        }
        if (ptr != NULL) {
            return ptr;
        }
    }
    if (req->pool->is_tight) {
        crmm_priv_pool_want(req->pool, req->stream);
    }
    ptr = without_waiting(req, is_direct, growth);
    return ptr != NULL || is_hopeless(req) ? ptr : by_waiting(req, is_direct, growth);
}

/* What failed on the way is nobody's business if the request is served at last. */
static void *serve_cold(const request *req, const crmm_priv_pool_cache *cache, bool is_direct,
                        crmm_priv_pool_growth *growth)
{
    const crmm_error before = *crmm_last_error();
    bool fetches = cache->thread->fetches && !req->pool->is_tight;
    void *ptr = try_all(req, fetches, is_direct, growth);

    cache->thread->fetches = false;
    if (ptr != NULL) {
        crmm_priv_restore_error(&before);
        if (crmm_priv_pool_bytes_of(req->size) > req->pool->largest_cached) {
            note_source(req->pool, cache, ptr);
        }
    }
    return ptr;
}

/* Whether to ask what streams have completed: not for each block, and where rows are made of it. */
static bool is_time_to_settle(crmm_priv_pool *pool, uint32_t size)
{
    if (!pool->is_in_place || crmm_priv_pool_bytes_of(size) <= pool->largest_cached ||
        crmm_priv_pool_heap_count(pool) > 1 ||
        __atomic_load_n(&pool->solo, __ATOMIC_RELAXED) != 0) {
        return false;
    }
    crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, 0);
    uint32_t returns = __atomic_load_n(&heap->returns, __ATOMIC_RELAXED);
    if (returns - __atomic_load_n(&heap->settled_returns, __ATOMIC_RELAXED) < SETTLE_EVERY) {
        return false;
    }
    __atomic_store_n(&heap->settled_returns, returns, __ATOMIC_RELAXED);
    return true;
}

/* Whether blocks are so small that several have their marks in one line, and there are threads that
 * could write to it. */
static bool shares_lines(const request *req, uint32_t more)
{
    enum { SMALL = 32 }; /* granules: 8 KiB */

    return more > 0 && req->size <= SMALL && !req->pool->is_tight &&
           __atomic_load_n(&req->pool->cache_count, __ATOMIC_RELAXED) > 1;
}

static request request_for(crmm_priv_pool *pool, const crmm_priv_pool_cache *cache,
                           crmm_stream handle, uint32_t size, uint32_t alignment)
{
    return (request){.pool = pool,
                     .stream = cache->stream,
                     .handle = handle,
                     .size = size,
                     .alignment = alignment,
                     .is_thrifty = crmm_priv_pool_is_thrifty(pool)};
}

/* One block, and up to `more` others in `extra`, from near memory; the heap is locked. */
static void *take_several(const request *req, void **extra, uint32_t *more)
{
    crmm_priv_extent_source sources[CRMM_PRIV_POOL_NEAR_SOURCES];
    size_t count = crmm_priv_pool_near_sources(req, sources);
    uint32_t fetched = 0;
    void *found = NULL;

    if (shares_lines(req, *more)) {
        found = crmm_priv_pool_take_line(req, sources, count, extra, CRMM_PRIV_POOL_MOST_SMALL,
                                         &fetched);
        *more = fetched;
    }
    if (found == NULL) {
        found = crmm_priv_pool_take(req, req->heap, sources, count, false);
    }
    while (found != NULL && fetched < *more) {
        void *another = crmm_priv_pool_take(req, req->heap, sources, count, false);
        if (another == NULL) {
            break;
        }
        extra[fetched++] = another;
    }
    *more = fetched;
    return found;
}

crmm_priv_pool_growth crmm_priv_pool_serve(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                           crmm_stream handle, uint32_t size, void **ptr,
                                           void **extra, uint32_t *more)
{
    crmm_priv_pool_growth growth = CRMM_PRIV_POOL_GREW;
    request req = request_for(pool, cache, handle, size, 1);
    void *found = crmm_priv_pool_depot_take(&req, extra, more);

    if (found == NULL) {
        req.heap = lock_own(pool, cache);
        found = take_several(&req, extra, more);
        if (found == NULL) {
            found = crmm_priv_pool_take_others(&req, req.heap, false);
        }
        crmm_priv_pool_heap_unlock(req.heap);
    }
    if (found == NULL && crmm_priv_pool_park_flush(cache)) {
        found = crmm_priv_pool_look(&req, req.heap, false);
    }
    if (found == NULL) {
        found = crmm_priv_pool_depot_ask(&req, extra, more);
    }
    if (found == NULL) {
        req.is_thorough = true;
        found = serve_cold(&req, cache, false, &growth);
    }
    *ptr = found;
    return growth;
}

crmm_priv_pool_growth crmm_priv_pool_serve_direct(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                                  crmm_stream handle, uint32_t size,
                                                  uint32_t alignment, void **ptr)
{
    crmm_priv_pool_growth growth = CRMM_PRIV_POOL_GREW;
    crmm_priv_extent_source sources[CRMM_PRIV_POOL_NEAR_SOURCES];
    request req = request_for(pool, cache, handle, size, alignment);
    size_t count = crmm_priv_pool_near_sources(&req, sources);

    if (is_time_to_settle(pool, size)) {
        /* What others had is clean then, and lies in one piece with its neighbours. */
        crmm_priv_pool_settle_some(pool, cache->stream);
    }
    req.heap = lock_own(pool, cache);
    void *found = crmm_priv_pool_take(&req, req.heap, sources, count, true);
    if (found == NULL) {
        found = crmm_priv_pool_take_others(&req, req.heap, true);
    }
    crmm_priv_pool_heap_unlock(req.heap);
    if (found == NULL && crmm_priv_pool_park_flush(cache)) {
        found = crmm_priv_pool_look(&req, req.heap, true);
    }
    if (found == NULL) {
        req.is_thorough = true;
        found = serve_cold(&req, cache, true, &growth);
    }
    *ptr = found;
    return growth;
}
