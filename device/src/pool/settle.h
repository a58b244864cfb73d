/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SETTLE_H
#define CRMM_DEVICE_POOL_SETTLE_H

/* How far the work on the streams has come: what it is complete for becomes clean. */

#include "request.h"

/* Learn how far all streams' work has come, and make what is complete clean. */
void crmm_priv_pool_settle_streams(crmm_priv_pool *pool);

/* The same in the only heap for a few streams, the next ones each time, but not this one; for a few
 * extents of theirs, and without the fence that a lack of memory is worth. So it takes little time
 * where nobody is in need. */
void crmm_priv_pool_settle_some(crmm_priv_pool *pool, const crmm_priv_pool_stream *but);

/* Make clean what is known to be complete; the heap is locked. */
void crmm_priv_pool_promote(crmm_priv_pool *pool, crmm_priv_pool_heap *heap);

/* Bytes that other streams gave back, of those that have no fence for the latest of it. */
size_t crmm_priv_pool_unfenced(crmm_priv_pool *pool, const crmm_priv_pool_stream *but);

/* The stream's own work may be complete as well: then its memory joins what is clean beside it. */
void crmm_priv_pool_complete_own(const crmm_priv_pool_request *request);

/* Whether everything in the heaps is complete, no memory has two addresses, and none is just coming
 * or going. */
bool crmm_priv_pool_is_settled(crmm_priv_pool *pool);

/* The same of one heap, which is locked. */
bool crmm_priv_pool_is_heap_settled(const crmm_priv_pool_heap *heap);

#endif
