/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/vmm_memory_resource.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_vmm.h>
#include <crmm/internal/leaf.h>
#include <crmm/internal/options.h>

#include "peers.h"
#include "per_device_resource.h"
#include "vmm_memory_resource.h"

static const char class_name[] = "vmm_memory_resource";

enum { LARGEST_ALIGNMENT = 1 << 30 };

typedef struct vmm_resource {
    crmm_priv_leaf leaf;
    crmm_priv_leaf_state state; /* no two of these are equal, so each has its own */
    crmm_priv_books held;       /* what is mapped, in handles */
    crmm_priv_vmm_kind kind;
    int *devices; /* what kind.devices points to */
    size_t granularity;
    size_t handle_size; /* 0: each block, and each commit, is one handle */
} vmm_resource;

/* ---- mapping ---- */

/* What a block takes: a multiple of the granularity. Requests are at most PTRDIFF_MAX. */
static size_t extent_of(const vmm_resource *own, size_t bytes)
{
    return crmm_align_up(bytes, own->granularity);
}

/* Put memory behind a range, handle by handle; all of it or none. */
static crmm_status map_range(vmm_resource *own, char *base, size_t bytes)
{
    size_t step = own->handle_size != 0 ? own->handle_size : bytes;
    size_t done = 0;

    while (done < bytes) {
        size_t part = bytes - done < step ? bytes - done : step;
        crmm_status status = crmm_priv_vmm_map(class_name, &own->kind, base + done, part);
        if (status != CRMM_SUCCESS) {
            if (done > 0) {
                (void)crmm_priv_vmm_unmap(base, done, done);
            }
            return status;
        }
        done += part;
    }
    crmm_priv_books_add(&own->held, bytes);
    return CRMM_SUCCESS;
}

/* Take a range's memory away, all of which is mapped. */
static int unmap_range(vmm_resource *own, void *base, size_t bytes)
{
    int code = crmm_priv_vmm_unmap(base, bytes, bytes);

    if (code == 0) {
        crmm_priv_books_subtract(&own->held, bytes);
    }
    return code;
}

static crmm_status vmm_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    vmm_resource *own = (vmm_resource *)leaf;
    size_t extent = extent_of(own, bytes);
    void *base = NULL;

    crmm_status status = crmm_priv_vmm_reserve(
        class_name, extent, alignment > own->granularity ? alignment : own->granularity, &base);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = map_range(own, base, extent);
    if (status != CRMM_SUCCESS) {
        (void)crmm_priv_vmm_unreserve(base, extent);
        return status;
    }
    *ptr = base;
    return CRMM_SUCCESS;
}

static int vmm_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    vmm_resource *own = (vmm_resource *)leaf;
    size_t extent = extent_of(own, bytes);
    int code = unmap_range(own, ptr, extent);

    return code != 0 ? code : crmm_priv_vmm_unreserve(ptr, extent);
}

static const crmm_priv_leaf_calls vmm_calls = {
    .allocate = vmm_allocate,
    .deallocate = vmm_free,
    .largest_alignment = LARGEST_ALIGNMENT,
    .free_name = "cuMemUnmap",
    .wait_first = true,
};

/* ---- growing in place ---- */

/* Ranges for these are the caller's to keep whole: multiples of the granularity. */
static crmm_status check_range(const vmm_resource *own, const char *call, const void *ptr,
                               size_t bytes)
{
    if (bytes == 0 || !crmm_is_pointer_aligned(ptr, own->granularity) ||
        !crmm_is_aligned(bytes, own->granularity)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: %s of %zu bytes at %p is no multiple of the granularity %zu", class_name,
                    call, bytes, ptr, own->granularity);
    }
    return CRMM_SUCCESS;
}

static crmm_status vmm_reserve(crmm_resource *resource, size_t bytes, size_t alignment, void **base)
{
    const vmm_resource *own = (const vmm_resource *)resource;

    crmm_status status = check_range(own, "reserve", NULL, bytes);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (alignment > LARGEST_ALIGNMENT) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: alignment %zu is more than the %d it gives", class_name, alignment,
                          LARGEST_ALIGNMENT);
    }
    return crmm_priv_vmm_reserve(class_name, bytes,
                                 alignment > own->granularity ? alignment : own->granularity, base);
}

static crmm_status vmm_commit(crmm_resource *resource, void *ptr, size_t bytes)
{
    vmm_resource *own = (vmm_resource *)resource;

    crmm_status status = check_range(own, "commit", ptr, bytes);
    return status != CRMM_SUCCESS ? status : map_range(own, ptr, bytes);
}

static crmm_status vmm_decommit(crmm_resource *resource, void *ptr, size_t bytes)
{
    vmm_resource *own = (vmm_resource *)resource;

    crmm_status status = check_range(own, "decommit", ptr, bytes);
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_cuda_check("cuMemUnmap", unmap_range(own, ptr, bytes));
}

static crmm_status vmm_unreserve(crmm_resource *resource, void *base, size_t bytes)
{
    crmm_status status = check_range((const vmm_resource *)resource, "unreserve", base, bytes);
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_cuda_check("cuMemAddressFree", crmm_priv_vmm_unreserve(base, bytes));
}

/* ---- moving to another address ---- */

static crmm_status check_move(const vmm_resource *own, const void *to, const void *from,
                              size_t bytes)
{
    uintptr_t a = (uintptr_t)to;
    uintptr_t b = (uintptr_t)from;

    crmm_status status = check_range(own, "move_begin", from, bytes);
    if (status == CRMM_SUCCESS) {
        status = check_range(own, "move_begin", to, bytes);
    }
    if (status == CRMM_SUCCESS && (a > b ? a - b : b - a) < bytes) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: move_begin of %zu bytes from %p to %p, which overlap", class_name, bytes,
                    from, to);
    }
    return status;
}

static crmm_status vmm_move_begin(crmm_resource *resource, void *to, const void *from, size_t bytes)
{
    const vmm_resource *own = (const vmm_resource *)resource;
    size_t step = own->handle_size != 0 ? own->handle_size : bytes;
    size_t done = 0;

    crmm_status status = check_move(own, to, from, bytes);
    while (status == CRMM_SUCCESS && done < bytes) {
        size_t part = bytes - done < step ? bytes - done : step;
        status = crmm_priv_vmm_map_again((char *)to + done, (const char *)from + done, part);
        done += status == CRMM_SUCCESS ? part : 0;
    }
    if (status == CRMM_SUCCESS) {
        /* For all handles at once, since this is what costs. */
        status = crmm_priv_vmm_give_access(&own->kind, to, bytes);
    }
    if (status != CRMM_SUCCESS && done > 0) {
        (void)crmm_priv_vmm_unmap(to, done, 0);
    }
    return status;
}

static crmm_status vmm_move_end(crmm_resource *resource, void *from, size_t bytes)
{
    crmm_status status = check_range((const vmm_resource *)resource, "move_end", from, bytes);
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_cuda_check("cuMemUnmap", crmm_priv_vmm_unmap(from, bytes, 0));
}

/* ---- the other operations ---- */

static void vmm_destroy(crmm_resource *resource)
{
    vmm_resource *own = (vmm_resource *)resource;

    crmm_priv_leaf_finish(&own->leaf);
    free(own->devices);
    crmm_resource_storage_free(resource);
}

static crmm_status vmm_info(const crmm_resource *resource, crmm_memory_info *info)
{
    const vmm_resource *own = (const vmm_resource *)resource;
    crmm_memory_info held = {0};

    crmm_priv_books_info(&own->state.books, info);
    crmm_priv_books_info(&own->held, &held);
    info->held = held.live;
    info->peak_held = held.peak_live;
    return CRMM_SUCCESS;
}

static size_t vmm_describe(const crmm_resource *resource, char *text, size_t size)
{
    const vmm_resource *own = (const vmm_resource *)resource;

    return (size_t)snprintf(
        text, size, "%s (device %d, granularity %zu, handle size %zu, %zu devices)", class_name,
        own->kind.device, own->granularity, own->handle_size, own->kind.device_count);
}

static const crmm_resource_ops vmm_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_leaf_allocate_sync,
    .deallocate_sync = crmm_priv_leaf_deallocate_sync,
    .destroy = vmm_destroy,
    .allocate = crmm_priv_leaf_allocate,
    .deallocate = crmm_priv_leaf_deallocate,
    .trim = crmm_priv_leaf_trim,
    .info = vmm_info,
    .describe = vmm_describe,
    .reserve = vmm_reserve,
    .commit = vmm_commit,
    .decommit = vmm_decommit,
    .unreserve = vmm_unreserve,
    .move_begin = vmm_move_begin,
    .move_end = vmm_move_end,
};

/* ---- for suballocators ---- */

bool crmm_priv_is_vmm(const crmm_resource *resource)
{
    return resource->ops == &vmm_ops;
}

crmm_status crmm_priv_vmm_could_commit(const crmm_resource *resource, size_t bytes)
{
    const vmm_resource *own = (const vmm_resource *)resource;

    return crmm_priv_vmm_try(class_name, &own->kind, extent_of(own, bytes));
}

crmm_status crmm_priv_vmm_export_range(const char *who, const crmm_resource *resource, char *base,
                                       size_t bytes, const void *ptr, uint64_t handle_type,
                                       crmm_pool_export *out)
{
    const vmm_resource *own = (const vmm_resource *)resource;
    size_t extent = extent_of(own, bytes);
    size_t step = own->handle_size;
    size_t offset = (size_t)((const char *)ptr - base);
    size_t first = step != 0 ? offset / step * step : 0;
    size_t part = step != 0 && extent - first > step ? step : extent - first;
    unsigned char fabric[sizeof(out->fabric)] = {0};
    bool is_file = handle_type == CRMM_EXPORT_FILE_DESCRIPTOR;
    int descriptor = -1;

    if ((own->kind.handle_types & handle_type) == 0) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: %s was made with export_handle_type %llu, and handles of type %llu were "
                    "asked for",
                    who, class_name, (unsigned long long)own->kind.handle_types,
                    (unsigned long long)handle_type);
    }
    crmm_status status = crmm_priv_vmm_export(base + first, part, handle_type,
                                              is_file ? (void *)&descriptor : fabric);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    out->base = base + first;
    out->offset = offset - first;
    out->bytes = part;
    out->file_descriptor = descriptor;
    memcpy(out->fabric, fabric, sizeof(fabric));
    return CRMM_SUCCESS;
}

/* ---- in place of it, where the device has no such thing ---- */

typedef struct fallback_resource {
    struct crmm_resource base;
    crmm_resource *upstream; /* immortal */
} fallback_resource;

static crmm_resource *upstream_of(const crmm_resource *resource)
{
    return ((const fallback_resource *)resource)->upstream;
}

static crmm_status fallback_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    return crmm_allocate(upstream_of(resource), stream, bytes, alignment, ptr);
}

static void fallback_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    crmm_deallocate(upstream_of(resource), stream, ptr, bytes, alignment);
}

static crmm_status fallback_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    return crmm_allocate_sync(upstream_of(resource), bytes, alignment, ptr);
}

static void fallback_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    crmm_deallocate_sync(upstream_of(resource), ptr, bytes, alignment);
}

static size_t fallback_describe(const crmm_resource *resource, char *text, size_t size)
{
    int length = snprintf(text, size, "%s (device %d has no virtual memory management)", class_name,
                          crmm_resource_device(resource));
    return crmm_priv_describe_over(upstream_of(resource), text, size, (size_t)length);
}

static const crmm_resource_ops fallback_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = fallback_allocate_sync,
    .deallocate_sync = fallback_deallocate_sync,
    .destroy = crmm_resource_storage_free,
    .allocate = fallback_allocate,
    .deallocate = fallback_deallocate,
    .upstream = upstream_of,
    .describe = fallback_describe,
};

/* ---- creation ---- */

static crmm_status no_memory(void)
{
    return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
}

static crmm_status create_fallback(int device, crmm_resource **out)
{
    crmm_resource *upstream = NULL;

    crmm_status status = crmm_priv_initial_device_resource(device, &upstream);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    fallback_resource *created = crmm_resource_storage_allocate(sizeof(*created));
    if (created == NULL) {
        return no_memory();
    }
    crmm_resource_init(&created->base, &fallback_ops, class_name,
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&created->base, device);
    created->upstream = upstream;
    *out = &created->base;
    return CRMM_SUCCESS;
}

/* The device itself, then its peers. */
static crmm_status set_devices(vmm_resource *own, const crmm_vmm_memory_resource_options *options)
{
    own->devices = calloc(options->peer_device_count + 1, sizeof(*own->devices));
    if (own->devices == NULL) {
        return no_memory();
    }
    own->devices[0] = own->kind.device;
    own->kind.device_count = 1;
    for (size_t i = 0; i < options->peer_device_count; i++) {
        if (options->peer_devices[i] != own->kind.device) {
            own->devices[own->kind.device_count++] = options->peer_devices[i];
        }
    }
    own->kind.devices = own->devices;
    return CRMM_SUCCESS;
}

static crmm_status set_sizes(vmm_resource *own, size_t handle_size)
{
    crmm_status status = crmm_priv_vmm_granularity(&own->kind, &own->granularity);
    if (status != CRMM_SUCCESS || handle_size == 0) {
        return status;
    }
    own->handle_size = crmm_align_up(handle_size, own->granularity);
    if (own->handle_size == 0 || own->handle_size > PTRDIFF_MAX) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: options->handle_size %zu is more than can exist", class_name, handle_size);
    }
    return CRMM_SUCCESS;
}

static crmm_status create(int device, const crmm_vmm_memory_resource_options *options,
                          crmm_resource **out)
{
    vmm_resource *created = crmm_resource_storage_allocate(sizeof(*created));

    if (created == NULL) {
        return no_memory();
    }
    crmm_resource_init(&created->leaf.base, &vmm_ops, class_name,
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&created->leaf.base, device);
    created->leaf.calls = &vmm_calls;
    created->leaf.state = &created->state;
    created->state = (crmm_priv_leaf_state)CRMM_PRIV_LEAF_STATE_INITIALIZER;
    created->kind.device = device;
    created->kind.handle_types = options->export_handle_type;

    crmm_status status = set_devices(created, options);
    if (status == CRMM_SUCCESS) {
        status = set_sizes(created, options->handle_size);
    }
    if (status != CRMM_SUCCESS) {
        vmm_destroy(&created->leaf.base);
        return status;
    }
    *out = &created->leaf.base;
    return CRMM_SUCCESS;
}

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_vmm_memory_resource_options) == 6 * sizeof(size_t),
               "options structs have no padding");

void crmm_vmm_memory_resource_options_init(crmm_vmm_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

crmm_status crmm_vmm_memory_resource_create(const crmm_vmm_memory_resource_options *options,
                                            crmm_resource **out)
{
    crmm_vmm_memory_resource_options known;
    crmm_priv_vmm_kind kind = {0};

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    status = crmm_priv_cuda_current_device(&kind.device);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_check_peers(class_name, kind.device, known.peer_devices,
                                       known.peer_device_count);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    bool basic = crmm_priv_vmm_is_supported(&kind);
    kind.handle_types = known.export_handle_type;
    if (basic && crmm_priv_vmm_is_supported(&kind)) {
        return create(kind.device, &known, out);
    }
    if (basic) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: options->export_handle_type %llu is not supported by device %d",
                    class_name, (unsigned long long)known.export_handle_type, kind.device);
    }
    if (known.require != 0) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d has no virtual memory management",
                    class_name, kind.device);
    }
    return create_fallback(kind.device, out);
}
