/* SPDX-License-Identifier: Apache-2.0 */

/* Blocks that one stream gives back and only another one takes. */

#include <crmm/device/pool_memory_resource.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/check.h"
#include "misuse_recorder.h"
#include "pool_support.h"

enum { BYTES = 256 << 10 };

static void hand_back(crmm_resource *pool, cudaStream_t stream, void *ptr)
{
    crmm_deallocate(pool, stream, ptr, BYTES, 256);
}

/* A pool that has so many blocks and gets no more, all of them live. */
static crmm_resource *make_full(crmm_resource *upstream, cudaStream_t stream, void **blocks,
                                size_t count)
{
    crmm_resource *pool =
        make_pool(upstream, .initial_pool_size = count * BYTES, .maximum_pool_size = count * BYTES);

    for (size_t i = 0; i < count; i++) {
        blocks[i] = take(pool, stream, BYTES);
    }
    return pool;
}

static void add_pending(const crmm_pool_stream *stream, void *user_data)
{
    *(size_t *)user_data += (size_t)(stream->pending + stream->at_hand);
}

/* What is on its way is free memory of the stream that gave it back, and a part of the pool. */
static void expect_on_its_way(const crmm_resource *pool)
{
    size_t pending = 0;

    expect_sound_books(pool);
    expect_success(crmm_pool_memory_resource_streams(pool, add_pending, &pending));
    expect_equal(pending, info_of(pool).pending);
    cr_assert(crmm_priv_pool_depot_bytes(pool) <= info_of(pool).held / 16);
}

/* One gives the oldest of a queue back, another one takes its place, many times; both use it. */
static void pass(crmm_resource *pool, cudaStream_t takes, cudaStream_t gives, void **queue,
                 size_t count, int steps)
{
    for (int i = 0; i < steps; i++) {
        void **oldest = &queue[(size_t)i % count];
        order_streams(takes, gives);
        cuda(cudaMemsetAsync(*oldest, i, 256, gives));
        hand_back(pool, gives, *oldest);
        *oldest = take(pool, takes, BYTES);
        cuda(cudaMemsetAsync(*oldest, i, 256, takes));
        if (i % 64 == 0) {
            expect_on_its_way(pool);
        }
    }
}

Test(pool_handover, a_full_pool_goes_on_with_what_another_stream_gives_back)
{
    enum { BLOCKS = 512, QUEUE = 448 };
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), make_vmm()};
    cudaStream_t takes = make_stream();
    cudaStream_t gives = make_stream();
    void *blocks[BLOCKS];

    misuse_recorder_start();
    for (int k = 0; k < 2; k++) {
        crmm_resource *pool = make_full(upstreams[k], takes, blocks, BLOCKS);
        order_streams(takes, gives);
        for (size_t i = QUEUE; i < BLOCKS; i++) {
            hand_back(pool, gives, blocks[i]);
        }
        pass(pool, takes, gives, blocks, QUEUE, 4000);
        expect_equal(info_of(pool).held, BLOCKS * BYTES);
        expect_equal(info_of(pool).live, QUEUE * BYTES);
        cr_assert(crmm_priv_pool_depot_bytes(pool) > 0);
        for (size_t i = 0; i < QUEUE; i++) {
            hand_back(pool, takes, blocks[i]);
        }
        void *all = take(pool, gives, BLOCKS * BYTES);
        crmm_deallocate(pool, gives, all, BLOCKS * BYTES, 256);
        crmm_resource_release(&pool);
        expect_equal(info_of(upstreams[k]).held, 0);
    }
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(takes));
    cuda(cudaStreamDestroy(gives));
    crmm_resource_release(&upstreams[1]);
}

/* Blocks on their way are free memory, for a trim as for everybody. */
Test(pool_handover, a_trim_returns_what_is_on_its_way)
{
    enum { BLOCKS = 512, QUEUE = 448 };
    cudaStream_t takes = make_stream();
    cudaStream_t gives = make_stream();
    void *blocks[BLOCKS];
    size_t released = 0;
    crmm_resource *vmm = make_vmm();

    crmm_resource *pool = make_full(vmm, takes, blocks, BLOCKS);
    order_streams(takes, gives);
    for (size_t i = QUEUE; i < BLOCKS; i++) {
        hand_back(pool, gives, blocks[i]);
    }
    pass(pool, takes, gives, blocks, QUEUE, 1000);
    order_streams(takes, gives);
    for (size_t i = 0; i < QUEUE; i++) {
        hand_back(pool, gives, blocks[i]);
    }
    cr_assert(crmm_priv_pool_depot_bytes(pool) > 0);
    expect_success(crmm_resource_trim(pool, 0, &released));
    expect_equal(crmm_priv_pool_depot_bytes(pool), 0);
    expect_equal(released, BLOCKS * BYTES);
    expect_equal(info_of(pool).held, 0);
    expect_equal(statistics_of(pool).at_hand, 0);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
    cuda(cudaStreamDestroy(takes));
    cuda(cudaStreamDestroy(gives));
}

/* A pool that was told what may be at hand, or holds little, has nothing on its way; nor has one
 * that a single stream uses. */
Test(pool_handover, nothing_is_on_its_way_where_little_may_be_at_hand)
{
    enum { BLOCKS = 128, QUEUE = 96 };
    const crmm_pool_memory_resource_options *options[] = {
        CRMM_OPTIONS(crmm_pool_memory_resource, .tight = 1),
        CRMM_OPTIONS(crmm_pool_memory_resource, .release_threshold = 16 * MIB),
        CRMM_OPTIONS(crmm_pool_memory_resource, .stream_cache_size = 4 * MIB),
        CRMM_OPTIONS(crmm_pool_memory_resource, .stream_cache_size = CRMM_STREAM_CACHE_NONE),
        CRMM_OPTIONS(crmm_pool_memory_resource, .heap_count = 1)};
    enum { KINDS = sizeof(options) / sizeof(options[0]) };
    cudaStream_t takes = make_stream();
    cudaStream_t gives = make_stream();
    void *blocks[QUEUE];
    crmm_resource *vmm = make_vmm();

    for (size_t k = 0; k < KINDS; k++) {
        bool is_alone = k == KINDS - 1;
        crmm_pool_memory_resource_options own = *options[k];
        own.initial_pool_size = own.maximum_pool_size = BLOCKS * BYTES;
        crmm_resource *pool = pool_made(vmm, &own);
        for (size_t i = 0; i < QUEUE; i++) {
            blocks[i] = take(pool, takes, BYTES);
        }
        for (int i = 0; i < 1000; i++) {
            void **oldest = &blocks[(size_t)i % QUEUE];
            order_streams(takes, gives);
            hand_back(pool, is_alone ? takes : gives, *oldest);
            *oldest = take(pool, takes, BYTES);
            expect_equal(crmm_priv_pool_depot_bytes(pool), 0);
        }
        for (size_t i = 0; i < QUEUE; i++) {
            hand_back(pool, takes, blocks[i]);
        }
        crmm_resource_release(&pool);
    }
    crmm_resource_release(&vmm);
    cuda(cudaStreamDestroy(takes));
    cuda(cudaStreamDestroy(gives));
}

/* Blocks that one stream gives back and another one takes. */
static void pass_once(crmm_resource *pool, cudaStream_t takes, cudaStream_t gives, void **blocks,
                      size_t count)
{
    order_streams(takes, gives);
    for (size_t i = 0; i < count; i++) {
        hand_back(pool, gives, blocks[i]);
    }
    for (size_t i = 0; i < count; i++) {
        blocks[i] = take(pool, takes, BYTES);
    }
}

/* Give blocks back on a stream and have them again, until it is no new one to the pool. */
static void get_used_to(crmm_resource *pool, cudaStream_t stream, void **blocks, size_t count)
{
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < count; i++) {
            hand_back(pool, stream, blocks[i]);
        }
        for (size_t i = 0; i < count; i++) {
            blocks[i] = take(pool, stream, BYTES);
        }
    }
}

/* The books of a stream without users serve another one, though not while something of it is on its
 * way to somebody: what is complete on the new one says nothing about that. */
Test(pool_handover, what_a_busy_stream_gave_back_waits_for_it_though_others_come, .timeout = 30)
{
    enum { BLOCKS = 256, PASSED = 64, BUSY = 16, GIVEN = 12, AGAIN = 4, OTHERS = 72, WANTED = 24 };
    cudaStream_t takes = make_stream();
    cudaStream_t gives = make_stream();
    cudaStream_t busy = make_stream();
    cudaStream_t others[OTHERS];
    void *blocks[BLOCKS];
    const void *given[GIVEN];
    gate closed;
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool = make_full(vmm, takes, blocks, BLOCKS);

    for (size_t i = 0; i < OTHERS; i++) {
        others[i] = make_stream();
    }
    order_streams(takes, busy);
    get_used_to(pool, busy, blocks, BUSY);
    cuda(cudaStreamSynchronize(busy));
    pass_once(pool, takes, gives, blocks + BUSY, PASSED);
    get_used_to(pool, busy, blocks, 1); /* others wanted what it had at hand, and do no more */
    gate_close(&closed, busy);
    for (size_t i = 0; i < GIVEN; i++) {
        given[i] = blocks[i];
        hand_back(pool, busy, blocks[i]);
    }
    for (size_t i = 0; i < AGAIN; i++) {
        blocks[i] = take(pool, busy, BYTES); /* it has nothing at hand any more */
    }
    for (size_t i = 0; i < OTHERS; i++) {
        order_streams(takes, others[i]);
        hand_back(pool, others[i], blocks[GIVEN + i]);
    }
    for (size_t i = 0; i < WANTED; i++) {
        void *ptr = take(pool, others[OTHERS - 1], BYTES);
        for (size_t k = 0; k < GIVEN; k++) {
            cr_assert(ptr != given[k], "block %zu of a stream that is held up", k);
        }
        blocks[GIVEN + i] = ptr;
    }
    cr_assert(cudaStreamQuery(busy) == cudaErrorNotReady);
    gate_open(&closed);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i < AGAIN || (i >= GIVEN && i < GIVEN + WANTED) || i >= GIVEN + OTHERS) {
            hand_back(pool, takes, blocks[i]);
        }
    }
    expect_equal(info_of(pool).live, 0);
    crmm_resource_release(&pool);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
    for (size_t i = 0; i < OTHERS; i++) {
        cuda(cudaStreamDestroy(others[i]));
    }
    cuda(cudaStreamDestroy(takes));
    cuda(cudaStreamDestroy(gives));
    cuda(cudaStreamDestroy(busy));
}
