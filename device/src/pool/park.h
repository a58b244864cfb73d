/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_PARK_H
#define CRMM_DEVICE_POOL_PARK_H

/*
 * The large block that a thread gave back last on a stream. Programs often want one of the same
 * size again at once, for which neither its heap is searched nor its neighbours are joined.
 *
 * It is at hand as one on a shelf is, but of any size, and only for a request of exactly that size.
 * The next one takes its place; before the stream takes memory that it would have to grow for, and
 * before it is fenced, it goes to its heap. What is parked counts as given back until it is taken,
 * so that a fence is due as if it had gone there.
 *
 * One, and only where one thread uses one stream: more of them break up what is free, and what is
 * parked is another stream's or thread's only when that is short of memory. Nor is anything parked
 * in a pool that is tight, that gives memory back by itself, or whose program said how much may be
 * at hand; nor on a stream that may not live long. What was parked before a second stream or thread
 * came goes to its heap with the next large block that is given back.
 */

#include "cache.h"

/* Whether a block of so many bytes would be parked now. */
bool crmm_priv_pool_may_park(const crmm_priv_pool_cache *cache, size_t bytes);

/*
 * Park the block that begins at an address of a heap and has `size` granules, instead of the one
 * that was parked. false: there is no such block. `is_time`: for crmm_priv_pool_cache_fence(),
 * which it is not while a program has the same block again and again.
 */
bool crmm_priv_pool_park_put(crmm_priv_pool_cache *cache, crmm_priv_pool_heap *heap, void *ptr,
                             uint32_t size, bool *is_time);

/* Whether the parked block has `size` granules; taking it will tell, since others may flush it. */
static inline bool crmm_priv_pool_is_parked(const crmm_priv_pool_cache *cache, uint32_t size)
{
    return __atomic_load_n(&cache->parked.size, __ATOMIC_RELAXED) == size;
}

/* Take it for the program if it has `size` granules. NULL: there is none. */
void *crmm_priv_pool_park_take(crmm_priv_pool_cache *cache, uint32_t size);

/* Give it to its heap; the cache is locked. */
void crmm_priv_pool_park_clear(crmm_priv_pool_cache *cache);

/* The same, by the cache's thread, which has not locked it. Whether there was one. */
bool crmm_priv_pool_park_flush(crmm_priv_pool_cache *cache);

#endif
