/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_CHUNK_MEMORY_H
#define CRMM_DEVICE_POOL_CHUNK_MEMORY_H

/* Memory of an upstream that gives it in chunks, which go back as they came. */

#include "memory.h"

/* ---- chunks of their own ---- */
crmm_status crmm_priv_pool_add_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t bytes,
                                     bool is_apart);

crmm_priv_pool_growth crmm_priv_pool_grow_by_chunk(const crmm_priv_pool_request *request);

size_t crmm_priv_pool_return_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap,
                                   uint32_t claimed, void *base, size_t bytes);

#endif
