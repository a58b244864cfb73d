/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/per_device_resource.h>

#include <crmm/device/cuda_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "mock_resource.h"

Test(two_devices_per_device_resource, entries_are_independent)
{
    crmm_resource *entries[2] = {NULL};
    crmm_resource *got = NULL;
    mock_resource mock;

    need_devices(2);
    for (int device = 0; device < 2; device++) {
        expect_success(crmm_get_per_device_resource(device, &entries[device]));
        expect_equal(crmm_resource_device(entries[device]), device);
    }
    cr_assert(entries[0] != entries[1]);
    cr_assert(crmm_resource_is_equal(entries[0], entries[1]));

    mock_resource_init(&mock, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    cuda(cudaSetDevice(1));
    expect_success(crmm_set_current_device_resource(&mock.base, NULL));
    expect_success(crmm_get_per_device_resource(0, &got));
    cr_assert(got == entries[0]);
    expect_success(crmm_get_per_device_resource(1, &got));
    cr_assert(got == &mock.base);
    cuda(cudaSetDevice(0));
    expect_success(crmm_get_current_device_resource(&got));
    cr_assert(got == entries[0]);
}

Test(two_devices_per_device_resource, an_initial_entry_does_not_fit_another_device)
{
    crmm_resource *of_device_1 = NULL;

    need_devices(2);
    expect_success(crmm_get_per_device_resource(1, &of_device_1));
    expect_failure(crmm_set_per_device_resource(0, of_device_1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "belongs to device 1, not 0");
    expect_success(crmm_set_per_device_resource(1, of_device_1, NULL));
    expect_success(crmm_set_per_device_resource(0, crmm_cuda_memory_resource(), NULL));
}
