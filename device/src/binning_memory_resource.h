/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_BINNING_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SRC_BINNING_MEMORY_RESOURCE_H

#include <crmm/device/binning_memory_resource.h>

/* Whether something holds for every bin of a resource; true for one of another class. */
bool crmm_priv_binning_all(const crmm_resource *resource, bool (*holds)(const crmm_resource *bin));

#endif
