/* SPDX-License-Identifier: Apache-2.0 */

/* One of several streams that gives back nearly all large blocks. */

#include <crmm/device/pool_memory_resource.h>

#include <pthread.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/pool.h"
#include "misuse_recorder.h"
#include "pool_support.h"

enum { ENOUGH = CRMM_PRIV_POOL_LEADS + 500 }; /* large blocks given back, so that a stream leads */

static const size_t MAXIMUM = 64 * MIB;

/* A pool over pages that gets no more than it has, and two streams for it. */
typedef struct fixture {
    crmm_resource *upstream, *pool;
    cudaStream_t often, seldom;
} fixture;

static fixture begin(void)
{
    crmm_resource *upstream = make_vmm();

    misuse_recorder_start();
    return (fixture){
        .upstream = upstream,
        .pool = make_pool(upstream, .initial_pool_size = MAXIMUM, .maximum_pool_size = MAXIMUM),
        .often = make_stream(),
        .seldom = make_stream()};
}

static void end(fixture *all)
{
    expect_sound_books(all->pool);
    expect_equal(info_of(all->pool).live, 0);
    cuda(cudaStreamDestroy(all->often));
    cuda(cudaStreamDestroy(all->seldom));
    crmm_resource_release(&all->pool);
    crmm_resource_release(&all->upstream);
    expect_equal(misuse_recorded()->count, 0);
}

static bool has_leader(const crmm_resource *pool)
{
    return ((const crmm_priv_pool *)pool)->leading != 0;
}

/* Three at a time, so that parking does not keep all of them. */
static void use(crmm_resource *pool, cudaStream_t stream, int count)
{
    static const size_t sizes[] = {2 * MIB, 3 * MIB, 4 * MIB};

    for (int i = 0; i < count; i += 3) {
        void *blocks[3];
        for (size_t k = 0; k < 3; k++) {
            blocks[k] = take(pool, stream, sizes[k]);
        }
        for (size_t k = 0; k < 3; k++) {
            crmm_deallocate(pool, stream, blocks[k], sizes[k], 256);
        }
    }
}

static void let_one_lead(const fixture *all)
{
    use(all->pool, all->seldom, 3);
    cr_assert(!has_leader(all->pool));
    use(all->pool, all->often, ENOUGH);
    cr_assert(has_leader(all->pool));
}

static uint64_t records_of(crmm_resource *pool, cudaStream_t stream, int count)
{
    crmm_pool_statistics before = statistics_of(pool);

    use(pool, stream, count);
    return statistics_of(pool).records - before.records;
}

Test(pool_lead, a_stream_leads_until_others_give_back_a_part)
{
    fixture all = begin();

    let_one_lead(&all);
    for (int i = 0; i < 60; i++) { /* one of fifty is nothing */
        use(all.pool, all.seldom, 3);
        use(all.pool, all.often, 150);
        cr_assert(has_leader(all.pool), "%d", i);
    }
    for (int i = 0; i < 60; i++) { /* one of ten is */
        use(all.pool, all.seldom, 15);
        use(all.pool, all.often, 150);
    }
    cr_assert(!has_leader(all.pool));
    use(all.pool, all.seldom, ENOUGH + CRMM_PRIV_POOL_MOST_LEAD / CRMM_PRIV_POOL_OTHERS_WEIGHT);
    cr_assert(has_leader(all.pool));
    end(&all);
}

Test(pool_lead, it_is_fenced_as_seldom_as_a_lone_stream)
{
    fixture all = begin();

    let_one_lead(&all);
    uint64_t led = records_of(all.pool, all.often, 900);
    use(all.pool, all.seldom, 600);
    cr_assert(!has_leader(all.pool));
    uint64_t among_several = records_of(all.pool, all.often, 900);
    cr_assert(led > 0 && led * 2 < among_several, "%llu, and %llu", (unsigned long long)led,
              (unsigned long long)among_several);
    end(&all);
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

/* How many blocks it may be beyond its account was decided when it was alone. */
Test(pool_lead, a_stream_that_is_alone_no_more_is_fenced_sooner_at_once)
{
    fixture all = begin();
    int alone = 0;

    for (int i = 0; i < 40; i++) {
        alone = pairs_to_a_fence(all.pool, all.often);
    }
    crmm_deallocate(all.pool, all.seldom, take(all.pool, all.seldom, MIB), MIB, 256);
    int beside_another = pairs_to_a_fence(all.pool, all.often);
    cr_assert(beside_another <= alone - 8, "%d, and %d", beside_another, alone);
    end(&all);
}

/* That keeps what it gave back, also after the leading one lacked memory. */
Test(pool_lead, each_has_what_the_other_gave_back_when_memory_is_short)
{
    fixture all = begin();

    let_one_lead(&all);
    for (int i = 0; i < 20; i++) {
        cudaStream_t stream = i % 2 ? all.often : all.seldom;
        use(all.pool, i % 4 < 2 ? all.often : all.seldom, 30);
        void *everything = take(all.pool, stream, MAXIMUM);
        expect_equal(info_of(all.pool).live, MAXIMUM);
        expect_sound_books(all.pool);
        void *none = &none;
        expect_equal(crmm_allocate(all.pool, stream, 2 * MIB, 256, &none),
                     CRMM_ERROR_OUT_OF_MEMORY);
        crmm_deallocate(all.pool, stream, everything, MAXIMUM, 256);
        expect_sound_books(all.pool);
    }
    end(&all);
}

Test(pool_lead, a_shortage_does_not_end_it)
{
    fixture all = begin();

    let_one_lead(&all);
    for (int i = 0; i < 4; i++) {
        cudaStream_t stream = i % 2 ? all.often : all.seldom;
        void *everything = take(all.pool, stream, MAXIMUM);
        crmm_deallocate(all.pool, stream, everything, MAXIMUM, 256);
        cr_assert(has_leader(all.pool), "%d", i);
    }
    expect_success(crmm_resource_trim(all.pool, 0, NULL));
    cr_assert(has_leader(all.pool));
    end(&all);
}

/* Work of the leading stream is pending on what another one gets from it, which waits. */
Test(pool_lead, what_another_stream_gets_is_ordered_behind_its_work)
{
    fixture all = begin();
    unsigned char seen[MIB];

    let_one_lead(&all);
    for (int i = 0; i < 8; i++) {
        void *block = take(all.pool, all.often, MAXIMUM);
        cuda(cudaMemsetAsync(block, 1, MAXIMUM, all.often));
        crmm_deallocate(all.pool, all.often, block, MAXIMUM, 256);
        block = take(all.pool, all.seldom, 32 * MIB);
        cuda(cudaMemsetAsync(block, 2, MIB, all.seldom));
        cuda(cudaMemcpyAsync(seen, block, MIB, cudaMemcpyDeviceToHost, all.seldom));
        cuda(cudaStreamSynchronize(all.seldom));
        cuda(cudaStreamSynchronize(all.often));
        for (size_t k = 0; k < MIB; k += 4096) {
            cr_assert(seen[k] == 2, "%zu", k);
        }
        cuda(cudaMemcpy(seen, block, MIB, cudaMemcpyDeviceToHost));
        for (size_t k = 0; k < MIB; k += 4096) {
            cr_assert(seen[k] == 2, "%zu", k);
        }
        crmm_deallocate(all.pool, all.seldom, block, 32 * MIB, 256);
    }
    end(&all);
}

static void *use_elsewhere(void *data)
{
    const fixture *all = data;

    use(all->pool, all->seldom, 3);
    return NULL;
}

Test(pool_lead, another_thread_ends_it_until_that_is_gone)
{
    fixture all = begin();
    pthread_t thread;

    let_one_lead(&all);
    cr_assert(pthread_create(&thread, NULL, use_elsewhere, &all) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    cr_assert(!has_leader(all.pool));
    use(all.pool, all.often, ENOUGH);
    cr_assert(has_leader(all.pool));
    end(&all);
}

Test(pool_lead, none_leads_where_others_need_what_is_free)
{
    fixture all = begin();
    crmm_resource *pools[] = {make_pool(crmm_cuda_memory_resource(), .initial_pool_size = MAXIMUM),
                              make_pool(all.upstream, .tight = 1),
                              make_pool(all.upstream, .release_threshold = MAXIMUM),
                              make_pool(all.upstream, .initial_pool_size = MAXIMUM)};
    enum { COUNT = sizeof(pools) / sizeof(pools[0]), WITH_SYNC_CALLS = COUNT - 1 };

    void *block = NULL;
    expect_success(crmm_allocate_sync(pools[WITH_SYNC_CALLS], MIB, 256, &block));
    for (size_t i = 0; i < COUNT; i++) {
        use(pools[i], all.seldom, 3);
        use(pools[i], all.often, ENOUGH);
        cr_assert(!has_leader(pools[i]), "%zu", i);
    }
    crmm_deallocate_sync(pools[WITH_SYNC_CALLS], block, MIB, 256);
    for (size_t i = 0; i < COUNT; i++) {
        expect_sound_books(pools[i]);
        crmm_resource_release(&pools[i]);
    }
    end(&all);
}
