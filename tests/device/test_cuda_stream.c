/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_stream.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(cuda_stream, init_makes_a_stream_with_its_flags)
{
    static const unsigned int cuda_flags[] = {cudaStreamDefault, cudaStreamNonBlocking};

    need_devices(1);
    for (uint64_t flags = 0; flags < 2; flags++) {
        crmm_cuda_stream stream;
        unsigned int found = 99;
        expect_success(crmm_cuda_stream_init(&stream, flags));
        cr_assert(crmm_cuda_stream_is_valid(&stream));
        cudaStream_t value = crmm_cuda_stream_value(&stream);
        cr_assert(value != NULL && !crmm_stream_is_default(value));
        cuda(cudaStreamGetFlags(value, &found));
        expect_equal(found, cuda_flags[flags]);
        crmm_cuda_stream_finish(&stream);
        cr_assert(!crmm_cuda_stream_is_valid(&stream));
        crmm_cuda_stream_finish(&stream);
    }
    crmm_cuda_stream_finish(NULL);
}

Test(cuda_stream, synchronize_waits)
{
    gate held;
    crmm_cuda_stream stream;

    need_devices(1);
    expect_success(crmm_cuda_stream_init(&stream, CRMM_CUDA_STREAM_NON_BLOCKING));
    gate_close(&held, crmm_cuda_stream_value(&stream));
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_cuda_stream_synchronize(&stream));
    cr_assert(gate_is_open(&held));
    cr_assert(pthread_join(opener, NULL) == 0);
    gate_close(&held, crmm_cuda_stream_value(&stream));
    opener = gate_open_later(&held);
    expect_success(crmm_stream_synchronize(stream.stream));
    cr_assert(gate_is_open(&held));
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_cuda_stream_finish(&stream);
}

Test(cuda_stream, finish_lets_queued_work_end)
{
    crmm_cuda_stream stream;
    void *ptr = NULL;

    need_devices(1);
    cuda(cudaMalloc(&ptr, 4096));
    expect_success(crmm_cuda_stream_init(&stream, CRMM_CUDA_STREAM_NON_BLOCKING));
    cuda(cudaMemsetAsync(ptr, 6, 4096, crmm_cuda_stream_value(&stream)));
    crmm_cuda_stream_finish(&stream);
    cuda(cudaDeviceSynchronize());
    cr_assert(device_has(ptr, 6, 4096));
    cuda(cudaFree(ptr));
}

Test(cuda_stream, move_leaves_an_empty_one)
{
    crmm_cuda_stream a;
    crmm_cuda_stream b = {0};

    need_devices(1);
    expect_success(crmm_cuda_stream_init(&a, 0));
    crmm_stream value = crmm_cuda_stream_value(&a);
    crmm_cuda_stream_move(&b, &a);
    cr_assert(!crmm_cuda_stream_is_valid(&a));
    cr_assert(crmm_cuda_stream_value(&b) == value);
    crmm_cuda_stream_move(&b, &b);
    cr_assert(crmm_cuda_stream_value(&b) == value);
    crmm_cuda_stream_move(&b, &a);
    cr_assert(!crmm_cuda_stream_is_valid(&b));
}

Test(cuda_stream, an_empty_one_is_not_the_default_stream)
{
    crmm_cuda_stream empty = {0};

    misuse_recorder_start();
    cr_assert(!crmm_cuda_stream_is_valid(&empty));
    cr_assert(!crmm_cuda_stream_is_valid(NULL));
    expect_misuse((void)crmm_cuda_stream_value(&empty), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_cuda_stream_value: the stream is empty");
    expect_misuse((void)crmm_cuda_stream_value(NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "stream is NULL");
    expect_failure(crmm_cuda_stream_synchronize(&empty), CRMM_ERROR_INVALID_ARGUMENT,
                   "stream is empty");
    expect_failure(crmm_cuda_stream_synchronize(NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "stream is NULL");
    expect_misuse(crmm_cuda_stream_move(NULL, &empty), CRMM_MISUSE_INVALID_ARGUMENT,
                  "destination is NULL");
    expect_misuse(crmm_cuda_stream_move(&empty, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "source is NULL");
}

Test(cuda_stream, init_refuses_bad_arguments)
{
    crmm_cuda_stream stream = {CRMM_STREAM_PER_THREAD};

    expect_failure(crmm_cuda_stream_init(NULL, 0), CRMM_ERROR_INVALID_ARGUMENT, "stream is NULL");
    expect_failure(crmm_cuda_stream_init(&stream, 2), CRMM_ERROR_INVALID_ARGUMENT, "flags is 2");
    cr_assert(stream.stream == CRMM_STREAM_PER_THREAD);
}

Test(cuda_stream, handles_are_told_apart)
{
    cr_assert(crmm_stream_is_default(NULL));
    cr_assert(crmm_stream_is_default(CRMM_STREAM_LEGACY));
    cr_assert(!crmm_stream_is_default(CRMM_STREAM_PER_THREAD));
    cr_assert(crmm_stream_is_per_thread_default(CRMM_STREAM_PER_THREAD));
    cr_assert(!crmm_stream_is_per_thread_default(NULL));
}

Test(cuda_stream, waiting_leaves_captures_of_other_streams_valid)
{
    cudaGraph_t graph = NULL;

    need_devices(1);
    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    expect_success(crmm_stream_synchronize(other));
    cuda(cudaStreamEndCapture(captured, &graph));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
}

Test(cuda_stream, synchronizing_a_captured_stream_is_unsupported)
{
    cudaGraph_t graph = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    expect_failure(crmm_stream_synchronize(stream), CRMM_ERROR_UNSUPPORTED,
                   "is being captured, which forbids waiting for it");
    expect_equal(cudaGetLastError(), cudaSuccess);
    cuda(cudaStreamEndCapture(stream, &graph)); /* it has stayed valid */
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(stream));
}
