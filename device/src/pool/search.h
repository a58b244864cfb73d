/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SEARCH_H
#define CRMM_DEVICE_POOL_SEARCH_H

/*
 * What there is for a request without more memory: free extents of its stream and of nobody, those
 * of other streams that it has seen, and one that a wait gives it. A block that is found is marked
 * as direct, or not, for the call that gives it back.
 */

#include "accounts.h"
#include "request.h"

enum { CRMM_PRIV_POOL_NEAR_SOURCES = 2 };

/* The stream's own and clean memory: how many of CRMM_PRIV_POOL_NEAR_SOURCES that are. */
static inline size_t crmm_priv_pool_near_sources(const crmm_priv_pool_request *request,
                                                 crmm_priv_extent_source *sources)
{
    size_t count = 0;

    if (request->stream != NULL) {
        sources[count++] =
            (crmm_priv_extent_source){.owner = request->stream->index, .epoch = UINT64_MAX};
    }
    sources[count++] =
        (crmm_priv_extent_source){.owner = CRMM_PRIV_POOL_CLEAN, .epoch = UINT64_MAX};
    return count;
}

/* The extent that fits best. Where that is a chunk that nothing but this block would keep from
 * going back, all are looked at. 0: none. */
uint32_t crmm_priv_pool_find_best(const crmm_priv_pool_request *request,
                                  const crmm_priv_extents *extents,
                                  const crmm_priv_extent_source *sources, size_t count);

/* Whether a block is placed in a row of neighbours, whosever they are: as low as it can be, large
 * ones come to lie in one piece again. A tight pool places all so. A lone stream's neighbours are
 * one extent, and chunks are in no order. */
static inline bool crmm_priv_pool_is_for_row(const crmm_priv_pool_request *req,
                                             const crmm_priv_extents *extents)
{
    const crmm_priv_pool *pool = req->pool;
    bool is_large = crmm_priv_pool_bytes_of(req->size) > pool->largest_cached;

    return pool->is_in_place && req->alignment == 1 &&
           (pool->is_tight || (is_large && extents->solo == 0));
}

/* Take where the pool places the block. The index of the extent in use; 0: nothing fits. */
static inline uint32_t crmm_priv_pool_take_best(const crmm_priv_pool_request *req,
                                                crmm_priv_extents *extents,
                                                const crmm_priv_extent_source *sources,
                                                size_t count)
{
    uint32_t index = 0;

    if (crmm_priv_pool_is_for_row(req, extents)) {
        uint32_t first =
            crmm_priv_extents_find_row(extents, req->size, sources, count, req->pool->is_tight);
        if (first != 0) {
            return crmm_priv_extent_at(extents, first)->size >= req->size
                       ? crmm_priv_extents_take(extents, first, req->size, 1)
                       : crmm_priv_extents_take_run(extents, first, req->size, 1);
        }
    } else {
        index = crmm_priv_pool_find_best(req, extents, sources, count);
    }
    if (index == 0 && req->is_thorough) {
        index = crmm_priv_extents_find_any(extents, req->size, req->alignment,
                                           crmm_priv_pool_most_apart(req), sources, count);
    }
    return index == 0 ? 0 : crmm_priv_extents_take(extents, index, req->size, req->alignment);
}

/* Take the best of some sources; the heap is locked. NULL: there is nothing. Inline, since every
 * large block and every miss of a cache passes here. */
static inline void *crmm_priv_pool_take(const crmm_priv_pool_request *req,
                                        crmm_priv_pool_heap *heap,
                                        const crmm_priv_extent_source *sources, size_t count,
                                        bool is_direct)
{
    crmm_priv_extents *extents = &heap->extents;

    if (!crmm_priv_extents_reserve(extents)) {
        return NULL;
    }
    uint32_t index = crmm_priv_pool_take_best(req, extents, sources, count);
    if (index == 0) {
        return NULL;
    }
    crmm_priv_pool_hand_out(heap, index, is_direct);
    return crmm_priv_pool_address_of(crmm_priv_extent_at(extents, index)->at);
}

/* Others' memory that the stream has seen, where near memory was looked at in vain; the heap is
 * locked. */
void *crmm_priv_pool_take_others(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                                 bool is_direct);

/*
 * Small blocks for a thread among several: all of the 32 KiB that have their marks in two lines,
 * which processors fetch together, so that no other thread writes there. The first block; `fetched`
 * of at most `most` others in `extra`. NULL: there is no such place. The heap is locked.
 */
void *crmm_priv_pool_take_line(const crmm_priv_pool_request *request,
                               const crmm_priv_extent_source *sources, size_t count, void **extra,
                               uint32_t most, uint32_t *fetched);

/* Take the best of near memory and what the stream has seen. NULL: there is nothing. */
void *crmm_priv_pool_look(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                          bool is_direct);

/* What there is in the own heap, and the others that are not busy, also behind a wait on the GPU.
 */
void *crmm_priv_pool_search(const crmm_priv_pool_request *request, bool is_direct);

/*
 * Near memory in all heaps, with what is known to be complete now, however busy they are. Whether
 * that was all that is free: what others had at hand or was pending while it was looked at, or was
 * just coming or going, was not.
 */
void *crmm_priv_pool_search_all(const crmm_priv_pool_request *request, bool is_direct,
                                bool *all_seen);

#endif
