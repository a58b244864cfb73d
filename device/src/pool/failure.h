/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_FAILURE_H
#define CRMM_DEVICE_POOL_FAILURE_H

/* What is said of a request for which there was no memory: why, and what there was. */

#include "memory.h"

/*
 * Describe why a request for so many bytes was not served: as they were asked for, not as `size`,
 * the granules that they were rounded to. The message tells three reasons apart: the maximum; that
 * what is left below it is enough and could not be had; and upstream.
 */
crmm_status crmm_priv_pool_fail(crmm_priv_pool *pool, size_t bytes, uint32_t size,
                                crmm_priv_pool_growth growth);

/* The same for a request that is more than the pool may ever hold, `most`. */
crmm_status crmm_priv_pool_fail_too_large(crmm_priv_pool *pool, size_t bytes, size_t alignment,
                                          size_t most);

#endif
