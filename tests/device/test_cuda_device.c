/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_device.h>

#include "cuda_support.h"
#include "expect.h"

Test(cuda_device, agrees_with_cuda)
{
    int device = -1;
    int count = -1;
    int cuda_count = -2;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    size_t cuda_free = 0;
    size_t cuda_total = 0;

    need_devices(1);
    expect_success(crmm_get_current_cuda_device(&device));
    expect_equal(device, 0);
    cuda(cudaGetDeviceCount(&cuda_count));
    expect_success(crmm_get_num_cuda_devices(&count));
    expect_equal(count, cuda_count);
    cuda(cudaMemGetInfo(&cuda_free, &cuda_total));
    expect_success(crmm_available_device_memory(&free_bytes, &total_bytes));
    expect_equal(total_bytes, cuda_total);
    cr_assert(free_bytes > 0 && free_bytes <= total_bytes);
}

Test(cuda_device, percent_of_free_memory_is_aligned_and_bounded)
{
    size_t none = 1;
    size_t half = 0;
    size_t all = 0;

    need_devices(1);
    claim_free_memory();
    expect_success(crmm_percent_of_free_device_memory(0, &none));
    expect_equal(none, 0);
    expect_success(crmm_percent_of_free_device_memory(50, &half));
    expect_success(crmm_percent_of_free_device_memory(100, &all));
    expect_equal(half % 256, 0);
    expect_equal(all % 256, 0);
    /* Other programs may allocate meanwhile, but not by half. */
    cr_assert(half > all / 4 && half < all / 4 * 3, "%zu of %zu", half, all);
    expect_failure(crmm_percent_of_free_device_memory(-1, &half), CRMM_ERROR_INVALID_ARGUMENT,
                   "percent is -1");
    expect_failure(crmm_percent_of_free_device_memory(101, &half), CRMM_ERROR_INVALID_ARGUMENT,
                   "percent is 101");
}

Test(cuda_device, null_outputs_are_refused)
{
    size_t bytes = 7;
    crmm_cuda_set_device *scope = NULL;

    expect_failure(crmm_get_current_cuda_device(NULL), CRMM_ERROR_INVALID_ARGUMENT, "device");
    expect_failure(crmm_get_num_cuda_devices(NULL), CRMM_ERROR_INVALID_ARGUMENT, "count");
    expect_failure(crmm_available_device_memory(NULL, &bytes), CRMM_ERROR_INVALID_ARGUMENT,
                   "free_bytes");
    expect_failure(crmm_available_device_memory(&bytes, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "total_bytes");
    expect_failure(crmm_percent_of_free_device_memory(1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "bytes");
    expect_failure(crmm_cuda_set_device_init(scope, 0), CRMM_ERROR_INVALID_ARGUMENT, "scope");
    expect_equal(bytes, 7);
}

Test(cuda_device, scope_of_the_current_device_switches_nothing)
{
    crmm_cuda_set_device scope = {.previous = 5, .switched = true};
    int count = 0;

    need_devices(1);
    cuda(cudaGetDeviceCount(&count));
    expect_failure(crmm_cuda_set_device_init(&scope, count), CRMM_ERROR_INVALID_ARGUMENT,
                   "device is");
    expect_equal(scope.previous, 5); /* untouched */
    expect_success(crmm_cuda_set_device_init(&scope, 0));
    cr_assert(!scope.switched);
    crmm_cuda_set_device_finish(&scope);
    expect_success(crmm_cuda_set_device_init(&scope, -1));
    cr_assert(!scope.switched);
    crmm_cuda_set_device_finish(&scope);
    crmm_cuda_set_device_finish(NULL);
}
