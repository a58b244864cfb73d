/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SAM_HEADROOM_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SAM_HEADROOM_MEMORY_RESOURCE_H

#include <stddef.h>

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Create a resource that takes memory from crmm_system_memory_resource() and advises CUDA where its
 * pages should live: as much of each block as fits the device, less a headroom that stays free,
 * prefers the device, and the rest the host. It belongs to the current device. Two of one headroom
 * and device are equal.
 *
 * Asking for the free memory costs a driver call each time, so it is for large blocks.
 *
 * @param headroom bytes of the device to leave free
 * @param out      [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL
 * @retval CRMM_ERROR_UNSUPPORTED      the device cannot reach pageable memory
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the resource
 * @retval CRMM_ERROR_CUDA             CUDA cannot say which device is current
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * An allocation fails as the system resource's does, and with CRMM_ERROR_CUDA where the advice
 * cannot be given.
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_sam_headroom_memory_resource_create(size_t headroom,
                                                                             crmm_resource **out);

CRMM_END_DECLS

#endif
