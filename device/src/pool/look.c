/* SPDX-License-Identifier: Apache-2.0 */

/* What a pool tells about itself. */

#include <stdlib.h>
#include <string.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/text.h>

#include "accounts.h"
#include "kind.h"
#include "refuse.h"
#include "registry.h"

/* ---- what it is ---- */

crmm_resource *crmm_priv_pool_upstream(const crmm_resource *resource)
{
    return ((const crmm_priv_pool *)resource)->upstream;
}

/* What was chosen for it, as far as it is no default. */
static void add_options(crmm_priv_text *to, const crmm_priv_pool *pool)
{
    if (pool->is_tight) {
        crmm_priv_text_append(to, ", tight");
    }
    if (pool->validates) {
        crmm_priv_text_append(to, ", validating");
    }
    if (pool->target != 0) {
        crmm_priv_text_append(to, ", target %zu", pool->target);
    }
    if (pool->release_threshold != SIZE_MAX) {
        crmm_priv_text_append(to, ", releasing above %zu", pool->release_threshold);
    }
    if (pool->cache_option == SIZE_MAX) {
        crmm_priv_text_append(to, ", without caches");
    } else if (pool->cache_option != 0) {
        crmm_priv_text_append(to, ", caches of %zu", pool->cache_option);
    }
    if (pool->most_heaps != CRMM_PRIV_POOL_MOST_HEAPS) {
        crmm_priv_text_append(to, ", at most %u heaps", pool->most_heaps);
    }
}

size_t crmm_priv_pool_describe(const crmm_resource *resource, char *text, size_t size)
{
    crmm_priv_pool *pool = (crmm_priv_pool *)(uintptr_t)resource;
    crmm_priv_text to = crmm_priv_text_begin(text, size);

    crmm_priv_text_append(&to, "%s (device %d, maximum ", crmm_priv_pool_name(pool), pool->device);
    if (pool->maximum != SIZE_MAX) {
        crmm_priv_text_append(&to, "%zu", pool->maximum);
    } else {
        crmm_priv_text_append(&to, "none");
    }
    crmm_priv_text_append(&to, ", %s of %zu",
                          pool->is_in_place ? "grown in place by pages" : "chunks", pool->page);
    add_options(&to, pool);
    if (!crmm_priv_pool_is_forked(pool)) {
        crmm_priv_text_append(&to, "; %zu live, %zu held", crmm_priv_pool_live(pool),
                              crmm_priv_pool_held(pool));
    }
    crmm_priv_text_append(&to, ")");
    return crmm_priv_describe_over(pool->upstream, text, size, to.length);
}

size_t crmm_pool_memory_resource_pool_size(const crmm_resource *pool)
{
    if (!crmm_priv_check_class("crmm_pool_memory_resource_pool_size", pool,
                               crmm_priv_pool_ops_of(pool))) {
        return 0;
    }
    return crmm_priv_pool_held((const crmm_priv_pool *)pool);
}

/* ---- figures ---- */

typedef struct figures {
    uint64_t used, free, clean, holes, busy;
    uint64_t used_count;
    uint32_t largest;
    uint64_t at_hand, at_hand_on_streams, at_hand_count;
} figures;

static void add_heaps(crmm_priv_pool *pool, figures *sum)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        const crmm_priv_extents *extents = &heap->extents;
        uint32_t largest = crmm_priv_extents_largest(extents);
        sum->used += extents->used_granules;
        sum->free += extents->free_granules;
        sum->clean += crmm_priv_extents_set(extents, CRMM_PRIV_POOL_CLEAN)->granules;
        sum->holes += extents->hole_granules + extents->leaving_granules;
        sum->busy += extents->busy_granules;
        sum->used_count += extents->used_count;
        sum->largest = largest > sum->largest ? largest : sum->largest;
        crmm_priv_pool_heap_unlock(heap);
    }
}

static void add_magazine(const crmm_priv_pool_magazine *magazine, size_t class_index, void *data)
{
    figures *sum = data;
    uint64_t bytes = magazine->count * crmm_priv_pool_class_bytes(class_index);

    sum->at_hand += bytes;
    sum->at_hand_on_streams += magazine->owner >= CRMM_PRIV_POOL_FIRST_STREAM ? bytes : 0;
    sum->at_hand_count += magazine->count;
}

static void add_at_hand(crmm_priv_pool *pool, figures *sum)
{
    crmm_priv_pool_stop_caches(pool);
    for (crmm_priv_pool_cache *cache = pool->caches; cache != NULL; cache = cache->next_of_pool) {
        size_t at_hand = crmm_priv_pool_cache_bytes(cache);
        sum->at_hand += at_hand;
        sum->at_hand_on_streams += cache->stream != NULL ? at_hand : 0;
        for (size_t i = 0; i < CRMM_PRIV_POOL_MOST_PARKED; i++) {
            uint32_t size = cache->parked[i].size;
            sum->at_hand_count += size != 0;
            sum->largest = size > sum->largest ? size : sum->largest;
        }
        for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
            sum->at_hand_count += crmm_priv_pool_shelf_count(&cache->shelves[i]);
        }
    }
    crmm_priv_pool_depot_for_each(pool, add_magazine, sum);
    crmm_priv_pool_resume_caches(pool);
}

crmm_status crmm_priv_pool_info(const crmm_resource *resource, crmm_memory_info *info)
{
    crmm_priv_pool *pool = (crmm_priv_pool *)(uintptr_t)resource;
    figures sum = {0};

    add_heaps(pool, &sum);
    add_at_hand(pool, &sum);
    size_t used = crmm_priv_pool_bytes_of(sum.used);
    info->live = used > sum.at_hand ? used - (size_t)sum.at_hand : 0;
    info->allocations =
        sum.used_count > sum.at_hand_count ? (size_t)(sum.used_count - sum.at_hand_count) : 0;
    info->cached = crmm_priv_pool_bytes_of(sum.free) + (size_t)sum.at_hand;
    info->pending = crmm_priv_pool_bytes_of(sum.free - sum.clean) + (size_t)sum.at_hand_on_streams;
    info->largest_free = crmm_priv_pool_bytes_of(sum.largest);
    pthread_mutex_lock(&pool->mutex);
    /* Apart from the peak that growing looks at, which must not depend on who asks. */
    pool->peak_told = pool->peak_told > pool->peak_live ? pool->peak_told : pool->peak_live;
    pool->peak_told = pool->peak_told > info->live ? pool->peak_told : info->live;
    info->peak_live = pool->peak_told;
    info->held = pool->held;
    info->peak_held = pool->peak_held;
    pthread_mutex_unlock(&pool->mutex);
    return CRMM_SUCCESS;
}

crmm_status crmm_pool_memory_resource_statistics(const crmm_resource *resource,
                                                 crmm_pool_statistics *statistics)
{
    static const char who[] = "crmm_pool_memory_resource_statistics";
    crmm_priv_pool *pool = (crmm_priv_pool *)(uintptr_t)resource;
    crmm_pool_statistics all = {0};
    figures sum = {0};

    if (!crmm_priv_pool_is_pool(resource, who)) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    if (statistics == NULL || statistics->struct_size < sizeof(statistics->struct_size)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: statistics is NULL, or its struct_size is not set", who);
    }
    add_heaps(pool, &sum);
    add_at_hand(pool, &sum);
    all.holes = crmm_priv_pool_bytes_of(sum.holes);
    all.at_hand = sum.at_hand;
    all.streams = crmm_priv_pool_streams_end(&pool->streams) - CRMM_PRIV_POOL_FIRST_STREAM;
    all.heaps = crmm_priv_pool_heap_count(pool);
    pthread_mutex_lock(&pool->mutex);
    all.growths = pool->growths;
    all.releases = pool->releases;
    pthread_mutex_unlock(&pool->mutex);
    all.moves = __atomic_load_n(&pool->moves, __ATOMIC_RELAXED);
    all.events = __atomic_load_n(&pool->streams.events, __ATOMIC_RELAXED);
    all.records = __atomic_load_n(&pool->streams.records, __ATOMIC_RELAXED);
    all.queries = __atomic_load_n(&pool->streams.queries, __ATOMIC_RELAXED);
    all.waits = __atomic_load_n(&pool->streams.waits, __ATOMIC_RELAXED);
    all.synchronizes = __atomic_load_n(&pool->streams.synchronizes, __ATOMIC_RELAXED);
    all.upstream_calls = __atomic_load_n(&pool->upstream_calls, __ATOMIC_RELAXED);
    size_t size = statistics->struct_size;
    all.struct_size = size;
    memcpy(statistics, &all, size < sizeof(all) ? size : sizeof(all));
    return CRMM_SUCCESS;
}

/* ---- streams ---- */

typedef struct stream_list {
    crmm_pool_stream *all;
    uint32_t end;
} stream_list;

static void add_magazine_of_stream(const crmm_priv_pool_magazine *magazine, size_t class_index,
                                   void *data)
{
    const stream_list *list = data;

    if (magazine->owner >= CRMM_PRIV_POOL_FIRST_STREAM && magazine->owner < list->end) {
        list->all[magazine->owner].at_hand +=
            magazine->count * crmm_priv_pool_class_bytes(class_index);
    }
}

/* What all streams gave back, by their numbers. */
static void add_streams(crmm_priv_pool *pool, crmm_pool_stream *all, uint32_t end)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t k = 0; k < heaps; k++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, k);
        crmm_priv_pool_heap_lock(heap);
        for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
            const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, (uint16_t)i);
            all[i].pending += set != NULL ? crmm_priv_pool_bytes_of(set->granules) : 0;
        }
        crmm_priv_pool_heap_unlock(heap);
    }
    crmm_priv_pool_stop_caches(pool);
    for (const crmm_priv_pool_cache *cache = pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        if (cache->stream != NULL && cache->stream->index < end) {
            all[cache->stream->index].at_hand += crmm_priv_pool_cache_bytes(cache);
        }
    }
    stream_list list = {.all = all, .end = end};
    crmm_priv_pool_depot_for_each(pool, add_magazine_of_stream, &list);
    crmm_priv_pool_resume_caches(pool);
}

crmm_status crmm_pool_memory_resource_streams(const crmm_resource *resource,
                                              void (*visitor)(const crmm_pool_stream *stream,
                                                              void *user_data),
                                              void *user_data)
{
    static const char who[] = "crmm_pool_memory_resource_streams";
    crmm_priv_pool *pool = (crmm_priv_pool *)(uintptr_t)resource;

    if (!crmm_priv_pool_is_pool(resource, who)) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    if (visitor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: visitor is NULL", who);
    }
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);
    crmm_pool_stream *all = calloc(end, sizeof(*all));
    if (all == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a list of streams",
                    crmm_priv_pool_name(pool));
    }
    add_streams(pool, all, end);
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        uint64_t id = crmm_priv_pool_stream_id(crmm_priv_pool_stream_of(&pool->streams, i));
        all[i].struct_size = sizeof(all[i]);
        all[i].stream_id = id == CRMM_PRIV_POOL_LEGACY_STREAM ? 0 : id;
        if (all[i].pending + all[i].at_hand > 0) {
            visitor(&all[i], user_data);
        }
    }
    free(all);
    return CRMM_SUCCESS;
}

/* ---- blocks ---- */

size_t crmm_priv_pool_block_bytes(crmm_priv_pool *pool, const crmm_priv_pool_chunk *chunk,
                                  const void *ptr)
{
    size_t class_index = crmm_priv_pool_marked_class(chunk, ptr);
    size_t bytes = 0;

    (void)pool;
    if (class_index != UINT32_MAX) {
        return crmm_priv_pool_class_bytes(class_index);
    }
    if ((uintptr_t)ptr % CRMM_PRIV_POOL_GRANULE != 0) {
        return 0;
    }
    crmm_priv_pool_heap_lock(chunk->heap);
    const crmm_priv_extents *extents = &chunk->heap->extents;
    uint32_t index =
        crmm_priv_extents_lookup(extents, (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT);
    if (index != 0 && crmm_priv_extent_at(extents, index)->is_direct) {
        bytes = crmm_priv_pool_bytes_of(crmm_priv_extent_at(extents, index)->size);
    }
    crmm_priv_pool_heap_unlock(chunk->heap);
    return bytes;
}

bool crmm_priv_pool_is_block_start(crmm_priv_pool *pool, const crmm_priv_pool_chunk *chunk,
                                   const void *ptr)
{
    uint64_t at = (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT;
    bool found = false;

    (void)pool;
    if ((uintptr_t)ptr % CRMM_PRIV_POOL_GRANULE != 0) {
        return false;
    }
    crmm_priv_pool_heap_lock(chunk->heap);
    const crmm_priv_extents *extents = &chunk->heap->extents;
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents) && !found;
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        bool inside = at >= extent->at && at < extent->at + extent->size;
        /* What was joined to its neighbours began somewhere in the free extent. */
        found = (extent->state == CRMM_PRIV_POOL_USED && extent->at == at) ||
                (extent->state == CRMM_PRIV_POOL_FREE && inside);
    }
    crmm_priv_pool_heap_unlock(chunk->heap);
    return found;
}

/* Whether a live block begins at an address, or, which takes longer, has it in it. */
static bool is_live(crmm_priv_pool *pool, const crmm_priv_pool_chunk *chunk, const void *ptr)
{
    const crmm_priv_extents *extents = &chunk->heap->extents;
    uint64_t at = (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT;
    bool found = crmm_priv_pool_block_bytes(pool, chunk, ptr) != 0;

    crmm_priv_pool_heap_lock(chunk->heap);
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents) && !found;
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        if (extent->state != CRMM_PRIV_POOL_USED || at < extent->at ||
            at >= extent->at + extent->size) {
            continue;
        }
        const void *start = crmm_priv_pool_address_of(extent->at);
        found = extent->is_direct || crmm_priv_pool_marked_class(chunk, start) != UINT32_MAX;
    }
    crmm_priv_pool_heap_unlock(chunk->heap);
    return found;
}

crmm_status crmm_pool_memory_resource_chunk(const crmm_resource *resource, const void *ptr,
                                            void **base, size_t *bytes)
{
    static const char who[] = "crmm_pool_memory_resource_chunk";
    crmm_priv_pool *pool = (crmm_priv_pool *)(uintptr_t)resource;

    if (!crmm_priv_pool_is_pool(resource, who)) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    if (crmm_priv_pool_is_forked(pool)) {
        return crmm_priv_pool_refuse(pool, NULL, 0, 0);
    }
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    if (chunk == NULL || !is_live(pool, chunk, ptr)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %p is in no live block of this pool", who,
                    ptr);
    }
    size_t offset = (uintptr_t)ptr - chunk->base;
    size_t start = chunk->is_in_place ? offset / pool->page * pool->page : 0;
    if (base != NULL) {
        *base = (void *)(chunk->base + start);
    }
    if (bytes != NULL) {
        *bytes = chunk->is_in_place ? pool->page : chunk->bytes;
    }
    return CRMM_SUCCESS;
}
