/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_NULL_UPSTREAM_H
#define CRMM_BENCHMARKS_POOL_NULL_UPSTREAM_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>

/*
 * An upstream for pools that has addresses and no memory: whoever touched a block would crash. It
 * is bound to device 0, so that nobody asks CUDA for one.
 *
 * `in_place`: blocks can grow in place and memory can move, as with vmm_memory_resource; otherwise
 * it has only what cuda_memory_resource has. More than `most_bytes` at a time fail with
 * CRMM_ERROR_OUT_OF_MEMORY. NULL: no host memory.
 */
crmm_resource *null_upstream_create(size_t most_bytes, bool in_place);

#endif
