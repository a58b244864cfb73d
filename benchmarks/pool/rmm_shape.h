/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_RMM_SHAPE_H
#define CRMM_BENCHMARKS_POOL_RMM_SHAPE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>

/*
 * What the pool is compared with: a pool that does its work in the same steps as RMM 26.08's
 * pool_memory_resource, one mutex and lists that are walked. It is no pool to use. The per-thread
 * default stream is not supported.
 *
 * `initial_bytes` are taken from upstream at once; `most_bytes` are never exceeded, 0: no limit.
 */
crmm_status rmm_shape_create(crmm_resource *upstream, size_t initial_bytes, size_t most_bytes,
                             crmm_resource **out);

/* Driver calls so far. */
typedef struct rmm_shape_calls {
    uint64_t records, waits;
} rmm_shape_calls;

rmm_shape_calls rmm_shape_get_calls(crmm_resource *resource);

#endif
