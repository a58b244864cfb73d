/* SPDX-License-Identifier: Apache-2.0 */
#include "mem_pool_resource.h"

#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_pool.h>
#include <crmm/internal/held.h>
#include <crmm/internal/report.h>
#include <crmm/internal/validate.h>

crmm_priv_mem_pool_resource *crmm_priv_mem_pool_resource_create(const char *name,
                                                                const crmm_resource_ops *ops,
                                                                crmm_properties properties,
                                                                int device)
{
    crmm_priv_mem_pool_resource *created = crmm_resource_storage_allocate(sizeof(*created));

    if (created == NULL) {
        (void)FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", name);
        return NULL;
    }
    crmm_resource_init(&created->base, ops, name, properties);
    crmm_resource_bind_device(&created->base, device);
    return created;
}

bool crmm_priv_is_mem_pool_resource(const crmm_resource *resource)
{
    return resource != NULL && resource->ops->allocate == crmm_priv_mem_pool_allocate;
}

/* ---- ledger ----
 * An owned pool is one resource's alone. Others may be seen through several resources that are
 * equal, so they share a ledger; addresses tell their pools apart. */

static crmm_priv_ledger shared_ledger = CRMM_PRIV_LEDGER_INITIALIZER;

void crmm_priv_mem_pool_adopt(crmm_priv_mem_pool_resource *own, crmm_mem_pool pool, bool owned)
{
    own->pool = pool;
    own->owned = owned;
    own->own_ledger = (crmm_priv_ledger)CRMM_PRIV_LEDGER_INITIALIZER;
    own->ledger = owned ? &own->own_ledger : &shared_ledger;
}

/* ---- allocation ---- */

/* The books of an allocation that was made. */
static crmm_status enter_in_books(crmm_priv_mem_pool_resource *own, crmm_stream stream,
                                  size_t bytes, size_t alignment, void *ptr)
{
    crmm_priv_pool_usage usage = {0};

    if (crmm_priv_validate() && !crmm_priv_ledger_add(own->ledger, ptr, bytes, alignment)) {
        (void)crmm_priv_cuda_pool_free(ptr, stream);
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: no host memory to keep the books of %zu bytes",
                          crmm_resource_name(&own->base), bytes);
    }
    crmm_priv_books_add(&own->books, bytes);
    if (!own->owned && crmm_priv_held_is_watched() &&
        crmm_priv_cuda_pool_usage(own->pool, &usage) == 0) {
        crmm_priv_raise_peak(&own->peak_held, usage.reserved);
    }
    return CRMM_SUCCESS;
}

/* Once more, after everything that is free has been given back: the driver does not always do that
 * by itself before it fails. A stream that is being captured cannot be waited for. */
static crmm_status allocate_after_trim(crmm_priv_mem_pool_resource *own, crmm_stream stream,
                                       size_t bytes, void **ptr)
{
    const char *who = crmm_resource_name(&own->base);
    bool capturing = true;

    if (crmm_priv_cuda_capturing(stream, &capturing) != 0 || capturing ||
        crmm_priv_cuda_wait(stream) != 0 || crmm_priv_cuda_pool_trim(own->pool, 0) != 0) {
        return CRMM_ERROR_OUT_OF_MEMORY; /* as it was described */
    }
    (void)__atomic_fetch_add(&own->retries, 1, __ATOMIC_RELAXED);
    return crmm_priv_cuda_pool_allocate(who, own->pool, stream, bytes, ptr);
}

crmm_status crmm_priv_mem_pool_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                        size_t alignment, void **ptr)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;
    const char *who = crmm_resource_name(resource);

    if (own->fallback != NULL) {
        return crmm_allocate(own->fallback, stream, bytes, alignment, ptr);
    }
    if (alignment > CRMM_DEVICE_ALIGNMENT) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: alignment %zu is more than the %d it gives", who, alignment,
                          CRMM_DEVICE_ALIGNMENT);
    }
    int previous = -1;
    int code =
        crmm_priv_cuda_try_enter_for_stream(crmm_resource_device(resource), stream, &previous);
    if (code != 0) {
        return crmm_priv_cuda_check("cudaSetDevice", code);
    }
    crmm_status status = crmm_priv_cuda_pool_allocate(who, own->pool, stream, bytes, ptr);
    if (status == CRMM_ERROR_OUT_OF_MEMORY) {
        status = allocate_after_trim(own, stream, bytes, ptr);
    }
    crmm_priv_cuda_leave_device(previous);
    return status == CRMM_SUCCESS ? enter_in_books(own, stream, bytes, alignment, *ptr) : status;
}

crmm_status crmm_priv_mem_pool_check_legacy(const char *who, size_t bytes)
{
    bool capturing = false;

    int code = crmm_priv_cuda_capturing(NULL, &capturing);
    if (code != 0) {
        return crmm_priv_cuda_stream_failed(who, NULL, code);
    }
    return capturing ? FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                                  "%s: a capture of a blocking stream forbids allocating %zu bytes "
                                  "on the legacy stream",
                                  who, bytes)
                     : CRMM_SUCCESS;
}

crmm_status crmm_priv_mem_pool_allocate_sync(crmm_resource *resource, size_t bytes,
                                             size_t alignment, void **ptr)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;
    void *memory = NULL;
    int previous = -1;

    if (own->fallback != NULL) {
        return crmm_allocate_sync(own->fallback, bytes, alignment, ptr);
    }
    /* The legacy stream is the current device's. */
    crmm_status status = crmm_priv_cuda_enter_device(crmm_resource_device(resource), &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_priv_mem_pool_check_legacy(crmm_resource_name(resource), bytes);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_mem_pool_allocate(resource, NULL, bytes, alignment, &memory);
    }
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_stream_synchronize(NULL);
        if (status != CRMM_SUCCESS) {
            const crmm_error failure = *crmm_last_error();
            crmm_priv_mem_pool_deallocate(resource, NULL, memory, bytes, alignment);
            crmm_priv_restore_error(&failure);
        }
    }
    crmm_priv_cuda_leave_device(previous);
    if (status == CRMM_SUCCESS) {
        *ptr = memory;
    }
    return status;
}

/* ---- deallocation ---- */

void crmm_priv_mem_pool_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                   size_t bytes, size_t alignment)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;
    const char *who = crmm_resource_name(resource);

    if (own->fallback != NULL) {
        crmm_deallocate(own->fallback, stream, ptr, bytes, alignment);
        return;
    }
    bool validate = crmm_priv_validate();
    if (validate && !crmm_priv_ledger_take(own->ledger, resource, ptr, bytes, alignment)) {
        return;
    }
    int previous = -1;
    int code =
        crmm_priv_cuda_try_enter_for_stream(crmm_resource_device(resource), stream, &previous);
    if (code == 0) {
        code = crmm_priv_cuda_pool_free(ptr, stream);
        crmm_priv_cuda_leave_device(previous);
    }
    if (code == 0) {
        crmm_priv_books_subtract(&own->books, bytes);
        return;
    }
    if (validate) {
        /* It has an entry already, so this needs no memory. */
        (void)crmm_priv_ledger_add(own->ledger, ptr, bytes, alignment);
    }
    crmm_priv_report((crmm_misuse){.kind = crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED
                                                                          : CRMM_MISUSE_CUDA,
                                   .native_code = code,
                                   .resource_name = who,
                                   .ptr = ptr,
                                   .bytes = bytes,
                                   .alignment = alignment},
                     "%s: cudaFreeAsync %p (%zu bytes) failed: %s (%s)", who, ptr, bytes,
                     crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
}

void crmm_priv_mem_pool_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                        size_t alignment)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;

    if (own->fallback != NULL) {
        crmm_deallocate_sync(own->fallback, ptr, bytes, alignment);
        return;
    }
    crmm_priv_mem_pool_deallocate(resource, NULL, ptr, bytes, alignment);
}

/* ---- the end ---- */

static void report_leak(const crmm_priv_mem_pool_resource *own)
{
    crmm_memory_info info = {0};

    crmm_priv_books_info(&own->books, &info);
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                                   .resource_name = crmm_resource_name(&own->base),
                                   .bytes = info.live},
                     "%s: released with %zu allocations of %zu bytes alive",
                     crmm_resource_name(&own->base), info.allocations, info.live);
}

static void destroy_pool(crmm_priv_mem_pool_resource *own)
{
    const char *who = crmm_resource_name(&own->base);
    int code = crmm_priv_cuda_pool_destroy(own->pool);

    if (code != 0) {
        crmm_priv_report((crmm_misuse){.kind = crmm_priv_cuda_is_forked(code) ? CRMM_MISUSE_FORKED
                                                                              : CRMM_MISUSE_CUDA,
                                       .native_code = code,
                                       .resource_name = who},
                         "%s: cudaMemPoolDestroy failed: %s (%s)", who,
                         crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
    }
}

/* An owned pool goes with its resource, unless blocks are alive: then it is leaked, since the
 * driver allows it to be destroyed, and crashes after some rounds of that. What is free goes back.
 */
static void end_own_pool(crmm_priv_mem_pool_resource *own)
{
    if (own->books.allocations == 0) {
        destroy_pool(own);
        return;
    }
    if (!crmm_priv_validate()) {
        report_leak(own); /* else the ledger does */
    }
    (void)crmm_priv_cuda_pool_trim(own->pool, 0);
}

void crmm_priv_mem_pool_destroy(crmm_resource *resource)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;
    crmm_priv_pool_usage usage = {.reserved_peak = own->peak_held};

    if (own->owned) {
        (void)crmm_priv_cuda_pool_usage(own->pool, &usage);
        end_own_pool(own);
        crmm_priv_ledger_finish(&own->own_ledger, resource);
    }
    crmm_priv_held_add_pool_peak(usage.reserved_peak);
    crmm_resource_release(&own->fallback);
    crmm_resource_storage_free(resource);
}

/* ---- the rest ---- */

bool crmm_priv_mem_pool_is_equal(const crmm_resource *resource, const crmm_resource *other)
{
    const crmm_priv_mem_pool_resource *a = (const crmm_priv_mem_pool_resource *)resource;
    const crmm_priv_mem_pool_resource *b = (const crmm_priv_mem_pool_resource *)other;

    return a->pool != NULL && a->pool == b->pool;
}

crmm_resource *crmm_priv_mem_pool_upstream(const crmm_resource *resource)
{
    return ((const crmm_priv_mem_pool_resource *)resource)->fallback;
}

crmm_status crmm_priv_mem_pool_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    crmm_priv_mem_pool_resource *own = (crmm_priv_mem_pool_resource *)resource;
    crmm_priv_pool_usage before = {0};
    crmm_priv_pool_usage after = {0};

    if (own->fallback != NULL) {
        return crmm_resource_trim(own->fallback, bytes_to_keep, released);
    }
    int code = crmm_priv_cuda_pool_usage(own->pool, &before);
    if (code == 0) {
        code = crmm_priv_cuda_pool_trim(own->pool, bytes_to_keep);
    }
    if (code == 0) {
        code = crmm_priv_cuda_pool_usage(own->pool, &after);
    }
    if (code == 0) {
        *released = before.reserved > after.reserved ? before.reserved - after.reserved : 0;
    }
    return crmm_priv_cuda_check("cudaMemPoolTrimTo", code);
}

crmm_status crmm_priv_mem_pool_info(const crmm_resource *resource, crmm_memory_info *info)
{
    const crmm_priv_mem_pool_resource *own = (const crmm_priv_mem_pool_resource *)resource;
    crmm_priv_pool_usage usage = {0};

    if (own->fallback != NULL) {
        info->struct_size = sizeof(*info);
        return crmm_resource_info(own->fallback, info);
    }
    int code = crmm_priv_cuda_pool_usage(own->pool, &usage);
    if (code != 0) {
        return crmm_priv_cuda_check("cudaMemPoolGetAttribute", code);
    }
    crmm_priv_books_info(&own->books, info);
    info->held = usage.reserved;
    info->peak_held = usage.reserved_peak;
    info->cached = usage.reserved > info->live ? usage.reserved - info->live : 0;
    return CRMM_SUCCESS;
}

size_t crmm_priv_mem_pool_describe(const crmm_resource *resource, char *text, size_t size)
{
    const crmm_priv_mem_pool_resource *own = (const crmm_priv_mem_pool_resource *)resource;
    char pool[128] = "foreign pool";
    int length;

    if (own->fallback != NULL) {
        length = snprintf(text, size, "%s (device %d has no memory pools)",
                          crmm_resource_name(resource), crmm_resource_device(resource));
        return crmm_priv_describe_over(own->fallback, text, size, (size_t)length);
    }
    if (own->owned) {
        (void)snprintf(pool, sizeof(pool), "own pool, export types %llu, %zu peers%s",
                       (unsigned long long)own->handle_types, own->peer_count,
                       own->decompresses ? ", hardware decompression" : "");
    }
    length = snprintf(text, size, "%s (device %d, %s, %zu retries after a trim)",
                      crmm_resource_name(resource), crmm_resource_device(resource), pool,
                      __atomic_load_n(&own->retries, __ATOMIC_RELAXED));
    return (size_t)length;
}
