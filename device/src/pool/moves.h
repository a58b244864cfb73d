/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_MOVES_H
#define CRMM_DEVICE_POOL_MOVES_H

/*
 * Pages that move to where they are needed: their memory appears at the new address first, and
 * leaves the old one when the work on it there is complete. All by the thread that changes what the
 * pool holds.
 */

#include "memory.h"
#include "plan.h"

/* Memory from elsewhere in the heap behind as much as possible of a claimed part. Granules. */
uint32_t crmm_priv_pool_move_into(const crmm_priv_pool_request *request,
                                  const crmm_priv_pool_plan *plan, uint32_t limit);

/* The same from other heaps of which much is free. */
uint32_t crmm_priv_pool_move_surplus(const crmm_priv_pool_request *request,
                                     const crmm_priv_pool_plan *plan);

/* Whether there is memory that has two addresses, which may lie in two heaps. */
bool crmm_priv_pool_is_moving(const crmm_priv_pool *pool);

#endif
