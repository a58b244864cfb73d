/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_PER_DEVICE_RESOURCE_H
#define CRMM_DEVICE_SRC_PER_DEVICE_RESOURCE_H

#include <crmm/core/resource.h>

/* The initial entry of a device, whatever is set: its own cuda resource, immortal. */
crmm_status crmm_priv_initial_device_resource(int device, crmm_resource **mr);

#endif
