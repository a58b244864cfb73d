/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs have run into with pools: sequences of calls after which memory was there and could
 * not be had, was held for ever, or was counted wrong. Each test says which.
 */
#include <crmm/device/pool_memory_resource.h>

#include <stdlib.h>
#include <time.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"
#include "random_numbers.h"
#include "recording_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, UPSTREAMS = 2 };

typedef struct fixture {
    crmm_resource *upstreams[UPSTREAMS];
    cudaStream_t a, b, c;
} fixture;

/* Chunks, and pages. */
static fixture begin(void)
{
    fixture all = {.upstreams = {crmm_cuda_memory_resource(), make_vmm()}};

    all.a = make_stream();
    all.b = make_stream();
    all.c = make_stream();
    misuse_recorder_start();
    return all;
}

static void end(fixture *all)
{
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(all->a));
    cuda(cudaStreamDestroy(all->b));
    cuda(cudaStreamDestroy(all->c));
    expect_equal(info_of(all->upstreams[0]).held, 0);
    expect_equal(info_of(all->upstreams[1]).held, 0);
    crmm_resource_release(&all->upstreams[1]);
}

static void drain(const fixture *all)
{
    cuda(cudaStreamSynchronize(all->a));
    cuda(cudaStreamSynchronize(all->b));
    cuda(cudaStreamSynchronize(all->c));
}

/* Take a block and give it back, so many times. */
static void use(crmm_resource *pool, cudaStream_t stream, size_t bytes, int times)
{
    for (int i = 0; i < times; i++) {
        void *ptr = take(pool, stream, bytes);
        crmm_deallocate(pool, stream, ptr, bytes, 256);
    }
}

/* User report 1: free neighbours that two streams gave back are one block for a third. */
Test(pool_programs, what_two_streams_gave_back_alternately_serves_a_large_request)
{
    fixture all = begin();
    void *ptrs[64];

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .initial_pool_size = 64 * MIB,
                                        .maximum_pool_size = 64 * MIB);
        for (size_t k = 0; k < 64; k++) {
            ptrs[k] = take(pool, k % 2 == 0 ? all.a : all.b, MIB);
        }
        for (size_t k = 0; k < 64; k++) {
            crmm_deallocate(pool, k % 2 == 0 ? all.a : all.b, ptrs[k], MIB, 256);
        }
        drain(&all);
        void *whole = take(pool, all.c, 64 * MIB);
        crmm_deallocate(pool, all.c, whole, 64 * MIB, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 2: memory taken beyond the initial size is used again, round for round: all of it is
 * there after the first round, and is never more than the requests need. */
Test(pool_programs, rounds_of_the_same_requests_hold_the_same_memory)
{
    fixture all = begin();

    for (size_t i = 0; i < 2 * UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i % UPSTREAMS], .initial_pool_size = 2 * MIB,
                                        .tight = i / UPSTREAMS);
        crmm_pool_statistics first = {.growths = 0};
        for (int round = 0; round < 100; round++) {
            void *one = take(pool, all.a, 3 * MIB);
            void *two = take(pool, all.a, 3 * MIB);
            crmm_deallocate(pool, all.a, one, 3 * MIB, 256);
            crmm_deallocate(pool, all.a, two, 3 * MIB, 256);
            first = round == 0 ? statistics_of(pool) : first;
            expect_equal(statistics_of(pool).growths, first.growths);
            expect_equal(statistics_of(pool).releases, first.releases);
        }
        cr_assert(info_of(pool).peak_held <= 8 * MIB, "%zu", info_of(pool).peak_held);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 10: sizes that upstream's units do not divide: rounded so that each round's request
 * is the same. */
Test(pool_programs, requests_of_odd_sizes_do_not_grow_a_pool_round_for_round)
{
    recording_resource recording;

    need_devices(1);
    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    crmm_resource *pool = make_pool(&recording.base, .initial_pool_size = 2000);
    size_t after = 0;
    for (int round = 0; round < 5; round++) {
        void *one = take(pool, NULL, 1032);
        void *two = take(pool, NULL, 1032);
        crmm_deallocate(pool, NULL, one, 1032, 256);
        crmm_deallocate(pool, NULL, two, 1032, 256);
        after = round == 1 ? recording.allocations : after;
    }
    expect_equal(recording.allocations, after);
    crmm_resource_release(&pool);
    cr_assert(recording.live_bytes == 0 && recording.wrong == 0, "%s", recording.first_wrong);
    recording_resource_finish(&recording);
}

/* User reports 3, 13 and 19: an idle chunk that counts toward the maximum must not stand in the way
 * of a request that fits. */
Test(pool_programs, an_idle_chunk_makes_way_below_the_maximum)
{
    static const struct {
        size_t initial, maximum, first, second;
    } cases[] = {
        {256, 1024, 0, 1024},                   /* the initial chunk */
        {0, 64 * MIB, 32 * MIB, 48 * MIB},      /* one that was used */
        {0, 80 * MIB, 60 * MIB, 70 * MIB},      /* one that is nearly all */
        {1000192, 64 * MIB, 8 * MIB, 64 * MIB}, /* one of an odd size, and all of it */
        {(size_t)3 << 20, (size_t)16 << 20, 5 << 20, 16 << 20},
    };
    fixture all = begin();

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        /* Pages are larger than 1 KiB, so over vmm that maximum is no memory at all. */
        for (size_t k = 0; k < (cases[i].maximum < 2 * MIB ? 1 : UPSTREAMS); k++) {
            crmm_resource *pool =
                make_pool(all.upstreams[k], .initial_pool_size = cases[i].initial,
                          .maximum_pool_size = cases[i].maximum, .handle_size = 2 * MIB);
            if (cases[i].first != 0) {
                void *first = take(pool, all.a, cases[i].first);
                crmm_deallocate(pool, all.a, first, cases[i].first, 256);
            }
            void *second = take(pool, all.a, cases[i].second);
            crmm_deallocate(pool, all.a, second, cases[i].second, 256);
            crmm_resource_release(&pool);
        }
    }
    end(&all);
}

/* User report 4: a pool whose initial size was odd failed before equal blocks added up to its
 * maximum, over pinned memory. */
Test(pool_programs, equal_blocks_add_up_to_the_maximum)
{
    enum { BLOCKS = 8 };
    fixture all = begin();
    crmm_resource *upstreams[] = {crmm_pinned_host_memory_resource(), all.upstreams[0],
                                  all.upstreams[1]};

    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        void *ptrs[BLOCKS] = {NULL};
        crmm_resource *pool = make_pool(upstreams[i], .initial_pool_size = 1000192,
                                        .maximum_pool_size = BLOCKS * 8 * MIB);
        for (size_t k = 0; k < BLOCKS; k++) {
            ptrs[k] = take(pool, all.a, 8 * MIB);
        }
        for (size_t k = 0; k < BLOCKS; k++) {
            crmm_deallocate(pool, all.a, ptrs[k], 8 * MIB, 256);
        }
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 16: an idle chunk makes way also with something alive beside it, and on the default
 * streams. */
Test(pool_programs, an_idle_chunk_makes_way_beside_live_memory)
{
    fixture all = begin();
    cudaStream_t streams[] = {all.a, NULL, CRMM_STREAM_PER_THREAD};

    for (size_t i = 0; i < UPSTREAMS; i++) {
        for (size_t k = 0; k < 3; k++) {
            crmm_resource *pool =
                make_pool(all.upstreams[i], .maximum_pool_size = 100 * MIB, .handle_size = 2 * MIB);
            void *live = take(pool, streams[k], 30 * MIB);
            void *idle = take(pool, streams[k], 30 * MIB);
            crmm_deallocate(pool, streams[k], idle, 30 * MIB, 256);
            void *large = take(pool, streams[k], 60 * MIB);
            crmm_deallocate(pool, streams[k], large, 60 * MIB, 256);
            crmm_deallocate(pool, streams[k], live, 30 * MIB, 256);
            crmm_resource_release(&pool);
        }
    }
    end(&all);
}

/* User report 5: equal bounds that are no multiples of anything: accepted, and never exceeded. */
Test(pool_programs, any_equal_initial_and_maximum_size_is_accepted)
{
    static const size_t sizes[] = {1, 255, 256, 257, 1000, 1000192, 1000031};

    need_devices(1);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        recording_resource recording;
        void *ptr = NULL;
        recording_resource_init(&recording, ORDERED);
        recording_expect(true, NULL);
        crmm_resource *pool = make_pool(&recording.base, .initial_pool_size = sizes[i],
                                        .maximum_pool_size = sizes[i]);
        cr_assert(recording.peak_bytes <= sizes[i] && sizes[i] - recording.peak_bytes < 256);
        crmm_status status = crmm_allocate(pool, NULL, 256, 256, &ptr);
        expect_equal(status, sizes[i] < 256 ? CRMM_ERROR_OUT_OF_MEMORY : CRMM_SUCCESS);
        if (ptr != NULL) {
            crmm_deallocate(pool, NULL, ptr, 256, 256);
        }
        crmm_resource_release(&pool);
        cr_assert(recording.live_bytes == 0 && recording.peak_bytes <= sizes[i]);
        recording_resource_finish(&recording);
    }
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_length(const void *one, const void *other)
{
    double a = *(const double *)one;
    double b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Nothing goes, however often, and in less than 1 ms: the median, since a thread may be made to
 * wait for its processor now and then. */
static void expect_idle_trims(crmm_resource *pool)
{
    enum { TIMES = 101 };
    double took[TIMES];

    for (size_t i = 0; i < TIMES; i++) {
        size_t released = 1;
        double before = seconds();
        expect_success(crmm_resource_trim(pool, 0, &released));
        took[i] = seconds() - before;
        expect_equal(released, 0);
    }
    qsort(took, TIMES, sizeof(took[0]), by_length);
    cr_assert(took[TIMES / 2] < 0.001, "%f s", took[TIMES / 2]);
}

/* User reports 11 and 14: giving back ends, and does nothing, where there is nothing to give. */
Test(pool_programs, trim_of_an_empty_and_of_a_full_pool_does_nothing)
{
    fixture all = begin();

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .maximum_pool_size = 16 * MIB);
        size_t released = 1;
        expect_idle_trims(pool);
        void *ptr = take(pool, all.a, 16 * MIB);
        expect_idle_trims(pool);
        crmm_deallocate(pool, all.a, ptr, 16 * MIB, 256);
        drain(&all);
        /* And what was counted before a trim is not counted after it. */
        expect_success(crmm_resource_trim(pool, 0, &released));
        expect_equal(released, 16 * MIB);
        expect_equal(crmm_pool_memory_resource_pool_size(pool), 0);
        expect_idle_trims(pool);
        ptr = take(pool, all.a, 16 * MIB);
        crmm_deallocate(pool, all.a, ptr, 16 * MIB, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 12: after every call the books add up, and agree with upstream's. */
Test(pool_programs, books_add_up_after_every_call)
{
    enum { STEPS = 20000, MOST = 48 };
    fixture all = begin();
    uint64_t seed = 3;

    for (size_t i = 0; i < UPSTREAMS; i++) {
        struct {
            void *ptr;
            size_t bytes;
        } blocks[MOST];
        size_t count = 0;
        size_t live = 0;
        crmm_resource *pool = make_pool(all.upstreams[i], .maximum_pool_size = 48 * MIB);
        for (int step = 0; step < STEPS; step++) {
            cudaStream_t stream = step % 3 == 0 ? all.a : step % 3 == 1 ? all.b : NULL;
            if (count < MOST && random_below(&seed, 2) == 0) {
                blocks[count].bytes = 1 + random_below(&seed, (size_t)1 << (8 + step % 14));
                if (crmm_allocate(pool, stream, blocks[count].bytes, 256, &blocks[count].ptr) ==
                    CRMM_SUCCESS) {
                    count++;
                }
            } else if (count > 0) {
                size_t at = random_below(&seed, count);
                crmm_deallocate(pool, stream, blocks[at].ptr, blocks[at].bytes, 256);
                blocks[at] = blocks[--count];
            }
            crmm_memory_info info = info_of(pool);
            expect_equal(info.live + info.cached, info.held);
            expect_equal(info.allocations, count);
            expect_equal(info.held, info_of(all.upstreams[i]).held);
            live = info.live;
        }
        cr_assert(count == 0 || live > 0);
        while (count > 0) {
            count--;
            crmm_deallocate(pool, all.a, blocks[count].ptr, blocks[count].bytes, 256);
        }
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 15: a size class that is not needed any more takes nothing of its blocks along. */
Test(pool_programs, blocks_of_every_size_are_found_after_a_trim)
{
    fixture all = begin();
    void *ptrs[1024];

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .tight = 0);
        for (size_t k = 0; k < 1024; k++) {
            ptrs[k] = take(pool, all.a, (k + 1) * 256);
        }
        for (size_t k = 0; k < 1024; k += 2) {
            crmm_deallocate(pool, all.a, ptrs[k], (k + 1) * 256, 256);
        }
        void *large = take(pool, all.a, MIB);
        drain(&all);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        crmm_deallocate(pool, all.a, large, MIB, 256);
        for (size_t k = 1; k < 1024; k += 2) {
            crmm_deallocate(pool, all.a, ptrs[k], (k + 1) * 256, 256);
        }
        drain(&all);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        expect_equal(info_of(pool).held, 0);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* A full pool whose only free memory is a block of 1 MiB; `*rest` is what fills it. */
static void *free_one_block(crmm_resource *pool, const fixture *all, void **rest, size_t *bytes)
{
    void *block = take(pool, all->a, MIB);

    *bytes = info_of(pool).cached;
    *rest = take(pool, all->a, *bytes);
    crmm_deallocate(pool, all->a, block, MIB, 256);
    expect_equal(info_of(pool).cached, MIB);
    return block;
}

/* User report 15 as well: a part cut off a block of 1 MiB is found, and with it all memory, though
 * the sizes before and the rest of the block went away meanwhile. */
Test(pool_programs, a_part_of_a_split_block_is_found_after_a_trim)
{
    enum { SIZES = 1024 };
    const size_t all_bytes = 144 * MIB; /* more than 256 bytes to 256 KiB together */
    fixture all = begin();
    void *ptrs[SIZES];

    for (size_t i = 0; i < UPSTREAMS; i++) {
        size_t bytes = 0;
        void *rest = NULL;
        crmm_resource *pool = make_pool(all.upstreams[i], .initial_pool_size = all_bytes,
                                        .maximum_pool_size = all_bytes, .handle_size = 2 * MIB);
        for (size_t k = 0; k < SIZES; k++) {
            ptrs[k] = take(pool, all.a, (k + 1) * 256);
        }
        for (size_t k = 0; k < SIZES; k++) {
            crmm_deallocate(pool, all.a, ptrs[k], (k + 1) * 256, 256);
        }
        char *block = free_one_block(pool, &all, &rest, &bytes);
        char *part = take(pool, all.a, KIB);
        cr_assert(part >= block && part + KIB <= block + MIB, "%p is no part of %p", (void *)part,
                  (void *)block);
        crmm_deallocate(pool, all.a, rest, bytes, 256);
        drain(&all);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        /* What the part lies in is left: a chunk, or a handle. */
        expect_equal(info_of(pool).held, i == 0 ? all_bytes : 2 * MIB);
        expect_equal(info_of(pool).live, KIB);
        crmm_deallocate(pool, all.a, part, KIB, 256);
        drain(&all);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        expect_equal(info_of(pool).held, 0);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 17: long-lived small blocks do not strand the memory of one huge temporary, with a
 * maximum that leaves no other way, or with none. */
Test(pool_programs, small_blocks_do_not_strand_a_huge_ones_memory)
{
    enum { SMALL = 50, WAYS = 4 };
    const size_t maximum = 160 * MIB;
    fixture all = begin();
    void *small[SMALL];

    for (size_t way = 0; way < WAYS * UPSTREAMS; way++) {
        crmm_resource *pool =
            make_pool(all.upstreams[way % UPSTREAMS], .tight = way / UPSTREAMS % 2,
                      .maximum_pool_size = way / UPSTREAMS / 2 == 0 ? maximum : 0);
        void *huge = take(pool, all.a, 100 * MIB);
        crmm_deallocate(pool, all.a, huge, 100 * MIB, 256);
        for (size_t k = 0; k < SMALL; k++) {
            small[k] = take(pool, all.a, MIB);
        }
        huge = take(pool, all.a, 90 * MIB);
        cr_assert(info_of(pool).peak_held <= maximum, "way %zu: %zu", way, info_of(pool).peak_held);
        crmm_deallocate(pool, all.a, huge, 90 * MIB, 256);
        for (size_t k = 0; k < SMALL; k++) {
            crmm_deallocate(pool, all.a, small[k], MIB, 256);
        }
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Over chunks, because a huge one's is for one block at a time, though a smaller one leaves room:
 * so it can go back with that block. */
Test(pool_programs, small_blocks_do_not_keep_a_huge_ones_chunk)
{
    enum { SMALL = 8 };
    fixture all = begin();
    void *small[SMALL];

    for (size_t tight = 0; tight <= 1; tight++) {
        crmm_resource *pool = make_pool(all.upstreams[0], .tight = tight);
        void *huge = take(pool, all.a, 100 * MIB);
        crmm_deallocate(pool, all.a, huge, 100 * MIB, 256);
        void *again = take(pool, all.a, 90 * MIB);
        cr_assert(again == huge, "%p instead of %p", again, huge);
        for (size_t k = 0; k < SMALL; k++) {
            small[k] = take(pool, all.a, MIB);
        }
        crmm_deallocate(pool, all.a, again, 90 * MIB, 256);
        drain(&all);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        cr_assert(info_of(pool).held <= 16 * MIB, "%zu", info_of(pool).held);
        for (size_t k = 0; k < SMALL; k++) {
            crmm_deallocate(pool, all.a, small[k], MIB, 256);
        }
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* What a pool's callback was told of. */
typedef struct chunk_sum {
    size_t bytes, calls;
} chunk_sum;

static void note_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    chunk_sum *sum = user_data;

    cr_assert(base != NULL && (added || sum->bytes >= bytes));
    sum->bytes = added ? sum->bytes + bytes : sum->bytes - bytes;
    sum->calls++;
}

enum { OPTIONS = 13 };

static crmm_pool_memory_resource_options with(unsigned option,
                                              crmm_pool_memory_resource_options options,
                                              chunk_sum *chunks)
{
    switch (option) {
    case 0:
        options.initial_pool_size = 5 * MIB;
        break;
    case 1:
        options.maximum_pool_size = 48 * MIB;
        break;
    case 2:
        options.release_threshold = CRMM_RELEASE_ALL;
        break;
    case 3:
        options.tight = 1;
        break;
    case 4:
        options.target_pool_size = 24 * MIB;
        break;
    case 5:
        options.handle_size = 6 * MIB;
        break;
    case 6:
        options.stream_cache_size = CRMM_STREAM_CACHE_NONE;
        break;
    case 7:
        options.heap_count = 1;
        break;
    case 8:
        options.release_threshold = 8 * MIB;
        break;
    case 9:
        options.validate = 1;
        break;
    case 10:
        options.on_chunk = note_chunk;
        options.on_chunk_user_data = chunks;
        break;
    case 11:
        options.stream_cache_size = 100 * KIB;
        break;
    default:
        options.heap_count = 4;
        break;
    }
    return options;
}

static void *use_without_stream(void *user_data)
{
    crmm_resource *pool = user_data;
    void *ptr = NULL;

    recording_expect(true, NULL);
    expect_success(crmm_allocate_sync(pool, 2 * MIB, 256, &ptr));
    crmm_deallocate_sync(pool, ptr, 2 * MIB, 256);
    return NULL;
}

/* This thread and others in turn, until it has a heap of its own, if there may be several. */
static void crowd(crmm_resource *pool, const fixture *all)
{
    enum { TURNS = 16 };
    void *most = take(pool, all->a, 36 * MIB); /* a small pool has one heap */
    pthread_t thread;

    for (int i = 0; i < TURNS; i++) {
        use(pool, all->a, 2 * MIB, 1);
        cr_assert(pthread_create(&thread, NULL, use_without_stream, pool) == 0);
        cr_assert(pthread_join(thread, NULL) == 0);
    }
    crmm_deallocate(pool, all->a, most, 36 * MIB, 256);
}

static void grow_and_trim(crmm_resource *pool, const fixture *all)
{
    for (int round = 0; round < 2; round++) {
        void *one = take(pool, all->a, 7 * MIB);
        void *two = take(pool, all->b, 300 * KIB);
        void *three = take(pool, all->a, 100);
        crmm_deallocate(pool, all->a, one, 7 * MIB, 256);
        one = take(pool, all->a, 12 * MIB);
        crmm_deallocate(pool, all->b, two, 300 * KIB, 256);
        crmm_deallocate(pool, all->a, three, 100, 256);
        crmm_deallocate(pool, all->a, one, 12 * MIB, 256);
        drain(all);
        expect_success(crmm_resource_trim(pool, round == 0 ? 10 * MIB : 0, NULL));
    }
    expect_equal(info_of(pool).held, 0);
    expect_sound_books(pool);
}

/* A pool's life with options; what the callback, if there is one, was told adds up. */
static void live_with(crmm_resource *upstream, const crmm_pool_memory_resource_options *options,
                      const fixture *all, const chunk_sum *chunks)
{
    bool has_one_heap = options->heap_count == 1 || (options->heap_count == 0 && options->tight);
    crmm_resource *pool = pool_made(upstream, options);

    crowd(pool, all);
    expect_equal(statistics_of(pool).heaps, has_one_heap ? 1 : 2);
    expect_equal(chunks->bytes, options->on_chunk != NULL ? info_of(pool).held : 0);
    grow_and_trim(pool, all);
    crmm_resource_release(&pool);
    expect_equal(chunks->bytes, 0);
    expect_equal(chunks->calls > 0, options->on_chunk != NULL);
}

/* User report 18: any two options together: every chunk goes back as it came. The recording
 * resource's memory is the C heap's, on which CUDA cannot write guards. */
Test(pool_programs, options_go_together_in_pairs)
{
    fixture all = begin();
    recording_resource recording;

    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    crmm_resource *upstreams[] = {&recording.base, all.upstreams[0], all.upstreams[1]};
    for (unsigned i = 0; i < OPTIONS; i++) {
        for (unsigned k = i; k < OPTIONS; k++) {
            for (size_t u = 0; u < sizeof(upstreams) / sizeof(upstreams[0]); u++) {
                chunk_sum chunks = {.bytes = 0};
                crmm_pool_memory_resource_options options;
                crmm_pool_memory_resource_options_init(&options);
                options = with(k, with(i, options, &chunks), &chunks);
                if (options.validate != 0 && upstreams[u] == &recording.base) {
                    continue;
                }
                live_with(upstreams[u], &options, &all, &chunks);
                cr_assert(recording.wrong == 0 && recording.live_bytes == 0, "options %u, %u: %s",
                          i, k, recording.first_wrong);
                expect_equal(info_of(all.upstreams[0]).held + info_of(all.upstreams[1]).held, 0);
            }
        }
    }
    recording_resource_finish(&recording);
    end(&all);
}

/* User report 20: not for all that is pending: what is complete first serves, while another stream
 * goes on. */
Test(pool_programs, a_shortage_waits_for_what_suffices)
{
    fixture all = begin();
    gate soon;
    gate late;

    crmm_resource *pool = make_pool(all.upstreams[0], .maximum_pool_size = 16 * MIB);
    void *a = take(pool, all.a, 8 * MIB);
    void *b = take(pool, all.b, 8 * MIB);
    gate_close(&soon, all.a);
    crmm_deallocate(pool, all.a, a, 8 * MIB, 256);
    crmm_deallocate(pool, all.b, b, 8 * MIB, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, all.a));
    gate_open(&soon);
    cuda(cudaStreamSynchronize(all.a));
    gate_close(&late, all.b);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, all.b));
    void *ptr = NULL;
    expect_success(crmm_allocate_sync(pool, 8 * MIB, 256, &ptr));
    cr_assert(ptr == a && !gate_is_open(&late));
    cr_assert(cudaStreamQuery(all.b) == cudaErrorNotReady, "it waited for all");
    gate_open(&late);
    crmm_deallocate_sync(pool, ptr, 8 * MIB, 256);
    crmm_resource_release(&pool);
    end(&all);
}

/* User report 24: what lies in the streams' own books at the end goes back as well. */
Test(pool_programs, the_end_returns_what_every_stream_gave_back)
{
    fixture all = begin();

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .tight = 0);
        cudaStream_t streams[8];
        for (size_t k = 0; k < 8; k++) {
            streams[k] = make_stream();
            void *large = take(pool, streams[k], 3 * MIB);
            void *small = take(pool, streams[k], 3000);
            cuda(cudaMemsetAsync(large, 1, 3 * MIB, streams[k]));
            cuda(cudaMemsetAsync(small, 1, 3000, streams[k]));
            crmm_deallocate(pool, streams[k], large, 3 * MIB, 256);
            crmm_deallocate(pool, streams[k], small, 3000, 256);
        }
        crmm_resource_release(&pool);
        expect_equal(info_of(all.upstreams[i]).held, 0);
        for (size_t k = 0; k < 8; k++) {
            cuda(cudaStreamDestroy(streams[k]));
        }
    }
    end(&all);
}

/* User report 27: a pool begins with nothing, and grows by little. */
Test(pool_programs, a_new_pool_holds_nothing)
{
    fixture all = begin();

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .tight = 0);
        expect_equal(info_of(pool).held, 0);
        void *ptr = take(pool, all.a, 1);
        cr_assert(info_of(pool).held <= 4 * MIB);
        crmm_deallocate(pool, all.a, ptr, 1, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* User report 28: blocks of streams that are gone serve the default stream. */
Test(pool_programs, memory_of_streams_that_are_gone_serves_others)
{
    fixture all = begin();

    for (size_t i = 0; i < UPSTREAMS; i++) {
        crmm_resource *pool = make_pool(all.upstreams[i], .maximum_pool_size = 100 * MIB);
        for (int k = 0; k < 100; k++) {
            cudaStream_t stream = make_stream();
            void *ptr = take(pool, stream, 10000);
            cuda(cudaMemsetAsync(ptr, 1, 10000, stream));
            crmm_deallocate(pool, stream, ptr, 10000, 256);
            cuda(cudaStreamDestroy(stream));
        }
        void *sync = NULL;
        expect_success(crmm_allocate_sync(pool, 10000, 256, &sync));
        crmm_deallocate_sync(pool, sync, 10000, 256);
        void *whole = take(pool, NULL, 100 * MIB);
        crmm_deallocate(pool, NULL, whole, 100 * MIB, 256);
        crmm_resource_release(&pool);
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
    end(&all);
}

/* A stream that gives back little, and seldom, among the many calls of another one: the other need
 * not grow for want of it. */
Test(pool_programs, what_a_seldom_used_stream_gave_back_serves_a_busy_one)
{
    enum { STEPS = 16, CALLS = 40, SELDOM = 4, ALL = 10 };
    const size_t bytes = 32 * MIB;
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = ALL * bytes);
    void *ptrs[ALL];

    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < SELDOM; i++) {
            ptrs[i] = take(pool, all.b, bytes);
        }
        use(pool, all.a, bytes, CALLS);
        for (size_t i = 0; i < SELDOM; i++) {
            crmm_deallocate(pool, all.b, ptrs[i], bytes, 256);
        }
    }
    for (size_t i = 0; i < ALL; i++) {
        ptrs[i] = take(pool, all.a, bytes);
    }
    expect_equal(info_of(pool).held, ALL * bytes);
    for (size_t i = 0; i < ALL; i++) {
        crmm_deallocate(pool, all.a, ptrs[i], bytes, 256);
    }
    crmm_resource_release(&pool);
    end(&all);
}

/* A large block lies as low as the free memory around the place that fits it best, whosever that
 * is: so large ones leave no gaps between what one stream and what nobody has. */
Test(pool_programs, a_large_block_is_placed_where_its_free_neighbours_begin)
{
    enum { CALLS = 20 }; /* after as many it is known what another stream has completed */
    const size_t bytes = 16 * MIB;
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 8 * bytes);
    void *low = take(pool, all.c, 2 * bytes);
    void *high = take(pool, all.a, bytes);
    void *last = take(pool, all.a, bytes);

    crmm_deallocate(pool, all.c, low, 2 * bytes, 256);
    drain(&all);
    use(pool, all.b, 4 * bytes, CALLS);
    crmm_deallocate(pool, all.a, high, bytes, 256);
    void *again = take(pool, all.a, bytes);
    cr_assert(again == low, "%p instead of %p", again, low);
    crmm_deallocate(pool, all.a, again, bytes, 256);
    crmm_deallocate(pool, all.a, last, bytes, 256);
    crmm_resource_release(&pool);
    end(&all);
}

/* One's own memory is not nearer than what nobody has: a small hole is filled before a large block
 * is split that is wanted again. */
Test(pool_programs, a_hole_that_fits_is_filled_before_a_larger_block_is_split)
{
    const size_t large = 256 * MIB;
    const size_t small = 16 * MIB;
    enum { CALLS = 20 }; /* after as many it is known what another stream has completed */
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = large + 5 * small);
    void *own = take(pool, all.a, large);
    void *between = take(pool, all.b, small);
    void *hole = take(pool, all.b, small);
    void *rest = take(pool, all.b, small);

    crmm_deallocate(pool, all.b, hole, small, 256);
    drain(&all);
    use(pool, all.c, 2 * small, CALLS);
    crmm_deallocate(pool, all.a, own, large, 256);
    void *filled = take(pool, all.a, small);
    void *whole = take(pool, all.a, large);
    cr_assert(filled == hole && whole == own, "%p and %p", filled, whole);
    crmm_deallocate(pool, all.a, filled, small, 256);
    crmm_deallocate(pool, all.a, whole, large, 256);
    crmm_deallocate(pool, all.b, between, small, 256);
    crmm_deallocate(pool, all.b, rest, small, 256);
    crmm_resource_release(&pool);
    end(&all);
}

/* An aligned block among gaps that are large enough and begin at the wrong place. */
Test(pool_programs, an_aligned_block_is_found_among_many_gaps_that_do_not_fit)
{
    enum { BLOCKS = 12000 };
    const size_t held = 64 * MIB;
    fixture all = begin();
    crmm_resource *pool =
        make_pool(all.upstreams[1], .initial_pool_size = held, .maximum_pool_size = held,
                  .tight = 1, .stream_cache_size = CRMM_STREAM_CACHE_NONE);
    void *ptrs[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        ptrs[i] = take(pool, all.a, 256);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if ((uintptr_t)ptrs[i] % 512 != 0) {
            crmm_deallocate(pool, all.a, ptrs[i], 256, 256);
        }
    }
    crmm_pool_statistics before = statistics_of(pool);
    void *aligned = NULL;
    expect_equal(crmm_allocate(pool, all.a, 256, 4096, &aligned), CRMM_SUCCESS);
    expect_equal((uintptr_t)aligned % 4096, 0);
    expect_equal(statistics_of(pool).moves, before.moves);
    expect_equal(statistics_of(pool).synchronizes, before.synchronizes);
    crmm_deallocate(pool, all.a, aligned, 256, 4096);
    for (size_t i = 0; i < BLOCKS; i++) {
        if ((uintptr_t)ptrs[i] % 512 == 0) {
            crmm_deallocate(pool, all.a, ptrs[i], 256, 256);
        }
    }
    crmm_resource_release(&pool);
    end(&all);
}

/* The only free block that suffices is found among thousands that nearly do: nothing is waited for
 * and no memory is taken. */
Test(pool_programs, the_only_block_that_fits_is_found_among_many_that_nearly_do)
{
    enum { GAPS = 5000 };
    /* Of one size class of the heap; such as caches never keep, and such as only a tight pool does
     * not. */
    static const size_t gaps[] = {4992 * 256, 992 * 256};
    static const size_t fits[] = {5000 * 256, 1000 * 256};
    static void *ptrs[2 * GAPS];
    fixture all = begin();

    for (size_t tight = 0; tight < 2; tight++) {
        const size_t gap = gaps[tight];
        const size_t fit = fits[tight];
        crmm_resource *pool = make_pool(all.upstreams[1], .tight = tight, .heap_count = 1,
                                        .stream_cache_size = CRMM_STREAM_CACHE_NONE);
        void *other = take(pool, all.b, 256);
        void *only = take(pool, all.a, fit);
        for (size_t i = 0; i < 2 * GAPS; i++) {
            ptrs[i] = take(pool, all.a, i % 2 == 0 ? 256 : gap);
        }
        void *rest = NULL;
        size_t held = info_of(pool).held;
        size_t left = held - info_of(pool).live;
        if (left > 0) {
            rest = take(pool, all.a, left);
        }
        crmm_deallocate(pool, all.a, only, fit, 256);
        for (size_t i = 1; i < 2 * GAPS; i += 2) {
            crmm_deallocate(pool, all.a, ptrs[i], gap, 256);
        }
        crmm_pool_statistics before = statistics_of(pool);
        held = info_of(pool).held;
        void *found = take(pool, all.a, fit);
        expect_equal(info_of(pool).held, held);
        expect_equal(statistics_of(pool).synchronizes, before.synchronizes);
        expect_equal(statistics_of(pool).moves, before.moves);
        crmm_deallocate(pool, all.a, found, fit, 256);
        for (size_t i = 0; i < 2 * GAPS; i += 2) {
            crmm_deallocate(pool, all.a, ptrs[i], 256, 256);
        }
        if (rest != NULL) {
            crmm_deallocate(pool, all.a, rest, left, 256);
        }
        crmm_deallocate(pool, all.b, other, 256, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Blocks at hand stay within the option, however many sizes there are, and are used all the same.
 */
Test(pool_programs, what_is_at_hand_never_exceeds_the_option)
{
    static const size_t options[] = {1, 300, 64 << 10, 256 << 10, 2 << 20};
    enum { BLOCKS = 200, STREAMS = 2 };
    uint64_t random = 7;
    fixture all = begin();
    void *ptrs[BLOCKS];
    size_t sizes[BLOCKS];

    for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
        crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 256 * MIB,
                                        .stream_cache_size = options[k]);
        size_t most = 0;
        for (size_t i = 0; i < BLOCKS; i++) {
            sizes[i] = (size_t)256 << random_below(&random, 13);
            sizes[i] -= random_below(&random, sizes[i] / 2);
            ptrs[i] = take(pool, i % STREAMS == 0 ? all.a : all.b, sizes[i]);
        }
        for (int round = 0; round < 20 * BLOCKS; round++) {
            size_t i = random_below(&random, BLOCKS);
            cudaStream_t stream = i % STREAMS == 0 ? all.a : all.b;
            crmm_deallocate(pool, stream, ptrs[i], sizes[i], 256);
            size_t at_hand = statistics_of(pool).at_hand;
            most = at_hand > most ? at_hand : most;
            ptrs[i] = take(pool, stream, sizes[i]);
        }
        cr_assert(most <= STREAMS * options[k] && (most > 0 || options[k] < 512), "%zu of %zu",
                  most, options[k]);
        for (size_t i = 0; i < BLOCKS; i++) {
            crmm_deallocate(pool, i % STREAMS == 0 ? all.a : all.b, ptrs[i], sizes[i], 256);
        }
        cr_assert(statistics_of(pool).at_hand <= STREAMS * options[k]);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* Small blocks lie together, whatever a cache may keep: another stream finds what is left. */
Test(pool_programs, small_blocks_do_not_scatter_where_little_may_be_at_hand)
{
    static const size_t options[] = {0, 1, 64 << 10, 1 << 20};
    enum { BLOCKS = 20000 };
    static void *ptrs[BLOCKS];
    fixture all = begin();

    for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
        crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 256 * MIB,
                                        .stream_cache_size = options[k]);
        void *other = take(pool, all.b, 256);
        use(pool, all.a, 256, 1);
        for (size_t i = 0; i < BLOCKS; i++) {
            ptrs[i] = take(pool, all.a, 256);
        }
        cr_assert(info_of(pool).pending <= 32 * MIB, "%zu", info_of(pool).pending);
        void *large = take(pool, all.b, 128 * MIB);
        expect_equal(info_of(pool).held, 256 * MIB);
        crmm_deallocate(pool, all.b, large, 128 * MIB, 256);
        for (size_t i = 0; i < BLOCKS; i++) {
            crmm_deallocate(pool, all.a, ptrs[i], 256, 256);
        }
        crmm_deallocate(pool, all.b, other, 256, 256);
        crmm_resource_release(&pool);
    }
    end(&all);
}
