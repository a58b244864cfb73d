/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "settle.h"

enum {
    FETCHED = 8,         /* an eighth of what a class may have comes with one that was missing */
    FIRST_LIMIT = 2,     /* blocks of a class, until it turns out to be used */
    MOST_OF_THREAD = 64, /* caches of one thread in one pool */
    SHARE = 16,          /* caches together hold a sixteenth of the pool */
    LOWEST_BUDGET = 1 << 20, /* bytes */
    FIRST_FENCE = 64 << 10,  /* bytes given back on a new stream before it is fenced */
    SHRINK_AT_ONCE = 8,      /* classes to make smaller when the cache is full */
    MOST_AT_ONCE = 8         /* blocks of a class to let go of, so that no call takes long */
};

/* A thread without caches. It is never written. */
static crmm_priv_pool_thread nobody;

__thread crmm_priv_pool_thread *crmm_priv_pool_self __attribute__((tls_model("initial-exec"))) =
    &nobody;

/* Guards which threads and pools there are, and which caches they have. Taken before any other. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

/* ---- heaps ---- */

void crmm_priv_pool_give_to_heaps(crmm_priv_pool *pool, void *const *blocks, size_t count,
                                  uint16_t owner, uint64_t epoch)
{
    crmm_priv_pool_heap *locked = NULL;

    for (size_t i = 0; i < count; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_chunks_find(&pool->chunks, blocks[i])->heap;
        if (heap != locked) {
            if (locked != NULL) {
                crmm_priv_pool_heap_unlock(locked);
            }
            crmm_priv_pool_heap_lock(heap);
            locked = heap;
        }
        uint64_t at = (uintptr_t)blocks[i] >> CRMM_PRIV_POOL_GRANULE_SHIFT;
        uint32_t index = crmm_priv_extents_lookup(&heap->extents, at);
        if (crmm_priv_extents_reserve_owner(&heap->extents, owner)) {
            crmm_priv_extents_release(&heap->extents, index, owner, epoch);
        } else {
            crmm_priv_extents_release(&heap->extents, index, CRMM_PRIV_POOL_STRANDED,
                                      __atomic_load_n(&pool->stranded_epoch, __ATOMIC_ACQUIRE));
        }
    }
    if (locked != NULL) {
        crmm_priv_pool_heap_unlock(locked);
    }
}

/* ---- sizes ---- */

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
    if (pool->is_tight) {
        return (size_t)64 << 10;
    }
    if (pool->heap_count > 1) {
        return ((size_t)16 << 20) + held / 256;
    }
    return ((size_t)4 << 20) + held / (is_near_maximum(pool) ? 1024 : 256);
}

void crmm_priv_pool_set_budget(crmm_priv_pool *pool)
{
    size_t held = crmm_priv_pool_held(pool);
    size_t budget = held / SHARE / (pool->cache_count > 0 ? pool->cache_count : 1);

    if (pool->cache_option == SIZE_MAX) {
        budget = 0;
    } else if (pool->cache_option != 0) {
        budget = pool->cache_option;
    } else if (budget < LOWEST_BUDGET) {
        size_t most = pool->maximum / SHARE / (pool->cache_count > 0 ? pool->cache_count : 1);
        budget = most < LOWEST_BUDGET ? most : LOWEST_BUDGET;
    }
    __atomic_store_n(&pool->budget, budget, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->fence_limit, highest_fence(pool), __ATOMIC_RELAXED);
}

static uint32_t most_of(size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        return CRMM_PRIV_POOL_MOST_SMALL;
    }
    return class_index < CRMM_PRIV_POOL_MIDDLE_CLASSES ? CRMM_PRIV_POOL_MOST_MIDDLE
                                                       : CRMM_PRIV_POOL_MOST_BIG;
}

static size_t budget_of(const crmm_priv_pool_cache *cache)
{
    return __atomic_load_n(&cache->pool->budget, __ATOMIC_RELAXED);
}

/* A class that is used gets more room while there is budget for it. */
static void widen(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    uint32_t limit = crmm_priv_pool_shelf_limit(shelf);

    if (limit < most_of(class_index) && cache->bytes + limit * shelf->bytes < budget_of(cache)) {
        limit *= 2;
        shelf->end = shelf->first + (limit < most_of(class_index) ? limit : most_of(class_index));
    }
}

static uint16_t owner_of(const crmm_priv_pool_cache *cache)
{
    return cache->stream == NULL ? CRMM_PRIV_POOL_CLEAN : cache->stream->index;
}

uint64_t crmm_priv_pool_cache_epoch(const crmm_priv_pool_cache *cache)
{
    if (cache->stream == NULL) {
        return 0;
    }
    /* What was there when the last fence was recorded is behind it. */
    return __atomic_load_n(&cache->left, __ATOMIC_RELAXED) == cache->allowance
               ? cache->epoch
               : crmm_priv_pool_stream_epoch(cache->stream);
}

/* Give the `count` blocks of a class that were put in first to the heaps. */
static void drop_oldest(crmm_priv_pool_cache *cache, size_t class_index, uint32_t count)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    crmm_priv_pool_give_to_heaps(cache->pool, shelf->first, count, owner_of(cache),
                                 crmm_priv_pool_cache_epoch(cache));
    shelf->next -= count;
    memmove(shelf->first, shelf->first + count,
            crmm_priv_pool_shelf_count(shelf) * sizeof(*shelf->first));
    __atomic_store_n(&cache->bytes, cache->bytes - count * shelf->bytes, __ATOMIC_RELAXED);
}

/* The older half of a class, at least one of its blocks. */
static void drop_half(crmm_priv_pool_cache *cache, size_t class_index)
{
    uint32_t count = crmm_priv_pool_shelf_count(&cache->shelves[class_index]);

    if (count > 0) {
        count = (count + 1) / 2;
        drop_oldest(cache, class_index, count < MOST_AT_ONCE ? count : MOST_AT_ONCE);
    }
}

/* A cache that holds too much lets go of half of some classes, beginning after those of the last
 * time. What is small as a class is not what makes it too much. */
static void shrink(crmm_priv_pool_cache *cache)
{
    const size_t budget = budget_of(cache);
    int dropped = 0;

    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES && dropped < SHRINK_AT_ONCE &&
                         cache->bytes > budget - budget / 8;
         i++) {
        const crmm_priv_pool_shelf *shelf = &cache->shelves[cache->next_class];
        if (crmm_priv_pool_shelf_count(shelf) * shelf->bytes > budget / CRMM_PRIV_POOL_CLASSES) {
            drop_half(cache, cache->next_class);
            dropped++;
        }
        cache->next_class = (cache->next_class + 1) % CRMM_PRIV_POOL_CLASSES;
    }
}

/* Make room for one more block of a class, which is full. */
static void make_room(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    widen(cache, class_index);
    if (cache->bytes > budget_of(cache)) {
        uint32_t limit = crmm_priv_pool_shelf_limit(shelf);
        shelf->end = shelf->first + (limit > FIRST_LIMIT ? limit / 2 : limit);
        shrink(cache);
    }
    while (shelf->next >= shelf->end) {
        drop_half(cache, class_index);
    }
}

/* There are no caches: the block goes to its heap. */
static bool put_through(crmm_priv_pool_cache *cache, size_t bytes, void *block)
{
    bool is_time = crmm_priv_pool_cache_count(cache, bytes);

    crmm_priv_pool_give_to_heaps(cache->pool, &block, 1, owner_of(cache),
                                 crmm_priv_pool_cache_epoch(cache));
    return is_time;
}

bool crmm_priv_pool_cache_put(crmm_priv_pool_cache *cache, size_t class_index, void *block)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    bool is_time = false;

    crmm_priv_bias_lock(&cache->lock);
    if (shelf->end == shelf->first) {
        is_time = put_through(cache, shelf->bytes, block);
    } else {
        if (shelf->next == shelf->end) {
            make_room(cache, class_index);
        }
        is_time = crmm_priv_pool_cache_push(cache, shelf, block);
    }
    crmm_priv_bias_unlock(&cache->lock);
    return is_time;
}

void *crmm_priv_pool_cache_get(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    crmm_priv_bias_lock(&cache->lock);
    void *block = shelf->next == shelf->first ? NULL : crmm_priv_pool_cache_pop(cache, shelf);
    crmm_priv_bias_unlock(&cache->lock);
    return block;
}

uint32_t crmm_priv_pool_cache_missed(crmm_priv_pool_cache *cache, size_t class_index)
{
    const crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    crmm_priv_bias_lock(&cache->lock);
    widen(cache, class_index);
    uint32_t limit = crmm_priv_pool_shelf_limit(shelf);
    bool is_room = class_index < CRMM_PRIV_POOL_SMALL_CLASSES &&
                   cache->bytes + limit * shelf->bytes < budget_of(cache);
    crmm_priv_bias_unlock(&cache->lock);
    return is_room ? (limit + FETCHED - 1) / FETCHED : 0;
}

uint32_t crmm_priv_pool_cache_fill(crmm_priv_pool_cache *cache, size_t class_index, void **blocks,
                                   uint32_t count)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    crmm_priv_bias_lock(&cache->lock);
    /* They may have been given back by another thread, after this one's last fence. */
    if (cache->stream != NULL) {
        cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    }
    /* Room for all of them, if the class can have it. */
    if (shelf->next + count > shelf->end && shelf->end != shelf->first) {
        shelf->end = shelf->first + most_of(class_index);
    }
    while (count > 0 && shelf->next < shelf->end) {
        count--;
        *shelf->next++ = blocks[count];
        __atomic_store_n(&cache->bytes, cache->bytes + shelf->bytes, __ATOMIC_RELAXED);
    }
    crmm_priv_bias_unlock(&cache->lock);
    return count;
}

bool crmm_priv_pool_cache_find_chunk(crmm_priv_pool_cache *cache, const void *ptr)
{
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&cache->pool->chunks, ptr);

    if (chunk == NULL) {
        return false;
    }
    cache->chunk_base = chunk->base;
    cache->chunk_granules = chunk->bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT;
    cache->marks = chunk->marks;
    return true;
}

/* Give all blocks to the heaps. */
static void flush(crmm_priv_pool_cache *cache)
{
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        uint32_t count = crmm_priv_pool_shelf_count(&cache->shelves[i]);
        if (count > 0) {
            drop_oldest(cache, i, count);
        }
    }
}

/* ---- all caches ---- */

void crmm_priv_pool_stop_caches(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        crmm_priv_bias_revoke(&cache->lock);
    }
    crmm_priv_bias_barrier();
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        crmm_priv_bias_await(&cache->lock);
    }
}

void crmm_priv_pool_resume_caches(crmm_priv_pool *pool)
{
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        crmm_priv_bias_restore(&cache->lock);
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* Whether there is anything to flush; a hint. */
static bool has_cached(crmm_priv_pool *pool)
{
    bool found = false;

    pthread_mutex_lock(&pool->mutex);
    for (const crmm_priv_pool_cache *cache = pool->caches; cache != NULL && !found;
         cache = cache->next_of_pool) {
        found = __atomic_load_n(&cache->bytes, __ATOMIC_RELAXED) != 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

/* This thread's own caches, which takes no barrier. */
static size_t flush_own(const crmm_priv_pool *pool)
{
    size_t bytes = 0;

    for (crmm_priv_pool_cache *cache = crmm_priv_pool_self->first; cache != NULL;
         cache = cache->next_of_thread) {
        if (cache->pool == pool && __atomic_load_n(&cache->bytes, __ATOMIC_RELAXED) != 0) {
            crmm_priv_bias_lock(&cache->lock);
            bytes += cache->bytes;
            flush(cache);
            crmm_priv_bias_unlock(&cache->lock);
        }
    }
    return bytes;
}

size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool)
{
    size_t bytes = flush_own(pool);

    if (!has_cached(pool)) {
        return bytes;
    }
    crmm_priv_pool_stop_caches(pool);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        bytes += cache->bytes;
        flush(cache);
    }
    crmm_priv_pool_resume_caches(pool);
    return bytes;
}

void crmm_priv_pool_want(crmm_priv_pool *pool, const crmm_priv_pool_stream *but)
{
    pthread_mutex_lock(&pool->mutex);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        if (cache->stream != NULL && cache->stream != but &&
            __atomic_load_n(&cache->left, __ATOMIC_RELAXED) > CRMM_PRIV_POOL_WANTED) {
            __atomic_store_n(&cache->left, CRMM_PRIV_POOL_WANTED, __ATOMIC_RELAXED);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- fences ---- */

bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes)
{
    crmm_priv_bias_lock(&cache->lock);
    bool is_time = crmm_priv_pool_cache_count(cache, bytes);
    crmm_priv_bias_unlock(&cache->lock);
    return is_time;
}

/*
 * How much may be given back before the next fence: an eighth of what was given back before, so
 * that a stream that is destroyed leaves little behind, however short it lived.
 */
static void set_fence_limit(crmm_priv_pool_cache *cache)
{
    int64_t highest = (int64_t)__atomic_load_n(&cache->pool->fence_limit, __ATOMIC_RELAXED);
    int64_t limit = (int64_t)(cache->fenced / 8);

    limit = limit < FIRST_FENCE ? FIRST_FENCE : limit;
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

    if (pool->is_tight || pool->release_threshold != SIZE_MAX || cache->fences == 0) {
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

/* Whether to record a fence now. */
static bool is_due(crmm_priv_pool_cache *cache)
{
    crmm_priv_bias_lock(&cache->lock);
    cache->looks += unfenced_of(cache) > cache->fence_limit ||
                    crmm_priv_pool_held(cache->pool) > cache->pool->release_threshold;
    bool is_time = __atomic_load_n(&cache->left, __ATOMIC_RELAXED) <= CRMM_PRIV_POOL_WANTED ||
                   cache->looks >= few_blocks(cache);
    crmm_priv_bias_unlock(&cache->lock);
    return is_time;
}

/* Close the account: what was given back so far has a fence from now on. */
static void close_account(crmm_priv_pool_cache *cache)
{
    enum { YOUNG = 8 }; /* fences */

    crmm_priv_bias_lock(&cache->lock);
    /* A stream or thread that does not live long leaves nothing at hand behind a fence. */
    if (__atomic_load_n(&cache->left, __ATOMIC_RELAXED) <= CRMM_PRIV_POOL_WANTED ||
        cache->fences < YOUNG) {
        flush(cache);
    }
    cache->fences++;
    cache->fenced += (uint64_t)unfenced_of(cache);
    cache->looks = 0;
    cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    set_fence_limit(cache);
    crmm_priv_bias_unlock(&cache->lock);
}

/* Whether a handle is still that of the cache's stream, and not of a later one's. */
static bool is_behind(const crmm_priv_pool_cache *cache, crmm_stream handle)
{
    return (uintptr_t)handle <= (uintptr_t)CRMM_STREAM_PER_THREAD ||
           crmm_priv_stream_id_of(handle) == cache->id;
}

void crmm_priv_pool_cache_look(crmm_priv_pool_cache *cache, crmm_stream handle)
{
    crmm_priv_pool *pool = cache->pool;

    if (cache->stream != NULL && is_due(cache) && is_behind(cache, handle)) {
        close_account(cache);
        (void)crmm_priv_pool_stream_fence(&pool->streams, cache->stream, handle);
    }
    if (crmm_priv_pool_held(pool) > pool->release_threshold) {
        crmm_priv_pool_settle_streams(pool);
        (void)crmm_priv_pool_release(pool, pool->release_threshold);
    }
}

/* ---- threads ---- */

/* Take a cache out of a list. */
static void unlink_of_pool(crmm_priv_pool_cache **list, const crmm_priv_pool_cache *cache)
{
    while (*list != cache) {
        list = &(*list)->next_of_pool;
    }
    *list = cache->next_of_pool;
}

static void unlink_of_thread(crmm_priv_pool_thread *self, const crmm_priv_pool_cache *cache)
{
    crmm_priv_pool_cache **link = &self->first;

    while (*link != cache) {
        link = &(*link)->next_of_thread;
    }
    *link = cache->next_of_thread;
}

/* A cache that its thread has no more use for: empty, and kept for another one. */
static void retire(crmm_priv_pool_cache *cache)
{
    crmm_priv_pool *pool = cache->pool;
    crmm_priv_pool_stream *stream = cache->stream;

    crmm_priv_bias_lock(&cache->lock);
    flush(cache);
    crmm_priv_bias_unlock(&cache->lock);
    pthread_mutex_lock(&pool->mutex);
    cache->stream = NULL; /* others look at it with this lock */
    unlink_of_pool(&pool->caches, cache);
    cache->stream = NULL; /* others look at it while it is in the list */
    cache->next_of_pool = pool->orphans;
    pool->orphans = cache;
    __atomic_store_n(&pool->cache_count, pool->cache_count - 1, __ATOMIC_RELAXED);
    pool->heaps[cache->heap]->users--;
    crmm_priv_pool_set_budget(pool);
    pthread_mutex_unlock(&pool->mutex);
    if (stream != NULL) {
        crmm_priv_pool_streams_put(&pool->streams, stream);
    }
}

/* No call of CUDA's here: the thread is on its way out. */
static void leave(void *value)
{
    crmm_priv_pool_thread *self = value;

    pthread_mutex_lock(&registry);
    while (self->first != NULL) {
        crmm_priv_pool_cache *cache = self->first;
        self->first = cache->next_of_thread;
        retire(cache);
    }
    pthread_mutex_unlock(&registry);
    crmm_priv_pool_self = &nobody;
    free(self);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, leave) == 0;
}

void crmm_priv_pool_forget_caches(void)
{
    if (crmm_priv_pool_self != &nobody) {
        memset(crmm_priv_pool_self->by_id, 0, sizeof(crmm_priv_pool_self->by_id));
        memset(crmm_priv_pool_self->by_handle, 0, sizeof(crmm_priv_pool_self->by_handle));
    }
}

/* The key's destructor must not be called when the code is gone. */
__attribute__((destructor)) static void delete_key(void)
{
    if (has_key) {
        (void)pthread_key_delete(key);
        has_key = false;
    }
}

static crmm_priv_pool_thread *this_thread(void)
{
    if (crmm_priv_pool_self != &nobody) {
        return crmm_priv_pool_self;
    }
    (void)pthread_once(&once, make_key);
    crmm_priv_pool_thread *self = has_key ? calloc(1, sizeof(*self)) : NULL;
    if (self == NULL || pthread_setspecific(key, self) != 0) {
        free(self);
        return NULL;
    }
    crmm_priv_pool_self = self;
    return self;
}

/* ---- making caches ---- */

static bool is_idle(void *context, uint16_t owner)
{
    crmm_priv_pool *pool = context;
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    bool idle = true;

    for (uint32_t i = 0; i < heaps && idle; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, owner);
        idle = (set == NULL || set->count == 0) && heap->extents.leaving == 0;
        crmm_priv_pool_heap_unlock(heap);
    }
    return idle;
}

/* The heap with the fewest users; the pool's lock is held. */
static uint32_t choose_heap(const crmm_priv_pool *pool)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < pool->heap_count; i++) {
        best = pool->heaps[i]->users < pool->heaps[best]->users ? i : best;
    }
    return best;
}

/* The heap that this thread's other caches use, so that one thread stays with one heap. */
static uint32_t heap_of_thread(const crmm_priv_pool_thread *self, const crmm_priv_pool *pool)
{
    for (const crmm_priv_pool_cache *other = self->first; other != NULL;
         other = other->next_of_thread) {
        if (other->pool == pool) {
            return other->heap;
        }
    }
    return choose_heap(pool);
}

static crmm_priv_pool_cache *take_orphan(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_cache *cache = pool->orphans;
    if (cache != NULL) {
        pool->orphans = cache->next_of_pool;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (cache == NULL && posix_memalign((void **)&cache, 128, sizeof(*cache)) != 0) {
        return NULL;
    }
    memset(cache, 0, sizeof(*cache));
    return cache;
}

static void set_shelves(crmm_priv_pool_cache *cache, uint32_t limit)
{
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        void **first = &cache->blocks[crmm_priv_pool_first_block(i)];
        cache->shelves[i] = (crmm_priv_pool_shelf){.next = first,
                                                   .end = first + limit,
                                                   .first = first,
                                                   .bytes = crmm_priv_pool_class_bytes(i)};
    }
}

/* One stream alone has clean memory joined to its own. */
static void note_stream(crmm_priv_pool *pool, const crmm_priv_pool_stream *stream)
{
    bool alone = stream != NULL && pool->release_threshold == SIZE_MAX &&
                 stream->index == CRMM_PRIV_POOL_FIRST_STREAM &&
                 crmm_priv_pool_streams_end(&pool->streams) == CRMM_PRIV_POOL_FIRST_STREAM + 1 &&
                 !pool->had_sync;

    pool->had_sync = pool->had_sync || stream == NULL;
    crmm_priv_pool_set_solo(pool, alone ? stream->index : 0);
}

/* The registry is locked. */
static crmm_priv_pool_cache *make_cache(crmm_priv_pool *pool, crmm_priv_pool_thread *self,
                                        uint64_t id, bool is_default)
{
    crmm_priv_pool_stream *stream = NULL;

    if (id != CRMM_PRIV_POOL_NO_STREAM) {
        stream = crmm_priv_pool_streams_get(&pool->streams, id, is_default, is_idle, pool);
        if (stream == NULL) {
            return NULL;
        }
    }
    note_stream(pool, stream);
    crmm_priv_pool_cache *cache = take_orphan(pool);
    if (cache == NULL) {
        if (stream != NULL) {
            crmm_priv_pool_streams_put(&pool->streams, stream);
        }
        return NULL;
    }
    cache->pool = pool;
    cache->stream = stream;
    crmm_priv_bias_init(&cache->lock);
    cache->id = id;
    set_shelves(cache, pool->cache_option == SIZE_MAX ? 0 : FIRST_LIMIT);
    set_fence_limit(cache);
    cache->thread = self;
    cache->next_of_thread = self->first;
    pthread_mutex_lock(&pool->mutex);
    cache->heap = heap_of_thread(self, pool);
    pool->heaps[cache->heap]->users++;
    cache->next_of_pool = pool->caches;
    pool->caches = cache;
    __atomic_store_n(&pool->cache_count, pool->cache_count + 1, __ATOMIC_RELAXED);
    crmm_priv_pool_set_budget(pool);
    pthread_mutex_unlock(&pool->mutex);
    self->first = cache;
    return cache;
}

/* A thread that uses many streams one after the other does not keep a cache for each. */
static void evict(crmm_priv_pool *pool, crmm_priv_pool_thread *self)
{
    crmm_priv_pool_cache *oldest = NULL;
    uint32_t count = 0;

    for (crmm_priv_pool_cache *cache = self->first; cache != NULL; cache = cache->next_of_thread) {
        if (cache->pool == pool) {
            oldest = cache;
            count++;
        }
    }
    if (count < MOST_OF_THREAD) {
        return;
    }
    for (size_t i = 0; i < CRMM_PRIV_POOL_THREAD_ENTRIES; i++) {
        if (self->by_id[i].cache == oldest) {
            self->by_id[i] = (crmm_priv_pool_thread_entry){0};
        }
        if (self->by_handle[i].cache == oldest) {
            self->by_handle[i] = (crmm_priv_pool_thread_entry){0};
        }
    }
    unlink_of_thread(self, oldest);
    retire(oldest);
}

void crmm_priv_pool_remember_handle(const crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                    crmm_stream handle)
{
    uint64_t serial = __atomic_load_n(&pool->serial, __ATOMIC_ACQUIRE);
    size_t at = crmm_priv_pool_handle_entry(handle, serial);

    /* NULL is the legacy stream's, and stands for no stream in sync calls. */
    if (cache->stream != NULL) {
        cache->thread->by_handle[at] = (crmm_priv_pool_thread_entry){
            .serial = serial, .key = (uintptr_t)handle, .cache = cache};
    }
}

/* From now on it is found by the stream's id, and by its handle. */
static void enter(const crmm_priv_pool *pool, crmm_priv_pool_cache *cache, crmm_stream handle)
{
    uint64_t serial = __atomic_load_n(&pool->serial, __ATOMIC_ACQUIRE);
    size_t at = (cache->id + serial) % CRMM_PRIV_POOL_THREAD_ENTRIES;

    /* The number changes when a chunk goes, and it may be the one that was looked at. */
    cache->chunk_granules = 0;
    cache->thread->by_id[at] =
        (crmm_priv_pool_thread_entry){.serial = serial, .key = cache->id, .cache = cache};
    crmm_priv_pool_remember_handle(pool, cache, handle);
}

/* The thread's cache for a stream, or a new one. NULL: no host memory, or too many streams. */
static crmm_priv_pool_cache *find_or_make(crmm_priv_pool *pool, crmm_priv_pool_thread *self,
                                          uint64_t id, bool is_default)
{
    crmm_priv_pool_cache *cache = NULL;

    pthread_mutex_lock(&registry);
    for (cache = self->first; cache != NULL; cache = cache->next_of_thread) {
        if (cache->pool == pool && cache->id == id) {
            break;
        }
    }
    if (cache == NULL) {
        evict(pool, self);
        cache = make_cache(pool, self, id, is_default);
    }
    pthread_mutex_unlock(&registry);
    return cache;
}

crmm_priv_pool_cache *crmm_priv_pool_find_cache(crmm_priv_pool *pool, uint64_t id,
                                                crmm_stream handle)
{
    crmm_priv_pool_thread *self = this_thread();
    bool is_default = (uintptr_t)handle <= (uintptr_t)CRMM_STREAM_PER_THREAD;

    if (self == NULL) {
        return NULL;
    }
    crmm_priv_pool_cache *cache = find_or_make(pool, self, id, is_default);
    /* Streams that ended without a fence keep their entries until their work is known to be done.
     */
    if (cache == NULL &&
        crmm_priv_pool_streams_end(&pool->streams) >= CRMM_PRIV_POOL_MOST_STREAMS &&
        crmm_priv_pool_wait_for_all(pool) == 0) {
        cache = find_or_make(pool, self, id, is_default);
    }
    if (cache != NULL) {
        enter(pool, cache, handle);
    }
    return cache;
}

void crmm_priv_pool_delete_caches(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&registry);
    crmm_priv_pool_cache *lists[] = {pool->caches, pool->orphans};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        while (lists[i] != NULL) {
            crmm_priv_pool_cache *cache = lists[i];
            lists[i] = cache->next_of_pool;
            if (i == 0) {
                unlink_of_thread(cache->thread, cache);
            }
            free(cache);
        }
    }
    pthread_mutex_unlock(&registry);
    pool->caches = NULL;
    pool->orphans = NULL;
}
