/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_FENCES_H
#define CRMM_DEVICE_POOL_FENCES_H

/*
 * When a fence is due. Each cache has an account of the bytes that were given back into it or past
 * it; when that is beyond a limit, and a few blocks more, its stream is fenced in a call that the
 * program makes there. Events are few then, and what nobody else may use yet is little.
 *
 * Large blocks count by turns as well: a stream has a fence for every eight that come back to the
 * heap, whosever they are, and all streams together one for every four; one that had none for very
 * many has one at any rate. So a stream that gives back few of them has a fence for each, and
 * leaves none behind that the others miss until it is called again.
 *
 * Beside these, a request that is about to grow or to wait fences its own stream: settle.h.
 */

#include "cache.h"

/*
 * Few fences are enough while nobody lacks what is given back. When the pool grows beyond what it
 * ever needed, or waits, and much is without a fence on other streams, it was too few: for some
 * time a stream then has a fence for every 64 KiB, or larger block, that is given back, and keeps
 * nothing at hand behind it. Each time for twice as long.
 */
void crmm_priv_pool_be_eager(crmm_priv_pool *pool);

static inline bool crmm_priv_pool_is_eager(const crmm_priv_pool *pool)
{
    return __atomic_load_n(&pool->eager_until, __ATOMIC_RELAXED) != 0;
}

/* How many bytes the caches may hold, and how many may be given back without a fence; the pool's
 * lock is held. */
void crmm_priv_pool_set_budget(crmm_priv_pool *pool);

/*
 * How much may be given back before the next fence: an eighth of what was given back before, so
 * that a stream that is destroyed leaves little behind, however short it lived. The cache is
 * locked, or new.
 */
void crmm_priv_pool_set_fence_limit(crmm_priv_pool_cache *cache);

/* What a block that goes to the heap at once, in its turn there, adds to the account; whether it is
 * time for crmm_priv_pool_cache_fence(). */
bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes, uint32_t turn);

/* The same where the cache is locked. */
bool crmm_priv_pool_cache_note_locked(crmm_priv_pool_cache *cache, size_t bytes, uint32_t turn);

/* Something was given back by a call on `handle`, the cache's stream, beyond what may be: see
 * whether a fence is due. */
void crmm_priv_pool_cache_look(crmm_priv_pool_cache *cache, crmm_stream handle);

/* One is: record it, and give memory back to upstream where that is to be. */
void crmm_priv_pool_cache_fence(crmm_priv_pool_cache *cache, crmm_stream handle);

#endif
