/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/pinned_host_memory_resource.h>

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/held.h>
#include <crmm/internal/leaf.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/options.h>

#include "host_pages.h"

static const char class_name[] = "pinned_host_memory_resource";

/* ---- the shared object ---- */

static crmm_status shared_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    (void)leaf;
    (void)alignment; /* cudaHostAlloc gives CRMM_DEVICE_ALIGNMENT at least */
    return crmm_priv_cuda_host_alloc(class_name, bytes, false, ptr);
}

static int shared_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    (void)leaf;
    return crmm_priv_cuda_host_free(ptr, bytes);
}

static const crmm_priv_leaf_calls shared_calls = {
    .allocate = shared_allocate,
    .deallocate = shared_free,
    .largest_alignment = CRMM_DEVICE_ALIGNMENT,
    .free_name = "cudaFreeHost",
    .wait_first = true,
};

static const crmm_resource_ops shared_ops = CRMM_PRIV_LEAF_OPS;

static crmm_priv_leaf_state shared_state = CRMM_PRIV_LEAF_STATE_INITIALIZER;

static crmm_priv_leaf shared = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&shared_ops, class_name,
                                    CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE |
                                        CRMM_STREAM_ORDERED),
    .calls = &shared_calls,
    .state = &shared_state,
};

crmm_resource *crmm_pinned_host_memory_resource(void)
{
    return &shared.base;
}

/* ---- objects with options ---- */

enum { MOST_THREADS = 1024 };

typedef struct pinned_resource {
    crmm_priv_leaf leaf;
    crmm_priv_leaf_state state; /* each has its own: a block goes back the way it came */
    crmm_priv_books held;       /* in whole pages, where they are mapped here */
    size_t node;                /* CRMM_NUMA_NODE(); 0: not placed here */
    size_t touch_threads;
    bool write_combined;
    bool fallback;
    int refusal; /* errno of a system that does not place pages; 0: it does */
    size_t fallback_count;
    crmm_priv_lock lock; /* for what follows */
    void *pageable;      /* blocks that are not locked: a tree of their addresses */
    size_t pageable_count;
} pinned_resource;

/* ---- blocks that are not locked ---- */

static int compare_addresses(const void *a, const void *b)
{
    return ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b);
}

/* false: no memory to remember it. */
static bool remember_pageable(pinned_resource *own, void *pages, size_t extent)
{
    crmm_priv_lock_acquire(&own->lock);
    bool known = tsearch(pages, &own->pageable, compare_addresses) != NULL;
    if (known) {
        (void)__atomic_fetch_add(&own->pageable_count, 1, __ATOMIC_RELAXED);
    }
    crmm_priv_lock_release(&own->lock);
    if (known) {
        (void)__atomic_fetch_add(&own->fallback_count, 1, __ATOMIC_RELAXED);
        crmm_priv_held_add(extent);
        crmm_priv_books_add(&own->held, extent);
    }
    return known;
}

/* Give a block back if it is one of these. */
static bool free_pageable(pinned_resource *own, void *ptr, size_t bytes)
{
    size_t extent = crmm_priv_pages_extent(bytes);

    /* Whoever gives a block back has it from an allocation that came before. */
    if (__atomic_load_n(&own->pageable_count, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    crmm_priv_lock_acquire(&own->lock);
    bool known = tdelete(ptr, &own->pageable, compare_addresses) != NULL;
    if (known) {
        (void)__atomic_fetch_sub(&own->pageable_count, 1, __ATOMIC_RELAXED);
    }
    crmm_priv_lock_release(&own->lock);
    if (known) {
        crmm_priv_held_subtract(extent);
        crmm_priv_books_subtract(&own->held, extent);
        crmm_priv_pages_unmap(ptr, extent);
    }
    return known;
}

/* After locking has failed: pageable memory if that is allowed and there is any; else the failure
 * stays as it is on record. `before` is the record of a success. */
static crmm_status fall_back(pinned_resource *own, crmm_status status, void *pages, size_t extent,
                             const crmm_error *before)
{
    if (!own->fallback || pages == NULL || status == CRMM_ERROR_FORKED ||
        !remember_pageable(own, pages, extent)) {
        return status;
    }
    crmm_priv_restore_error(before);
    return CRMM_SUCCESS;
}

/* ---- memory that the driver places ---- */

static crmm_status driver_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    pinned_resource *own = (pinned_resource *)leaf;
    const crmm_error before = *crmm_last_error();
    size_t extent = crmm_priv_pages_extent(bytes);

    (void)alignment;
    crmm_status status = crmm_priv_cuda_host_alloc(class_name, bytes, own->write_combined, ptr);
    if (status == CRMM_SUCCESS) {
        crmm_priv_books_add(&own->held, bytes);
        return status;
    }
    void *pages = own->fallback ? crmm_priv_pages_map(extent) : NULL;
    status = fall_back(own, status, pages, extent, &before);
    if (status == CRMM_SUCCESS) {
        *ptr = pages;
    } else if (pages != NULL) {
        crmm_priv_pages_unmap(pages, extent);
    }
    return status;
}

static int driver_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    pinned_resource *own = (pinned_resource *)leaf;

    if (free_pageable(own, ptr, bytes)) {
        return 0;
    }
    int code = crmm_priv_cuda_host_free(ptr, bytes);
    if (code == 0) {
        crmm_priv_books_subtract(&own->held, bytes);
    }
    return code;
}

static const crmm_priv_leaf_calls driver_calls = {
    .allocate = driver_allocate,
    .deallocate = driver_free,
    .largest_alignment = CRMM_DEVICE_ALIGNMENT,
    .free_name = "cudaFreeHost",
    .wait_first = true,
};

/* ---- memory that is placed here ---- */

static void place(pinned_resource *own, void *pages, size_t extent)
{
    if (own->node != 0) {
        int code = crmm_priv_pages_prefer_node(pages, extent, own->node - 1);
        if (code != 0) {
            __atomic_store_n(&own->refusal, code, __ATOMIC_RELAXED);
        }
    }
    crmm_priv_pages_touch(pages, extent, own->touch_threads);
}

static crmm_status placed_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr)
{
    pinned_resource *own = (pinned_resource *)leaf;
    const crmm_error before = *crmm_last_error();
    size_t extent = crmm_priv_pages_extent(bytes);

    (void)alignment;
    void *pages = crmm_priv_pages_map(extent);
    if (pages == NULL) {
        int code = errno;
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, code, bytes,
                          "%s: %zu bytes from the system failed: %s", class_name, bytes,
                          strerror(code));
    }
    place(own, pages, extent);
    crmm_status status = crmm_priv_cuda_host_register(class_name, pages, extent);
    if (status == CRMM_SUCCESS) {
        crmm_priv_books_add(&own->held, extent);
    } else {
        status = fall_back(own, status, pages, extent, &before);
    }
    if (status != CRMM_SUCCESS) {
        crmm_priv_pages_unmap(pages, extent);
        return status;
    }
    *ptr = pages;
    return CRMM_SUCCESS;
}

static int placed_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    pinned_resource *own = (pinned_resource *)leaf;
    size_t extent = crmm_priv_pages_extent(bytes);

    if (free_pageable(own, ptr, bytes)) {
        return 0;
    }
    int code = crmm_priv_cuda_host_unregister(ptr, extent);
    if (code == 0) {
        crmm_priv_books_subtract(&own->held, extent);
        crmm_priv_pages_unmap(ptr, extent);
    }
    return code;
}

static const crmm_priv_leaf_calls placed_calls = {
    .allocate = placed_allocate,
    .deallocate = placed_free,
    .largest_alignment = CRMM_DEVICE_ALIGNMENT,
    .free_name = "cudaHostUnregister",
    .wait_first = true,
};

/* ---- the other operations ---- */

static void ignore_node(void *address)
{
    (void)address; /* the block stays: somebody may use it */
}

static void pinned_destroy(crmm_resource *resource)
{
    pinned_resource *own = (pinned_resource *)resource;

    crmm_priv_leaf_finish(&own->leaf);
    tdestroy(own->pageable, ignore_node);
    crmm_priv_lock_forget(&own->lock);
    crmm_resource_storage_free(resource);
}

static crmm_status pinned_info(const crmm_resource *resource, crmm_memory_info *info)
{
    const pinned_resource *own = (const pinned_resource *)resource;
    crmm_memory_info held = {0};

    crmm_priv_books_info(&own->state.books, info);
    crmm_priv_books_info(&own->held, &held);
    info->held = held.live;
    info->peak_held = held.peak_live;
    return CRMM_SUCCESS;
}

static void describe_place(const pinned_resource *own, char *text, size_t size)
{
    int refusal = __atomic_load_n(&own->refusal, __ATOMIC_RELAXED);

    if (own->node == 0) {
        (void)snprintf(text, size, "no NUMA node");
    } else if (refusal == 0) {
        (void)snprintf(text, size, "NUMA node %zu", own->node - 1);
    } else {
        (void)snprintf(text, size, "NUMA node %zu, refused by the system: %s", own->node - 1,
                       strerror(refusal));
    }
}

static size_t pinned_describe(const crmm_resource *resource, char *text, size_t size)
{
    const pinned_resource *own = (const pinned_resource *)resource;
    char where[128];
    char fallback[64] = "";

    describe_place(own, where, sizeof(where));
    if (own->fallback) {
        (void)snprintf(fallback, sizeof(fallback), ", %zu allocations pageable",
                       __atomic_load_n(&own->fallback_count, __ATOMIC_RELAXED));
    }
    return (size_t)snprintf(text, size, "%s (device %d, %s%s, %zu touch threads%s)", class_name,
                            crmm_resource_device(resource), where,
                            own->write_combined ? ", write-combined" : "", own->touch_threads,
                            fallback);
}

static const crmm_resource_ops pinned_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_leaf_allocate_sync,
    .deallocate_sync = crmm_priv_leaf_deallocate_sync,
    .destroy = pinned_destroy,
    .allocate = crmm_priv_leaf_allocate,
    .deallocate = crmm_priv_leaf_deallocate,
    .trim = crmm_priv_leaf_trim,
    .info = pinned_info,
    .describe = pinned_describe,
};

/* ---- creation ---- */

static crmm_status check_options(const crmm_pinned_host_memory_resource_options *options)
{
    if (options->numa_node > CRMM_PRIV_PAGES_MOST_NODES) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->numa_node is CRMM_NUMA_NODE(%zu); nodes are 0 to %d", class_name,
                    options->numa_node - 1, CRMM_PRIV_PAGES_MOST_NODES - 1);
    }
    if (options->touch_threads > MOST_THREADS) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->touch_threads is %zu, more than %d", class_name,
                    options->touch_threads, MOST_THREADS);
    }
    if (options->write_combined > 1 || options->fallback_to_pageable > 1) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: options->%s is neither 0 nor 1",
                    class_name,
                    options->write_combined > 1 ? "write_combined" : "fallback_to_pageable");
    }
    if (options->write_combined == 1 && (options->numa_node != 0 || options->touch_threads != 0)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->%s has no meaning with write_combined: the driver places the "
                    "memory",
                    class_name, options->numa_node != 0 ? "numa_node" : "touch_threads");
    }
    return CRMM_SUCCESS;
}

/* Whether the device can use memory that is mapped and locked here, at the same addresses. */
static crmm_status ask_registers(int device, bool *registers)
{
    bool same_address = false;

    crmm_status status =
        crmm_priv_cuda_device_can(class_name, device, CRMM_PRIV_CUDA_HOST_REGISTER, registers);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_device_can(class_name, device,
                                           CRMM_PRIV_CUDA_REGISTERED_HOST_POINTER, &same_address);
        *registers = *registers && same_address;
    }
    return status;
}

/* Where memory comes from, and how it is placed. */
static crmm_status choose_way(pinned_resource *own, int device)
{
    bool registers = false;
    int nearest = -1;

    own->leaf.calls = &driver_calls;
    if (own->write_combined) {
        return CRMM_SUCCESS;
    }
    crmm_status status = ask_registers(device, &registers);
    if (status == CRMM_SUCCESS && registers && own->node == 0) {
        status = crmm_priv_cuda_host_node(class_name, device, &nearest);
        own->node =
            nearest < 0 || nearest >= CRMM_PRIV_PAGES_MOST_NODES ? 0 : CRMM_NUMA_NODE(nearest);
    }
    if (status == CRMM_SUCCESS && registers && (own->node != 0 || own->touch_threads != 0)) {
        own->leaf.calls = &placed_calls;
    } else {
        own->node = 0;
        own->touch_threads = 0;
    }
    return status;
}

static crmm_properties properties_of(const crmm_pinned_host_memory_resource_options *options,
                                     int device)
{
    crmm_properties all = CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED;

    if (options->fallback_to_pageable == 1 && !crmm_priv_cuda_reaches_pageable(device)) {
        all &= ~(crmm_properties)CRMM_DEVICE_ACCESSIBLE;
    }
    return all;
}

static crmm_status create(int device, const crmm_pinned_host_memory_resource_options *options,
                          crmm_resource **out)
{
    pinned_resource *created = crmm_resource_storage_allocate(sizeof(*created));

    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    crmm_resource_init(&created->leaf.base, &pinned_ops, class_name,
                       properties_of(options, device));
    crmm_resource_bind_device(&created->leaf.base, device);
    created->leaf.state = &created->state;
    created->state = (crmm_priv_leaf_state)CRMM_PRIV_LEAF_STATE_INITIALIZER;
    created->lock = (crmm_priv_lock)CRMM_PRIV_LOCK_INITIALIZER;
    created->node = options->numa_node;
    created->touch_threads = options->touch_threads;
    created->write_combined = options->write_combined == 1;
    created->fallback = options->fallback_to_pageable == 1;

    crmm_status status = choose_way(created, device);
    if (status != CRMM_SUCCESS) {
        pinned_destroy(&created->leaf.base);
        return status;
    }
    *out = &created->leaf.base;
    return CRMM_SUCCESS;
}

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_pinned_host_memory_resource_options) ==
                   3 * sizeof(size_t) + 2 * sizeof(uint64_t),
               "options structs have no padding");

void crmm_pinned_host_memory_resource_options_init(
    crmm_pinned_host_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

crmm_status crmm_pinned_host_memory_resource_create(
    const crmm_pinned_host_memory_resource_options *options, crmm_resource **out)
{
    crmm_pinned_host_memory_resource_options known;
    int device = -1;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    status = check_options(&known);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_current_device(&device);
    }
    return status != CRMM_SUCCESS ? status : create(device, &known, out);
}

size_t crmm_pinned_host_memory_resource_fallback_count(const crmm_resource *resource)
{
    return crmm_priv_check_class("crmm_pinned_host_memory_resource_fallback_count", resource,
                                 &pinned_ops)
               ? __atomic_load_n(&((const pinned_resource *)resource)->fallback_count,
                                 __ATOMIC_RELAXED)
               : 0;
}
