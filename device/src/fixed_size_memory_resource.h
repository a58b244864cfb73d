/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_FIXED_SIZE_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SRC_FIXED_SIZE_MEMORY_RESOURCE_H

#include <crmm/device/fixed_size_memory_resource.h>

#include "pool/kind.h"

/* What a resource of this class asks of the pool that it is: as many bytes for every block. */
size_t crmm_priv_fixed_size_stride(const crmm_resource *resource);

/* Whether an address lies in its blocks; takes no lock. */
static inline bool crmm_priv_fixed_size_owns(const crmm_resource *resource, const void *ptr)
{
    return crmm_priv_pool_owns((const crmm_priv_pool *)resource, ptr);
}

#endif
