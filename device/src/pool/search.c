/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"

#include "accounts.h"
#include "settle.h"

enum { MOST_SOURCES = 64 /* streams looked at together */ };

typedef crmm_priv_pool_request request;

/* ---- looking ---- */

uint32_t crmm_priv_pool_find_best(const request *req, const crmm_priv_extents *extents,
                                  const crmm_priv_extent_source *sources, size_t count)
{
    uint32_t most = crmm_priv_pool_most_apart(req);
    uint32_t index =
        crmm_priv_extents_find(extents, req->size, req->alignment, most, sources, count);
    const crmm_priv_extent *found = crmm_priv_extent_at(extents, index);

    if (index == 0 || !req->is_thrifty || req->alignment != 1 || found->before != 0 ||
        found->after != 0) {
        return index;
    }
    return crmm_priv_extents_find_thrifty(extents, req->size, most, sources, count);
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

void *crmm_priv_pool_take_others(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = add_seen_sources(req, sources, 0);

    void *ptr = count == 0 ? NULL : crmm_priv_pool_take(req, heap, sources, count, is_direct);
    if (ptr != NULL && !is_direct) {
        crmm_priv_pool_depot_want(req);
    }
    return ptr;
}

static void *take_seen(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = add_seen_sources(req, sources, crmm_priv_pool_near_sources(req, sources));

    return crmm_priv_pool_take(req, heap, sources, count, is_direct);
}

void *crmm_priv_pool_look(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    crmm_priv_pool_heap_lock(heap);
    void *ptr = take_seen(req, heap, is_direct);
    crmm_priv_pool_heap_unlock(heap);
    return ptr;
}

/* ---- small blocks ---- */

/* An extent of the request's heap goes back as what its stream gave back just now. */
static void give_back(const request *req, uint32_t index)
{
    crmm_priv_pool_release_to(req->pool, req->heap, index, crmm_priv_pool_owner(req),
                              req->stream == NULL ? 0 : crmm_priv_pool_stream_epoch(req->stream));
}

void *crmm_priv_pool_take_line(const request *req, const crmm_priv_extent_source *sources,
                               size_t count, void **extra, uint32_t most, uint32_t *fetched)
{
    enum { LINE = 128 };
    crmm_priv_extents *extents = &req->heap->extents;

    if (!crmm_priv_extents_reserve(extents)) {
        return NULL;
    }
    uint32_t index =
        crmm_priv_extents_find(extents, LINE, LINE, crmm_priv_pool_most_apart(req), sources, count);
    if (index == 0) {
        return NULL;
    }
    index = crmm_priv_extents_take(extents, index, LINE, LINE);
    void *first = crmm_priv_pool_address_of(crmm_priv_extent_at(extents, index)->at);
    uint32_t blocks = LINE / req->size;
    for (uint32_t i = 1; i < blocks && i <= most; i++) {
        if (!crmm_priv_extents_reserve(extents)) {
            break;
        }
        index = crmm_priv_extents_divide(extents, index, req->size);
        extra[(*fetched)++] = crmm_priv_pool_address_of(crmm_priv_extent_at(extents, index)->at);
    }
    /* The last one is as long as what is left. */
    if (crmm_priv_extent_at(extents, index)->size > req->size &&
        crmm_priv_extents_reserve(extents)) {
        give_back(req, crmm_priv_extents_divide(extents, index, req->size));
    }
    return first;
}

/* ---- another stream's block ---- */

/* The block among other streams' fenced ones in a heap that fits best: whose it is, and since when.
 */
static bool find_fenced(const request *req, crmm_priv_pool_heap *heap, uint16_t *owner,
                        uint64_t *epoch)
{
    crmm_priv_extent_source sources[MOST_SOURCES];
    size_t count = 0;
    uint32_t end = crmm_priv_pool_streams_end(&req->pool->streams);

    crmm_priv_pool_heap_lock(heap);
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end && count < MOST_SOURCES; i++) {
        const crmm_priv_pool_stream *other = crmm_priv_pool_stream_of(&req->pool->streams, i);
        const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, other->index);
        if (other != req->stream && set != NULL && set->count > 0) {
            sources[count++] = (crmm_priv_extent_source){
                .owner = other->index, .epoch = __atomic_load_n(&other->fenced, __ATOMIC_ACQUIRE)};
        }
    }
    uint32_t index = crmm_priv_extents_find(&heap->extents, req->size, req->alignment,
                                            crmm_priv_pool_most_apart(req), sources, count);
    *owner = crmm_priv_extent_at(&heap->extents, index)->owner;
    *epoch = crmm_priv_extent_at(&heap->extents, index)->epoch;
    crmm_priv_pool_heap_unlock(heap);
    return index != 0;
}

/* First wait, then take: whatever the stream has waited for it may use, also if another thread is
 * faster and it takes another block than the one that was seen. */
static void *steal(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    uint16_t owner = 0;
    uint64_t epoch = 0;

    if (req->stream == NULL || !find_fenced(req, heap, &owner, &epoch)) {
        return NULL;
    }
    const crmm_priv_pool_waits waits = {.count = 1, .list = {{.owner = owner, .epoch = epoch}}};
    if (!crmm_priv_pool_wait_for(req, &waits)) {
        return NULL;
    }
    return crmm_priv_pool_look(req, heap, is_direct);
}

/* ---- all heaps ---- */

void *crmm_priv_pool_search(const request *req, bool is_direct)
{
    uint32_t heaps = crmm_priv_pool_heap_count(req->pool);

    crmm_priv_pool_settle_streams(req->pool);
    void *ptr = crmm_priv_pool_look(req, req->heap, is_direct);
    if (ptr == NULL && !is_direct) {
        ptr = crmm_priv_pool_depot_wait(req);
    }
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
    if (ptr != NULL && !is_direct) {
        crmm_priv_pool_depot_want(req);
    }
    return ptr;
}

void *crmm_priv_pool_search_all(const request *req, bool is_direct, bool *all_seen)
{
    uint32_t heaps = crmm_priv_pool_heap_count(req->pool);
    void *ptr = NULL;

    *all_seen = crmm_priv_pool_cached(req->pool) == 0;
    for (uint32_t i = 0; i < heaps && ptr == NULL; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(req->pool, i);
        crmm_priv_pool_heap_lock(heap);
        crmm_priv_pool_promote(req->pool, heap);
        ptr = take_seen(req, heap, is_direct);
        *all_seen = *all_seen && crmm_priv_pool_is_heap_settled(heap);
        crmm_priv_pool_heap_unlock(heap);
    }
    *all_seen = *all_seen && crmm_priv_pool_cached(req->pool) == 0;
    return ptr;
}
