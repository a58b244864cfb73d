/* SPDX-License-Identifier: Apache-2.0 */
#include "chunk_memory.h"

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>

#include "accounts.h"

static const size_t SMALLEST_STEP = (size_t)2 << 20; /* what a chunk has at least */
static const size_t SHARED = (size_t)20 << 20;       /* chunks up to here have many blocks */
enum {
    STEPS = 16,    /* chunks that a pool has, about */
    OWN_SHARE = 16 /* of a step, what a block has that gets a chunk of its own */
};
static const size_t LARGEST_STEP = (size_t)1 << 30; /* more only for a request that needs it */

crmm_status crmm_priv_pool_add_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t bytes,
                                     bool is_apart)
{
    void *base = NULL;

    crmm_status status = crmm_allocate_sync(crmm_priv_pool_call_upstream(pool), bytes,
                                            CRMM_PRIV_POOL_GRANULE, &base);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_chunk *chunk =
        crmm_priv_pool_chunks_add(&pool->chunks, base, bytes, heap, false);
    pthread_mutex_unlock(&pool->mutex);
    if (chunk != NULL) {
        crmm_priv_pool_tell(pool, base, bytes, true);
        crmm_priv_pool_heap_lock(heap);
        bool room_for_it = crmm_priv_extents_reserve(&heap->extents);
        if (room_for_it) {
            (void)crmm_priv_extents_add(
                &heap->extents, (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                crmm_priv_pool_granules_of(bytes), CRMM_PRIV_POOL_FREE, is_apart);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (room_for_it) {
            crmm_priv_pool_account(pool, bytes, 0);
            return CRMM_SUCCESS;
        }
        crmm_priv_pool_tell(pool, base, bytes, false);
        pthread_mutex_lock(&pool->mutex);
        crmm_priv_pool_chunks_remove(&pool->chunks, chunk);
        pthread_mutex_unlock(&pool->mutex);
    }
    crmm_deallocate_sync(crmm_priv_pool_call_upstream(pool), base, bytes, CRMM_PRIV_POOL_GRANULE);
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes, "%s: no host memory for a chunk's books",
                      crmm_priv_pool_name(pool));
}

/* How large a chunk to ask for: a sixteenth of the pool. A block that would have most of one, or is
 * large beside it, has one of its own, which can go back with it. */
static size_t step_of(const crmm_priv_pool *pool, size_t need)
{
    size_t step = pool->is_tight ? pool->page : crmm_priv_pool_held(pool) / STEPS;

    step = step > LARGEST_STEP ? LARGEST_STEP : step;
    step = step < pool->page ? pool->page : step;
    if (pool->target > crmm_priv_pool_held(pool) &&
        pool->target - crmm_priv_pool_held(pool) > step) {
        step = pool->target - crmm_priv_pool_held(pool);
    } else if (need > SHARED && need > step / OWN_SHARE && crmm_priv_pool_is_thrifty(pool)) {
        step = need;
    }
    step = step < need ? need : step;
    return crmm_priv_pool_round_up(step, pool->unit != 0 ? pool->unit : SMALLEST_STEP);
}

crmm_priv_pool_growth crmm_priv_pool_grow_by_chunk(const crmm_priv_pool_request *request)
{
    crmm_priv_pool *pool = request->pool;
    size_t need = crmm_priv_pool_bytes_of(crmm_priv_pool_need(request));

    if (need > crmm_priv_pool_room(pool)) {
        return CRMM_PRIV_POOL_AT_MAXIMUM;
    }
    size_t bytes = step_of(pool, need);
    bytes = bytes < crmm_priv_pool_room(pool)
                ? bytes
                : crmm_align_down(crmm_priv_pool_room(pool), CRMM_PRIV_POOL_GRANULE);
    /* Where upstream refuses much, ask for less, down to what is needed. */
    for (;;) {
        bool is_for_one = bytes > SHARED && bytes <= crmm_priv_pool_thrifty_most(need) &&
                          crmm_priv_pool_is_thrifty(pool);
        crmm_status status = crmm_priv_pool_add_chunk(pool, request->heap, bytes, is_for_one);
        if (status == CRMM_SUCCESS) {
            return CRMM_PRIV_POOL_GREW;
        }
        if (bytes == need || !crmm_status_is_allocation_failure(status)) {
            return CRMM_PRIV_POOL_REFUSED;
        }
        size_t unit = pool->unit != 0 ? pool->unit : CRMM_PRIV_POOL_GRANULE;
        bytes = bytes / 2 / unit * unit;
        bytes = bytes < need ? need : bytes;
    }
}

size_t crmm_priv_pool_return_chunk(crmm_priv_pool *pool, crmm_priv_pool_heap *heap,
                                   uint32_t claimed, void *base, size_t bytes)
{
    crmm_priv_pool_tell(pool, base, bytes, false);
    /* Before the address can come back as another chunk, no thread looks at this one any more. */
    __atomic_store_n(&pool->serial, crmm_priv_pool_next_serial(), __ATOMIC_RELEASE);
    pthread_mutex_lock(&pool->mutex);
    crmm_priv_pool_chunks_remove(&pool->chunks, crmm_priv_pool_chunks_find(&pool->chunks, base));
    pthread_mutex_unlock(&pool->mutex);
    crmm_priv_pool_heap_lock(heap);
    crmm_priv_extents_remove(&heap->extents, claimed);
    crmm_priv_pool_heap_unlock(heap);
    crmm_deallocate_sync(crmm_priv_pool_call_upstream(pool), base, bytes, CRMM_PRIV_POOL_GRANULE);
    return bytes;
}
