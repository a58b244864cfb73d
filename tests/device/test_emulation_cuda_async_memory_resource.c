/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_async_memory_resource.h>

#include <stdio.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_async_managed_memory_resource.h>
#include <crmm/device/cuda_async_view_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

/* User report 79: pools were refused on a device without them although the toolkit had them. */
Test(emulation_cuda_async_memory_resource, without_pools_falls_back_or_fails_as_told)
{
    crmm_resource *mr = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    char text[160];
    void *ptr = NULL;
    size_t released = 9;

    cudart_emulated_set_attribute(-1, cudaDevAttrMemoryPoolsSupported, 0);
    expect_failure(crmm_cuda_async_memory_resource_create(
                       CRMM_OPTIONS(crmm_cuda_async_memory_resource, .require = 1), &mr),
                   CRMM_ERROR_UNSUPPORTED, "device 0 has no memory pools");
    cr_assert(mr == NULL);
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "cuda_async_memory_resource (device 0 has no memory pools) over "
                      "cuda_memory_resource");
    cr_assert(crmm_cuda_async_memory_resource_pool_handle(mr) == NULL);
    cr_assert(crmm_resource_is_adaptor(mr));
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 1000);
    device_fill(ptr, 1, 1000);
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
    crmm_deallocate_sync(mr, ptr, 1000, 256);
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_equal(released, 0);
    crmm_resource_release(&mr);
    expect_equal(cudart_emulated_calls("cudaMemPoolCreate"), 0);
    crmm_mem_pool some = (crmm_mem_pool)(uintptr_t)64;
    expect_status(crmm_cuda_async_view_memory_resource_create(some, &mr), CRMM_ERROR_UNSUPPORTED);
}

/* User report 81: drivers before 11.5 ordered frees of their pools wrongly. The runtimes that this
 * library is for (12.0 on) work with none of these, so there is no list of drivers, and nothing to
 * override: creation fails with the runtime's reason, by its fallback too. */
Test(emulation_cuda_async_memory_resource, a_driver_that_misorders_frees_is_refused_by_the_runtime)
{
    static const int drivers[] = {11040, 11050, 11080};

    for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {
        crmm_resource *mr = NULL;
        cudart_emulated_set_driver_version(drivers[i]);
        for (uint64_t require = 0; require < 2; require++) {
            expect_status(
                crmm_cuda_async_memory_resource_create(
                    CRMM_OPTIONS(crmm_cuda_async_memory_resource, .require = require), &mr),
                CRMM_ERROR_CUDA);
            expect_equal(crmm_last_error()->native_code, cudaErrorInsufficientDriver);
            cr_assert(mr == NULL);
        }
    }
    expect_equal(cudart_emulated_calls("cudaMemPoolCreate"), 0);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* User report 80: an attribute newer than the driver made creation fail. */
Test(emulation_cuda_async_memory_resource, an_unknown_attribute_is_not_supported_and_no_error)
{
    crmm_resource *mr = NULL;

    cudart_emulated_fail("cudaDeviceGetAttribute", 1, 0, cudaErrorInvalidValue);
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr)); /* by its fallback */
    cr_assert(crmm_cuda_async_memory_resource_pool_handle(mr) == NULL);
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_resource_release(&mr);
}

Test(emulation_cuda_async_memory_resource, managed_pools_need_concurrent_access_and_a_new_driver)
{
    crmm_resource *mr = NULL;

    cudart_emulated_set_attribute(-1, cudaDevAttrConcurrentManagedAccess, 0);
    expect_failure(crmm_cuda_async_managed_memory_resource_create(&mr), CRMM_ERROR_UNSUPPORTED,
                   "device 0 has no managed memory pools");
    cr_assert(mr == NULL);
}

/* Whatever call of creation fails, in whatever order: an error, and no pool is left. */
Test(emulation_cuda_async_memory_resource, a_failing_call_of_create_leaves_no_pool)
{
    const int peer = 1;
    static const char *const calls[] = {"cudaGetDevice",           "cudaGetDeviceCount",
                                        "cudaMemPoolCreate",       "cudaMemPoolSetAttribute",
                                        "cudaMemPoolSetAccess",    "cudaDeviceCanAccessPeer",
                                        "cudaMallocFromPoolAsync", "cudaFreeAsync"};

    cudart_emulated_set_devices(2);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        crmm_resource *mr = NULL;
        unsigned long long created = cudart_emulated_calls("cudaMemPoolCreate");
        unsigned long long destroyed = cudart_emulated_calls("cudaMemPoolDestroy");
        cudart_emulated_clear_faults();
        cudart_emulated_fail(calls[i], 1, 0, cudaErrorIllegalAddress);
        crmm_status status = crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = &peer,
                         .peer_device_count = 1, .initial_pool_size = 1 << 20),
            &mr);
        cr_assert(status == CRMM_ERROR_CUDA || status == CRMM_ERROR_BAD_ALLOC, "%s: %s", calls[i],
                  crmm_status_name(status));
        expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
        cr_assert(mr == NULL);
        created = cudart_emulated_calls("cudaMemPoolCreate") - created;
        destroyed = cudart_emulated_calls("cudaMemPoolDestroy") - destroyed;
        expect_equal(destroyed, strcmp(calls[i], "cudaMemPoolCreate") == 0 ? 0 : created);
        expect_equal(cudaGetLastError(), cudaSuccess);
    }
}

Test(emulation_cuda_async_memory_resource, failing_calls_in_use_are_told)
{
    crmm_resource *mr = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *ptr = NULL;
    void *other = &ptr;

    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    cudart_emulated_fail("cudaMallocFromPoolAsync", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_allocate(mr, NULL, 100, 256, &other), CRMM_ERROR_BAD_ALLOC,
                   "cudaErrorIllegalAddress");
    cudart_emulated_clear_faults();
    cudart_emulated_fail("cudaStreamSynchronize", 1, 0, cudaErrorIllegalAddress);
    expect_status(crmm_allocate_sync(mr, 100, 256, &other), CRMM_ERROR_CUDA);
    cr_assert(other == &ptr);
    cudart_emulated_clear_faults();
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 1000); /* the one that could not be waited for was given back */
    cudart_emulated_fail("cudaFreeAsync", 1, 1, cudaErrorIllegalAddress);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 1000, 256), CRMM_MISUSE_CUDA, "cudaFreeAsync");
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 1000);
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    cudart_emulated_fail("cudaMemPoolTrimTo", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_resource_trim(mr, 0, NULL), CRMM_ERROR_CUDA, "cudaMemPoolTrimTo failed");
    cudart_emulated_fail("cudaMemPoolGetAttribute", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_resource_info(mr, &info), CRMM_ERROR_CUDA,
                   "cudaMemPoolGetAttribute failed");
    cudart_emulated_clear_faults();
    cudart_emulated_fail("cudaMemPoolDestroy", 1, 0, cudaErrorIllegalAddress);
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_CUDA, "cudaMemPoolDestroy failed");
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* User report 21: an allocation failed although a wait, a trim and the same call would do. */
Test(emulation_cuda_async_memory_resource, a_failed_allocation_is_tried_again_after_a_trim)
{
    crmm_resource *mr = NULL;
    char text[128];
    void *ptr = NULL;

    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    cudart_emulated_fail("cudaMallocFromPoolAsync", 1, 1, cudaErrorMemoryAllocation);
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    expect_equal(cudart_emulated_calls("cudaMemPoolTrimTo"), 1);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, "1 retries after a trim") != NULL, "%s", text);
    expect_equal(cudaPeekAtLastError(), cudaSuccess); /* user report 69 */
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    crmm_resource_release(&mr);
}

Test(emulation_cuda_async_memory_resource, a_captured_stream_is_not_waited_for)
{
    crmm_resource *mr = NULL;
    cudaGraph_t graph = NULL;
    void *ptr = &ptr;
    cudaStream_t stream = make_stream();

    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    cudart_emulated_fail("cudaMallocFromPoolAsync", 1, 1, cudaErrorMemoryAllocation);
    expect_failure(crmm_allocate(mr, stream, 1000, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaMallocFromPoolAsync of 1000 bytes failed");
    cr_assert(ptr == &ptr);
    expect_equal(cudart_emulated_calls("cudaMemPoolTrimTo"), 0);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    crmm_resource_release(&mr);
}

static void expect_description(const crmm_cuda_async_memory_resource_options *options,
                               const char *handles, bool decompresses)
{
    crmm_resource *mr = NULL;
    char text[200];
    char expected[200];

    /* An older interface has no flag for it. */
    decompresses = decompresses && CUDART_VERSION >= 12080;
    (void)snprintf(expected, sizeof(expected),
                   "cuda_async_memory_resource (device 0, own pool, %s%s, 0 retries after a trim)",
                   handles, decompresses ? ", hardware decompression" : "");

    expect_success(crmm_cuda_async_memory_resource_create(options, &mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, expected);
    crmm_resource_release(&mr);
}

/* What the device and the driver had of what was asked for. */
Test(emulation_cuda_async_memory_resource, the_description_has_what_was_chosen)
{
    const int peers[] = {0, 1};

    cudart_emulated_set_devices(2);
    expect_description(NULL, "export types 0, 0 peers", true);
    expect_description(CRMM_OPTIONS(crmm_cuda_async_memory_resource,
                                    .export_handle_type = CRMM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    .peer_devices = peers, .peer_device_count = 2),
                       "export types 1, 1 peers", true);
    /* A device that does not take the flag has a pool without it. */
    if (CUDART_VERSION >= 12080) {
        cudart_emulated_fail("cudaMemPoolCreate", 1, 1, cudaErrorInvalidValue);
        expect_description(NULL, "export types 0, 0 peers", false);
    }
    /* A driver whose version is not known has not got it. */
    cudart_emulated_fail("cudaDriverGetVersion", 1, 0, cudaErrorUnknown);
    expect_description(NULL, "export types 0, 0 peers", false);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* User report 90: a peer that cannot reach the memory was found out much later. */
Test(emulation_cuda_async_memory_resource, peers_are_let_in_once_or_refused)
{
    const int peers[] = {0, 1};
    crmm_resource *mr = NULL;

    cudart_emulated_set_devices(2);
    expect_success(crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = peers,
                     .peer_device_count = 2),
        &mr));
    expect_equal(cudart_emulated_calls("cudaMemPoolSetAccess"), 1); /* not for the owner */
    crmm_resource_release(&mr);
    /* User report 82: where nobody else is let in, nothing is set. */
    expect_success(crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = peers,
                     .peer_device_count = 1),
        &mr));
    crmm_resource_release(&mr);
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &mr));
    crmm_resource_release(&mr);
    expect_equal(cudart_emulated_calls("cudaMemPoolSetAccess"), 1);
    cudart_emulated_set_option("no_peers", 1);
    expect_failure(crmm_cuda_async_memory_resource_create(
                       CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = peers,
                                    .peer_device_count = 2),
                       &mr),
                   CRMM_ERROR_UNSUPPORTED, "device 1 cannot access memory of device 0");
    cr_assert(mr == NULL);
    expect_equal(cudart_emulated_calls("cudaMemPoolSetAccess"), 1);
}
