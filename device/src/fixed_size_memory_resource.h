/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_FIXED_SIZE_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SRC_FIXED_SIZE_MEMORY_RESOURCE_H

#include <stdbool.h>

#include <crmm/device/fixed_size_memory_resource.h>

/* Whether a resource is of this class. */
bool crmm_priv_fixed_size_is(const crmm_resource *resource);

/* Whether an address lies in the blocks of a resource of this class; takes no lock. */
bool crmm_priv_fixed_size_owns(const crmm_resource *resource, const void *ptr);

#endif
