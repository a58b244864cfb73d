/* SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"

#include <stdlib.h>

#include "accounts.h"
#include "page_memory.h"

enum { MOST_PAGES = 64 }; /* looked for at a time */

typedef struct donation {
    uint64_t at;
    uint32_t index;
} donation;

/* ---- open moves: memory that has two addresses ---- */

/* ---- open moves: memory that has two addresses; for the thread that changes what is held ---- */

static bool note_move(crmm_priv_pool *pool, uint64_t from, uint64_t to)
{
    if (pool->open_count == pool->open_capacity) {
        size_t capacity = pool->open_capacity == 0 ? MOST_PAGES : pool->open_capacity * 2;
        crmm_priv_pool_move *open = realloc(pool->open, capacity * sizeof(*open));
        if (open == NULL) {
            return false;
        }
        pool->open = open;
        pool->open_capacity = capacity;
    }
    pool->open[pool->open_count++] = (crmm_priv_pool_move){.from = from, .to = to};
    return true;
}

static void forget_move(crmm_priv_pool *pool, uint64_t from)
{
    for (size_t i = 0; i < pool->open_count; i++) {
        if (pool->open[i].from == from) {
            pool->open[i] = pool->open[--pool->open_count];
            return;
        }
    }
}

/* Whether a page got its memory by a move that is not over: it cannot move on. */
static bool is_arriving(const crmm_priv_pool *pool, uint64_t at)
{
    for (size_t i = 0; i < pool->open_count; i++) {
        if (pool->open[i].to == at) {
            return true;
        }
    }
    return false;
}

/* ---- whose pages ---- */

/* Whether a free extent lies where the block is meant to come, and so is used in place. */
static bool is_within(const crmm_priv_extent *extent, const crmm_priv_pool_plan *plan)
{
    return extent->at < plan->end && extent->at + extent->size > plan->begin;
}

/* Pages of a free extent that can move, in a row: where they begin, and how many. */
static uint32_t movable_pages(const crmm_priv_pool *pool, const crmm_priv_extent *extent,
                              uint64_t *at)
{
    uint32_t page = crmm_priv_pool_granules_of(pool->page);
    uint32_t pages = crmm_priv_pool_whole_pages(pool, extent, at) / page;
    uint32_t count = 0;

    for (; pages > 0 && is_arriving(pool, *at); pages--) {
        *at += page;
    }
    while (count < pages && !is_arriving(pool, *at + (uint64_t)count * page)) {
        count++;
    }
    return count;
}

/* Free extents with pages that can move, the smallest ones first. */
typedef struct sources {
    uint32_t all[MOST_PAGES];
    uint32_t count;
} sources;

/* Put an extent where it belongs by its size, as long as it is among the first `most`. */
static void insert_by_size(sources *list, const crmm_priv_extents *extents, uint32_t index,
                           uint32_t most)
{
    uint32_t at = list->count;

    while (at > 0 && crmm_priv_extent_at(extents, list->all[at - 1])->size >
                         crmm_priv_extent_at(extents, index)->size) {
        at--;
    }
    if (at == most) {
        return;
    }
    list->count += list->count < most;
    for (uint32_t i = list->count - 1; i > at; i--) {
        list->all[i] = list->all[i - 1];
    }
    list->all[at] = index;
}

/* Those that are of use to the request; each has a page at least. */
static void find_sources(const crmm_priv_pool_request *request, const crmm_priv_extents *extents,
                         const crmm_priv_pool_plan *plan, uint32_t most, sources *list)
{
    const crmm_priv_pool *pool = request->pool;
    uint32_t page = crmm_priv_pool_granules_of(pool->page);
    uint64_t at = 0;

    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        bool is_larger = list->count == most &&
                         extent->size >= crmm_priv_extent_at(extents, list->all[most - 1])->size;
        if (extent->size >= page && !is_larger && crmm_priv_pool_may_use(request, extent) &&
            !is_within(extent, plan) && movable_pages(pool, extent, &at) > 0) {
            insert_by_size(list, extents, i, most);
        }
    }
}

/* Up to `want` pages that are wholly free and of use to the request, smallest extents first, so
 * that large ones stay whole; they are marked as leaving. Their number. The heap is locked. */
static uint32_t find_donors(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                            const crmm_priv_pool_plan *plan, uint32_t want, donation *found)
{
    const crmm_priv_pool *pool = request->pool;
    crmm_priv_extents *extents = &heap->extents;
    uint32_t page = crmm_priv_pool_granules_of(pool->page);
    sources list = {.count = 0};
    uint32_t count = 0;

    find_sources(request, extents, plan, want, &list);
    for (uint32_t k = 0; k < list.count && count < want; k++) {
        uint32_t rest = list.all[k];
        uint64_t at = 0;
        uint32_t pages = movable_pages(pool, crmm_priv_extent_at(extents, rest), &at);
        for (uint32_t i = 0; i < pages && count < want; i++, at += page) {
            if (!crmm_priv_extents_reserve(extents)) {
                return count;
            }
            uint32_t index =
                crmm_priv_extents_carve(extents, rest, at, page, CRMM_PRIV_POOL_LEAVING);
            found[count++] = (donation){.at = at, .index = index};
            rest = crmm_priv_extent_at(extents, index)->after;
        }
    }
    return count;
}

/* Make the request's stream wait for what it takes to have `want` pages to move, as far as there is
 * a fence for it. */
static void wait_for_donors(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                            const crmm_priv_pool_plan *plan, uint32_t want)
{
    const crmm_priv_extents *extents = &heap->extents;
    uint32_t page = crmm_priv_pool_granules_of(request->pool->page);
    crmm_priv_pool_waits waits = {0};
    uint32_t count = 0;

    crmm_priv_pool_heap_lock(heap);
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents) && count < want;
         i += CRMM_PRIV_EXTENT_STEP) {
        const crmm_priv_extent *extent = crmm_priv_extent_at(extents, i);
        uint64_t at = 0;
        if (extent->size < page || !crmm_priv_pool_could_use(request, extent) ||
            is_within(extent, plan)) {
            continue;
        }
        uint32_t pages = movable_pages(request->pool, extent, &at);
        if (pages > 0 && crmm_priv_pool_add_wait(request, &waits, extent)) {
            count += pages;
        }
    }
    crmm_priv_pool_heap_unlock(heap);
    (void)crmm_priv_pool_wait_for(request, &waits);
}

/* A donor stays where it is. */
static void keep_donor(crmm_priv_pool_heap *heap, const donation *donor)
{
    crmm_priv_extents *extents = &heap->extents;
    const crmm_priv_extent extent = *crmm_priv_extent_at(extents, donor->index);

    crmm_priv_extents_set_free(extents, donor->index, extent.owner, extent.epoch);
}

/* ---- moving ---- */

/* Begin to move one page. */
static bool move_page(crmm_priv_pool *pool, uint64_t from, uint64_t to)
{
    if (!note_move(pool, from, to)) {
        return false;
    }
    if (pool->upstream->ops->move_begin(
            crmm_priv_pool_call_upstream(pool), crmm_priv_pool_address_of(to),
            crmm_priv_pool_address_of(from), pool->page) != CRMM_SUCCESS) {
        forget_move(pool, from);
        return false;
    }
    crmm_priv_pool_tell(pool, crmm_priv_pool_address_of(from), pool->page, false);
    crmm_priv_pool_tell(pool, crmm_priv_pool_address_of(to), pool->page, true);
    return true;
}

/* The same from one heap, behind what lies after the first `done` granules of the part. */
static uint32_t move_from(const crmm_priv_pool_request *request, crmm_priv_pool_heap *heap,
                          const crmm_priv_pool_plan *plan, uint32_t done, uint32_t limit)
{
    crmm_priv_pool *pool = request->pool;
    uint32_t page = crmm_priv_pool_granules_of(pool->page);
    donation donors[MOST_PAGES];

    wait_for_donors(request, heap, plan, (limit - done) / page);
    while (done < limit) {
        uint32_t want = (limit - done) / page;
        uint64_t to = plan->at + done;
        uint32_t moved = 0;

        crmm_priv_pool_heap_lock(heap);
        uint32_t count =
            find_donors(request, heap, plan, want < MOST_PAGES ? want : MOST_PAGES, donors);
        crmm_priv_pool_heap_unlock(heap);
        while (moved < count && move_page(pool, donors[moved].at, to + (uint64_t)moved * page)) {
            moved++;
        }
        crmm_priv_pool_heap_lock(heap);
        for (uint32_t i = moved; i < count; i++) {
            keep_donor(heap, &donors[i]);
        }
        crmm_priv_pool_heap_unlock(heap);
        done += moved * page;
        (void)__atomic_fetch_add(&pool->moves, moved, __ATOMIC_RELAXED);
        if (moved < count || count == 0) {
            break;
        }
    }
    return done;
}

uint32_t crmm_priv_pool_move_into(const crmm_priv_pool_request *request,
                                  const crmm_priv_pool_plan *plan, uint32_t limit)
{
    return move_from(request, request->heap, plan, 0, limit);
}

/* Whether more than a fifth of a heap is free: its threads have gone, or need it no more. */
static bool has_surplus(crmm_priv_pool_heap *heap)
{
    enum { FIFTH = 4 };

    if (!crmm_priv_pool_heap_try(heap)) {
        return false;
    }
    bool found = heap->extents.free_granules > heap->extents.used_granules / FIFTH;
    crmm_priv_pool_heap_unlock(heap);
    return found;
}

uint32_t crmm_priv_pool_move_surplus(const crmm_priv_pool_request *request,
                                     const crmm_priv_pool_plan *plan)
{
    uint32_t heaps = crmm_priv_pool_heap_count(request->pool);
    uint32_t done = 0;

    for (uint32_t i = 0; i < heaps && done < plan->size; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(request->pool, i);
        if (heap != request->heap && has_surplus(heap)) {
            done = move_from(request, heap, plan, done, plan->size);
        }
    }
    return done;
}

/* An extent that is leaving and whose work is complete; marked busy. 0: none. The heap is locked.
 */
static uint32_t next_left(crmm_priv_pool *pool, crmm_priv_pool_heap *heap)
{
    crmm_priv_extents *extents = &heap->extents;

    for (uint32_t i = extents->leaving; i != 0; i = crmm_priv_extent_at(extents, i)->bin_after) {
        const crmm_priv_extent extent = *crmm_priv_extent_at(extents, i);
        if (extent.owner == CRMM_PRIV_POOL_CLEAN ||
            (extent.owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
             extent.epoch <= crmm_priv_pool_stream_done(
                                 crmm_priv_pool_stream_of(&pool->streams, extent.owner)))) {
            return crmm_priv_extents_carve(extents, i, extent.at, extent.size, CRMM_PRIV_POOL_BUSY);
        }
    }
    return 0;
}

/* What upstream did not take away is still mapped, and is tried again the next time. */
static void leave_again(crmm_priv_pool_heap *heap, uint32_t index)
{
    crmm_priv_extents *extents = &heap->extents;

    crmm_priv_pool_heap_lock(heap);
    (void)crmm_priv_extents_carve(extents, index, crmm_priv_extent_at(extents, index)->at,
                                  crmm_priv_extent_at(extents, index)->size,
                                  CRMM_PRIV_POOL_LEAVING);
    crmm_priv_pool_heap_unlock(heap);
}

void crmm_priv_pool_finish_moves(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        for (;;) {
            crmm_priv_pool_heap_lock(heap);
            uint32_t index = next_left(pool, heap);
            void *base = crmm_priv_pool_address_of(crmm_priv_pool_extent_of(heap, index)->at);
            size_t bytes = crmm_priv_pool_bytes_of(crmm_priv_pool_extent_of(heap, index)->size);
            crmm_priv_pool_heap_unlock(heap);
            if (index == 0) {
                break;
            }
            if (pool->upstream->ops->move_end(crmm_priv_pool_call_upstream(pool), base, bytes) !=
                CRMM_SUCCESS) {
                leave_again(heap, index);
                break;
            }
            forget_move(pool, (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT);
            crmm_priv_pool_settle(heap, index, 0, CRMM_PRIV_POOL_CLEAN, 0);
        }
    }
}

bool crmm_priv_pool_is_moving(const crmm_priv_pool *pool)
{
    return pool->open_count != 0;
}
