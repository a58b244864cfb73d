/* SPDX-License-Identifier: Apache-2.0 */
#include "page_memory.h"

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

#include "../vmm_memory_resource.h"
#include "accounts.h"

enum { FEW_PAGES = 8 }; /* they cost less to try than to ask for */

static const size_t LARGEST_RANGE = (size_t)1 << 39; /* address space of a heap */
static const size_t SMALLEST_RANGE = (size_t)1 << 30;
static const size_t DEFAULT_RANGE = (size_t)1 << 36; /* where the device's memory is not known */

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
    return crmm_priv_pool_round_up(range, pool->page);
}

crmm_status crmm_priv_pool_add_range(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, size_t need)
{
    size_t bytes = range_of(pool);
    void *base = NULL;

    need = crmm_priv_pool_round_up(need, pool->page);
    bytes = bytes < need ? need : bytes;
    size_t alignment = pool->page & (~pool->page + 1); /* its largest power of two */
    crmm_status status =
        pool->upstream->ops->reserve(crmm_priv_pool_call_upstream(pool), bytes, alignment, &base);
    /* A process may be short of address space, under valgrind or a limit: less will do then. */
    while (status != CRMM_SUCCESS && bytes / 2 >= need && bytes / 2 >= SMALLEST_RANGE) {
        bytes = crmm_priv_pool_round_up(bytes / 2, pool->page);
        status = pool->upstream->ops->reserve(crmm_priv_pool_call_upstream(pool), bytes, alignment,
                                              &base);
    }
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
            (void)crmm_priv_extents_add(
                &heap->extents, (uintptr_t)base >> CRMM_PRIV_POOL_GRANULE_SHIFT,
                crmm_priv_pool_granules_of(bytes), CRMM_PRIV_POOL_HOLE, false);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (room_for_it) {
            return CRMM_SUCCESS;
        }
        pthread_mutex_lock(&pool->mutex);
        crmm_priv_pool_chunks_remove(&pool->chunks, chunk);
        pthread_mutex_unlock(&pool->mutex);
    }
    (void)pool->upstream->ops->unreserve(crmm_priv_pool_call_upstream(pool), base, bytes);
    return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a range's books",
                crmm_priv_pool_name(pool));
}

uint32_t crmm_priv_pool_claim_hole(const crmm_priv_pool_request *request, crmm_priv_pool_plan *plan)
{
    crmm_priv_extents *extents = &request->heap->extents;
    uint32_t claimed = 0;

    crmm_priv_pool_heap_lock(request->heap);
    *plan = crmm_priv_pool_plan_for(request, crmm_priv_pool_granules_of(request->pool->page));
    if (plan->hole != 0 && crmm_priv_extents_reserve(extents)) {
        claimed =
            crmm_priv_extents_carve(extents, plan->hole, plan->at, plan->size, CRMM_PRIV_POOL_BUSY);
    }
    crmm_priv_pool_heap_unlock(request->heap);
    return claimed;
}

void crmm_priv_pool_settle(crmm_priv_pool_heap *heap, uint32_t claimed, uint32_t done,
                           uint16_t owner, uint64_t epoch)
{
    crmm_priv_extents *extents = &heap->extents;

    crmm_priv_pool_heap_lock(heap);
    if (done == 0) {
        crmm_priv_extents_set_hole(extents, claimed);
    } else if (done == crmm_priv_extent_at(extents, claimed)->size ||
               crmm_priv_extents_reserve(extents)) {
        uint64_t at = crmm_priv_extent_at(extents, claimed)->at;
        uint32_t size = crmm_priv_extent_at(extents, claimed)->size;
        uint32_t rest = 0;
        if (done < size) {
            rest = crmm_priv_extents_carve(extents, claimed, at + done, size - done,
                                           CRMM_PRIV_POOL_BUSY);
            claimed = crmm_priv_extent_at(extents, rest)->before;
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

/* Pages that do not suffice go back at once: others may need them. Bytes that stay all the same. */
static size_t take_back(crmm_priv_pool *pool, char *base, size_t bytes)
{
    while (bytes > 0) {
        char *page = base + bytes - pool->page;
        crmm_priv_pool_tell(pool, page, pool->page, false);
        if (pool->upstream->ops->decommit(crmm_priv_pool_call_upstream(pool), page, pool->page) !=
            CRMM_SUCCESS) {
            crmm_priv_pool_tell(pool, page, pool->page, true);
            break;
        }
        bytes -= pool->page;
    }
    return bytes;
}

crmm_status crmm_priv_pool_could_fill(const crmm_priv_pool *pool, size_t bytes)
{
    const crmm_error before = *crmm_last_error();
    size_t free_bytes = 0;
    size_t total = 0;

    if (bytes < FEW_PAGES * pool->page || !crmm_priv_is_vmm(pool->upstream)) {
        return CRMM_SUCCESS;
    }
    if (crmm_priv_cuda_memory(&free_bytes, &total) != CRMM_SUCCESS) {
        crmm_priv_restore_error(&before);
        return CRMM_SUCCESS;
    }
    /* What the driver keeps for memory pools is not free, and yet is there. */
    return bytes <= free_bytes ? CRMM_SUCCESS : crmm_priv_vmm_could_commit(pool->upstream, bytes);
}

crmm_status crmm_priv_pool_fill(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed)
{
    crmm_priv_pool_heap_lock(heap);
    char *base = crmm_priv_pool_address_of(crmm_priv_pool_extent_of(heap, claimed)->at);
    size_t bytes = crmm_priv_pool_bytes_of(crmm_priv_pool_extent_of(heap, claimed)->size);
    crmm_priv_pool_heap_unlock(heap);
    crmm_status status = CRMM_SUCCESS;
    size_t done = 0;

    while (done < bytes) {
        status = pool->upstream->ops->commit(crmm_priv_pool_call_upstream(pool), base + done,
                                             pool->page);
        if (status != CRMM_SUCCESS) {
            break;
        }
        crmm_priv_pool_tell(pool, base + done, pool->page, true);
        done += pool->page;
    }
    if (status != CRMM_SUCCESS) {
        const crmm_error why = *crmm_last_error();
        done = take_back(pool, base, done);
        crmm_priv_restore_error(&why);
    }
    if (done > 0) {
        crmm_priv_pool_account(pool, done, 0);
    }
    crmm_priv_pool_settle(heap, claimed, crmm_priv_pool_granules_of(done), CRMM_PRIV_POOL_CLEAN, 0);
    return status;
}

/* The first page boundary at or after an address of a chunk, in granules. */
static uint64_t page_after(const crmm_priv_pool *pool, uint64_t at)
{
    const crmm_priv_pool_chunk *chunk =
        crmm_priv_pool_chunks_find(&pool->chunks, crmm_priv_pool_address_of(at));
    size_t offset = (uintptr_t)crmm_priv_pool_address_of(at) - chunk->base;
    size_t up = (offset + pool->page - 1) / pool->page * pool->page;
    return (chunk->base + up) >> CRMM_PRIV_POOL_GRANULE_SHIFT;
}

uint32_t crmm_priv_pool_whole_pages(const crmm_priv_pool *pool, const crmm_priv_extent *extent,
                                    uint64_t *at)
{
    uint32_t page = crmm_priv_pool_granules_of(pool->page);

    *at = page_after(pool, extent->at);
    uint64_t end = extent->at + extent->size;
    return *at >= end ? 0 : (uint32_t)(end - *at) / page * page;
}

/* The memory behind the first `gone` granules of a claimed part is gone; the rest is free again. */
static void settle_released(crmm_priv_pool_heap *heap, uint32_t claimed, uint32_t gone)
{
    crmm_priv_extents *extents = &heap->extents;

    crmm_priv_pool_heap_lock(heap);
    const crmm_priv_extent extent = *crmm_priv_extent_at(extents, claimed);
    if (gone == 0) {
        crmm_priv_extents_set_free(extents, claimed, CRMM_PRIV_POOL_CLEAN, 0);
    } else if (gone == extent.size) {
        crmm_priv_extents_set_hole(extents, claimed);
    } else if (crmm_priv_extents_reserve(extents)) {
        /* The part that is carved out keeps the number. */
        (void)crmm_priv_extents_carve(extents, claimed, extent.at + gone, extent.size - gone,
                                      CRMM_PRIV_POOL_BUSY);
        crmm_priv_extents_set_hole(extents, crmm_priv_extent_at(extents, claimed)->before);
        crmm_priv_extents_set_free(extents, claimed, CRMM_PRIV_POOL_CLEAN, 0);
    }
    crmm_priv_pool_heap_unlock(heap);
}

size_t crmm_priv_pool_decommit(crmm_priv_pool *pool, crmm_priv_pool_heap *heap, uint32_t claimed,
                               char *base, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        crmm_priv_pool_tell(pool, base + done, pool->page, false);
        if (pool->upstream->ops->decommit(crmm_priv_pool_call_upstream(pool), base + done,
                                          pool->page) != CRMM_SUCCESS) {
            crmm_priv_pool_tell(pool, base + done, pool->page, true);
            break;
        }
        done += pool->page;
    }
    settle_released(heap, claimed, crmm_priv_pool_granules_of(done));
    return done;
}
