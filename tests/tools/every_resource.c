/* SPDX-License-Identifier: Apache-2.0 */
#include "every_resource.h"

#include <stdio.h>

#include <crmm/core/error.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/callback_memory_resource.h>
#include <crmm/device/cuda_async_view_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/sam_headroom_memory_resource.h>
#include <crmm/device/system_memory_resource.h>

#include <cuda_runtime_api.h>

#include "spec.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { MIB = 1 << 20, WHY = 48 };

/* ---- what crmm-replay has not ---- */

static crmm_status create_system(crmm_resource **out)
{
    *out = crmm_system_memory_resource();
    return CRMM_SUCCESS;
}

static crmm_status create_sam_headroom(crmm_resource **out)
{
    return crmm_sam_headroom_memory_resource_create(MIB, out);
}

static crmm_status create_view(crmm_resource **out)
{
    crmm_mem_pool pool = NULL;
    crmm_status status = crmm_get_default_mem_pool(0, &pool);

    return status != CRMM_SUCCESS ? status : crmm_cuda_async_view_memory_resource_create(pool, out);
}

static crmm_status create_current_view(crmm_resource **out)
{
    crmm_mem_pool pool = NULL;
    crmm_status status = crmm_get_current_mem_pool(0, &pool);

    return status != CRMM_SUCCESS ? status : crmm_cuda_async_view_memory_resource_create(pool, out);
}

/* Over cuda, with a bin of its own and one that is another resource's. */
static crmm_status create_given_bins(crmm_resource **out)
{
    crmm_resource *made = NULL;

    crmm_status status =
        crmm_binning_memory_resource_create(crmm_cuda_memory_resource(), NULL, &made);
    if (status == CRMM_SUCCESS) {
        status = crmm_binning_memory_resource_add_bin(made, 512, NULL);
    }
    if (status == CRMM_SUCCESS) {
        status = crmm_binning_memory_resource_add_bin(made, (size_t)8 * MIB,
                                                      crmm_managed_memory_resource());
    }
    if (status != CRMM_SUCCESS) {
        crmm_resource_release(&made);
    }
    *out = made;
    return status;
}

static crmm_status call_allocate(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                                 void *user_data)
{
    return crmm_allocate(user_data, stream, bytes, alignment, ptr);
}

static void call_deallocate(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                            void *user_data)
{
    crmm_deallocate(user_data, stream, ptr, bytes, alignment);
}

static crmm_status create_callback(crmm_resource **out)
{
    static const crmm_callbacks callbacks = {
        .struct_size = sizeof(callbacks),
        .properties = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED,
        .allocate = call_allocate,
        .deallocate = call_deallocate,
    };
    return crmm_callback_memory_resource_create(&callbacks, crmm_cuda_memory_resource(), out);
}

/* ---- the rows ---- */

/* The preallocation of the kin of pools is left out, so that CUDA is called where it can fail. */
#define NO_BLOCKS "blocks_to_preallocate=18446744073709551615"

const row rows[] = {
    {.name = "cuda", .spec = "cuda", .most_alignment = 256},
    {.name = "managed", .spec = "managed", .most_alignment = 256},
    {.name = "malloc", .spec = "malloc", .most_alignment = ANY_ALIGNMENT, .has_its_own = true},
    {.name = "pinned_host", .spec = "pinned_host", .most_alignment = 256},
    {.name = "pinned_host, created", .spec = "pinned_host:touch_threads=1", .most_alignment = 256},
    {.name = "pinned_host, pageable if need be",
     .spec = "pinned_host:fallback_to_pageable=1",
     .most_alignment = 256,
     .falls_back = true,
     .has_its_own = true},
    {.name = "system",
     .create = create_system,
     .most_alignment = ANY_ALIGNMENT,
     .has_its_own = true},
    {.name = "sam_headroom",
     .create = create_sam_headroom,
     .most_alignment = ANY_ALIGNMENT,
     .has_its_own = true},
    {.name = "callback", .create = create_callback, .most_alignment = 256},
    {.name = "cuda_async", .spec = "cuda_async", .most_alignment = 256, .is_captured = true},
    {.name = "cuda_async_view", .create = create_view, .most_alignment = 256, .is_captured = true},
    {.name = "cuda_async_view, current pool",
     .create = create_current_view,
     .most_alignment = 256,
     .is_captured = true},
    {.name = "cuda_async_managed",
     .spec = "cuda_async_managed",
     .most_alignment = 256,
     .is_captured = true},
    {.name = "vmm", .spec = "vmm", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool", .spec = "pool", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool over cuda", .spec = "pool+cuda", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool over pinned_host", .spec = "pool+pinned_host", .most_alignment = ANY_ALIGNMENT},
    {.name = "pool over malloc",
     .spec = "pool+malloc",
     .most_alignment = ANY_ALIGNMENT,
     .has_its_own = true},
    {.name = "fixed_size", .spec = "fixed_size:block_size=4MiB," NO_BLOCKS, .most_alignment = 256},
    {.name = "binning",
     .spec = "binning:min_size_exponent=8,max_size_exponent=20," NO_BLOCKS,
     .most_alignment = 256,
     .forgets = true},
    {.name = "binning, given bins",
     .create = create_given_bins,
     .most_alignment = 256,
     .forgets = true,
     .keeper = crmm_managed_memory_resource},
    {.name = "arena",
     .spec = "arena:arena_size=64MiB",
     .most_alignment = ANY_ALIGNMENT,
     .has_its_own = true},
    {.name = "aligned", .spec = "aligned", .most_alignment = ANY_ALIGNMENT},
    {.name = "failure_callback", .spec = "failure_callback:attempts=1", .most_alignment = 256},
    {.name = "fault_injection", .spec = "fault_injection", .most_alignment = 256},
    {.name = "limiting",
     .spec = "limiting:allocation_limit=1GiB",
     .most_alignment = 256,
     .too_much = CRMM_ERROR_LIMIT_EXCEEDED,
     .forgets = true},
    {.name = "prefetch over managed", .spec = "prefetch+managed", .most_alignment = 256},
    {.name = "thread_safe", .spec = "thread_safe", .most_alignment = 256},
    {.name = "statistics", .spec = "statistics", .most_alignment = 256},
    {.name = "tracking", .spec = "tracking", .most_alignment = 256, .forgets = true},
    {.name = "logging", .spec = "logging:file_name=/dev/null", .most_alignment = 256},
    {.name = "nvtx", .spec = "nvtx:on=1", .most_alignment = 256},
};

const size_t row_count = sizeof(rows) / sizeof(rows[0]);

/* ---- making them ---- */

void every_resource_set_up(void)
{
#ifdef CUDART_EMULATED
    (void)cudart_emulated_set_devices(2);
    (void)cudart_emulated_set_attribute(-1, cudaDevAttrPageableMemoryAccess, 1);
#endif
}

crmm_status every_resource_make(const row *of, crmm_resource **out, char why[WHY])
{
    crmm_resource *mr = NULL;
    crmm_status status = CRMM_SUCCESS;

    *out = NULL;
    if (of->spec != NULL) {
        spec parsed;
        problem unknown;
        if (!spec_parse(of->spec, &parsed, &unknown)) {
            (void)snprintf(why, WHY, "not in this build");
            return CRMM_SUCCESS;
        }
        status = spec_create(&parsed, &mr);
    } else {
        status = of->create(&mr);
    }
    /* The shared objects say at an allocation what the device lacks. */
    void *ptr = NULL;
    if (status == CRMM_SUCCESS && crmm_allocate_sync(mr, 1, 1, &ptr) == CRMM_ERROR_UNSUPPORTED) {
        status = CRMM_ERROR_UNSUPPORTED;
    }
    crmm_deallocate_sync(mr, ptr, 1, 1);
    if (status != CRMM_SUCCESS) {
        crmm_resource_release(&mr);
        (void)snprintf(why, WHY, "not on this device");
    }
    *out = mr;
    return status == CRMM_ERROR_UNSUPPORTED ? CRMM_SUCCESS : status;
}
