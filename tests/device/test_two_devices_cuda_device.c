/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_device.h>

#include "cuda_support.h"
#include "expect.h"

static int current_device(void)
{
    int device = -1;
    cuda(cudaGetDevice(&device));
    return device;
}

Test(two_devices_cuda_device, scopes_nest)
{
    crmm_cuda_set_device outer = {0};
    crmm_cuda_set_device inner = {0};

    need_devices(2);
    expect_success(crmm_cuda_set_device_init(&outer, 1));
    cr_assert(outer.switched);
    expect_equal(outer.previous, 0);
    expect_equal(current_device(), 1);
    expect_success(crmm_cuda_set_device_init(&inner, 0));
    expect_equal(current_device(), 0);
    crmm_cuda_set_device_finish(&inner);
    expect_equal(current_device(), 1);
    crmm_cuda_set_device_finish(&outer);
    expect_equal(current_device(), 0);
    cuda(cudaSetDevice(1));
    crmm_cuda_set_device_finish(&outer); /* empty now */
    expect_equal(current_device(), 1);
}
