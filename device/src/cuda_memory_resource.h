/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_CUDA_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SRC_CUDA_MEMORY_RESOURCE_H

#include <crmm/internal/leaf.h>

/* Make the immortal cuda resource of one device, in storage that is never given back: the initial
 * entry of the per-device table. It equals the shared one. */
void crmm_priv_cuda_memory_resource_init(crmm_priv_leaf *leaf, int device);

#endif
