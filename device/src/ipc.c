/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/ipc.h>

#include <crmm/device/cuda_memory_resource.h>

#include "binning_memory_resource.h"

bool crmm_resource_is_ipc_capable(const crmm_resource *resource)
{
    const crmm_resource *lowest = resource;

    /* Bins that were given have memory of their own. */
    for (const crmm_resource *at = resource; at != NULL; at = crmm_resource_upstream(at)) {
        if (!crmm_priv_binning_all(at, crmm_resource_is_ipc_capable)) {
            return false;
        }
        lowest = at;
    }
    /* All cuda resources are equal, and nothing else is equal to one. */
    return crmm_resource_is_equal(lowest, crmm_cuda_memory_resource());
}

crmm_status crmm_mpi_safe_memory_resource_create(const crmm_pool_memory_resource_options *options,
                                                 crmm_resource **out)
{
    return crmm_pool_memory_resource_create(crmm_cuda_memory_resource(), options, out);
}
