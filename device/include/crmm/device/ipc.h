/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_IPC_H
#define CRMM_DEVICE_IPC_H

#include <stdbool.h>

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Whether memory of a resource has a legacy IPC handle: whether cudaIpcGetMemHandle() can export it
 * to another process, as MPI and communication libraries do with device buffers.
 *
 * Only memory of cudaMalloc has one. So the answer is true for crmm_cuda_memory_resource(), for the
 * initial resource of each device, and for every adaptor or suballocator whose memory comes from
 * there in the end, as crmm_resource_upstream() tells. It is false for vmm, cuda_async, managed,
 * host and callback resources, and for NULL. A vmm or cuda_async resource that has fallen back to
 * cudaMalloc stands on a cuda resource, and is true. What a resource of the program's own does with
 * its upstream's memory it knows itself.
 *
 * A program whose buffers go to MPI takes cuda memory, or a pool with crmm_cuda_memory_resource()
 * passed as its upstream: then each chunk of the pool is one cudaMalloc, and every block within it
 * can be exported.
 *
 * The handle is the whole cudaMalloc's, whichever block is asked for. Whether a platform has IPC at
 * all is the device's affair (cudaDevAttrIpcEventSupport) and not asked here; no CUDA call is made.
 *
 * @param resource any resource, or NULL
 *
 * Thread-safety: safe.
 */
CRMM_API bool crmm_resource_is_ipc_capable(const crmm_resource *resource);

CRMM_END_DECLS

#endif
