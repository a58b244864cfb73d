/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_HOST_PINNED_HOST_MEMORY_RESOURCE_H
#define CRMM_HOST_PINNED_HOST_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Page-locked host memory as a memory resource: host and device accessible, stream-ordered,
 * alignment up to CRMM_DEVICE_ALIGNMENT. Every device may use it.
 *
 * A shared immortal object that belongs to no device: retaining and releasing it does nothing. CUDA
 * does not promise that freeing such memory waits for work that uses it, so crmm_deallocate() waits
 * for the stream that is named, and then frees. A stream that is being captured cannot be waited
 * for: allocating on it is CRMM_ERROR_UNSUPPORTED, giving back on it misuse that leaves the block
 * alone. Captures of other streams stay valid.
 *
 * @return the resource, never NULL; no CUDA call is made
 *
 * Thread-safety: safe.
 */
CRMM_API crmm_resource *crmm_pinned_host_memory_resource(void);

CRMM_END_DECLS

#endif
