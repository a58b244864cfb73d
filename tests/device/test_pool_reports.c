/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool tells, and that telling it changes nothing. */
#include <crmm/device/pool_memory_resource.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crmm/core/log.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/interfaces/resource.h>

#include "../../device/src/pool/pool.h"
#include "pool_support.h"
#include "random_numbers.h"
#include "recording_resource.h"

/* ---- user report 66: adding a message to a failure changed when a pool grows ---- */

enum { OPERATIONS = 1500, MOST_BLOCKS = 40, MOST_EVENTS = 20000 };

typedef struct trace {
    size_t count;
    struct {
        size_t bytes; /* of a chunk that came or went, or of a request */
        int what;     /* 0 and 1: it went or came; else the request's status */
    } events[MOST_EVENTS];
} trace;

static void add_event(trace *all, size_t bytes, int what)
{
    cr_assert(all->count < MOST_EVENTS);
    all->events[all->count].bytes = bytes;
    all->events[all->count++].what = what;
}

static void note_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    (void)base;
    add_event(user_data, bytes, added);
}

static void ignore_block(const crmm_pool_block *block, void *user_data)
{
    (void)user_data;
    cr_assert(block->bytes > 0);
}

static void ignore_message(crmm_log_level level, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    cr_assert(message != NULL);
}

/* All that a pool can be asked. */
static void ask_everything(const crmm_resource *pool)
{
    char text[300];

    (void)info_of(pool);
    (void)statistics_of(pool);
    (void)crmm_resource_describe(pool, text, sizeof(text));
    expect_success(crmm_pool_memory_resource_snapshot(pool, ignore_block, NULL));
    cr_assert(crmm_last_error()->message[0] != '\0' || crmm_last_error()->status == CRMM_SUCCESS);
}

/* The same program, and what came of it; nothing is pending between two calls, so that it does not
 * depend on the device either. */
static void run(crmm_resource *pool, bool is_asked, trace *all)
{
    struct {
        void *ptr;
        size_t bytes;
        cudaStream_t stream;
    } blocks[MOST_BLOCKS];
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    size_t count = 0;
    uint64_t seed = 5;

    for (int i = 0; i < OPERATIONS; i++) {
        cudaStream_t stream = streams[random_below(&seed, 2)];
        if (count < MOST_BLOCKS && random_below(&seed, 5) < 3) {
            size_t bytes = 1 + random_below(&seed, (size_t)1 << (12 + random_below(&seed, 12)));
            void *ptr = NULL;
            crmm_status status = crmm_allocate(pool, stream, bytes, 256, &ptr);
            add_event(all, bytes, 100 + (int)status);
            if (status == CRMM_SUCCESS) {
                blocks[count].ptr = ptr;
                blocks[count].bytes = bytes;
                blocks[count++].stream = stream;
            }
        } else if (count > 0) {
            size_t at = random_below(&seed, count);
            crmm_deallocate(pool, blocks[at].stream, blocks[at].ptr, blocks[at].bytes, 256);
            blocks[at] = blocks[--count];
        }
        cuda(cudaDeviceSynchronize());
        if (is_asked) {
            ask_everything(pool);
        }
    }
    while (count > 0) {
        count--;
        crmm_deallocate(pool, blocks[count].stream, blocks[count].ptr, blocks[count].bytes, 256);
    }
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
}

static void trace_program(crmm_resource *upstream, size_t style, bool is_asked, trace *all)
{
    static const size_t maxima[] = {24 * MIB, 0, 40 * MIB};

    crmm_resource *pool =
        make_pool(upstream, .maximum_pool_size = maxima[style % 3], .tight = style / 3,
                  .handle_size = 2 * MIB, .on_chunk = note_chunk, .on_chunk_user_data = all);
    all->count = 0;
    run(pool, is_asked, all);
    const crmm_pool_statistics statistics = statistics_of(pool);
    add_event(all, statistics.growths, 2);
    add_event(all, statistics.moves, 3);
    add_event(all, statistics.releases, 4);
    add_event(all, statistics.records, 5);
    add_event(all, statistics.waits, 6);
    add_event(all, statistics.synchronizes, 7);
    crmm_resource_release(&pool);
}

Test(pool_reports, being_asked_changes_nothing_that_a_pool_does)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {vmm, crmm_cuda_memory_resource()};
    trace *silent = malloc(sizeof(*silent));
    trace *asked = malloc(sizeof(*asked));
    size_t failures = 0;

    cr_assert(silent != NULL && asked != NULL);
    for (size_t style = 0; style < 6; style++) {
        for (size_t i = 0; i < 2; i++) {
            trace_program(upstreams[i], style, false, silent);
            expect_success(crmm_log_set_callback(ignore_message, NULL));
            expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_TRACE));
            trace_program(upstreams[i], style, true, asked);
            crmm_log_set_stderr();
            expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_INFO));
            for (size_t k = 0; k < silent->count && k < asked->count; k++) {
                cr_assert(silent->events[k].what == asked->events[k].what &&
                              silent->events[k].bytes == asked->events[k].bytes,
                          "style %zu, upstream %zu: event %zu is %d of %zu bytes instead of %d of "
                          "%zu",
                          style, i, k, asked->events[k].what, asked->events[k].bytes,
                          silent->events[k].what, silent->events[k].bytes);
                failures += silent->events[k].what > 100;
            }
            expect_equal(asked->count, silent->count);
        }
    }
    cr_assert(failures > 0, "no request failed");
    free(silent);
    free(asked);
    crmm_resource_release(&vmm);
}

/* ---- user report 67: a hint recommended an option that was on ---- */

/* What a failure says: a bound where there is one, and no option's name at all. */
static void expect_no_advice(size_t maximum)
{
    static const char *const names[] = {"tight",       "release_threshold", "target",
                                        "handle_size", "validate",          "maximum",
                                        "cache",       "heap_count",        "initial"};
    char bound[64];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cr_assert(strstr(crmm_last_error()->message, names[i]) == NULL, "%s",
                  crmm_last_error()->message);
    }
    (void)snprintf(bound, sizeof(bound), "of at most %zu", maximum);
    cr_assert((strstr(crmm_last_error()->message, "of at most ") != NULL) == (maximum != 0), "%s",
              crmm_last_error()->message);
    if (maximum != 0) {
        expect_message(bound);
    }
}

Test(pool_reports, a_failure_recommends_no_option_that_is_on)
{
    const crmm_properties of_host = CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED;

    need_devices(1);
    for (unsigned options = 0; options < 16; options++) {
        recording_resource recording;
        void *ptr = NULL;
        size_t maximum = (options & 1) != 0 ? 8 * MIB : 0;

        recording_resource_init(&recording, of_host);
        recording_expect(true, NULL);
        crmm_resource *pool =
            make_pool(&recording.base, .maximum_pool_size = maximum, .tight = (options & 2) != 0,
                      .release_threshold = (options & 4) != 0 ? CRMM_RELEASE_ALL : 0,
                      .validate = (options & 8) != 0);
        void *rest = take(pool, NULL, 4 * MIB);
        recording.fail_per_thousand = maximum != 0 ? 0 : 1000;
        cr_assert(crmm_allocate(pool, NULL, 7 * MIB, 256, &ptr) != CRMM_SUCCESS);
        expect_no_advice(maximum);
        recording.fail_per_thousand = 0;
        crmm_deallocate(pool, NULL, rest, 4 * MIB, 256);
        crmm_resource_release(&pool);
        recording_resource_finish(&recording);
    }
}

/* What one could set is said where it is not set, and only there. */
Test(pool_reports, an_export_recommends_what_is_not_there)
{
    crmm_pool_export out = {.struct_size = sizeof(out)};
    crmm_resource *vmm = NULL;

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    void *ptr = take(pool, NULL, 1000);
    expect_failure(crmm_pool_memory_resource_export(pool, ptr, CRMM_EXPORT_FILE_DESCRIPTOR, &out),
                   CRMM_ERROR_UNSUPPORTED, "vmm_memory_resource with export_handle_type has");
    crmm_deallocate(pool, NULL, ptr, 1000, 256);
    crmm_resource_release(&pool);
    crmm_status status = crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1,
                     .export_handle_type = CRMM_EXPORT_FILE_DESCRIPTOR),
        &vmm);
    if (status != CRMM_SUCCESS) {
        cr_skip_test("%s", crmm_last_error()->message);
    }
    pool = make_pool(vmm, .tight = 0);
    ptr = take(pool, NULL, 1000);
    expect_failure(crmm_pool_memory_resource_export(pool, ptr, CRMM_EXPORT_FABRIC, &out),
                   CRMM_ERROR_UNSUPPORTED, "was made with export_handle_type 1");
    cr_assert(strstr(crmm_last_error()->message, "with export_handle_type has") == NULL);
    crmm_deallocate(pool, NULL, ptr, 1000, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* ---- user report 64: statistics of two pools got mixed up ---- */

enum { POOLS = 2, THREADS = 4, STEPS = 4000 };

typedef struct shared_pools {
    crmm_resource *pools[POOLS];
    pthread_barrier_t *barrier;
    size_t live[POOLS];  /* what this thread has, as the pool counts it */
    size_t count[POOLS]; /* blocks */
    uint64_t seed;
} shared_pools;

typedef struct kept_block {
    void *ptr;
    size_t bytes;
    size_t pool;
} kept_block;

/* Blocks of both pools come and go; some stay until everybody has counted. */
static void *use_both(void *user_data)
{
    shared_pools *own = user_data;
    kept_block blocks[MOST_BLOCKS];
    size_t count = 0;

    recording_expect(true, NULL);
    for (int i = 0; i < STEPS; i++) {
        if (count < MOST_BLOCKS && random_below(&own->seed, 2) == 0) {
            kept_block *one = &blocks[count++];
            one->pool = random_below(&own->seed, POOLS);
            one->bytes = 256 * (1 + random_below(&own->seed, 15)); /* sizes that are not rounded */
            expect_success(crmm_allocate_sync(own->pools[one->pool], one->bytes, 256, &one->ptr));
            own->live[one->pool] += one->bytes;
            own->count[one->pool]++;
        } else if (count > 0) {
            size_t at = random_below(&own->seed, count);
            kept_block one = blocks[at];
            crmm_deallocate_sync(own->pools[one.pool], one.ptr, one.bytes, 256);
            own->live[one.pool] -= one.bytes;
            own->count[one.pool]--;
            blocks[at] = blocks[--count];
        }
    }
    (void)pthread_barrier_wait(own->barrier); /* the figures are read */
    (void)pthread_barrier_wait(own->barrier);
    while (count > 0) {
        kept_block one = blocks[--count];
        crmm_deallocate_sync(own->pools[one.pool], one.ptr, one.bytes, 256);
    }
    return NULL;
}

/* The figures of each pool are those of its own blocks and its own upstream. A pool's peaks are its
 * own too: the sum of two is not the peak of both together. */
static void expect_own_figures(const shared_pools *shares, size_t which,
                               const recording_resource *upstream)
{
    const crmm_resource *pool = shares[0].pools[which];
    crmm_memory_info info = info_of(pool);
    size_t live = 0;
    size_t count = 0;

    for (size_t i = 0; i < THREADS; i++) {
        live += shares[i].live[which];
        count += shares[i].count[which];
    }
    expect_equal(info.live, live);
    expect_equal(info.allocations, count);
    expect_equal(info.held, upstream->live_bytes);
    expect_equal(info.peak_held, upstream->peak_bytes);
    expect_equal(info.held - info.live, info.cached);
    expect_equal(statistics_of(pool).growths, upstream->allocations);
    cr_assert(info.peak_live >= info.live && info.peak_live <= info.peak_held);
    expect_sound_books(pool);
}

Test(pool_reports, two_pools_in_parallel_threads_keep_exact_figures_each)
{
    recording_resource upstreams[POOLS];
    shared_pools shares[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    crmm_resource *pools[POOLS];

    need_devices(1);
    recording_expect(true, NULL);
    for (size_t i = 0; i < POOLS; i++) {
        recording_resource_init(&upstreams[i], CRMM_DEVICE_ACCESSIBLE);
        pools[i] = make_pool(&upstreams[i].base, .handle_size = i == 0 ? 0 : 2 * MIB);
    }
    cr_assert(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        shares[i] =
            (shared_pools){.pools = {pools[0], pools[1]}, .barrier = &barrier, .seed = 100 + i};
        cr_assert(pthread_create(&threads[i], NULL, use_both, &shares[i]) == 0);
    }
    (void)pthread_barrier_wait(&barrier);
    expect_own_figures(shares, 0, &upstreams[0]);
    expect_own_figures(shares, 1, &upstreams[1]);
    (void)pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < THREADS; i++) {
        cr_assert(pthread_join(threads[i], NULL) == 0);
    }
    for (size_t i = 0; i < POOLS; i++) {
        expect_equal(info_of(pools[i]).live, 0);
        crmm_resource_release(&pools[i]);
        cr_assert(upstreams[i].live_bytes == 0 && upstreams[i].wrong == 0, "%s",
                  upstreams[i].first_wrong);
        recording_resource_finish(&upstreams[i]);
    }
    (void)pthread_barrier_destroy(&barrier);
}

/* ---- user report 39: most of the time went to one lock ---- */

typedef struct lock_free_work {
    crmm_resource *pool;
    cudaStream_t stream;
    pthread_barrier_t *barrier;
} lock_free_work;

enum { PAIRS = 5000 };

static void make_pairs(const lock_free_work *own)
{
    for (int i = 0; i < PAIRS; i++) {
        void *ptr = take(own->pool, own->stream, 64 * KIB);
        crmm_deallocate(own->pool, own->stream, ptr, 64 * KIB, 256);
    }
}

/* A new cache gives back to its heap often, in case that its stream does not live long. */
static void *work_without_locks(void *user_data)
{
    const lock_free_work *own = user_data;

    make_pairs(own);
    (void)pthread_barrier_wait(own->barrier); /* the locks are taken */
    (void)pthread_barrier_wait(own->barrier);
    make_pairs(own);
    (void)pthread_barrier_wait(own->barrier); /* a thread that ends takes locks */
    return NULL;
}

/* The marks of blocks of so many windows are in different pieces of 128 bytes. */
static void expect_pieces_of_their_own(size_t first, size_t size, size_t count)
{
    const size_t in_piece = 128 / sizeof(uint16_t);
    uint64_t pieces = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = crmm_priv_pool_window_of((first + i * size) << CRMM_PRIV_POOL_WINDOW_SHIFT);
        uint64_t piece = (uint64_t)1 << at / in_piece % 64;
        cr_assert((pieces & piece) == 0, "blocks of %zu windows from %zu: %zu is beside another",
                  size, first, i);
        pieces |= piece;
    }
}

/* Neighbouring blocks of 64 KiB are often different threads', and what they are marked by is
 * written at each call: in one line of the caches eight threads got less done than one. */
Test(pool_reports, blocks_that_are_neighbours_are_not_marked_side_by_side)
{
    enum { WINDOWS = 2 << CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT, LARGEST = 32, NEIGHBOURS = 16 };
    static bool is_taken[WINDOWS];

    for (size_t i = 0; i < WINDOWS; i++) {
        size_t at = crmm_priv_pool_window_of(i << CRMM_PRIV_POOL_WINDOW_SHIFT);
        cr_assert(at < WINDOWS && !is_taken[at], "window %zu is at %zu", i, at);
        expect_equal(crmm_priv_pool_window_of((i << CRMM_PRIV_POOL_WINDOW_SHIFT) + 127), at);
        is_taken[at] = true;
    }
    /* Blocks of 64 KiB to 1 MiB that follow each other; above 512 KiB classes are 64 KiB apart. */
    for (size_t size = 2; size <= LARGEST; size += size < LARGEST / 2 ? 1 : 2) {
        for (size_t first = 0; first + NEIGHBOURS * size <= WINDOWS; first += size) {
            expect_pieces_of_their_own(first, size, NEIGHBOURS);
        }
    }
}

/* Threads on streams of their own do without every lock that another thread could want: here all of
 * them are held. How many steps a second that makes is for crmm-bench-pool --check to say. */
Test(pool_reports, pairs_on_own_streams_need_no_common_lock, .timeout = 60)
{
    lock_free_work work[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;

    crmm_resource *mr = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    crmm_priv_pool *pool = (crmm_priv_pool *)mr;
    cr_assert(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < THREADS; i++) {
        work[i] = (lock_free_work){.pool = mr, .stream = make_stream(), .barrier = &barrier};
        cr_assert(pthread_create(&threads[i], NULL, work_without_locks, &work[i]) == 0);
    }
    (void)pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&pool->mutex);
    for (uint32_t i = 0; i < crmm_priv_pool_heap_count(pool); i++) {
        crmm_priv_pool_heap_lock(crmm_priv_pool_heap_of(pool, i));
    }
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
    for (uint32_t i = 0; i < crmm_priv_pool_heap_count(pool); i++) {
        crmm_priv_pool_heap_unlock(crmm_priv_pool_heap_of(pool, i));
    }
    pthread_mutex_unlock(&pool->mutex);
    for (size_t i = 0; i < THREADS; i++) {
        cr_assert(pthread_join(threads[i], NULL) == 0);
        cuda(cudaStreamDestroy(work[i].stream));
    }
    expect_sound_books(mr);
    (void)pthread_barrier_destroy(&barrier);
    crmm_resource_release(&mr);
}

/* ---- user report 23: many threads that met an empty pool each made it grow ---- */

/* Memory of the C heap that takes its time, and notices who else asks meanwhile. */
typedef struct slow_resource {
    struct crmm_resource base;
    int calls, inside, most_inside;
} slow_resource;

static crmm_status slow_allocate(crmm_resource *resource, size_t bytes, size_t alignment,
                                 void **ptr)
{
    slow_resource *own = (slow_resource *)resource;
    const struct timespec time = {.tv_nsec = 20000000};

    (void)__atomic_add_fetch(&own->calls, 1, __ATOMIC_RELAXED);
    int inside = __atomic_add_fetch(&own->inside, 1, __ATOMIC_SEQ_CST);
    (void)nanosleep(&time, NULL);
    if (inside > __atomic_load_n(&own->most_inside, __ATOMIC_RELAXED)) {
        __atomic_store_n(&own->most_inside, inside, __ATOMIC_RELAXED);
    }
    *ptr = aligned_alloc(alignment, bytes);
    (void)__atomic_sub_fetch(&own->inside, 1, __ATOMIC_SEQ_CST);
    return *ptr != NULL ? CRMM_SUCCESS
                        : crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "no memory");
}

static void slow_deallocate(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    free(ptr);
}

static void slow_destroy(crmm_resource *resource)
{
    (void)resource; /* it is the test's */
}

typedef struct one_block {
    crmm_resource *pool;
    pthread_barrier_t *barrier;
    void *ptr;
} one_block;

static void *take_one(void *user_data)
{
    one_block *own = user_data;

    (void)pthread_barrier_wait(own->barrier);
    expect_success(crmm_allocate_sync(own->pool, MIB, 256, &own->ptr));
    return NULL;
}

Test(pool_reports, one_thread_grows_a_pool_and_the_others_look_again)
{
    enum { MANY = 16 };
    static const crmm_resource_ops ops = {.struct_size = sizeof(ops),
                                          .allocate_sync = slow_allocate,
                                          .deallocate_sync = slow_deallocate,
                                          .destroy = slow_destroy};
    slow_resource upstream = {.calls = 0};
    pthread_t threads[MANY];
    one_block blocks[MANY];
    pthread_barrier_t barrier;
    crmm_resource *pool = NULL;

    crmm_resource_init(&upstream.base, &ops, "slow_resource", CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_pool_memory_resource_create(
        &upstream.base, CRMM_OPTIONS(crmm_pool_memory_resource, .handle_size = 4 * MIB), &pool));
    cr_assert(pthread_barrier_init(&barrier, NULL, MANY) == 0);
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = (one_block){.pool = pool, .barrier = &barrier};
        cr_assert(pthread_create(&threads[i], NULL, take_one, &blocks[i]) == 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        cr_assert(pthread_join(threads[i], NULL) == 0);
    }
    /* Four times 4 MiB serve them all. */
    expect_equal(upstream.most_inside, 1);
    expect_equal(upstream.calls, 4);
    expect_equal(info_of(pool).held, 16 * MIB);
    for (size_t i = 0; i < MANY; i++) {
        crmm_deallocate_sync(pool, blocks[i].ptr, MIB, 256);
    }
    (void)pthread_barrier_destroy(&barrier);
    crmm_resource_release(&pool);
}

/* ---- user report 76: a snapshot took seconds ---- */

static double cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void count_live(const crmm_pool_block *block, void *user_data)
{
    *(size_t *)user_data += block->is_live != 0;
}

static int by_address(const void *one, const void *other)
{
    uintptr_t a = (uintptr_t)((const crmm_pool_block *)one)->ptr;
    uintptr_t b = (uintptr_t)((const crmm_pool_block *)other)->ptr;
    return (a > b) - (a < b);
}

/* What this machine, and a tool that the test runs under, takes to sort as many blocks. */
static double time_of_sorting(crmm_pool_block *blocks, size_t count)
{
    uint64_t seed = 1;

    for (size_t i = 0; i < count; i++) {
        blocks[i] = (crmm_pool_block){.ptr = (void *)(uintptr_t)random_below(&seed, SIZE_MAX)};
    }
    double before = cpu_seconds();
    qsort(blocks, count, sizeof(*blocks), by_address);
    return cpu_seconds() - before;
}

/* 20 ms, unless sorting as many takes twice that itself, on a slow machine or under a tool; and on
 * any, about what sorting takes at most. The shortest of a few, of this thread's own time, so that
 * a busy machine does not matter. */
Test(pool_reports, a_snapshot_of_100000_blocks_takes_less_than_20_ms)
{
    enum { BLOCKS = 100000, ROUNDS = 9 };
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 64 * MIB);
    void **ptrs = malloc(BLOCKS * sizeof(*ptrs));
    crmm_pool_block *sorted = malloc(BLOCKS * sizeof(*sorted));
    double shortest = 1e9;
    double yardstick = 1e9;

    cr_assert(ptrs != NULL && sorted != NULL);
    for (size_t i = 0; i < BLOCKS; i++) {
        ptrs[i] = take(pool, NULL, 512);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t live = 0;
        double before = cpu_seconds();
        expect_success(crmm_pool_memory_resource_snapshot(pool, count_live, &live));
        double took = cpu_seconds() - before;
        shortest = took < shortest ? took : shortest;
        expect_equal(live, BLOCKS);
        took = time_of_sorting(sorted, BLOCKS);
        yardstick = took < yardstick ? took : yardstick;
    }
    bool is_slow_here = yardstick > 0.04;
    cr_assert(shortest < 1.5 * yardstick && (is_slow_here || shortest < 0.02),
              "%f s, and sorting takes %f s", shortest, yardstick);
    for (size_t i = 0; i < BLOCKS; i++) {
        crmm_deallocate(pool, NULL, ptrs[i], 512, 256);
    }
    free(ptrs);
    free(sorted);
    crmm_resource_release(&pool);
}
