/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_VMM_MEMORY_RESOURCE_H
#define CRMM_DEVICE_SRC_VMM_MEMORY_RESOURCE_H

/* What suballocators know of a vmm resource beyond its operations. */

#include <stdbool.h>

#include <crmm/device/pool_memory_resource.h>

/* Whether a resource is a vmm one, and not what has taken its place on a device without. */
bool crmm_priv_is_vmm(const crmm_resource *resource);

/* Whether so much memory could be committed; the failure is described. Takes it for a moment. */
crmm_status crmm_priv_vmm_could_commit(const crmm_resource *resource, size_t bytes);

/*
 * Export the handle at an address of a range that was allocated, committed or moved as a whole. All
 * members of `out` but its struct_size are set. Described in the name of `who`.
 *
 * CRMM_ERROR_UNSUPPORTED: the resource's handles cannot be exported so; CRMM_ERROR_CUDA: a CUDA
 * call failed. Then nothing is set.
 */
crmm_status crmm_priv_vmm_export_range(const char *who, const crmm_resource *resource, char *base,
                                       size_t bytes, const void *ptr, uint64_t handle_type,
                                       crmm_pool_export *out);

#endif
