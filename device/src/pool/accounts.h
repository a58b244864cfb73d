/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_ACCOUNTS_H
#define CRMM_DEVICE_POOL_ACCOUNTS_H

/* What a pool holds, and who is told of it. */

#include "pool.h"

/* ---- units ---- */

static inline size_t crmm_priv_pool_bytes_of(uint64_t granules)
{
    return (size_t)granules << CRMM_PRIV_POOL_GRANULE_SHIFT;
}

static inline uint32_t crmm_priv_pool_granules_of(size_t bytes)
{
    return (uint32_t)(bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT);
}

static inline void *crmm_priv_pool_address_of(uint64_t at)
{
    return (void *)(uintptr_t)crmm_priv_pool_bytes_of(at);
}

/* A page need not be a power of two. */
static inline size_t crmm_priv_pool_round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static inline const crmm_priv_extent *crmm_priv_pool_extent_of(const crmm_priv_pool_heap *heap,
                                                               uint32_t index)
{
    return crmm_priv_extent_at(&heap->extents, index);
}

/* ---- accounts ---- */

/* Tell the program's callback, if it has one, of memory that came or goes. */
void crmm_priv_pool_tell(const crmm_priv_pool *pool, void *base, size_t bytes, bool added);

void crmm_priv_pool_account(crmm_priv_pool *pool, size_t added, size_t removed);

/* Bytes that may still be taken from upstream. */
size_t crmm_priv_pool_room(const crmm_priv_pool *pool);

#endif
