/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

#include "accounts.h"
#include "chunk_memory.h"
#include "fences.h"
#include "moves.h"
#include "page_memory.h"

enum {
    SLACK = 25,          /* the pool may hold 4 % more than was ever live before memory is moved */
    TIGHT_SLACK = 100,   /* and 1 % */
    CHUNK_SLACK = 32,    /* 3 % before idle chunks go back for others to come; at first */
    MOST_SLACK = 2,      /* and never more than half */
    WAYS_PER_BYTE = 128, /* bytes of such chunks, for one more of slack */
    MOVES_PER_PAGE = 8   /* that was moved, for a page of slack more */
};

/* Bytes of slack at first: moving a page takes as long in a large pool as in a small one. */
static const size_t FIRST_SLACK = (size_t)320 << 20;

static const size_t LARGEST_STEP = (size_t)1 << 30; /* given back at a time */

/* ---- growing ---- */

/* What the pool may hold beyond its peak before memory is moved, or idle chunks given back. Where
 * moving goes on, it is granted more, so that all of it together takes a bounded time. */
static size_t slack_of(const crmm_priv_pool *pool, size_t peak)
{
    if (!pool->is_in_place && pool->is_tight) {
        return peak / TIGHT_SLACK;
    }
    if (!pool->is_in_place) {
        size_t slack =
            peak / CHUNK_SLACK + __atomic_load_n(&pool->made_way, __ATOMIC_RELAXED) / WAYS_PER_BYTE;
        return slack < peak / MOST_SLACK ? slack : peak / MOST_SLACK;
    }
    size_t slack = peak / (pool->is_tight ? TIGHT_SLACK : SLACK);
    uint64_t moves = __atomic_load_n(&pool->moves, __ATOMIC_RELAXED);
    size_t most = FIRST_SLACK + (size_t)moves * (pool->page / MOVES_PER_PAGE);
    return slack < most ? slack : most;
}

void crmm_priv_pool_earn_slack(crmm_priv_pool *pool, size_t released)
{
    uint64_t bytes = __atomic_add_fetch(&pool->made_way, released, __ATOMIC_RELAXED);

    pthread_mutex_lock(&pool->mutex);
    bool is_all = bytes / WAYS_PER_BYTE >= pool->peak_live / MOST_SLACK;
    pthread_mutex_unlock(&pool->mutex);
    if (released > 0 && is_all && !pool->is_tight) {
        __atomic_store_n(&pool->is_loose, true, __ATOMIC_RELAXED);
    }
}

size_t crmm_priv_pool_free_limit(crmm_priv_pool *pool, size_t need)
{
    size_t live = crmm_priv_pool_live(pool);

    pthread_mutex_lock(&pool->mutex);
    pool->peak_live = live > pool->peak_live ? live : pool->peak_live;
    size_t peak = live + need > pool->peak_live ? live + need : pool->peak_live;
    pthread_mutex_unlock(&pool->mutex);
    size_t limit = peak + slack_of(pool, peak);
    return limit > pool->target ? limit : pool->target;
}

bool crmm_priv_pool_is_beyond_limit(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    size_t peak = pool->peak_live;
    pthread_mutex_unlock(&pool->mutex);
    size_t limit = peak + slack_of(pool, peak);
    return crmm_priv_pool_held(pool) > (limit > pool->target ? limit : pool->target);
}

/* Not in place, where a little more than the peak decides and a thread among several sees what
 * others have just taken for live: 16 of them held 8 % more. */
void crmm_priv_pool_note_peak(crmm_priv_pool *pool)
{
    if (!pool->is_in_place) {
        (void)crmm_priv_pool_free_limit(pool, 0);
    }
}

static crmm_priv_pool_growth grow_in_place(const crmm_priv_pool_request *request)
{
    crmm_priv_pool *pool = request->pool;
    crmm_priv_pool_heap *heap = request->heap;
    uint64_t need = crmm_priv_pool_need(request);

    crmm_priv_pool_finish_moves(pool);
    crmm_priv_pool_plan plan;
    uint32_t claimed = crmm_priv_pool_claim_hole(request, &plan);
    if (claimed == 0) {
        if (crmm_priv_pool_add_range(pool, heap, crmm_priv_pool_bytes_of(need) + pool->page) !=
            CRMM_SUCCESS) {
            return CRMM_PRIV_POOL_REFUSED;
        }
        claimed = crmm_priv_pool_claim_hole(request, &plan);
        if (claimed == 0) {
            (void)FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a range's books",
                       crmm_priv_pool_name(pool));
            return CRMM_PRIV_POOL_REFUSED;
        }
    }
    size_t limit = crmm_priv_pool_free_limit(pool, crmm_priv_pool_bytes_of(need));
    uint32_t size = plan.size;
    size_t held = crmm_priv_pool_held(pool);
    limit = limit < pool->maximum ? limit : pool->maximum;

    /* What threads left behind when they went to heaps of their own comes first. Pages beyond the
     * limit are moved here, as far as there are any. */
    uint32_t moved = 0;
    if (pool->can_move && crmm_priv_pool_heap_count(pool) > 1) {
        moved = crmm_priv_pool_move_surplus(request, &plan);
    }
    if (moved == 0 && held + crmm_priv_pool_bytes_of(size) > limit && pool->can_move) {
        size_t beyond = held + crmm_priv_pool_bytes_of(size) - limit;
        beyond = crmm_priv_pool_round_up(
            beyond < crmm_priv_pool_bytes_of(size) ? beyond : crmm_priv_pool_bytes_of(size),
            pool->page);
        moved = crmm_priv_pool_move_into(request, &plan, crmm_priv_pool_granules_of(beyond));
    }
    if (moved > 0) {
        bool owned = request->stream != NULL;
        crmm_priv_pool_settle(heap, claimed, moved, crmm_priv_pool_owner(request),
                              owned ? crmm_priv_pool_stream_epoch(request->stream) : 0);
        return CRMM_PRIV_POOL_GREW; /* what is still missing is seen when it is looked for again */
    }
    if (crmm_priv_pool_bytes_of(size) > crmm_priv_pool_room(pool)) {
        crmm_priv_pool_settle(heap, claimed, 0, CRMM_PRIV_POOL_CLEAN, 0);
        return CRMM_PRIV_POOL_AT_MAXIMUM;
    }
    if (crmm_priv_pool_could_fill(pool, crmm_priv_pool_bytes_of(plan.missing)) != CRMM_SUCCESS) {
        crmm_priv_pool_settle(heap, claimed, 0, CRMM_PRIV_POOL_CLEAN, 0);
        return CRMM_PRIV_POOL_REFUSED;
    }
    return crmm_priv_pool_fill(pool, heap, claimed) == CRMM_SUCCESS ? CRMM_PRIV_POOL_GREW
                                                                    : CRMM_PRIV_POOL_REFUSED;
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
        growth = pool->is_in_place ? grow_in_place(request) : crmm_priv_pool_grow_by_chunk(request);
        crmm_priv_cuda_leave_device(previous);
    }
    end_growing(pool);
    return growth;
}

crmm_status crmm_priv_pool_prime(crmm_priv_pool *pool, size_t bytes)
{
    crmm_priv_pool_heap *heap = pool->heaps[0];
    crmm_priv_pool_request request = {.pool = pool, .heap = heap, .alignment = 1};
    size_t left = pool->is_in_place ? crmm_priv_pool_round_up(bytes, pool->page)
                                    : crmm_align_up(bytes, CRMM_PRIV_POOL_GRANULE);

    size_t unit = pool->is_in_place ? pool->page : CRMM_PRIV_POOL_GRANULE;
    left = left < crmm_priv_pool_room(pool) ? left : crmm_priv_pool_room(pool) / unit * unit;
    if (left == 0) {
        return CRMM_SUCCESS;
    }
    if (!pool->is_in_place) {
        return crmm_priv_pool_add_chunk(pool, heap, left, false);
    }
    crmm_status status = crmm_priv_pool_could_fill(pool, left);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_pool_add_range(pool, heap, left);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    request.size = crmm_priv_pool_granules_of(left);
    crmm_priv_pool_plan plan;
    uint32_t claimed = crmm_priv_pool_claim_hole(&request, &plan);
    if (claimed == 0) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for %zu bytes",
                    crmm_priv_pool_name(pool), left);
    }
    return crmm_priv_pool_fill(pool, heap, claimed);
}

/* ---- giving back ---- */

/* The idle part of an extent that could go back: whole pages of a clean one, or a whole chunk. */
static uint32_t idle_part(const crmm_priv_pool *pool, const crmm_priv_extent *extent, uint64_t *at)
{
    if (extent->state != CRMM_PRIV_POOL_FREE || extent->owner != CRMM_PRIV_POOL_CLEAN) {
        return 0;
    }
    if (pool->is_in_place) {
        return crmm_priv_pool_whole_pages(pool, extent, at);
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
    for (uint32_t i = CRMM_PRIV_EXTENT_STEP; i < crmm_priv_extents_end(extents);
         i += CRMM_PRIV_EXTENT_STEP) {
        uint64_t at = 0;
        uint32_t size = idle_part(pool, crmm_priv_extent_at(extents, i), &at);
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

static size_t release_from(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t keep)
{
    size_t released = 0;

    /* Memory that has two addresses cannot go back at either, also one in another heap. */
    while (crmm_priv_pool_held(pool) > keep && !crmm_priv_pool_is_moving(pool)) {
        size_t excess = crmm_priv_pool_held(pool) - keep;
        size_t most =
            crmm_priv_pool_round_up(excess < LARGEST_STEP ? excess : LARGEST_STEP, pool->page);
        uint32_t claimed = claim_idle(pool, heap, crmm_priv_pool_granules_of(most));
        if (claimed == 0) {
            break;
        }
        crmm_priv_pool_heap_lock(heap);
        char *base = crmm_priv_pool_address_of(crmm_priv_pool_extent_of(heap, claimed)->at);
        size_t bytes = crmm_priv_pool_bytes_of(crmm_priv_pool_extent_of(heap, claimed)->size);
        crmm_priv_pool_heap_unlock(heap);
        size_t gone = pool->is_in_place
                          ? crmm_priv_pool_decommit(pool, heap, claimed, base, bytes)
                          : crmm_priv_pool_return_chunk(pool, heap, claimed, base, bytes);
        crmm_priv_pool_account(pool, 0, gone);
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

    if (pool->is_rigid) {
        return 0;
    }
    (void)become_grower(pool, true);
    if (crmm_priv_cuda_enter_device(pool->device, &previous) == CRMM_SUCCESS) {
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

/* Whether a range is without memory: then it is one hole. */
static bool is_empty(const crmm_priv_pool_chunk *chunk)
{
    const crmm_priv_extents *extents = &chunk->heap->extents;

    for (uint32_t hole = extents->holes; hole != 0;
         hole = crmm_priv_extent_at(extents, hole)->bin_after) {
        if (crmm_priv_pool_address_of(crmm_priv_extent_at(extents, hole)->at) ==
                (void *)chunk->base &&
            crmm_priv_pool_bytes_of(crmm_priv_extent_at(extents, hole)->size) == chunk->bytes) {
            return true;
        }
    }
    return false;
}

/* Each range is tried twice, like its memory. Bytes that stay. */
static size_t unreserve_all(crmm_priv_pool *pool)
{
    size_t left = 0;

    for (uint32_t i = 0; i < pool->chunks.count; i++) {
        const crmm_priv_pool_chunk *chunk = pool->chunks.table->entries[i].chunk;
        void *base = (void *)chunk->base;
        if (chunk->is_in_place && is_empty(chunk) &&
            pool->upstream->ops->unreserve(crmm_priv_pool_call_upstream(pool), base,
                                           chunk->bytes) != CRMM_SUCCESS &&
            pool->upstream->ops->unreserve(crmm_priv_pool_call_upstream(pool), base,
                                           chunk->bytes) != CRMM_SUCCESS) {
            left += chunk->bytes;
        }
    }
    return left;
}

size_t crmm_priv_pool_give_back(crmm_priv_pool *pool, size_t *addresses)
{
    pool->is_rigid = false;
    (void)crmm_priv_pool_release(pool, 0);
    if (crmm_priv_pool_held(pool) > 0) {
        (void)crmm_priv_pool_release(pool, 0); /* what failed once may be no more than that */
    }
    *addresses = unreserve_all(pool);
    return crmm_priv_pool_held(pool);
}
