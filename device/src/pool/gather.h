/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_GATHER_H
#define CRMM_DEVICE_POOL_GATHER_H

/*
 * Free neighbours of several streams that are large enough together: the request's stream waits for
 * each of the others on the GPU, and the block lies across what they gave back.
 */

#include "request.h"

/* The shortest run of neighbours in a heap that is long enough. NULL: there is none. */
void *crmm_priv_pool_gather(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                            bool is_direct);

/* The same in the own heap, then in the others. */
void *crmm_priv_pool_gather_all(const crmm_priv_pool_request *request, bool is_direct);

#endif
