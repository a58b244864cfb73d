/* SPDX-License-Identifier: Apache-2.0 */
#include "import_support.h"

#include <cuda.h>

#include <crmm/device/vmm_memory_resource.h>

#include "../../core/src/floor_call.h"
#include "cuda_support.h"
#include "expect.h"

crmm_resource *make_exportable_vmm(uint64_t handle_types, size_t handle_size)
{
    crmm_resource *vmm = NULL;

    need_devices(1);
    crmm_status status = crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1, .handle_size = handle_size,
                     .export_handle_type = handle_types),
        &vmm);
    if (status == CRMM_ERROR_UNSUPPORTED) {
        cr_skip_test("%s", crmm_last_error()->message);
    }
    expect_success(status);
    return vmm;
}

/* A driver function; tests are linked with the runtime only. */
static void load(const char *name, void *slot)
{
    void *entry = crmm_priv_floor_entry(name);

    cr_assert(entry != NULL, "no %s", name);
    memcpy(slot, &entry, sizeof(entry));
}

#define CALL_DRIVER(name, ...)                                                 \
    do {                                                                       \
        __typeof__(name) *function_ = NULL;                                    \
        load(#name, &function_);                                               \
        CUresult result_ = function_(__VA_ARGS__);                             \
        cr_assert(result_ == CUDA_SUCCESS, "%s gave %d", #name, (int)result_); \
    } while (0)

void *import_handle(const crmm_pool_export *exported, uint64_t handle_type)
{
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    void *shared = handle_type == CRMM_EXPORT_FILE_DESCRIPTOR
                       ? (void *)(intptr_t)exported->file_descriptor
                       : (void *)(uintptr_t)exported->fabric;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;

    CALL_DRIVER(cuMemImportFromShareableHandle, &handle, shared,
                (CUmemAllocationHandleType)handle_type);
    CALL_DRIVER(cuMemAddressReserve, &at, exported->bytes, 0, 0, 0);
    CALL_DRIVER(cuMemMap, at, exported->bytes, 0, handle, 0);
    CALL_DRIVER(cuMemSetAccess, at, exported->bytes, &access, 1);
    CALL_DRIVER(cuMemRelease, handle);
    return (void *)(uintptr_t)at;
}

void unmap_import(void *mapped, size_t bytes)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)mapped;

    CALL_DRIVER(cuMemUnmap, at, bytes);
    CALL_DRIVER(cuMemAddressFree, at, bytes);
}
