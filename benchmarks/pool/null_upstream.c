/* SPDX-License-Identifier: Apache-2.0 */
#include "null_upstream.h"

#include <stdint.h>
#include <sys/mman.h>

#include <crmm/core/alignment.h>
#include <crmm/interfaces/resource.h>

/* That of physical memory on a device. */
enum { GRANULARITY = 2 << 20 };

typedef struct null_upstream {
    struct crmm_resource base;
    size_t most_bytes;
    size_t held, peak_held;
    size_t allocations;
} null_upstream;

static crmm_status out_of_memory(void)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "null_upstream: no more room");
}

/* ---- books ---- */

static crmm_status take(null_upstream *own, size_t bytes)
{
    size_t held = __atomic_add_fetch(&own->held, bytes, __ATOMIC_RELAXED);
    size_t peak = __atomic_load_n(&own->peak_held, __ATOMIC_RELAXED);

    if (held > own->most_bytes) {
        (void)__atomic_sub_fetch(&own->held, bytes, __ATOMIC_RELAXED);
        return out_of_memory();
    }
    while (held > peak && !__atomic_compare_exchange_n(&own->peak_held, &peak, held, false,
                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    (void)__atomic_add_fetch(&own->allocations, 1, __ATOMIC_RELAXED);
    return CRMM_SUCCESS;
}

static void put_back(null_upstream *own, size_t bytes)
{
    (void)__atomic_sub_fetch(&own->held, bytes, __ATOMIC_RELAXED);
    (void)__atomic_sub_fetch(&own->allocations, 1, __ATOMIC_RELAXED);
}

/* ---- address space ---- */

static crmm_status map_addresses(size_t bytes, size_t alignment, void **base)
{
    size_t slack = alignment > GRANULARITY ? alignment : GRANULARITY;
    char *got =
        mmap(NULL, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (got == MAP_FAILED) {
        return out_of_memory();
    }
    /* Cut to the aligned part. */
    size_t front = (slack - (uintptr_t)got % slack) % slack;
    if (front != 0) {
        (void)munmap(got, front);
    }
    if (slack != front) {
        (void)munmap(got + front + bytes, slack - front);
    }
    *base = got + front;
    return CRMM_SUCCESS;
}

/* ---- blocks ---- */

static crmm_status null_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    null_upstream *own = (null_upstream *)resource;
    size_t extent = crmm_align_up(bytes, GRANULARITY);

    crmm_status status = take(own, extent);
    if (status == CRMM_SUCCESS) {
        status = map_addresses(extent, alignment, ptr);
        if (status != CRMM_SUCCESS) {
            put_back(own, extent);
        }
    }
    return status;
}

static void null_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    size_t extent = crmm_align_up(bytes, GRANULARITY);

    (void)alignment;
    (void)munmap(ptr, extent);
    put_back((null_upstream *)resource, extent);
}

static crmm_status null_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    (void)stream;
    return null_allocate_sync(resource, bytes, alignment, ptr);
}

static void null_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    (void)stream;
    null_deallocate_sync(resource, ptr, bytes, alignment);
}

/* ---- growing in place ---- */

static crmm_status null_reserve(crmm_resource *resource, size_t bytes, size_t alignment,
                                void **base)
{
    (void)resource;
    return map_addresses(crmm_align_up(bytes, GRANULARITY), alignment, base);
}

static crmm_status null_commit(crmm_resource *resource, void *ptr, size_t bytes)
{
    (void)ptr;
    return take((null_upstream *)resource, bytes);
}

static crmm_status null_decommit(crmm_resource *resource, void *ptr, size_t bytes)
{
    (void)ptr;
    put_back((null_upstream *)resource, bytes);
    return CRMM_SUCCESS;
}

static crmm_status null_unreserve(crmm_resource *resource, void *base, size_t bytes)
{
    (void)resource;
    (void)munmap(base, crmm_align_up(bytes, GRANULARITY));
    return CRMM_SUCCESS;
}

/* ---- moving ----
 * What is held stays the same, and where it is seen is nobody's business here. */

static crmm_status null_move_begin(crmm_resource *resource, void *to, const void *from,
                                   size_t bytes)
{
    (void)resource;
    (void)to;
    (void)from;
    (void)bytes;
    return CRMM_SUCCESS;
}

static crmm_status null_move_end(crmm_resource *resource, void *from, size_t bytes)
{
    (void)resource;
    (void)from;
    (void)bytes;
    return CRMM_SUCCESS;
}

/* ---- the class ---- */

static void null_destroy(crmm_resource *resource)
{
    crmm_resource_storage_free(resource);
}

static crmm_status null_info(const crmm_resource *resource, crmm_memory_info *info)
{
    const null_upstream *own = (const null_upstream *)resource;

    info->live = info->held = __atomic_load_n(&own->held, __ATOMIC_RELAXED);
    info->peak_live = info->peak_held = __atomic_load_n(&own->peak_held, __ATOMIC_RELAXED);
    info->allocations = __atomic_load_n(&own->allocations, __ATOMIC_RELAXED);
    return CRMM_SUCCESS;
}

/* The slots that both forms have. */
#define BLOCK_SLOTS                                                                              \
    .struct_size = sizeof(crmm_resource_ops), .allocate_sync = null_allocate_sync,               \
    .deallocate_sync = null_deallocate_sync, .destroy = null_destroy, .allocate = null_allocate, \
    .deallocate = null_deallocate, .info = null_info

static const crmm_resource_ops block_ops = {BLOCK_SLOTS};

static const crmm_resource_ops in_place_ops = {
    BLOCK_SLOTS,
    .reserve = null_reserve,
    .commit = null_commit,
    .decommit = null_decommit,
    .unreserve = null_unreserve,
    .move_begin = null_move_begin,
    .move_end = null_move_end,
};

crmm_resource *null_upstream_create(size_t most_bytes, bool in_place)
{
    null_upstream *created = crmm_resource_storage_allocate(sizeof(*created));

    if (created == NULL) {
        return NULL;
    }
    crmm_resource_init(&created->base, in_place ? &in_place_ops : &block_ops, "null_upstream",
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_bind_device(&created->base, 0);
    created->most_bytes = most_bytes;
    return &created->base;
}
