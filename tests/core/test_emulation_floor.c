/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/floor.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

/* A driver that has no such entry point: the runtime is asked instead. */
Test(emulation_floor, works_without_driver_entry_points)
{
    cudaStream_t stream = make_stream();
    cudaGraph_t graph = NULL;
    bool capturing = true;
    uint64_t id = 0;
    unsigned long long cuda_id = 0;

    cudart_emulated_fail("cudaGetDriverEntryPointByVersion", 1, 0, cudaErrorInvalidValue);
    cudart_emulated_fail("cudaGetDriverEntryPoint", 1, 0, cudaErrorInvalidValue);
    cudart_emulated_fail("cuStreamIsCapturing", 1, 0, cudaErrorUnknown);
    cudart_emulated_fail("cuStreamGetId", 1, 0, cudaErrorUnknown);
    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
    cr_assert(!capturing);
    expect_success(crmm_priv_cuda_stream_id(stream, &id));
    cuda(cudaStreamGetId(stream, &cuda_id));
    expect_equal(id, cuda_id);
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
    cr_assert(capturing);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(emulation_floor, hot_questions_make_driver_calls_only)
{
    cudaStream_t stream = make_stream();
    bool capturing = false;
    uint64_t id = 0;

    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0); /* finds the entry points */
    unsigned long long before = cudart_emulated_calls(NULL);
    expect_equal(crmm_priv_cuda_capturing(stream, &capturing), 0);
    expect_success(crmm_priv_cuda_stream_id(stream, &id));
    expect_equal(cudart_emulated_calls(NULL) - before, 2);
    expect_equal(cudart_emulated_calls("cudaStreamIsCapturing"), 0);
    expect_equal(cudart_emulated_calls("cudaStreamGetId"), 0);
}

static char anywhere; /* memory that CUDA does not know */

static crmm_status ask_id(void)
{
    uint64_t id = 77;
    crmm_status status = crmm_priv_cuda_stream_id(NULL, &id);
    expect_equal(id, 77);
    return status;
}

static crmm_status synchronize(void)
{
    return crmm_priv_cuda_stream_synchronize(NULL);
}

static crmm_status order(void)
{
    return crmm_priv_cuda_order_streams(NULL, CRMM_STREAM_PER_THREAD);
}

static crmm_status prefetch(void)
{
    return crmm_priv_cuda_prefetch(&anywhere, 1, 0, NULL);
}

static crmm_status prefer(void)
{
    return crmm_priv_cuda_prefer_location(&anywhere, 1, 0);
}

static const struct {
    const char *call;
    crmm_status (*floor)(void);
} calls[] = {
    {"cuStreamGetId", ask_id},           {"cudaStreamSynchronize", synchronize},
    {"cudaEventCreateWithFlags", order}, {"cudaEventRecord", order},
    {"cudaStreamWaitEvent", order},      {"cudaMemPrefetchAsync", prefetch},
    {"cudaMemAdvise", prefer},
};

/* Each with an ordinary failure, with one that a capture causes, and with a missing capability. */
Test(emulation_floor, failing_calls_have_the_status_of_their_cause)
{
    static const struct {
        cudaError_t error;
        crmm_status status;
    } causes[] = {
        {cudaErrorIllegalAddress, CRMM_ERROR_CUDA},
        {cudaErrorMemoryAllocation, CRMM_ERROR_CUDA}, /* this is no allocation of ours */
        {cudaErrorStreamCaptureUnsupported, CRMM_ERROR_UNSUPPORTED},
        {cudaErrorNotSupported, CRMM_ERROR_UNSUPPORTED},
    };

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (size_t j = 0; j < sizeof(causes) / sizeof(causes[0]); j++) {
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i].call, 1, 0, causes[j].error);
            expect_failure(calls[i].floor(), causes[j].status, calls[i].call);
            expect_message(cudaGetErrorName(causes[j].error));
            expect_equal(crmm_last_error()->native_code, causes[j].error);
            expect_equal(cudaGetLastError(), cudaSuccess);
        }
    }
}

Test(emulation_floor, ordering_streams_leaves_no_event)
{
    cudaStream_t first = make_stream();
    cudaStream_t second = make_stream();

    for (unsigned long long i = 1; i <= 4; i++) {
        cudart_emulated_clear_faults();
        if (i == 2) {
            cudart_emulated_fail("cudaEventRecord", 1, 1, cudaErrorIllegalAddress);
        } else if (i == 3) {
            cudart_emulated_fail("cudaStreamWaitEvent", 1, 1, cudaErrorIllegalAddress);
        }
        expect_equal(crmm_priv_cuda_order_streams(first, second),
                     i == 2 || i == 3 ? CRMM_ERROR_CUDA : CRMM_SUCCESS);
        expect_equal(cudart_emulated_calls("cudaEventCreateWithFlags"), i);
        expect_equal(cudart_emulated_calls("cudaEventDestroy"), i);
    }
}

/* The error of a call that failed is cleared, the program's own is not, and a success after a
 * failure of the program's leaves it. */
Test(emulation_floor, last_error_is_left_as_it_was)
{
    void *ptr = NULL;

    expect_equal(cudaSetDevice(99), cudaErrorInvalidDevice);
    expect_success(crmm_priv_cuda_stream_synchronize(NULL));
    expect_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    expect_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    cudart_emulated_fail("cudaMalloc", 1, 0, cudaErrorMemoryAllocation);
    expect_status(crmm_allocate_sync(crmm_cuda_memory_resource(), 1, 1, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
}
