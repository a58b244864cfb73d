/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: the functions behind the driver's names. */
#ifndef EMULATED_VMM_H
#define EMULATED_VMM_H

#include "emulated.h"

#define VMM_FUNCTION(name) __typeof__(name) vmm_##name

VMM_FUNCTION(cuMemGetAllocationGranularity);
VMM_FUNCTION(cuMemAddressReserve);
VMM_FUNCTION(cuMemAddressFree);
VMM_FUNCTION(cuMemCreate);
VMM_FUNCTION(cuMemRelease);
VMM_FUNCTION(cuMemMap);
VMM_FUNCTION(cuMemUnmap);
VMM_FUNCTION(cuMemSetAccess);
VMM_FUNCTION(cuMemGetAccess);
VMM_FUNCTION(cuMemRetainAllocationHandle);
VMM_FUNCTION(cuMemGetAllocationPropertiesFromHandle);
VMM_FUNCTION(cuMemExportToShareableHandle);
VMM_FUNCTION(cuMemImportFromShareableHandle);

void vmm_reset_device(struct device *device);

#endif
