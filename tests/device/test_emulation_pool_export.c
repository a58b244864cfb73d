/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <dirent.h>

#include <cudart_emulated.h>

#include <crmm/device/vmm_memory_resource.h>

#include "import_support.h"
#include "pool_support.h"

static size_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t count = 0;

    cr_assert(folder != NULL);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

static size_t physical(void)
{
    struct cudart_emulated_usage usage;

    expect_equal(cudart_emulated_usage(0, &usage), 0);
    return usage.physical;
}

/* Handles of both kinds, of one resource; a fabric handle is bytes, and nobody's to close. */
Test(emulation_pool_export, fabric_handles_are_exported_too)
{
    enum { BOTH = CRMM_EXPORT_FILE_DESCRIPTOR | CRMM_EXPORT_FABRIC };
    crmm_pool_export out = {.struct_size = sizeof(out)};

    cudart_emulated_set_attribute(-1, 128, 1);
    crmm_resource *vmm = make_exportable_vmm(BOTH, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    size_t files = open_files();
    char *block = take(pool, NULL, 100 * KIB);
    device_fill(block, 4, 100 * KIB);
    expect_success(crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FABRIC, &out));
    expect_equal(out.file_descriptor, (unsigned long long)-1);
    char *mapped = import_handle(&out, CRMM_EXPORT_FABRIC);
    cr_assert(device_has(mapped + out.offset, 4, 100 * KIB));
    unmap_import(mapped, out.bytes);
    expect_equal(open_files(), files);
    expect_success(
        crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FILE_DESCRIPTOR, &out));
    expect_equal(open_files(), files + 1);
    crmm_deallocate(pool, NULL, block, 100 * KIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* No reference to a handle and no descriptor is left, however often the memory is exported and
 * whatever call fails. */
Test(emulation_pool_export, a_failing_call_leaves_nothing_behind)
{
    static const struct {
        const char *call;
        unsigned long long positions;
    } calls[] = {{"cuMemRetainAllocationHandle", 2}, {"cuMemExportToShareableHandle", 1}};
    const crmm_pool_export before = {.struct_size = sizeof(before), .file_descriptor = 77};
    crmm_resource *vmm = make_exportable_vmm(CRMM_EXPORT_FILE_DESCRIPTOR, 0);
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    char *block = take(pool, NULL, 3 * MIB);
    size_t files = open_files();

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned long long position = 1; position <= calls[i].positions; position++) {
            crmm_pool_export out = before;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i].call, position, 1, cudaErrorIllegalAddress);
            expect_failure(
                crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FILE_DESCRIPTOR, &out),
                CRMM_ERROR_CUDA, calls[i].call);
            expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
            expect_equal(memcmp(&out, &before, sizeof(out)), 0);
            expect_equal(open_files(), files);
        }
    }
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
    expect_sound_books(pool);
    crmm_deallocate(pool, NULL, block, 3 * MIB, 256);
    crmm_resource_release(&pool);
    expect_equal(physical(), 0);
    crmm_resource_release(&vmm);
    expect_equal(cudart_emulated_violations(), 0);
}

/* What cannot be exported is refused without a call of CUDA's. */
Test(emulation_pool_export, a_refusal_asks_nobody)
{
    crmm_pool_export out = {.struct_size = sizeof(out)};
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    void *block = take(pool, NULL, 3 * MIB);
    unsigned long long calls = cudart_emulated_calls(NULL);

    expect_status(crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FILE_DESCRIPTOR, &out),
                  CRMM_ERROR_UNSUPPORTED);
    expect_status(crmm_pool_memory_resource_export(pool, block, 3, &out),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(cudart_emulated_calls(NULL), calls);
    crmm_deallocate(pool, NULL, block, 3 * MIB, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* Where a device has no virtual memory management, cuda has taken vmm's place. */
Test(emulation_pool_export, what_stands_in_for_vmm_has_no_handles)
{
    crmm_pool_export out = {.struct_size = sizeof(out)};

    cudart_emulated_set_attribute(-1, 102, 0);
    crmm_resource *pool = make_pool(NULL, .tight = 0);
    void *block = take(pool, NULL, 3 * MIB);
    expect_failure(crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FILE_DESCRIPTOR, &out),
                   CRMM_ERROR_UNSUPPORTED, "which has no handles");
    crmm_deallocate(pool, NULL, block, 3 * MIB, 256);
    crmm_resource_release(&pool);
}
