/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <semaphore.h>

#include <cudart_emulated.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/size_from_text.h>
#include <crmm/device/vmm_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"
#include "random_numbers.h"

/* ---- what it asks of CUDA ---- */

Test(emulation_pool_memory_resource, reuse_on_a_stream_makes_no_call_but_for_its_state_and_id)
{
    static const size_t sizes[] = {100, 5000, 200 * KIB, MIB, 3 * MIB};
    enum { ROUNDS = 1000, SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    crmm_resource *pool = make_pool(NULL, .initial_pool_size = 16 * MIB);

    cudaStream_t stream = make_stream();
    for (size_t warm = 0; warm < 2; warm++) {
        unsigned long long before = cudart_emulated_calls(NULL);
        unsigned long long asked =
            cudart_emulated_calls("cuStreamIsCapturing") + cudart_emulated_calls("cuStreamGetId");
        unsigned long long events = cudart_emulated_calls("cudaEventCreateWithFlags");
        for (size_t i = 0; i < ROUNDS; i++) {
            void *ptr = take(pool, stream, sizes[i % SIZES]);
            crmm_deallocate(pool, stream, ptr, sizes[i % SIZES], 256);
        }
        unsigned long long all = cudart_emulated_calls(NULL) - before;
        asked = cudart_emulated_calls("cuStreamIsCapturing") +
                cudart_emulated_calls("cuStreamGetId") - asked;
        cr_assert(asked <= 5 * ROUNDS, "%llu questions for %d pairs", asked, ROUNDS);
        cr_assert(all - asked <= ROUNDS / (warm == 0 ? 4 : 10), "%llu further calls for %d pairs",
                  all - asked, ROUNDS);
        cr_assert(cudart_emulated_calls("cudaEventCreateWithFlags") - events <= 16);
    }
    expect_equal(statistics_of(pool).growths, 1);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
    expect_equal(cudart_emulated_violations(), 0);
}

/* ---- order ---- */

typedef struct block {
    void *ptr;
    size_t bytes, alignment;
    cudaStream_t stream;
} block;

enum { STREAMS = 6, STEPS = 3000, MOST_BLOCKS = 64 };

/* Whatever the program and the order that streams run in: every byte that a block is written with
 * is there when it is read, and nothing is touched that another stream may still be at. */
static void run_program(crmm_resource *pool, uint64_t seed)
{
    cudaStream_t streams[STREAMS];
    block blocks[MOST_BLOCKS];
    size_t count = 0;

    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = i == 0 ? NULL : i == 1 ? CRMM_STREAM_PER_THREAD : make_stream();
    }
    for (int step = 0; step < STEPS; step++) {
        uint64_t choice = random_below(&seed, 100);
        if (count < MOST_BLOCKS && choice < 50) {
            block *one = &blocks[count];
            *one = (block){.bytes = 1 + random_below(&seed, (size_t)1 << (8 + choice % 15)),
                           .alignment = choice == 7 ? 4096 : 256,
                           .stream = streams[random_below(&seed, STREAMS)]};
            crmm_status status =
                crmm_allocate(pool, one->stream, one->bytes, one->alignment, &one->ptr);
            cr_assert(status == CRMM_SUCCESS || status == CRMM_ERROR_OUT_OF_MEMORY);
            if (status == CRMM_SUCCESS) {
                const struct cudart_emulated_range range = {
                    .ptr = one->ptr, .size = one->bytes, .write = 1, .value = step & 0xff};
                cuda(cudart_emulated_kernel(one->stream, &range, 1, NULL, NULL));
                count++;
            }
        } else if (count > 0 && choice < 97) {
            block *one = &blocks[random_below(&seed, count)];
            const struct cudart_emulated_range range = {
                .ptr = one->ptr, .size = one->bytes, .write = 1, .value = -1};
            cuda(cudart_emulated_kernel(one->stream, &range, 1, NULL, NULL));
            crmm_deallocate(pool, one->stream, one->ptr, one->bytes, one->alignment);
            *one = blocks[--count];
        } else if (choice == 97) {
            expect_success(crmm_resource_trim(pool, random_below(&seed, 16 * MIB), NULL));
        } else if (choice == 98) {
            size_t which = 2 + random_below(&seed, STREAMS - 2);
            for (size_t i = 0; i < count; i++) {
                if (blocks[i].stream == streams[which]) {
                    cuda(cudaStreamSynchronize(streams[which]));
                    blocks[i].stream = NULL;
                }
            }
            if (random_below(&seed, 2) == 0) {
                expect_success(crmm_pool_memory_resource_retire_stream(pool, streams[which]));
            }
            cuda(cudaStreamDestroy(streams[which]));
            streams[which] = make_stream();
        }
    }
    while (count > 0) {
        count--;
        crmm_deallocate(pool, blocks[count].stream, blocks[count].ptr, blocks[count].bytes,
                        blocks[count].alignment);
    }
    for (size_t i = 2; i < STREAMS; i++) {
        cuda(cudaStreamDestroy(streams[i]));
    }
}

/* Calls of the driver since the last look at them. */
typedef struct driver_calls {
    unsigned long long events, records, queries, waits, synchronizes, memory;
} driver_calls;

static driver_calls calls_now(void)
{
    return (driver_calls){
        .events = cudart_emulated_calls("cudaEventCreateWithFlags"),
        .records = cudart_emulated_calls("cuEventRecord"),
        .queries = cudart_emulated_calls("cuEventQuery"),
        .waits = cudart_emulated_calls("cuStreamWaitEvent"),
        .synchronizes = cudart_emulated_calls("cuEventSynchronize"),
        .memory = cudart_emulated_calls("cudaMalloc") + cudart_emulated_calls("cudaFree"),
    };
}

Test(emulation_pool_memory_resource, tells_the_calls_of_the_driver_that_it_made, .timeout = 100)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        cudart_emulated_set_seed(seed);
        crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = seed % 2 == 1,
                                        .maximum_pool_size = seed % 4 < 2 ? 0 : 24 * MIB);
        const driver_calls before = calls_now();
        run_program(pool, seed);
        const driver_calls now = calls_now();
        const crmm_pool_statistics told = statistics_of(pool);
        expect_equal(told.events, now.events - before.events);
        expect_equal(told.records, now.records - before.records);
        expect_equal(told.queries, now.queries - before.queries);
        expect_equal(told.waits, now.waits - before.waits);
        /* A wait for the whole device is the free of a block that is made for it. */
        uint64_t device_waits = told.synchronizes - (now.synchronizes - before.synchronizes);
        expect_equal(told.upstream_calls + 2 * device_waits, now.memory - before.memory);
        cr_assert(told.events > 0 && told.records > told.events && told.upstream_calls > 0);
        crmm_resource_release(&pool);
    }
}

Test(emulation_pool_memory_resource, random_programs_of_many_streams_have_no_race, .timeout = 100)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {vmm, crmm_cuda_memory_resource()};

    for (uint64_t seed = 0; seed < 12; seed++) {
        cudart_emulated_set_seed(seed);
        cudart_emulated_set_option("reuse_handles", seed % 2);
        crmm_resource *pool =
            make_pool(upstreams[seed / 2 % 2], .tight = seed % 3 == 0,
                      .maximum_pool_size = seed % 4 == 3 ? 0 : 24 * MIB,
                      .stream_cache_size = seed % 5 == 4 ? CRMM_STREAM_CACHE_NONE : 0,
                      .release_threshold = seed % 7 == 6 ? CRMM_RELEASE_ALL : 0);
        misuse_recorder_start();
        run_program(pool, seed);
        expect_equal(misuse_recorded()->count, 0);
        expect_equal(info_of(pool).live, 0);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
        cr_assert(cudart_emulated_violations() == 0, "seed %llu: %s", (unsigned long long)seed,
                  cudart_emulated_violation(0));
        expect_equal(info_of(vmm).held + info_of(crmm_cuda_memory_resource()).held, 0);
    }
    crmm_resource_release(&vmm);
}

/* Streams that are held: what other streams' finished work, or upstream, can serve does not wait.
 */
Test(emulation_pool_memory_resource, busy_streams_block_nobody_else)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .maximum_pool_size = 32 * MIB);
    gate held;

    cudaStream_t busy = make_stream();
    cudaStream_t idle = make_stream();
    cudaStream_t asking = make_stream();
    void *pending = take(pool, busy, 8 * MIB);
    void *done = take(pool, idle, 8 * MIB);
    gate_close(&held, busy);
    const struct cudart_emulated_range range = {.ptr = pending, .size = 8 * MIB, .write = 1};
    cuda(cudart_emulated_kernel(busy, &range, 1, NULL, NULL));
    crmm_deallocate(pool, busy, pending, 8 * MIB, 256);
    crmm_deallocate(pool, idle, done, 8 * MIB, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, busy));
    expect_success(crmm_pool_memory_resource_retire_stream(pool, idle));
    cuda(cudaStreamSynchronize(idle));
    void *first = take(pool, asking, 8 * MIB);
    cr_assert(first == done, "memory without work on it comes first");
    /* Neither growth nor memory of its own needs the busy stream. */
    void *second = take(pool, asking, 8 * MIB);
    void *third = take(pool, idle, 8 * MIB);
    cr_assert(cudaStreamQuery(busy) == cudaErrorNotReady, "somebody waited for the busy stream");
    expect_equal(statistics_of(pool).synchronizes, 0);
    gate_open(&held);
    crmm_deallocate(pool, asking, first, 8 * MIB, 256);
    crmm_deallocate(pool, asking, second, 8 * MIB, 256);
    crmm_deallocate(pool, idle, third, 8 * MIB, 256);
    cuda(cudaStreamDestroy(busy));
    cuda(cudaStreamDestroy(idle));
    cuda(cudaStreamDestroy(asking));
    crmm_resource_release(&pool);
    expect_equal(cudart_emulated_violations(), 0);
}

/* Whichever stream the pool met first: the larger block is
 * waited for, and the stream that gave back the smaller one goes on. */
static void wait_for_a(cudaStream_t a, cudaStream_t b)
{
    gate soon;
    gate never; /* until the allocation has returned */
    void *ptr = NULL;

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 10 * MIB,
                                    .maximum_pool_size = 10 * MIB);
    void *small = take(pool, b, 2 * MIB);
    void *large = take(pool, a, 8 * MIB);
    gate_close(&soon, a);
    gate_close(&never, b);
    crmm_deallocate(pool, b, small, 2 * MIB, 256);
    crmm_deallocate(pool, a, large, 8 * MIB, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, a));
    expect_success(crmm_pool_memory_resource_retire_stream(pool, b));
    pthread_t opener = gate_open_later(&soon);
    expect_success(crmm_allocate_sync(pool, 8 * MIB, 256, &ptr));
    cr_assert(ptr == large && gate_is_open(&soon));
    cr_assert(cudaStreamQuery(b) == cudaErrorNotReady, "it waited for all");
    gate_open(&never);
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_deallocate_sync(pool, ptr, 8 * MIB, 256);
    crmm_resource_release(&pool);
}

/* User report 20: on a shortage a pool waited for all pending memory, though some would do. */
Test(emulation_pool_memory_resource, a_shortage_waits_for_the_block_that_suffices, .timeout = 20)
{
    cudaStream_t a = make_stream();
    cudaStream_t b = make_stream();

    cudart_emulated_set_option("host_threads", 1); /* two gates are closed at a time */
    wait_for_a(a, b);
    wait_for_a(b, a);
    cuda(cudaStreamDestroy(a));
    cuda(cudaStreamDestroy(b));
}

/* ---- what cannot be had ---- */

/* The request fails, and the pool does not keep what the device had left. */
Test(emulation_pool_memory_resource, a_request_that_no_device_can_serve_is_refused)
{
    struct cudart_emulated_usage usage;
    crmm_resource *vmm = make_vmm();
    void *refused = &refused;

    cudart_emulated_set_memory(0, 256 * MIB);
    crmm_resource *pool = make_pool(vmm, .handle_size = 4 * MIB);
    void *ptr = take(pool, NULL, 10 * MIB);
    expect_failure(crmm_allocate(pool, NULL, 300 * MIB, 256, &refused), CRMM_ERROR_OUT_OF_MEMORY,
                   "upstream refused: ");
    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
    cudart_emulated_usage(0, &usage);
    cr_assert(usage.physical <= 16 * MIB, "%zu bytes are held for nothing", usage.physical);
    crmm_deallocate(pool, NULL, ptr, 10 * MIB, 256);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
}

/* Nor does it take what the device has left, page by page, to find out that it is too little. */
Test(emulation_pool_memory_resource, a_request_that_cannot_fit_makes_few_calls)
{
    static const size_t sizes[] = {1000 * MIB, 1100 * MIB, (size_t)100 << 30, (size_t)1 << 40};
    struct cudart_emulated_usage usage;
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {vmm, crmm_cuda_memory_resource()};

    cudart_emulated_set_memory(0, (size_t)1 << 30);
    for (size_t style = 0; style < 4; style++) {
        crmm_resource *pool =
            make_pool(upstreams[style % 2], .tight = style / 2, .handle_size = 2 * MIB);
        cudaStream_t stream = make_stream();
        void *live = take(pool, stream, 40 * MIB);
        size_t held = info_of(pool).held;
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *refused = &refused;
            unsigned long long calls = cudart_emulated_calls(NULL);
            unsigned long long taken = cudart_emulated_calls("cuMemCreate");
            expect_status(crmm_allocate(pool, stream, sizes[i], 256, &refused),
                          CRMM_ERROR_OUT_OF_MEMORY);
            calls = cudart_emulated_calls(NULL) - calls;
            taken = cudart_emulated_calls("cuMemCreate") - taken;
            cr_assert(calls <= 50 && taken <= 2, "style %zu: %llu calls for %zu bytes", style,
                      calls, sizes[i]);
            expect_equal(info_of(pool).held, held);
        }
        cudart_emulated_usage(0, &usage);
        cr_assert(usage.peak_physical <= 64 * MIB, "%zu", usage.peak_physical);
        crmm_deallocate(pool, stream, live, 40 * MIB, 256);
        crmm_resource_release(&pool);
        cuda(cudaStreamDestroy(stream));
    }
    crmm_resource *refused = NULL;
    unsigned long long calls = cudart_emulated_calls(NULL);
    expect_status(crmm_pool_memory_resource_create(
                      vmm, CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = 2048 * MIB),
                      &refused),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(refused == NULL && cudart_emulated_calls(NULL) - calls <= 20);
    crmm_resource_release(&vmm);
}

/* What the driver keeps for memory pools is there, though it does not count as free. */
Test(emulation_pool_memory_resource, memory_that_the_driver_keeps_can_be_had)
{
    cudaMemPool_t kept = NULL;
    uint64_t all = UINT64_MAX;
    crmm_resource *vmm = make_vmm();
    cudaStream_t stream = make_stream();
    void *ptr = NULL;

    cudart_emulated_set_memory(0, 256 * MIB);
    cuda(cudaDeviceGetDefaultMemPool(&kept, 0));
    cuda(cudaMemPoolSetAttribute(kept, cudaMemPoolAttrReleaseThreshold, &all));
    cuda(cudaMallocAsync(&ptr, 128 * MIB, stream));
    cuda(cudaFreeAsync(ptr, stream));
    cuda(cudaStreamSynchronize(stream));
    crmm_resource *pool = make_pool(vmm, .handle_size = 2 * MIB);
    unsigned long long taken = cudart_emulated_calls("cuMemCreate");
    ptr = take(pool, stream, 200 * MIB);
    expect_equal(cudart_emulated_calls("cuMemCreate") - taken, 100 + 1);
    crmm_deallocate(pool, stream, ptr, 200 * MIB, 256);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* A failing question about the stream is a failed request too, of so many bytes. */
Test(emulation_pool_memory_resource,
     a_stream_that_cannot_be_asked_about_fails_a_request_of_its_size)
{
    static const size_t sizes[] = {1000, 5 * MIB + 1};

    for (size_t validate = 0; validate <= 1; validate++) {
        crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .validate = validate);
        cudaStream_t stream = make_stream();
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            void *ptr = NULL;
            cudart_emulated_fail("cuStreamIsCapturing", 1, 1, cudaErrorIllegalAddress);
            expect_status(crmm_allocate(pool, stream, sizes[i], 256, &ptr), CRMM_ERROR_CUDA);
            expect_equal(crmm_last_error()->requested_bytes, sizes[i]);
            expect_message(i == 0 ? "no 1000 bytes: " : "no 5242881 bytes: ");
            expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
            cudart_emulated_clear_faults();
        }
        cuda(cudaStreamDestroy(stream));
        crmm_resource_release(&pool);
    }
}

/* User report 6: managed memory may exceed the device: no maximum means none. */
Test(emulation_pool_memory_resource, without_a_maximum_managed_memory_exceeds_the_device)
{
    cudart_emulated_set_memory(0, 64 * MIB);
    crmm_resource *pool = make_pool(crmm_managed_memory_resource(), .tight = 0);
    void *ptr = take(pool, NULL, 128 * MIB);

    crmm_deallocate(pool, NULL, ptr, 128 * MIB, 256);
    crmm_resource_release(&pool);
}

/* User report 26: a share of the device that is left to others: the pool keeps to it. */
Test(emulation_pool_memory_resource, leaves_others_what_its_maximum_leaves)
{
    size_t maximum = 0;
    void *refused = NULL;

    cudart_emulated_set_memory(0, 64 * MIB);
    expect_success(crmm_size_from_text("leave=8MiB", &maximum));
    cr_assert(maximum <= 56 * MIB && maximum >= 48 * MIB);
    maximum -= maximum % (2 * MIB);
    crmm_resource *pool = make_pool(NULL, .maximum_pool_size = maximum, .handle_size = 2 * MIB);
    void *ptr = take(pool, NULL, maximum);
    expect_status(crmm_allocate(pool, NULL, 256, 256, &refused), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(info_of(crmm_resource_upstream(pool)).peak_held, maximum);
    crmm_deallocate(pool, NULL, ptr, maximum, 256);
    crmm_resource_release(&pool);
}

/* ---- events ---- */

/* Events that were made and not destroyed: the emulation's, of the whole process. */
static unsigned long long live_events(void)
{
    return cudart_emulated_calls("cudaEventCreateWithFlags") -
           cudart_emulated_calls("cudaEventDestroy");
}

enum { PAIRS = 10000, EVENTS_OF_A_STREAM = 16 };

/* User report 49: events are made for reuse, not for each free, nor for each that is recorded. */
Test(emulation_pool_memory_resource, a_stream_has_a_few_events_for_life)
{
    for (size_t streams = 1; streams <= 2; streams++) {
        crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
        cudaStream_t on[2] = {make_stream(), make_stream()};
        unsigned long long made = cudart_emulated_calls("cudaEventCreateWithFlags");

        for (size_t i = 0; i < PAIRS; i++) {
            cudaStream_t stream = on[i / 3 % streams];
            size_t bytes = i % 2 == 0 ? 2 * MIB : 70 * KIB;
            void *ptr = take(pool, stream, bytes);
            crmm_deallocate(pool, stream, ptr, bytes, 256);
            cr_assert(live_events() <= streams * EVENTS_OF_A_STREAM, "%llu", live_events());
        }
        made = cudart_emulated_calls("cudaEventCreateWithFlags") - made;
        cr_assert(made > 0 && made <= streams * EVENTS_OF_A_STREAM, "%llu events", made);
        uint64_t records = statistics_of(pool).records;
        cr_assert(records >= made && records <= PAIRS / 4, "%zu", (size_t)records);
        crmm_resource_release(&pool);
        expect_equal(live_events(), 0);
        cuda(cudaStreamDestroy(on[0]));
        cuda(cudaStreamDestroy(on[1]));
    }
}

/* Nor do those of streams that are gone stay, however many there were. */
Test(emulation_pool_memory_resource, streams_that_are_gone_leave_few_events)
{
    enum { STREAMS_IN_ALL = 1000, KNOWN = 64, EACH = 2 };
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);

    for (size_t i = 0; i < STREAMS_IN_ALL; i++) {
        cudaStream_t stream = make_stream();
        void *ptr = take(pool, stream, 2 * MIB);
        crmm_deallocate(pool, stream, ptr, 2 * MIB, 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
        cuda(cudaStreamDestroy(stream));
        cr_assert(live_events() <= KNOWN * EACH, "%llu", live_events());
    }
    cr_assert(live_events() > 0 && statistics_of(pool).streams <= KNOWN);
    crmm_resource_release(&pool);
    expect_equal(live_events(), 0);
}

/* ---- a handle that is used again ---- */

typedef struct freer {
    crmm_resource *pool;
    sem_t may_go, is_done;
    cudaStream_t stream;
    void *block; /* NULL: that is all */
} freer;

enum { FREED = 64 << 10 /* bytes */ };

static void *give_back_only(void *user_data)
{
    freer *self = user_data;

    for (;;) {
        cr_assert(sem_wait(&self->may_go) == 0);
        if (self->block == NULL) {
            return NULL;
        }
        crmm_deallocate(self->pool, self->stream, self->block, FREED, 256);
        cr_assert(sem_post(&self->is_done) == 0);
    }
}

static void give_to(freer *other, void *freed)
{
    other->block = freed;
    cr_assert(sem_post(&other->may_go) == 0);
    if (freed != NULL) {
        cr_assert(sem_wait(&other->is_done) == 0);
    }
}

/* A thread that knows it as that of a stream which is gone, and only gives back on the new one,
 * does not take it for the old one for ever: what it gives back can be had. */
Test(emulation_pool_memory_resource, a_thread_learns_that_a_handle_is_another_streams)
{
    enum { BLOCKS = 20000 };
    crmm_resource *upstream = make_vmm();
    crmm_resource *pool = make_pool(upstream, .tight = 0);
    freer other = {.pool = pool, .stream = make_stream()};
    pthread_t thread;

    cudart_emulated_set_option("reuse_handles", 1);
    cr_assert(sem_init(&other.may_go, 0, 0) == 0 && sem_init(&other.is_done, 0, 0) == 0);
    cr_assert(pthread_create(&thread, NULL, give_back_only, &other) == 0);
    give_to(&other, take(pool, other.stream, FREED));
    cuda(cudaStreamDestroy(other.stream));
    cudaStream_t stream = make_stream();
    cr_assert(stream == other.stream);
    for (size_t i = 0; i < BLOCKS; i++) {
        give_to(&other, take(pool, stream, FREED));
    }
    cr_assert(info_of(pool).held <= 64 * MIB, "%zu bytes", info_of(pool).held);
    give_to(&other, NULL);
    cr_assert(pthread_join(thread, NULL) == 0);
    cr_assert(sem_destroy(&other.may_go) == 0 && sem_destroy(&other.is_done) == 0);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&upstream);
}
