/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <string.h>

#include "park.h"

enum {
    FETCHED = 8,        /* an eighth of what a class may have comes with one that was missing */
    FIRST_LIMIT = 2,    /* blocks of a class, until it turns out to be used */
    SHRINK_AT_ONCE = 2, /* classes to make smaller when the cache is full */
    MOST_AT_ONCE = 8    /* blocks of a class to let go of, so that no call takes long */
};

/* ---- heaps ---- */

void crmm_priv_pool_give_to_heaps(crmm_priv_pool *pool, void *const *blocks, size_t count,
                                  uint16_t owner, uint64_t epoch)
{
    crmm_priv_pool_heap *locked = NULL;

    for (size_t i = 0; i < count; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_chunks_find(&pool->chunks, blocks[i])->heap;
        if (locked != NULL && heap != locked) {
            crmm_priv_pool_heap_unlock(locked);
            locked = NULL;
        }
        if (locked == NULL) {
            crmm_priv_pool_heap_lock(heap);
            locked = heap;
        }
        uint64_t at = (uintptr_t)blocks[i] >> CRMM_PRIV_POOL_GRANULE_SHIFT;
        uint32_t index = crmm_priv_extents_lookup(&heap->extents, at);
        crmm_priv_pool_release_to(pool, heap, index, owner, epoch);
    }
    if (locked != NULL) {
        crmm_priv_pool_heap_unlock(locked);
    }
}

/* ---- sizes ---- */

/* Whether the program has said how much may be at hand. Else all classes may have a little, and it
 * is seen later that it is too much together. */
static bool is_strict(const crmm_priv_pool_cache *cache)
{
    return cache->pool->cache_option != 0;
}

void crmm_priv_pool_cache_set_shelves(crmm_priv_pool_cache *cache)
{
    uint32_t limit = is_strict(cache) ? 0 : FIRST_LIMIT;

    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        void **first = &cache->blocks[crmm_priv_pool_first_block(i)];
        cache->shelves[i] = (crmm_priv_pool_shelf){.next = first,
                                                   .end = first + limit,
                                                   .first = first,
                                                   .bytes = crmm_priv_pool_class_bytes(i)};
    }
}

static uint32_t most_of(size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        return CRMM_PRIV_POOL_MOST_SMALL;
    }
    return class_index < CRMM_PRIV_POOL_MIDDLE_CLASSES ? CRMM_PRIV_POOL_MOST_MIDDLE
                                                       : CRMM_PRIV_POOL_MOST_BIG;
}

static size_t budget_of(const crmm_priv_pool_cache *cache)
{
    return __atomic_load_n(&cache->pool->budget, __ATOMIC_RELAXED);
}

/* A class that is used gets more room while there is budget for it. */
static void widen(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    uint32_t limit = crmm_priv_pool_shelf_limit(shelf);

    if (limit < most_of(class_index) && cache->bytes + limit * shelf->bytes < budget_of(cache)) {
        limit *= 2;
        shelf->end = shelf->first + (limit < most_of(class_index) ? limit : most_of(class_index));
    }
}

uint64_t crmm_priv_pool_cache_epoch(const crmm_priv_pool_cache *cache)
{
    if (cache->stream == NULL) {
        return 0;
    }
    /* What was there when the last fence was recorded is behind it. */
    return __atomic_load_n(&cache->left, __ATOMIC_RELAXED) == cache->allowance
               ? cache->epoch
               : crmm_priv_pool_stream_epoch(cache->stream);
}

/* The `count` blocks of a class that were put in first are elsewhere now. */
static void forget_oldest(crmm_priv_pool_cache *cache, size_t class_index, uint32_t count)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    shelf->next -= count;
    memmove(shelf->first, shelf->first + count,
            crmm_priv_pool_shelf_count(shelf) * sizeof(*shelf->first));
    __atomic_store_n(&cache->bytes, cache->bytes - count * shelf->bytes, __ATOMIC_RELAXED);
}

/* Give the `count` blocks of a class that were put in first to the heaps. */
static void drop_oldest(crmm_priv_pool_cache *cache, size_t class_index, uint32_t count)
{
    crmm_priv_pool_give_to_heaps(cache->pool, cache->shelves[class_index].first, count,
                                 crmm_priv_pool_cache_owner(cache),
                                 crmm_priv_pool_cache_epoch(cache));
    forget_oldest(cache, class_index, count);
}

/* The older half of a class, at least one of its blocks: to other streams that are short of them,
 * else to the heaps. */
static void drop_half(crmm_priv_pool_cache *cache, size_t class_index)
{
    uint32_t count = crmm_priv_pool_shelf_count(&cache->shelves[class_index]);

    if (count == 0) {
        return;
    }
    count = (count + 1) / 2;
    count = count < MOST_AT_ONCE ? count : MOST_AT_ONCE;
    if (crmm_priv_pool_depot_put(cache, class_index, cache->shelves[class_index].first, count)) {
        forget_oldest(cache, class_index, count);
        return;
    }
    drop_oldest(cache, class_index, count);
}

/*
 * A cache that holds too much lets go of half of some classes, beginning after those of the last
 * time. What is small as a class is not what makes it too much; but where there are several caches,
 * small blocks that stay at hand for ever keep large ones apart in each.
 */
static void shrink(crmm_priv_pool_cache *cache)
{
    const size_t budget = budget_of(cache);
    bool is_alone = __atomic_load_n(&cache->pool->cache_count, __ATOMIC_RELAXED) == 1;
    size_t small = is_alone ? budget / CRMM_PRIV_POOL_CLASSES : 0;
    int dropped = 0;

    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES && dropped < SHRINK_AT_ONCE &&
                         cache->bytes > budget - budget / 8;
         i++) {
        const crmm_priv_pool_shelf *shelf = &cache->shelves[cache->next_class];
        if (crmm_priv_pool_shelf_count(shelf) * shelf->bytes > small) {
            drop_half(cache, cache->next_class);
            dropped++;
        }
        cache->next_class = (cache->next_class + 1) % CRMM_PRIV_POOL_CLASSES;
    }
}

/* What could be at hand if all shelves were full. */
static size_t capacity_of(const crmm_priv_pool_cache *cache)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        bytes += crmm_priv_pool_shelf_limit(&cache->shelves[i]) * cache->shelves[i].bytes;
    }
    return bytes;
}

/* Take the empty places of a shelf away. Their bytes. */
static size_t close_shelf(crmm_priv_pool_shelf *shelf)
{
    size_t bytes = (size_t)(shelf->end - shelf->next) * shelf->bytes;

    shelf->end = shelf->next;
    return bytes;
}

/* Bytes of the budget that no shelf has: first those of places that are empty, then those of the
 * older blocks of a few classes, beginning after those of the last time. */
static size_t find_capacity(crmm_priv_pool_cache *cache, size_t wanted)
{
    const size_t budget = budget_of(cache);
    const int most = wanted <= budget / 4 ? SHRINK_AT_ONCE : 0; /* one is not worth all others */
    size_t capacity = capacity_of(cache);
    int dropped = 0;

    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES && capacity + wanted > budget; i++) {
        capacity -= close_shelf(&cache->shelves[i]);
    }
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES && dropped < most && capacity + wanted > budget;
         i++) {
        crmm_priv_pool_shelf *shelf = &cache->shelves[cache->next_class];
        if (crmm_priv_pool_shelf_count(shelf) > 0) {
            drop_half(cache, cache->next_class);
            capacity -= close_shelf(shelf);
            dropped++;
        }
        cache->next_class = (cache->next_class + 1) % CRMM_PRIV_POOL_CLASSES;
    }
    return budget > capacity ? budget - capacity : 0;
}

/* The same as make_room() where all shelves together stay within the budget. None may be made. */
static void make_room_strictly(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    uint32_t limit = crmm_priv_pool_shelf_limit(shelf);

    if (shelf->bytes > budget_of(cache)) {
        return;
    }
    if (limit == most_of(class_index)) {
        drop_half(cache, class_index);
        return;
    }
    size_t more = find_capacity(cache, shelf->bytes) / shelf->bytes;
    limit = crmm_priv_pool_shelf_limit(shelf);
    more = more < limit + 1 ? more : limit + 1;
    more = more < most_of(class_index) - limit ? more : most_of(class_index) - limit;
    shelf->end += more;
}

/* Make room for one more block of a class, which is full. */
static void make_room(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    if (is_strict(cache)) {
        make_room_strictly(cache, class_index);
        return;
    }
    widen(cache, class_index);
    if (cache->bytes > budget_of(cache)) {
        uint32_t limit = crmm_priv_pool_shelf_limit(shelf);
        shelf->end = shelf->first + (limit > FIRST_LIMIT ? limit / 2 : limit);
        shrink(cache);
    }
    while (shelf->next >= shelf->end) {
        drop_half(cache, class_index);
    }
}

/* There is no room: the block goes to its heap. */
static bool put_through(crmm_priv_pool_cache *cache, size_t bytes, void *block)
{
    bool is_time = crmm_priv_pool_cache_count(cache, bytes);

    crmm_priv_pool_give_to_heaps(cache->pool, &block, 1, crmm_priv_pool_cache_owner(cache),
                                 crmm_priv_pool_cache_epoch(cache));
    return is_time;
}

bool crmm_priv_pool_cache_put(crmm_priv_pool_cache *cache, size_t class_index, void *block)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    bool is_time = false;

    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    if (shelf->next == shelf->end && cache->pool->cache_option != SIZE_MAX) {
        make_room(cache, class_index);
    }
    is_time = shelf->next == shelf->end ? put_through(cache, shelf->bytes, block)
                                        : crmm_priv_pool_cache_push(cache, shelf, block);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return is_time;
}

void *crmm_priv_pool_cache_get(crmm_priv_pool_cache *cache, size_t class_index)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    void *block = shelf->next == shelf->first ? NULL : crmm_priv_pool_cache_pop(cache, shelf);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return block;
}

/* Whether a class may have more blocks than it asks for. Small ones come in such a number that what
 * has no place would be scattered: where places are counted, all must be there. */
static bool has_room_for_more(const crmm_priv_pool_cache *cache, size_t class_index)
{
    const crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];
    uint32_t limit = crmm_priv_pool_shelf_limit(shelf);

    if (class_index >= CRMM_PRIV_POOL_SMALL_CLASSES) {
        return false;
    }
    return is_strict(cache) ? limit == most_of(class_index)
                            : cache->bytes + limit * shelf->bytes < budget_of(cache);
}

uint32_t crmm_priv_pool_cache_missed(crmm_priv_pool_cache *cache, size_t class_index)
{
    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    if (!is_strict(cache)) {
        widen(cache, class_index);
    }
    uint32_t limit = crmm_priv_pool_shelf_limit(&cache->shelves[class_index]);
    bool is_room = has_room_for_more(cache, class_index);
    crmm_priv_bias_release(&cache->lock, is_inside);
    return is_room ? (limit + FETCHED - 1) / FETCHED : 0;
}

uint32_t crmm_priv_pool_cache_fill(crmm_priv_pool_cache *cache, size_t class_index, void **blocks,
                                   uint32_t count)
{
    crmm_priv_pool_shelf *shelf = &cache->shelves[class_index];

    bool is_inside = crmm_priv_bias_acquire(&cache->lock);
    /* They may have been given back by another thread, after this one's last fence. */
    if (cache->stream != NULL) {
        cache->epoch = crmm_priv_pool_stream_epoch(cache->stream);
    }
    /* Room for all of them, if the class can have it. */
    if (shelf->next + count > shelf->end && !is_strict(cache)) {
        shelf->end = shelf->first + most_of(class_index);
    }
    while (count > 0 && shelf->next < shelf->end) {
        count--;
        *shelf->next++ = blocks[count];
        __atomic_store_n(&cache->bytes, cache->bytes + shelf->bytes, __ATOMIC_RELAXED);
    }
    crmm_priv_bias_release(&cache->lock, is_inside);
    return count;
}

bool crmm_priv_pool_cache_find_chunk(crmm_priv_pool_cache *cache, const void *ptr)
{
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&cache->pool->chunks, ptr);

    if (chunk == NULL) {
        return false;
    }
    cache->chunk_base = chunk->base;
    cache->chunk_granules = chunk->bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT;
    cache->chunk_heap = chunk->heap;
    cache->marks = chunk->marks;
    return true;
}

void crmm_priv_pool_cache_flush(crmm_priv_pool_cache *cache)
{
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_CLASSES; i++) {
        uint32_t count = crmm_priv_pool_shelf_count(&cache->shelves[i]);
        if (count > 0) {
            drop_oldest(cache, i, count);
        }
    }
    crmm_priv_pool_park_clear(cache);
}
