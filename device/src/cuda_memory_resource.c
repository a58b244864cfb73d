/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_memory_resource.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/leaf.h>

#include "cuda_memory_resource.h"

static crmm_status device_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    (void)alignment; /* cudaMalloc gives CRMM_DEVICE_ALIGNMENT at least */
    return crmm_priv_cuda_malloc(crmm_resource_name(&leaf->base), bytes, ptr);
}

static int device_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    (void)leaf;
    return crmm_priv_cuda_free(ptr, bytes);
}

static const crmm_priv_leaf_calls device_calls = {
    .allocate = device_allocate,
    .deallocate = device_free,
    .largest_alignment = CRMM_DEVICE_ALIGNMENT,
    .free_name = "cudaFree",
};

static const crmm_resource_ops cuda_ops = CRMM_PRIV_LEAF_OPS;

static crmm_priv_leaf_state state = CRMM_PRIV_LEAF_STATE_INITIALIZER;

static const crmm_priv_leaf prototype = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&cuda_ops, "cuda_memory_resource",
                                    CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED),
    .calls = &device_calls,
    .state = &state,
};

static crmm_priv_leaf shared = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&cuda_ops, "cuda_memory_resource",
                                    CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED),
    .calls = &device_calls,
    .state = &state,
};

crmm_resource *crmm_cuda_memory_resource(void)
{
    return &shared.base;
}

void crmm_priv_cuda_memory_resource_init(crmm_priv_leaf *leaf, int device)
{
    *leaf = prototype;
    crmm_resource_bind_device(&leaf->base, device);
}
