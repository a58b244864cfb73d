/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool under many threads: on streams of their own and shared ones, blocks freed by another
 * thread than took them, threads that end, a maximum that refuses many requests, and everything
 * that looks at the pool or shrinks it at the same time. No block is with two owners, and nothing
 * is lost.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "random_numbers.h"

enum { THREADS = 8, WAVES = 3, STEPS = 600, SLOTS = 64, SHARED = 2, WATCHES = 30, ROUNDS = 20 };

/* Of the run in which half of the requests fail. */
enum { MANY = 16, REQUESTS = 100000, SMALLEST = 8 << 10 };

typedef struct slot {
    void *ptr;
    size_t bytes;
} slot;

/* Where threads leave blocks for each other. */
static struct {
    pthread_mutex_t mutex;
    slot slots[SLOTS];
} exchange = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static crmm_resource *pool;
static cudaStream_t shared[SHARED];
static cudaStream_t only; /* on which all threads are; NULL: on several kinds of streams */
static bool is_sync_only;
static size_t refused;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_pool_threads: %s (%s)\n", what, crmm_last_error()->message);
        exit(1);
    }
}

static slot swap(size_t at, slot mine)
{
    pthread_mutex_lock(&exchange.mutex);
    slot other = exchange.slots[at];
    exchange.slots[at] = mine;
    pthread_mutex_unlock(&exchange.mutex);
    return other;
}

static slot get(cudaStream_t stream, size_t bytes)
{
    slot got = {.bytes = bytes};
    crmm_status status = is_sync_only ? crmm_allocate_sync(pool, bytes, 256, &got.ptr)
                                      : crmm_allocate(pool, stream, bytes, 256, &got.ptr);

    check(status == CRMM_SUCCESS || status == CRMM_ERROR_OUT_OF_MEMORY, "allocate");
    if (status != CRMM_SUCCESS) {
        (void)__atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    } else if (is_sync_only) {
        memset(got.ptr, 1, bytes); /* two owners would race here */
    }
    return got;
}

static void give(cudaStream_t stream, slot block)
{
    if (block.ptr == NULL) {
        return;
    }
    if (is_sync_only) {
        memset(block.ptr, 2, block.bytes);
        crmm_deallocate_sync(pool, block.ptr, block.bytes, 256);
    } else {
        crmm_deallocate(pool, stream, block.ptr, block.bytes, 256);
    }
}

static void *work(void *user_data)
{
    uint64_t seed = (uint64_t)(uintptr_t)user_data;
    cudaStream_t own = NULL;

    if (!is_sync_only) {
        check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking) == cudaSuccess, "stream");
    }
    for (int step = 0; step < STEPS; step++) {
        cudaStream_t streams[] = {own, CRMM_STREAM_PER_THREAD, NULL, shared[step % SHARED]};
        cudaStream_t stream = only != NULL ? only : streams[random_below(&seed, 4)];
        size_t bytes = 1 + random_below(&seed, (size_t)256 << random_below(&seed, 14));
        slot mine = get(stream, bytes);
        give(stream, swap(random_below(&seed, SLOTS), mine));
    }
    if (!is_sync_only) {
        if (only == NULL && seed % 2 == 0) {
            check(crmm_pool_memory_resource_retire_stream(pool, own) == CRMM_SUCCESS, "retire");
        }
        check(cudaStreamDestroy(own) == cudaSuccess, "destroy");
    }
    return NULL;
}

static void add_block(const crmm_pool_block *block, void *user_data)
{
    *(size_t *)user_data += block->bytes;
}

static void add_stream(const crmm_pool_stream *stream, void *user_data)
{
    *(size_t *)user_data += stream->pending;
}

static void *watch(void *user_data)
{
    (void)user_data;
    for (int i = 0; i < WATCHES; i++) {
        crmm_memory_info info = {.struct_size = sizeof(info)};
        crmm_pool_statistics statistics = {.struct_size = sizeof(statistics)};
        size_t bytes = 0;
        char text[200];
        check(crmm_resource_info(pool, &info) == CRMM_SUCCESS, "info");
        check(info.held <= info.peak_held && info.live <= info.peak_live, "peaks");
        check(crmm_pool_memory_resource_statistics(pool, &statistics) == CRMM_SUCCESS,
              "statistics");
        check(crmm_pool_memory_resource_snapshot(pool, add_block, &bytes) == CRMM_SUCCESS,
              "snapshot");
        check(crmm_pool_memory_resource_streams(pool, add_stream, &bytes) == CRMM_SUCCESS,
              "streams");
        check(crmm_resource_describe(pool, text, sizeof(text)) > 0, "describe");
        if (i % 3 == 0) {
            check(crmm_resource_trim(pool, (size_t)i << 20, NULL) == CRMM_SUCCESS, "trim");
        }
    }
    return NULL;
}

/* What was left to others comes back, and the pool's and upstream's books say that all is there. */
static void end_run(crmm_resource *upstream)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    for (size_t i = 0; i < SLOTS; i++) {
        give(only, swap(i, (slot){.ptr = NULL}));
    }
    check(crmm_resource_info(pool, &info) == CRMM_SUCCESS, "info at the end");
    check(info.live == 0 && info.allocations == 0, "blocks are alive that nobody has");
    check(info.live + info.cached == info.held, "the books do not add up");
    crmm_resource_release(&pool);
    if (upstream != NULL && upstream != crmm_malloc_memory_resource()) {
        check(crmm_resource_info(upstream, &info) == CRMM_SUCCESS, "info of upstream");
        check(info.held == 0, "memory was lost");
    }
    check(crmm_misuse_count() == 0, "misuse");
}

/* Threads come and go in waves; some of their blocks outlive them. */
static void run(crmm_resource *upstream, const crmm_pool_memory_resource_options *options)
{
    pthread_t threads[THREADS + 1];

    check(crmm_pool_memory_resource_create(upstream, options, &pool) == CRMM_SUCCESS, "create");
    is_sync_only = !crmm_resource_has(pool, CRMM_STREAM_ORDERED);
    for (uintptr_t wave = 0; wave < WAVES; wave++) {
        check(pthread_create(&threads[THREADS], NULL, watch, NULL) == 0, "thread");
        for (uintptr_t i = 0; i < THREADS; i++) {
            check(pthread_create(&threads[i], NULL, work, (void *)(wave * THREADS + i + 1)) == 0,
                  "thread");
        }
        for (size_t i = 0; i <= THREADS; i++) {
            check(pthread_join(threads[i], NULL) == 0, "join");
        }
    }
    end_run(upstream);
}

/* User report 37: threads that run out of memory at the same time. */
static void *fail_often(void *user_data)
{
    uint64_t seed = (uint64_t)(uintptr_t)user_data;

    for (int step = 0; step < REQUESTS / MANY; step++) {
        slot mine = get(NULL, SMALLEST + random_below(&seed, SMALLEST));
        give(NULL, swap(random_below(&seed, SLOTS), mine));
    }
    return NULL;
}

/* The pool has as much as half of the slots want, so about half of the requests fail. */
static void fail_half(crmm_resource *upstream)
{
    pthread_t threads[MANY];
    crmm_pool_memory_resource_options options;

    crmm_pool_memory_resource_options_init(&options);
    options.maximum_pool_size = (size_t)SLOTS / 2 * SMALLEST * 3 / 2;
    check(crmm_pool_memory_resource_create(upstream, &options, &pool) == CRMM_SUCCESS, "create");
    is_sync_only = true;
    refused = 0;
    for (uintptr_t i = 0; i < MANY; i++) {
        check(pthread_create(&threads[i], NULL, fail_often, (void *)(i + 1)) == 0, "thread");
    }
    for (size_t i = 0; i < MANY; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(refused > REQUESTS / 3 && refused < REQUESTS / 3 * 2, "not about half were refused");
    end_run(upstream);
}

/* Each thread has nearly all of its share, and hands blocks from stream to stream: what is free is
 * at hand somewhere, or on its way, and yet no request is refused. */
static void *use_nearly_all(void *user_data)
{
    enum { BLOCKS = 31, STREAMS = 4, HAND_OVERS = 4000 };
    cudaStream_t streams[STREAMS];
    slot blocks[BLOCKS];

    (void)user_data;
    for (size_t i = 0; i < STREAMS; i++) {
        check(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) == cudaSuccess,
              "stream");
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = get(streams[i % STREAMS], (size_t)1 << 20);
    }
    for (size_t i = 0; i < HAND_OVERS; i++) {
        slot *oldest = &blocks[i % BLOCKS];
        give(streams[(i + 1) % STREAMS], *oldest);
        *oldest = get(streams[i % STREAMS], (size_t)1 << 20);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        give(streams[i % STREAMS], blocks[i]);
    }
    for (size_t i = 0; i < STREAMS; i++) {
        check(cudaStreamDestroy(streams[i]) == cudaSuccess, "destroy");
    }
    return NULL;
}

static void refuse_none(crmm_resource *upstream)
{
    pthread_t threads[THREADS];
    crmm_pool_memory_resource_options options;

    crmm_pool_memory_resource_options_init(&options);
    options.initial_pool_size = (size_t)THREADS * 32 << 20;
    options.maximum_pool_size = options.initial_pool_size;
    check(crmm_pool_memory_resource_create(upstream, &options, &pool) == CRMM_SUCCESS, "create");
    is_sync_only = false;
    refused = 0;
    for (size_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, use_nearly_all, NULL) == 0, "thread");
    }
    for (size_t i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(refused == 0, "there was enough, and a request was refused");
    end_run(upstream);
}

/* User report 23: many threads that find the pool empty at once do not each make it grow. */
static void *take_one(void *user_data)
{
    slot *mine = user_data;
    *mine = get(CRMM_STREAM_PER_THREAD, (size_t)1 << 20);
    return NULL;
}

static void grow_once(crmm_resource *upstream)
{
    pthread_t threads[2 * THREADS];
    slot blocks[2 * THREADS];

    check(crmm_pool_memory_resource_create(upstream, NULL, &pool) == CRMM_SUCCESS, "create");
    is_sync_only = false;
    for (size_t i = 0; i < 2 * THREADS; i++) {
        check(pthread_create(&threads[i], NULL, take_one, &blocks[i]) == 0, "thread");
    }
    for (size_t i = 0; i < 2 * THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(crmm_pool_memory_resource_pool_size(pool) <= (size_t)4 * THREADS << 20,
          "every thread made the pool grow");
    for (size_t i = 0; i < 2 * THREADS; i++) {
        check(blocks[i].ptr != NULL, "a thread got nothing");
        give(NULL, blocks[i]);
    }
    crmm_resource_release(&pool);
}

/* A thread that used a pool goes on with another one, while somebody else releases the first: each
 * has caches of both. */
static struct {
    pthread_barrier_t used;
    crmm_resource *stays, *goes;
} both;

static void *use_both(void *user_data)
{
    (void)user_data;
    for (int round = 0; round < ROUNDS; round++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(both.goes, 100, 256, &ptr) == CRMM_SUCCESS, "allocate");
        crmm_deallocate_sync(both.goes, ptr, 100, 256);
        check(crmm_allocate_sync(both.stays, 100, 256, &ptr) == CRMM_SUCCESS, "allocate");
        crmm_deallocate_sync(both.stays, ptr, 100, 256);
        (void)pthread_barrier_wait(&both.used);
        for (int step = 0; step < STEPS / ROUNDS; step++) {
            crmm_status status = crmm_allocate_sync(both.stays, (size_t)2 << 20, 256, &ptr);
            check(status == CRMM_ERROR_OUT_OF_MEMORY, "it has no more than 1 MiB");
        }
        (void)pthread_barrier_wait(&both.used);
    }
    return NULL;
}

static void release_beside(void)
{
    crmm_pool_memory_resource_options small;
    pthread_t threads[2];

    crmm_pool_memory_resource_options_init(&small);
    small.maximum_pool_size = (size_t)3 << 20;
    small.initial_pool_size = small.maximum_pool_size;
    check(crmm_pool_memory_resource_create(crmm_malloc_memory_resource(), &small, &both.stays) ==
              CRMM_SUCCESS,
          "create");
    void *most = NULL;
    check(crmm_allocate_sync(both.stays, (size_t)2 << 20, 256, &most) == CRMM_SUCCESS, "allocate");
    check(pthread_barrier_init(&both.used, NULL, 3) == 0, "barrier");
    check(crmm_pool_memory_resource_create(crmm_malloc_memory_resource(), NULL, &both.goes) ==
              CRMM_SUCCESS,
          "create");
    for (size_t i = 0; i < 2; i++) {
        check(pthread_create(&threads[i], NULL, use_both, NULL) == 0, "thread");
    }
    for (int round = 0; round < ROUNDS; round++) {
        crmm_resource *next = NULL;
        check(crmm_pool_memory_resource_create(crmm_malloc_memory_resource(), NULL, &next) ==
                  CRMM_SUCCESS,
              "create");
        (void)pthread_barrier_wait(&both.used);
        crmm_resource_release(&both.goes);
        both.goes = next;
        (void)pthread_barrier_wait(&both.used);
    }
    for (size_t i = 0; i < 2; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    (void)pthread_barrier_destroy(&both.used);
    crmm_resource_release(&both.goes);
    crmm_deallocate_sync(both.stays, most, (size_t)2 << 20, 256);
    crmm_resource_release(&both.stays);
}

/* A thread takes what it has parked after another one made the heap's books move. Nothing but the
 * heap's lock orders the two, as ThreadSanitizer sees. */
static struct {
    bool have_moved, may_go;
} books;

static bool is_set(const bool *flag)
{
    (void)sched_yield();
    return __atomic_load_n(flag, __ATOMIC_RELAXED);
}

static void *fill_books(void *user_data)
{
    enum { BLOCKS = 200 };
    slot blocks[BLOCKS];

    (void)user_data;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = get(shared[0], ((size_t)2 << 20) + 256);
        check(blocks[i].ptr != NULL, "a thread got nothing");
    }
    __atomic_store_n(&books.have_moved, true, __ATOMIC_RELAXED);
    while (!is_set(&books.may_go)) {
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        give(shared[0], blocks[i]);
    }
    return NULL;
}

static void take_parked(crmm_resource *upstream)
{
    crmm_pool_memory_resource_options large;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    pthread_t thread;

    crmm_pool_memory_resource_options_init(&large);
    large.initial_pool_size = (size_t)512 << 20;
    check(crmm_pool_memory_resource_create(upstream, &large, &pool) == CRMM_SUCCESS, "create");
    is_sync_only = false;
    books.have_moved = books.may_go = false;
    slot block = get(NULL, (size_t)4 << 20);
    give(NULL, block); /* the legacy stream keeps blocks from the beginning */
    check(pthread_create(&thread, NULL, fill_books, NULL) == 0, "thread");
    while (!is_set(&books.have_moved)) {
    }
    slot again = get(NULL, block.bytes);
    check(again.ptr == block.ptr, "the block was not parked");
    __atomic_store_n(&books.may_go, true, __ATOMIC_RELAXED);
    give(NULL, again);
    check(pthread_join(thread, NULL) == 0, "join");
    check(crmm_resource_info(pool, &info) == CRMM_SUCCESS, "info");
    check(info.live == 0 && info.allocations == 0, "a block is lost");
    crmm_resource_release(&pool);
}

int main(void)
{
    crmm_resource *vmm = NULL;
    int count = 0;

    crmm_status status = crmm_get_num_cuda_devices(&count);
    if (status != CRMM_SUCCESS && getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_pool_threads: skipped: %s\n", crmm_last_error()->message);
        return 77;
    }
    check(status == CRMM_SUCCESS && count > 0, "no device");
    for (size_t i = 0; i < SHARED; i++) {
        check(cudaStreamCreateWithFlags(&shared[i], cudaStreamNonBlocking) == cudaSuccess,
              "stream");
    }
    check(crmm_vmm_memory_resource_create(NULL, &vmm) == CRMM_SUCCESS, "vmm");
    crmm_pool_memory_resource_options limited;
    crmm_pool_memory_resource_options_init(&limited);
    limited.maximum_pool_size = (size_t)24 << 20; /* half of what the threads want */
    crmm_pool_memory_resource_options tight = limited;
    tight.tight = 1;
    crmm_pool_memory_resource_options idle_goes = limited;
    idle_goes.release_threshold = (size_t)8 << 20;
    run(vmm, NULL);
    run(vmm, &limited);
    run(vmm, &tight);
    run(vmm, &idle_goes);
    run(crmm_cuda_memory_resource(), &limited);
    run(crmm_cuda_memory_resource(), NULL);
    run(crmm_malloc_memory_resource(), NULL);
    run(crmm_malloc_memory_resource(), &limited);
    only = shared[0]; /* a lone stream, which shortages and trims interrupt */
    run(vmm, &limited);
    run(crmm_cuda_memory_resource(), &limited);
    only = NULL;
    grow_once(vmm);
    grow_once(crmm_cuda_memory_resource());
    release_beside();
    take_parked(vmm);
    take_parked(crmm_cuda_memory_resource());
    check(refused > 0, "the maximum was never reached");
    refuse_none(vmm);
    refuse_none(crmm_cuda_memory_resource());
    fail_half(crmm_malloc_memory_resource());
    crmm_resource_release(&vmm);
    for (size_t i = 0; i < SHARED; i++) {
        check(cudaStreamDestroy(shared[i]) == cudaSuccess, "destroy");
    }
    return 0;
}
