/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/system_memory_resource.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/heap.h>
#include <crmm/internal/leaf.h>

static crmm_status system_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    int device = 0;

    crmm_status status = crmm_priv_cuda_current_device(&device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_cuda_reaches_pageable(device)) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: device %d cannot reach pageable memory, so not %zu bytes of it",
                          crmm_resource_name(&leaf->base), device, bytes);
    }
    return crmm_priv_heap_allocate(leaf, bytes, alignment, ptr);
}

static const crmm_priv_leaf_calls system_calls = {
    .allocate = system_allocate,
    .deallocate = crmm_priv_heap_free,
    .free_name = "free",
    .wait_first = true,
};

static const crmm_resource_ops system_ops = CRMM_PRIV_LEAF_OPS;

static crmm_priv_leaf_state state = CRMM_PRIV_LEAF_STATE_INITIALIZER;

static crmm_priv_leaf shared = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&system_ops, "system_memory_resource",
                                    CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE |
                                        CRMM_STREAM_ORDERED),
    .calls = &system_calls,
    .state = &state,
};

crmm_resource *crmm_system_memory_resource(void)
{
    return &shared.base;
}
