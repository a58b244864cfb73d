/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/per_device_resource.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>

#include "expect.h"

Test(emulation_per_device_resource, fails_where_cuda_cannot_say)
{
    crmm_resource *mr = NULL;

    cudart_emulated_fail("cudaGetDeviceCount", 1, 0, cudaErrorNoDevice);
    expect_failure(crmm_get_per_device_resource(0, &mr), CRMM_ERROR_CUDA,
                   "cudaGetDeviceCount failed: cudaErrorNoDevice");
    expect_status(crmm_set_per_device_resource(0, crmm_cuda_memory_resource(), &mr),
                  CRMM_ERROR_CUDA);
    cudart_emulated_clear_faults();
    cudart_emulated_fail("cudaGetDevice", 1, 0, cudaErrorUnknown);
    expect_failure(crmm_get_current_device_resource(&mr), CRMM_ERROR_CUDA, "cudaGetDevice failed");
    expect_status(crmm_set_current_device_resource(crmm_cuda_memory_resource(), &mr),
                  CRMM_ERROR_CUDA);
    expect_status(crmm_reset_current_device_resource(&mr), CRMM_ERROR_CUDA);
    cr_assert(mr == NULL);
    cudart_emulated_clear_faults();
    expect_success(crmm_get_current_device_resource(&mr)); /* nothing was lost */
    expect_text(crmm_resource_name(mr), "cuda_memory_resource");
}
