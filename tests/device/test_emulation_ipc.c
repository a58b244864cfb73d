/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/ipc.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

/* What has fallen back to cudaMalloc has its handles. */
Test(emulation_ipc, a_fallback_is_as_what_it_falls_back_to)
{
    crmm_resource *mr = NULL;

    cudart_emulated_set_attribute(-1, 102, 0); /* virtual memory management */
    cudart_emulated_set_attribute(-1, cudaDevAttrMemoryPoolsSupported, 0);
    expect_success(crmm_vmm_memory_resource_create(NULL, &mr));
    cr_assert(crmm_resource_is_ipc_capable(mr));
    crmm_resource_release(&mr);
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    cr_assert(crmm_resource_is_ipc_capable(mr));
    crmm_resource_release(&mr);
}

/* What a pool for MPI takes, it takes from cudaMalloc, chunk for chunk. */
Test(emulation_ipc, the_preset_takes_its_memory_by_cuda_malloc)
{
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    expect_success(crmm_mpi_safe_memory_resource_create(NULL, &mr));
    expect_success(crmm_allocate_sync(mr, 100 << 20, 256, &ptr));
    cr_assert(cudart_emulated_calls("cudaMalloc") > 0);
    expect_equal(cudart_emulated_calls("cuMemCreate"), 0);
    expect_equal(cudart_emulated_calls("cudaMallocFromPoolAsync"), 0);
    crmm_deallocate_sync(mr, ptr, 100 << 20, 256);
    crmm_resource_release(&mr);
}

Test(emulation_ipc, no_call_is_made)
{
    (void)crmm_resource_is_ipc_capable(NULL);
    expect_equal(cudart_emulated_calls(NULL), 0);
}
