/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_LIMIT = 2,         /* blocks of a class, until it turns out to be used */
    MOST_OF_THREAD = 64,     /* caches of one thread in one pool */
    SHARE = 16,              /* caches together hold a sixteenth of the pool */
    LOWEST_BUDGET = 1 << 20, /* bytes */
    FIRST_FENCE = 64 << 10,  /* bytes given back on a new stream before it is fenced */
    SHRINK_AT_ONCE = 8       /* classes to make smaller when the cache is full */
};

__thread crmm_priv_pool_thread *crmm_priv_pool_self __attribute__((tls_model("initial-exec")));

/* Guards which threads and pools there are, and which caches they have. Taken before any other. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

const void *crmm_priv_pool_this_thread(void)
{
    return crmm_priv_pool_self;
}

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
        return (size_t)1 << 20;
    }
    return pool->heap_count > 1 ? ((size_t)16 << 20) + held / 256 : ((size_t)4 << 20) + held / 1024;
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
        budget = LOWEST_BUDGET;
    }
    __atomic_store_n(&pool->budget, budget, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->fence_limit, highest_fence(pool), __ATOMIC_RELAXED);
}

static uint32_t most_of(uint32_t class_index)
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
static void widen(crmm_priv_pool_cache *cache, uint32_t class_index)
{
    uint32_t limit = cache->limit[class_index];
    size_t more = crmm_priv_pool_class_bytes(class_index) * limit;

    if (limit < most_of(class_index) && cache->bytes + more < budget_of(cache)) {
        limit *= 2;
        cache->limit[class_index] =
            (uint8_t)(limit < most_of(class_index) ? limit : most_of(class_index));
    }
}

static uint16_t owner_of(const crmm_priv_pool_cache *cache)
{
    return cache->stream == NULL ? CRMM_PRIV_POOL_CLEAN : cache->stream->index;
}

/* Give the `count` blocks of a class that were put in first to the heaps. */
static void drop_oldest(crmm_priv_pool_cache *cache, uint32_t class_index, uint32_t count)
{
    void **blocks = &cache->blocks[crmm_priv_pool_first_block(class_index)];

    crmm_priv_pool_give_to_heaps(cache->pool, blocks, count, owner_of(cache), cache->epoch);
    cache->count[class_index] = (uint8_t)(cache->count[class_index] - count);
    memmove(blocks, blocks + count, cache->count[class_index] * sizeof(*blocks));
    __atomic_store_n(&cache->bytes, cache->bytes - count * crmm_priv_pool_class_bytes(class_index),
                     __ATOMIC_RELAXED);
}

/* A cache that holds too much lets go of half of some classes, another few each time. */
static void shrink(crmm_priv_pool_cache *cache)
{
    for (int i = 0; i < SHRINK_AT_ONCE; i++) {
        uint32_t class_index = cache->next_class;
        cache->next_class = (class_index + 1) % CRMM_PRIV_POOL_CLASSES;
        if (cache->count[class_index] > 0) {
            drop_oldest(cache, class_index, (cache->count[class_index] + 1u) / 2);
        }
    }
}

bool crmm_priv_pool_cache_overflow(crmm_priv_pool_cache *cache, uint32_t class_index, void *block)
{
    if (cache->limit[class_index] == 0) {
        crmm_priv_pool_give_to_heaps(cache->pool, &block, 1, owner_of(cache), cache->epoch);
        return false;
    }
    widen(cache, class_index);
    if (cache->bytes > budget_of(cache)) {
        if (cache->limit[class_index] > FIRST_LIMIT) {
            cache->limit[class_index] /= 2;
        }
        shrink(cache);
    }
    if (cache->count[class_index] >= cache->limit[class_index]) {
        drop_oldest(cache, class_index, (cache->count[class_index] + 1u) / 2);
    }
    return true;
}

uint32_t crmm_priv_pool_cache_missed(crmm_priv_pool_cache *cache, uint32_t class_index)
{
    crmm_priv_spin_lock(&cache->lock);
    widen(cache, class_index);
    uint32_t more =
        class_index < CRMM_PRIV_POOL_SMALL_CLASSES &&
                cache->bytes + cache->limit[class_index] * crmm_priv_pool_class_bytes(class_index) <
                    budget_of(cache)
            ? cache->limit[class_index] / 2u
            : 0;
    crmm_priv_spin_unlock(&cache->lock);
    return more;
}

uint32_t crmm_priv_pool_cache_fill(crmm_priv_pool_cache *cache, uint32_t class_index, void **blocks,
                                   uint32_t count)
{
    crmm_priv_spin_lock(&cache->lock);
    while (count > 0 && cache->count[class_index] < most_of(class_index)) {
        count--;
        cache->blocks[crmm_priv_pool_first_block(class_index) + cache->count[class_index]] =
            blocks[count];
        cache->count[class_index]++;
        __atomic_store_n(&cache->bytes, cache->bytes + crmm_priv_pool_class_bytes(class_index),
                         __ATOMIC_RELAXED);
    }
    if (cache->stream != NULL) {
        cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    }
    crmm_priv_spin_unlock(&cache->lock);
    return count;
}

void crmm_priv_pool_cache_flush(crmm_priv_pool_cache *cache)
{
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        if (cache->count[i] > 0) {
            drop_oldest(cache, i, cache->count[i]);
        }
    }
}

size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool)
{
    size_t bytes = 0;

    pthread_mutex_lock(&pool->mutex);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        if (__atomic_load_n(&cache->bytes, __ATOMIC_RELAXED) != 0 &&
            crmm_priv_spin_try(&cache->lock)) {
            bytes += cache->bytes;
            crmm_priv_pool_cache_flush(cache);
            crmm_priv_spin_unlock(&cache->lock);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return bytes;
}

/* ---- fences ---- */

bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes)
{
    bool is_time = false;

    if (cache->stream == NULL) {
        return false;
    }
    crmm_priv_spin_lock(&cache->lock);
    cache->unfenced += bytes;
    is_time = cache->unfenced >= cache->fence_limit ||
              __atomic_load_n(&cache->stream->wanted, __ATOMIC_RELAXED) != 0;
    crmm_priv_spin_unlock(&cache->lock);
    return is_time;
}

/*
 * How much may be given back before the next fence: an eighth of what was given back before, so
 * that a stream that is destroyed leaves little behind, however short it lived.
 */
static void set_fence_limit(crmm_priv_pool_cache *cache)
{
    size_t highest = __atomic_load_n(&cache->pool->fence_limit, __ATOMIC_RELAXED);
    size_t limit = (size_t)(cache->fenced / 8);

    if (cache->id == CRMM_PRIV_POOL_LEGACY_STREAM) {
        cache->fence_limit = SIZE_MAX; /* it does not die: when another stream wants it is enough */
        return;
    }
    limit = limit < FIRST_FENCE ? FIRST_FENCE : limit;
    cache->fence_limit = limit < highest ? limit : highest;
}

void crmm_priv_pool_cache_fence(crmm_priv_pool_cache *cache, crmm_stream handle)
{
    crmm_priv_pool_stream *stream = cache->stream;

    crmm_priv_spin_lock(&cache->lock);
    cache->fenced += cache->unfenced;
    cache->unfenced = 0;
    set_fence_limit(cache);
    if (__atomic_load_n(&stream->wanted, __ATOMIC_RELAXED) != 0) {
        crmm_priv_pool_cache_flush(cache);
    }
    crmm_priv_spin_unlock(&cache->lock);
    (void)crmm_priv_pool_stream_fence(&cache->pool->streams, stream, handle);
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

    crmm_priv_spin_lock(&cache->lock);
    crmm_priv_pool_cache_flush(cache);
    cache->stream = NULL;
    crmm_priv_spin_unlock(&cache->lock);
    pthread_mutex_lock(&pool->mutex);
    unlink_of_pool(&pool->caches, cache);
    cache->next_of_pool = pool->orphans;
    pool->orphans = cache;
    pool->cache_count--;
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
    crmm_priv_pool_self = NULL;
    free(self);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, leave) == 0;
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
    if (crmm_priv_pool_self != NULL) {
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

/* One stream alone has clean memory joined to its own. */
static void note_stream(crmm_priv_pool *pool, const crmm_priv_pool_stream *stream)
{
    bool alone = stream != NULL && stream->index == CRMM_PRIV_POOL_FIRST_STREAM &&
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
    cache->id = id;
    memset(cache->limit, pool->cache_option == SIZE_MAX ? 0 : FIRST_LIMIT, sizeof(cache->limit));
    set_fence_limit(cache);
    cache->thread = self;
    cache->next_of_thread = self->first;
    pthread_mutex_lock(&pool->mutex);
    cache->heap = heap_of_thread(self, pool);
    pool->heaps[cache->heap]->users++;
    cache->next_of_pool = pool->caches;
    pool->caches = cache;
    pool->cache_count++;
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
        if (self->entries[i].cache == oldest) {
            self->entries[i] = (crmm_priv_pool_thread_entry){0};
        }
    }
    unlink_of_thread(self, oldest);
    retire(oldest);
}

crmm_priv_pool_cache *crmm_priv_pool_find_cache(crmm_priv_pool *pool, uint64_t id, bool is_default)
{
    crmm_priv_pool_thread *self = this_thread();
    crmm_priv_pool_cache *cache = NULL;

    if (self == NULL) {
        return NULL;
    }
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
    if (cache != NULL) {
        self->entries[(id + pool->serial) % CRMM_PRIV_POOL_THREAD_ENTRIES] =
            (crmm_priv_pool_thread_entry){.serial = pool->serial, .id = id, .cache = cache};
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
