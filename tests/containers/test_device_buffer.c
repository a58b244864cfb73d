/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_buffer.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"
#include "same_container.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

enum { SIZE = 10007 };

/* A buffer that no function may write to when it fails. */
static const crmm_device_buffer untouched = {
    (void *)(uintptr_t)1, 2, 3, 4, (crmm_stream)(uintptr_t)5, (crmm_resource *)(uintptr_t)6, 7};

static void expect_untouched(const crmm_device_buffer *buffer)
{
    cr_assert(same_buffer(buffer, &untouched));
}

static void expect_empty(const crmm_device_buffer *buffer)
{
    cr_assert(crmm_device_buffer_data(buffer) == NULL);
    expect_equal(crmm_device_buffer_size(buffer), 0);
    expect_equal(crmm_device_buffer_ssize(buffer), 0);
    expect_equal(crmm_device_buffer_capacity(buffer), 0);
    expect_equal(crmm_device_buffer_alignment(buffer), 256);
    cr_assert(crmm_device_buffer_is_empty(buffer));
    cr_assert(crmm_device_buffer_stream(buffer) == NULL);
    cr_assert(crmm_device_buffer_memory_resource(buffer).resource == NULL);
}

static void expect_holds(const crmm_device_buffer *buffer, size_t size, size_t capacity)
{
    cr_assert((crmm_device_buffer_data(buffer) != NULL) == (capacity != 0));
    expect_equal(crmm_device_buffer_size(buffer), size);
    expect_equal(crmm_device_buffer_ssize(buffer), size);
    expect_equal(crmm_device_buffer_capacity(buffer), capacity);
    expect_equal(crmm_device_buffer_is_empty(buffer), size == 0);
}

/* ---- init ---- */

Test(device_buffer, zeroed_and_finished_buffers_are_empty)
{
    crmm_device_buffer buffer = {0};

    expect_empty(&buffer);
    crmm_device_buffer_finish(&buffer);
    expect_empty(&buffer);
    crmm_device_buffer_finish(&buffer);
    crmm_device_buffer_finish(NULL);
}

Test(device_buffer, init_uses_the_current_resource_or_the_one_given)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_resource *given[] = {NULL, crmm_cuda_memory_resource(), crmm_managed_memory_resource()};
    for (int i = 0; i < 3; i++) {
        crmm_device_buffer buffer = untouched;
        expect_success(crmm_device_buffer_init(&buffer, SIZE, stream, given[i]));
        expect_holds(&buffer, SIZE, SIZE);
        expect_equal(crmm_device_buffer_alignment(&buffer), 256);
        cr_assert(crmm_device_buffer_stream(&buffer) == stream);
        crmm_resource *used = crmm_device_buffer_memory_resource(&buffer).resource;
        cr_assert(given[i] != NULL ? used == given[i]
                                   : crmm_resource_is_equal(used, crmm_cuda_memory_resource()));
        expect_equal(buffer.device, 0);
        device_fill(crmm_device_buffer_data(&buffer), 3, SIZE);
        crmm_device_buffer_finish(&buffer);
        expect_empty(&buffer);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, init_of_0_bytes_allocates_nothing)
{
    mock_resource mock;
    crmm_device_buffer buffer = untouched;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_success(crmm_device_buffer_init(&buffer, 0, NULL, &mock.base));
    expect_holds(&buffer, 0, 0);
    cr_assert(crmm_device_buffer_memory_resource(&buffer).resource == &mock.base);
    crmm_device_buffer_finish(&buffer);
    expect_success(crmm_device_buffer_init_aligned(&buffer, 0, 65536, NULL, &mock.base));
    expect_equal(crmm_device_buffer_alignment(&buffer), 65536);
    crmm_device_buffer_finish(&buffer);
    expect_success(crmm_device_buffer_init_copy(&buffer, NULL, 0, NULL, &mock.base));
    crmm_device_buffer_finish(&buffer);
    expect_equal(mock.allocations + mock.deallocations, 0);
}

Test(device_buffer, init_passes_size_alignment_and_stream_on)
{
    mock_resource mock;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init_aligned(&buffer, SIZE, 4096, stream, &mock.base));
    expect_equal(mock.last_allocate.bytes, SIZE);
    expect_equal(mock.last_allocate.alignment, 4096);
    cr_assert(mock.last_allocate.stream == stream);
    expect_equal(crmm_device_buffer_alignment(&buffer), 4096);
    crmm_device_buffer_finish(&buffer);
    cr_assert(mock.last_deallocate.stream == stream);
    expect_equal(mock.last_deallocate.bytes, SIZE);
    expect_equal(mock.last_deallocate.alignment, 4096);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, init_refuses_bad_arguments_and_touches_nothing)
{
    mock_resource sync_only;
    mock_resource mock;
    crmm_device_buffer buffer = untouched;
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();

    need_devices(1);
    mock_resource_init(&sync_only, CRMM_DEVICE_ACCESSIBLE);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_failure(crmm_device_buffer_init(NULL, 1, NULL, cuda_mr), CRMM_ERROR_INVALID_ARGUMENT,
                   "buffer is NULL");
    expect_failure(crmm_device_buffer_init_copy(NULL, "x", 1, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "buffer is NULL");
    for (size_t size = 0; size < 2; size++) {
        expect_failure(crmm_device_buffer_init_aligned(&buffer, size, 0, NULL, cuda_mr),
                       CRMM_ERROR_INVALID_ARGUMENT, "alignment 0 is not a power of two");
        expect_failure(crmm_device_buffer_init_aligned(&buffer, size, 48, NULL, cuda_mr),
                       CRMM_ERROR_INVALID_ARGUMENT, "alignment 48 is not a power of two");
        expect_status(crmm_device_buffer_init_copy_aligned(&buffer, &mock, size, 48, NULL, cuda_mr),
                      CRMM_ERROR_INVALID_ARGUMENT);
    }
    expect_failure(crmm_device_buffer_init_aligned(&buffer, 1, 512, NULL, cuda_mr),
                   CRMM_ERROR_UNSUPPORTED, "alignment 512 is more than");
    expect_failure(crmm_device_buffer_init_copy(&buffer, NULL, 5, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "source is NULL, with 5 bytes to copy");
    expect_status(crmm_device_buffer_init_copy_sync(&buffer, NULL, 5, NULL, cuda_mr),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_failure(crmm_device_buffer_init_clone(&buffer, NULL, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "other is NULL");
    expect_failure(crmm_device_buffer_init(&buffer, 1, NULL, &sync_only.base), CRMM_ERROR_PROPERTY,
                   "device_buffer: mock_resource is not stream-ordered");
    expect_failure(crmm_device_buffer_init(&buffer, 0, NULL, crmm_malloc_memory_resource()),
                   CRMM_ERROR_PROPERTY, "malloc_memory_resource is not device accessible");
    expect_failure(crmm_device_buffer_init(&buffer, SIZE_MAX, NULL, cuda_mr),
                   CRMM_ERROR_OUT_OF_MEMORY, "more than can exist");
    mock.fail_with = CRMM_ERROR_LIMIT_EXCEEDED;
    expect_status(crmm_device_buffer_init(&buffer, 1, NULL, &mock.base), CRMM_ERROR_LIMIT_EXCEEDED);
    expect_status(crmm_device_buffer_init_copy(&buffer, "x", 1, NULL, &mock.base),
                  CRMM_ERROR_LIMIT_EXCEEDED);
    expect_untouched(&buffer);
}

Test(device_buffer, holds_its_resource)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_device_buffer buffer;
    crmm_device_buffer moved = {0};
    crmm_resource *own = &mock.base;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    mock.destroyed = &destroyed;
    expect_success(crmm_device_buffer_init(&buffer, 64, NULL, &mock.base));
    crmm_resource_release(&own);
    cr_assert(!destroyed);
    crmm_device_buffer_move(&moved, &buffer);
    crmm_device_buffer_finish(&buffer);
    cr_assert(!destroyed);
    crmm_device_buffer_finish(&moved);
    cr_assert(destroyed);
    expect_equal(mock.live, 0);
}

Test(device_buffer, keeps_its_resource_when_the_current_one_changes)
{
    mock_resource mock;
    crmm_device_buffer buffer;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_set_current_device_resource(&mock.base, NULL));
    expect_success(crmm_device_buffer_init(&buffer, 64, NULL, NULL));
    expect_success(crmm_reset_current_device_resource(NULL));
    expect_success(crmm_device_buffer_resize(&buffer, 128, NULL));
    expect_equal(mock.allocations, 2);
    crmm_device_buffer_finish(&buffer);
    expect_equal(mock.live, 0);
}

/* ---- copies ---- */

Test(device_buffer, init_copy_takes_host_and_device_memory)
{
    unsigned char source[SIZE];
    crmm_device_buffer first;
    crmm_device_buffer second;

    need_devices(1);
    cudaStream_t stream = make_stream();
    memset(source, 0x42, sizeof(source));
    expect_success(crmm_device_buffer_init_copy(&first, source, SIZE, stream, NULL));
    cuda(cudaStreamSynchronize(stream));
    expect_holds(&first, SIZE, SIZE);
    cr_assert(device_has(first.data, 0x42, SIZE));
    expect_success(
        crmm_device_buffer_init_copy_aligned(&second, first.data, SIZE, 64, stream, NULL));
    expect_equal(crmm_device_buffer_alignment(&second), 64);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(second.data, 0x42, SIZE));
    crmm_device_buffer_finish(&first);
    crmm_device_buffer_finish(&second);
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, init_copy_only_queues_and_init_copy_sync_waits)
{
    gate held;
    crmm_device_buffer buffer;
    unsigned char *source = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    cuda(cudaMallocHost((void **)&source, SIZE));
    memset(source, 1, SIZE);
    gate_close(&held, stream);
    expect_success(crmm_device_buffer_init_copy(&buffer, source, SIZE, stream, NULL));
    memset(source, 2, SIZE); /* it is read when the stream gets there */
    gate_open(&held);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(buffer.data, 2, SIZE));
    crmm_device_buffer_finish(&buffer);

    gate_close(&held, stream);
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_device_buffer_init_copy_sync(&buffer, source, SIZE, stream, NULL));
    cr_assert(gate_is_open(&held), "init_copy_sync did not wait");
    memset(source, 3, SIZE);
    cr_assert(device_has(buffer.data, 2, SIZE));
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_device_buffer_finish(&buffer);
    cuda(cudaFreeHost(source));
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, init_clone_copies_the_bytes_not_the_capacity_or_the_resource)
{
    crmm_device_buffer other;
    crmm_device_buffer clone;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(
        crmm_device_buffer_init_aligned(&other, SIZE, 128, stream, crmm_managed_memory_resource()));
    device_fill(other.data, 0x17, SIZE);
    expect_success(crmm_device_buffer_resize(&other, 100, stream));
    expect_success(crmm_device_buffer_init_clone(&clone, &other, stream, NULL));
    cuda(cudaStreamSynchronize(stream));
    expect_holds(&clone, 100, 100);
    expect_equal(crmm_device_buffer_alignment(&clone), 128);
    cr_assert(clone.data != other.data);
    cr_assert(device_has(clone.data, 0x17, 100));
    expect_text(crmm_resource_name(clone.resource), "cuda_memory_resource");
    crmm_device_buffer_finish(&clone);

    crmm_device_buffer empty = {0};
    expect_success(crmm_device_buffer_init_clone(&clone, &empty, stream, NULL));
    expect_holds(&clone, 0, 0);
    expect_equal(crmm_device_buffer_alignment(&clone), 256);
    crmm_device_buffer_finish(&clone);
    crmm_device_buffer_finish(&other);
    cuda(cudaStreamDestroy(stream));
}

/* ---- move ---- */

Test(device_buffer, move_frees_the_destination_on_its_own_stream)
{
    mock_resource mock;
    crmm_device_buffer destination;
    crmm_device_buffer source;

    need_devices(1);
    cudaStream_t streams[] = {make_stream(), make_stream()};
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&destination, 64, streams[0], &mock.base));
    expect_success(crmm_device_buffer_init_aligned(&source, 128, 512, streams[1], &mock.base));
    void *old = destination.data;
    void *data = source.data;
    crmm_device_buffer_move(&destination, &source);
    expect_equal(mock.deallocations, 1);
    cr_assert(mock.last_deallocate.ptr == old && mock.last_deallocate.stream == streams[0]);
    cr_assert(destination.data == data && destination.stream == streams[1]);
    expect_holds(&destination, 128, 128);
    expect_equal(crmm_device_buffer_alignment(&destination), 512);
    expect_empty(&source);

    crmm_device_buffer_move(&destination, &destination); /* to itself */
    expect_holds(&destination, 128, 128);
    crmm_device_buffer_move(&destination, &source); /* from an empty one */
    expect_empty(&destination);
    expect_equal(mock.live, 0);
}

Test(device_buffer, a_moved_from_buffer_can_grow_again)
{
    crmm_device_buffer source;
    crmm_device_buffer destination = {0};

    need_devices(1);
    expect_success(crmm_device_buffer_init(&source, 64, NULL, crmm_managed_memory_resource()));
    crmm_device_buffer_move(&destination, &source);
    expect_success(crmm_device_buffer_resize(&source, 256, NULL));
    expect_holds(&source, 256, 256);
    expect_text(crmm_resource_name(source.resource), "cuda_memory_resource");
    crmm_device_buffer_finish(&source);
    crmm_device_buffer_finish(&destination);
}

/* ---- growing and shrinking ---- */

Test(device_buffer, resize_keeps_bytes_and_capacity)
{
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, SIZE, stream, NULL));
    device_fill(buffer.data, 0x33, SIZE);
    void *data = buffer.data;

    expect_success(crmm_device_buffer_resize(&buffer, 100, stream)); /* only the number */
    expect_holds(&buffer, 100, SIZE);
    cr_assert(buffer.data == data);
    expect_success(crmm_device_buffer_resize(&buffer, SIZE, stream));
    cr_assert(buffer.data == data);
    expect_success(crmm_device_buffer_resize(&buffer, 0, stream));
    expect_holds(&buffer, 0, SIZE);
    cr_assert(buffer.data == data);
    expect_success(crmm_device_buffer_resize(&buffer, SIZE, stream));

    expect_success(crmm_device_buffer_resize(&buffer, SIZE + 1, stream)); /* grows exactly */
    expect_holds(&buffer, SIZE + 1, SIZE + 1);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(buffer.data, 0x33, SIZE));
    crmm_device_buffer_finish(&buffer);
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, reserve_changes_the_capacity_only)
{
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, 100, stream, NULL));
    device_fill(buffer.data, 0x44, 100);
    void *data = buffer.data;
    expect_success(crmm_device_buffer_reserve(&buffer, 50, stream));
    expect_holds(&buffer, 100, 100);
    cr_assert(buffer.data == data);
    expect_success(crmm_device_buffer_reserve(&buffer, SIZE, stream));
    expect_holds(&buffer, 100, SIZE);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(buffer.data, 0x44, 100));
    crmm_device_buffer_finish(&buffer);
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, shrink_to_fit_gives_unused_memory_back)
{
    mock_resource mock;
    crmm_device_buffer buffer;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&buffer, SIZE, NULL, &mock.base));
    memset(buffer.data, 0x21, SIZE);
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, NULL)); /* nothing to do */
    expect_equal(mock.allocations, 1);
    expect_success(crmm_device_buffer_resize(&buffer, 100, NULL));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, NULL));
    expect_holds(&buffer, 100, 100);
    expect_equal(mock.last_deallocate.bytes, SIZE);
    cuda(cudaDeviceSynchronize());
    expect_equal(((unsigned char *)buffer.data)[99], 0x21);
    expect_success(crmm_device_buffer_resize(&buffer, 0, NULL));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, NULL));
    expect_holds(&buffer, 0, 0);
    expect_equal(mock.live, 0);
    cr_assert(buffer.resource == &mock.base);
    expect_success(crmm_device_buffer_resize(&buffer, 10, NULL)); /* and grow again */
    expect_holds(&buffer, 10, 10);
    crmm_device_buffer_finish(&buffer);
    expect_equal(mock.live, 0);
}

Test(device_buffer, changes_free_the_old_memory_on_the_new_stream)
{
    mock_resource mock;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t streams[] = {make_stream(), make_stream()};
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&buffer, 64, streams[0], &mock.base));
    expect_success(crmm_device_buffer_resize(&buffer, 128, streams[1]));
    cr_assert(mock.last_allocate.stream == streams[1] && mock.last_allocate.bytes == 128);
    cr_assert(mock.last_deallocate.stream == streams[1] && mock.last_deallocate.bytes == 64);
    expect_success(crmm_device_buffer_reserve(&buffer, 256, streams[0]));
    cr_assert(mock.last_deallocate.stream == streams[0] && mock.last_deallocate.bytes == 128);
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, streams[1]));
    cr_assert(mock.last_deallocate.stream == streams[1] && mock.last_deallocate.bytes == 256);
    expect_success(crmm_device_buffer_resize(&buffer, 0, streams[0]));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, streams[1])); /* nothing is left */
    cr_assert(mock.last_deallocate.stream == streams[1] && mock.last_deallocate.bytes == 128);
    expect_success(crmm_device_buffer_resize(&buffer, 64, streams[0]));
    expect_success(crmm_device_buffer_set_stream(&buffer, streams[1]));
    crmm_device_buffer_finish(&buffer);
    cr_assert(mock.last_deallocate.stream == streams[1] && mock.last_deallocate.bytes == 64);
    expect_equal(mock.live, 0);
    cuda(cudaDeviceSynchronize());
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
}

static void expect_capturing(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    cuda(cudaStreamIsCapturing(stream, &state));
    expect_equal(state, cudaStreamCaptureStatusActive);
}

/* A wait between a capture and work outside it would make that work a part of the graph, or kill
 * the capture. */
Test(device_buffer, a_change_between_a_captured_stream_and_another_is_refused)
{
    crmm_device_buffer buffer;
    cudaGraph_t graph = NULL;

    need_devices(1);
    cudaStream_t plain = make_stream();
    cudaStream_t captured = make_stream();
    for (int from_captured = 0; from_captured < 2; from_captured++) {
        cudaStream_t target = from_captured ? plain : captured;
        cudaStream_t stored = from_captured ? captured : plain;
        expect_success(crmm_device_buffer_init(&buffer, SIZE, stored, NULL));
        expect_success(crmm_device_buffer_resize(&buffer, 100, stored));
        const crmm_device_buffer before = buffer;
        cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
        expect_status(crmm_device_buffer_set_stream(&buffer, target), CRMM_ERROR_UNSUPPORTED);
        expect_capturing(captured);
        expect_status(crmm_device_buffer_resize(&buffer, 2 * SIZE, target), CRMM_ERROR_UNSUPPORTED);
        expect_capturing(captured);
        expect_status(crmm_device_buffer_reserve(&buffer, 2 * SIZE, target),
                      CRMM_ERROR_UNSUPPORTED);
        expect_status(crmm_device_buffer_shrink_to_fit(&buffer, target), CRMM_ERROR_UNSUPPORTED);
        expect_capturing(captured);
        cr_assert(same_buffer(&before, &buffer));
        cuda(cudaStreamEndCapture(captured, &graph));
        cuda(cudaGraphDestroy(graph));
        crmm_device_buffer_finish(&buffer);
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
    cuda(cudaStreamDestroy(plain));
    cuda(cudaStreamDestroy(captured));
}

Test(device_buffer, an_empty_buffer_takes_the_current_resource_when_it_grows)
{
    mock_resource mock;
    crmm_device_buffer buffer = {0};

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_set_current_device_resource(&mock.base, NULL));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, stream));
    expect_success(crmm_device_buffer_reserve(&buffer, 0, stream));
    cr_assert(buffer.resource == NULL && buffer.stream == stream);
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_status(crmm_device_buffer_resize(&buffer, 100, NULL), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(buffer.resource == NULL && buffer.stream == stream && buffer.size == 0);
    mock.fail_with = CRMM_SUCCESS;
    expect_success(crmm_device_buffer_resize(&buffer, 100, stream));
    cr_assert(buffer.resource == &mock.base);
    expect_equal(buffer.alignment, 256);
    crmm_device_buffer_finish(&buffer);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(device_buffer, a_failed_change_changes_nothing)
{
    mock_resource mock;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, &mock.base));
    memset(buffer.data, 0x55, 100);
    expect_success(crmm_device_buffer_resize(&buffer, 50, NULL));
    crmm_device_buffer before = buffer;
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_status(crmm_device_buffer_resize(&buffer, 200, stream), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_device_buffer_reserve(&buffer, 200, stream), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_device_buffer_shrink_to_fit(&buffer, stream), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_device_buffer_resize(&buffer, SIZE_MAX, stream), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(same_buffer(&before, &buffer));
    expect_equal(((unsigned char *)buffer.data)[99], 0x55);
    expect_failure(crmm_device_buffer_resize(NULL, 1, stream), CRMM_ERROR_INVALID_ARGUMENT,
                   "buffer is NULL");
    expect_status(crmm_device_buffer_reserve(NULL, 1, stream), CRMM_ERROR_INVALID_ARGUMENT);
    expect_failure(crmm_device_buffer_shrink_to_fit(NULL, stream), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_buffer_shrink_to_fit: buffer is NULL");
    expect_failure(crmm_device_buffer_set_stream(NULL, stream), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_buffer_set_stream: buffer is NULL");
    crmm_device_buffer_finish(&buffer);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

/* ---- streams ---- */

/* Whether work queued on a stream now has to wait for a closed gate. */
static bool is_held(cudaStream_t stream)
{
    return cudaStreamQuery(stream) == cudaErrorNotReady;
}

static crmm_status change(crmm_device_buffer *buffer, int way, crmm_stream stream)
{
    switch (way) {
    case 0:
        return crmm_device_buffer_set_stream(buffer, stream);
    case 1:
        return crmm_device_buffer_reserve(buffer, 1, stream);
    case 2:
        return crmm_device_buffer_resize(buffer, 50, stream);
    default:
        return crmm_device_buffer_shrink_to_fit(buffer, stream);
    }
}

Test(device_buffer, another_stream_is_ordered_after_the_stored_one)
{
    need_devices(1);
    for (int way = 0; way < 4; way++) {
        gate held;
        crmm_device_buffer buffer;
        cudaStream_t old_stream = make_stream();
        cudaStream_t new_stream = make_stream();
        expect_success(crmm_device_buffer_init(&buffer, 100, old_stream, NULL));
        gate_close(&held, old_stream);
        expect_success(change(&buffer, way, new_stream));
        cr_assert(crmm_device_buffer_stream(&buffer) == new_stream);
        cr_assert(is_held(new_stream), "way %d did not order the streams", way);
        gate_open(&held);
        cuda(cudaStreamSynchronize(new_stream));
        crmm_device_buffer_finish(&buffer);
        cuda(cudaStreamDestroy(old_stream));
        cuda(cudaStreamDestroy(new_stream));
    }
}

Test(device_buffer, growing_on_another_stream_keeps_what_the_old_one_writes)
{
    gate held;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, SIZE, old_stream, NULL));
    device_fill(buffer.data, 0, SIZE);
    gate_close(&held, old_stream);
    cuda(cudaMemsetAsync(buffer.data, 0x66, SIZE, old_stream));
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_device_buffer_resize(&buffer, SIZE + 1, new_stream));
    cuda(cudaStreamSynchronize(new_stream));
    cr_assert(pthread_join(opener, NULL) == 0);
    cr_assert(device_has(buffer.data, 0x66, SIZE));
    crmm_device_buffer_finish(&buffer);
    cuda(cudaStreamDestroy(old_stream));
    cuda(cudaStreamDestroy(new_stream));
}

Test(device_buffer, set_stream_unordered_leaves_the_old_stream_alone)
{
    gate held;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, 100, old_stream, NULL));
    gate_close(&held, old_stream);
    crmm_device_buffer_set_stream_unordered(&buffer, new_stream);
    cr_assert(crmm_device_buffer_stream(&buffer) == new_stream);
    cr_assert(!is_held(new_stream));
    gate_open(&held);
    cuda(cudaStreamSynchronize(old_stream));
    cuda(cudaStreamDestroy(old_stream)); /* the buffer does not name it any more */
    expect_success(crmm_device_buffer_resize(&buffer, SIZE, new_stream));
    crmm_device_buffer_finish(&buffer);
    cuda(cudaStreamDestroy(new_stream));
}

Test(device_buffer, the_two_names_of_the_legacy_stream_are_one)
{
    crmm_device_buffer buffer;

    need_devices(1);
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, NULL));
    expect_success(crmm_device_buffer_set_stream(&buffer, CRMM_STREAM_LEGACY));
    cr_assert(crmm_device_buffer_stream(&buffer) == CRMM_STREAM_LEGACY);
    expect_success(crmm_device_buffer_resize(&buffer, 200, NULL));
    crmm_device_buffer_finish(&buffer);
}

/* ---- misuse ---- */

Test(device_buffer, accessors_and_void_functions_report_null)
{
    crmm_device_buffer buffer = {0};

    misuse_recorder_start();
    expect_misuse(crmm_device_buffer_move(NULL, &buffer), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_move: destination is NULL");
    expect_misuse(crmm_device_buffer_move(&buffer, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_move: source is NULL");
    expect_misuse(crmm_device_buffer_set_stream_unordered(NULL, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_set_stream_unordered");
    expect_misuse(cr_assert(crmm_device_buffer_data(NULL) == NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_data: buffer is NULL");
    expect_misuse(expect_equal(crmm_device_buffer_size(NULL), 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_size");
    expect_misuse(expect_equal(crmm_device_buffer_ssize(NULL), 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_ssize");
    expect_misuse(expect_equal(crmm_device_buffer_capacity(NULL), 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_capacity");
    expect_misuse(expect_equal(crmm_device_buffer_alignment(NULL), 256),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_device_buffer_alignment");
    expect_misuse(cr_assert(crmm_device_buffer_is_empty(NULL)), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_is_empty");
    expect_misuse(cr_assert(crmm_device_buffer_stream(NULL) == NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_buffer_stream");
    expect_misuse(cr_assert(crmm_device_buffer_memory_resource(NULL).resource == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_device_buffer_memory_resource");
}
