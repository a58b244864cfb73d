/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <crmm/internal/floor.h>

#include "settle.h"

typedef crmm_priv_pool_request request;

/* ---- one fence ---- */

/* What a stream gave back up to an epoch, and the number of the fence behind it. */
typedef struct fenced {
    crmm_priv_pool_stream *stream; /* NULL: nothing */
    uint64_t epoch, number;
} fenced;

/* Keep what has the earlier fence. What is complete and not clean yet is left so, and no wait
 * changes that. */
static void keep_earlier(fenced *first, crmm_priv_pool_stream *stream, uint64_t epoch)
{
    if (epoch <= crmm_priv_pool_stream_done(stream)) {
        return;
    }
    uint64_t number = crmm_priv_pool_stream_fence_number(stream, epoch);
    if (number < first->number) {
        *first = (fenced){.stream = stream, .epoch = epoch, .number = number};
    }
}

static bool wait_for(crmm_priv_pool *pool, fenced what)
{
    if (what.stream == NULL ||
        crmm_priv_pool_stream_synchronize(&pool->streams, what.stream, what.epoch) != 0) {
        return false;
    }
    crmm_priv_pool_settle_streams(pool);
    return true;
}

/* The epoch of a stream's oldest block in a heap that would do for a request; NULL: of its oldest
 * memory. 0: there is none. */
static uint64_t oldest_epoch(const request *req, crmm_priv_pool_heap *heap,
                             const crmm_priv_pool_stream *stream)
{
    const crmm_priv_extents *extents = &heap->extents;
    uint32_t index = 0;

    crmm_priv_pool_heap_lock(heap);
    if (req != NULL) {
        const crmm_priv_extent_source source = {
            .owner = stream->index, .epoch = __atomic_load_n(&stream->fenced, __ATOMIC_ACQUIRE)};
        index = crmm_priv_extents_find_oldest(extents, req->size, req->alignment, source);
    } else {
        const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, stream->index);
        index = set == NULL ? 0 : set->oldest;
    }
    uint64_t epoch = index == 0 ? 0 : crmm_priv_extent_at(extents, index)->epoch;
    crmm_priv_pool_heap_unlock(heap);
    return epoch;
}

/* Wait for the earliest fence of all streams that lets go of such a block. */
static bool wait_for_earliest(crmm_priv_pool *pool, const request *req)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);
    fenced first = {.number = UINT64_MAX};

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        for (uint32_t k = 0; k < heaps; k++) {
            uint64_t epoch = oldest_epoch(req, crmm_priv_pool_heap_of(pool, k), stream);
            keep_earlier(&first, stream, epoch);
        }
    }
    return wait_for(pool, first);
}

bool crmm_priv_pool_wait_for_block(const request *req)
{
    return wait_for_earliest(req->pool, req);
}

bool crmm_priv_pool_wait_for_oldest(crmm_priv_pool *pool)
{
    return wait_for_earliest(pool, NULL);
}

/* ---- all work ---- */

/* A CUDA error code, or 0. */
static int wait_for_device(crmm_priv_pool *pool)
{
    int previous = -1;

    if (pool->device < 0) {
        return 0;
    }
    int code = crmm_priv_cuda_try_enter_device(pool->device, &previous);
    if (code == 0) {
        code = crmm_priv_device_wait();
        crmm_priv_cuda_leave_device(previous);
    }
    (void)__atomic_fetch_add(&pool->streams.synchronizes, 1, __ATOMIC_RELAXED);
    return code;
}

static void promote_all(crmm_priv_pool *pool, uint64_t stranded)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        crmm_priv_pool_promote(pool, heap);
        (void)crmm_priv_extents_promote(&heap->extents, CRMM_PRIV_POOL_STRANDED, stranded,
                                        UINT32_MAX);
        crmm_priv_pool_heap_unlock(heap);
    }
}

int crmm_priv_pool_wait_for_all(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    /* Also while it waits: another thread's call may end that paused it before. */
    crmm_priv_pool_pause_solo(pool);
    /* What is marked with a closed epoch was given back before the wait. */
    uint64_t closed[CRMM_PRIV_POOL_MOST_STREAMS];
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        closed[i] = __atomic_fetch_add(&crmm_priv_pool_stream_of(&pool->streams, i)->epoch, 1,
                                       __ATOMIC_ACQ_REL);
    }
    uint64_t stranded = __atomic_fetch_add(&pool->stranded_epoch, 1, __ATOMIC_ACQ_REL);
    int code = wait_for_device(pool);
    if (code == 0) {
        for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
            crmm_priv_pool_stream_set_done(crmm_priv_pool_stream_of(&pool->streams, i), closed[i]);
        }
        promote_all(pool, stranded);
    }
    crmm_priv_pool_resume_solo(pool);
    return code;
}
