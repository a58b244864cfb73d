/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_stream.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_stream_pool.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(emulation_cuda_stream, failures_are_told)
{
    crmm_cuda_stream stream = {CRMM_STREAM_PER_THREAD};

    cudart_emulated_fail("cudaStreamCreateWithFlags", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_cuda_stream_init(&stream, 0), CRMM_ERROR_CUDA,
                   "cudaStreamCreateWithFlags failed: cudaErrorIllegalAddress");
    cr_assert(stream.stream == CRMM_STREAM_PER_THREAD);
    cudart_emulated_clear_faults();
    expect_success(crmm_cuda_stream_init(&stream, 0));
    cudart_emulated_fail("cudaStreamDestroy", 1, 1, cudaErrorIllegalAddress);
    misuse_recorder_start();
    expect_misuse(crmm_cuda_stream_finish(&stream), CRMM_MISUSE_CUDA,
                  "crmm_cuda_stream_finish: cudaErrorIllegalAddress");
    cr_assert(!crmm_cuda_stream_is_valid(&stream));
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(emulation_cuda_stream, a_pool_that_cannot_be_made_leaves_no_stream)
{
    crmm_cuda_stream_pool pool = {.size = 77};

    for (unsigned long long position = 1; position <= 5; position++) {
        cudart_emulated_clear_faults();
        unsigned long long created = cudart_emulated_calls("cudaStreamCreateWithFlags");
        unsigned long long destroyed = cudart_emulated_calls("cudaStreamDestroy");
        cudart_emulated_fail("cudaStreamCreateWithFlags", position, 1, cudaErrorIllegalAddress);
        expect_status(crmm_cuda_stream_pool_init(&pool, 5, 0), CRMM_ERROR_CUDA);
        expect_equal(pool.size, 77);
        expect_equal(cudart_emulated_calls("cudaStreamCreateWithFlags") - created, position);
        expect_equal(cudart_emulated_calls("cudaStreamDestroy") - destroyed, position - 1);
    }
}
