/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/prefetch.h>

#include <cudart_emulated.h>

#include <crmm/device/managed_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

enum { BYTES = 1 << 16 };

static void *make_block(void)
{
    void *ptr = NULL;
    expect_success(crmm_allocate_sync(crmm_managed_memory_resource(), BYTES, 256, &ptr));
    return ptr;
}

static void fail(const char *call, cudaError_t error)
{
    cudart_emulated_clear_faults();
    cudart_emulated_fail(call, 1, 0, error);
}

/* User report 83: WSL, and devices before Pascal. */
Test(emulation_prefetch, does_nothing_without_concurrent_managed_access)
{
    void *ptr = make_block();

    cudart_emulated_set_attribute(0, cudaDevAttrConcurrentManagedAccess, 0);
    expect_success(crmm_prefetch(ptr, BYTES, 0, NULL));
    expect_success(crmm_prefetch(ptr, BYTES, CRMM_HOST_DEVICE_ID, NULL));
    expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 0);
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
}

/* User report 80: an attribute that the driver has not heard of is a capability that is missing. */
Test(emulation_prefetch, an_unknown_attribute_means_not_supported)
{
    static const cudaError_t errors[] = {cudaErrorInvalidValue, cudaErrorNotSupported};
    void *ptr = make_block();

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        fail("cudaDeviceGetAttribute", errors[i]);
        expect_success(crmm_prefetch(ptr, BYTES, 0, NULL));
        expect_equal(cudart_emulated_calls("cudaMemPrefetchAsync"), 0);
        expect_equal(cudaPeekAtLastError(), cudaSuccess);
    }
    cudart_emulated_clear_faults();
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
}

Test(emulation_prefetch, other_failures_are_errors)
{
    static const struct {
        const char *call;
        int device;
    } rows[] = {
        {"cudaDeviceGetAttribute", 0},
        {"cudaGetDevice", CRMM_HOST_DEVICE_ID},
        {"cudaMemPrefetchAsync", 0},
        {"cudaMemPrefetchAsync", CRMM_HOST_DEVICE_ID},
    };
    void *ptr = make_block();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fail(rows[i].call, cudaErrorUnknown);
        expect_failure(crmm_prefetch(ptr, BYTES, rows[i].device, NULL), CRMM_ERROR_CUDA,
                       rows[i].call);
        expect_message("cudaErrorUnknown");
        expect_equal(crmm_last_error()->native_code, cudaErrorUnknown);
        expect_equal(cudaPeekAtLastError(), cudaSuccess);
    }
    cudart_emulated_clear_faults();
    fail("cuStreamIsCapturing", cudaErrorUnknown);
    expect_failure(crmm_prefetch(ptr, BYTES, 0, NULL), CRMM_ERROR_CUDA,
                   "crmm_prefetch: CUDA cannot tell about stream");
    cudart_emulated_clear_faults();
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
}

/* Nothing is waited for. */
Test(emulation_prefetch, is_queued)
{
    void *ptr = make_block();
    cudaStream_t stream = make_stream();

    unsigned long long before = cudart_emulated_pending();
    expect_success(crmm_prefetch(ptr, BYTES, 0, stream));
    expect_equal(cudart_emulated_pending(), before + 1);
    cuda(cudaStreamSynchronize(stream));
    crmm_deallocate_sync(crmm_managed_memory_resource(), ptr, BYTES, 256);
    cuda(cudaStreamDestroy(stream));
    expect_equal(cudart_emulated_violations(), 0);
}
