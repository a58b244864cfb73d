/* SPDX-License-Identifier: Apache-2.0 */
#include "simulated_upstream.h"

#include <stdlib.h>

#include <crmm/core/alignment.h>

#include "random_numbers.h"
#include "shadow.h"
#include "simulated_ranges.h"
#include "simulation.h"

simulated_upstream *simulated_upstream_begin(crmm_resource *resource)
{
    simulated_upstream *upstream = (simulated_upstream *)resource;

    sim_lock();
    upstream->calls++;
    return upstream;
}

static crmm_status refuse(const char *why)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 2, why);
}

bool simulated_upstream_take_bytes(simulated_upstream *upstream, size_t bytes)
{
    if (sim_call_fails() || bytes > upstream->limit - upstream->held) {
        return false;
    }
    upstream->held += bytes;
    upstream->peak = upstream->held > upstream->peak ? upstream->held : upstream->peak;
    return true;
}

char *simulated_upstream_new_addresses(simulated_upstream *upstream, size_t bytes, size_t alignment)
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
    char *base = simulated_upstream_new_addresses(upstream, bytes, alignment);
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

    if (simulated_upstream_take_bytes(upstream, extent)) {
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
    simulated_upstream *upstream = simulated_upstream_begin(resource);
    crmm_status status =
        sim_usable("upstream's allocate", stream) != NULL
            ? give_chunk(upstream, bytes, alignment, &stream, ptr)
            : crmm_set_last_error(CRMM_ERROR_CUDA, 0, "simulated_upstream: no such stream");
    sim_unlock();
    sim_end_of_call();
    return status;
}

static crmm_status upstream_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    crmm_status status =
        give_chunk(simulated_upstream_begin(resource), bytes, alignment, NULL, ptr);
    sim_unlock();
    sim_end_of_call();
    return status;
}

static void upstream_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    (void)alignment;
    simulated_upstream *upstream = simulated_upstream_begin(resource);
    if (sim_usable("upstream's deallocate", stream) != NULL) {
        take_chunk(upstream, ptr, bytes, &stream);
    }
    sim_unlock();
    sim_end_of_call();
}

static void upstream_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    (void)alignment;
    take_chunk(simulated_upstream_begin(resource), ptr, bytes, NULL);
    sim_unlock();
    sim_end_of_call();
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

#define VMM_OPERATIONS                                                                        \
    .struct_size = sizeof(crmm_resource_ops), .allocate_sync = upstream_allocate_sync,        \
    .deallocate_sync = upstream_deallocate_sync, .destroy = upstream_destroy,                 \
    .allocate = upstream_allocate, .deallocate = upstream_deallocate,                         \
    .reserve = simulated_reserve, .commit = simulated_commit, .decommit = simulated_decommit, \
    .unreserve = simulated_unreserve

static const crmm_resource_ops vmm_ops = {VMM_OPERATIONS};

static const crmm_resource_ops moving_ops = {
    VMM_OPERATIONS,
    .move_begin = simulated_move_begin,
    .move_end = simulated_move_end,
};

static const crmm_resource_ops *ops_of(upstream_kind kind, bool moves)
{
    if (kind != UPSTREAM_VMM) {
        return &chunk_ops;
    }
    return moves ? &moving_ops : &vmm_ops;
}

void simulated_upstream_init(simulated_upstream *upstream, upstream_kind kind, uint64_t seed,
                             size_t limit)
{
    bool moves = seed % 4 != 0;

    crmm_resource_init(&upstream->base, ops_of(kind, moves), "simulated_upstream",
                       CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
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
    upstream->move_count = 0;
    upstream->moves_begun = 0;
    upstream->calls = 0;
}

size_t simulated_upstream_reserved(const simulated_upstream *upstream)
{
    size_t bytes = 0;

    for (size_t i = 0; i < upstream->range_count; i++) {
        bytes += upstream->ranges[i].bytes;
    }
    return bytes;
}

void simulated_upstream_finish(simulated_upstream *upstream)
{
    if (upstream->held != 0) {
        sim_fail("upstream: %zu bytes did not come back", upstream->held);
    }
    if (upstream->range_count != 0) {
        sim_fail("upstream: %zu ranges did not come back", upstream->range_count);
    }
    if (upstream->move_count != 0) {
        sim_fail("upstream: %zu moves did not end", upstream->move_count);
    }
    while (upstream->range_count != 0) {
        free(upstream->ranges[--upstream->range_count].pages);
    }
}
