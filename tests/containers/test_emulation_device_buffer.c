/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_buffer.h>

#include <cudart_emulated.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"
#include "same_container.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static void fail(const char *call)
{
    cudart_emulated_clear_faults();
    cudart_emulated_fail(call, 1, 0, cudaErrorIllegalAddress);
}

Test(emulation_device_buffer, a_copy_that_cannot_be_queued_loses_nothing)
{
    mock_resource mock;
    crmm_device_buffer buffer = {.size = 77};
    crmm_device_buffer grown;

    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&grown, 100, NULL, &mock.base));
    crmm_device_buffer before = grown;
    fail("cudaMemcpyAsync");
    expect_failure(crmm_device_buffer_init_copy(&buffer, "x", 1, NULL, &mock.base), CRMM_ERROR_CUDA,
                   "cudaMemcpyAsync failed: cudaErrorIllegalAddress");
    expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
    expect_status(crmm_device_buffer_init_clone(&buffer, &grown, NULL, &mock.base),
                  CRMM_ERROR_CUDA);
    expect_equal(buffer.size, 77);
    expect_equal(mock.live, 1);
    expect_status(crmm_device_buffer_resize(&grown, 200, NULL), CRMM_ERROR_CUDA);
    expect_status(crmm_device_buffer_reserve(&grown, 200, NULL), CRMM_ERROR_CUDA);
    cr_assert(same_buffer(&before, &grown));
    expect_equal(mock.live, 1);
    cudart_emulated_clear_faults();
    crmm_device_buffer_finish(&grown);
    expect_equal(mock.live, 0);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(emulation_device_buffer, a_wait_that_fails_loses_nothing)
{
    mock_resource mock;
    crmm_device_buffer buffer = {.size = 77};

    mock_resource_init(&mock, DEVICE_ASYNC);
    fail("cudaStreamSynchronize");
    expect_failure(crmm_device_buffer_init_copy_sync(&buffer, "x", 1, NULL, &mock.base),
                   CRMM_ERROR_CUDA, "cudaStreamSynchronize failed");
    expect_equal(buffer.size, 77);
    expect_equal(mock.live, 0);
}

Test(emulation_device_buffer, streams_that_cannot_be_ordered_change_nothing)
{
    static const char *const calls[] = {"cudaEventCreateWithFlags", "cudaEventRecord",
                                        "cudaStreamWaitEvent"};
    mock_resource mock;
    crmm_device_buffer buffer;
    cudaStream_t stream = make_stream();

    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, &mock.base));
    crmm_device_buffer before = buffer;
    for (int i = 0; i < 3; i++) {
        fail(calls[i]);
        expect_failure(crmm_device_buffer_set_stream(&buffer, stream), CRMM_ERROR_CUDA, calls[i]);
        expect_status(crmm_device_buffer_resize(&buffer, 200, stream), CRMM_ERROR_CUDA);
        expect_status(crmm_device_buffer_reserve(&buffer, 1, stream), CRMM_ERROR_CUDA);
        expect_status(crmm_device_buffer_shrink_to_fit(&buffer, stream), CRMM_ERROR_CUDA);
        cr_assert(same_buffer(&before, &buffer));
    }
    expect_equal(mock.live, 1);
    crmm_device_buffer_finish(&buffer);
}

Test(emulation_device_buffer, a_device_that_cannot_be_asked_or_made_current)
{
    mock_resource mock;
    crmm_device_buffer buffer = {.size = 77};

    cudart_emulated_set_devices(2);
    mock_resource_init(&mock, DEVICE_ASYNC);
    /* The driver's short way comes first; where that fails, the runtime is asked. */
    cudart_emulated_fail("cuCtxGetDevice", 1, 0, cudaErrorUnknown);
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, &mock.base));
    crmm_device_buffer_finish(&buffer);
    buffer.size = 77;
    fail("cudaGetDevice");
    cudart_emulated_fail("cuCtxGetDevice", 1, 0, cudaErrorUnknown);
    expect_failure(crmm_device_buffer_init(&buffer, 100, NULL, &mock.base), CRMM_ERROR_CUDA,
                   "cudaGetDevice failed");
    expect_equal(buffer.size, 77);
    cudart_emulated_clear_faults();
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, &mock.base));
    cuda(cudaSetDevice(1));
    fail("cudaSetDevice");
    expect_failure(crmm_device_buffer_resize(&buffer, 200, NULL), CRMM_ERROR_CUDA,
                   "cudaSetDevice failed");
    void *data = buffer.data;
    misuse_recorder_start();
    expect_misuse(crmm_device_buffer_finish(&buffer), CRMM_MISUSE_CUDA,
                  "(100 bytes) is not given back: device 0 cannot be made current");
    cr_assert(misuse_recorded()->latest.ptr == data);
    expect_equal(mock.live, 1); /* left alone */
    cr_assert(buffer.data == NULL && buffer.resource == NULL);
}

Test(emulation_device_buffer, what_needs_no_memory_makes_no_call_that_could_fail)
{
    crmm_device_buffer buffer = {0};

    crmm_device_buffer_finish(&buffer);
    expect_success(crmm_device_buffer_set_stream(&buffer, CRMM_STREAM_PER_THREAD));
    expect_success(crmm_device_buffer_reserve(&buffer, 0, NULL));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, NULL));
    expect_equal(cudart_emulated_calls(NULL), 0);
}
