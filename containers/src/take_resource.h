/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_TAKE_RESOURCE_H
#define CRMM_CONTAINERS_TAKE_RESOURCE_H

#include <crmm/device/per_device_resource.h>
#include <crmm/internal/resource.h>

/*
 * What a container or allocator uses where its caller names `mr`: the current device's resource in
 * place of NULL, retained, or CRMM_ERROR_PROPERTY in the name of `who`.
 */
static inline crmm_status take_resource(const char *who, crmm_resource *mr, crmm_resource **taken)
{
    if (mr == NULL) {
        return crmm_get_current_device_resource(taken);
    }
    const crmm_properties needed = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED;
    if ((mr->reserved[CRMM_PRIV_PROPERTIES] & needed) != needed) {
        return crmm_priv_require_properties(who, mr, needed);
    }
    *taken = crmm_resource_retain(mr);
    return CRMM_SUCCESS;
}

#endif
