/* SPDX-License-Identifier: Apache-2.0 */

/* A pool's memory for other processes. */

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

#include "../vmm_memory_resource.h"
#include "accounts.h"

static const char who[] = "crmm_pool_memory_resource_export";

static crmm_status check_arguments(const crmm_resource *resource, uint64_t handle_type,
                                   const crmm_pool_export *out)
{
    if (!crmm_priv_pool_is_pool(resource, who)) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    if (out == NULL || out->struct_size < sizeof(*out)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: out is NULL, or its struct_size is not set", who);
    }
    if (handle_type != CRMM_EXPORT_FILE_DESCRIPTOR && handle_type != CRMM_EXPORT_FABRIC) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: handle_type %llu is not one kind of handle", who,
                    (unsigned long long)handle_type);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_pool_memory_resource_export(const crmm_resource *resource, const void *ptr,
                                             uint64_t handle_type, crmm_pool_export *out)
{
    const crmm_priv_pool *pool = (const crmm_priv_pool *)resource;
    void *base = NULL;
    size_t bytes = 0;

    crmm_status status = check_arguments(resource, handle_type, out);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_is_vmm(pool->upstream)) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: the pool's memory is %s's, which has no handles; that of a "
                    "vmm_memory_resource with export_handle_type has",
                    who, crmm_resource_name(pool->upstream));
    }
    status = crmm_priv_cuda_ready(who); /* in a forked child no lock may be taken */
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_pool_memory_resource_chunk(resource, ptr, &base, &bytes);
    return status != CRMM_SUCCESS ? status
                                  : crmm_priv_vmm_export_range(who, pool->upstream, base, bytes,
                                                               ptr, handle_type, out);
}
