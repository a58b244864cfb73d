/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_REQUEST_H
#define CRMM_DEVICE_POOL_REQUEST_H

/* What is asked of the heaps, by whom, and what may be used for it. */

#include "pool.h"

typedef struct crmm_priv_pool_request {
    crmm_priv_pool *pool;
    crmm_priv_pool_heap *heap;     /* which this thread takes from */
    crmm_priv_pool_stream *stream; /* NULL: nobody; only memory without pending work will do */
    crmm_stream handle;            /* of the stream */
    uint32_t size, alignment;      /* granules */
    bool is_thrifty;               /* takes little of what larger blocks could have */
    bool is_thorough;              /* looks at all there is rather than miss something */
} crmm_priv_pool_request;

/* The largest chunk, in any unit, that a thrifty request takes from what is for one block at a
 * time. */
static inline uint64_t crmm_priv_pool_thrifty_most(uint64_t size)
{
    return size + size / 4;
}

/* The same, in granules, of any request. */
static inline uint32_t crmm_priv_pool_most_apart(const crmm_priv_pool_request *request)
{
    uint64_t most = crmm_priv_pool_thrifty_most(request->size);

    return request->is_thrifty && most < CRMM_PRIV_POOL_ANY ? (uint32_t)most : CRMM_PRIV_POOL_ANY;
}

static inline uint16_t crmm_priv_pool_owner(const crmm_priv_pool_request *request)
{
    return request->stream == NULL ? CRMM_PRIV_POOL_CLEAN : request->stream->index;
}

/* Granules that the block takes in memory that begins at an address, in granules. */
static inline uint64_t crmm_priv_pool_need_at(const crmm_priv_pool_request *request, uint64_t at)
{
    return request->size + (-at & (uint64_t)(request->alignment - 1));
}

/* Granules without which no extent is sure to have an aligned place for it. */
static inline uint64_t crmm_priv_pool_need(const crmm_priv_pool_request *request)
{
    return (uint64_t)request->size + request->alignment - 1;
}

/* Whether a free extent may be used at once: it is one's own, or clean, or the stream has seen its
 * owner up to when it was given back. */
bool crmm_priv_pool_may_use(const crmm_priv_pool_request *request, const crmm_priv_extent *extent);

/* The same for what an owner gave back in an epoch. */
bool crmm_priv_pool_may_use_from(const crmm_priv_pool_request *request,
                                 crmm_priv_extent_source from);

/* Whether it may be used at once, or after a wait on the GPU. */
bool crmm_priv_pool_could_use(const crmm_priv_pool_request *request,
                              const crmm_priv_extent *extent);

enum { CRMM_PRIV_POOL_MOST_WAITS = 16 };

/* Whom to wait for, and up to when. */
typedef struct crmm_priv_pool_waits {
    uint32_t count;
    crmm_priv_extent_source list[CRMM_PRIV_POOL_MOST_WAITS];
} crmm_priv_pool_waits;

/* Add what a free extent needs that could be used. false: these are too many streams. */
bool crmm_priv_pool_add_wait(const crmm_priv_pool_request *request, crmm_priv_pool_waits *waits,
                             const crmm_priv_extent *extent);

/* Make the request's stream wait; what was waited for may be used. No lock is held. */
bool crmm_priv_pool_wait_for(const crmm_priv_pool_request *request,
                             const crmm_priv_pool_waits *waits);

#endif
