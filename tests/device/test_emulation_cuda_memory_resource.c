/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static const struct {
    crmm_resource *(*get)(void);
    const char *call;
    const char *free_call;
} resources[] = {
    {crmm_cuda_memory_resource, "cudaMalloc", "cudaFree"},
    {crmm_managed_memory_resource, "cudaMallocManaged", "cudaFree"},
    {crmm_pinned_host_memory_resource, "cudaHostAlloc", "cudaFreeHost"},
};

enum { RESOURCES = sizeof(resources) / sizeof(resources[0]) };

static const struct {
    cudaError_t error;
    crmm_status status;
} failures[] = {
    {cudaErrorMemoryAllocation, CRMM_ERROR_OUT_OF_MEMORY},
    {cudaErrorNotSupported, CRMM_ERROR_UNSUPPORTED},
    {cudaErrorStreamCaptureUnsupported, CRMM_ERROR_UNSUPPORTED},
    {cudaErrorStreamCaptureImplicit, CRMM_ERROR_UNSUPPORTED},
    {cudaErrorIllegalAddress, CRMM_ERROR_BAD_ALLOC},
    {cudaErrorInvalidValue, CRMM_ERROR_BAD_ALLOC},
    {cudaErrorUnknown, CRMM_ERROR_BAD_ALLOC},
    /* Without a fork it is an ordinary failure. */
    {cudaErrorInitializationError, CRMM_ERROR_BAD_ALLOC},
};

Test(emulation_cuda_memory_resource, failed_allocations_have_the_status_of_their_cause)
{
    for (int i = 0; i < RESOURCES; i++) {
        for (size_t j = 0; j < sizeof(failures) / sizeof(failures[0]); j++) {
            void *ptr = &ptr;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(resources[i].call, 1, 0, failures[j].error);
            expect_failure(crmm_allocate(resources[i].get(), NULL, 100, 256, &ptr),
                           failures[j].status, cudaGetErrorName(failures[j].error));
            expect_equal(crmm_last_error()->native_code, failures[j].error);
            expect_equal(crmm_last_error()->requested_bytes, 100);
            expect_message(resources[i].call);
            cr_assert(ptr == &ptr);
            expect_equal(cudaPeekAtLastError(), cudaSuccess);
        }
    }
}

Test(emulation_cuda_memory_resource, failed_frees_are_reported_and_keep_the_books)
{
    misuse_recorder_start();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        crmm_memory_info info = {.struct_size = sizeof(info)};
        void *ptr = NULL;
        expect_success(crmm_allocate_sync(mr, 100, 256, &ptr));
        cudart_emulated_fail(resources[i].free_call, 1, 0, cudaErrorIllegalAddress);
        expect_misuse(crmm_deallocate_sync(mr, ptr, 100, 256), CRMM_MISUSE_CUDA,
                      "cudaErrorIllegalAddress");
        expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 100);
        cudart_emulated_clear_faults();
        crmm_deallocate_sync(mr, ptr, 100, 256);
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
    }
    expect_equal(misuse_recorded()->count, RESOURCES);
}

Test(emulation_cuda_memory_resource, a_stream_that_cuda_cannot_tell_about_is_an_error)
{
    crmm_resource *mr = crmm_cuda_memory_resource();
    void *ptr = NULL;

    expect_success(crmm_allocate(mr, NULL, 100, 256, &ptr));
    cudart_emulated_fail("cuStreamIsCapturing", 1, 0, cudaErrorIllegalAddress);
    void *other = &ptr;
    expect_failure(crmm_allocate(mr, NULL, 100, 256, &other), CRMM_ERROR_CUDA,
                   "CUDA cannot tell about stream");
    cr_assert(other == &ptr);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 100, 256), CRMM_MISUSE_CUDA,
                  "cudaErrorIllegalAddress");
    cudart_emulated_clear_faults();
    crmm_deallocate(mr, NULL, ptr, 100, 256);
    expect_equal(misuse_recorded()->count, 1);
}

Test(emulation_cuda_memory_resource, getters_and_zero_bytes_make_no_cuda_call)
{
    void *ptr = &ptr;

    for (int i = 0; i < RESOURCES; i++) {
        expect_success(crmm_allocate(resources[i].get(), NULL, 0, 256, &ptr));
        expect_success(crmm_allocate_sync(resources[i].get(), 0, 256, &ptr));
        crmm_deallocate(resources[i].get(), NULL, NULL, 0, 256);
        (void)crmm_resource_describe(resources[i].get(), NULL, 0);
        expect_success(crmm_resource_trim(resources[i].get(), 0, NULL));
        expect_status(crmm_allocate_sync(resources[i].get(), SIZE_MAX, 256, &ptr),
                      CRMM_ERROR_OUT_OF_MEMORY);
        expect_status(crmm_allocate_sync(resources[i].get(), 1, 512, &ptr), CRMM_ERROR_UNSUPPORTED);
    }
    expect_equal(cudart_emulated_calls(NULL), 0);
}

Test(emulation_cuda_memory_resource, without_managed_memory_managed_is_unsupported)
{
    void *ptr = &ptr;

    cudart_emulated_set_attribute(-1, cudaDevAttrManagedMemory, 0);
    expect_status(crmm_allocate_sync(crmm_managed_memory_resource(), 100, 256, &ptr),
                  CRMM_ERROR_UNSUPPORTED);
    cr_assert(ptr == &ptr);
    expect_success(crmm_allocate_sync(crmm_cuda_memory_resource(), 100, 256, &ptr));
    crmm_deallocate_sync(crmm_cuda_memory_resource(), ptr, 100, 256);
}

Test(emulation_cuda_memory_resource, exhausts_the_devices_memory_exactly)
{
    enum { BLOCK = 1 << 20 };
    crmm_resource *mr = crmm_cuda_memory_resource();
    void *blocks[8];
    void *ptr = &ptr;

    cudart_emulated_set_memory(0, (size_t)8 * BLOCK);
    for (int i = 0; i < 8; i++) {
        expect_success(crmm_allocate_sync(mr, BLOCK, 256, &blocks[i]));
    }
    expect_status(crmm_allocate_sync(mr, BLOCK, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < 8; i++) {
        crmm_deallocate_sync(mr, blocks[i], BLOCK, 256);
    }
    struct cudart_emulated_usage usage;
    cudart_emulated_usage(0, &usage);
    expect_equal(usage.allocated, 0);
    expect_equal(usage.peak_allocated, (size_t)8 * BLOCK);
}

/* A bound resource makes its device current for the call; that can fail as well. */
Test(emulation_cuda_memory_resource, a_device_that_cannot_be_made_current_is_an_error)
{
    crmm_resource *mr = NULL;
    void *ptr = &ptr;
    int current = -1;

    cudart_emulated_set_devices(2);
    expect_success(crmm_get_per_device_resource(1, &mr));
    cudart_emulated_fail("cudaSetDevice", 1, 0, cudaErrorDevicesUnavailable);
    expect_failure(crmm_allocate_sync(mr, 100, 256, &ptr), CRMM_ERROR_CUDA, "cudaSetDevice failed");
    cr_assert(ptr == &ptr);
    cudart_emulated_clear_faults();
    cuda(cudaGetDevice(&current));
    expect_equal(current, 0);
    cudart_emulated_fail("cudaMalloc", 1, 0, cudaErrorMemoryAllocation);
    expect_status(crmm_allocate_sync(mr, 100, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    cuda(cudaGetDevice(&current));
    expect_equal(current, 0); /* restored after a failure, too */
}
