/* SPDX-License-Identifier: Apache-2.0 */

/* Every block of a pool. */

#include <stdlib.h>

#include <crmm/internal/fail.h>

#include "accounts.h"
#include "kind.h"
#include "registry.h"

typedef struct blocks {
    crmm_pool_block *all;
    size_t count, capacity;
} blocks;

static int by_address(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)((const crmm_pool_block *)one)->ptr;
    uintptr_t b = (uintptr_t)((const crmm_pool_block *)other)->ptr;
    return (a > b) - (a < b);
}

/* Room for as many blocks as a heap can have. */
static bool make_room(blocks *list, size_t more)
{
    size_t capacity = list->count + more;
    crmm_pool_block *all = realloc(list->all, (capacity > 0 ? capacity : 1) * sizeof(*all));

    if (all == NULL) {
        return false;
    }
    list->all = all;
    list->capacity = capacity;
    return true;
}

/* CUDA's id, as the public header tells it. */
static uint64_t id_of(const crmm_priv_pool_stream *stream)
{
    uint64_t id = crmm_priv_pool_stream_id(stream);

    return id == CRMM_PRIV_POOL_LEGACY_STREAM ? 0 : id;
}

/* A block at hand is in use as its heap knows it: what is said of it is corrected later. */
static void describe_block(crmm_priv_pool *pool, const crmm_priv_extent *extent,
                           crmm_pool_block *block)
{
    void *ptr = crmm_priv_pool_address_of(extent->at);
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);
    bool used = extent->state == CRMM_PRIV_POOL_USED;
    bool live = used && (extent->is_direct ||
                         (chunk != NULL && crmm_priv_pool_marked_class(chunk, ptr) != UINT32_MAX));
    bool owned = !used && extent->owner >= CRMM_PRIV_POOL_FIRST_STREAM;

    *block =
        (crmm_pool_block){.struct_size = sizeof(*block),
                          .ptr = ptr,
                          .bytes = crmm_priv_pool_bytes_of(extent->size),
                          .is_live = live,
                          .is_pending = !live && (used || extent->owner != CRMM_PRIV_POOL_CLEAN)};
    if (owned) {
        block->stream_id = id_of(crmm_priv_pool_stream_of(&pool->streams, extent->owner));
    }
}

/* What one heap has, at one moment. The list is made outside the lock, where there is no memory for
 * it once more. */
static bool add_heap(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, blocks *list)
{
    for (;;) {
        crmm_priv_pool_heap_lock(heap);
        uint32_t capacity = heap->extents.capacity;
        if (list->capacity - list->count >= capacity) {
            break;
        }
        crmm_priv_pool_heap_unlock(heap);
        if (!make_room(list, capacity)) {
            return false;
        }
    }
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(&heap->extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(&heap->extents, i);
        if (extent->state == CRMM_PRIV_POOL_USED || extent->state == CRMM_PRIV_POOL_FREE) {
            describe_block(pool, extent, &list->all[list->count++]);
        }
    }
    crmm_priv_pool_heap_unlock(heap);
    return true;
}

/* ---- at hand ---- */

typedef struct at_hand {
    void *ptr;
    uint64_t stream_id;
    bool is_pending; /* it was given back on a stream */
} at_hand;

typedef struct at_hand_list {
    crmm_priv_pool *pool;
    at_hand *all;
    size_t count, capacity;
} at_hand_list;

static void count_magazine(const crmm_priv_pool_magazine *magazine, size_t class_index, void *data)
{
    at_hand_list *list = data;

    (void)class_index;
    list->capacity += magazine->count;
}

/* At most: magazines may go meanwhile, but none comes. */
static void count_at_hand(at_hand_list *list)
{
    for (const crmm_priv_pool_cache *cache = list->pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
            list->capacity += crmm_priv_pool_shelf_count(&cache->shelves[i]);
        }
        list->capacity += CRMM_PRIV_POOL_MOST_PARKED;
    }
    crmm_priv_pool_depot_for_each(list->pool, count_magazine, list);
}

/* Blocks that were given back on a stream; NULL: on none. */
static void copy_blocks(at_hand_list *list, const crmm_priv_pool_stream *stream, void *const *those,
                        size_t count)
{
    for (size_t i = 0; i < count && list->count < list->capacity; i++) {
        list->all[list->count++] = (at_hand){.ptr = those[i],
                                             .stream_id = stream != NULL ? id_of(stream) : 0,
                                             .is_pending = stream != NULL};
    }
}

static void copy_magazine(const crmm_priv_pool_magazine *magazine, size_t class_index, void *data)
{
    at_hand_list *list = data;
    const crmm_priv_pool_stream *stream =
        magazine->owner >= CRMM_PRIV_POOL_FIRST_STREAM
            ? crmm_priv_pool_stream_of(&list->pool->streams, magazine->owner)
            : NULL;

    (void)class_index;
    copy_blocks(list, stream, magazine->blocks, magazine->count);
}

static void copy_at_hand(at_hand_list *list)
{
    for (const crmm_priv_pool_cache *cache = list->pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        for (size_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
            copy_blocks(list, cache->stream, cache->shelves[i].first,
                        crmm_priv_pool_shelf_count(&cache->shelves[i]));
        }
        for (size_t i = 0; i < CRMM_PRIV_POOL_MOST_PARKED; i++) {
            const crmm_priv_pool_parked *parked = &cache->parked[i];
            copy_blocks(list, cache->stream, &parked->block, parked->size != 0);
        }
    }
    crmm_priv_pool_depot_for_each(list->pool, copy_magazine, list);
}

/* All that is at hand at one moment; NULL: no host memory. */
static at_hand *list_at_hand(crmm_priv_pool *pool, size_t *count)
{
    at_hand_list list = {.pool = pool};

    crmm_priv_pool_stop_caches(pool);
    count_at_hand(&list);
    list.all = malloc((list.capacity > 0 ? list.capacity : 1) * sizeof(*list.all));
    if (list.all != NULL) {
        copy_at_hand(&list);
    }
    crmm_priv_pool_resume_caches(pool);
    *count = list.count;
    return list.all;
}

/* Whose they are, and whether work may be pending: only what came back without a stream is sure to
 * be complete. What has left its cache, or come to it, between the two looks is left as it is. */
static bool correct_at_hand(crmm_priv_pool *pool, const blocks *list)
{
    size_t count = 0;
    at_hand *all = list_at_hand(pool, &count);

    for (size_t i = 0; all != NULL && i < count && list->count > 0; i++) {
        const crmm_pool_block wanted = {.ptr = all[i].ptr};
        crmm_pool_block *block =
            bsearch(&wanted, list->all, list->count, sizeof(*list->all), by_address);
        if (block != NULL && block->is_live == 0) {
            block->is_pending = all[i].is_pending;
            block->stream_id = all[i].stream_id;
        }
    }
    free(all);
    return all != NULL;
}

static bool make_list(crmm_priv_pool *pool, blocks *list)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        if (!add_heap(pool, crmm_priv_pool_heap_of(pool, i), list)) {
            return false;
        }
    }
    if (list->count > 0) {
        qsort(list->all, list->count, sizeof(*list->all), by_address);
    }
    return correct_at_hand(pool, list);
}

crmm_status crmm_priv_pool_snapshot(crmm_priv_pool *pool,
                                    void (*visitor)(const crmm_pool_block *block, void *user_data),
                                    void *user_data)
{
    blocks list = {0};

    if (!make_list(pool, &list)) {
        free(list.all);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a list of blocks",
                    crmm_priv_pool_name(pool));
    }
    for (size_t i = 0; i < list.count; i++) {
        visitor(&list.all[i], user_data);
    }
    free(list.all);
    return CRMM_SUCCESS;
}

crmm_status crmm_pool_memory_resource_snapshot(const crmm_resource *resource,
                                               void (*visitor)(const crmm_pool_block *block,
                                                               void *user_data),
                                               void *user_data)
{
    static const char who[] = "crmm_pool_memory_resource_snapshot";

    if (!crmm_priv_pool_is_pool(resource, who)) {
        return CRMM_ERROR_INVALID_ARGUMENT;
    }
    if (visitor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: visitor is NULL", who);
    }
    return crmm_priv_pool_snapshot((crmm_priv_pool *)(uintptr_t)resource, visitor, user_data);
}
