/* SPDX-License-Identifier: Apache-2.0 */
/* The floor's calls for CUDA's own memory pools. */
#include <crmm/internal/floor_pool.h>

#include <cuda_runtime_api.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/held.h>

#include "floor_call.h"

/* ---- pools ---- */

/* Set what asks for it, where both toolkit and driver know it. */
static bool ask_for_decompression(struct cudaMemPoolProps *properties)
{
#if CUDART_VERSION >= 12080
    int driver = 0;
    cudaError_t error;

    CALL(error, cudaDriverGetVersion(&driver));
    if (error == cudaSuccess && driver >= 12080) {
        properties->usage = cudaMemPoolCreateUsageHwDecompress;
        return true;
    }
#else
    (void)properties;
#endif
    return false;
}

crmm_status crmm_priv_cuda_pool_create(crmm_priv_pool_request *request, crmm_mem_pool *pool)
{
    const struct cudaMemPoolProps plain = {
        .allocType = cudaMemAllocationTypePinned,
        .handleTypes = (enum cudaMemAllocationHandleType)request->handle_types,
        .location = {.type = cudaMemLocationTypeDevice, .id = request->device},
    };
    struct cudaMemPoolProps properties = plain;
    cudaError_t error;

    request->decompresses = request->decompresses && ask_for_decompression(&properties);
    CALL_BESIDE_CAPTURES(error, cudaMemPoolCreate(pool, &properties));
    if (request->decompresses &&
        (error == cudaErrorInvalidValue || error == cudaErrorNotSupported)) {
        request->decompresses = false;
        CALL_BESIDE_CAPTURES(error, cudaMemPoolCreate(pool, &plain));
    }
    return crmm_priv_floor_check("cudaMemPoolCreate", error);
}

int crmm_priv_cuda_pool_destroy(crmm_mem_pool pool)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaMemPoolDestroy(pool));
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

crmm_status crmm_priv_cuda_pool_default(int device, crmm_mem_pool *pool)
{
    cudaError_t error;

    CALL(error, cudaDeviceGetDefaultMemPool(pool, device));
    return crmm_priv_floor_check("cudaDeviceGetDefaultMemPool", error);
}

crmm_status crmm_priv_cuda_pool_current(int device, crmm_mem_pool *pool)
{
    cudaError_t error;

    CALL(error, cudaDeviceGetMemPool(pool, device));
    return crmm_priv_floor_check("cudaDeviceGetMemPool", error);
}

crmm_status crmm_priv_cuda_pool_default_managed(int device, crmm_mem_pool *pool)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation location = {.type = cudaMemLocationTypeDevice, .id = device};
    cudaError_t error;

    CALL(error, cudaMemGetDefaultMemPool(pool, &location, cudaMemAllocationTypeManaged));
    return crmm_priv_floor_check("cudaMemGetDefaultMemPool", error);
#else
    (void)device;
    (void)pool;
    return FAIL(
        CRMM_ERROR_UNSUPPORTED, 0,
        "managed memory pools need CUDA 13.0, and this library was built with an older one");
#endif
}

crmm_status crmm_priv_cuda_pool_set_threshold(crmm_mem_pool pool, uint64_t bytes)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error,
                         cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes));
    return crmm_priv_floor_check("cudaMemPoolSetAttribute", error);
}

static cudaError_t get_attribute(crmm_mem_pool pool, enum cudaMemPoolAttr attribute,
                                 uint64_t *value)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaMemPoolGetAttribute(pool, attribute, value));
    return error;
}

int crmm_priv_cuda_pool_usage(crmm_mem_pool pool, crmm_priv_pool_usage *usage)
{
    uint64_t reserved = 0;
    uint64_t reserved_peak = 0;

    cudaError_t error = get_attribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
    if (error == cudaSuccess) {
        error = get_attribute(pool, cudaMemPoolAttrReservedMemHigh, &reserved_peak);
    }
    if (error == cudaSuccess) {
        usage->reserved = (size_t)reserved;
        usage->reserved_peak = (size_t)reserved_peak;
    }
    return (int)error;
}

int crmm_priv_cuda_pool_trim(crmm_mem_pool pool, size_t bytes_to_keep)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaMemPoolTrimTo(pool, bytes_to_keep));
    return (int)error;
}

crmm_status crmm_priv_cuda_pool_open_to(crmm_mem_pool pool, int device)
{
    struct cudaMemAccessDesc access = {
        .location = {.type = cudaMemLocationTypeDevice, .id = device},
        .flags = cudaMemAccessFlagsProtReadWrite,
    };
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaMemPoolSetAccess(pool, &access, 1));
    return crmm_priv_floor_check("cudaMemPoolSetAccess", error);
}

/* ---- memory ---- */

crmm_status crmm_priv_cuda_pool_allocate(const char *who, crmm_mem_pool pool, crmm_stream stream,
                                         size_t bytes, void **ptr)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaMallocFromPoolAsync(ptr, bytes, pool, stream));
    if (error == cudaSuccess) {
        return CRMM_SUCCESS; /* what is held is the pool's reserve, not this */
    }
    return crmm_priv_floor_check_allocation(who, "cudaMallocFromPoolAsync", bytes, error);
}

int crmm_priv_cuda_pool_free(void *ptr, crmm_stream stream)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaFreeAsync(ptr, stream));
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

/* ---- capabilities ---- */

/* An attribute that the driver does not know is a capability that it does not have. */
static int attribute_of(enum cudaDeviceAttr attribute, int device)
{
    int value = 0;
    cudaError_t error;

    CALL(error, cudaDeviceGetAttribute(&value, attribute, device));
    return error == cudaSuccess ? value : 0;
}

bool crmm_priv_cuda_has_pools(int device)
{
    return attribute_of(cudaDevAttrMemoryPoolsSupported, device) == 1;
}

bool crmm_priv_cuda_can_export(int device, uint64_t handle_types)
{
    int supported = attribute_of(cudaDevAttrMemoryPoolSupportedHandleTypes, device);
    return ((uint64_t)(unsigned)supported & handle_types) == handle_types;
}

bool crmm_priv_cuda_has_managed_pools(int device)
{
    int driver = 0;
    cudaError_t error;

    CALL(error, cudaDriverGetVersion(&driver));
    return error == cudaSuccess && driver >= 13000 && CUDART_VERSION >= 13000 &&
           attribute_of(cudaDevAttrConcurrentManagedAccess, device) == 1;
}

crmm_status crmm_priv_cuda_can_access_peer(int device, int peer, bool *can)
{
    int answer = 0;
    cudaError_t error;

    CALL(error, cudaDeviceCanAccessPeer(&answer, device, peer));
    *can = answer != 0;
    return crmm_priv_floor_check("cudaDeviceCanAccessPeer", error);
}
