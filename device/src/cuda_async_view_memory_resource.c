/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_async_view_memory_resource.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_pool.h>

#include "mem_pool_resource.h"

static const char class_name[] = "cuda_async_view_memory_resource";

static const crmm_resource_ops cuda_async_view_ops = CRMM_PRIV_MEM_POOL_OPS;

crmm_status crmm_cuda_async_view_memory_resource_create(crmm_mem_pool pool, crmm_resource **out)
{
    int device = 0;

    if (pool == NULL || out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", class_name,
                    pool == NULL ? "pool" : "out");
    }
    crmm_status status = crmm_priv_cuda_current_device(&device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_cuda_has_pools(device)) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d has no memory pools", class_name,
                    device);
    }
    crmm_priv_mem_pool_resource *created = crmm_priv_mem_pool_resource_create(
        class_name, &cuda_async_view_ops, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, device);
    if (created == NULL) {
        return CRMM_ERROR_OUT_OF_MEMORY;
    }
    crmm_priv_mem_pool_adopt(created, pool, false);
    *out = &created->base;
    return CRMM_SUCCESS;
}

static crmm_status get(const char *call, crmm_status (*ask)(int, crmm_mem_pool *), int device,
                       crmm_mem_pool *pool)
{
    crmm_mem_pool found = NULL;

    if (pool == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: pool is NULL", call);
    }
    crmm_status status = ask(device, &found);
    if (status == CRMM_SUCCESS) {
        *pool = found;
    }
    return status;
}

crmm_status crmm_get_default_mem_pool(int device, crmm_mem_pool *pool)
{
    return get("crmm_get_default_mem_pool", crmm_priv_cuda_pool_default, device, pool);
}

crmm_status crmm_get_current_mem_pool(int device, crmm_mem_pool *pool)
{
    return get("crmm_get_current_mem_pool", crmm_priv_cuda_pool_current, device, pool);
}
