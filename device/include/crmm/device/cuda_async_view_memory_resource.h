/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_ASYNC_VIEW_MEMORY_RESOURCE_H
#define CRMM_DEVICE_CUDA_ASYNC_VIEW_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Create a resource over a cudaMemPool that somebody else owns: device accessible, stream-ordered,
 * alignment up to CRMM_DEVICE_ALIGNMENT. The pool's attributes are never changed, and it is not
 * destroyed; it must outlive the resource. Two views of one pool are equal.
 *
 * Otherwise as crmm_cuda_async_memory_resource_create() has it. It belongs to the device current
 * now, which must be the pool's.
 *
 * @param pool a cudaMemPool_t
 * @param out  [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `pool` or `out`
 * @retval CRMM_ERROR_UNSUPPORTED      the device has no memory pools
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the resource
 * @retval CRMM_ERROR_CUDA             CUDA cannot say which device is current
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_cuda_async_view_memory_resource_create(crmm_mem_pool pool, crmm_resource **out);

/**
 * The pool that cudaMallocAsync uses on a device unless it is told otherwise, for a view.
 *
 * @param device CUDA device ordinal
 * @param pool   [out] the device's; never destroyed
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL
 * @retval CRMM_ERROR_CUDA             no such device, or it has no memory pools
 * @retval CRMM_ERROR_FORKED           in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_default_mem_pool(int device, crmm_mem_pool *pool);

/**
 * The pool that cudaMallocAsync uses on a device now: the one set by cudaDeviceSetMemPool(), or the
 * default one.
 *
 * @param device CUDA device ordinal
 * @param pool   [out] lent by whoever set it
 *
 * Fails as crmm_get_default_mem_pool() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_current_mem_pool(int device, crmm_mem_pool *pool);

CRMM_END_DECLS

#endif
