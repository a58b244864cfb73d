/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_HOST_PINNED_HOST_MEMORY_RESOURCE_H
#define CRMM_HOST_PINNED_HOST_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
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

/** As an option: NUMA node `n` of the host, 0 to 1023. (0, as everywhere, is the default.) */
#define CRMM_NUMA_NODE(n) ((size_t)(n) + 1)

/** Options of crmm_pinned_host_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_pinned_host_memory_resource_options {
    size_t struct_size;            /**< sizeof the struct */
    size_t numa_node;              /**< CRMM_NUMA_NODE(n): where pages come from as long as there
                                        are any; 0: the node that is nearest to the device */
    size_t touch_threads;          /**< so many threads, up to 1024, bring the pages of a block that
                                        has some megabytes for each, the calling one among them;
                                        0: CUDA does, one after the other */
    uint64_t write_combined;       /**< 1: memory that the host writes faster across the bus, and
                                        reads very slowly; the driver chooses where it lies */
    uint64_t fallback_to_pageable; /**< 1: where CUDA refuses to lock pages, hand out memory that is
                                        not locked in place of an error */
} crmm_pinned_host_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_pinned_host_memory_resource_options_init(
    crmm_pinned_host_memory_resource_options *options);

/**
 * Create a resource of page-locked memory with a choice of where it lies, for the device current
 * now: an upstream for large blocks, which take whole pages. Otherwise it is as the shared object,
 * but a block goes back to the resource that it came from.
 *
 * Pages are mapped, placed, touched and then locked (cudaHostRegister). Where no node is known and
 * no threads are asked for, with `write_combined`, and where the device cannot use such memory at
 * the host's addresses, cudaHostAlloc gives the memory, and the driver places it. A system that
 * does not place pages, as in many containers, is no error: crmm_resource_describe() says so.
 *
 * With `fallback_to_pageable` blocks may be pageable: copies are slower then, and wait for the
 * host. So the resource promises device access only if the device reaches pageable memory. How
 * often that was needed is told by crmm_resource_describe() and by
 * crmm_pinned_host_memory_resource_fallback_count().
 *
 * @param options NULL for all defaults
 * @param out     [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL; no such node can exist; more than 1024
 * threads; a flag that is neither 0 nor 1; a node or threads with `write_combined`; a wrong
 * struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the resource
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pinned_host_memory_resource_create(
    const crmm_pinned_host_memory_resource_options *options, crmm_resource **out);

/**
 * How many allocations so far have got pageable memory, which `fallback_to_pageable` allows.
 *
 * @param resource a resource of crmm_pinned_host_memory_resource_create(); another one is reported
 * as CRMM_MISUSE_WRONG_CLASS
 * @return the number; 0 for another resource
 *
 * Thread-safety: safe.
 */
CRMM_API size_t crmm_pinned_host_memory_resource_fallback_count(const crmm_resource *resource);

CRMM_END_DECLS

#endif
