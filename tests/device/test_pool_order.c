/* SPDX-License-Identifier: Apache-2.0 */

/* What a pool does before it takes more memory, and before it gives up. */

#include <crmm/device/pool_memory_resource.h>

#include <crmm/device/callback_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/cache.h"
#include "misuse_recorder.h"
#include "pool_support.h"

/* What threads have at hand comes before growth: all the memory there is, in one piece. */
Test(pool_order, blocks_at_hand_are_used_before_the_pool_grows)
{
    enum { BLOCKS = 16 };
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), make_vmm()};
    cudaStream_t stream = make_stream();
    void *blocks[BLOCKS];

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(upstreams[k], .initial_pool_size = BLOCKS * MIB);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = take(pool, stream, MIB);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            crmm_deallocate(pool, stream, blocks[i], MIB, 256);
        }
        cr_assert(statistics_of(pool).at_hand > 0);
        void *all = take(pool, stream, BLOCKS * MIB);
        expect_equal(statistics_of(pool).growths, 1);
        expect_equal(info_of(pool).held, BLOCKS * MIB);
        crmm_deallocate(pool, stream, all, BLOCKS * MIB, 256);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&upstreams[1]);
}

/* Free neighbours of two streams, one of which is held up: a third stream waits for that on the
 * GPU, nobody on the CPU, and the pool does not grow. */
Test(pool_order, neighbours_of_a_busy_stream_are_joined_before_the_pool_grows, .timeout = 20)
{
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), make_vmm()};

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(upstreams[k], .initial_pool_size = 16 * MIB);
        cudaStream_t busy = make_stream();
        cudaStream_t idle = make_stream();
        cudaStream_t wants = make_stream();
        gate closed;
        void *first = take(pool, busy, 8 * MIB);
        void *second = take(pool, idle, 8 * MIB);

        gate_close(&closed, busy);
        crmm_deallocate(pool, busy, first, 8 * MIB, 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, busy));
        crmm_deallocate(pool, idle, second, 8 * MIB, 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, idle));
        void *both = take(pool, wants, 16 * MIB);
        cr_assert(both == (first < second ? first : second));
        cr_assert(!gate_is_open(&closed));
        expect_equal(statistics_of(pool).growths, 1);
        expect_equal(statistics_of(pool).synchronizes, 0);
        cr_assert(statistics_of(pool).waits > 0);
        gate_open(&closed);
        crmm_deallocate(pool, wants, both, 16 * MIB, 256);
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(busy));
        cuda(cudaStreamDestroy(idle));
        cuda(cudaStreamDestroy(wants));
    }
    crmm_resource_release(&upstreams[1]);
}

/* Idle chunks make way for another one as far as more would be held than was ever needed: what was
 * needed together with the latest chunk counts. */
Test(pool_order, a_chunk_stays_where_as_much_was_needed_before)
{
    cudaStream_t stream = make_stream();
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    void *first = take(pool, stream, 100 * MIB);
    void *second = take(pool, stream, 100 * MIB);

    crmm_deallocate(pool, stream, first, 100 * MIB, 256);
    crmm_deallocate(pool, stream, second, 100 * MIB, 256);
    cuda(cudaStreamSynchronize(stream));
    void *other = take(pool, stream, 102 * MIB);
    expect_equal(info_of(pool).held, 202 * MIB);
    crmm_deallocate(pool, stream, other, 102 * MIB, 256);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(stream));
}

/* Sizes that never fit into each other's chunks: chunks go and come, and this ends. */
Test(pool_order, chunks_do_not_go_and_come_for_ever)
{
    enum { CYCLES = 200, SETTLED = 150, SMALL = 6, LARGE = 4 };
    cudaStream_t stream = make_stream();
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    uint64_t growths = 0;
    void *blocks[SMALL];

    for (int cycle = 0; cycle < CYCLES; cycle++) {
        for (size_t i = 0; i < SMALL; i++) {
            blocks[i] = take(pool, stream, 30 * MIB);
        }
        for (size_t i = 0; i < SMALL; i++) {
            crmm_deallocate(pool, stream, blocks[i], 30 * MIB, 256);
        }
        for (size_t i = 0; i < LARGE; i++) {
            blocks[i] = take(pool, stream, 45 * MIB);
        }
        for (size_t i = 0; i < LARGE; i++) {
            crmm_deallocate(pool, stream, blocks[i], 45 * MIB, 256);
        }
        growths = cycle == SETTLED ? statistics_of(pool).growths : growths;
    }
    expect_equal(statistics_of(pool).growths, growths);
    cr_assert(info_of(pool).held <= 2 * 180 * MIB, "%zu", info_of(pool).held);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(stream));
}

/* Small blocks, aligned ones too, leave an idle chunk alone that was made for a large one. */
Test(pool_order, small_blocks_keep_no_large_chunk)
{
    static const size_t sizes[] = {1000, 1000, 3 * MIB};
    static const size_t alignments[] = {256, 512, 512};
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    size_t released = 0;

    for (size_t k = 0; k < 3; k++) {
        crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
        void *large = take(pool, streams[0], 100 * MIB);
        void *small = NULL;
        crmm_deallocate(pool, streams[0], large, 100 * MIB, 256);
        cuda(cudaStreamSynchronize(streams[0]));
        expect_success(crmm_allocate(pool, streams[k % 2], sizes[k], alignments[k], &small));
        expect_success(crmm_resource_trim(pool, 0, &released));
        cr_assert(info_of(pool).held < 100 * MIB, "%zu", info_of(pool).held);
        crmm_deallocate(pool, streams[k % 2], small, sizes[k], alignments[k]);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
}

/* Memory that moves comes from the smallest free pieces, and the large ones stay whole. */
Test(pool_order, pages_are_moved_from_the_smallest_free_pieces)
{
    enum { PARTS = 7 };
    /* Free ones have a live one behind them; the last one can be longer. */
    static const size_t parts[PARTS] = {2 * MIB, 2 * MIB, 20 * MIB, 2 * MIB,
                                        2 * MIB, 2 * MIB, 40 * MIB};
    cudaStream_t stream = make_stream();
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool = make_pool(vmm, .tight = 1, .handle_size = 2 * MIB);
    void *blocks[PARTS];

    for (size_t i = 0; i < PARTS; i++) {
        blocks[i] = take(pool, stream, parts[i]);
    }
    for (size_t i = 0; i < PARTS; i += 2) {
        crmm_deallocate(pool, stream, blocks[i], parts[i], 256);
    }
    cuda(cudaStreamSynchronize(stream));
    void *large = take(pool, stream, 44 * MIB);
    expect_equal(statistics_of(pool).moves, 2);
    expect_equal(info_of(pool).largest_free, 20 * MIB);
    crmm_deallocate(pool, stream, large, 44 * MIB, 256);
    for (size_t i = 1; i < PARTS; i += 2) {
        crmm_deallocate(pool, stream, blocks[i], parts[i], 256);
    }
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
    cuda(cudaStreamDestroy(stream));
}

/* ---- an upstream that gives little at a time ---- */

enum { LITTLE = 3 };

typedef struct asked {
    size_t calls, most, least; /* bytes */
} asked;

static crmm_status give_little(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                               void *user_data)
{
    asked *by = user_data;

    by->calls++;
    by->most = bytes > by->most ? bytes : by->most;
    by->least = bytes < by->least ? bytes : by->least;
    return bytes > LITTLE * MIB
               ? CRMM_ERROR_OUT_OF_MEMORY
               : crmm_allocate(crmm_cuda_memory_resource(), stream, bytes, alignment, ptr);
}

static void take_back(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                      void *user_data)
{
    (void)user_data;
    crmm_deallocate(crmm_cuda_memory_resource(), stream, ptr, bytes, alignment);
}

/* A pool asks for more than it needs, and for less where that is refused, down to what it needs. */
Test(pool_order, a_pool_asks_for_less_where_much_is_refused)
{
    need_devices(1);
    asked by = {.least = SIZE_MAX};
    const crmm_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                      .properties =
                                          crmm_resource_properties(crmm_cuda_memory_resource()),
                                      .allocate = give_little,
                                      .deallocate = take_back};
    crmm_resource *upstream = NULL;
    void *ptr = NULL;

    misuse_recorder_start();
    expect_success(crmm_callback_memory_resource_create(&callbacks, &by, &upstream));
    crmm_resource *pool = make_pool(upstream, .handle_size = 32 * MIB);
    void *small = take(pool, NULL, 1000);
    cr_assert(by.most >= 32 * MIB && by.least <= LITTLE * MIB && by.calls > 1);
    cr_assert(info_of(pool).held > 0 && info_of(pool).held <= LITTLE * MIB);
    /* Down to the last byte, and not further. */
    void *exact = take(pool, NULL, LITTLE * MIB);
    expect_status(crmm_allocate(pool, NULL, LITTLE * MIB + 256, 256, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    crmm_deallocate(pool, NULL, exact, LITTLE * MIB, 256);
    crmm_deallocate(pool, NULL, small, 1000, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&upstream);
    expect_equal(misuse_recorded()->count, 0);
}

/* Another heap's idle page is in the way of two that a block needs, though not of its bytes. */
Test(pool_order, idle_pages_make_room_for_whole_pages)
{
    /* A page need not be a power of two. */
    static const struct {
        size_t page, maximum, held;
    } rows[] = {{16 * MIB, 41 * MIB, 32 * MIB}, {6 * MIB, 29 * MIB, 24 * MIB}};
    crmm_resource *vmm = make_vmm();
    cudaStream_t stream = make_stream();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        crmm_resource *mr = make_pool(vmm, .handle_size = rows[i].page,
                                      .maximum_pool_size = rows[i].maximum, .heap_count = 2);
        crmm_priv_pool *pool = (crmm_priv_pool *)mr;
        void *ptr = take(mr, stream, 4 * MIB);
        crmm_deallocate(mr, stream, ptr, 4 * MIB, 256);
        cuda(cudaStreamSynchronize(stream));
        expect_equal(info_of(mr).held, rows[i].page);
        cr_assert(crmm_priv_pool_add_heap(pool) != NULL);
        pool->can_move = false; /* the page cannot follow */
        pool->caches->heap = 1; /* as if threads had got into each other's way */
        pool->heaps[0]->users--;
        pool->heaps[1]->users++;
        ptr = take(mr, stream, 20 * MIB);
        expect_equal(info_of(mr).held, rows[i].held);
        crmm_deallocate(mr, stream, ptr, 20 * MIB, 256);
        expect_sound_books(mr);
        crmm_resource_release(&mr);
    }
    crmm_resource_release(&vmm);
    cuda(cudaStreamDestroy(stream));
}

/* What the program has leaves too little below the maximum: nobody is waited for, and nothing goes.
 */
Test(pool_order, a_request_that_cannot_be_served_changes_nothing, .timeout = 20)
{
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), make_vmm()};
    cudaStream_t busy = make_stream();
    cudaStream_t other = make_stream();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(upstreams[k], .maximum_pool_size = 64 * MIB);
        void *live = take(pool, other, 20 * MIB);
        void *pending = take(pool, busy, 24 * MIB);
        void *refused = &refused;
        gate held;
        gate_close(&held, busy);
        crmm_deallocate(pool, busy, pending, 24 * MIB, 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, busy));
        crmm_memory_info before = info_of(pool);
        expect_status(crmm_allocate(pool, other, 50 * MIB, 256, &refused),
                      CRMM_ERROR_OUT_OF_MEMORY);
        cr_assert(!gate_is_open(&held));
        expect_equal(info_of(pool).held, before.held);
        expect_equal(statistics_of(pool).synchronizes, 0);
        expect_equal(statistics_of(pool).releases, 0);
        gate_open(&held);
        cuda(cudaStreamSynchronize(busy));
        /* And what can be served is. */
        void *rest = take(pool, other, 40 * MIB);
        crmm_deallocate(pool, other, rest, 40 * MIB, 256);
        crmm_deallocate(pool, other, live, 20 * MIB, 256);
        crmm_resource_release(&pool);
    }
    crmm_resource_release(&upstreams[1]);
    cuda(cudaStreamDestroy(busy));
    cuda(cudaStreamDestroy(other));
}
