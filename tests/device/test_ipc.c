/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/ipc.h>

#include <stdlib.h>

#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/callback_memory_resource.h>
#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/device/system_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>
#include <crmm/interfaces/resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

/* A resource that passes on what its upstream gives. */
typedef struct layer {
    struct crmm_resource base;
    crmm_resource *upstream;
} layer;

static crmm_status layer_allocate(crmm_resource *resource, size_t bytes, size_t alignment,
                                  void **ptr)
{
    return crmm_allocate_sync(((layer *)resource)->upstream, bytes, alignment, ptr);
}

static void layer_deallocate(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    crmm_deallocate_sync(((layer *)resource)->upstream, ptr, bytes, alignment);
}

static void layer_destroy(crmm_resource *resource)
{
    (void)resource;
}

static crmm_resource *layer_upstream(const crmm_resource *resource)
{
    return ((const layer *)resource)->upstream;
}

static const crmm_resource_ops layer_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = layer_allocate,
    .deallocate_sync = layer_deallocate,
    .destroy = layer_destroy,
    .upstream = layer_upstream,
};

/* The resource, one layer over it, and one over that. */
static bool answer(crmm_resource *leaf)
{
    layer lower = {.upstream = leaf};
    layer upper = {.upstream = &lower.base};

    /* Of that name, but not of that class. */
    crmm_resource_init(&lower.base, &layer_ops, "cuda_memory_resource", CRMM_DEVICE_ACCESSIBLE);
    crmm_resource_init(&upper.base, &layer_ops, "layer", CRMM_DEVICE_ACCESSIBLE);
    bool capable = crmm_resource_is_ipc_capable(leaf);
    expect_equal(crmm_resource_is_ipc_capable(&lower.base), capable);
    expect_equal(crmm_resource_is_ipc_capable(&upper.base), capable);
    return capable;
}

static crmm_status callback_allocate(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                                     void *user_data)
{
    (void)user_data;
    return crmm_allocate(crmm_cuda_memory_resource(), stream, bytes, alignment, ptr);
}

static void callback_deallocate(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                                void *user_data)
{
    (void)user_data;
    crmm_deallocate(crmm_cuda_memory_resource(), stream, ptr, bytes, alignment);
}

/* User report 86: pools of the driver's became the default, and MPI could not export their memory.
 */
Test(ipc, only_what_comes_from_cuda_malloc_has_a_handle)
{
    const crmm_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                      .properties = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED,
                                      .allocate = callback_allocate,
                                      .deallocate = callback_deallocate};
    crmm_resource *mr = NULL;

    need_devices(1);
    misuse_recorder_start();
    cr_assert(answer(crmm_cuda_memory_resource()));
    expect_success(crmm_get_current_device_resource(&mr));
    cr_assert(answer(mr));
    crmm_resource_release(&mr);

    cr_assert(!answer(crmm_managed_memory_resource()));
    cr_assert(!answer(crmm_system_memory_resource()));
    cr_assert(!answer(crmm_malloc_memory_resource()));
    cr_assert(!answer(crmm_pinned_host_memory_resource()));
    expect_success(
        crmm_vmm_memory_resource_create(CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1), &mr));
    cr_assert(!answer(mr));
    crmm_resource_release(&mr);
    expect_success(crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .require = 1), &mr));
    cr_assert(!answer(mr));
    crmm_resource_release(&mr);
    expect_success(crmm_pinned_host_memory_resource_create(NULL, &mr));
    cr_assert(!answer(mr));
    crmm_resource_release(&mr);
    /* Nobody knows what its functions do. */
    expect_success(crmm_callback_memory_resource_create(&callbacks, NULL, &mr));
    cr_assert(!answer(mr));
    crmm_resource_release(&mr);
    cr_assert(!answer(NULL));
    expect_equal(misuse_recorded()->count, 0);
}

/* The upstream decides, and a program that needs handles names it. */
Test(ipc, a_pool_is_as_its_upstream)
{
    crmm_resource *vmm = NULL;
    crmm_resource *pool = NULL;

    need_devices(1);
    expect_success(crmm_pool_memory_resource_create(crmm_cuda_memory_resource(), NULL, &pool));
    cr_assert(answer(pool));
    crmm_resource_release(&pool);
    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1), &vmm));
    expect_success(crmm_pool_memory_resource_create(vmm, NULL, &pool));
    cr_assert(!answer(pool));
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* Each bin has memory of its own, whatever the rest stands on. */
Test(ipc, binning_is_as_all_its_bins)
{
    crmm_resource *bin = NULL;
    crmm_resource *mr = NULL;

    need_devices(1);
    expect_success(crmm_binning_memory_resource_create(crmm_cuda_memory_resource(),
                                                       CRMM_OPTIONS(crmm_binning_memory_resource,
                                                                    .min_size_exponent = 10,
                                                                    .max_size_exponent = 12),
                                                       &mr));
    cr_assert(answer(mr));
    expect_success(crmm_mpi_safe_memory_resource_create(NULL, &bin));
    expect_success(crmm_binning_memory_resource_add_bin(mr, 1 << 20, bin));
    cr_assert(answer(mr));
    crmm_resource_release(&bin);
    expect_success(
        crmm_binning_memory_resource_add_bin(mr, 1 << 21, crmm_managed_memory_resource()));
    cr_assert(!answer(mr));
    crmm_resource_release(&mr);
}

typedef struct chunks {
    size_t count, wrong;
} chunks;

/* The emulation has not got it, also where it stands in for the toolkit's library. */
#ifndef CUDART_EMULATED
#pragma weak cudaIpcGetMemHandle
#endif

/* Whether it can be exported; where nothing can be, whether it is memory of a device. */
static bool has_handle(void *base)
{
    struct cudaPointerAttributes attributes;

#ifndef CUDART_EMULATED
    cudaIpcMemHandle_t handle;
    if (cudaIpcGetMemHandle != NULL) {
        return cudaIpcGetMemHandle(&handle, base) == cudaSuccess;
    }
#endif
    return cudaPointerGetAttributes(&attributes, base) == cudaSuccess &&
           attributes.type == cudaMemoryTypeDevice;
}

static void look_at_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    chunks *all = user_data;

    (void)bytes;
    if (added) {
        all->count++;
        all->wrong += !has_handle(base);
    }
}

/* User report 86: whatever a pool for MPI takes can be exported. */
Test(ipc, every_chunk_of_the_preset_has_a_handle)
{
    enum { BLOCKS = 12 };
    chunks all = {0};
    crmm_resource *mr = NULL;
    void *ptrs[BLOCKS] = {NULL};
    void *plain = NULL;

    need_devices(1);
    cuda(cudaMalloc(&plain, 1000));
    bool platform_has_ipc = has_handle(plain);
    cuda(cudaFree(plain));
    (void)cudaGetLastError();
    expect_success(crmm_mpi_safe_memory_resource_create(CRMM_OPTIONS(crmm_pool_memory_resource,
                                                                     .on_chunk = look_at_chunk,
                                                                     .on_chunk_user_data = &all),
                                                        &mr));
    cr_assert(answer(mr));
    for (size_t i = 0; i < BLOCKS; i++) {
        expect_success(crmm_allocate_sync(mr, (size_t)1000 << i, 256, &ptrs[i]));
    }
    cr_assert(all.count > 1);
    cr_assert(all.wrong == 0 || !platform_has_ipc, "%zu of %zu chunks", all.wrong, all.count);
    for (size_t i = 0; i < BLOCKS; i++) {
        crmm_deallocate_sync(mr, ptrs[i], (size_t)1000 << i, 256);
    }
    crmm_resource_release(&mr);
    expect_status(crmm_mpi_safe_memory_resource_create(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT);
}
