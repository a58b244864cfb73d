/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_VMM_MEMORY_RESOURCE_H
#define CRMM_DEVICE_VMM_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Options of crmm_vmm_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_vmm_memory_resource_options {
    size_t struct_size;          /**< sizeof the struct */
    size_t handle_size;          /**< bytes of physical memory behind one handle, rounded up to the
                                      device's granularity; 0: each block is one handle */
    uint64_t export_handle_type; /**< how handles can be shared with other processes: 0 not at all,
                                      1 file descriptor, 8 fabric; or'ed together. A pool's are
                                      had by crmm_pool_memory_resource_export() */
    const int *peer_devices;  /**< devices that may use the memory as well; read during the call */
    size_t peer_device_count; /**< their number */
    uint64_t require;         /**< 1: fail where the device has no virtual memory management; 0:
                                   fall back to cudaMalloc, which crmm_resource_describe() says */
} crmm_vmm_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_vmm_memory_resource_options_init(crmm_vmm_memory_resource_options *options);

/**
 * Create a resource that reserves address ranges on the current device and maps physical memory
 * into them (cuMemCreate, cuMemMap): device accessible, stream-ordered, any power-of-two alignment
 * up to 1 GiB. Blocks take whole multiples of the device's granularity (2 MiB on current ones), so
 * it is an upstream for pools, which can grow a block in place with it, rather than a resource for
 * small blocks.
 *
 * Taking memory away waits for nothing, so crmm_deallocate() waits for the stream that is named. A
 * stream that is being captured cannot be waited for: allocating on it is CRMM_ERROR_UNSUPPORTED,
 * giving back on it misuse that leaves the block alone. Captures of other streams stay valid.
 *
 * @param options NULL for all defaults
 * @param out     [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL; peers without an array; no such peer device; a
 *                                     wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      with `require`: the device has it not; a handle type it
 * cannot export, a peer that cannot reach it; an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory, or `handle_size` is more than can exist
 * @retval CRMM_ERROR_CUDA             another CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_vmm_memory_resource_create(
    const crmm_vmm_memory_resource_options *options, crmm_resource **out);

CRMM_END_DECLS

#endif
