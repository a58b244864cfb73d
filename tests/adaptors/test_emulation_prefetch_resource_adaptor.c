/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/prefetch_resource_adaptor.h>

#include <cudart_emulated.h>

#include <crmm/device/managed_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

enum { BYTES = 1 << 16 };

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make(crmm_resource *upstream)
{
    crmm_resource *made = NULL;
    expect_success(crmm_prefetch_resource_adaptor_create(upstream, &made));
    return made;
}

/* Each call that the hint makes fails, in every way: the allocation succeeds, nothing is lost, no
 * error is left behind, and the refusals are counted. */
Test(emulation_prefetch_resource_adaptor, a_refused_hint_fails_no_allocation)
{
    static const char *const calls[] = {"cudaGetDevice", "cudaDeviceGetAttribute",
                                        "cudaMemPrefetchAsync", "cuStreamIsCapturing"};
    static const cudaError_t errors[] = {cudaErrorUnknown, cudaErrorMemoryAllocation,
                                         cudaErrorIllegalAddress};
    mock_resource upstream;
    char text[128];
    size_t refused = 0;

    /* The mock's memory is not managed, which CUDA is told not to notice: the fault comes first. */
    mock_resource_init(&upstream, ALL);
    misuse_recorder_start();
    crmm_resource *mr = make(&upstream.base);
    (void)crmm_set_last_error(CRMM_ERROR_IO, 5, "an older failure");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (size_t j = 0; j < sizeof(errors) / sizeof(errors[0]); j++) {
            void *ptr = NULL;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i], 1, 0, errors[j]);
            cr_assert(crmm_allocate(mr, NULL, BYTES, 256, &ptr) == CRMM_SUCCESS);
            crmm_deallocate(mr, NULL, ptr, BYTES, 256);
            cr_assert(crmm_allocate_sync(mr, BYTES, 256, &ptr) == CRMM_SUCCESS);
            crmm_deallocate_sync(mr, ptr, BYTES, 256);
            refused += 2;
            expect_equal(cudaPeekAtLastError(), cudaSuccess);
            expect_text(crmm_last_error()->message, "an older failure");
        }
    }
    cudart_emulated_clear_faults();
    expect_equal(upstream.live, 0);
    expect_equal(misuse_recorded()->count, 0);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_equal(refused, 24);
    expect_text(text, "prefetch_resource_adaptor (refused 24) over mock_resource");
    crmm_resource_release(&mr);
}

Test(emulation_prefetch_resource_adaptor, a_wait_that_fails_fails_no_allocation)
{
    crmm_resource *mr = make(crmm_managed_memory_resource());
    void *ptr = NULL;

    cudart_emulated_fail("cudaStreamSynchronize", 1, 0, cudaErrorUnknown);
    expect_success(crmm_allocate_sync(mr, BYTES, 256, &ptr));
    cudart_emulated_clear_faults();
    crmm_deallocate_sync(mr, ptr, BYTES, 256);
    crmm_resource_release(&mr);
    expect_equal(cudart_emulated_violations(), 0);
}

/* Memory that was synchronously allocated has nothing pending on it; other streams are not waited
 * for. */
Test(emulation_prefetch_resource_adaptor, sync_allocations_wait_for_their_own_prefetch_only)
{
    crmm_resource *mr = make(crmm_managed_memory_resource());
    cudaStream_t other = make_stream();
    void *ptr = NULL;
    gate held;

    gate_close(&held, other);
    unsigned long long before = cudart_emulated_pending();
    expect_success(crmm_allocate_sync(mr, BYTES, 256, &ptr));
    expect_equal(cudart_emulated_pending(), before);
    expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 1);
    gate_open(&held);
    cuda(cudaStreamSynchronize(other));
    crmm_deallocate_sync(mr, ptr, BYTES, 256);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(other));
}

/* An upstream that can allocate on a captured stream, such as one with memory left over. */
Test(emulation_prefetch_resource_adaptor, keeps_a_capture)
{
    mock_resource upstream;
    cudaGraph_t graph = NULL;
    void *ptr = NULL;

    mock_resource_init(&upstream, ALL);
    crmm_resource *mr = make(&upstream.base);
    cudaStream_t stream = make_stream();
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_success(crmm_allocate(mr, stream, BYTES, 256, &ptr));
    crmm_deallocate(mr, stream, ptr, BYTES, 256);
    expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 0);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

/* A resource of another device than the current one prefetches to its own. */
Test(emulation_prefetch_resource_adaptor, prefetches_to_the_device_of_its_upstream)
{
    mock_resource upstream;
    void *ptr = NULL;
    int device = -1;

    cudart_emulated_set_devices(2);
    cudart_emulated_set_attribute(0, cudaDevAttrConcurrentManagedAccess, 0);
    mock_resource_init(&upstream, ALL);
    crmm_resource_bind_device(&upstream.base, 1);
    crmm_resource *mr = make(&upstream.base);
    expect_success(crmm_allocate(mr, NULL, BYTES, 256, &ptr));
    expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 1); /* device 0 would get none */
    crmm_deallocate(mr, NULL, ptr, BYTES, 256);
    expect_success(crmm_allocate_sync(mr, BYTES, 256, &ptr));
    expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 2);
    crmm_deallocate_sync(mr, ptr, BYTES, 256);
    cuda(cudaGetDevice(&device));
    expect_equal(device, 0);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS);
    crmm_resource_release(&mr);
}
