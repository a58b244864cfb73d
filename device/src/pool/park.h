/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_PARK_H
#define CRMM_DEVICE_POOL_PARK_H

/*
 * The large blocks that a thread gave back last on a stream, and had not had for long. Programs
 * often want some of the same sizes again at once, for which neither the heap is searched nor
 * neighbours are joined.
 *
 * They are at hand as those on a shelf are, but of any size, and only for requests of exactly their
 * sizes. When the thread wants a large block of another size on the stream they go to their heaps,
 * so that its place is chosen among all that is the stream's; so they do for a fence, which leaves
 * none behind that others would miss, and where memory is short. What is parked counts as bytes
 * that were given back until it is taken, and comes to its heap in turn when it goes there.
 *
 * Two, and only those that came and went while hardly anything else did: what took the place of a
 * block that had lived longer would live long itself, and break up what is free. (Of a program that
 * trains a model, whose steps are of many sizes, the pool holds 1.017 times what is live with
 * blocks of any age parked, and 1.006 with these: W7 in docs/benchmarks.md.)
 *
 * Only where one thread uses the pool: what is parked is another's only when that is short of
 * memory. Nor is anything parked in a pool that is tight, that gives memory back by itself, or
 * whose program said how much may be at hand; nor on a stream that may not live long.
 */

#include "cache.h"

/* Whether a thread parks large blocks on a stream now. */
bool crmm_priv_pool_may_park(const crmm_priv_pool_cache *cache);

/* Whether a large block lived so shortly that it may be parked; its heap is locked. */
static inline bool crmm_priv_pool_lived_shortly(const crmm_priv_pool_heap *heap, uint32_t index)
{
    enum { SHORT_LIFE = 1 /* other large blocks that were given back meanwhile */ };

    return heap->returns - (uint32_t)crmm_priv_extent_at(&heap->extents, index)->epoch <=
           SHORT_LIFE;
}

/*
 * Park a block that the program gave back, when so many had come to its heap. The one that was
 * parked before the last one goes to its heap. Whether it is time for crmm_priv_pool_cache_fence(),
 * which it is not while a program has the same blocks again and again.
 */
bool crmm_priv_pool_park(crmm_priv_pool_cache *cache, const crmm_priv_pool_parked *one,
                         uint32_t turn);

/* Whether any is parked; taking and flushing will tell, since others may flush it. */
static inline bool crmm_priv_pool_has_parked(const crmm_priv_pool_cache *cache)
{
    return (__atomic_load_n(&cache->parked[0].size, __ATOMIC_RELAXED) |
            __atomic_load_n(&cache->parked[1].size, __ATOMIC_RELAXED)) != 0;
}

/* Take one of `size` granules for the program. NULL: there is none. */
void *crmm_priv_pool_park_take(crmm_priv_pool_cache *cache, uint32_t size);

/* Give all to their heaps; the cache is locked. */
void crmm_priv_pool_park_clear(crmm_priv_pool_cache *cache);

/* The same, by the cache's thread, which has not locked it. Whether there was any. */
bool crmm_priv_pool_park_flush(crmm_priv_pool_cache *cache);

#endif
