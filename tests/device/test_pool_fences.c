/* SPDX-License-Identifier: Apache-2.0 */
/* How often streams are fenced: seldom, but so that others do not lack what is given back. */
#include <crmm/device/pool_memory_resource.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/cache.h"
#include "misuse_recorder.h"
#include "pool_support.h"

enum { UPSTREAMS = 2 };

/* Memory that comes in chunks, and in pages. */
typedef struct fixture {
    crmm_resource *upstreams[UPSTREAMS];
    cudaStream_t a, b;
} fixture;

static fixture begin(void)
{
    misuse_recorder_start();
    return (fixture){.upstreams = {crmm_cuda_memory_resource(), make_vmm()},
                     .a = make_stream(),
                     .b = make_stream()};
}

static void end(fixture *all)
{
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(all->a));
    cuda(cudaStreamDestroy(all->b));
    expect_equal(info_of(all->upstreams[1]).held, 0);
    crmm_resource_release(&all->upstreams[1]);
}

/* Take a block and give it back, so many times. */
static void use(crmm_resource *pool, cudaStream_t stream, size_t bytes, int times)
{
    for (int i = 0; i < times; i++) {
        crmm_deallocate(pool, stream, take(pool, stream, bytes), bytes, 256);
    }
}

/* An event on the legacy stream is a barrier for all blocking streams: there is none until somebody
 * needs what was given back there. */
Test(pool_fences, large_blocks_on_the_legacy_stream_are_not_fenced)
{
    static const size_t thresholds[] = {0, (size_t)1 << 30};
    fixture all = begin();

    for (size_t k = 0; k < 2 * UPSTREAMS; k++) {
        crmm_resource *pool =
            make_pool(all.upstreams[k % UPSTREAMS], .initial_pool_size = 256 * MIB,
                      .release_threshold = thresholds[k / UPSTREAMS]);
        void *other = take(pool, all.a, 2 * MIB);
        use(pool, NULL, 2 * MIB, 64);
        expect_equal(statistics_of(pool).records, 0);
        crmm_deallocate(pool, all.a, other, 2 * MIB, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Few events, however many streams there are, and whatever small blocks others give back. */
Test(pool_fences, large_blocks_of_many_streams_have_a_fence_for_every_four)
{
    enum { STREAMS = 16, ROUNDS = 64, YOUNG = 100, SMALL = 4 };
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = (size_t)1 << 30);
    cudaStream_t streams[STREAMS];

    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = make_stream();
        /* The first fences are for streams that do not live long, and then more for some time,
         * since the pool grew: what the first stream gave back when it was alone had none. */
        use(pool, streams[i], 2 * MIB, YOUNG);
    }
    uint64_t before = statistics_of(pool).records;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < STREAMS; i++) {
            use(pool, streams[i], 2 * MIB, 1);
        }
        use(pool, all.a, MIB, SMALL);
    }
    uint64_t records = statistics_of(pool).records - before;
    cr_assert(records <= ROUNDS * (STREAMS / 4 + SMALL / 2) + 64, "%zu", (size_t)records);
    crmm_resource_release(&pool);
    for (size_t i = 0; i < STREAMS; i++) {
        cuda(cudaStreamDestroy(streams[i]));
    }
    end(&all);
}

/* What is large is what caches do not keep, and not what goes past them since it is aligned. */
Test(pool_fences, small_aligned_blocks_have_few_fences)
{
    enum { CALLS = 4000 };
    fixture all = begin();

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .initial_pool_size = 64 * MIB);
        void *other = take(pool, all.b, MIB);
        for (int k = 0; k < CALLS; k++) {
            void *ptr = NULL;
            expect_equal(crmm_allocate(pool, all.a, 256, 512, &ptr), CRMM_SUCCESS);
            crmm_deallocate(pool, all.a, ptr, 256, 512);
        }
        cr_assert(statistics_of(pool).records <= 16, "%zu", (size_t)statistics_of(pool).records);
        crmm_deallocate(pool, all.b, other, MIB, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* However much others gave back meanwhile, which is told by counters that begin anew. */
Test(pool_fences, a_stream_that_was_quiet_for_long_is_fenced)
{
    enum { BLOCKS = 40, OLD = 250 };
    static const uint32_t turns[] = {16, UINT32_C(0x80000010), UINT32_MAX - 1};
    fixture all = begin();

    for (size_t k = 0; k < sizeof(turns) / sizeof(turns[0]); k++) {
        crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 256 * MIB);
        cudaStream_t quiet = make_stream();
        void *blocks[BLOCKS];
        use(pool, all.a, 4 * MIB, OLD);
        use(pool, quiet, 4 * MIB, OLD);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = take(pool, quiet, 2 * MIB);
        }
        const crmm_priv_pool *in = (const crmm_priv_pool *)pool;
        const crmm_priv_pool_cache *cache = in->caches; /* the one that was made last */
        in->heaps[0]->turn = cache->turn + turns[k];
        uint64_t before = statistics_of(pool).records;
        for (size_t i = 0; i < BLOCKS; i++) {
            crmm_deallocate(pool, quiet, blocks[i], 2 * MIB, 256);
        }
        cr_assert(statistics_of(pool).records >= before + (k == 0 ? BLOCKS / 8 : BLOCKS / 4),
                  "%u turns: %llu records", turns[k],
                  (unsigned long long)(statistics_of(pool).records - before));
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(quiet));
    }
    end(&all);
}

/* ---- memory is not multiplied ---- */

typedef struct job {
    size_t bytes; /* of each block */
    int blocks;
} job;

/* Blocks are taken and given back, and the work on them is complete. */
static void run_job(crmm_resource *pool, cudaStream_t stream, const job *what)
{
    enum { MOST = 64 };
    void *blocks[MOST];

    for (int i = 0; i < what->blocks; i++) {
        blocks[i] = take(pool, stream, what->bytes);
    }
    for (int i = 0; i < what->blocks; i++) {
        crmm_deallocate(pool, stream, blocks[i], what->bytes, 256);
    }
    cuda(cudaStreamSynchronize(stream));
}

/* What each of many streams leaves when it is done serves the next ones. */
static const job jobs[] = {{4 * MIB, 5}, {4 * MIB, 13}, {1000000, 16}, {1000000, 64}, {3 * MIB, 1}};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]), TIMES = 5 /* that are held at most */ };

static void expect_held(const crmm_resource *pool, const job *what)
{
    size_t needed = what->bytes * (size_t)what->blocks;

    cr_assert(info_of(pool).held <= TIMES * needed + 16 * MIB, "%d blocks of %zu bytes: %zu",
              what->blocks, what->bytes, info_of(pool).held);
}

Test(pool_fences, streams_that_work_in_turn_share_their_memory)
{
    enum { STREAMS = 32, ROUNDS = 5 };
    fixture all = begin();
    cudaStream_t streams[STREAMS];

    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = make_stream();
    }
    for (size_t k = 0; k < JOBS * UPSTREAMS; k++) {
        const job *what = &jobs[k % JOBS];
        crmm_resource *pool = make_pool(all.upstreams[k / JOBS], .tight = 0);
        for (size_t i = 0; i < (size_t)STREAMS * ROUNDS; i++) {
            run_job(pool, streams[i % STREAMS], what);
        }
        expect_held(pool, what);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        cuda(cudaStreamDestroy(streams[i]));
    }
    end(&all);
}

/* User report 28: nor do streams that are destroyed without a word leave ever more behind. */
Test(pool_fences, streams_that_end_leave_little_behind, .timeout = 60)
{
    enum { STREAMS = 150 };
    fixture all = begin();

    for (size_t k = 0; k < JOBS * UPSTREAMS; k++) {
        const job *what = &jobs[k % JOBS];
        crmm_resource *pool = make_pool(all.upstreams[k / JOBS], .tight = 0);
        void *lasts = take(pool, all.a, MIB);
        for (size_t i = 0; i < STREAMS; i++) {
            cudaStream_t stream = make_stream();
            run_job(pool, stream, what);
            cuda(cudaStreamDestroy(stream));
        }
        expect_held(pool, what);
        expect_equal(statistics_of(pool).synchronizes, 0);
        crmm_deallocate(pool, all.a, lasts, MIB, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* What is on the device does not matter to those who need none of it: not even the pool's table of
 * streams makes them wait. */
Test(pool_fences, ever_more_streams_wait_for_nobody, .timeout = 60)
{
    enum { STREAMS = 4500 };
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .tight = 0);
    void *busy = take(pool, all.a, MIB);

    for (size_t i = 0; i < STREAMS; i++) {
        cudaStream_t stream = make_stream();
        run_job(pool, stream, &(job){10000, 1});
        cuda(cudaStreamDestroy(stream));
    }
    expect_equal(statistics_of(pool).synchronizes, 0);
    crmm_deallocate(pool, all.a, busy, MIB, 256);
    crmm_resource_release(&pool);
    end(&all);
}
