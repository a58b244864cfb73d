/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

#include "fences.h"
#include "settle.h"
#include "stream_id.h"
#include "wait.h"

enum { MOST_OF_THREAD = 64 /* caches of one thread in one pool */ };

/* A thread without caches. It is never written. */
static crmm_priv_pool_thread nobody;

__thread crmm_priv_pool_thread *crmm_priv_pool_self __attribute__((tls_model("initial-exec"))) =
    &nobody;

/* Guards which threads and pools there are, and which caches they have. Taken before any other. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

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

/* Whether a thread has a cache in the pool, whose lock is held. */
static bool has_cache(const crmm_priv_pool *pool, const crmm_priv_pool_thread *thread)
{
    const crmm_priv_pool_cache *cache = pool->caches;

    while (cache != NULL && cache->thread != thread) {
        cache = cache->next_of_pool;
    }
    return cache != NULL;
}

/* One more, or one less, of the pool's caches; its lock is held. */
static void count_caches(crmm_priv_pool *pool, int caches, int threads)
{
    __atomic_store_n(&pool->cache_count, pool->cache_count + (uint32_t)caches, __ATOMIC_RELAXED);
    __atomic_store_n(&pool->thread_count, pool->thread_count + (uint32_t)threads, __ATOMIC_RELAXED);
}

/* A cache that its thread has no more use for: empty, and kept for another one. */
static void retire(crmm_priv_pool_cache *cache)
{
    crmm_priv_pool *pool = cache->pool;
    crmm_priv_pool_stream *stream = cache->stream;

    crmm_priv_bias_lock(&cache->lock);
    crmm_priv_pool_cache_flush(cache);
    crmm_priv_bias_unlock(&cache->lock);
    pthread_mutex_lock(&pool->mutex);
    cache->stream = NULL; /* others look at it with this lock */
    unlink_of_pool(&pool->caches, cache);
    cache->next_of_pool = pool->orphans;
    pool->orphans = cache;
    count_caches(pool, -1, has_cache(pool, cache->thread) ? 0 : -1);
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
    bool idle = !crmm_priv_pool_depot_has(pool, owner); /* before the heaps, to which it goes */

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

bool crmm_priv_pool_registry_is_held(void)
{
    if (pthread_mutex_trylock(&registry) != 0) {
        return true;
    }
    pthread_mutex_unlock(&registry);
    return false;
}

/* Whether there is one stream alone; the registry is locked. */
static bool is_alone(const crmm_priv_pool *pool)
{
    return pool->release_threshold == SIZE_MAX && !pool->had_sync &&
           crmm_priv_pool_streams_end(&pool->streams) == CRMM_PRIV_POOL_FIRST_STREAM + 1;
}

/* One stream alone has clean memory joined to its own. */
static void note_stream(crmm_priv_pool *pool, const crmm_priv_pool_stream *stream)
{
    pool->had_sync = pool->had_sync || stream == NULL;
    crmm_priv_pool_set_only(pool, is_alone(pool) ? CRMM_PRIV_POOL_FIRST_STREAM : 0);
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
    crmm_priv_pool_cache_set_shelves(cache);
    crmm_priv_pool_set_fence_limit(cache);
    cache->turn = __atomic_load_n(&crmm_priv_pool_heap_of(pool, 0)->turn, __ATOMIC_RELAXED);
    cache->thread = self;
    cache->next_of_thread = self->first;
    pthread_mutex_lock(&pool->mutex);
    cache->heap = heap_of_thread(self, pool);
    pool->heaps[cache->heap]->users++;
    count_caches(pool, 1, has_cache(pool, self) ? 0 : 1);
    cache->next_of_pool = pool->caches;
    pool->caches = cache;
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

void crmm_priv_pool_forget_handle(const crmm_priv_pool *pool, const crmm_priv_pool_cache *cache,
                                  crmm_stream handle)
{
    uint64_t serial = __atomic_load_n(&pool->serial, __ATOMIC_ACQUIRE);
    crmm_priv_pool_thread_entry *entry =
        &cache->thread->by_handle[crmm_priv_pool_handle_entry(handle, serial)];

    if (entry->cache == cache) {
        *entry = (crmm_priv_pool_thread_entry){.cache = NULL};
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
    bool is_default = !crmm_priv_pool_is_created(handle);

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

/* ---- all caches of a pool ---- */

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
        found = crmm_priv_pool_cache_bytes(cache) != 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

/* This thread's own caches, which takes no barrier. They are looked for in the pool's list: that of
 * the thread changes when another pool goes. */
static size_t flush_caches_of_thread(crmm_priv_pool *pool)
{
    size_t bytes = 0;

    pthread_mutex_lock(&pool->mutex);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        if (cache->thread == crmm_priv_pool_self && crmm_priv_pool_cache_bytes(cache) != 0) {
            crmm_priv_bias_lock(&cache->lock);
            bytes += crmm_priv_pool_cache_bytes(cache);
            crmm_priv_pool_cache_flush(cache);
            crmm_priv_bias_unlock(&cache->lock);
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return bytes;
}

size_t crmm_priv_pool_flush_own(crmm_priv_pool *pool)
{
    return flush_caches_of_thread(pool) + crmm_priv_pool_depot_flush(pool);
}

size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool)
{
    size_t bytes = crmm_priv_pool_flush_own(pool);

    if (!has_cached(pool)) {
        return bytes;
    }
    crmm_priv_pool_stop_caches(pool);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        bytes += crmm_priv_pool_cache_bytes(cache);
        crmm_priv_pool_cache_flush(cache);
        if (pool->starving > 0) {
            crmm_priv_pool_cache_set_shelves(cache); /* as narrow as they were at first */
        }
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
