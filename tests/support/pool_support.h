/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_POOL_SUPPORT_H
#define CRMM_TESTS_SUPPORT_POOL_SUPPORT_H

#include <criterion/criterion.h>

#include <crmm/device/pool_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* A pool, with designated options: make_pool(upstream, .maximum_pool_size = MIB) */
#define make_pool(upstream, ...) \
    pool_made(upstream, CRMM_OPTIONS(crmm_pool_memory_resource, __VA_ARGS__))
crmm_resource *pool_made(crmm_resource *upstream, const crmm_pool_memory_resource_options *options);

/* A vmm resource on the current device; the caller's. */
crmm_resource *make_vmm(void);

/* What crmm_resource_info() says of any resource. */
crmm_memory_info info_of(const crmm_resource *mr);

/* What crmm_pool_memory_resource_statistics() says. */
crmm_pool_statistics statistics_of(const crmm_resource *pool);

/*
 * The books of a pool agree with each other: live and cached bytes make up what is held, which is
 * the size of the pool, and a snapshot in ascending order, without overlaps, adds up to the same
 * live, free and pending bytes.
 */
void expect_sound_books(const crmm_resource *pool);

/* A block from a pool on a stream, which succeeds. */
void *take(crmm_resource *pool, cudaStream_t stream, size_t bytes);

#endif
