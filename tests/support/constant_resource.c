/* SPDX-License-Identifier: Apache-2.0 */
#include "constant_resource.h"

static crmm_status give(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)bytes;
    (void)alignment;
    *ptr = resource;
    return CRMM_SUCCESS;
}

static void take(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static void stay(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops constant_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = give,
    .deallocate_sync = take,
    .destroy = stay,
};

void constant_resource_init(struct crmm_resource *resource)
{
    crmm_resource_init(resource, &constant_ops, "constant_resource", CRMM_HOST_ACCESSIBLE);
}
