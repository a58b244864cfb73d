/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SYSTEM_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SYSTEM_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * The C heap as device memory, where the device can reach pageable memory (HMM, or ATS as on Grace
 * Hopper): host and device accessible, stream-ordered, any power-of-two alignment.
 *
 * A shared immortal object that belongs to no device: retaining and releasing it does nothing. The
 * heap knows nothing of streams, so crmm_deallocate() waits for the stream that is named, and then
 * frees. A stream that is being captured cannot be waited for: allocating on it is
 * CRMM_ERROR_UNSUPPORTED, giving back on it misuse that leaves the block alone. Where the current
 * device cannot reach pageable memory an allocation is CRMM_ERROR_UNSUPPORTED.
 *
 * @return the resource, never NULL; no CUDA call is made
 *
 * Thread-safety: safe.
 */
CRMM_API crmm_resource *crmm_system_memory_resource(void);

CRMM_END_DECLS

#endif
