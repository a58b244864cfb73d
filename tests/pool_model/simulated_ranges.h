/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SIMULATED_RANGES_H
#define CRMM_TESTS_POOL_MODEL_SIMULATED_RANGES_H

/* The operations of an upstream that can grow in place, and what they share with the others. */

#include "simulated_upstream.h"

crmm_status simulated_reserve(crmm_resource *resource, size_t bytes, size_t alignment, void **base);
crmm_status simulated_commit(crmm_resource *resource, void *ptr, size_t bytes);
crmm_status simulated_decommit(crmm_resource *resource, void *ptr, size_t bytes);
crmm_status simulated_unreserve(crmm_resource *resource, void *base, size_t bytes);
crmm_status simulated_move_begin(crmm_resource *resource, void *to, const void *from, size_t bytes);
crmm_status simulated_move_end(crmm_resource *resource, void *from, size_t bytes);

/* A call of a simulated upstream begins: it is counted, and the simulation locked. */
simulated_upstream *simulated_upstream_begin(crmm_resource *resource);

/* Whether this much can be given; it counts as given then. Locked, as the next. */
bool simulated_upstream_take_bytes(simulated_upstream *upstream, size_t bytes);
/* Address space right behind the last or further on, so that neighbours may look like one. */
char *simulated_upstream_new_addresses(simulated_upstream *upstream, size_t bytes,
                                       size_t alignment);

#endif
