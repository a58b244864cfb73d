/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that get into each other's way have heaps of their own. One whose blocks lie in another
 * heap than its own would take the long way with each request: it does not for long.
 */
#include <crmm/device/pool_memory_resource.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/registry.h"
#include "misuse_recorder.h"
#include "pool_support.h"

enum { UPSTREAMS = 2, SOON = 20 /* requests */ };

static const size_t BYTES = 8 * MIB;

/* A stream, and memory that comes in chunks, and in pages. */
typedef struct fixture {
    crmm_resource *upstreams[UPSTREAMS];
    cudaStream_t stream;
} fixture;

static fixture begin(void)
{
    misuse_recorder_start();
    return (fixture){.upstreams = {crmm_cuda_memory_resource(), make_vmm()},
                     .stream = make_stream()};
}

static void end(fixture *all)
{
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(all->stream));
    expect_equal(info_of(all->upstreams[1]).held, 0);
    crmm_resource_release(&all->upstreams[1]);
}

/* A pool that this thread has a block of, whose heap is not the thread's any more. */
static crmm_resource *make_apart(crmm_resource *upstream, cudaStream_t stream, void **block)
{
    crmm_resource *made = make_pool(upstream, .tight = 0);
    crmm_priv_pool *pool = (crmm_priv_pool *)made;

    *block = take(made, stream, BYTES);
    cr_assert(crmm_priv_pool_add_heap(pool) != NULL);
    expect_equal(pool->caches->heap, 0);
    pool->heaps[0]->users--;
    pool->heaps[1]->users++;
    pool->caches->heap = 1;
    return made;
}

static uint32_t heap_of(crmm_resource *pool, const void *block)
{
    return crmm_priv_pool_chunks_find(&((crmm_priv_pool *)pool)->chunks, block)->heap->index;
}

/* Give a block back and take one of its size, until a condition holds: how often. */
static int pairs_until(crmm_resource *pool, cudaStream_t stream, void **block,
                       bool (*holds)(crmm_resource *pool, const void *block))
{
    int count = 0;

    for (; count < 10 * SOON && !holds(pool, *block); count++) {
        crmm_deallocate(pool, stream, *block, BYTES, 256);
        *block = take(pool, stream, BYTES);
    }
    return count;
}

/* The thread's heap is the block's. */
static bool is_with_block(crmm_resource *pool, const void *block)
{
    return ((const crmm_priv_pool *)pool)->caches->heap == heap_of(pool, block);
}

Test(pool_heaps, a_thread_goes_after_its_blocks)
{
    fixture all = begin();

    for (size_t k = 0; k < UPSTREAMS; k++) {
        void *block = NULL;
        crmm_resource *pool = make_apart(all.upstreams[k], all.stream, &block);
        cr_assert(pairs_until(pool, all.stream, &block, is_with_block) <= SOON);
        expect_equal(heap_of(pool, block), 0);
        expect_equal(((const crmm_priv_pool *)pool)->heaps[0]->users, 1);
        expect_equal(((const crmm_priv_pool *)pool)->heaps[1]->users, 0);
        crmm_deallocate(pool, all.stream, block, BYTES, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Else threads whose blocks lie in one heap would leave it and come back for ever. */
Test(pool_heaps, memory_comes_to_a_thread_that_has_left_its_blocks_heap_again)
{
    fixture all = begin();

    for (size_t k = 0; k < UPSTREAMS; k++) {
        void *block = NULL;
        crmm_resource *pool = make_apart(all.upstreams[k], all.stream, &block);
        crmm_priv_pool_thread *self = ((const crmm_priv_pool *)pool)->caches->thread;
        self->has_followed = true;
        self->has_parted = true; /* as after collisions there */
        size_t before = info_of(pool).held;
        cr_assert(pairs_until(pool, all.stream, &block, is_with_block) <= SOON);
        expect_equal(heap_of(pool, block), 1);
        cr_assert(info_of(pool).held <= before + 4 * MIB, "%zu", info_of(pool).held);
        expect_sound_books(pool);
        crmm_deallocate(pool, all.stream, block, BYTES, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}
