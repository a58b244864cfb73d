/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_HOST_MALLOC_MEMORY_RESOURCE_H
#define CRMM_HOST_MALLOC_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * The C heap as a memory resource: host accessible, sync only, any power-of-two alignment.
 *
 * A shared immortal object: retaining and releasing it does nothing. It makes no CUDA call and
 * works in forked children. Beside the rules for all resources:
 *
 * @retval CRMM_ERROR_OUT_OF_MEMORY (of an allocation) the heap has no such block
 *
 * @return the resource, never NULL
 *
 * Thread-safety: safe.
 */
CRMM_API crmm_resource *crmm_malloc_memory_resource(void);

CRMM_END_DECLS

#endif
