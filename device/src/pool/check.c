/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>

#include "cache.h"
#include "registry.h"

__attribute__((format(printf, 3, 4))) static bool wrong(char *why, size_t size, const char *format,
                                                        ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(why, size, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- extents ---- */

typedef struct totals {
    uint64_t granules[CRMM_PRIV_POOL_LEAVING + 1];
    uint32_t used;
} totals;

static bool joins(const crmm_priv_extents *extents, const crmm_priv_extent *one,
                  const crmm_priv_extent *other)
{
    if (one->state != CRMM_PRIV_POOL_FREE || other->state != CRMM_PRIV_POOL_FREE) {
        return one->state == CRMM_PRIV_POOL_HOLE && other->state == CRMM_PRIV_POOL_HOLE;
    }
    (void)extents;
    return one->owner == other->owner;
}

/* An extent, or an entry of the array that is not in use, names none but whole entries. */
static bool check_links(const crmm_priv_extents *extents, uint32_t index, char *why, size_t size)
{
    const crmm_priv_extent *extent = crmm_priv_extent_at(extents, index);
    const uint32_t links[] = {extent->before,    extent->after,      extent->bin_before,
                              extent->bin_after, extent->age_before, extent->age_after};

    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        if (links[i] % CRMM_PRIV_EXTENT_STEP != 0 || links[i] >= crmm_priv_extents_end(extents)) {
            return wrong(why, size, "extent %u names %u, which is none", index, links[i]);
        }
    }
    return true;
}

/* Neighbours name each other, lie next to each other, and are not two where they could be one. */
static bool check_neighbours(const crmm_priv_extents *extents, uint32_t index, char *why,
                             size_t size)
{
    const crmm_priv_extent *extent = crmm_priv_extent_at(extents, index);

    if (extent->size == 0) {
        return wrong(why, size, "extent %u is empty", index);
    }
    if (extent->after == 0) {
        return true;
    }
    const crmm_priv_extent *next = crmm_priv_extent_at(extents, extent->after);
    if (next->before != index || extent->at + extent->size != next->at) {
        return wrong(why, size, "extents %u and %u are no neighbours", index, extent->after);
    }
    if (joins(extents, extent, next)) {
        return wrong(why, size, "extents %u and %u are not joined", index, extent->after);
    }
    return true;
}

static bool check_bin(const crmm_priv_extents *extents, uint32_t owner, uint32_t row,
                      uint32_t column, uint64_t *granules, uint32_t *count, char *why, size_t size)
{
    const crmm_priv_extent_set *set = extents->sets[owner];
    uint32_t before = 0;

    if ((set->bins[row * CRMM_PRIV_POOL_COLUMNS + column] != 0) !=
        ((set->columns[row] >> column & 1) != 0)) {
        return wrong(why, size, "owner %u: bit of bin %u, %u", owner, row, column);
    }
    for (uint32_t i = set->bins[row * CRMM_PRIV_POOL_COLUMNS + column]; i != 0;
         i = crmm_priv_extent_at(extents, i)->bin_after) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        uint32_t smallest = row == 0 ? column : (32 + column) << (row - 1);
        uint32_t step = row == 0 ? 1 : 1u << (row - 1);
        if (extent->state != CRMM_PRIV_POOL_FREE || extent->owner != owner ||
            extent->bin_before != before || extent->size < smallest ||
            extent->size - smallest >= step) {
            return wrong(why, size, "extent %u does not belong into bin %u, %u of %u", i, row,
                         column, owner);
        }
        *granules += extent->size;
        (*count)++;
        before = i;
    }
    return true;
}

static bool check_set(const crmm_priv_extents *extents, uint32_t owner, char *why, size_t size)
{
    const crmm_priv_extent_set *set = extents->sets[owner];
    uint64_t granules = 0;
    uint32_t count = 0;
    uint32_t aged = 0;

    for (uint32_t row = 0; row < CRMM_PRIV_POOL_ROWS; row++) {
        if ((set->columns[row] != 0) != ((set->rows >> row & 1) != 0)) {
            return wrong(why, size, "owner %u: bit of row %u", owner, row);
        }
        for (uint32_t column = 0; column < CRMM_PRIV_POOL_COLUMNS; column++) {
            if (!check_bin(extents, owner, row, column, &granules, &count, why, size)) {
                return false;
            }
        }
    }
    for (uint32_t i = set->oldest; owner != CRMM_PRIV_POOL_CLEAN && i != 0;
         i = crmm_priv_extent_at(extents, i)->age_after) {
        aged++;
    }
    if (granules != set->granules || count != set->count ||
        (owner != CRMM_PRIV_POOL_CLEAN && aged != count)) {
        return wrong(why, size,
                     "owner %u: %llu granules in %u extents, %u by age; counted %llu in %u", owner,
                     (unsigned long long)granules, count, aged, (unsigned long long)set->granules,
                     set->count);
    }
    return true;
}

bool crmm_priv_extents_check(const crmm_priv_extents *extents, char *why, size_t size)
{
    totals sum = {0};
    uint64_t in_sets = 0;
    uint32_t unused = 0;

    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        if (!check_links(extents, i, why, size)) {
            return false;
        }
        if (extent->state == CRMM_PRIV_POOL_NOTHING) {
            unused++;
            continue;
        }
        if (!check_neighbours(extents, i, why, size)) {
            return false;
        }
        sum.granules[extent->state] += extent->size;
        if (extent->state == CRMM_PRIV_POOL_USED) {
            sum.used++;
            if (crmm_priv_extents_lookup(extents, extent->at) != i) {
                return wrong(why, size, "extent %u is not found by its address", i);
            }
        }
    }
    for (uint32_t owner = 0; owner < extents->set_count; owner++) {
        if (extents->sets[owner] != NULL) {
            if (!check_set(extents, owner, why, size)) {
                return false;
            }
            in_sets += extents->sets[owner]->granules;
        }
    }
    if (sum.used != extents->used_count || unused != extents->unused_count ||
        sum.granules[CRMM_PRIV_POOL_USED] != extents->used_granules ||
        sum.granules[CRMM_PRIV_POOL_FREE] != extents->free_granules ||
        in_sets != extents->free_granules ||
        sum.granules[CRMM_PRIV_POOL_HOLE] != extents->hole_granules ||
        sum.granules[CRMM_PRIV_POOL_BUSY] != extents->busy_granules ||
        sum.granules[CRMM_PRIV_POOL_LEAVING] != extents->leaving_granules) {
        return wrong(why, size, "the sums of a heap are wrong");
    }
    return true;
}

/* ---- the pool ---- */

/* What a stream's memory is offered by: fences of epochs that are over, and the newest one is there
 * unless all up to it is complete. */
static bool check_stream(const crmm_priv_pool_stream *stream, char *why, size_t size)
{
    uint64_t newest = stream->done;

    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES; i++) {
        const crmm_priv_fence *fence = &stream->fences[i];
        if (fence->state == CRMM_PRIV_FENCE_IDLE) {
            continue;
        }
        if (fence->epoch >= stream->epoch || fence->users != 0) {
            return wrong(why, size, "stream %u: a fence of epoch %llu with %u users", stream->index,
                         (unsigned long long)fence->epoch, fence->users);
        }
        newest = fence->epoch > newest ? fence->epoch : newest;
    }
    if (stream->done >= stream->epoch || stream->fenced >= stream->epoch ||
        stream->fenced > newest) {
        return wrong(why, size, "stream %u: epoch %llu, done %llu, fenced %llu, newest %llu",
                     stream->index, (unsigned long long)stream->epoch,
                     (unsigned long long)stream->done, (unsigned long long)stream->fenced,
                     (unsigned long long)newest);
    }
    return true;
}

static bool check_streams(const crmm_priv_pool *pool, char *why, size_t size)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        if (!check_stream(pool->streams.all[i], why, size)) {
            return false;
        }
    }
    return true;
}

/* What blocks are known by: a live one that went through a cache by its mark, which says its size,
 * and one that did not by its extent. The others are at hand; their number. */
static bool check_marks(const crmm_priv_pool *pool, const crmm_priv_extents *extents,
                        uint64_t *unmarked, char *why, size_t size)
{
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        if (extent->state != CRMM_PRIV_POOL_USED) {
            continue;
        }
        const void *ptr = (const void *)(uintptr_t)(extent->at << CRMM_PRIV_POOL_GRANULE_SHIFT);
        const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
        uint32_t class_index = chunk == NULL ? UINT32_MAX : crmm_priv_pool_marked_class(chunk, ptr);
        bool is_marked = class_index != UINT32_MAX;
        if (chunk == NULL || (is_marked && extent->is_direct) ||
            (is_marked && crmm_priv_pool_class_size(class_index) != extent->size)) {
            return wrong(why, size, "%p of %u granules is marked as class %u", ptr, extent->size,
                         class_index);
        }
        *unmarked += !is_marked && !extent->is_direct;
    }
    return true;
}

/* What was given back in an epoch that is over is behind a fence, or complete, or waits for the
 * next call on its stream; none is from a time to come. */
static bool check_epochs(const crmm_priv_pool *pool, const crmm_priv_extents *extents, char *why,
                         size_t size)
{
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        if (extent->state != CRMM_PRIV_POOL_FREE || extent->owner < CRMM_PRIV_POOL_FIRST_STREAM) {
            continue;
        }
        const crmm_priv_pool_stream *stream = pool->streams.all[extent->owner];
        if (stream == NULL || extent->epoch > stream->epoch || extent->epoch == 0) {
            return wrong(why, size, "extent %u is from epoch %llu of stream %u", i,
                         (unsigned long long)extent->epoch, extent->owner);
        }
    }
    return true;
}

/* Blocks, and their bytes. */
typedef struct hand {
    uint64_t count, bytes;
} hand;

/* Blocks at hand are of their size and nobody's else. */
static bool check_blocks(const crmm_priv_pool *pool, void *const *blocks, size_t count,
                         uint32_t granules, char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        const void *ptr = blocks[i];
        const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
        if (chunk == NULL || crmm_priv_pool_marked_class(chunk, ptr) != UINT32_MAX) {
            return wrong(why, size, "%p is at hand and handed out, or nowhere", ptr);
        }
        const crmm_priv_extents *extents = &chunk->heap->extents;
        uint32_t index =
            crmm_priv_extents_lookup(extents, (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT);
        if (index == 0 || crmm_priv_extent_at(extents, index)->size != granules ||
            crmm_priv_extent_at(extents, index)->is_direct) {
            return wrong(why, size, "%p is at hand, but no block of %u granules", ptr, granules);
        }
    }
    return true;
}

static bool check_parked(const crmm_priv_pool *pool, const crmm_priv_pool_cache *cache,
                         hand *at_hand, char *why, size_t size)
{
    bool sound = true;

    for (size_t i = 0; i < CRMM_PRIV_POOL_MOST_PARKED && sound; i++) {
        const crmm_priv_pool_parked *parked = &cache->parked[i];
        at_hand->count += parked->size != 0;
        at_hand->bytes += (size_t)parked->size << CRMM_PRIV_POOL_GRANULE_SHIFT;
        sound = parked->size == 0 || check_blocks(pool, &parked->block, 1, parked->size, why, size);
    }
    return sound;
}

static bool check_caches(const crmm_priv_pool *pool, hand *at_hand, char *why, size_t size)
{
    for (const crmm_priv_pool_cache *cache = pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
            const crmm_priv_pool_shelf *shelf = &cache->shelves[i];
            uint32_t count = crmm_priv_pool_shelf_count(shelf);
            bytes += count * shelf->bytes;
            at_hand->count += count;
            if (!check_blocks(pool, shelf->first, count, crmm_priv_pool_class_size(i), why, size)) {
                return false;
            }
        }
        if (bytes != cache->bytes) {
            return wrong(why, size, "a cache has %zu bytes and counted %zu", bytes, cache->bytes);
        }
        at_hand->bytes += bytes;
        if (!check_parked(pool, cache, at_hand, why, size)) {
            return false;
        }
    }
    return true;
}

/* Magazines are neither empty nor from a time to come, and their bytes are counted. */
static bool check_depot(const crmm_priv_pool *pool, hand *at_hand, char *why, size_t size)
{
    size_t bytes = 0;

    for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        const crmm_priv_pool_rack *rack = &pool->depot.racks[i];
        for (uint32_t k = 0; k < rack->count; k++) {
            const crmm_priv_pool_magazine *magazine = &rack->magazines[k];
            const crmm_priv_pool_stream *stream = pool->streams.all[magazine->owner];
            bool is_from_stream = magazine->owner >= CRMM_PRIV_POOL_FIRST_STREAM;
            if (magazine->count == 0 || magazine->count > CRMM_PRIV_POOL_MAGAZINE_BLOCKS ||
                (is_from_stream &&
                 (stream == NULL || magazine->epoch == 0 || magazine->epoch > stream->epoch))) {
                return wrong(why, size, "a magazine of %u blocks is from epoch %llu of stream %u",
                             magazine->count, (unsigned long long)magazine->epoch, magazine->owner);
            }
            bytes += magazine->count * crmm_priv_pool_class_bytes(i);
            at_hand->count += magazine->count;
            if (!check_blocks(pool, magazine->blocks, magazine->count, crmm_priv_pool_class_size(i),
                              why, size)) {
                return false;
            }
        }
    }
    if (bytes != pool->depot.bytes) {
        return wrong(why, size, "the depot has %zu bytes and counted %zu", bytes,
                     pool->depot.bytes);
    }
    at_hand->bytes += bytes;
    return true;
}

/* Every granule of the address space is in one extent. */
static bool check_space(const crmm_priv_pool *pool, uint64_t granules, char *why, size_t size)
{
    uint64_t space = 0;

    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        space += pool->chunks.table->entries[i].chunk->bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT;
    }
    return granules == space || wrong(why, size, "%llu granules in extents, %llu in chunks",
                                      (unsigned long long)granules, (unsigned long long)space);
}

bool crmm_priv_pool_check(const crmm_resource *resource, char *why, size_t size)
{
    const crmm_priv_pool *pool = (const crmm_priv_pool *)resource;
    uint64_t with_memory = 0;
    uint64_t without = 0;
    uint64_t unmarked = 0;
    hand at_hand = {0};

    for (uint32_t i = 0; i < pool->heap_count; i++) {
        const crmm_priv_extents *extents = &pool->heaps[i]->extents;
        if (extents->solo != pool->solo) {
            return wrong(why, size, "heap %u joins for stream %u, the pool has %u", i,
                         extents->solo, pool->solo);
        }
        if (!crmm_priv_extents_check(extents, why, size) ||
            !check_epochs(pool, extents, why, size) ||
            !check_marks(pool, extents, &unmarked, why, size)) {
            return false;
        }
        with_memory += extents->used_granules + extents->free_granules + extents->busy_granules;
        without += extents->hole_granules + extents->leaving_granules;
    }
    if (!check_caches(pool, &at_hand, why, size) || !check_depot(pool, &at_hand, why, size) ||
        !check_streams(pool, why, size) || !check_space(pool, with_memory + without, why, size)) {
        return false;
    }
    if (pool->solo_pauses != 0 || pool->starving != 0 || pool->solo != pool->only) {
        return wrong(why, size, "%u calls pause joining, %u starve, and none is there",
                     pool->solo_pauses, pool->starving);
    }
    if (with_memory << CRMM_PRIV_POOL_GRANULE_SHIFT != pool->held) {
        return wrong(why, size, "%llu granules make up %zu bytes that are held",
                     (unsigned long long)with_memory, pool->held);
    }
    if (pool->held > pool->maximum) {
        return wrong(why, size, "%zu bytes are held, of at most %zu", pool->held, pool->maximum);
    }
    if (unmarked != at_hand.count) {
        return wrong(why, size, "%llu blocks are in use and not live, %llu at hand",
                     (unsigned long long)unmarked, (unsigned long long)at_hand.count);
    }
    return true;
}

/* ---- locks ---- */

static bool is_held(const crmm_priv_spin *lock)
{
    return __atomic_load_n(&lock->taken, __ATOMIC_RELAXED) != 0;
}

static bool is_mutex_held(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) != 0) {
        return true;
    }
    (void)pthread_mutex_unlock(mutex);
    return false;
}

static bool is_heap_held(crmm_priv_pool *pool)
{
    bool held = false;

    for (uint32_t i = 0; i < crmm_priv_pool_heap_count(pool); i++) {
        held = held || is_held(&crmm_priv_pool_heap_of(pool, i)->lock);
    }
    return held;
}

static bool is_stream_held(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);
    bool held = is_held(&pool->streams.lock);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        held = held || is_held(&crmm_priv_pool_stream_of(&pool->streams, i)->lock);
    }
    return held;
}

static bool is_cache_held(const crmm_priv_pool *pool)
{
    bool held = false;

    for (const crmm_priv_pool_cache *cache = pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        held = held || cache->lock.inside != 0 || is_held(&cache->lock.lock);
    }
    return held;
}

static bool is_rack_held(const crmm_priv_pool *pool)
{
    bool held = false;

    for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        held = held || is_held(&pool->depot.racks[i].lock);
    }
    return held;
}

const char *crmm_priv_pool_held_lock(crmm_resource *resource)
{
    crmm_priv_pool *pool = (crmm_priv_pool *)resource;

    if (crmm_priv_pool_registry_is_held()) {
        return "of all pools";
    }
    if (is_mutex_held(&pool->mutex)) {
        return "of the pool";
    }
    if (is_heap_held(pool)) {
        return "of a heap";
    }
    if (is_stream_held(pool)) {
        return "of streams";
    }
    if (is_cache_held(pool)) {
        return "of a cache";
    }
    return is_rack_held(pool) ? "of a rack" : NULL;
}

/* ---- figures ---- */

size_t crmm_priv_pool_depot_bytes(const crmm_resource *pool)
{
    return ((const crmm_priv_pool *)pool)->depot.bytes;
}

size_t crmm_priv_pool_parked_bytes(const crmm_resource *pool)
{
    size_t bytes = 0;

    for (const crmm_priv_pool_cache *cache = ((const crmm_priv_pool *)pool)->caches; cache != NULL;
         cache = cache->next_of_pool) {
        for (size_t i = 0; i < CRMM_PRIV_POOL_MOST_PARKED; i++) {
            bytes += (size_t)cache->parked[i].size << CRMM_PRIV_POOL_GRANULE_SHIFT;
        }
    }
    return bytes;
}
