/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_async_managed_memory_resource.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_pool.h>

#include "mem_pool_resource.h"

static const char class_name[] = "cuda_async_managed_memory_resource";

static const crmm_resource_ops cuda_async_managed_ops = CRMM_PRIV_MEM_POOL_OPS;

crmm_status crmm_cuda_async_managed_memory_resource_create(crmm_resource **out)
{
    crmm_mem_pool pool = NULL;
    int device = 0;

    if (out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    crmm_status status = crmm_priv_cuda_current_device(&device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_cuda_has_managed_pools(device)) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d has no managed memory pools",
                    class_name, device);
    }
    status = crmm_priv_cuda_pool_default_managed(device, &pool);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_mem_pool_resource *created = crmm_priv_mem_pool_resource_create(
        class_name, &cuda_async_managed_ops,
        CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, device);
    if (created == NULL) {
        return CRMM_ERROR_OUT_OF_MEMORY;
    }
    crmm_priv_mem_pool_adopt(created, pool, false);
    *out = &created->base;
    return CRMM_SUCCESS;
}
