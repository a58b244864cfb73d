/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"

#include <string.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

enum {
    MOST_SOURCES = 64,  /* streams looked at together */
    MOST_VISITS = 4096, /* free extents looked at for a run of neighbours */
    SELDOM = 256,       /* shortages of a heap among several, between two wide searches */
    CROWDED = 96,       /* collisions that make a thread move to another heap */
    COLLISION = 8       /* what one counts */
};

static const size_t WORTH_A_HEAP = (size_t)16 << 20; /* bytes of a pool for each of its heaps */

typedef crmm_priv_pool_request request;

static void *address_of(uint64_t at)
{
    return (void *)(uintptr_t)(at << CRMM_PRIV_POOL_GRANULE_SHIFT);
}

/* ---- heaps ---- */

void crmm_priv_pool_heap_lock(crmm_priv_pool_heap *heap)
{
    pthread_mutex_lock(&heap->mutex);
}

bool crmm_priv_pool_heap_try(crmm_priv_pool_heap *heap)
{
    return pthread_mutex_trylock(&heap->mutex) == 0;
}

void crmm_priv_pool_heap_unlock(crmm_priv_pool_heap *heap)
{
    pthread_mutex_unlock(&heap->mutex);
}

/* Move all of this thread's caches of a pool to the heap with the fewest users, or a new one. */
static void move_thread(crmm_priv_pool *pool, crmm_priv_pool_cache *cache)
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
    for (crmm_priv_pool_cache *other = cache->thread->first; other != NULL;
         other = other->next_of_thread) {
        if (other->pool == pool) {
            pool->heaps[other->heap]->users--;
            pool->heaps[best]->users++;
            other->heap = best;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
}

/* Lock the heap that a thread takes from. Threads that hand it over to each other often part: what
 * costs is not the lock but that all of the heap's memory moves between processors. */
static crmm_priv_pool_heap *lock_own(crmm_priv_pool *pool, crmm_priv_pool_cache *cache)
{
    crmm_priv_pool_thread *self = cache->thread;
    crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, cache->heap);

    crmm_priv_pool_heap_lock(heap);
    if (heap->last == self) {
        self->collisions -= self->collisions > 0;
        return heap;
    }
    heap->last = self;
    self->collisions += COLLISION;
    if (self->collisions < CROWDED || pool->most_heaps == 1) {
        return heap;
    }
    self->collisions = 0;
    crmm_priv_pool_heap_unlock(heap);
    move_thread(pool, cache);
    heap = crmm_priv_pool_heap_of(pool, cache->heap);
    crmm_priv_pool_heap_lock(heap);
    heap->last = self;
    return heap;
}

/* ---- looking ---- */

static bool has_one_block(const void *chunks, uint64_t at)
{
    return crmm_priv_pool_chunks_find(chunks, address_of(at))->has_one_block;
}

/* Whether an extent lies in a chunk for one block that is too large for this one. */
static bool is_too_good(const request *req, const crmm_priv_extent *extent)
{
    if (!req->is_thrifty) {
        return false;
    }
    const crmm_priv_pool_chunk *chunk =
        crmm_priv_pool_chunks_find(&req->pool->chunks, address_of(extent->at));
    return chunk->has_one_block &&
           chunk->bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT > crmm_priv_pool_thrifty_most(req->size);
}

/* The best of some sources, by how the pool places blocks: a tight one looks at all there is. */
static uint32_t find(const request *req, const crmm_priv_extents *extents,
                     const crmm_priv_extent_source *sources, size_t count)
{
    const crmm_priv_pool *pool = req->pool;

    if (pool->is_tight && pool->is_in_place && req->alignment == 1) {
        return crmm_priv_extents_find_lowest(extents, req->size, sources, count);
    }
    if (req->is_thrifty && req->alignment == 1) {
        return crmm_priv_extents_find_thrifty(extents, req->size,
                                              (uint32_t)crmm_priv_pool_thrifty_most(req->size),
                                              sources, count, has_one_block, &pool->chunks);
    }
    return crmm_priv_extents_find(extents, req->size, req->alignment, sources, count);
}

/* Take the best of some sources; the heap is locked. NULL: there is nothing. */
static void *take(const request *req, crmm_priv_pool_heap *heap,
                  const crmm_priv_extent_source *sources, size_t count, bool is_direct)
{
    crmm_priv_extents *extents = &heap->extents;

    if (!crmm_priv_extents_reserve(extents)) {
        return NULL;
    }
    uint32_t index = find(req, extents, sources, count);
    if (index == 0) {
        return NULL;
    }
    index = crmm_priv_extents_take(extents, index, req->size, req->alignment);
    extents->all[index].is_direct = is_direct;
    return address_of(extents->all[index].at);
}

/* One's own and clean memory. */
static size_t near_sources(const request *req, crmm_priv_extent_source *sources)
{
    size_t count = 0;

    if (req->stream != NULL) {
        sources[count++] =
            (crmm_priv_extent_source){.owner = req->stream->index, .epoch = UINT64_MAX};
    }
    sources[count++] =
        (crmm_priv_extent_source){.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX};
    return count;
}

/* What the stream has seen of others, after `count` sources: as many as there is room for. */
static size_t add_seen_sources(const request *req, crmm_priv_extent_source *sources, size_t count)
{
    if (req->stream == NULL || __atomic_load_n(&req->stream->seen, __ATOMIC_ACQUIRE) == NULL) {
        return count;
    }
    uint32_t end = crmm_priv_pool_streams_end(&req->pool->streams);
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end && count < MOST_SOURCES; i++) {
        const crmm_priv_pool_stream *other = crmm_priv_pool_stream_of(&req->pool->streams, i);
        uint64_t seen = crmm_priv_pool_stream_seen(req->stream, other);
        if (other != req->stream && seen > 0) {
            sources[count++] = (crmm_priv_extent_source){.owner = other->index, .epoch = seen};
        }
    }
    return count;
}

/* Others' memory that the stream has seen, where near memory was looked at in vain. */
static void *take_others(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = add_seen_sources(req, sources, 0);

    return count == 0 ? NULL : take(req, heap, sources, count, is_direct);
}

static void *take_seen(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = add_seen_sources(req, sources, near_sources(req, sources));

    return take(req, heap, sources, count, is_direct);
}

/* The same with the lock. */
static void *look(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_pool_heap_lock(heap);
    void *ptr = take_seen(req, heap, is_direct);
    crmm_priv_pool_heap_unlock(heap);
    return ptr;
}

/* ---- what others' work lets go of ---- */

static void promote(crmm_priv_pool *pool, crmm_priv_pool_heap *heap)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    if (heap->extents.solo != 0) {
        return; /* one stream needs nothing but its own */
    }
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        const crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        crmm_priv_extents_promote(&heap->extents, stream->index,
                                  crmm_priv_pool_stream_done(stream));
    }
}

static void poll(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream_poll(&pool->streams, crmm_priv_pool_stream_of(&pool->streams, i));
    }
}

/* Whether a stream gave something back for which there is no fence. */
static bool has_unfenced(crmm_priv_pool *pool, const crmm_priv_pool_stream *stream)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    bool found = false;

    for (uint32_t i = 0; i < heaps && !found; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, stream->index);
        found = set != NULL && set->newest != 0 &&
                !crmm_priv_pool_stream_is_fenced(stream, heap->extents.all[set->newest].epoch);
        crmm_priv_pool_heap_unlock(heap);
    }
    return found;
}

/*
 * The legacy stream is fenced when another one needs what it gave back, and not before: an event on
 * it is a barrier for all blocking streams. It cannot be gone, so any thread may record there.
 */
static void fence_legacy(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        if (stream->id == CRMM_PRIV_POOL_LEGACY_STREAM && has_unfenced(pool, stream)) {
            (void)crmm_priv_pool_stream_fence(&pool->streams, stream, NULL);
        }
    }
}

/* The stream's own work may be complete as well: then its memory joins what is clean beside it. */
static void complete_own(const request *req)
{
    crmm_priv_pool *pool = req->pool;

    if (req->stream == NULL) {
        return;
    }
    crmm_priv_pool_heap_lock(req->heap);
    bool is_leaving = req->heap->extents.leaving != 0;
    bool is_solo = req->heap->extents.solo != 0;
    crmm_priv_pool_heap_unlock(req->heap);
    if (is_leaving || (!is_solo && has_unfenced(pool, req->stream))) {
        (void)crmm_priv_pool_stream_fence(&pool->streams, req->stream, req->handle);
    }
    crmm_priv_pool_stream_poll(&pool->streams, req->stream);
    if (is_solo) {
        return;
    }
    crmm_priv_pool_heap_lock(req->heap);
    crmm_priv_extents_promote(&req->heap->extents, req->stream->index,
                              crmm_priv_pool_stream_done(req->stream));
    crmm_priv_pool_heap_unlock(req->heap);
}

void crmm_priv_pool_settle_streams(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    fence_legacy(pool);
    poll(pool);
    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        promote(pool, heap);
        crmm_priv_pool_heap_unlock(heap);
    }
}

/* ---- another stream's block ---- */

/* The block among other streams' fenced ones that fits best: whose it is, and since when. */
static bool find_fenced(const request *req, crmm_priv_pool_heap *heap, uint16_t *owner,
                        uint64_t *epoch)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = 0;
    uint32_t end = crmm_priv_pool_streams_end(&req->pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end && count < MOST_SOURCES; i++) {
        const crmm_priv_pool_stream *other = crmm_priv_pool_stream_of(&req->pool->streams, i);
        const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, other->index);
        if (other != req->stream && set != NULL && set->count > 0) {
            sources[count++] = (crmm_priv_extent_source){
                .owner = other->index, .epoch = __atomic_load_n(&other->fenced, __ATOMIC_ACQUIRE)};
        }
    }
    uint32_t index =
        crmm_priv_extents_find(&heap->extents, req->size, req->alignment, sources, count);
    *owner = heap->extents.all[index].owner;
    *epoch = heap->extents.all[index].epoch;
    return index != 0;
}

/* First wait, then take: whatever the stream has waited for it may use, also if another thread is
 * faster and it takes another block than the one that was seen. */
static void *steal(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    uint16_t owner = 0;
    uint64_t epoch = 0;

    if (req->stream == NULL) {
        return NULL;
    }
    crmm_priv_pool_heap_lock(heap);
    bool found = find_fenced(req, heap, &owner, &epoch);
    crmm_priv_pool_heap_unlock(heap);
    const crmm_priv_pool_waits waits = {.count = 1, .list = {{.owner = owner, .epoch = epoch}}};
    if (!found || !crmm_priv_pool_wait_for(req, &waits)) {
        return NULL;
    }
    return look(req, heap, is_direct);
}

/* ---- neighbours ---- */

typedef struct run {
    uint32_t first;
    uint64_t size;
    crmm_priv_pool_waits waits;
} run;

/* The run that begins at an extent, as far as it is needed. */
static bool run_from(const request *req, const crmm_priv_extents *extents, uint32_t first,
                     run *found)
{
    const crmm_priv_extent *extent = &extents->all[first];

    *found = (run){.first = first};
    while (crmm_priv_pool_could_use(req, extent) &&
           crmm_priv_pool_add_wait(req, &found->waits, extent)) {
        found->size += extent->size;
        if (found->size >= crmm_priv_pool_need(req)) {
            return true;
        }
        if (extent->after == 0) {
            return false;
        }
        extent = &extents->all[extent->after];
    }
    return false;
}

/* Whether a run could begin here and not earlier. */
static bool is_first(const request *req, const crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = &extents->all[index];

    return crmm_priv_pool_could_use(req, extent) &&
           (extent->before == 0 || !crmm_priv_pool_could_use(req, &extents->all[extent->before]));
}

typedef struct run_search {
    const request *req;
    const crmm_priv_extents *extents;
    int visits;
    run best;
} run_search;

static bool visit_run(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    run_search *search = data;
    run found;

    if (!is_too_good(search->req, extent) && is_first(search->req, search->extents, index) &&
        run_from(search->req, search->extents, index, &found) && found.size < search->best.size) {
        search->best = found;
    }
    return ++search->visits < MOST_VISITS;
}

/* Free neighbours of one owner are one extent, so a run needs a second owner, or it is one extent
 * that a search came not across among too many. */
static bool can_have_run(const request *req, const crmm_priv_extents *extents)
{
    if (extents->free_granules < req->size) {
        return false;
    }
    for (uint32_t owner = 0; owner < extents->set_count; owner++) {
        const crmm_priv_extent_set *set = extents->sets[owner];
        if (set != NULL && set->granules == extents->free_granules) {
            return crmm_priv_extents_largest(extents) >= req->size;
        }
    }
    return true;
}

/* The shortest run of neighbours that is long enough; the heap is locked. */
static bool find_run(const request *req, const crmm_priv_extents *extents, run *best)
{
    run_search search = {.req = req, .extents = extents, .best = {.size = UINT64_MAX}};

    if (can_have_run(req, extents)) {
        crmm_priv_extents_for_each_free(extents, visit_run, &search);
    }
    *best = search.best;
    return best->first != 0;
}

static void *gather(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    enum { ATTEMPTS = 4 };
    crmm_priv_extents *extents = &heap->extents;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        void *ptr = NULL;
        run found;

        crmm_priv_pool_heap_lock(heap);
        bool any = find_run(req, extents, &found) && crmm_priv_extents_reserve(extents);
        if (any && found.waits.count == 0) {
            uint32_t index =
                crmm_priv_extents_take_run(extents, found.first, req->size, req->alignment);
            extents->all[index].is_direct = is_direct;
            ptr = address_of(extents->all[index].at);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (!any || ptr != NULL) {
            return ptr;
        }
        if (!crmm_priv_pool_wait_for(req, &found.waits)) {
            break;
        }
    }
    return NULL;
}

/* ---- waiting on the CPU ---- */

/* Wait for a fenced block that is all that is needed, whichever streams go on. false: there is
 * none.
 */
static bool wait_for_block(const request *req)
{
    crmm_priv_pool *pool = req->pool;
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        uint16_t owner = 0;
        uint64_t epoch = 0;

        crmm_priv_pool_heap_lock(heap);
        bool found = find_fenced(req, heap, &owner, &epoch);
        crmm_priv_pool_heap_unlock(heap);
        if (found &&
            crmm_priv_pool_stream_synchronize(
                &pool->streams, crmm_priv_pool_stream_of(&pool->streams, owner), epoch) == 0) {
            crmm_priv_pool_settle_streams(pool);
            return true;
        }
    }
    return false;
}

/* Wait for the oldest fenced memory that is not clean yet. false: there is none. */
static bool wait_for_oldest(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        for (uint32_t k = 0; k < heaps; k++) {
            crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, k);
            uint64_t epoch = 0;

            crmm_priv_pool_heap_lock(heap);
            const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, stream->index);
            if (set != NULL && set->oldest != 0) {
                epoch = heap->extents.all[set->oldest].epoch;
            }
            crmm_priv_pool_heap_unlock(heap);
            if (epoch != 0 && crmm_priv_pool_stream_is_fenced(stream, epoch) &&
                crmm_priv_pool_stream_synchronize(&pool->streams, stream, epoch) == 0) {
                crmm_priv_pool_settle_streams(pool);
                return true;
            }
        }
    }
    return false;
}

bool crmm_priv_pool_is_settled(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    bool settled = true;

    for (uint32_t i = 0; i < heaps && settled; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        const crmm_priv_extents *extents = &heap->extents;
        settled = extents->leaving == 0 &&
                  extents->free_granules ==
                      crmm_priv_extents_set(extents, CRMM_PRIV_POOL_CLEAN)->granules;
        crmm_priv_pool_heap_unlock(heap);
    }
    return settled;
}

int crmm_priv_pool_wait_for_all(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    int previous = -1;

    crmm_priv_pool_set_solo(pool, 0);
    /* What is marked with a closed epoch was given back before the wait. */
    uint64_t closed[CRMM_PRIV_POOL_MOST_STREAMS];
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        closed[i] = __atomic_fetch_add(&crmm_priv_pool_stream_of(&pool->streams, i)->epoch, 1,
                                       __ATOMIC_ACQ_REL);
    }
    uint64_t stranded = __atomic_fetch_add(&pool->stranded_epoch, 1, __ATOMIC_ACQ_REL);
    int code = 0;
    if (pool->device >= 0) {
        code = crmm_priv_cuda_try_enter_device(pool->device, &previous);
        if (code == 0) {
            code = crmm_priv_device_wait();
            crmm_priv_cuda_leave_device(previous);
        }
        (void)__atomic_fetch_add(&pool->streams.synchronizes, 1, __ATOMIC_RELAXED);
    }
    if (code != 0) {
        return code;
    }
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream_set_done(crmm_priv_pool_stream_of(&pool->streams, i), closed[i]);
    }
    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        promote(pool, heap);
        crmm_priv_extents_promote(&heap->extents, CRMM_PRIV_POOL_STRANDED, stranded);
        crmm_priv_pool_heap_unlock(heap);
    }
    return 0;
}

/* ---- the order ---- */

/* What there is without more memory: in the own heap, and the others that are not busy. */
static void *search(const request *req, bool is_direct)
{
    uint32_t heaps = crmm_priv_pool_heap_count(req->pool);

    crmm_priv_pool_settle_streams(req->pool);
    void *ptr = look(req, req->heap, is_direct);
    if (ptr == NULL) {
        ptr = steal(req, req->heap, is_direct);
    }
    for (uint32_t i = 0; i < heaps && ptr == NULL; i++) {
        crmm_priv_pool_heap *other = crmm_priv_pool_heap_of(req->pool, i);
        if (other == req->heap || !crmm_priv_pool_heap_try(other)) {
            continue;
        }
        ptr = take_seen(req, other, is_direct);
        crmm_priv_pool_heap_unlock(other);
        if (ptr == NULL) {
            ptr = steal(req, other, is_direct);
        }
    }
    return ptr;
}

/* The same after everything that caches hold. */
static void *search_flushed(const request *req, bool is_direct)
{
    if (crmm_priv_pool_flush_all(req->pool) == 0) {
        return NULL;
    }
    return search(req, is_direct);
}

static void *gather_all(const request *req, bool is_direct)
{
    void *ptr = gather(req, req->heap, is_direct);
    uint32_t heaps = crmm_priv_pool_heap_count(req->pool);

    for (uint32_t i = 0; i < heaps && ptr == NULL; i++) {
        crmm_priv_pool_heap *other = crmm_priv_pool_heap_of(req->pool, i);
        if (other != req->heap) {
            ptr = gather(req, other, is_direct);
        }
    }
    return ptr;
}

/* A chunk cannot be moved, but it can go back before another one comes. */
static void make_way(const request *req)
{
    crmm_priv_pool *pool = req->pool;
    size_t need = (size_t)crmm_priv_pool_need(req) << CRMM_PRIV_POOL_GRANULE_SHIFT;
    size_t limit = crmm_priv_pool_free_limit(pool, need);

    if (pool->is_in_place || crmm_priv_pool_held(pool) + need <= limit) {
        return;
    }
    crmm_priv_pool_set_solo(pool, 0);
    complete_own(req);
    while (pool->is_tight && wait_for_oldest(pool)) {
    }
    crmm_priv_pool_settle_streams(pool);
    (void)crmm_priv_pool_release(pool, limit > need ? limit - need : 0);
}

/* Grow until the request can be served. NULL: it is at its maximum, or upstream refuses. */
static void *grow(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    enum { ATTEMPTS = 1000 }; /* that other threads may take away what was meant for this one */

    make_way(req);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        complete_own(req);
        *growth = crmm_priv_pool_grow(req);
        if (*growth != CRMM_PRIV_POOL_GREW) {
            return NULL;
        }
        void *ptr = look(req, req->heap, is_direct);
        if (ptr == NULL) {
            ptr = gather(req, req->heap, is_direct);
        }
        if (ptr != NULL) {
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
    size_t need = (size_t)crmm_priv_pool_need(req) << CRMM_PRIV_POOL_GRANULE_SHIFT;
    void *ptr = NULL;

    for (int attempt = 0; attempt < ATTEMPTS && ptr == NULL; attempt++) {
        size_t held = crmm_priv_pool_held(pool);
        size_t keep = held > need ? held - need : 0;
        if (*growth == CRMM_PRIV_POOL_AT_MAXIMUM) {
            if (need > pool->maximum) {
                return NULL;
            }
            keep = pool->maximum - need;
        }
        if (crmm_priv_pool_release(pool, keep) == 0) {
            return NULL;
        }
        ptr = grow(req, is_direct, growth);
    }
    return ptr;
}

/* The same, but nothing is too good for it. */
static request spendthrift(const request *req)
{
    request any = *req;

    any.is_thrifty = false;
    return any;
}

/* Everything that waits for nobody. */
static void *without_waiting(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = search(req, is_direct);

    if (ptr == NULL) {
        ptr = search_flushed(req, is_direct);
    }
    if (ptr == NULL) {
        /* For the next time: now what they had at hand is in the heaps. */
        crmm_priv_pool_want(req->pool, req->stream);
        ptr = gather_all(req, is_direct);
    }
    if (ptr == NULL) {
        ptr = grow(req, is_direct, growth);
    }
    if (ptr == NULL) {
        ptr = grow_anew(req, is_direct, growth);
    }
    if (ptr == NULL && req->is_thrifty) {
        const request any = spendthrift(req);
        ptr = search(&any, is_direct);
    }
    return ptr;
}

/* After a wait: what is there now, and what can be had beside it. */
static void *look_again(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = search(req, is_direct);

    if (ptr == NULL) {
        ptr = gather_all(req, is_direct);
    }
    if (ptr == NULL) {
        ptr = grow(req, is_direct, growth);
    }
    return ptr != NULL ? ptr : grow_anew(req, is_direct, growth);
}

crmm_status crmm_priv_pool_fail(crmm_priv_pool *pool, size_t bytes, crmm_priv_pool_growth growth)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_error before = *crmm_last_error();

    (void)crmm_priv_pool_info(&pool->base, &info);
    if (growth == CRMM_PRIV_POOL_REFUSED && before.status != CRMM_SUCCESS) {
        crmm_status status = crmm_status_is_allocation_failure(before.status)
                                 ? CRMM_ERROR_OUT_OF_MEMORY
                                 : before.status;
        crmm_priv_fail(
            status, before.native_code, bytes,
            "%s: no %zu bytes: %zu live, %zu free, of which %zu pending, longest run %zu; "
            "upstream refused: %s",
            crmm_priv_pool_name(pool), bytes, info.live, info.cached, info.pending,
            info.largest_free, before.message);
        crmm_priv_note_memory(info.live, info.cached, info.pending, info.largest_free);
        return status;
    }
    crmm_priv_fail(
        CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
        "%s: no %zu bytes: %zu live, %zu free, of which %zu pending, longest run %zu, of "
        "at most %zu",
        crmm_priv_pool_name(pool), bytes, info.live, info.cached, info.pending, info.largest_free,
        pool->maximum);
    crmm_priv_note_memory(info.live, info.cached, info.pending, info.largest_free);
    return CRMM_ERROR_OUT_OF_MEMORY;
}

/* What is left to try when all else failed. While other threads are busy, they take some of what is
 * found into their caches, or give it back anew: then it is not all seen at the first time. */
static void *by_waiting(const request *thrifty, bool is_direct, crmm_priv_pool_growth *growth)
{
    enum { ATTEMPTS = 64 };
    const request any = spendthrift(thrifty);
    const request *req = &any;
    crmm_priv_pool *pool = req->pool;
    bool all_seen = false;
    void *ptr = NULL;

    for (int attempt = 0; attempt < ATTEMPTS && ptr == NULL && !all_seen; attempt++) {
        (void)crmm_priv_pool_flush_all(pool);
        /* A lone stream's memory is not looked at for what is complete, and would stay the oldest.
         */
        crmm_priv_pool_set_solo(pool, 0);
        while (ptr == NULL && (wait_for_block(req) || wait_for_oldest(pool))) {
            ptr = look_again(req, is_direct, growth);
        }
        if (ptr == NULL && crmm_priv_pool_wait_for_all(pool) == 0) {
            /* Asked before: what is given back after the look was not there for it. */
            all_seen = crmm_priv_pool_is_settled(pool) && crmm_priv_pool_cached(pool) == 0;
            ptr = look_again(req, is_direct, growth);
        } else {
            all_seen = true;
        }
        if (ptr == NULL && !all_seen) {
            crmm_priv_pool_want(pool, req->stream);
        }
    }
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
    return shortages % SELDOM == 0 ||
           ((size_t)req->size << CRMM_PRIV_POOL_GRANULE_SHIFT) >= req->pool->page;
}

static void *try_all(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    void *ptr = NULL;

    if (!is_worth_searching(req)) {
        ptr = gather(req, req->heap, is_direct);
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
    return ptr != NULL ? ptr : by_waiting(req, is_direct, growth);
}

/* What failed on the way is nobody's business if the request is served at last. */
static void *serve_cold(const request *req, bool is_direct, crmm_priv_pool_growth *growth)
{
    const crmm_error before = *crmm_last_error();
    void *ptr = try_all(req, is_direct, growth);

    if (ptr != NULL) {
        crmm_priv_restore_error(&before);
    }
    return ptr;
}

/* An extent of the request's heap goes back as what its stream gave back just now. */
static void give_back(const request *req, uint32_t index)
{
    crmm_priv_extents *extents = &req->heap->extents;
    uint16_t owner = crmm_priv_pool_owner(req);

    if (crmm_priv_extents_reserve_owner(extents, owner)) {
        crmm_priv_extents_release(extents, index, owner,
                                  req->stream == NULL ? 0
                                                      : crmm_priv_pool_stream_epoch(req->stream));
    } else {
        crmm_priv_extents_release(extents, index, CRMM_PRIV_POOL_STRANDED,
                                  __atomic_load_n(&req->pool->stranded_epoch, __ATOMIC_ACQUIRE));
    }
}

/*
 * Small blocks for a thread among several: all of the 32 KiB that have their marks in two lines,
 * which processors fetch together, so that no other thread writes there. The first block; `fetched`
 * of at most `most` others in `extra`. NULL: there is no such place.
 */
static void *take_line(const request *req, const crmm_priv_extent_source *sources, size_t count,
                       void **extra, uint32_t most, uint32_t *fetched)
{
    enum { LINE = 128 };
    crmm_priv_extents *extents = &req->heap->extents;

    if (!crmm_priv_extents_reserve(extents)) {
        return NULL;
    }
    uint32_t index = crmm_priv_extents_find(extents, LINE, LINE, sources, count);
    if (index == 0) {
        return NULL;
    }
    index = crmm_priv_extents_take(extents, index, LINE, LINE);
    void *first = address_of(extents->all[index].at);
    uint32_t blocks = LINE / req->size;
    for (uint32_t i = 1; i < blocks && i <= most; i++) {
        if (!crmm_priv_extents_reserve(extents)) {
            break;
        }
        index = crmm_priv_extents_divide(extents, index, req->size);
        extra[(*fetched)++] = address_of(extents->all[index].at);
    }
    /* The last one is as long as what is left. */
    if (extents->all[index].size > req->size && crmm_priv_extents_reserve(extents)) {
        give_back(req, crmm_priv_extents_divide(extents, index, req->size));
    }
    return first;
}

/* Whether blocks are so small that several have their marks in one line, and there are threads that
 * could write to it. */
static bool shares_lines(const request *req, uint32_t more)
{
    enum { SMALL = 32 }; /* granules: 8 KiB */

    return more > 0 && req->size <= SMALL && !req->pool->is_tight &&
           __atomic_load_n(&req->pool->cache_count, __ATOMIC_RELAXED) > 1;
}

crmm_priv_pool_growth crmm_priv_pool_serve(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                           crmm_stream handle, uint32_t size, uint32_t alignment,
                                           bool is_direct, void **ptr, void **extra, uint32_t *more)
{
    crmm_priv_pool_growth growth = CRMM_PRIV_POOL_GREW;
    crmm_priv_extent_source sources[2];
    uint32_t fetched = 0;
    request req = {.pool = pool,
                   .stream = cache->stream,
                   .handle = handle,
                   .size = size,
                   .alignment = alignment,
                   .is_thrifty = pool->is_tight && !pool->is_in_place};
    size_t count = near_sources(&req, sources);

    req.heap = lock_own(pool, cache);
    void *found = NULL;
    if (shares_lines(&req, *more)) {
        found = take_line(&req, sources, count, extra, CRMM_PRIV_POOL_MOST_SMALL, &fetched);
        *more = fetched;
    }
    if (found == NULL) {
        found = take(&req, req.heap, sources, count, is_direct);
    }
    while (found != NULL && fetched < *more) {
        void *another = take(&req, req.heap, sources, count, is_direct);
        if (another == NULL) {
            break;
        }
        extra[fetched++] = another;
    }
    if (found == NULL) {
        found = take_others(&req, req.heap, is_direct);
    }
    crmm_priv_pool_heap_unlock(req.heap);
    *more = fetched;
    if (found == NULL) {
        found = serve_cold(&req, is_direct, &growth);
    }
    *ptr = found;
    return growth;
}
