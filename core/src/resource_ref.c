/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/resource_ref.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/resource.h>

/* ---- exported twins of the inline functions ---- */

extern inline crmm_host_device_resource_ref crmm_host_device_async_to_host_device(
    crmm_host_device_async_resource_ref ref);
extern inline crmm_device_async_resource_ref crmm_host_device_async_to_device_async(
    crmm_host_device_async_resource_ref ref);
extern inline crmm_host_async_resource_ref crmm_host_device_async_to_host_async(
    crmm_host_device_async_resource_ref ref);
extern inline crmm_device_resource_ref crmm_host_device_async_to_device(
    crmm_host_device_async_resource_ref ref);
extern inline crmm_host_resource_ref crmm_host_device_async_to_host(
    crmm_host_device_async_resource_ref ref);
extern inline crmm_device_resource_ref crmm_host_device_to_device(
    crmm_host_device_resource_ref ref);
extern inline crmm_host_resource_ref crmm_host_device_to_host(crmm_host_device_resource_ref ref);
extern inline crmm_device_resource_ref crmm_device_async_to_device(
    crmm_device_async_resource_ref ref);
extern inline crmm_host_resource_ref crmm_host_async_to_host(crmm_host_async_resource_ref ref);

/* ---- checked constructors ---- */

/* Everything a constructor checks; `type` names the reference in the messages. */
static crmm_status check(const char *type, const crmm_resource *resource, crmm_properties required,
                         const void *ref)
{
    if (ref == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: ref is NULL", type);
    }
    if (resource == NULL) {
        return FAIL(CRMM_ERROR_LOGIC, 0, "%s: resource is NULL", type);
    }
    return crmm_priv_require_properties(type, resource, required);
}

crmm_status crmm_to_device_resource_ref(crmm_resource *resource, crmm_device_resource_ref *ref)
{
    crmm_status status = check("device_resource_ref", resource, CRMM_DEVICE_ACCESSIBLE, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}

crmm_status crmm_to_device_async_resource_ref(crmm_resource *resource,
                                              crmm_device_async_resource_ref *ref)
{
    crmm_status status = check("device_async_resource_ref", resource,
                               CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}

crmm_status crmm_to_host_resource_ref(crmm_resource *resource, crmm_host_resource_ref *ref)
{
    crmm_status status = check("host_resource_ref", resource, CRMM_HOST_ACCESSIBLE, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}

crmm_status crmm_to_host_async_resource_ref(crmm_resource *resource,
                                            crmm_host_async_resource_ref *ref)
{
    crmm_status status =
        check("host_async_resource_ref", resource, CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}

crmm_status crmm_to_host_device_resource_ref(crmm_resource *resource,
                                             crmm_host_device_resource_ref *ref)
{
    crmm_status status = check("host_device_resource_ref", resource,
                               CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}

crmm_status crmm_to_host_device_async_resource_ref(crmm_resource *resource,
                                                   crmm_host_device_async_resource_ref *ref)
{
    crmm_status status =
        check("host_device_async_resource_ref", resource,
              CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, ref);
    if (status == CRMM_SUCCESS) {
        ref->resource = resource;
    }
    return status;
}
