/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources that pass every request on to CUDA: what holds for cuda holds for managed and
 * pinned memory, so each case runs over all three.
 */
#include <crmm/device/cuda_memory_resource.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static const struct {
    crmm_resource *(*get)(void);
    const char *name;
    const char *call;
    crmm_properties properties;
} resources[] = {
    {crmm_cuda_memory_resource, "cuda_memory_resource", "cudaMalloc",
     CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
    {crmm_managed_memory_resource, "managed_memory_resource", "cudaMallocManaged",
     CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
    {crmm_pinned_host_memory_resource, "pinned_host_memory_resource", "cudaHostAlloc",
     CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
};

enum { RESOURCES = sizeof(resources) / sizeof(resources[0]) };

Test(cuda_memory_resource, are_immortal_objects)
{
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        crmm_resource *again = mr;
        cr_assert(mr == resources[i].get());
        expect_text(crmm_resource_name(mr), resources[i].name);
        expect_equal(crmm_resource_properties(mr), resources[i].properties);
        expect_equal(crmm_resource_device(mr), -1);
        cr_assert(crmm_resource_upstream(mr) == NULL);
        crmm_resource_release(&again);
        again = mr;
        crmm_resource_release(&again);
        cr_assert(crmm_resource_retain(mr) == mr);
        cr_assert(crmm_resource_is_equal(mr, mr));
    }
    cr_assert(!crmm_resource_is_equal(crmm_cuda_memory_resource(), crmm_managed_memory_resource()));
}

Test(cuda_memory_resource, serve_every_size_and_alignment)
{
    static const size_t sizes[] = {1, 255, 256, 257, (2 << 20) + 1};

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            for (size_t alignment = 1; alignment <= CRMM_DEVICE_ALIGNMENT; alignment *= 4) {
                void *a = NULL;
                void *b = NULL;
                expect_success(crmm_allocate(mr, stream, sizes[j], alignment, &a));
                expect_success(crmm_allocate_sync(mr, sizes[j], alignment, &b));
                cr_assert(a != b);
                cr_assert(crmm_is_pointer_aligned(a, CRMM_DEVICE_ALIGNMENT));
                cr_assert(crmm_is_pointer_aligned(b, CRMM_DEVICE_ALIGNMENT));
                device_fill(a, 0x5A, sizes[j]);
                device_fill(b, 0xA5, sizes[j]);
                cr_assert(device_has(a, 0x5A, sizes[j]));
                crmm_deallocate(mr, stream, a, sizes[j], alignment);
                crmm_deallocate_sync(mr, b, sizes[j], alignment);
            }
        }
        crmm_memory_info info = {.struct_size = sizeof(info)};
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
        expect_equal(info.peak_live, 2 * ((2 << 20) + 1));
    }
    cuda(cudaStreamDestroy(stream));
}

Test(cuda_memory_resource, refuse_alignments_they_do_not_give)
{
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        void *ptr = &mr;
        expect_failure(crmm_allocate_sync(mr, 64, 512, &ptr), CRMM_ERROR_UNSUPPORTED,
                       "alignment 512 is more than the 256 it gives");
        expect_message(resources[i].name);
        expect_status(crmm_allocate_sync(mr, 64, (size_t)1 << 63, &ptr), CRMM_ERROR_UNSUPPORTED);
        expect_failure(crmm_allocate_sync(mr, 64, 0, &ptr), CRMM_ERROR_INVALID_ARGUMENT,
                       "alignment 0");
        expect_failure(crmm_allocate(mr, NULL, 0, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT,
                       "alignment 3");
        cr_assert(ptr == &mr);
    }
}

Test(cuda_memory_resource, tell_when_memory_is_exhausted_and_leave_no_error_behind)
{
    need_devices(1);
    /* Not for managed memory: more of it than the machine has is no error in CUDA's eyes. */
    crmm_resource *mr = crmm_cuda_memory_resource();
    void *ptr = &mr;
    size_t bytes = (size_t)1 << 50;

    expect_failure(crmm_allocate(mr, NULL, bytes, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "cuda_memory_resource: cudaMalloc of 1125899906842624 bytes failed: "
                   "cudaErrorMemoryAllocation");
    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
    expect_equal(crmm_last_error()->requested_bytes, bytes);
    expect_status(crmm_allocate_sync(mr, bytes, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate_sync(mr, (size_t)PTRDIFF_MAX + 1, 256, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(ptr == &mr);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(cuda_memory_resource, leave_a_foreign_error_pending)
{
    need_devices(1);
    expect_equal(cudaSetDevice(9999), cudaErrorInvalidDevice);
    for (int i = 0; i < RESOURCES; i++) {
        void *ptr = NULL;
        expect_success(crmm_allocate(resources[i].get(), NULL, 100, 256, &ptr));
        crmm_deallocate(resources[i].get(), NULL, ptr, 100, 256);
    }
    expect_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    /* The runtime keeps only the newest error, but the program still learns of one. */
    void *ptr = NULL;
    expect_status(crmm_allocate_sync(crmm_cuda_memory_resource(), (size_t)1 << 50, 256, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(cudaGetLastError() != cudaSuccess);
}

/* User report 45: an error of a deallocation ended the process. */
Test(cuda_memory_resource, report_frees_that_cuda_refuses)
{
    int local = 0;

    /* Validation would not let it get as far as CUDA. */
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        crmm_memory_info info = {.struct_size = sizeof(info)};
        uint64_t counted = crmm_misuse_count();
        expect_misuse(crmm_deallocate(mr, NULL, &local, 64, 256), CRMM_MISUSE_CUDA,
                      "cudaErrorInvalidValue");
        expect_equal(crmm_misuse_count(), counted + 1);
        cr_assert(misuse_recorded()->latest.ptr == &local);
        expect_equal(misuse_recorded()->latest.bytes, 64);
        expect_equal(misuse_recorded()->latest.native_code, cudaErrorInvalidValue);
        expect_text(misuse_recorded()->resource_name, resources[i].name);
        expect_misuse(crmm_deallocate_sync(mr, &local, 64, 256), CRMM_MISUSE_CUDA, "cudaFree");
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS); /* a deallocation does not fail */
}

Test(cuda_memory_resource, validation_finds_what_cuda_would_not)
{
    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        void *ptr = NULL;
        expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 1001, 256), CRMM_MISUSE_SIZE_MISMATCH,
                      "allocated with 1000 bytes and given back with 1001");
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 1000, 128), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                      "allocated with alignment 256");
        expect_misuse(crmm_deallocate(mr, NULL, (char *)ptr + 256, 744, 256),
                      CRMM_MISUSE_FOREIGN_POINTER, "was not allocated here");
        device_fill(ptr, 1, 1000); /* it was left alone */
        crmm_deallocate(mr, NULL, ptr, 1000, 256);
        expect_misuse(crmm_deallocate_sync(mr, ptr, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                      "given back twice");
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* Resources that are equal take back each other's memory, with their books and ledgers right. */
Test(cuda_memory_resource, equal_resources_share_their_books)
{
    crmm_resource *bound = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *ptr = NULL;

    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    expect_success(crmm_get_per_device_resource(0, &bound));
    cr_assert(bound != crmm_cuda_memory_resource());
    expect_success(crmm_allocate(bound, NULL, 1000, 256, &ptr));
    expect_success(crmm_resource_info(crmm_cuda_memory_resource(), &info));
    expect_equal(info.live, 1000);
    crmm_deallocate(crmm_cuda_memory_resource(), NULL, ptr, 1000, 256);
    expect_success(crmm_resource_info(bound, &info));
    expect_equal(info.live, 0);
    expect_equal(info.allocations, 0);
    expect_equal(misuse_recorded()->count, 0);
}

Test(cuda_memory_resource, free_waits_for_the_stream)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    for (int i = 0; i < RESOURCES; i++) {
        gate held;
        void *ptr = NULL;
        expect_success(crmm_allocate(resources[i].get(), stream, 4096, 256, &ptr));
        gate_close(&held, stream);
        cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
        pthread_t opener = gate_open_later(&held);
        crmm_deallocate(resources[i].get(), stream, ptr, 4096, 256);
        cr_assert(gate_is_open(&held), "%s: freed under pending work", resources[i].name);
        cr_assert(pthread_join(opener, NULL) == 0);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(cuda_memory_resource, refuse_a_stream_that_is_captured_and_keep_the_capture)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};

    need_devices(1);
    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        for (int mode = 0; mode < 3; mode++) {
            cudaGraph_t graph = NULL;
            void *before = NULL;
            void *ptr = &mr;
            expect_success(crmm_allocate(mr, stream, 4096, 256, &before));
            cuda(cudaStreamBeginCapture(stream, modes[mode]));
            expect_failure(crmm_allocate(mr, stream, 4096, 256, &ptr), CRMM_ERROR_UNSUPPORTED,
                           "is being captured, which forbids allocating 4096 bytes");
            cr_assert(ptr == &mr);
            expect_misuse(crmm_deallocate(mr, stream, before, 4096, 256), CRMM_MISUSE_UNSUPPORTED,
                          "is being captured, which forbids freeing");
            cuda(cudaStreamEndCapture(stream, &graph));
            cuda(cudaGraphDestroy(graph));
            device_fill(before, 1, 4096); /* it was left alone */
            crmm_deallocate(mr, stream, before, 4096, 256);
        }
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
    cuda(cudaStreamDestroy(stream));
}

Test(cuda_memory_resource, refuse_the_legacy_stream_while_a_blocking_stream_is_captured)
{
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    crmm_resource *mr = crmm_cuda_memory_resource();
    void *ptr = &mr;

    need_devices(1);
    cuda(cudaStreamCreate(&stream));
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_status(crmm_allocate(mr, NULL, 4096, 256, &ptr), CRMM_ERROR_UNSUPPORTED);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(stream));
}

/* cudaMalloc and cudaFree would fail while anybody captures in the global mode, and kill the
 * capture; they are made in the thread's relaxed mode. */
Test(cuda_memory_resource, leave_captures_of_other_streams_valid)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};

    need_devices(1);
    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    misuse_recorder_start();
    for (int i = 0; i < RESOURCES; i++) {
        crmm_resource *mr = resources[i].get();
        for (int mode = 0; mode < 3; mode++) {
            cudaGraph_t graph = NULL;
            void *ptr = NULL;
            cuda(cudaStreamBeginCapture(captured, modes[mode]));
            expect_success(crmm_allocate(mr, other, 4096, 256, &ptr));
            crmm_deallocate(mr, other, ptr, 4096, 256);
            expect_success(crmm_allocate_sync(mr, 4096, 256, &ptr));
            crmm_deallocate_sync(mr, ptr, 4096, 256);
            cuda(cudaStreamEndCapture(captured, &graph));
            cuda(cudaGraphDestroy(graph));
        }
    }
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
}

static void *allocate_first_thing(void *stream)
{
    void *ptr = NULL;
    crmm_resource *mr = crmm_cuda_memory_resource();

    if (crmm_allocate(mr, stream, 256, 256, &ptr) == CRMM_SUCCESS) {
        crmm_deallocate(mr, stream, ptr, 256, 256);
    }
    return ptr;
}

Test(cuda_memory_resource, serve_a_thread_that_has_not_used_cuda)
{
    pthread_t thread;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t streams[] = {make_stream(), NULL, cudaStreamPerThread};
    for (int i = 0; i < 3; i++) {
        cr_assert(pthread_create(&thread, NULL, allocate_first_thing, streams[i]) == 0);
        cr_assert(pthread_join(thread, &ptr) == 0);
        cr_assert(ptr != NULL);
    }
    cuda(cudaStreamDestroy(streams[0]));
}
