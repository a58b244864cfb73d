/* SPDX-License-Identifier: Apache-2.0 */
#include "settle.h"

#include "accounts.h"

typedef crmm_priv_pool_request request;

/* ---- what others' work lets go of ---- */

/* What a stream has completed, up to `most` extents of it; the number of them. The heap is locked.
 */
static uint32_t promote_stream(crmm_priv_pool_heap *heap, const crmm_priv_pool_stream *stream,
                               uint32_t most)
{
    return crmm_priv_extents_promote(&heap->extents, stream->index,
                                     crmm_priv_pool_stream_done(stream), most);
}

void crmm_priv_pool_promote(crmm_priv_pool *pool, crmm_priv_pool_heap *heap)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    if (heap->extents.solo != 0) {
        return; /* one stream needs nothing but its own */
    }
    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        (void)promote_stream(heap, crmm_priv_pool_stream_of(&pool->streams, i), UINT32_MAX);
    }
}

static void poll(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream_poll(&pool->streams, crmm_priv_pool_stream_of(&pool->streams, i));
    }
}

/* Bytes that a stream gave back, where there is no fence for the latest of it; else 0. */
static size_t unfenced_of(crmm_priv_pool *pool, const crmm_priv_pool_stream *stream)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    uint64_t granules = 0;

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        const crmm_priv_extent_set *set = crmm_priv_extents_set(&heap->extents, stream->index);
        if (set != NULL && set->newest != 0 &&
            !crmm_priv_pool_stream_is_fenced(
                stream, crmm_priv_extent_at(&heap->extents, set->newest)->epoch)) {
            granules += set->granules;
        }
        crmm_priv_pool_heap_unlock(heap);
    }
    return crmm_priv_pool_bytes_of(granules);
}

size_t crmm_priv_pool_unfenced(crmm_priv_pool *pool, const crmm_priv_pool_stream *but)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);
    size_t bytes = 0;

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        const crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        bytes += stream != but ? unfenced_of(pool, stream) : 0;
    }
    return bytes;
}

/*
 * The legacy stream is fenced when another one needs what it gave back, and not before: an event on
 * it is a barrier for all blocking streams. It cannot be gone, so any thread may record there.
 */
static void fence_legacy(crmm_priv_pool *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(&pool->streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream *stream = crmm_priv_pool_stream_of(&pool->streams, i);
        if (crmm_priv_pool_stream_id(stream) == CRMM_PRIV_POOL_LEGACY_STREAM &&
            unfenced_of(pool, stream) > 0) {
            (void)crmm_priv_pool_stream_fence(&pool->streams, stream, NULL);
        }
    }
}

void crmm_priv_pool_complete_own(const request *req)
{
    crmm_priv_pool *pool = req->pool;

    if (req->stream == NULL) {
        return;
    }
    crmm_priv_pool_heap_lock(req->heap);
    bool is_leaving = req->heap->extents.leaving != 0;
    bool is_solo = req->heap->extents.solo != 0;
    crmm_priv_pool_heap_unlock(req->heap);
    if (is_leaving || (!is_solo && unfenced_of(pool, req->stream) > 0)) {
        (void)crmm_priv_pool_stream_fence(&pool->streams, req->stream, req->handle);
    }
    crmm_priv_pool_stream_poll(&pool->streams, req->stream);
    if (is_solo) {
        return;
    }
    crmm_priv_pool_heap_lock(req->heap);
    (void)promote_stream(req->heap, req->stream, UINT32_MAX);
    crmm_priv_pool_heap_unlock(req->heap);
}

void crmm_priv_pool_settle_streams(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);

    fence_legacy(pool);
    poll(pool);
    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        crmm_priv_pool_promote(pool, heap);
        crmm_priv_pool_heap_unlock(heap);
    }
}

static uint32_t settle_stream(crmm_priv_pool *pool, crmm_priv_pool_heap *heap,
                              crmm_priv_pool_stream *stream, uint32_t most)
{
    crmm_priv_pool_stream_poll(&pool->streams, stream);
    crmm_priv_pool_heap_lock(heap);
    uint32_t count = promote_stream(heap, stream, most);
    crmm_priv_pool_heap_unlock(heap);
    return count;
}

void crmm_priv_pool_settle_some(crmm_priv_pool *pool, const crmm_priv_pool_stream *but)
{
    enum { MOST_STREAMS = 64, MOST_ASKED = 4, MOST_EXTENTS = 64 };
    crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, 0);
    uint32_t count = crmm_priv_pool_streams_end(&pool->streams) - CRMM_PRIV_POOL_FIRST_STREAM;
    uint32_t turn = __atomic_load_n(&heap->settled_stream, __ATOMIC_RELAXED);
    uint32_t extents = 0;
    int asked = 0;

    for (uint32_t i = 0;
         i < count && i < MOST_STREAMS && asked < MOST_ASKED && extents < MOST_EXTENTS; i++) {
        crmm_priv_pool_stream *stream =
            crmm_priv_pool_stream_of(&pool->streams, CRMM_PRIV_POOL_FIRST_STREAM + ++turn % count);
        if (stream != but) {
            asked += crmm_priv_pool_stream_is_unfinished(stream);
            extents += settle_stream(pool, heap, stream, MOST_EXTENTS - extents);
        }
    }
    __atomic_store_n(&heap->settled_stream, turn, __ATOMIC_RELAXED);
}

bool crmm_priv_pool_is_heap_settled(const crmm_priv_pool_heap *heap)
{
    const crmm_priv_extents *extents = &heap->extents;

    return extents->leaving == 0 && extents->busy_granules == 0 &&
           extents->free_granules == crmm_priv_extents_set(extents, CRMM_PRIV_POOL_CLEAN)->granules;
}

bool crmm_priv_pool_is_settled(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    bool settled = true;

    for (uint32_t i = 0; i < heaps && settled; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        settled = crmm_priv_pool_is_heap_settled(heap);
        crmm_priv_pool_heap_unlock(heap);
    }
    return settled;
}
