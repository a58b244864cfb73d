/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/ipc.h>

#include <crmm/device/cuda_memory_resource.h>

bool crmm_resource_is_ipc_capable(const crmm_resource *resource)
{
    const crmm_resource *upstream = crmm_resource_upstream(resource);

    while (upstream != NULL) {
        resource = upstream;
        upstream = crmm_resource_upstream(resource);
    }
    /* All cuda resources are equal, and nothing else is equal to one. */
    return crmm_resource_is_equal(resource, crmm_cuda_memory_resource());
}
