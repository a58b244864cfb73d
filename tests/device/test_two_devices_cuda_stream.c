/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, stream pools and prefetches, with another device current than theirs. */
#include <crmm/device/cuda_stream.h>

#include <crmm/device/cuda_stream_pool.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/prefetch.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

enum { BYTES = 1 << 20 };

static void expect_current(int device)
{
    int current = -1;

    cuda(cudaGetDevice(&current));
    expect_equal(current, device);
}

/* An event of a device can be recorded on that device's streams only. */
static void expect_stream_of(crmm_stream stream, int device)
{
    cudaEvent_t event = NULL;
    int current = -1;

    cuda(cudaGetDevice(&current));
    cuda(cudaSetDevice(device));
    cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    cuda(cudaEventRecord(event, stream));
    cuda(cudaEventSynchronize(event));
    cuda(cudaEventDestroy(event));
    cuda(cudaSetDevice(current));
}

Test(two_devices_cuda_stream, are_of_the_device_current_at_their_making)
{
    crmm_cuda_stream one = {0};
    crmm_cuda_stream moved = {0};
    crmm_cuda_stream_pool pool = {0};

    need_devices(2);
    misuse_recorder_start();
    cuda(cudaSetDevice(1));
    expect_success(crmm_cuda_stream_init(&one, CRMM_CUDA_STREAM_NON_BLOCKING));
    expect_success(crmm_cuda_stream_pool_init(&pool, 3, CRMM_CUDA_STREAM_SYNC_DEFAULT));
    cuda(cudaSetDevice(0));
    expect_stream_of(crmm_cuda_stream_value(&one), 1);
    for (size_t i = 0; i < 3; i++) {
        expect_stream_of(crmm_cuda_stream_pool_get_stream(&pool), 1);
    }
    crmm_cuda_stream_move(&moved, &one);
    expect_success(crmm_cuda_stream_synchronize(&moved));
    expect_current(0);
    crmm_cuda_stream_finish(&moved);
    crmm_cuda_stream_pool_finish(&pool);
    expect_current(0);
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_cuda_stream, prefetches_go_to_either_device)
{
    void *ptr = NULL;
    int concurrent[2] = {0};

    need_devices(2);
    for (int device = 0; device < 2; device++) {
        cuda(cudaDeviceGetAttribute(&concurrent[device], cudaDevAttrConcurrentManagedAccess,
                                    device));
    }
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    memset(ptr, 5, BYTES);
    for (int device = 1; device >= 0; device--) {
        int location = 99;
        cuda(cudaSetDevice(1 - device));
        expect_success(crmm_prefetch(ptr, BYTES, device, stream));
        expect_current(1 - device);
        cuda(cudaStreamSynchronize(stream));
        cuda(cudaMemRangeGetAttribute(&location, sizeof(location),
                                      cudaMemRangeAttributeLastPrefetchLocation, ptr, BYTES));
        cr_assert(concurrent[device] == 0 || location == device, "device %d: %d", device, location);
    }
    cuda(cudaSetDevice(0));
    cr_assert(device_has(ptr, 5, BYTES));
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
    cuda(cudaStreamDestroy(stream));
}
