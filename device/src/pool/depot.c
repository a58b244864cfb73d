/* SPDX-License-Identifier: Apache-2.0 */
#include "depot.h"

#include <string.h>

#include "cache.h"
#include "request.h"

enum { SHARE = 16 /* all magazines together hold a sixteenth of the pool, as caches do */ };

typedef crmm_priv_pool_request request;
typedef crmm_priv_pool_magazine magazine;
typedef crmm_priv_pool_rack rack;

/* ---- racks ---- */

static rack *rack_of(crmm_priv_pool *pool, size_t class_index)
{
    return &pool->depot.racks[class_index];
}

/* The rack that a request is served from; NULL: there is nothing in it, as far as can be seen
 * without its lock. */
static rack *stocked_rack(const request *req)
{
    rack *of = rack_of(req->pool, crmm_priv_pool_class_of_granules(req->size));

    return __atomic_load_n(&of->count, __ATOMIC_RELAXED) == 0 ? NULL : of;
}

static void remove_at(rack *of, uint32_t at)
{
    uint32_t left = of->count - at - 1;

    memmove(&of->magazines[at], &of->magazines[at + 1], left * sizeof(of->magazines[0]));
    __atomic_store_n(&of->count, of->count - 1, __ATOMIC_RELAXED);
}

static void want_one_more(rack *of)
{
    uint32_t wanted = of->wanted < CRMM_PRIV_POOL_MAGAZINES ? of->wanted + 1 : of->wanted;

    __atomic_store_n(&of->wanted, wanted, __ATOMIC_RELAXED);
}

static void count_bytes(crmm_priv_pool *pool, size_t class_index, size_t added, size_t removed)
{
    size_t bytes = crmm_priv_pool_class_bytes(class_index);

    (void)__atomic_fetch_add(&pool->depot.bytes, (added - removed) * bytes, __ATOMIC_RELAXED);
}

/* ---- what comes ---- */

/* Blocks at hand are bounded where the program says so, and few where the pool holds little.
 * Threads with heaps of their own have enough at hand: 16 of them held 9 % more with magazines
 * beside it. */
static bool is_open(const crmm_priv_pool *pool)
{
    return !pool->is_tight && pool->cache_option == 0 && pool->release_threshold == SIZE_MAX &&
           crmm_priv_pool_heap_count(pool) == 1;
}

/* Whether there is a stream whose memory others could take. */
static bool has_streams(const crmm_priv_pool *pool)
{
    return crmm_priv_pool_streams_end(&pool->streams) > CRMM_PRIV_POOL_FIRST_STREAM + 1;
}

void crmm_priv_pool_depot_want(const request *req)
{
    rack *of = rack_of(req->pool, crmm_priv_pool_class_of_granules(req->size));

    if (is_open(req->pool) && has_streams(req->pool)) {
        crmm_priv_spin_lock(&of->lock);
        want_one_more(of);
        crmm_priv_spin_unlock(&of->lock);
    }
}

static bool is_full(const crmm_priv_pool *pool)
{
    return __atomic_load_n(&pool->depot.bytes, __ATOMIC_RELAXED) >
           crmm_priv_pool_held(pool) / SHARE;
}

/* A magazine of the same owner and epoch with room for the blocks of another one; NULL: none. */
static magazine *find_alike(rack *of, const magazine *more)
{
    for (uint32_t i = of->count; i > 0; i--) {
        magazine *at = &of->magazines[i - 1];
        if (at->owner == more->owner && at->epoch == more->epoch &&
            at->count + more->count <= CRMM_PRIV_POOL_MAGAZINE_BLOCKS) {
            return at;
        }
    }
    return NULL;
}

/* The oldest magazine leaves for a heap; the rack is locked, so that nobody finds it in neither. */
static void pop_oldest(crmm_priv_pool_depot *depot, rack *of, magazine *out)
{
    (void)__atomic_fetch_add(&depot->in_transit, 1, __ATOMIC_RELAXED);
    *out = of->magazines[0];
    remove_at(of, 0);
}

/* And comes there. */
static void give_to_heap(crmm_priv_pool *pool, size_t class_index, const magazine *out)
{
    crmm_priv_pool_give_to_heaps(pool, out->blocks, out->count, out->owner, out->epoch);
    count_bytes(pool, class_index, 0, out->count);
    (void)__atomic_fetch_sub(&pool->depot.in_transit, 1, __ATOMIC_RELEASE);
}

/* Put a magazine behind the others. Where they are too many the oldest one makes room. false: none
 * is wanted. */
static bool append(crmm_priv_pool_depot *depot, rack *of, const magazine *made, magazine *out)
{
    if (of->wanted == 0) {
        return false;
    }
    if (of->count == CRMM_PRIV_POOL_MAGAZINES) {
        pop_oldest(depot, of, out);
    }
    of->magazines[of->count] = *made;
    __atomic_store_n(&of->count, of->count + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&of->wanted, of->wanted - 1, __ATOMIC_RELAXED);
    return true;
}

static bool put(crmm_priv_pool_depot *depot, rack *of, const magazine *made, magazine *out)
{
    bool is_put = true;

    crmm_priv_spin_lock(&of->lock);
    magazine *alike = find_alike(of, made);
    if (alike != NULL) {
        memcpy(&alike->blocks[alike->count], made->blocks, made->count * sizeof(*made->blocks));
        alike->count = (uint16_t)(alike->count + made->count);
    } else {
        is_put = append(depot, of, made, out);
    }
    crmm_priv_spin_unlock(&of->lock);
    return is_put;
}

bool crmm_priv_pool_depot_put(crmm_priv_pool_cache *cache, size_t class_index, void *const *blocks,
                              uint32_t count)
{
    crmm_priv_pool *pool = cache->pool;
    rack *of = rack_of(pool, class_index);
    magazine out = {.count = 0};

    bool is_used = __atomic_load_n(&of->wanted, __ATOMIC_RELAXED) != 0 ||
                   __atomic_load_n(&of->count, __ATOMIC_RELAXED) != 0;
    if (!is_used || !is_open(pool) || count > CRMM_PRIV_POOL_MAGAZINE_BLOCKS) {
        return false;
    }
    magazine made = {.epoch = crmm_priv_pool_cache_epoch(cache),
                     .owner = crmm_priv_pool_cache_owner(cache),
                     .count = (uint16_t)count};
    memcpy(made.blocks, blocks, count * sizeof(*blocks));
    /* Counted before it can be seen, and after it is gone: never too little. */
    count_bytes(pool, class_index, count, 0);
    if (is_full(pool) || !put(&pool->depot, of, &made, &out)) {
        count_bytes(pool, class_index, 0, count);
        return false;
    }
    if (out.count > 0) {
        give_to_heap(pool, class_index, &out);
    }
    return true;
}

/* ---- what goes ---- */

static crmm_priv_extent_source source_of(const magazine *of)
{
    return (crmm_priv_extent_source){.owner = of->owner, .epoch = of->epoch};
}

static const crmm_priv_pool_stream *stream_of(const request *req, crmm_priv_extent_source from)
{
    return crmm_priv_pool_stream_of(&req->pool->streams, from.owner);
}

static bool is_complete(const request *req, crmm_priv_extent_source from)
{
    return from.owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
           from.epoch <= crmm_priv_pool_stream_done(stream_of(req, from));
}

/* Take up to `most` blocks of the first magazine that may be used. How many. */
static uint32_t take(const request *req, rack *of, void **blocks, uint32_t most)
{
    uint32_t count = 0;

    crmm_priv_spin_lock(&of->lock);
    for (uint32_t i = 0; i < of->count && count == 0; i++) {
        magazine *first = &of->magazines[i];
        const crmm_priv_extent_source from = source_of(first);
        if (!crmm_priv_pool_may_use_from(req, from) && !is_complete(req, from)) {
            continue;
        }
        count = first->count < most ? first->count : most;
        first->count = (uint16_t)(first->count - count);
        memcpy(blocks, &first->blocks[first->count], count * sizeof(*blocks));
        if (first->count == 0) {
            if (from.owner != crmm_priv_pool_owner(req)) {
                want_one_more(of);
            }
            remove_at(of, i);
        }
    }
    crmm_priv_spin_unlock(&of->lock);
    if (count > 0) {
        count_bytes(req->pool, (size_t)(of - req->pool->depot.racks), 0, count);
    }
    return count;
}

static void *take_all(const request *req, rack *of, void **extra, uint32_t *more)
{
    void *blocks[CRMM_PRIV_POOL_MAGAZINE_BLOCKS];
    uint32_t count = take(req, of, blocks, CRMM_PRIV_POOL_MAGAZINE_BLOCKS);

    if (count == 0) {
        return NULL;
    }
    *more = count - 1;
    memcpy(extra, blocks + 1, *more * sizeof(*blocks));
    return blocks[0];
}

void *crmm_priv_pool_depot_take(const request *req, void **extra, uint32_t *more)
{
    rack *of = stocked_rack(req);

    return of == NULL ? NULL : take_all(req, of, extra, more);
}

/* The oldest magazine with a fence. false: none has one. */
static bool find_fenced(const request *req, rack *of, crmm_priv_extent_source *from)
{
    bool found = false;

    crmm_priv_spin_lock(&of->lock);
    for (uint32_t i = 0; i < of->count && !found; i++) {
        *from = source_of(&of->magazines[i]);
        found = from->owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
                crmm_priv_pool_stream_is_fenced(stream_of(req, *from), from->epoch);
    }
    crmm_priv_spin_unlock(&of->lock);
    return found;
}

void *crmm_priv_pool_depot_ask(const request *req, void **extra, uint32_t *more)
{
    rack *of = stocked_rack(req);
    crmm_priv_pool_streams *streams = &req->pool->streams;
    crmm_priv_extent_source from;

    if (of == NULL || !find_fenced(req, of, &from)) {
        return NULL;
    }
    crmm_priv_pool_stream_poll(streams, crmm_priv_pool_stream_of(streams, from.owner));
    return is_complete(req, from) ? take_all(req, of, extra, more) : NULL;
}

void *crmm_priv_pool_depot_wait(const request *req)
{
    rack *of = req->stream == NULL ? NULL : stocked_rack(req);
    crmm_priv_pool_waits waits = {.count = 1};
    void *ptr = NULL;

    if (of == NULL || !find_fenced(req, of, &waits.list[0]) ||
        !crmm_priv_pool_wait_for(req, &waits)) {
        return NULL;
    }
    return take(req, of, &ptr, 1) == 1 ? ptr : NULL;
}

/* ---- all of it ---- */

static bool pop_any(crmm_priv_pool *pool, rack *of, magazine *out)
{
    crmm_priv_spin_lock(&of->lock);
    bool any = of->count > 0;
    if (any) {
        pop_oldest(&pool->depot, of, out);
    }
    crmm_priv_spin_unlock(&of->lock);
    return any;
}

size_t crmm_priv_pool_depot_flush(crmm_priv_pool *pool)
{
    size_t bytes = 0;

    for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        magazine out;
        while (pop_any(pool, rack_of(pool, i), &out)) {
            bytes += out.count * crmm_priv_pool_class_bytes(i);
            give_to_heap(pool, i, &out);
        }
    }
    return bytes;
}

void crmm_priv_pool_depot_for_each(crmm_priv_pool *pool,
                                   void (*visit)(const magazine *of, size_t class_index,
                                                 void *data),
                                   void *data)
{
    for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        rack *of = rack_of(pool, i);
        crmm_priv_spin_lock(&of->lock);
        for (uint32_t k = 0; k < of->count; k++) {
            visit(&of->magazines[k], i, data);
        }
        crmm_priv_spin_unlock(&of->lock);
    }
}

typedef struct owner_search {
    uint16_t owner;
    bool is_found;
} owner_search;

static void look_for_owner(const magazine *of, size_t class_index, void *data)
{
    owner_search *search = data;

    (void)class_index;
    search->is_found = search->is_found || of->owner == search->owner;
}

bool crmm_priv_pool_depot_has(crmm_priv_pool *pool, uint16_t owner)
{
    owner_search search = {.owner = owner};

    if (__atomic_load_n(&pool->depot.bytes, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    crmm_priv_pool_depot_for_each(pool, look_for_owner, &search);
    /* Looked at last: what left its rack before it was looked at is counted until it is there. */
    return search.is_found || __atomic_load_n(&pool->depot.in_transit, __ATOMIC_ACQUIRE) != 0;
}
