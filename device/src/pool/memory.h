/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_MEMORY_H
#define CRMM_DEVICE_POOL_MEMORY_H

/*
 * Memory that comes from upstream, goes back to it, or moves.
 *
 * Over an upstream that can put memory behind reserved addresses, a heap's chunk is such a range,
 * in pages of one size: a shortage is met by filling the hole that misses the fewest pages together
 * with the free memory beside it. A page is new, or, where the pool holds more than it ever needed,
 * moved from where a whole page is free: its handle appears at the new address first, and leaves
 * the old one when the work on it there is complete.
 *
 * Over other upstreams a chunk is one allocation, which goes back as a whole.
 */

#include "request.h"

typedef enum crmm_priv_pool_growth {
    CRMM_PRIV_POOL_GREW,       /* look again */
    CRMM_PRIV_POOL_AT_MAXIMUM, /* it would hold more than it may */
    CRMM_PRIV_POOL_REFUSED     /* upstream gave none; the error is recorded */
} crmm_priv_pool_growth;

/* Get memory for a request into its heap; one thread at a time, the others look again. */
crmm_priv_pool_growth crmm_priv_pool_grow(const crmm_priv_pool_request *request);

/* How much the pool may hold, with `need` bytes more in use, before idle memory is moved or given
 * back instead of taking more. */
size_t crmm_priv_pool_free_limit(crmm_priv_pool *pool, size_t need);

/* Whether it holds more than that, by the peak that is known. */
bool crmm_priv_pool_is_beyond_limit(crmm_priv_pool *pool);

/* Idle chunks went back for another one to come, which earns slack; when that is as much as it
 * gets, chunks are for one block at a time no more. */
void crmm_priv_pool_earn_slack(crmm_priv_pool *pool, size_t released);

/* Over chunks, see whether as much was never in use before, after memory came. */
void crmm_priv_pool_note_peak(crmm_priv_pool *pool);

/* Take `bytes` from upstream at once, into a heap. */
crmm_status crmm_priv_pool_prime(crmm_priv_pool *pool, size_t bytes);

/* Give idle memory back to upstream while the pool holds more than `keep` bytes. What was released.
 */
size_t crmm_priv_pool_release(crmm_priv_pool *pool, size_t keep);

/* Take mappings away that moved memory left behind, where the work on it is complete. */
void crmm_priv_pool_finish_moves(crmm_priv_pool *pool);

/* No block is at hand: give everything back but what holds live blocks, or may have work on it.
 * Bytes that were left, and bytes of address space that hold nothing and were left all the same. */
size_t crmm_priv_pool_give_back(crmm_priv_pool *pool, size_t *addresses);

#endif
