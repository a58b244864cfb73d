/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool tells of its chunks and blocks, against what the program did. */
#include <stdlib.h>

#include "program_state.h"

enum { MOST_VISITED = 1 << 16, LARGEST_AT_HAND = 1 << 20 };

/* ---- chunks, as they are told of ---- */

static program_chunk *find_chunk(program *own, const char *base)
{
    for (unsigned i = 0; i < own->chunk_count; i++) {
        if (own->chunks[i].base == base) {
            return &own->chunks[i];
        }
    }
    return NULL;
}

static void add_chunk(program *own, char *base, size_t bytes)
{
    for (unsigned i = 0; i < own->chunk_count; i++) {
        const program_chunk *other = &own->chunks[i];
        if (base < other->base + other->bytes && other->base < base + bytes) {
            sim_fail("on_chunk: %zu bytes at %p are added twice", bytes, (void *)base);
        }
    }
    if (own->chunk_count == PROGRAM_CHUNKS) {
        sim_fail("on_chunk: too many chunks");
        return;
    }
    own->chunks[own->chunk_count++] = (program_chunk){base, bytes};
    own->chunk_bytes += bytes;
    own->chunks_added++;
    if (own->chunk_bytes > own->upstream->held) {
        sim_fail("on_chunk: %p is added before upstream gave it", (void *)base);
    }
}

static void remove_chunk(program *own, const char *base, size_t bytes)
{
    program_chunk *found = find_chunk(own, base);

    if (found == NULL || found->bytes != bytes) {
        sim_fail("on_chunk: %zu bytes at %p go that are no chunk", bytes, (const void *)base);
        return;
    }
    *found = own->chunks[--own->chunk_count];
    own->chunk_bytes -= bytes;
    own->chunks_removed++;
}

void program_on_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    if (added) {
        add_chunk(user_data, base, bytes);
    } else {
        remove_chunk(user_data, base, bytes);
    }
}

static int by_base(const void *one, const void *other)
{
    const char *a = ((const program_chunk *)one)->base;
    const char *b = ((const program_chunk *)other)->base;
    return (a > b) - (a < b);
}

/* ---- the snapshot ---- */

static struct {
    crmm_pool_block all[MOST_VISITED];
    size_t count;
} seen;

static void visit(const crmm_pool_block *block, void *user_data)
{
    (void)user_data;
    if (seen.count == MOST_VISITED) {
        sim_fail("snapshot: too many blocks");
        return;
    }
    seen.all[seen.count++] = *block;
}

static int by_ptr(const void *one, const void *other)
{
    const char *a = ((const crmm_pool_block *)one)->ptr;
    const char *b = ((const crmm_pool_block *)other)->ptr;
    return (a > b) - (a < b);
}

static int by_address(const void *one, const void *other)
{
    const char *a = (*(const program_block *const *)one)->ptr;
    const char *b = (*(const program_block *const *)other)->ptr;
    return (a > b) - (a < b);
}

static void check_block(const crmm_pool_block *block)
{
    if (block->struct_size != sizeof(*block) || block->bytes == 0) {
        sim_fail("snapshot: a block of %zu bytes at %p", block->bytes, block->ptr);
    }
    if (block->is_live != 0 && (block->is_pending != 0 || block->stream_id != 0)) {
        sim_fail("snapshot: %p is live, and pending or of a stream", block->ptr);
    }
    if (block->stream_id != 0 && block->is_pending == 0) {
        sim_fail("snapshot: %p is of stream %llu, and not pending", block->ptr,
                 (unsigned long long)block->stream_id);
    }
}

/* Whether chunks are behind the whole of a block; `next` is the first one that can be. */
static bool is_covered(const program *own, const crmm_pool_block *block, unsigned *next)
{
    const char *at = block->ptr;
    const char *end = at + block->bytes;

    for (; *next < own->chunk_count; (*next)++) {
        const program_chunk *chunk = &own->chunks[*next];
        if (chunk->base + chunk->bytes <= at) {
            continue;
        }
        if (chunk->base > at) {
            return false;
        }
        if (chunk->base + chunk->bytes >= end) {
            return true;
        }
        at = chunk->base + chunk->bytes;
    }
    return false;
}

/* No two blocks overlap and all lie in chunks. With as many bytes as these have they fill them. */
static void check_places(program *own)
{
    unsigned next = 0;

    qsort(own->chunks, own->chunk_count, sizeof(own->chunks[0]), by_base);
    for (size_t i = 0; i < seen.count; i++) {
        const crmm_pool_block *block = &seen.all[i];
        if (i > 0 && (char *)block[-1].ptr + block[-1].bytes > (char *)block->ptr) {
            sim_fail("snapshot: the blocks at %p and %p overlap", block[-1].ptr, block->ptr);
        }
        if (!is_covered(own, block, &next)) {
            sim_fail("snapshot: %zu bytes at %p are in no chunk", block->bytes, block->ptr);
        }
    }
}

/* The live blocks are the program's, and no others. */
static void check_live(program *own)
{
    static const program_block *blocks[PROGRAM_BLOCKS];
    size_t next = 0;

    for (unsigned i = 0; i < own->block_count; i++) {
        blocks[i] = &own->blocks[i];
    }
    qsort(blocks, own->block_count, sizeof(blocks[0]), by_address);
    for (unsigned i = 0; i < own->block_count; i++, next++) {
        while (next < seen.count && seen.all[next].is_live == 0) {
            next++;
        }
        if (next == seen.count || seen.all[next].ptr != blocks[i]->ptr ||
            seen.all[next].bytes < blocks[i]->bytes) {
            sim_fail("snapshot: the live block of %zu bytes at %p is not in it", blocks[i]->bytes,
                     blocks[i]->ptr);
            return;
        }
    }
    for (; next < seen.count; next++) {
        if (seen.all[next].is_live != 0) {
            sim_fail("snapshot: %p is said to be live", seen.all[next].ptr);
        }
    }
}

/* What the blocks come to is what the figures are. */
static void check_sums(const crmm_memory_info *info)
{
    size_t live = 0;
    size_t free_bytes = 0;
    size_t pending = 0;
    size_t largest = 0;

    for (size_t i = 0; i < seen.count; i++) {
        const crmm_pool_block *block = &seen.all[i];
        live += block->is_live != 0 ? block->bytes : 0;
        free_bytes += block->is_live == 0 ? block->bytes : 0;
        pending += block->is_pending != 0 ? block->bytes : 0;
        largest = block->is_live == 0 && block->bytes > largest ? block->bytes : largest;
    }
    if (live != info->live || free_bytes != info->cached) {
        sim_fail("snapshot: %zu live and %zu free bytes instead of %zu and %zu", live, free_bytes,
                 info->live, info->cached);
    }
    if (pending != info->pending) {
        sim_fail("snapshot: %zu pending bytes instead of %zu", pending, info->pending);
    }
    if (largest < info->largest_free ||
        (largest > LARGEST_AT_HAND && largest != info->largest_free)) {
        sim_fail("snapshot: the largest free block has %zu bytes instead of %zu", largest,
                 info->largest_free);
    }
}

static void check_snapshot(program *own, const crmm_memory_info *info)
{
    seen.count = 0;
    crmm_status status = own->pool_class->snapshot(own->pool, visit, NULL);
    if (status != CRMM_SUCCESS) {
        sim_fail("snapshot: %s", crmm_status_name(status));
        return;
    }
    qsort(seen.all, seen.count, sizeof(seen.all[0]), by_ptr);
    for (size_t i = 0; i < seen.count; i++) {
        check_block(&seen.all[i]);
    }
    check_places(own);
    check_live(own);
    check_sums(info);
}

/* ---- the rest ---- */

/* The chunk that a part of a live block lies in. */
static void check_chunk(program *own)
{
    if (own->block_count == 0) {
        return;
    }
    const program_block *block = &own->blocks[program_below(own, own->block_count)];
    const char *ptr = (const char *)block->ptr + program_below(own, block->bytes);
    void *base = NULL;
    size_t bytes = 0;
    crmm_status status = own->pool_class->chunk(own->pool, ptr, &base, &bytes);
    const program_chunk *chunk = find_chunk(own, base);

    if (status != CRMM_SUCCESS) {
        sim_fail("chunk: %p: %s", (const void *)ptr, crmm_status_name(status));
    } else if (chunk == NULL || chunk->bytes != bytes) {
        sim_fail("chunk: %zu bytes at %p are no chunk", bytes, base);
    } else if (ptr < chunk->base || ptr >= chunk->base + chunk->bytes) {
        sim_fail("chunk: %p is not in the one at %p", (const void *)ptr, base);
    }
}

/* One counter of the pool's against what happened; calls that failed count there too. */
static void check_counter(const char *name, uint64_t counted, uint64_t happened)
{
    uint64_t most = happened + sim_counted()->faults;

    if (counted < happened || counted > most) {
        sim_fail("statistics: %llu %s instead of %llu", (unsigned long long)counted, name,
                 (unsigned long long)happened);
    }
}

static void check_statistics(const program *own, const crmm_memory_info *info,
                             const crmm_pool_statistics *statistics)
{
    const sim_counts *counts = sim_counted();
    size_t reserved = simulated_upstream_reserved(own->upstream);
    uint64_t holes = reserved != 0 ? reserved - own->upstream->held : 0;

    check_counter("events", statistics->events, counts->events);
    check_counter("records", statistics->records, counts->records);
    check_counter("queries", statistics->queries, counts->queries);
    check_counter("waits", statistics->waits, counts->waits);
    check_counter("synchronizes", statistics->synchronizes,
                  counts->synchronizes + counts->device_waits);
    check_counter("moves", statistics->moves, own->upstream->moves_begun);
    if (statistics->upstream_calls != own->upstream->calls) {
        sim_fail("statistics: %llu calls of upstream instead of %llu",
                 (unsigned long long)statistics->upstream_calls,
                 (unsigned long long)own->upstream->calls);
    }
    if (statistics->holes != holes) {
        sim_fail("statistics: %llu bytes of holes instead of %llu",
                 (unsigned long long)statistics->holes, (unsigned long long)holes);
    }
    if (statistics->at_hand > info->cached || statistics->heaps == 0) {
        sim_fail("statistics: %llu bytes at hand in %llu heaps",
                 (unsigned long long)statistics->at_hand, (unsigned long long)statistics->heaps);
    }
    if (statistics->growths > own->chunks_added || statistics->releases > own->chunks_removed ||
        (info->held != 0 && statistics->growths == 0)) {
        sim_fail("statistics: %llu growths and %llu releases with %llu chunks added, %llu gone",
                 (unsigned long long)statistics->growths, (unsigned long long)statistics->releases,
                 (unsigned long long)own->chunks_added, (unsigned long long)own->chunks_removed);
    }
}

void program_check_views(program *own)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_pool_statistics statistics = {.struct_size = sizeof(statistics)};

    if (own->pool_class->snapshot == NULL) {
        return;
    }
    if (crmm_resource_info(own->pool, &info) != CRMM_SUCCESS ||
        own->pool_class->statistics(own->pool, &statistics) != CRMM_SUCCESS) {
        sim_fail("statistics: the pool does not tell them");
        return;
    }
    if (own->chunk_bytes != info.held) {
        sim_fail("on_chunk: %zu bytes in chunks, and %zu are held", own->chunk_bytes, info.held);
    }
    check_chunk(own);
    check_statistics(own, &info, &statistics);
    check_snapshot(own, &info);
}

void program_check_chunks_gone(const program *own)
{
    if (own->pool_class->snapshot != NULL && own->chunk_count != 0) {
        sim_fail("on_chunk: %u chunks did not go", own->chunk_count);
    }
}
