/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/vmm_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/interfaces/resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(emulation_vmm_memory_resource, without_the_capability_falls_back_or_fails_as_told)
{
    crmm_resource *mr = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    char text[160];
    void *ptr = NULL;

    cudart_emulated_set_attribute(-1, 102, 0); /* virtual memory management */
    expect_failure(
        crmm_vmm_memory_resource_create(CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1), &mr),
        CRMM_ERROR_UNSUPPORTED, "device 0 has no virtual memory management");
    cr_assert(mr == NULL);
    expect_success(crmm_vmm_memory_resource_create(NULL, &mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "vmm_memory_resource (device 0 has no virtual memory management) over "
                      "cuda_memory_resource");
    cr_assert(crmm_resource_is_adaptor(mr));
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 1000);
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
    crmm_deallocate_sync(mr, ptr, 1000, 256);
    crmm_resource_release(&mr);
    expect_equal(cudart_emulated_calls("cuMemCreate"), 0);
}

/* Whatever call fails, at whatever handle: an error, and nothing is left. */
Test(emulation_vmm_memory_resource, a_failing_call_loses_nothing)
{
    static const char *const calls[] = {"cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                                        "cuMemSetAccess"};
    struct cudart_emulated_usage usage;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_resource *mr = NULL;

    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .handle_size = 1, .require = 1), &mr));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned long long position = 1; position <= (i == 0 ? 1 : 3); position++) {
            void *ptr = &ptr;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i], position, 1, cudaErrorIllegalAddress);
            expect_failure(crmm_allocate_sync(mr, 5 << 20, 256, &ptr), CRMM_ERROR_BAD_ALLOC,
                           calls[i]);
            expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
            cr_assert(ptr == &ptr);
            cudart_emulated_usage(0, &usage);
            expect_equal(usage.physical, 0);
            expect_success(crmm_resource_info(mr, &info));
            expect_equal(info.live + info.held, 0);
            expect_equal(cudart_emulated_calls("cuMemAddressReserve") -
                             cudart_emulated_calls("cuMemAddressFree"),
                         i == 0 ? position : 1);
        }
    }
    crmm_resource_release(&mr);
}

/* At whatever handle it fails: the memory is where it was, and its new place is free. */
Test(emulation_vmm_memory_resource, a_failing_move_changes_nothing)
{
    static const struct {
        const char *call;
        unsigned long long positions;
    } calls[] = {{"cuMemRetainAllocationHandle", 6}, {"cuMemMap", 3}, {"cuMemSetAccess", 1}};
    const size_t unit = 2 << 20;
    struct cudart_emulated_usage usage;
    crmm_resource *mr = NULL;
    char *base = NULL;

    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .handle_size = 1, .require = 1), &mr));
    const crmm_resource_ops *ops = mr->ops;
    expect_success(ops->reserve(mr, 6 * unit, 1, (void **)&base));
    expect_success(ops->commit(mr, base, 3 * unit));
    device_fill(base, 5, 3 * unit);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned long long position = 1; position <= calls[i].positions; position++) {
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i].call, position, 1, cudaErrorIllegalAddress);
            expect_failure(ops->move_begin(mr, base + 3 * unit, base, 3 * unit), CRMM_ERROR_CUDA,
                           calls[i].call);
            expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
            cudart_emulated_usage(0, &usage);
            expect_equal(usage.physical, 3 * unit);
            cr_assert(device_has(base, 5, 3 * unit));
            expect_success(ops->commit(mr, base + 3 * unit, 3 * unit));
            expect_success(ops->decommit(mr, base + 3 * unit, 3 * unit));
        }
    }
    cudart_emulated_clear_faults();
    expect_success(ops->move_begin(mr, base + 3 * unit, base, 3 * unit));
    cudart_emulated_fail("cuMemUnmap", 1, 1, cudaErrorIllegalAddress);
    expect_failure(ops->move_end(mr, base, 3 * unit), CRMM_ERROR_CUDA, "cuMemUnmap");
    cr_assert(device_has(base, 5, 3 * unit));
    expect_success(ops->move_end(mr, base, 3 * unit));
    expect_success(ops->decommit(mr, base + 3 * unit, 3 * unit));
    cudart_emulated_usage(0, &usage); /* no reference to a handle is left */
    expect_equal(usage.physical, 0);
    expect_success(ops->unreserve(mr, base, 6 * unit));
    crmm_resource_release(&mr);
}

Test(emulation_vmm_memory_resource, failing_calls_of_create_are_told)
{
    crmm_resource *mr = NULL;

    cudart_emulated_fail("cuMemGetAllocationGranularity", 1, 1, cudaErrorIllegalAddress);
    expect_failure(crmm_vmm_memory_resource_create(NULL, &mr), CRMM_ERROR_CUDA,
                   "cuMemGetAllocationGranularity failed");
    cudart_emulated_fail("cudaGetDevice", 1, 1, cudaErrorIllegalAddress);
    expect_status(crmm_vmm_memory_resource_create(NULL, &mr), CRMM_ERROR_CUDA);
    cr_assert(mr == NULL);
}

Test(emulation_vmm_memory_resource, a_failed_free_keeps_the_block)
{
    crmm_resource *mr = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *ptr = NULL;

    expect_success(crmm_vmm_memory_resource_create(NULL, &mr));
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    cudart_emulated_fail("cuMemUnmap", 1, 1, cudaErrorIllegalAddress);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 1000, 256), CRMM_MISUSE_CUDA, "cuMemUnmap");
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 1000);
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 1);
}

Test(emulation_vmm_memory_resource, peers_get_access_or_are_refused)
{
    const int peers[] = {1, 0};
    crmm_resource *mr = NULL;
    char text[160];

    cudart_emulated_set_devices(2);
    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .peer_devices = peers, .peer_device_count = 2),
        &mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, "2 devices") != NULL, "%s", text);
    crmm_resource_release(&mr);
    cudart_emulated_set_option("no_peers", 1);
    expect_failure(
        crmm_vmm_memory_resource_create(
            CRMM_OPTIONS(crmm_vmm_memory_resource, .peer_devices = peers, .peer_device_count = 2),
            &mr),
        CRMM_ERROR_UNSUPPORTED, "device 1 cannot access memory of device 0");
    cr_assert(mr == NULL);
}
