/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/sam_headroom_memory_resource.h>

#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/device/system_memory_resource.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>
#include <crmm/internal/resource.h>

static const char class_name[] = "sam_headroom_memory_resource";

typedef struct sam_headroom {
    struct crmm_resource base;
    size_t headroom;
} sam_headroom;

/* ---- where pages should live ---- */

/* How much of a block fits the current device beside the headroom. */
static crmm_status share_of_device(const sam_headroom *own, size_t bytes, size_t *share)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    crmm_status status = crmm_priv_cuda_memory(&free_bytes, &total_bytes);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    size_t room = free_bytes > own->headroom ? free_bytes - own->headroom : 0;
    *share = crmm_align_down(room < bytes ? room : bytes, CRMM_DEVICE_ALIGNMENT);
    return CRMM_SUCCESS;
}

static crmm_status advise(const sam_headroom *own, char *ptr, size_t bytes)
{
    int device = crmm_resource_device(&own->base);
    int previous = -1;
    size_t share = 0;

    crmm_status status = crmm_priv_cuda_enter_device(device, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = share_of_device(own, bytes, &share);
    crmm_priv_cuda_leave_device(previous);
    if (status == CRMM_SUCCESS && share > 0) {
        status = crmm_priv_cuda_prefer_location(ptr, share, device);
    }
    if (status == CRMM_SUCCESS && share < bytes) {
        status = crmm_priv_cuda_prefer_location(ptr + share, bytes - share, CRMM_PRIV_HOST_DEVICE);
    }
    return status;
}

/* ---- operations ---- */

/* By the calls of the heap's own resource, which act on the device that is current, and whose
 * answers to captured streams and work that is pending hold here. */
static crmm_status allocate(crmm_resource *resource, bool is_sync, crmm_stream stream, size_t bytes,
                            size_t alignment, void **ptr)
{
    crmm_resource *upstream = crmm_system_memory_resource();
    void *memory = NULL;
    int previous = -1;

    crmm_status status = crmm_priv_cuda_enter_device(crmm_resource_device(resource), &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = is_sync ? crmm_allocate_sync(upstream, bytes, alignment, &memory)
                     : crmm_allocate(upstream, stream, bytes, alignment, &memory);
    crmm_priv_cuda_leave_device(previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = advise((const sam_headroom *)resource, memory, bytes);
    if (status != CRMM_SUCCESS) {
        crmm_deallocate_sync(upstream, memory, bytes, alignment);
        return status;
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

static crmm_status sam_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                     void **ptr)
{
    return allocate(resource, true, NULL, bytes, alignment, ptr);
}

static crmm_status sam_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                size_t alignment, void **ptr)
{
    return allocate(resource, false, stream, bytes, alignment, ptr);
}

static void sam_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    crmm_deallocate_sync(crmm_system_memory_resource(), ptr, bytes, alignment);
}

static void sam_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                           size_t alignment)
{
    int previous = -1;
    int code =
        crmm_priv_cuda_try_enter_for_stream(crmm_resource_device(resource), stream, &previous);

    if (code != 0) {
        crmm_priv_report((crmm_misuse){.kind = crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED
                                                                              : CRMM_MISUSE_CUDA,
                                       .native_code = code,
                                       .resource_name = class_name,
                                       .ptr = ptr,
                                       .bytes = bytes,
                                       .alignment = alignment},
                         "%s: device %d cannot be made current to free %p: %s (%s)", class_name,
                         crmm_resource_device(resource), ptr, crmm_priv_cuda_error_name(code),
                         crmm_priv_cuda_error_text(code));
        return;
    }
    crmm_deallocate(crmm_system_memory_resource(), stream, ptr, bytes, alignment);
    crmm_priv_cuda_leave_device(previous);
}

static bool sam_is_equal(const crmm_resource *resource, const crmm_resource *other)
{
    return ((const sam_headroom *)resource)->headroom == ((const sam_headroom *)other)->headroom &&
           crmm_resource_device(resource) == crmm_resource_device(other);
}

static crmm_resource *sam_upstream(const crmm_resource *resource)
{
    (void)resource;
    return crmm_system_memory_resource();
}

static size_t sam_describe(const crmm_resource *resource, char *text, size_t size)
{
    int length =
        snprintf(text, size, "%s (device %d, headroom %zu)", class_name,
                 crmm_resource_device(resource), ((const sam_headroom *)resource)->headroom);
    return crmm_priv_describe_over(crmm_system_memory_resource(), text, size, (size_t)length);
}

static const crmm_resource_ops sam_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = sam_allocate_sync,
    .deallocate_sync = sam_deallocate_sync,
    .destroy = crmm_resource_storage_free,
    .allocate = sam_allocate,
    .deallocate = sam_deallocate,
    .is_equal = sam_is_equal,
    .upstream = sam_upstream,
    .describe = sam_describe,
};

crmm_status crmm_sam_headroom_memory_resource_create(size_t headroom, crmm_resource **out)
{
    int device = 0;

    if (out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    crmm_status status = crmm_priv_cuda_current_device(&device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_cuda_reaches_pageable(device)) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d cannot reach pageable memory",
                    class_name, device);
    }
    sam_headroom *created = crmm_resource_storage_allocate(sizeof(*created));
    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    crmm_resource_init(&created->base, &sam_ops, class_name,
                       CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&created->base, device);
    created->headroom = headroom;
    *out = &created->base;
    return CRMM_SUCCESS;
}
