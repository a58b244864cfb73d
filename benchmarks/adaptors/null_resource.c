/* SPDX-License-Identifier: Apache-2.0 */
#include "null_resource.h"

#include <crmm/core/alignment.h>
#include <crmm/interfaces/resource.h>

/* Addresses are so far apart that padded blocks do not overlap, and never used. */
static _Thread_local _Alignas(CRMM_DEVICE_ALIGNMENT) char blocks[NULL_RESOURCE_BLOCKS][2048];
static _Thread_local size_t next;

static crmm_status null_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    *ptr = blocks[next++ % NULL_RESOURCE_BLOCKS];
    return CRMM_SUCCESS;
}

static void null_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static crmm_status null_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    (void)stream;
    return null_allocate_sync(resource, bytes, alignment, ptr);
}

static void null_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    (void)stream;
    null_deallocate_sync(resource, ptr, bytes, alignment);
}

static void null_destroy(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops null_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = null_allocate_sync,
    .deallocate_sync = null_deallocate_sync,
    .destroy = null_destroy,
    .allocate = null_allocate,
    .deallocate = null_deallocate,
};

crmm_resource *null_resource(void)
{
    static struct crmm_resource resource;

    if (resource.ops == NULL) {
        crmm_resource_init(&resource, &null_ops, "null_resource",
                           CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    }
    return &resource;
}
