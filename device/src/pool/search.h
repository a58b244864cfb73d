/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SEARCH_H
#define CRMM_DEVICE_POOL_SEARCH_H

/*
 * What there is for a request without more memory: free extents of its stream and of nobody, those
 * of other streams that it has seen, and one that a wait gives it. A block that is found is marked
 * as direct, or not, for the call that gives it back.
 */

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

/* Take the best of some sources; the heap is locked. NULL: there is nothing. */
void *crmm_priv_pool_take(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                          const crmm_priv_extent_source *sources, size_t count, bool is_direct);

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

#endif
