/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_PAGE_MEMORY_H
#define CRMM_DEVICE_POOL_PAGE_MEMORY_H

/* Memory of an upstream that puts it behind reserved addresses: page by page. */

#include "memory.h"
#include "plan.h"

crmm_status crmm_priv_pool_add_range(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t need);

/* The part of a hole to fill for a request; marked busy, so that nobody else does. 0: no hole is
 * long enough, or there is no host memory. */
uint32_t crmm_priv_pool_claim_hole(const crmm_priv_pool_request *request,
                                   crmm_priv_pool_plan *plan);

/* Memory is behind the first `done` granules of a claimed part; the rest is a hole again. */
void crmm_priv_pool_settle(crmm_priv_pool_heap *heap, uint32_t claimed, uint32_t done,
                           uint16_t owner, uint64_t epoch);

/* Whether upstream has so much, as far as that is known for less than it costs to try: otherwise
 * all the memory that others need would be taken first, page by page. A refusal is described. */
crmm_status crmm_priv_pool_could_fill(const crmm_priv_pool *pool, size_t bytes);

/* New memory behind a claimed part, page by page. */
crmm_status crmm_priv_pool_fill(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed);

/* Take the memory behind a claimed part away, page by page. Bytes. */
size_t crmm_priv_pool_decommit(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed,
                               char *base, size_t bytes);

/* Whole pages within a free extent: where they begin, and how many granules. */
uint32_t crmm_priv_pool_whole_pages(const crmm_priv_pool *pool, const crmm_priv_extent *extent,
                                    uint64_t *at);

#endif
