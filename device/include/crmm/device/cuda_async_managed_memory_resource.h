/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_ASYNC_MANAGED_MEMORY_RESOURCE_H
#define CRMM_DEVICE_CUDA_ASYNC_MANAGED_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Create a resource over the current device's default pool of managed memory (CUDA 13.0): host and
 * device accessible, stream-ordered, alignment up to CRMM_DEVICE_ALIGNMENT. The pool is the
 * device's: its attributes are never changed, and two such resources of one device are equal.
 *
 * Otherwise as crmm_cuda_async_memory_resource_create() has it.
 *
 * @param out [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL
 * @retval CRMM_ERROR_UNSUPPORTED      the device has no concurrent managed access, or the driver or
 *                                     the toolkit of the build is older than 13.0
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the resource
 * @retval CRMM_ERROR_CUDA             another CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_cuda_async_managed_memory_resource_create(crmm_resource **out);

CRMM_END_DECLS

#endif
