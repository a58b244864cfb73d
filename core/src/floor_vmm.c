/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/floor_vmm.h>

#include <pthread.h>
#include <stdlib.h>

#include <cuda.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/held.h>

#include "floor_call.h"

/* ---- entry points ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
    CUresult (*device_attribute)(int *, CUdevice_attribute, CUdevice);
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *,
                            CUmemAllocationGranularity_flags);
    CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*unreserve)(CUdeviceptr, size_t);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                       unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*retain)(CUmemGenericAllocationHandle *, void *);
    CUresult (*to_shareable)(void *, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                             unsigned long long);
} driver;

static bool complete;

static void find_entries(void)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"cuDeviceGetAttribute", &driver.device_attribute},
        {"cuMemGetAllocationGranularity", &driver.granularity},
        {"cuMemAddressReserve", &driver.reserve},
        {"cuMemAddressFree", &driver.unreserve},
        {"cuMemCreate", &driver.create},
        {"cuMemRelease", &driver.release},
        {"cuMemMap", &driver.map},
        {"cuMemUnmap", &driver.unmap},
        {"cuMemSetAccess", &driver.set_access},
        {"cuMemRetainAllocationHandle", &driver.retain},
        {"cuMemExportToShareableHandle", &driver.to_shareable},
    };

    complete = true;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *(void **)wanted[i].slot = crmm_priv_floor_entry(wanted[i].name);
        complete = complete && *(void **)wanted[i].slot != NULL;
    }
}

/* Whether the driver may be asked: cudaSuccess, or the error that asking would give. */
static cudaError_t prepare(void)
{
    cudaError_t error = crmm_priv_floor_begin();

    if (error == cudaSuccess) {
        (void)pthread_once(&once, find_entries);
        error = complete ? cudaSuccess : cudaErrorNotSupported;
    }
    return error;
}

static CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

static CUmemAllocationProp properties_of(const crmm_priv_vmm_kind *kind)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)kind->handle_types,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = kind->device},
    };
}

/* ---- capabilities ---- */

static bool device_has(CUdevice_attribute attribute, int device)
{
    int value = 0;
    return driver.device_attribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

bool crmm_priv_vmm_is_supported(const crmm_priv_vmm_kind *kind)
{
    if (prepare() != cudaSuccess ||
        !device_has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, kind->device)) {
        return false;
    }
    if ((kind->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0 &&
        !device_has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                    kind->device)) {
        return false;
    }
#if CUDA_VERSION >= 12030
    if ((kind->handle_types & CU_MEM_HANDLE_TYPE_FABRIC) != 0 &&
        !device_has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, kind->device)) {
        return false;
    }
    const uint64_t known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
#else
    const uint64_t known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
#endif
    return (kind->handle_types & ~known) == 0;
}

crmm_status crmm_priv_vmm_granularity(const crmm_priv_vmm_kind *kind, size_t *granularity)
{
    const CUmemAllocationProp properties = properties_of(kind);
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.granularity(granularity, &properties,
                                                     CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    }
    return crmm_priv_floor_check("cuMemGetAllocationGranularity", error);
}

/* ---- ranges ---- */

crmm_status crmm_priv_vmm_reserve(const char *who, size_t bytes, size_t alignment, void **base)
{
    CUdeviceptr found = 0;
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.reserve(&found, bytes, alignment, 0, 0);
    }
    if (error != cudaSuccess) {
        return crmm_priv_floor_check_allocation(who, "cuMemAddressReserve", bytes, error);
    }
    *base = (void *)(uintptr_t)found;
    return CRMM_SUCCESS; /* addresses are not held memory */
}

/* What a call has come to that cannot fail: while the program ends, memory ends with it. */
static int quiet(cudaError_t error)
{
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

int crmm_priv_vmm_unreserve(void *base, size_t bytes)
{
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.unreserve(address(base), bytes);
    }
    return quiet(error);
}

/* ---- memory ---- */

/* A release that failed is made again: nobody knows the handle later, and memory that is unmapped
 * goes only without one. */
static cudaError_t release_handle(CUmemGenericAllocationHandle handle)
{
    CUresult result = driver.release(handle);

    if (result != CUDA_SUCCESS) {
        result = driver.release(handle);
    }
    return (cudaError_t)(int)result;
}

/* Let every device of the kind read and write a mapping. */
static cudaError_t give_access(const crmm_priv_vmm_kind *kind, void *ptr, size_t bytes)
{
    CUmemAccessDesc *access = calloc(kind->device_count, sizeof(*access));

    if (access == NULL) {
        return cudaErrorMemoryAllocation;
    }
    for (size_t i = 0; i < kind->device_count; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = kind->devices[i];
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    cudaError_t error =
        (cudaError_t)(int)driver.set_access(address(ptr), bytes, access, kind->device_count);
    free(access);
    return error;
}

/* Map a handle and open it; `failed` names the call that failed. */
static cudaError_t map_handle(const crmm_priv_vmm_kind *kind, CUmemGenericAllocationHandle handle,
                              void *ptr, size_t bytes, const char **failed)
{
    cudaError_t error = (cudaError_t)(int)driver.map(address(ptr), bytes, 0, handle, 0);

    *failed = "cuMemMap";
    if (error != cudaSuccess) {
        return error;
    }
    error = give_access(kind, ptr, bytes);
    if (error != cudaSuccess) {
        *failed = "cuMemSetAccess";
        (void)driver.unmap(address(ptr), bytes);
    }
    return error;
}

crmm_status crmm_priv_vmm_map(const char *who, const crmm_priv_vmm_kind *kind, void *ptr,
                              size_t bytes)
{
    const CUmemAllocationProp properties = properties_of(kind);
    CUmemGenericAllocationHandle handle = 0;
    const char *call = "cuMemCreate";
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.create(&handle, bytes, &properties, 0);
    }
    if (error == cudaSuccess) {
        error = map_handle(kind, handle, ptr, bytes, &call);
        /* The memory lives while it is mapped. */
        (void)release_handle(handle);
    }
    return crmm_priv_floor_check_allocation(who, call, bytes, error);
}

crmm_status crmm_priv_vmm_try(const char *who, const crmm_priv_vmm_kind *kind, size_t bytes)
{
    const CUmemAllocationProp properties = properties_of(kind);
    CUmemGenericAllocationHandle handle = 0;
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.create(&handle, bytes, &properties, 0);
    }
    if (error != cudaSuccess) {
        return crmm_priv_floor_check_allocation(who, "cuMemCreate", bytes, error);
    }
    return crmm_priv_floor_check("cuMemRelease", release_handle(handle));
}

/*
 * The handle that is mapped at a whole range. A handle can only be mapped as a whole, so if the
 * first and the last byte are of the same one, and it has the size of the range, it begins where
 * that does. That size the driver compares when the handle is mapped again.
 */
static cudaError_t retain_whole(CUmemGenericAllocationHandle *handle, const void *ptr, size_t bytes)
{
    CUmemGenericAllocationHandle last = 0;
    cudaError_t error = (cudaError_t)(int)driver.retain(handle, (void *)(uintptr_t)address(ptr));

    if (error != cudaSuccess) {
        return error;
    }
    error = (cudaError_t)(int)driver.retain(&last, (void *)(uintptr_t)(address(ptr) + bytes - 1));
    if (error == cudaSuccess) {
        (void)release_handle(last);
        error = last == *handle ? cudaSuccess : cudaErrorInvalidValue;
    }
    if (error != cudaSuccess) {
        (void)release_handle(*handle);
    }
    return error;
}

crmm_status crmm_priv_vmm_map_again(void *to, const void *from, size_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = retain_whole(&handle, from, bytes);
    }
    if (error != cudaSuccess) {
        return crmm_priv_floor_check("cuMemRetainAllocationHandle", error);
    }
    error = (cudaError_t)(int)driver.map(address(to), bytes, 0, handle, 0);
    (void)release_handle(handle);
    return crmm_priv_floor_check("cuMemMap", error);
}

crmm_status crmm_priv_vmm_give_access(const crmm_priv_vmm_kind *kind, void *ptr, size_t bytes)
{
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = give_access(kind, ptr, bytes);
    }
    return crmm_priv_floor_check("cuMemSetAccess", error);
}

crmm_status crmm_priv_vmm_export(const void *ptr, size_t bytes, uint64_t handle_type,
                                 void *shareable)
{
    CUmemGenericAllocationHandle handle = 0;
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = retain_whole(&handle, ptr, bytes);
    }
    if (error != cudaSuccess) {
        return crmm_priv_floor_check("cuMemRetainAllocationHandle", error);
    }
    error = (cudaError_t)(int)driver.to_shareable(shareable, handle,
                                                  (CUmemAllocationHandleType)handle_type, 0);
    (void)release_handle(handle);
    return crmm_priv_floor_check("cuMemExportToShareableHandle", error);
}

int crmm_priv_vmm_unmap(void *ptr, size_t bytes, size_t mapped)
{
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = (cudaError_t)(int)driver.unmap(address(ptr), bytes);
        if (error == cudaSuccess) {
            crmm_priv_held_subtract(mapped);
        }
    }
    return quiet(error);
}
