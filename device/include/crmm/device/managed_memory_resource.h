/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_MANAGED_MEMORY_RESOURCE_H
#define CRMM_DEVICE_MANAGED_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * cudaMallocManaged as a memory resource: host and device accessible, stream-ordered, alignment up
 * to CRMM_DEVICE_ALIGNMENT. Memory is attached globally and may exceed the device's.
 *
 * A shared immortal object that belongs to no device, as crmm_cuda_memory_resource() is, with the
 * same rules for devices, streams and captures. On a device without managed memory an allocation
 * is CRMM_ERROR_UNSUPPORTED.
 *
 * @return the resource, never NULL; no CUDA call is made
 *
 * Thread-safety: safe.
 */
CRMM_API crmm_resource *crmm_managed_memory_resource(void);

CRMM_END_DECLS

#endif
