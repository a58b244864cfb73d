/* SPDX-License-Identifier: Apache-2.0 */

/* The large blocks that a stream gave back last, and had not had for long. */

#include <crmm/device/pool_memory_resource.h>

#include <semaphore.h>

#include <crmm/device/cuda_memory_resource.h>

#include "../../device/src/pool/cache.h"
#include "../../device/src/pool/check.h"
#include "misuse_recorder.h"
#include "pool_support.h"

/* A stream and pools for it over memory that comes in chunks, and in pages. */
typedef struct fixture {
    crmm_resource *upstreams[2];
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
    cuda(cudaStreamDestroy(all->stream));
    crmm_resource_release(&all->upstreams[1]);
    expect_equal(misuse_recorded()->count, 0);
}

static void hand_back(crmm_resource *pool, cudaStream_t stream, void *ptr, size_t bytes)
{
    crmm_deallocate(pool, stream, ptr, bytes, 256);
}

/* Use a stream until the pool takes it to live long, if it ever does. */
static void get_old(crmm_resource *pool, cudaStream_t stream, size_t bytes)
{
    for (int i = 0; i < 250; i++) {
        hand_back(pool, stream, take(pool, stream, bytes), bytes);
    }
}

/* A pool that has so many bytes and gets no more, and whose stream is old. */
static crmm_resource *make_old(crmm_resource *upstream, cudaStream_t stream, size_t bytes)
{
    crmm_resource *pool =
        make_pool(upstream, .initial_pool_size = bytes, .maximum_pool_size = bytes);

    get_old(pool, stream, 4 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 4 * MIB);
    return pool;
}

Test(pool_park, a_block_of_the_same_size_is_the_one_that_was_given_back)
{
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_old(all.upstreams[k], all.stream, 64 * MIB);
        void *before = take(pool, all.stream, 26 * MIB);
        void *ptr = take(pool, all.stream, 24 * MIB);
        hand_back(pool, all.stream, before, 26 * MIB); /* which would suffice */
        for (int i = 0; i < 3; i++) {
            hand_back(pool, all.stream, ptr, 24 * MIB);
            expect_equal(crmm_priv_pool_parked_bytes(pool), (i == 0 ? 50 : 24) * MIB);
            expect_equal(info_of(pool).live, 0);
            expect_sound_books(pool);
            cr_assert(take(pool, all.stream, 24 * MIB) == ptr);
            expect_equal(crmm_priv_pool_parked_bytes(pool), i == 0 ? 26 * MIB : 0);
            expect_equal(info_of(pool).live, 24 * MIB);
            expect_sound_books(pool);
            expect_success(crmm_pool_memory_resource_retire_stream(pool, all.stream));
            expect_equal(crmm_priv_pool_parked_bytes(pool), 0); /* a fence */
        }
        hand_back(pool, all.stream, ptr, 24 * MIB);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* In either order they have the places again that they had. */
Test(pool_park, two_blocks_that_come_and_go_together_are_parked)
{
    static const size_t sizes[] = {8 * MIB, 12 * MIB};
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_old(all.upstreams[k], all.stream, 64 * MIB);
        void *blocks[] = {take(pool, all.stream, sizes[0]), take(pool, all.stream, sizes[1])};
        for (size_t i = 0; i < 6; i++) {
            hand_back(pool, all.stream, blocks[i / 2 % 2], sizes[i / 2 % 2]);
            hand_back(pool, all.stream, blocks[1 - i / 2 % 2], sizes[1 - i / 2 % 2]);
            expect_equal(crmm_priv_pool_parked_bytes(pool), 20 * MIB);
            expect_equal(info_of(pool).live, 0);
            expect_sound_books(pool);
            cr_assert(take(pool, all.stream, sizes[i % 2]) == blocks[i % 2]);
            expect_equal(crmm_priv_pool_parked_bytes(pool), sizes[1 - i % 2]);
            cr_assert(take(pool, all.stream, sizes[1 - i % 2]) == blocks[1 - i % 2]);
            expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
            expect_sound_books(pool);
        }
        hand_back(pool, all.stream, blocks[0], sizes[0]);
        hand_back(pool, all.stream, blocks[1], sizes[1]);
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* All that is free is one piece when a place is chosen. */
Test(pool_park, a_request_of_another_size_finds_nothing_parked)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);

    void *first = take(pool, all.stream, 24 * MIB);
    void *second = take(pool, all.stream, 12 * MIB);
    hand_back(pool, all.stream, first, 24 * MIB);
    hand_back(pool, all.stream, second, 12 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 36 * MIB);
    void *more = take(pool, all.stream, 2 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
    expect_equal(info_of(pool).largest_free, 62 * MIB);
    hand_back(pool, all.stream, more, 2 * MIB);
    crmm_resource_release(&pool);
    end(&all);
}

/* What takes the place of such a block may live long itself, and then stands in the way of larger
 * ones. */
Test(pool_park, a_block_that_lived_long_is_not_parked)
{
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_old(all.upstreams[k], all.stream, 64 * MIB);
        for (size_t others = 0; others < 4; others++) {
            void *ptr = take(pool, all.stream, 24 * MIB);
            for (size_t i = 0; i < others; i++) {
                hand_back(pool, all.stream, take(pool, all.stream, 3 * MIB), 3 * MIB);
            }
            hand_back(pool, all.stream, take(pool, all.stream, 64 * KIB), 64 * KIB);
            size_t beside = others == 0 ? 0 : 3 * MIB;
            expect_equal(crmm_priv_pool_parked_bytes(pool), beside);
            hand_back(pool, all.stream, ptr, 24 * MIB);
            expect_equal(crmm_priv_pool_parked_bytes(pool), beside + (others < 2 ? 24 * MIB : 0));
            expect_sound_books(pool);
        }
        crmm_resource_release(&pool);
    }
    end(&all);
}

/* For small blocks as well as for large ones. */
Test(pool_park, it_is_used_for_anything_before_the_pool_grows)
{
    static const size_t sizes[] = {256, 64 * KIB, 2 * MIB, 63 * MIB, 64 * MIB};
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            crmm_resource *pool = make_pool(all.upstreams[k], .initial_pool_size = 64 * MIB);
            get_old(pool, all.stream, 64 * MIB);
            expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
            const crmm_pool_statistics before = statistics_of(pool);
            void *ptr = take(pool, all.stream, sizes[i]);
            expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
            /* Nor is anybody else's memory looked for. */
            expect_equal(statistics_of(pool).queries, before.queries);
            expect_equal(statistics_of(pool).records, before.records);
            expect_equal(statistics_of(pool).growths, 1);
            expect_sound_books(pool);
            hand_back(pool, all.stream, ptr, sizes[i]);
            crmm_resource_release(&pool);
        }
    }
    end(&all);
}

Test(pool_park, a_block_that_is_parked_is_not_given_back_again)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);

    void *ptr = take(pool, all.stream, 24 * MIB);
    expect_misuse(hand_back(pool, all.stream, ptr, 24 * MIB + 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "25165824");
    expect_misuse(hand_back(pool, all.stream, (char *)ptr + 256, 24 * MIB),
                  CRMM_MISUSE_FOREIGN_POINTER, "");
    expect_equal(info_of(pool).live, 24 * MIB);
    hand_back(pool, all.stream, ptr, 24 * MIB);
    expect_misuse(hand_back(pool, all.stream, ptr, 24 * MIB), CRMM_MISUSE_DOUBLE_FREE, "");
    expect_equal(crmm_priv_pool_parked_bytes(pool), 24 * MIB);
    expect_equal(info_of(pool).live, 0);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    misuse_recorder_start();
    end(&all);
}

typedef struct found {
    const void *ptr;
    size_t live;
    crmm_pool_block block;
} found;

static void find(const crmm_pool_block *block, void *user_data)
{
    found *in = user_data;

    in->live += block->is_live != 0;
    if (block->ptr == in->ptr) {
        in->block = *block;
    }
}

static void add_at_hand(const crmm_pool_stream *stream, void *user_data)
{
    *(size_t *)user_data += (size_t)stream->at_hand;
}

Test(pool_park, it_is_free_memory_of_its_stream)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);
    void *base = NULL;
    size_t bytes = 0;
    size_t at_hand = 0;
    unsigned long long id = 0;

    void *ptr = take(pool, all.stream, 34 * MIB);
    hand_back(pool, all.stream, ptr, 34 * MIB);
    const crmm_memory_info info = info_of(pool);
    expect_equal(info.live, 0);
    expect_equal(info.allocations, 0);
    expect_equal(info.cached, 64 * MIB);
    expect_equal(info.largest_free, 34 * MIB);
    found in = {.ptr = ptr};
    expect_success(crmm_pool_memory_resource_snapshot(pool, find, &in));
    expect_equal(in.live, 0);
    expect_equal(in.block.bytes, 34 * MIB);
    expect_equal(in.block.is_pending, 1);
    cuda(cudaStreamGetId(all.stream, &id));
    expect_equal(in.block.stream_id, id);
    expect_success(crmm_pool_memory_resource_streams(pool, add_at_hand, &at_hand));
    expect_equal(at_hand, 34 * MIB);
    expect_equal(statistics_of(pool).at_hand, 34 * MIB);
    expect_status(crmm_pool_memory_resource_chunk(pool, ptr, &base, &bytes),
                  CRMM_ERROR_INVALID_ARGUMENT);
    crmm_resource_release(&pool);
    end(&all);
}

/* What is done beside it makes fences as if it had gone to its heap, where it is then. */
Test(pool_park, another_stream_has_it_without_growth_when_its_own_is_gone)
{
    fixture all = begin();

    for (size_t k = 0; k < 4; k++) {
        crmm_resource *pool = make_pool(all.upstreams[k % 2], .initial_pool_size = 320 * MIB,
                                        .maximum_pool_size = k < 2 ? 0 : 400 * MIB);
        cudaStream_t gone = make_stream();
        cudaStream_t other = make_stream();
        get_old(pool, gone, 256 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 256 * MIB);
        for (int i = 0; i < 64; i++) {
            hand_back(pool, gone, take(pool, gone, 16 * KIB), 16 * KIB);
        }
        expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
        cuda(cudaStreamSynchronize(gone));
        cuda(cudaStreamDestroy(gone));
        void *ptr = take(pool, other, 256 * MIB);
        expect_equal(info_of(pool).held, 320 * MIB);
        expect_equal(statistics_of(pool).synchronizes, 0);
        hand_back(pool, other, ptr, 256 * MIB);
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(other));
    }
    end(&all);
}

/* And if it gives back nothing but large blocks, of which each makes way for the next. */
Test(pool_park, a_stream_of_large_blocks_alone_is_fenced)
{
    enum { BLOCKS = 200 };
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(all.upstreams[k], .initial_pool_size = (size_t)1 << 30);
        cudaStream_t gone = make_stream();
        cudaStream_t other = make_stream();
        void *freed[BLOCKS];
        void *between[BLOCKS];
        get_old(pool, gone, 4 * MIB);
        for (size_t i = 0; i < BLOCKS; i++) {
            freed[i] = take(pool, gone, 3 * MIB);
            between[i] = take(pool, gone, 2 * MIB);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            hand_back(pool, gone, freed[i], 3 * MIB);
        }
        cuda(cudaStreamSynchronize(gone));
        cuda(cudaStreamDestroy(gone));
        for (size_t i = 0; i < BLOCKS - 20; i++) { /* the last ones may lack a fence */
            freed[i] = take(pool, other, 3 * MIB);
        }
        expect_equal(info_of(pool).held, (size_t)1 << 30);
        for (size_t i = 0; i < BLOCKS; i++) {
            hand_back(pool, other, between[i], 2 * MIB);
        }
        for (size_t i = 0; i < BLOCKS - 20; i++) {
            hand_back(pool, other, freed[i], 3 * MIB);
        }
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(other));
    }
    end(&all);
}

/* What shelves have since the last fence stays so while a large block comes and goes. */
Test(pool_park, a_block_that_is_taken_again_hides_no_other)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);
    const crmm_priv_pool_cache *cache = ((const crmm_priv_pool *)pool)->caches;

    void *small = take(pool, all.stream, 256);
    void *large = take(pool, all.stream, 24 * MIB);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, all.stream)); /* fenced */
    hand_back(pool, all.stream, small, 256);
    hand_back(pool, all.stream, large, 24 * MIB);
    large = take(pool, all.stream, 24 * MIB);
    expect_equal(crmm_priv_pool_cache_epoch(cache), crmm_priv_pool_stream_epoch(cache->stream));
    hand_back(pool, all.stream, large, 24 * MIB);
    crmm_resource_release(&pool);
    end(&all);
}

/* A block that makes way counts as given back, once. */
Test(pool_park, blocks_of_changing_sizes_are_fenced)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);
    uint64_t before = statistics_of(pool).records;

    for (size_t i = 0; i < 256; i++) {
        hand_back(pool, all.stream, take(pool, all.stream, (24 + i % 2) * MIB), (24 + i % 2) * MIB);
        hand_back(pool, all.stream, take(pool, all.stream, 256), 256);
    }
    cr_assert(statistics_of(pool).records >= before + 256 / 32, "%llu records",
              (unsigned long long)(statistics_of(pool).records - before));
    /* Nobody can want what is taken again. */
    get_old(pool, all.stream, 24 * MIB);
    before = statistics_of(pool).records;
    for (int i = 0; i < 256; i++) {
        void *ptr = take(pool, all.stream, 24 * MIB);
        hand_back(pool, all.stream, take(pool, all.stream, 256), 256);
        hand_back(pool, all.stream, ptr, 24 * MIB);
    }
    cr_assert(statistics_of(pool).records <= before + 1, "%llu records",
              (unsigned long long)(statistics_of(pool).records - before));
    crmm_resource_release(&pool);
    end(&all);
}

/* What its stream still does with it comes first. */
Test(pool_park, another_stream_has_it_when_its_work_is_complete, .timeout = 20)
{
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_old(all.upstreams[k], all.stream, 64 * MIB);
        cudaStream_t other = make_stream();
        gate closed;
        void *ptr = take(pool, all.stream, 64 * MIB);
        gate_close(&closed, all.stream);
        hand_back(pool, all.stream, ptr, 64 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
        pthread_t opens = gate_open_later(&closed);
        void *all_of_it = take(pool, other, 64 * MIB);
        cr_assert(gate_is_open(&closed));
        cr_assert(pthread_join(opens, NULL) == 0);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
        hand_back(pool, other, all_of_it, 64 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 0); /* a new stream */
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(other));
    }
    end(&all);
}

/* And the next one is parked again. */
Test(pool_park, a_trim_gives_it_back)
{
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(all.upstreams[k], .tight = 0);
        size_t released = 0;
        get_old(pool, all.stream, 64 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
        expect_success(crmm_resource_trim(pool, 0, &released));
        expect_equal(released, 64 * MIB);
        expect_equal(crmm_pool_memory_resource_pool_size(pool), 0);
        get_old(pool, all.stream, 64 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
        crmm_resource_release(&pool);
    }
    end(&all);
}

static void *use_and_end(void *user_data)
{
    crmm_resource *pool = user_data;

    hand_back(pool, NULL, take(pool, NULL, 64 * MIB), 64 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
    return NULL;
}

/* The legacy stream is old from the beginning. */
Test(pool_park, a_thread_leaves_nothing_parked)
{
    fixture all = begin();
    crmm_resource *pool =
        make_pool(all.upstreams[1], .initial_pool_size = 64 * MIB, .maximum_pool_size = 64 * MIB);
    pthread_t thread;

    cr_assert(pthread_create(&thread, NULL, use_and_end, pool) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
    hand_back(pool, NULL, take(pool, NULL, 64 * MIB), 64 * MIB);
    expect_equal(statistics_of(pool).synchronizes, 0);
    crmm_resource_release(&pool);
    end(&all);
}

typedef struct helper {
    crmm_resource *pool;
    cudaStream_t stream;
    void *ptr;
    sem_t has_come, may_go;
} helper;

static void *take_all(void *user_data)
{
    helper *self = user_data;

    self->ptr = take(self->pool, self->stream, 64 * MIB);
    return NULL;
}

/* Of the same stream, so nothing has to be waited for. */
Test(pool_park, another_thread_has_it)
{
    fixture all = begin();

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_old(all.upstreams[k], all.stream, 64 * MIB);
        helper other = {.pool = pool, .stream = all.stream};
        pthread_t thread;

        hand_back(pool, all.stream, take(pool, all.stream, 64 * MIB), 64 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 64 * MIB);
        cr_assert(pthread_create(&thread, NULL, take_all, &other) == 0);
        cr_assert(pthread_join(thread, NULL) == 0);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
        expect_equal(statistics_of(pool).synchronizes, 0);
        expect_sound_books(pool);
        hand_back(pool, all.stream, other.ptr, 64 * MIB);
        crmm_resource_release(&pool);
    }
    end(&all);
}

static void *use_beside(void *user_data)
{
    helper *self = user_data;

    get_old(self->pool, self->stream, 4 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(self->pool), 0);
    return NULL;
}

/* One would have to be stopped for the other one to have what it has parked. */
Test(pool_park, two_threads_of_one_stream_park_nothing)
{
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 64 * MIB);
    helper other = {.pool = pool, .stream = all.stream};
    pthread_t thread;

    hand_back(pool, all.stream, take(pool, all.stream, 4 * MIB), 4 * MIB);
    cr_assert(pthread_create(&thread, NULL, use_beside, &other) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    crmm_resource_release(&pool);
    end(&all);
}

/* Each has its own. */
Test(pool_park, several_streams_of_one_thread_park_blocks)
{
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 128 * MIB);
    cudaStream_t other = make_stream();

    get_old(pool, all.stream, 4 * MIB);
    get_old(pool, other, 8 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 12 * MIB);
    void *mine = take(pool, all.stream, 8 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 8 * MIB);
    void *theirs = take(pool, other, 8 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
    cr_assert(mine != theirs);
    expect_sound_books(pool);
    hand_back(pool, all.stream, mine, 8 * MIB);
    hand_back(pool, other, theirs, 8 * MIB);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(other));
    end(&all);
}

/* What they have again and again is nobody else's to want: no fence is needed for it. */
Test(pool_park, streams_that_have_the_same_blocks_again_need_no_fences)
{
    enum { STREAMS = 4, ROUNDS = 200 };
    fixture all = begin();
    crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 128 * MIB);
    cudaStream_t streams[STREAMS];

    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = make_stream();
        get_old(pool, streams[i], (4 + i) * MIB);
    }
    expect_equal(crmm_priv_pool_parked_bytes(pool), (4 + 5 + 6 + 7) * MIB);
    uint64_t before = 0;
    for (size_t i = 0; i < STREAMS * ROUNDS; i++) {
        size_t bytes = (4 + i % STREAMS) * MIB;
        if (i == STREAMS * ROUNDS / 2) { /* those for what came before are recorded */
            before = statistics_of(pool).records;
        }
        hand_back(pool, streams[i % STREAMS], take(pool, streams[i % STREAMS], bytes), bytes);
    }
    expect_equal(statistics_of(pool).records, before);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    for (size_t i = 0; i < STREAMS; i++) {
        cuda(cudaStreamDestroy(streams[i]));
    }
    end(&all);
}

static void use_busily(crmm_resource *pool, cudaStream_t stream)
{
    enum { BLOCKS = 8 };
    void *some[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        some[i] = take(pool, stream, (4 + i) * MIB);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        hand_back(pool, stream, some[i], (4 + i) * MIB);
    }
}

/* A stream that gives back one for several of another's, or for very many of others' that want
 * fences too: each has a fence, and none is parked that these would miss. */
Test(pool_park, a_stream_that_gives_back_few_leaves_none_parked)
{
    enum { MOST_BUSY = 4, ROUNDS = 10, EACH = 9 };
    fixture all = begin();

    for (size_t busy = 1; busy <= MOST_BUSY; busy += MOST_BUSY - 1) {
        crmm_resource *pool = make_pool(all.upstreams[1], .initial_pool_size = 256 * MIB);
        cudaStream_t seldom = make_stream();
        cudaStream_t others[MOST_BUSY];
        get_old(pool, seldom, 64 * MIB);
        for (size_t i = 0; i < busy; i++) {
            others[i] = make_stream();
            get_old(pool, others[i], 4 * MIB);
        }
        for (size_t round = 0; round < ROUNDS; round++) {
            for (size_t i = 0; i < (busy == 1 ? 1 : EACH * busy); i++) {
                use_busily(pool, others[i % busy]);
            }
            hand_back(pool, seldom, take(pool, seldom, 64 * MIB), 64 * MIB);
            size_t parked = crmm_priv_pool_parked_bytes(pool);
            cr_assert(parked < 64 * MIB, "%zu busy streams, round %zu: %zu bytes are parked", busy,
                      round, parked);
        }
        expect_sound_books(pool);
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(seldom));
        for (size_t i = 0; i < busy; i++) {
            cuda(cudaStreamDestroy(others[i]));
        }
    }
    end(&all);
}

static void *use_and_stay(void *user_data)
{
    helper *self = user_data;

    hand_back(self->pool, self->stream, take(self->pool, self->stream, 64 * KIB), 64 * KIB);
    cr_assert(sem_post(&self->has_come) == 0);
    cr_assert(sem_wait(&self->may_go) == 0);
    return NULL;
}

/* Nothing is left behind where nobody looks for it. */
Test(pool_park, what_is_parked_goes_when_a_second_thread_has_come)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);
    helper other = {.pool = pool, .stream = all.stream};
    pthread_t thread;

    cr_assert(sem_init(&other.has_come, 0, 0) == 0 && sem_init(&other.may_go, 0, 0) == 0);
    void *block = take(pool, all.stream, 3 * MIB);
    hand_back(pool, all.stream, take(pool, all.stream, 4 * MIB), 4 * MIB);
    cr_assert(pthread_create(&thread, NULL, use_and_stay, &other) == 0);
    cr_assert(sem_wait(&other.has_come) == 0);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 4 * MIB);
    hand_back(pool, all.stream, block, 3 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
    cr_assert(sem_post(&other.may_go) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    /* And it is one alone again. */
    hand_back(pool, all.stream, take(pool, all.stream, 4 * MIB), 4 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 4 * MIB);
    expect_sound_books(pool);
    cr_assert(sem_destroy(&other.has_come) == 0 && sem_destroy(&other.may_go) == 0);
    crmm_resource_release(&pool);
    end(&all);
}

Test(pool_park, an_alignment_of_its_own_is_kept)
{
    fixture all = begin();
    crmm_resource *pool = make_old(all.upstreams[1], all.stream, 64 * MIB);

    void *small = take(pool, all.stream, 256);
    void *ptr = take(pool, all.stream, 5 * MIB);
    hand_back(pool, all.stream, ptr, 5 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 5 * MIB);
    void *aligned = NULL;
    expect_success(crmm_allocate(pool, all.stream, 4 * KIB, 4 * KIB, &aligned));
    crmm_deallocate(pool, all.stream, aligned, 4 * KIB, 4 * KIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 5 * MIB); /* a small one is not in its way */
    expect_success(crmm_allocate(pool, all.stream, 5 * MIB, 4 * MIB, &ptr));
    expect_equal((uintptr_t)ptr % (4 * MIB), 0);
    crmm_deallocate(pool, all.stream, ptr, 5 * MIB, 4 * MIB);
    hand_back(pool, all.stream, small, 256);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    end(&all);
}

/* Where it would be in the way, or nobody may ever take it. */
Test(pool_park, nothing_is_parked_where_memory_is_to_be_at_its_place)
{
    const crmm_pool_memory_resource_options *options[] = {
        CRMM_OPTIONS(crmm_pool_memory_resource, .tight = 1),
        CRMM_OPTIONS(crmm_pool_memory_resource, .release_threshold = (size_t)1 << 30),
        CRMM_OPTIONS(crmm_pool_memory_resource, .stream_cache_size = 128 * MIB),
        CRMM_OPTIONS(crmm_pool_memory_resource, .stream_cache_size = CRMM_STREAM_CACHE_NONE),
    };
    fixture all = begin();

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        crmm_resource *pool = pool_made(all.upstreams[1], options[i]);
        get_old(pool, all.stream, 4 * MIB);
        expect_equal(crmm_priv_pool_parked_bytes(pool), 0);
        crmm_resource_release(&pool);
    }
    crmm_resource *pool = make_pool(all.upstreams[1], .tight = 0);
    hand_back(pool, all.stream, take(pool, all.stream, 4 * MIB), 4 * MIB);
    expect_equal(crmm_priv_pool_parked_bytes(pool), 0); /* a new stream */
    crmm_resource_release(&pool);
    end(&all);
}
