/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SETTLE_H
#define CRMM_DEVICE_POOL_SETTLE_H

/* How far the work on the streams has come, learned or waited for on the CPU: what it is complete
 * for becomes clean. */

#include "request.h"

/* Learn how far all streams' work has come, and make what is complete clean. */
void crmm_priv_pool_settle_streams(crmm_priv_pool *pool);

/* The same in the only heap for a few streams, the next ones each time, but not this one; for a few
 * extents of theirs, and without the fence that a lack of memory is worth. So it takes little time
 * where nobody is in need. */
void crmm_priv_pool_settle_some(crmm_priv_pool *pool, const crmm_priv_pool_stream *but);

/* The stream's own work may be complete as well: then its memory joins what is clean beside it. */
void crmm_priv_pool_complete_own(const crmm_priv_pool_request *request);

/* Whether everything in the heaps is complete and no memory has two addresses. */
bool crmm_priv_pool_is_settled(crmm_priv_pool *pool);

/* Wait for the oldest fenced memory that is not clean yet. false: there is none. */
bool crmm_priv_pool_wait_for_oldest(crmm_priv_pool *pool);

/* Wait for all work on the device: everything given back so far is clean then. A CUDA error code.
 */
int crmm_priv_pool_wait_for_all(crmm_priv_pool *pool);

#endif
