/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_IPC_H
#define CRMM_DEVICE_IPC_H

#include <stdbool.h>

#include <crmm/core/resource.h>
#include <crmm/device/pool_memory_resource.h>

CRMM_BEGIN_DECLS

/**
 * Whether memory of a resource has a legacy IPC handle: whether cudaIpcGetMemHandle() can export it
 * to another process, as MPI and communication libraries do with device buffers.
 *
 * Only memory of cudaMalloc has one. So the answer is true for crmm_cuda_memory_resource(), for the
 * initial resource of each device, and for every adaptor or suballocator whose memory comes from
 * there in the end, as crmm_resource_upstream() tells. It is false for vmm, cuda_async, managed,
 * host and callback resources, and for NULL. A vmm or cuda_async resource that has fallen back to
 * cudaMalloc stands on a cuda resource, and is true. Of a binning resource every bin must be so,
 * too. What a resource of the program's own does with its upstream's memory it knows itself.
 *
 * The handle is the whole cudaMalloc's, whichever block is asked for. Whether a platform has IPC at
 * all is the device's affair (cudaDevAttrIpcEventSupport) and not asked here; no CUDA call is made.
 *
 * @param resource any resource, or NULL
 *
 * Thread-safety: safe.
 */
CRMM_API bool crmm_resource_is_ipc_capable(const crmm_resource *resource);

/**
 * Create a pool for buffers that go to MPI: as crmm_pool_memory_resource_create() over
 * crmm_cuda_memory_resource(), so that each of its chunks is one cudaMalloc, and every block within
 * can be exported by legacy IPC. (A pool by default is over vmm, and cuda_async is a pool of the
 * driver's: such memory has no legacy handle.)
 *
 * @param options of the pool; NULL for all defaults
 * @param out     [out] the pool, one reference, the caller's; untouched on failure
 *
 * Returns and thread-safety: as crmm_pool_memory_resource_create().
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_mpi_safe_memory_resource_create(
    const crmm_pool_memory_resource_options *options, crmm_resource **out);

CRMM_END_DECLS

#endif
