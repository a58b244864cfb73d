/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_CHECK_H
#define CRMM_DEVICE_POOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>

/*
 * Whether a pool's structure is sound, for tests; otherwise what is wrong, in `why`. Looks at
 * everything, and nobody else may use the pool meanwhile.
 */
bool crmm_priv_pool_check(const crmm_resource *pool, char *why, size_t size);

/* The name of a lock that is held, of the pool or of all pools, while one thread uses them; NULL:
 * none is, as must be so in every call of CUDA's and of upstream's. */
const char *crmm_priv_pool_held_lock(crmm_resource *resource);

/* Bytes of blocks that are on their way between caches, by way of the depot. */
size_t crmm_priv_pool_depot_bytes(const crmm_resource *pool);

/* Bytes of the blocks that are parked, while nothing else is in flight. */
size_t crmm_priv_pool_parked_bytes(const crmm_resource *pool);

#endif
