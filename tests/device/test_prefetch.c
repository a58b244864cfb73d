/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/prefetch.h>

#include <stdlib.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

enum { BYTES = 1 << 20 };

static bool device_prefetches(void)
{
    int concurrent = 0;
    cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    return concurrent != 0;
}

/* The device that a range was last prefetched to, or cudaInvalidDeviceId. */
static int last_location(const void *ptr, size_t bytes)
{
    int location = 99;
    cuda(cudaMemRangeGetAttribute(&location, sizeof(location),
                                  cudaMemRangeAttributeLastPrefetchLocation, ptr, bytes));
    return location;
}

Test(prefetch, moves_managed_memory)
{
    void *ptr = NULL;

    need_devices(1);
    if (!device_prefetches()) {
        cr_skip_test("needs concurrent managed access");
    }
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    memset(ptr, 5, BYTES);
    expect_equal(last_location(ptr, BYTES), cudaInvalidDeviceId);
    expect_success(crmm_prefetch(ptr, BYTES, 0, stream));
    cuda(cudaStreamSynchronize(stream));
    expect_equal(last_location(ptr, BYTES), 0);
    expect_success(crmm_prefetch(ptr, BYTES, CRMM_HOST_DEVICE_ID, stream));
    cuda(cudaStreamSynchronize(stream));
    expect_equal(last_location(ptr, BYTES), CRMM_HOST_DEVICE_ID);
    cr_assert(device_has(ptr, 5, BYTES));
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
    cuda(cudaStreamDestroy(stream));
}

Test(prefetch, moves_a_part)
{
    char *ptr = NULL;

    need_devices(1);
    if (!device_prefetches()) {
        cr_skip_test("needs concurrent managed access");
    }
    expect_success(
        crmm_allocate_sync(crmm_managed_memory_resource(), 2 * (size_t)BYTES, 256, (void **)&ptr));
    memset(ptr, 5, 2 * (size_t)BYTES);
    expect_success(crmm_prefetch(ptr, BYTES, 0, NULL));
    cuda(cudaDeviceSynchronize());
    expect_equal(last_location(ptr, BYTES), 0);
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, 2 * (size_t)BYTES, 256);
}

/* User report 83: where it does not apply it does nothing, and leaves no error behind. */
Test(prefetch, is_a_hint)
{
    void *ptr = NULL;
    void *pinned = NULL;

    need_devices(1);
    expect_success(crmm_allocate_sync(crmm_cuda_memory_resource(), BYTES, 256, &ptr));
    cuda(cudaMallocHost(&pinned, 4096));
    expect_success(crmm_prefetch(ptr, BYTES, 0, NULL));
    expect_success(crmm_prefetch(ptr, BYTES, CRMM_HOST_DEVICE_ID, NULL));
    expect_success(crmm_prefetch(pinned, 4096, 0, NULL));
    expect_success(crmm_prefetch(ptr, 0, 0, NULL));
    expect_success(crmm_prefetch(NULL, 0, 0, NULL));
    expect_success(crmm_prefetch(ptr, SIZE_MAX, 0, NULL));
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS); /* no record either */
    cuda(cudaFreeHost(pinned));
    crmm_deallocate_sync(crmm_cuda_memory_resource(), ptr, BYTES, 256);
}

Test(prefetch, refuses_bad_arguments)
{
    void *ptr = NULL;

    need_devices(1);
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    expect_failure(crmm_prefetch(NULL, 10, 0, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_prefetch: ptr is NULL, with 10 bytes");
    expect_failure(crmm_prefetch(ptr, BYTES, -2, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_prefetch: there is no device -2");
    expect_failure(crmm_prefetch(ptr, BYTES, 1000, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_prefetch: there is no device 1000");
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
}

Test(prefetch, refuses_a_stream_that_is_captured_and_keeps_the_capture)
{
    cudaGraph_t graph = NULL;
    void *ptr = NULL;

    need_devices(1);
    if (!device_prefetches()) {
        cr_skip_test("needs concurrent managed access");
    }
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_failure(crmm_prefetch(ptr, BYTES, 0, stream), CRMM_ERROR_UNSUPPORTED,
                   "is being captured, which forbids a prefetch");
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
    cuda(cudaStreamDestroy(stream));
}
