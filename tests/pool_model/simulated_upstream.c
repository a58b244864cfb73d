/* SPDX-License-Identifier: Apache-2.0 */
#include "simulated_upstream.h"

#include <stdlib.h>

#include <crmm/core/alignment.h>

#include "random_numbers.h"
#include "shadow.h"
#include "simulation.h"

static simulated_upstream *own(crmm_resource *resource)
{
    return (simulated_upstream *)resource;
}

static crmm_status refuse(const char *why)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 2, why);
}

/* Whether this much can be given; it counts as given then. */
static bool take_bytes(simulated_upstream *upstream, size_t bytes)
{
    if (sim_call_fails() || bytes > upstream->limit - upstream->held) {
        return false;
    }
    upstream->held += bytes;
    upstream->peak = upstream->held > upstream->peak ? upstream->held : upstream->peak;
    return true;
}

/* Address space right behind the last or further on, so that neighbours may look like one. */
static char *new_addresses(simulated_upstream *upstream, size_t bytes, size_t alignment)
{
    uint64_t gap = random_below(&upstream->randomness, 2) * SHADOW_PAGE;
    uint64_t begin = crmm_align_up((size_t)(upstream->next + gap), alignment);

    if (bytes > SHADOW_BYTES - begin) {
        return NULL;
    }
    upstream->next = begin + bytes;
    return (char *)(uintptr_t)(SHADOW_BASE + begin); // NOLINT(performance-no-int-to-ptr)
}

/* ---- chunks ---- */

static upstream_chunk *find_chunk(simulated_upstream *upstream, const void *ptr)
{
    for (size_t i = 0; i < upstream->chunk_count; i++) {
        if (upstream->chunks[i].base == ptr) {
            return &upstream->chunks[i];
        }
    }
    return NULL;
}

/* Addresses that came back are given again now and then, as a real allocator does. */
static upstream_chunk *find_addresses(simulated_upstream *upstream, size_t bytes, size_t alignment)
{
    for (size_t i = 0; i < upstream->chunk_count; i++) {
        upstream_chunk *chunk = &upstream->chunks[i];
        if (!chunk->is_live && chunk->bytes == bytes &&
            crmm_is_pointer_aligned(chunk->base, alignment) &&
            random_below(&upstream->randomness, 4) != 0) {
            return chunk;
        }
    }
    if (upstream->chunk_count == UPSTREAM_CHUNKS_MOST) {
        return NULL;
    }
    char *base = new_addresses(upstream, bytes, alignment);
    if (base == NULL) {
        return NULL;
    }
    upstream->chunks[upstream->chunk_count] = (upstream_chunk){.base = base, .bytes = bytes};
    return &upstream->chunks[upstream->chunk_count++];
}

static size_t extent_of(size_t bytes)
{
    return crmm_align_up(bytes, SHADOW_GRANULE);
}

static crmm_status give_chunk(simulated_upstream *upstream, size_t bytes, size_t alignment,
                              const crmm_stream *stream, void **ptr)
{
    size_t extent = extent_of(bytes);
    upstream_chunk *chunk = NULL;

    if (take_bytes(upstream, extent)) {
        chunk = find_addresses(upstream, extent,
                               alignment > SHADOW_GRANULE ? alignment : SHADOW_GRANULE);
        upstream->held -= chunk == NULL ? extent : 0;
    }
    if (chunk == NULL) {
        return refuse("no memory for a chunk");
    }
    sim_point pending = {0};
    if (stream != NULL && upstream->kind == UPSTREAM_ORDERED) {
        pending = sim_clock_work(upstream->clock, *stream);
    }
    chunk->is_live = true;
    shadow_map(chunk->base, extent, pending);
    *ptr = chunk->base;
    return CRMM_SUCCESS;
}

static void take_chunk(simulated_upstream *upstream, void *ptr, size_t bytes,
                       const crmm_stream *stream)
{
    upstream_chunk *chunk = find_chunk(upstream, ptr);

    if (chunk == NULL || !chunk->is_live || chunk->bytes != extent_of(bytes)) {
        sim_fail("upstream: %zu bytes at %p that it did not give", bytes, ptr);
        return;
    }
    chunk->is_live = false;
    upstream->held -= chunk->bytes;
    shadow_unmap(ptr, chunk->bytes, stream != NULL ? sim_stream_order(*stream) : NULL);
}

static crmm_status upstream_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    sim_lock();
    crmm_status status =
        sim_usable("upstream's allocate", stream) != NULL
            ? give_chunk(own(resource), bytes, alignment, &stream, ptr)
            : crmm_set_last_error(CRMM_ERROR_CUDA, 0, "simulated_upstream: no such stream");
    sim_unlock();
    return status;
}

static crmm_status upstream_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    sim_lock();
    crmm_status status = give_chunk(own(resource), bytes, alignment, NULL, ptr);
    sim_unlock();
    return status;
}

static void upstream_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    (void)alignment;
    sim_lock();
    if (sim_usable("upstream's deallocate", stream) != NULL) {
        take_chunk(own(resource), ptr, bytes, &stream);
    }
    sim_unlock();
}

static void upstream_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    (void)alignment;
    sim_lock();
    take_chunk(own(resource), ptr, bytes, NULL);
    sim_unlock();
}

/* ---- ranges ---- */

enum { NOTHING, HANDLE, HANDLE_GOES_ON };

static upstream_range *find_range(simulated_upstream *upstream, const char *ptr, size_t bytes)
{
    for (size_t i = 0; i < upstream->range_count; i++) {
        upstream_range *range = &upstream->ranges[i];
        if (range->pages != NULL && ptr >= range->base &&
            (size_t)(ptr - range->base) < range->bytes &&
            bytes <= range->bytes - (size_t)(ptr - range->base)) {
            return range;
        }
    }
    return NULL;
}

/* The first page of a part of a range; NULL, and a failure, if it is no such part. */
static unsigned char *find_pages(simulated_upstream *upstream, const char *call, const char *ptr,
                                 size_t bytes)
{
    upstream_range *range = find_range(upstream, ptr, bytes);

    if (range == NULL || bytes == 0 || bytes % SHADOW_PAGE != 0 ||
        (size_t)(ptr - range->base) % SHADOW_PAGE != 0) {
        sim_fail("%s: %zu bytes at %p are no pages of a range", call, bytes, (const void *)ptr);
        return NULL;
    }
    return range->pages + (size_t)(ptr - range->base) / SHADOW_PAGE;
}

static crmm_status reserve(simulated_upstream *upstream, size_t bytes, size_t alignment,
                           void **base)
{
    if (bytes % SHADOW_PAGE != 0) {
        sim_fail("reserve: %zu bytes are no pages", bytes);
    }
    if (sim_call_fails() || upstream->range_count == UPSTREAM_RANGES_MOST) {
        return refuse("no address space");
    }
    upstream_range *range = &upstream->ranges[upstream->range_count];
    range->base = new_addresses(upstream, bytes, alignment > SHADOW_PAGE ? alignment : SHADOW_PAGE);
    range->bytes = bytes;
    range->pages = range->base != NULL ? calloc(bytes / SHADOW_PAGE, 1) : NULL;
    if (range->pages == NULL) {
        return refuse("no address space");
    }
    upstream->range_count++;
    *base = range->base;
    return CRMM_SUCCESS;
}

static crmm_status upstream_reserve(crmm_resource *resource, size_t bytes, size_t alignment,
                                    void **base)
{
    sim_lock();
    crmm_status status = reserve(own(resource), bytes, alignment, base);
    sim_unlock();
    return status;
}

static crmm_status commit(simulated_upstream *upstream, char *ptr, size_t bytes)
{
    unsigned char *pages = find_pages(upstream, "commit", ptr, bytes);

    if (pages == NULL || !take_bytes(upstream, bytes)) {
        return refuse("no memory for a handle");
    }
    for (size_t i = 0; i < bytes / SHADOW_PAGE; i++) {
        pages[i] = i == 0 || upstream->single_pages ? HANDLE : HANDLE_GOES_ON;
    }
    shadow_map(ptr, bytes, (sim_point){0});
    return CRMM_SUCCESS;
}

static crmm_status upstream_commit(crmm_resource *resource, void *ptr, size_t bytes)
{
    sim_lock();
    crmm_status status = commit(own(resource), ptr, bytes);
    sim_unlock();
    return status;
}

static crmm_status decommit(simulated_upstream *upstream, char *ptr, size_t bytes)
{
    unsigned char *pages = find_pages(upstream, "decommit", ptr, bytes);
    size_t count = bytes / SHADOW_PAGE;

    if (pages == NULL || sim_call_fails()) {
        return crmm_set_last_error(CRMM_ERROR_CUDA, 999, "simulated_upstream: decommit");
    }
    bool ends_within =
        find_range(upstream, ptr, bytes + SHADOW_PAGE) != NULL && pages[count] == HANDLE_GOES_ON;
    if (pages[0] != HANDLE || ends_within) {
        sim_fail("decommit: %zu bytes at %p are not whole handles", bytes, (void *)ptr);
    }
    for (size_t i = 0; i < count; i++) {
        pages[i] = NOTHING;
    }
    upstream->held -= bytes;
    shadow_unmap(ptr, bytes, NULL);
    return CRMM_SUCCESS;
}

static crmm_status upstream_decommit(crmm_resource *resource, void *ptr, size_t bytes)
{
    sim_lock();
    crmm_status status = decommit(own(resource), ptr, bytes);
    sim_unlock();
    return status;
}

static crmm_status unreserve(simulated_upstream *upstream, char *base, size_t bytes)
{
    upstream_range *range = find_range(upstream, base, bytes);

    if (range == NULL || range->base != base || range->bytes != bytes) {
        sim_fail("unreserve: %zu bytes at %p are no range", bytes, (void *)base);
        return CRMM_ERROR_CUDA;
    }
    for (size_t i = 0; i < bytes / SHADOW_PAGE; i++) {
        if (range->pages[i] != NOTHING) {
            sim_fail("unreserve: a page of the range is mapped");
            break;
        }
    }
    free(range->pages);
    *range = upstream->ranges[--upstream->range_count];
    return CRMM_SUCCESS;
}

static crmm_status upstream_unreserve(crmm_resource *resource, void *base, size_t bytes)
{
    sim_lock();
    crmm_status status = unreserve(own(resource), base, bytes);
    sim_unlock();
    return status;
}

/* ---- the whole ---- */

static void upstream_destroy(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops chunk_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = upstream_allocate_sync,
    .deallocate_sync = upstream_deallocate_sync,
    .destroy = upstream_destroy,
    .allocate = upstream_allocate,
    .deallocate = upstream_deallocate,
};

static const crmm_resource_ops vmm_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = upstream_allocate_sync,
    .deallocate_sync = upstream_deallocate_sync,
    .destroy = upstream_destroy,
    .allocate = upstream_allocate,
    .deallocate = upstream_deallocate,
    .reserve = upstream_reserve,
    .commit = upstream_commit,
    .decommit = upstream_decommit,
    .unreserve = upstream_unreserve,
};

void simulated_upstream_init(simulated_upstream *upstream, upstream_kind kind, uint64_t seed,
                             size_t limit)
{
    crmm_resource_init(&upstream->base, kind == UPSTREAM_VMM ? &vmm_ops : &chunk_ops,
                       "simulated_upstream", CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    upstream->kind = kind;
    upstream->limit = limit;
    upstream->held = 0;
    upstream->peak = 0;
    upstream->randomness = seed ^ UINT64_C(0x0B57EA77);
    upstream->single_pages = random_below(&upstream->randomness, 2) == 0;
    upstream->next = 0;
    upstream->clock = sim_clock_create();
    upstream->chunk_count = 0;
    upstream->range_count = 0;
}

void simulated_upstream_finish(simulated_upstream *upstream)
{
    if (upstream->held != 0) {
        sim_fail("upstream: %zu bytes did not come back", upstream->held);
    }
    if (upstream->range_count != 0) {
        sim_fail("upstream: %zu ranges did not come back", upstream->range_count);
    }
    while (upstream->range_count != 0) {
        free(upstream->ranges[--upstream->range_count].pages);
    }
}
