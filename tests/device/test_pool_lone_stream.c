/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool that knows one stream joins clean memory to that stream's, and records few fences, until
 * another one comes; and not while somebody needs to tell the two kinds of memory apart.
 */
#include <crmm/device/pool_memory_resource.h>

#include <sched.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/pool.h"
#include "misuse_recorder.h"
#include "pool_support.h"
#include "random_numbers.h"

enum { UPSTREAMS = 2 };

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

/* Pairs of 1 MiB on a stream, until there is a fence: how many. */
static int pairs_to_a_fence(crmm_resource *pool, cudaStream_t stream)
{
    enum { MOST = 1000 };
    uint64_t before = statistics_of(pool).records;
    int count = 0;

    for (; count < MOST && statistics_of(pool).records == before; count++) {
        crmm_deallocate(pool, stream, take(pool, stream, MIB), MIB, 256);
    }
    return count;
}

/* The same once a stream is known to live long. */
static int pairs_to_a_later_fence(crmm_resource *pool, cudaStream_t stream)
{
    int count = 0;

    for (int i = 0; i < 40; i++) {
        count = pairs_to_a_fence(pool, stream);
    }
    return count;
}

/* It may be fewer blocks beyond its account, which began when it was alone. */
Test(pool_lone_stream, that_is_alone_no_more_is_fenced_sooner_at_once)
{
    fixture all = begin();
    cudaStream_t another = make_stream();
    crmm_resource *pool =
        make_pool(all.upstreams[1], .initial_pool_size = 64 * MIB, .maximum_pool_size = 64 * MIB);

    int alone = pairs_to_a_later_fence(pool, all.stream);
    crmm_deallocate(pool, another, take(pool, another, MIB), MIB, 256);
    int beside_another = pairs_to_a_fence(pool, all.stream);
    cr_assert(beside_another <= alone - 8, "%d, and %d", beside_another, alone);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(another));
    end(&all);
}

/* Its account is what it was, but for what there is less of. */
Test(pool_lone_stream, has_as_few_fences_after_a_trim)
{
    fixture all = begin();

    for (size_t k = 0; k < UPSTREAMS; k++) {
        crmm_resource *pool = make_pool(all.upstreams[k], .initial_pool_size = 32 * MIB);
        size_t released = 0;
        void *more = take(pool, all.stream, 64 * MIB);
        int before = pairs_to_a_later_fence(pool, all.stream);
        crmm_deallocate(pool, all.stream, more, 64 * MIB, 256);
        expect_success(crmm_resource_trim(pool, 32 * MIB, &released));
        cr_assert(released >= 32 * MIB, "%zu", released);
        int after = pairs_to_a_later_fence(pool, all.stream);
        cr_assert(after >= before - 5, "%d, and %d", after, before);
        crmm_resource_release(&pool);
    }
    end(&all);
}

Test(pool_lone_stream, has_as_few_fences_after_a_shortage)
{
    fixture all = begin();

    for (size_t k = 0; k < UPSTREAMS; k++) {
        crmm_resource *pool = make_pool(all.upstreams[k], .initial_pool_size = 64 * MIB,
                                        .maximum_pool_size = 64 * MIB);
        int before = pairs_to_a_later_fence(pool, all.stream);
        void *some = take(pool, all.stream, 40 * MIB);
        void *more = NULL;
        expect_equal(crmm_allocate(pool, all.stream, 40 * MIB, 256, &more),
                     CRMM_ERROR_OUT_OF_MEMORY);
        crmm_deallocate(pool, all.stream, some, 40 * MIB, 256);
        int after = pairs_to_a_later_fence(pool, all.stream);
        cr_assert(after >= before - 3, "%d, and %d", after, before);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Where its work is complete, what is there is found without one. */
Test(pool_lone_stream, waits_on_the_cpu_for_nothing_in_a_full_pool)
{
    enum { BLOCKS = 24, STEPS = 3000, PROGRAMS = 10 };
    fixture all = begin();

    for (uint64_t program = 1; program <= UPSTREAMS * PROGRAMS; program++) {
        crmm_resource *pool =
            make_pool(all.upstreams[program % UPSTREAMS], .maximum_pool_size = 48 * MIB);
        void *blocks[BLOCKS] = {NULL};
        size_t sizes[BLOCKS] = {0};
        size_t live = 0;
        uint64_t random = program;
        for (int i = 0; i < STEPS; i++) {
            size_t k = (size_t)random_below(&random, BLOCKS);
            uint64_t before = statistics_of(pool).synchronizes;
            if (blocks[k] != NULL) {
                crmm_deallocate(pool, all.stream, blocks[k], sizes[k], 256);
                cuda(cudaStreamSynchronize(all.stream));
                blocks[k] = NULL;
                live -= sizes[k];
                continue;
            }
            sizes[k] = 1 + (size_t)random_below(&random, 8 * MIB);
            if (live + sizes[k] <= 40 * MIB &&
                crmm_allocate(pool, all.stream, sizes[k], 256, &blocks[k]) == CRMM_SUCCESS) {
                live += sizes[k];
                expect_equal(statistics_of(pool).synchronizes, before);
            }
        }
        for (size_t k = 0; k < BLOCKS; k++) {
            crmm_deallocate(pool, all.stream, blocks[k], blocks[k] == NULL ? 0 : sizes[k], 256);
        }
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    end(&all);
}

typedef struct trim {
    crmm_resource *pool;
    size_t released; /* bytes */
} trim;

static void *trim_to_nothing(void *user_data)
{
    trim *self = user_data;

    expect_success(crmm_resource_trim(self->pool, 0, &self->released));
    return NULL;
}

static uint64_t waits_begun(const crmm_resource *pool)
{
    return __atomic_load_n(&((const crmm_priv_pool *)pool)->stranded_epoch, __ATOMIC_ACQUIRE);
}

/* The one must not end what the other one still needs. */
Test(pool_lone_stream, gives_all_to_a_trim_that_waits_while_another_one_ends, .timeout = 20)
{
    fixture all = begin();

    for (size_t k = 0; k < UPSTREAMS; k++) {
        trim waits = {.pool = make_pool(all.upstreams[k], .initial_pool_size = 64 * MIB)};
        size_t released = 0;
        gate closed;
        pthread_t thread;
        void *ptr = take(waits.pool, all.stream, 24 * MIB);
        uint64_t before = waits_begun(waits.pool);
        gate_close(&closed, all.stream);
        crmm_deallocate(waits.pool, all.stream, ptr, 24 * MIB, 256);
        cr_assert(pthread_create(&thread, NULL, trim_to_nothing, &waits) == 0);
        while (waits_begun(waits.pool) == before) {
            (void)sched_yield();
        }
        expect_success(crmm_resource_trim(waits.pool, SIZE_MAX, &released));
        expect_equal(released, 0);
        gate_open(&closed);
        cr_assert(pthread_join(thread, NULL) == 0);
        expect_equal(waits.released, 64 * MIB);
        expect_equal(info_of(waits.pool).held, 0);
        crmm_resource_release(&waits.pool);
    }
    end(&all);
}
