/* SPDX-License-Identifier: Apache-2.0 */
/* The floor's calls that no public function makes yet, and its books. */
#include <crmm/internal/floor.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/internal/held.h>

#include "cuda_support.h"
#include "expect.h"

static void *store_id(void *id)
{
    expect_success(crmm_priv_cuda_stream_id(CRMM_STREAM_PER_THREAD, id));
    return NULL;
}

Test(floor, streams_are_told_apart_by_id)
{
    uint64_t null_id = 0;
    uint64_t legacy_id = 0;
    uint64_t first_id = 0;
    uint64_t again_id = 0;
    uint64_t second_id = 0;
    uint64_t here = 0;
    uint64_t there = 0;
    pthread_t thread;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_priv_cuda_stream_id(NULL, &null_id));
    expect_success(crmm_priv_cuda_stream_id(CRMM_STREAM_LEGACY, &legacy_id));
    expect_equal(null_id, legacy_id);
    expect_success(crmm_priv_cuda_stream_id(stream, &first_id));
    expect_success(crmm_priv_cuda_stream_id(stream, &again_id));
    expect_equal(first_id, again_id);
    cr_assert(first_id != null_id);
    cuda(cudaStreamDestroy(stream));
    stream = make_stream(); /* often with the same handle value */
    expect_success(crmm_priv_cuda_stream_id(stream, &second_id));
    cr_assert(second_id != first_id);

    expect_success(crmm_priv_cuda_stream_id(CRMM_STREAM_PER_THREAD, &here));
    cr_assert(pthread_create(&thread, NULL, store_id, &there) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    cr_assert(there != 0 && here != there && here != null_id);
    cuda(cudaStreamDestroy(stream));
}

Test(floor, order_streams_makes_the_later_one_wait)
{
    gate held;

    need_devices(1);
    cudaStream_t earlier = make_stream();
    cudaStream_t later = make_stream();
    gate_close(&held, earlier);
    expect_equal(cudaStreamQuery(later), cudaSuccess);
    expect_success(crmm_priv_cuda_order_streams(earlier, later));
    expect_equal(cudaStreamQuery(later), cudaErrorNotReady);
    gate_open(&held);
    cuda(cudaStreamSynchronize(later));
    cuda(cudaStreamDestroy(earlier));
    cuda(cudaStreamDestroy(later));
}

Test(floor, a_captured_stream_is_ordered_with_no_other)
{
    cudaGraph_t graph = NULL;

    need_devices(1);
    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    expect_failure(crmm_priv_cuda_order_streams(captured, other), CRMM_ERROR_UNSUPPORTED,
                   "only the latter is being captured");
    expect_failure(crmm_priv_cuda_order_streams(other, captured), CRMM_ERROR_UNSUPPORTED,
                   "only the former is being captured");
    enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusActive;
    cuda(cudaStreamIsCapturing(other, &state));
    expect_equal(state, cudaStreamCaptureStatusNone); /* it was not drawn in */
    cuda(cudaStreamEndCapture(captured, &graph));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
}

Test(floor, capture_state_is_told_without_disturbing_the_capture)
{
    cudaGraph_t graph = NULL;
    bool capturing = true;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
    cr_assert(!capturing);
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 3; i++) {
        expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
        cr_assert(capturing);
    }
    cuda(cudaStreamEndCapture(stream, &graph));
    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
    cr_assert(!capturing);
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(stream));
}

Test(floor, managed_memory_moves_and_prefers_where_it_is_told)
{
    enum { BYTES = 1 << 20 };
    void *ptr = NULL;
    int concurrent = 0;

    need_devices(1);
    cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (concurrent == 0) {
        cr_skip_test("needs concurrent managed access");
    }
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    device_fill(ptr, 5, BYTES);
    expect_success(crmm_priv_cuda_prefer_location(ptr, BYTES, 0));
    expect_success(crmm_priv_cuda_prefetch(ptr, BYTES, 0, stream));
    cuda(cudaStreamSynchronize(stream));
    expect_success(crmm_priv_cuda_prefer_location(ptr, BYTES, CRMM_PRIV_HOST_DEVICE));
    expect_success(crmm_priv_cuda_prefetch(ptr, BYTES, CRMM_PRIV_HOST_DEVICE, stream));
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(ptr, 5, BYTES));
    int location = 99;
    cuda(cudaMemRangeGetAttribute(&location, sizeof(location),
                                  cudaMemRangeAttributePreferredLocation, ptr, BYTES));
    expect_equal(location, cudaCpuDeviceId);
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);

    expect_success(crmm_allocate_sync(crmm_cuda_memory_resource(), BYTES, 256, &ptr));
    expect_failure(crmm_priv_cuda_prefetch(ptr, BYTES, 0, stream), CRMM_ERROR_CUDA,
                   "cudaMemPrefetchAsync failed: cudaErrorInvalidValue");
    expect_failure(crmm_priv_cuda_prefer_location(ptr, BYTES, 0), CRMM_ERROR_CUDA,
                   "cudaMemAdvise failed");
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_deallocate_sync(crmm_cuda_memory_resource(), ptr, BYTES, 256);
    cuda(cudaStreamDestroy(stream));
}

Test(floor, counts_what_is_held_only_when_told_to)
{
    crmm_resource *resources[] = {crmm_cuda_memory_resource(), crmm_managed_memory_resource(),
                                  crmm_malloc_memory_resource()};
    void *ptrs[3] = {NULL};

    need_devices(1);
    expect_success(crmm_allocate_sync(resources[0], 1000, 64, &ptrs[0]));
    crmm_deallocate_sync(resources[0], ptrs[0], 1000, 64);
    expect_equal(crmm_priv_held_peak(), 0);

    crmm_priv_held_watch();
    for (size_t i = 0; i < 3; i++) {
        expect_success(crmm_allocate_sync(resources[i], 1000 + i, 64, &ptrs[i]));
    }
    expect_status(crmm_allocate_sync(resources[0], (size_t)1 << 50, 64, &ptrs[0]),
                  CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(crmm_priv_held_now(), 3003);
    for (size_t i = 0; i < 3; i++) {
        crmm_deallocate_sync(resources[i], ptrs[i], 1000 + i, 64);
    }
    expect_equal(crmm_priv_held_now(), 0);
    expect_equal(crmm_priv_held_peak(), 3003);
    crmm_priv_held_reset_peak();
    expect_equal(crmm_priv_held_peak(), 0);
}
