/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_MEMORY_RESOURCE_H
#define CRMM_DEVICE_CUDA_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * cudaMalloc as a memory resource: device accessible, stream-ordered, alignment up to
 * CRMM_DEVICE_ALIGNMENT. The initial resource of every device.
 *
 * A shared immortal object that belongs to no device: retaining and releasing it does nothing. It
 * allocates on the device current at each call; memory may be given back with any device current.
 * Freeing waits for all work of the device that owns the memory, as cudaFree does, and so for the
 * stream that is named; the stream is asked only whether it is being captured, which forbids both
 * (CRMM_ERROR_UNSUPPORTED, and misuse for a free), and leaves the capture valid.
 *
 * @return the resource, never NULL; no CUDA call is made
 *
 * Thread-safety: safe.
 */
CRMM_API crmm_resource *crmm_cuda_memory_resource(void);

CRMM_END_DECLS

#endif
