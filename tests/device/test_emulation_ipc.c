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

Test(emulation_ipc, no_call_is_made)
{
    (void)crmm_resource_is_ipc_capable(NULL);
    expect_equal(cudart_emulated_calls(NULL), 0);
}
