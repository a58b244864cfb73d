/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_device.h>

#include <cudart_emulated.h>
#include <stdio.h>

#include <crmm/device/size_from_text.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

__extension__ typedef unsigned __int128 unsigned_128;

static void fail(const char *call, cudaError_t error)
{
    cudart_emulated_clear_faults();
    cudart_emulated_fail(call, 1, 0, error);
}

Test(emulation_cuda_device, every_failing_call_is_an_error)
{
    int number = 77;
    size_t bytes = 77;
    size_t total = 77;
    crmm_cuda_set_device scope = {.previous = 77};

    cudart_emulated_set_devices(2);
    fail("cudaGetDevice", cudaErrorUnknown);
    expect_failure(crmm_get_current_cuda_device(&number), CRMM_ERROR_CUDA,
                   "cudaGetDevice failed: cudaErrorUnknown");
    expect_equal(crmm_last_error()->native_code, cudaErrorUnknown);
    expect_failure(crmm_cuda_set_device_init(&scope, 1), CRMM_ERROR_CUDA, "cudaErrorUnknown");
    fail("cudaGetDeviceCount", cudaErrorNoDevice);
    expect_failure(crmm_get_num_cuda_devices(&number), CRMM_ERROR_CUDA,
                   "cudaGetDeviceCount failed: cudaErrorNoDevice");
    expect_status(crmm_cuda_set_device_init(&scope, 1), CRMM_ERROR_CUDA);
    fail("cudaSetDevice", cudaErrorUnknown);
    expect_failure(crmm_cuda_set_device_init(&scope, 1), CRMM_ERROR_CUDA, "cudaSetDevice failed");
    fail("cudaMemGetInfo", cudaErrorUnknown);
    expect_failure(crmm_available_device_memory(&bytes, &total), CRMM_ERROR_CUDA,
                   "cudaMemGetInfo failed");
    expect_status(crmm_percent_of_free_device_memory(5, &bytes), CRMM_ERROR_CUDA);
    expect_equal(number, 77);
    expect_equal(bytes, 77);
    expect_equal(total, 77);
    expect_equal(scope.previous, 77);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* Nobody else uses an emulated device, so the share can be told to the byte. */
Test(emulation_cuda_device, percent_is_exact)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    size_t bytes = 0;

    cudart_emulated_set_memory(0, (size_t)0x7FFFFFFF << 20);
    cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
    cr_assert(free_bytes > (size_t)0x7FFFFF00 << 20);
    for (int percent = 0; percent <= 100; percent++) {
        size_t share = (size_t)((unsigned_128)free_bytes * (unsigned)percent / 100);
        expect_success(crmm_percent_of_free_device_memory(percent, &bytes));
        expect_equal(bytes, share / 256 * 256);
    }
}

Test(emulation_cuda_device, a_device_that_cannot_be_restored_is_reported)
{
    crmm_cuda_set_device scope = {0};

    cudart_emulated_set_devices(2);
    expect_success(crmm_cuda_set_device_init(&scope, 1));
    misuse_recorder_start();
    cudart_emulated_fail("cudaSetDevice", 1, 1, cudaErrorDevicesUnavailable);
    expect_misuse(crmm_cuda_set_device_finish(&scope), CRMM_MISUSE_CUDA,
                  "device 0 cannot be made current again: cudaErrorDevicesUnavailable");
    expect_equal(misuse_recorded()->latest.native_code, cudaErrorDevicesUnavailable);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(emulation_cuda_device, a_machine_without_a_driver_is_an_error_everywhere)
{
    int number = 77;

    cudart_emulated_fail(NULL, 1, 0, cudaErrorInsufficientDriver);
    expect_failure(crmm_get_num_cuda_devices(&number), CRMM_ERROR_CUDA,
                   "cudaErrorInsufficientDriver");
    expect_status(crmm_get_current_cuda_device(&number), CRMM_ERROR_CUDA);
    expect_equal(number, 77);
}

/* ---- memory that is the host's ---- */

/* MemAvailable. */
static size_t host_available(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");

    cr_assert(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL &&
           sscanf(line, "MemAvailable: %llu kB", &kib) != 1) {
    }
    (void)fclose(file);
    cr_assert(kib != 0, "/proc/meminfo does not say what is available");
    return (size_t)kib * 1024;
}

/* About: other programs take memory and give it back meanwhile. */
static void expect_about(size_t bytes, size_t expected)
{
    cr_assert(bytes >= expected / 2 && bytes <= expected + expected / 2, "%zu instead of %zu",
              bytes, expected);
}

/* User report 85: on integrated devices nearly nothing seemed to be free, since CUDA takes the
 * pages of files for used ones, and shares of what is free came to nothing. */
Test(emulation_cuda_device, free_memory_of_an_integrated_device_is_the_hosts)
{
    const size_t mib = (size_t)1 << 20;
    size_t free_bytes = 0;
    size_t told = 0;
    size_t bytes = 0;
    void *block = NULL;

    size_t available = host_available();
    size_t total = 2 * available;
    cr_assert(cudart_emulated_set_memory(0, total) == 0);
    cuda(cudaMalloc(&block, total - 64 * mib));
    cuda(cudaMemGetInfo(&free_bytes, &told));
    expect_success(crmm_available_device_memory(&bytes, &told));
    expect_equal(bytes, free_bytes); /* a device with memory of its own */
    expect_equal(told, total);

    cudart_emulated_set_attribute(0, cudaDevAttrIntegrated, 1);
    expect_success(crmm_available_device_memory(&bytes, &told));
    expect_about(bytes, available);
    expect_equal(told, total);
    expect_success(crmm_percent_of_free_device_memory(50, &bytes));
    expect_about(bytes, available / 2);
    expect_success(crmm_size_from_text("25%", &bytes));
    expect_about(bytes, available / 4);

    /* CUDA's figure counts where it is more, and no more than there is. */
    cuda(cudaFree(block));
    cuda(cudaMemGetInfo(&free_bytes, &told));
    expect_success(crmm_available_device_memory(&bytes, &told));
    expect_equal(bytes, free_bytes);
    cudart_emulated_set_memory(0, 64 * mib);
    cuda(cudaMalloc(&block, 32 * mib));
    expect_success(crmm_available_device_memory(&bytes, &told));
    expect_equal(bytes, 64 * mib);
    /* A driver that does not know the attribute. */
    cudart_emulated_fail("cudaDeviceGetAttribute", 1, 0, cudaErrorInvalidValue);
    expect_success(crmm_available_device_memory(&bytes, &told));
    cr_assert(bytes < 32 * mib);
    expect_equal(cudaGetLastError(), cudaSuccess);
    cuda(cudaFree(block));
}
