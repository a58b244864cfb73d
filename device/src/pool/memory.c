/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>

#include "cache.h"
#include "plan.h"

enum {
    SLACK = 25,        /* the pool may hold 4 % more than was ever live before memory is moved */
    TIGHT_SLACK = 100, /* and 1 % */
    CHUNK_SLACK = 2,   /* half as much again, before idle chunks are given back */
    MOST_PAGES = 64    /* moved, or looked for, at a time */
};

static const size_t SMALLEST_STEP = (size_t)2 << 20; /* what a chunk has at least */
static const size_t LARGEST_STEP = (size_t)1 << 30;  /* more only for a request that needs it */
static const size_t LARGEST_RANGE = (size_t)1 << 39; /* address space of a heap */
static const size_t DEFAULT_RANGE = (size_t)1 << 36; /* where the device's memory is not known */

static size_t bytes_of(uint64_t granules)
{
    return (size_t)granules << CRMM_PRIV_POOL_GRANULE_SHIFT;
}

static uint32_t granules_of(size_t bytes)
{
    return (uint32_t)(bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT);
}

static void *address_of(uint64_t at)
{
    return (void *)(uintptr_t)bytes_of(at);
}

/* A page need not be a power of two. */
static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static const crmm_priv_extent *extent_of(const crmm_priv_pool_heap *heap, uint32_t index)
{
    return &heap->extents.all[index];
}

/* ---- accounts ---- */

static void tell(const crmm_priv_pool *pool, void *base, size_t bytes, bool added)
{
    if (pool->on_chunk != NULL) {
        pool->on_chunk(base, bytes, added, pool->on_chunk_user_data);
    }
}

static void account(crmm_priv_pool *pool, size_t added, size_t removed)
{
    pthread_mutex_lock(&pool->mutex);
    size_t held = pool->held + added - removed;
    __atomic_store_n(&pool->held, held, __ATOMIC_RELAXED);
    pool->peak_held = held > pool->peak_held ? held : pool->peak_held;
    pool->growths += added != 0;
    pool->releases += removed != 0;
    pthread_mutex_unlock(&pool->mutex);
}

/* Bytes that may still be taken from upstream. */
static size_t room(const crmm_priv_pool *pool)
{
    size_t held = crmm_priv_pool_held(pool);
    return pool->maximum > held ? pool->maximum - held : 0;
}

/* ---- chunks of their own ---- */

static crmm_status add_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t bytes)
{
    void *base = NULL;

    crmm_status status = crmm_allocate_sync(pool->upstream, bytes, CRMM_PRIV_POOL_GRANULE, &base);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_chunk *chunk =
        crmm_priv_pool_chunks_add(&pool->chunks, base, bytes, heap, false);
    pthread_mutex_unlock(&pool->mutex);
    if (chunk != NULL) {
        tell(pool, base, bytes, true);
        crmm_priv_pool_heap_lock(heap);
        bool room_for_it = crmm_priv_extents_reserve(&heap->extents);
        if (room_for_it) {
            (void)crmm_priv_extents_add(&heap->extents,
                                        (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                                        granules_of(bytes), CRMM_PRIV_POOL_FREE);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (room_for_it) {
            account(pool, bytes, 0);
            return CRMM_SUCCESS;
        }
        tell(pool, base, bytes, false);
        pthread_mutex_lock(&pool->mutex);
        crmm_priv_pool_chunks_remove(&pool->chunks, chunk);
        pthread_mutex_unlock(&pool->mutex);
    }
    crmm_deallocate_sync(pool->upstream, base, bytes, CRMM_PRIV_POOL_GRANULE);
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes, "%s: no host memory for a chunk's books",
                      CRMM_PRIV_POOL_NAME);
}

/* How large a chunk to ask for: an eighth of the pool, and at least what is needed. */
static size_t step_of(const crmm_priv_pool *pool, size_t need)
{
    size_t step = pool->is_tight ? pool->page : crmm_priv_pool_held(pool) / 8;

    step = step > LARGEST_STEP ? LARGEST_STEP : step;
    step = step < pool->page ? pool->page : step;
    if (pool->target > crmm_priv_pool_held(pool) &&
        pool->target - crmm_priv_pool_held(pool) > step) {
        step = pool->target - crmm_priv_pool_held(pool);
    }
    step = step < need ? need : step;
    return crmm_align_up(step, SMALLEST_STEP);
}

static crmm_priv_pool_growth grow_by_chunk(const crmm_priv_pool_request *request)
{
    crmm_priv_pool *pool = request->pool;
    size_t need = bytes_of(crmm_priv_pool_need(request));

    if (need > room(pool)) {
        return CRMM_PRIV_POOL_AT_MAXIMUM;
    }
    size_t bytes = step_of(pool, need);
    bytes = bytes < room(pool) ? bytes : crmm_align_down(room(pool), CRMM_PRIV_POOL_GRANULE);
    /* Where upstream refuses much, ask for less, down to what is needed. */
    for (;;) {
        crmm_status status = add_chunk(pool, request->heap, bytes);
        if (status == CRMM_SUCCESS) {
            return CRMM_PRIV_POOL_GREW;
        }
        if (bytes == need || !crmm_status_is_allocation_failure(status)) {
            return CRMM_PRIV_POOL_REFUSED;
        }
        bytes = crmm_align_down(bytes / 2, CRMM_PRIV_POOL_GRANULE);
        bytes = bytes < need ? need : bytes;
    }
}

/* ---- ranges ---- */

/* Address space for a heap: several times what it can ever have memory for, so that there is always
 * a long enough hole. */
static size_t range_of(const crmm_priv_pool *pool)
{
    size_t free_bytes = 0;
    size_t total = 0;
    size_t range = DEFAULT_RANGE;
    crmm_error before = *crmm_last_error();

    if (pool->maximum != SIZE_MAX) {
        range = pool->maximum;
    } else if (crmm_priv_cuda_memory(&free_bytes, &total) == CRMM_SUCCESS) {
        range = total;
    } else {
        crmm_priv_restore_error(&before);
    }
    range = range > LARGEST_RANGE / 4 ? LARGEST_RANGE : range * 4;
    return round_up(range, pool->page);
}

static crmm_status add_range(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t need)
{
    size_t bytes = range_of(pool);
    void *base = NULL;

    need = round_up(need, pool->page);
    bytes = bytes < need ? need : bytes;
    size_t alignment = pool->page & (~pool->page + 1); /* its largest power of two */
    crmm_status status = pool->upstream->ops->reserve(pool->upstream, bytes, alignment, &base);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_add(&pool->chunks, base, bytes, heap, true);
    pthread_mutex_unlock(&pool->mutex);
    if (chunk != NULL) {
        crmm_priv_pool_heap_lock(heap);
        bool room_for_it = crmm_priv_extents_reserve(&heap->extents);
        if (room_for_it) {
            (void)crmm_priv_extents_add(&heap->extents,
                                        (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                                        granules_of(bytes), CRMM_PRIV_POOL_HOLE);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (room_for_it) {
            return CRMM_SUCCESS;
        }
        pthread_mutex_lock(&pool->mutex);
        crmm_priv_pool_chunks_remove(&pool->chunks, chunk);
        pthread_mutex_unlock(&pool->mutex);
    }
    (void)pool->upstream->ops->unreserve(pool->upstream, base, bytes);
    return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a range's books",
                CRMM_PRIV_POOL_NAME);
}

/* The part of a hole to fill for a request; marked busy, so that nobody else does. 0: no hole is
 * long enough, or there is no host memory. */
static uint32_t claim_hole(const crmm_priv_pool_request *request, crmm_priv_pool_plan *plan)
{
    crmm_priv_extents *extents = &request->heap->extents;
    uint32_t claimed = 0;

    crmm_priv_pool_heap_lock(request->heap);
    *plan = crmm_priv_pool_plan_for(request, granules_of(request->pool->page));
    if (plan->hole != 0 && crmm_priv_extents_reserve(extents)) {
        claimed =
            crmm_priv_extents_carve(extents, plan->hole, plan->at, plan->size, CRMM_PRIV_POOL_BUSY);
    }
    crmm_priv_pool_heap_unlock(request->heap);
    return claimed;
}

/* Memory is behind the first `done` granules of a claimed part; the rest is a hole again. */
static void settle(crmm_priv_pool_heap *heap, uint32_t claimed, uint32_t done, uint16_t owner,
                   uint64_t epoch)
{
    crmm_priv_extents *extents = &heap->extents;

    crmm_priv_pool_heap_lock(heap);
    if (done == 0) {
        crmm_priv_extents_set_hole(extents, claimed);
    } else if (done == extents->all[claimed].size || crmm_priv_extents_reserve(extents)) {
        uint64_t at = extents->all[claimed].at;
        uint32_t size = extents->all[claimed].size;
        uint32_t rest = 0;
        if (done < size) {
            rest = crmm_priv_extents_carve(extents, claimed, at + done, size - done,
                                           CRMM_PRIV_POOL_BUSY);
            claimed = extents->all[rest].before;
        }
        if (!crmm_priv_extents_reserve_owner(extents, owner)) {
            owner = CRMM_PRIV_POOL_STRANDED;
            epoch = UINT64_MAX; /* never: there is no host memory for books at all */
        }
        if (rest != 0) {
            crmm_priv_extents_set_hole(extents, rest);
        }
        crmm_priv_extents_set_free(extents, claimed, owner, epoch);
    }
    crmm_priv_pool_heap_unlock(heap);
}

/* New memory behind a claimed part, page by page. */
static crmm_status fill(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed)
{
    crmm_priv_pool_heap_lock(heap);
    char *base = address_of(extent_of(heap, claimed)->at);
    size_t bytes = bytes_of(extent_of(heap, claimed)->size);
    crmm_priv_pool_heap_unlock(heap);
    crmm_status status = CRMM_SUCCESS;
    size_t done = 0;

    while (done < bytes) {
        status = pool->upstream->ops->commit(pool->upstream, base + done, pool->page);
        if (status != CRMM_SUCCESS) {
            break;
        }
        tell(pool, base + done, pool->page, true);
        done += pool->page;
    }
    if (done > 0) {
        account(pool, done, 0);
    }
    settle(heap, claimed, granules_of(done), CRMM_PRIV_POOL_CLEAN, 0);
    return status;
}

/* ---- moving ---- */

typedef struct donation {
    uint64_t at;
    uint32_t index;
} donation;

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

/* The first page boundary at or after an address of a chunk, in granules. */
static uint64_t page_after(const crmm_priv_pool *pool, uint64_t at)
{
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, address_of(at));
    size_t offset = (uintptr_t)address_of(at) - chunk->base;
    size_t up = (offset + pool->page - 1) / pool->page * pool->page;
    return (chunk->base + up) >> CRMM_PRIV_POOL_GRANULE_SHIFT;
}

/* Whole pages within a free extent: where they begin, and how many granules. */
static uint32_t whole_pages(const crmm_priv_pool *pool, const crmm_priv_extent *extent,
                            uint64_t *at)
{
    uint32_t page = granules_of(pool->page);

    *at = page_after(pool, extent->at);
    uint64_t end = extent->at + extent->size;
    return *at >= end ? 0 : (uint32_t)(end - *at) / page * page;
}

/* Whether a free extent lies where the block is meant to come, and so is used in place. */
static bool is_within(const crmm_priv_extent *extent, const crmm_priv_pool_plan *plan)
{
    return extent->at < plan->end && extent->at + extent->size > plan->begin;
}

/* Pages of a free extent that can move, in a row: where they begin, and how many. */
static uint32_t movable_pages(const crmm_priv_pool *pool, const crmm_priv_extent *extent,
                              uint64_t *at)
{
    uint32_t page = granules_of(pool->page);
    uint32_t pages = whole_pages(pool, extent, at) / page;
    uint32_t count = 0;

    for (; pages > 0 && is_arriving(pool, *at); pages--) {
        *at += page;
    }
    while (count < pages && !is_arriving(pool, *at + (uint64_t)count * page)) {
        count++;
    }
    return count;
}

/* Up to `want` pages that are wholly free and of use to the request, smallest extents first; they
 * are marked as leaving. Their number. The heap is locked. */
static uint32_t find_donors(const crmm_priv_pool_request *request, const crmm_priv_pool_plan *plan,
                            uint32_t want, donation *found)
{
    const crmm_priv_pool *pool = request->pool;
    crmm_priv_extents *extents = &request->heap->extents;
    uint32_t page = granules_of(pool->page);
    uint32_t count = 0;

    while (count < want) {
        uint32_t best = 0;
        uint32_t best_size = 0;
        uint64_t at = 0;

        for (uint32_t i = 1; i < extents->capacity; i++) {
            const crmm_priv_extent *extent = &extents->all[i];
            if (extent->size >= page && extent->size > best_size &&
                crmm_priv_pool_may_use(request, extent) && !is_within(extent, plan) &&
                movable_pages(pool, extent, &at) > 0) {
                best = i;
                best_size = extent->size;
            }
        }
        if (best == 0) {
            break;
        }
        uint32_t pages = movable_pages(pool, &extents->all[best], &at);
        for (uint32_t i = 0; i < pages && count < want; i++, at += page) {
            if (!crmm_priv_extents_reserve(extents)) {
                return count;
            }
            uint32_t index =
                crmm_priv_extents_carve(extents, best, at, page, CRMM_PRIV_POOL_LEAVING);
            found[count++] = (donation){.at = at, .index = index};
            best = extents->all[index].after;
        }
    }
    return count;
}

/* Make the request's stream wait for what it takes to have `want` pages to move, as far as there is
 * a fence for it. */
static void wait_for_donors(const crmm_priv_pool_request *request, const crmm_priv_pool_plan *plan,
                            uint32_t want)
{
    const crmm_priv_extents *extents = &request->heap->extents;
    uint32_t page = granules_of(request->pool->page);
    crmm_priv_pool_waits waits = {0};
    uint32_t count = 0;

    crmm_priv_pool_heap_lock(request->heap);
    for (uint32_t i = 1; i < extents->capacity && count < want; i++) {
        const crmm_priv_extent *extent = &extents->all[i];
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
    crmm_priv_pool_heap_unlock(request->heap);
    (void)crmm_priv_pool_wait_for(request, &waits);
}

/* A donor stays where it is. */
static void keep_donor(crmm_priv_pool_heap *heap, const donation *donor)
{
    crmm_priv_extents *extents = &heap->extents;
    const crmm_priv_extent extent = extents->all[donor->index];

    crmm_priv_extents_set_free(extents, donor->index, extent.owner, extent.epoch);
}

/* Begin to move one page. */
static bool move_page(crmm_priv_pool *pool, uint64_t from, uint64_t to)
{
    if (!note_move(pool, from, to)) {
        return false;
    }
    if (pool->upstream->ops->move_begin(pool->upstream, address_of(to), address_of(from),
                                        pool->page) != CRMM_SUCCESS) {
        forget_move(pool, from);
        return false;
    }
    tell(pool, address_of(from), pool->page, false);
    tell(pool, address_of(to), pool->page, true);
    return true;
}

/* Memory from elsewhere in the heap behind as much as possible of a claimed part. Granules. */
static uint32_t move_into(const crmm_priv_pool_request *request, const crmm_priv_pool_plan *plan,
                          uint32_t limit)
{
    crmm_priv_pool *pool = request->pool;
    crmm_priv_pool_heap *heap = request->heap;
    uint32_t page = granules_of(pool->page);
    uint32_t done = 0;
    donation donors[MOST_PAGES];

    wait_for_donors(request, plan, limit / page);
    while (done < limit) {
        uint32_t want = (limit - done) / page;
        crmm_priv_pool_heap_lock(heap);
        uint64_t to = plan->at + done;
        uint32_t count = find_donors(request, plan, want < MOST_PAGES ? want : MOST_PAGES, donors);
        crmm_priv_pool_heap_unlock(heap);
        uint32_t moved = 0;
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

/* An extent that is leaving and whose work is complete; marked busy. 0: none. The heap is locked.
 */
static uint32_t next_left(crmm_priv_pool *pool, crmm_priv_pool_heap *heap)
{
    crmm_priv_extents *extents = &heap->extents;

    for (uint32_t i = extents->leaving; i != 0; i = extents->all[i].bin_after) {
        const crmm_priv_extent extent = extents->all[i];
        if (extent.owner == CRMM_PRIV_POOL_CLEAN ||
            (extent.owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
             extent.epoch <= crmm_priv_pool_stream_done(
                                 crmm_priv_pool_stream_of(&pool->streams, extent.owner)))) {
            return crmm_priv_extents_carve(extents, i, extent.at, extent.size, CRMM_PRIV_POOL_BUSY);
        }
    }
    return 0;
}

void crmm_priv_pool_finish_moves(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        for (;;) {
            crmm_priv_pool_heap_lock(heap);
            uint32_t index = next_left(pool, heap);
            void *base = address_of(extent_of(heap, index)->at);
            size_t bytes = bytes_of(extent_of(heap, index)->size);
            crmm_priv_pool_heap_unlock(heap);
            if (index == 0) {
                break;
            }
            /* What cannot be taken away stays busy: address space, not memory. */
            if (pool->upstream->ops->move_end(pool->upstream, base, bytes) == CRMM_SUCCESS) {
                forget_move(pool, (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT);
                settle(heap, index, 0, CRMM_PRIV_POOL_CLEAN, 0);
            }
        }
    }
}

/* ---- growing ---- */

size_t crmm_priv_pool_free_limit(crmm_priv_pool *pool, size_t need)
{
    size_t live = crmm_priv_pool_live(pool) + need;

    pthread_mutex_lock(&pool->mutex);
    pool->peak_live = live > pool->peak_live ? live : pool->peak_live;
    size_t peak = pool->peak_live;
    pthread_mutex_unlock(&pool->mutex);
    size_t slack = pool->is_in_place ? peak / SLACK : peak / CHUNK_SLACK;
    size_t limit = peak + (pool->is_tight ? peak / TIGHT_SLACK : slack);
    return limit > pool->target ? limit : pool->target;
}

static crmm_priv_pool_growth grow_in_place(const crmm_priv_pool_request *request)
{
    crmm_priv_pool *pool = request->pool;
    crmm_priv_pool_heap *heap = request->heap;
    uint64_t need = crmm_priv_pool_need(request);

    crmm_priv_pool_finish_moves(pool);
    crmm_priv_pool_plan plan;
    uint32_t claimed = claim_hole(request, &plan);
    if (claimed == 0) {
        if (add_range(pool, heap, bytes_of(need) + pool->page) != CRMM_SUCCESS) {
            return CRMM_PRIV_POOL_REFUSED;
        }
        claimed = claim_hole(request, &plan);
        if (claimed == 0) {
            (void)FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a range's books",
                       CRMM_PRIV_POOL_NAME);
            return CRMM_PRIV_POOL_REFUSED;
        }
    }
    size_t limit = crmm_priv_pool_free_limit(pool, bytes_of(need));
    uint32_t size = plan.size;
    size_t held = crmm_priv_pool_held(pool);
    limit = limit < pool->maximum ? limit : pool->maximum;

    /* Pages beyond the limit are moved here, as far as there are any. */
    uint32_t moved = 0;
    if (held + bytes_of(size) > limit && pool->can_move) {
        size_t beyond = held + bytes_of(size) - limit;
        beyond = round_up(beyond < bytes_of(size) ? beyond : bytes_of(size), pool->page);
        moved = move_into(request, &plan, granules_of(beyond));
    }
    if (moved > 0) {
        bool owned = request->stream != NULL;
        settle(heap, claimed, moved, crmm_priv_pool_owner(request),
               owned ? crmm_priv_pool_stream_epoch(request->stream) : 0);
        return CRMM_PRIV_POOL_GREW; /* what is still missing is seen when it is looked for again */
    }
    if (bytes_of(size) > room(pool)) {
        settle(heap, claimed, 0, CRMM_PRIV_POOL_CLEAN, 0);
        return CRMM_PRIV_POOL_AT_MAXIMUM;
    }
    return fill(pool, heap, claimed) == CRMM_SUCCESS ? CRMM_PRIV_POOL_GREW : CRMM_PRIV_POOL_REFUSED;
}

/* Become the one thread that changes what the pool holds. false: another one was, and is done. */
static bool become_grower(crmm_priv_pool *pool, bool must)
{
    bool mine = true;

    pthread_mutex_lock(&pool->mutex);
    while (pool->is_growing) {
        pthread_cond_wait(&pool->grown, &pool->mutex);
        mine = must;
    }
    pool->is_growing = pool->is_growing || mine;
    pthread_mutex_unlock(&pool->mutex);
    return mine;
}

static void end_growing(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_set_budget(pool);
    pool->is_growing = false;
    pthread_cond_broadcast(&pool->grown);
    pthread_mutex_unlock(&pool->mutex);
}

crmm_priv_pool_growth crmm_priv_pool_grow(const crmm_priv_pool_request *request)
{
    crmm_priv_pool *pool = request->pool;
    int previous = -1;

    if (!become_grower(pool, false)) {
        return CRMM_PRIV_POOL_GREW;
    }
    crmm_priv_pool_growth growth = CRMM_PRIV_POOL_REFUSED;
    crmm_status status = crmm_priv_cuda_enter_device(pool->device, &previous);
    if (status == CRMM_SUCCESS) {
        growth = pool->is_in_place ? grow_in_place(request) : grow_by_chunk(request);
        crmm_priv_cuda_leave_device(previous);
    }
    end_growing(pool);
    return growth;
}

crmm_status crmm_priv_pool_prime(crmm_priv_pool *pool, size_t bytes)
{
    crmm_priv_pool_heap *heap = pool->heaps[0];
    crmm_priv_pool_request request = {.pool = pool, .heap = heap, .alignment = 1};
    size_t left = pool->is_in_place ? round_up(bytes, pool->page)
                                    : crmm_align_up(bytes, CRMM_PRIV_POOL_GRANULE);

    size_t unit = pool->is_in_place ? pool->page : CRMM_PRIV_POOL_GRANULE;
    left = left < room(pool) ? left : room(pool) / unit * unit;
    if (left == 0) {
        return CRMM_SUCCESS;
    }
    if (!pool->is_in_place) {
        return add_chunk(pool, heap, left);
    }
    crmm_status status = add_range(pool, heap, left);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    request.size = granules_of(left);
    crmm_priv_pool_plan plan;
    uint32_t claimed = claim_hole(&request, &plan);
    if (claimed == 0) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for %zu bytes",
                    CRMM_PRIV_POOL_NAME, left);
    }
    return fill(pool, heap, claimed);
}

/* ---- giving back ---- */

/* The idle part of an extent that could go back: whole pages of a clean one, or a whole chunk. */
static uint32_t idle_part(const crmm_priv_pool *pool, const crmm_priv_extent *extent, uint64_t *at)
{
    if (extent->state != CRMM_PRIV_POOL_FREE || extent->owner != CRMM_PRIV_POOL_CLEAN) {
        return 0;
    }
    if (pool->is_in_place) {
        return whole_pages(pool, extent, at);
    }
    *at = extent->at;
    return extent->before == 0 && extent->after == 0 ? extent->size : 0;
}

/* The idle part at the highest address, `most` granules of it, marked busy. 0: there is none. */
static uint32_t claim_idle(const crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t most)
{
    crmm_priv_extents *extents = &heap->extents;
    uint32_t best = 0;
    uint32_t best_size = 0;
    uint64_t best_at = 0;
    uint32_t claimed = 0;

    crmm_priv_pool_heap_lock(heap);
    for (uint32_t i = 1; i < extents->capacity; i++) {
        uint64_t at = 0;
        uint32_t size = idle_part(pool, &extents->all[i], &at);
        if (size > 0 && at >= best_at) {
            best = i;
            best_size = size;
            best_at = at;
        }
    }
    if (best != 0 && crmm_priv_extents_reserve(extents)) {
        if (pool->is_in_place && best_size > most) {
            best_at += best_size - most;
            best_size = most;
        }
        claimed = crmm_priv_extents_carve(extents, best, best_at, best_size, CRMM_PRIV_POOL_BUSY);
    }
    crmm_priv_pool_heap_unlock(heap);
    return claimed;
}

/* The memory behind the first `gone` granules of a claimed part is gone; the rest is free again. */
static void settle_released(crmm_priv_pool_heap *heap, uint32_t claimed, uint32_t gone)
{
    crmm_priv_extents *extents = &heap->extents;

    crmm_priv_pool_heap_lock(heap);
    const crmm_priv_extent extent = extents->all[claimed];
    if (gone == 0) {
        crmm_priv_extents_set_free(extents, claimed, CRMM_PRIV_POOL_CLEAN, 0);
    } else if (gone == extent.size) {
        crmm_priv_extents_set_hole(extents, claimed);
    } else if (crmm_priv_extents_reserve(extents)) {
        /* The part that is carved out keeps the number. */
        (void)crmm_priv_extents_carve(extents, claimed, extent.at + gone, extent.size - gone,
                                      CRMM_PRIV_POOL_BUSY);
        crmm_priv_extents_set_hole(extents, extents->all[claimed].before);
        crmm_priv_extents_set_free(extents, claimed, CRMM_PRIV_POOL_CLEAN, 0);
    }
    crmm_priv_pool_heap_unlock(heap);
}

/* Take the memory behind a claimed part away, page by page. Bytes. */
static size_t decommit(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed,
                       char *base, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        tell(pool, base + done, pool->page, false);
        if (pool->upstream->ops->decommit(pool->upstream, base + done, pool->page) !=
            CRMM_SUCCESS) {
            tell(pool, base + done, pool->page, true);
            break;
        }
        done += pool->page;
    }
    settle_released(heap, claimed, granules_of(done));
    return done;
}

static size_t return_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed,
                           void *base, size_t bytes)
{
    tell(pool, base, bytes, false);
    /* Before the address can come back as another chunk, no thread looks at this one any more. */
    __atomic_store_n(&pool->serial, crmm_priv_pool_next_serial(), __ATOMIC_RELEASE);
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_chunks_remove(&pool->chunks, crmm_priv_pool_chunks_find(&pool->chunks, base));
    pthread_mutex_unlock(&pool->mutex);
    crmm_priv_pool_heap_lock(heap);
    crmm_priv_extents_remove(&heap->extents, claimed);
    crmm_priv_pool_heap_unlock(heap);
    crmm_deallocate_sync(pool->upstream, base, bytes, CRMM_PRIV_POOL_GRANULE);
    return bytes;
}

static bool has_leaving(crmm_priv_pool_heap *heap)
{
    crmm_priv_pool_heap_lock(heap);
    bool found = heap->extents.leaving != 0;
    crmm_priv_pool_heap_unlock(heap);
    return found;
}

static size_t release_from(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t keep)
{
    size_t released = 0;

    /* Memory that still has two addresses cannot go back, and it is not known which it is. */
    while (crmm_priv_pool_held(pool) > keep && !has_leaving(heap)) {
        size_t excess = crmm_priv_pool_held(pool) - keep;
        size_t most = round_up(excess < LARGEST_STEP ? excess : LARGEST_STEP, pool->page);
        uint32_t claimed = claim_idle(pool, heap, granules_of(most));
        if (claimed == 0) {
            break;
        }
        crmm_priv_pool_heap_lock(heap);
        char *base = address_of(extent_of(heap, claimed)->at);
        size_t bytes = bytes_of(extent_of(heap, claimed)->size);
        crmm_priv_pool_heap_unlock(heap);
        size_t gone = pool->is_in_place ? decommit(pool, heap, claimed, base, bytes)
                                        : return_chunk(pool, heap, claimed, base, bytes);
        account(pool, 0, gone);
        released += gone;
        if (gone == 0) {
            break;
        }
    }
    return released;
}

size_t crmm_priv_pool_release(crmm_priv_pool *pool, size_t keep)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    size_t released = 0;
    int previous = -1;

    (void)become_grower(pool, true);
    if (crmm_priv_cuda_try_enter_device(pool->device, &previous) == 0) {
        if (pool->can_move) {
            crmm_priv_pool_finish_moves(pool);
        }
        for (uint32_t i = heaps; i > 0; i--) {
            released += release_from(pool, crmm_priv_pool_heap_of(pool, i - 1), keep);
        }
        crmm_priv_cuda_leave_device(previous);
    }
    end_growing(pool);
    return released;
}

size_t crmm_priv_pool_give_back(crmm_priv_pool *pool)
{
    (void)crmm_priv_pool_release(pool, 0);
    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        const crmm_priv_pool_chunk *chunk = pool->chunks.table->entries[i].chunk;
        if (!chunk->is_in_place) {
            continue;
        }
        /* A range without memory is one hole. */
        const crmm_priv_extents *extents = &chunk->heap->extents;
        for (uint32_t hole = extents->holes; hole != 0; hole = extents->all[hole].bin_after) {
            if (address_of(extents->all[hole].at) == (void *)chunk->base &&
                bytes_of(extents->all[hole].size) == chunk->bytes) {
                (void)pool->upstream->ops->unreserve(pool->upstream, (void *)chunk->base,
                                                     chunk->bytes);
                break;
            }
        }
    }
    return crmm_priv_pool_held(pool);
}
