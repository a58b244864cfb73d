/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SERVE_H
#define CRMM_DEVICE_POOL_SERVE_H

#include "cache.h"
#include "memory.h"

/*
 * Serve a request that the cache cannot: from the heap, then by all that is left to try. In order:
 *
 *  1. what is on its way between caches and may be used; own and clean memory, by the tighter fit;
 *     then what the stream has seen of others
 *  2. what other streams' completed work makes clean, or lets go on its way
 *  3. another stream's block, with a wait on the GPU; one on its way first
 *  4. other heaps, the same way
 *  5. what the caches hold
 *  6. free neighbours together, with a wait for each stream among them
 *  7. growth, by moving idle memory or from upstream
 *  8. growth after idle memory was given back, where that is what hinders it
 *  9. waiting, on the CPU, for the fence that was recorded first: of those before a block that
 *     suffices, else of all
 * 10. waiting for everything
 *
 * Among several heaps of a pool that is far from its maximum, a small request mostly goes from 1 to
 * 6, in its own heap, and to 7.
 *
 * `more` blocks of the same size are fetched besides, if the heap has them at once, into `extra`;
 * `more` is set to how many. Without success `ptr` is set to NULL, and what is returned is for
 * crmm_priv_pool_fail().
 */
crmm_priv_pool_growth crmm_priv_pool_serve(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                           crmm_stream handle, uint32_t size, void **ptr,
                                           void **extra, uint32_t *more);

/* The same for one block of a size that caches do not keep, or with an alignment of its own, which
 * is marked so for the call that gives it back. */
crmm_priv_pool_growth crmm_priv_pool_serve_direct(crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                                  crmm_stream handle, uint32_t size,
                                                  uint32_t alignment, void **ptr);

#endif
