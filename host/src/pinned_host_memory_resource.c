/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/pinned_host_memory_resource.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/leaf.h>

static crmm_status pinned_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    (void)alignment; /* cudaHostAlloc gives CRMM_DEVICE_ALIGNMENT at least */
    return crmm_priv_cuda_host_alloc(crmm_resource_name(&leaf->base), bytes, ptr);
}

static int pinned_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    (void)leaf;
    return crmm_priv_cuda_host_free(ptr, bytes);
}

static const crmm_priv_leaf_calls pinned_calls = {
    .allocate = pinned_allocate,
    .deallocate = pinned_free,
    .largest_alignment = CRMM_DEVICE_ALIGNMENT,
    .free_name = "cudaFreeHost",
    .wait_first = true,
};

static const crmm_resource_ops pinned_ops = CRMM_PRIV_LEAF_OPS;

static crmm_priv_leaf_state state = CRMM_PRIV_LEAF_STATE_INITIALIZER;

static crmm_priv_leaf shared = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&pinned_ops, "pinned_host_memory_resource",
                                    CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE |
                                        CRMM_STREAM_ORDERED),
    .calls = &pinned_calls,
    .state = &state,
};

crmm_resource *crmm_pinned_host_memory_resource(void)
{
    return &shared.base;
}
