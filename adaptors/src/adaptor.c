/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor.h"

#include <crmm/internal/fail.h>

crmm_status crmm_priv_adaptor_check(const char *name, const crmm_resource *upstream,
                                    crmm_resource *const *out)
{
    if (upstream == NULL || out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", name,
                    upstream == NULL ? "upstream" : "out");
    }
    return CRMM_SUCCESS;
}

void *crmm_priv_adaptor_create(const char *name, const crmm_resource_ops *ops, size_t size,
                               crmm_resource *upstream, crmm_resource *const *out,
                               crmm_status *status)
{
    *status = crmm_priv_adaptor_check(name, upstream, out);
    if (*status != CRMM_SUCCESS) {
        return NULL;
    }
    crmm_priv_adaptor *created = crmm_resource_storage_allocate(size);
    if (created == NULL) {
        *status = FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the adaptor", name);
        return NULL;
    }
    crmm_resource_init(&created->base, ops, name, crmm_resource_properties(upstream));
    crmm_resource_bind_device(&created->base, crmm_resource_device(upstream));
    created->upstream = crmm_resource_retain(upstream);
    *status = CRMM_SUCCESS;
    return created;
}

crmm_resource *crmm_priv_adaptor_upstream(const crmm_resource *resource)
{
    return ((const crmm_priv_adaptor *)resource)->upstream;
}

void crmm_priv_adaptor_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                       size_t alignment)
{
    crmm_deallocate_sync(crmm_priv_adaptor_upstream(resource), ptr, bytes, alignment);
}

void crmm_priv_adaptor_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                  size_t bytes, size_t alignment)
{
    crmm_deallocate(crmm_priv_adaptor_upstream(resource), stream, ptr, bytes, alignment);
}

void crmm_priv_adaptor_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    crmm_deallocate_ptr(crmm_priv_adaptor_upstream(resource), stream, ptr);
}

void crmm_priv_adaptor_destroy(crmm_resource *resource)
{
    crmm_resource_release(&((crmm_priv_adaptor *)resource)->upstream);
    crmm_resource_storage_free(resource);
}
