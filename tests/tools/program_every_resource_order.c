/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every resource under threads with several streams each, default ones among them, that hand blocks
 * to each other, whichever device is current: no two accesses race, and nobody's bytes change. The
 * emulation runs streams in an order that a seed chooses, and finds any access that nothing orders.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>

#include <cuda_runtime_api.h>

#include "every_resource.h"
#include "random_numbers.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { THREADS = 3, OWN_STREAMS = 2, STREAMS = OWN_STREAMS + 2 };
enum { SEEDS = 6, STEPS = 300, SLOTS = 20, MOST = 16 << 10 };

static const char *subject = "nothing";
static int device_count;

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_every_resource_order: %s: %s (%s, %s)\n", subject, what,
                      crmm_last_error()->message, cudaGetErrorName(cudaPeekAtLastError()));
        _Exit(1);
    }
}

static void cuda(cudaError_t error)
{
    check(error == cudaSuccess, cudaGetErrorString(error));
}

/* ---- blocks that any thread may use and give back ---- */

typedef struct slot {
    pthread_mutex_t mutex;
    unsigned char *ptr;
    size_t bytes;
    unsigned char mark;
    cudaEvent_t used; /* behind the last use */
} slot;

typedef struct run {
    crmm_resource *mr;
    bool is_device; /* streams can use the memory, else only the host */
    slot slots[SLOTS];
    uint64_t seed;
    unsigned threads;
} run;

typedef struct actor {
    run *of;
    uint64_t random;
    crmm_stream streams[STREAMS];
    unsigned char bytes[MOST];
} actor;

static bool is_stream_ordered(const actor *own)
{
    return crmm_resource_has(own->of->mr, CRMM_STREAM_ORDERED);
}

/* Before a call of a resource that belongs to a device, or that needs to know none. */
static void enter_any_device(actor *own, bool needs_none)
{
    if (needs_none || crmm_resource_device(own->of->mr) >= 0) {
        cuda(cudaSetDevice((int)random_below(&own->random, (uint64_t)device_count)));
    }
}

static void fill(const actor *own, slot *at, crmm_stream stream)
{
    if (own->of->is_device) {
        cuda(cudaMemsetAsync(at->ptr, at->mark, at->bytes, stream));
        cuda(cudaEventRecord(at->used, stream));
    } else {
        memset(at->ptr, at->mark, at->bytes);
    }
}

/* All bytes are as they were filled, once the stream has come so far. */
static void look(actor *own, const slot *at, crmm_stream stream)
{
    const unsigned char *bytes = at->ptr;

    if (own->of->is_device) {
        cuda(cudaMemcpyAsync(own->bytes, at->ptr, at->bytes, cudaMemcpyDefault, stream));
        cuda(cudaStreamSynchronize(stream));
        bytes = own->bytes;
    }
    for (size_t i = 0; i < at->bytes; i++) {
        check(bytes[i] == at->mark, "a block is not as it was filled");
    }
}

static void take(actor *own, slot *at, crmm_stream stream)
{
    bool is_sync = !is_stream_ordered(own) || random_below(&own->random, 8) == 0;
    void *ptr = NULL;

    at->bytes = 1 + random_below(&own->random, MOST);
    at->mark = (unsigned char)random_next(&own->random);
    enter_any_device(own, false);
    crmm_status status = is_sync ? crmm_allocate_sync(own->of->mr, at->bytes, 256, &ptr)
                                 : crmm_allocate(own->of->mr, stream, at->bytes, 256, &ptr);
    cuda(cudaSetDevice(0));
    check(status == CRMM_SUCCESS, "no memory");
    at->ptr = ptr;
    fill(own, at, stream);
}

/* The one who gives a block back has other streams than the one who filled it, and orders them. */
static void give(actor *own, slot *at, crmm_stream stream)
{
    bool is_sync = !is_stream_ordered(own) || random_below(&own->random, 8) == 0;

    if (own->of->is_device) {
        cuda(cudaStreamWaitEvent(stream, at->used, 0));
    }
    if (random_below(&own->random, 4) == 0) {
        look(own, at, stream);
    }
    at->mark = (unsigned char)~at->mark;
    fill(own, at, stream);
    if (is_sync && own->of->is_device) {
        cuda(cudaStreamSynchronize(stream));
    }
    enter_any_device(own, stream != NULL && stream != CRMM_STREAM_PER_THREAD);
    if (is_sync) {
        crmm_deallocate_sync(own->of->mr, at->ptr, at->bytes, 256);
    } else {
        crmm_deallocate(own->of->mr, stream, at->ptr, at->bytes, 256);
    }
    cuda(cudaSetDevice(0));
    at->ptr = NULL;
}

static void *act(void *data)
{
    run *of = data;
    actor own = {.of = of, .streams = {NULL, NULL, NULL, CRMM_STREAM_PER_THREAD}};

    own.random = of->seed * THREADS + __atomic_fetch_add(&of->threads, 1, __ATOMIC_RELAXED);
    cuda(cudaSetDevice(0));
    for (int i = 0; i < OWN_STREAMS; i++) {
        cuda(cudaStreamCreateWithFlags(&own.streams[i],
                                       i == 0 ? cudaStreamNonBlocking : cudaStreamDefault));
    }
    for (int i = 0; i < STEPS; i++) {
        slot *at = &of->slots[random_below(&own.random, SLOTS)];
        crmm_stream stream = own.streams[random_below(&own.random, STREAMS)];
        pthread_mutex_lock(&at->mutex);
        if (at->ptr == NULL) {
            take(&own, at, stream);
        } else {
            give(&own, at, stream);
        }
        pthread_mutex_unlock(&at->mutex);
    }
    for (int i = 0; i < OWN_STREAMS; i++) {
        cuda(cudaStreamDestroy(own.streams[i]));
    }
    return NULL;
}

/* ---- a thread that ends ---- */

typedef struct visit {
    crmm_resource *mr;
    unsigned long long calls;
    crmm_status status;
} visit;

static unsigned long long count_calls(void)
{
#ifdef CUDART_EMULATED
    return cudart_emulated_calls(NULL);
#else
    return 0; /* not known */
#endif
}

static void *use_once(void *data)
{
    visit *own = data;
    void *ptr = NULL;

    if (crmm_resource_has(own->mr, CRMM_STREAM_ORDERED)) {
        own->status = crmm_allocate(own->mr, CRMM_STREAM_PER_THREAD, 1000, 256, &ptr);
        crmm_deallocate(own->mr, CRMM_STREAM_PER_THREAD, ptr, 1000, 256);
    } else {
        own->status = crmm_allocate_sync(own->mr, 1000, 256, &ptr);
        crmm_deallocate_sync(own->mr, ptr, 1000, 256);
    }
    own->calls = count_calls();
    return NULL;
}

/* User report 30: CUDA was called when a thread had ended, and then there was none. */
static void end_a_thread(crmm_resource *mr)
{
    visit own = {.mr = mr};
    pthread_t thread;

    check(pthread_create(&thread, NULL, use_once, &own) == 0, "no thread");
    check(pthread_join(thread, NULL) == 0, "no end");
    check(own.status == CRMM_SUCCESS, "no memory");
    check(count_calls() == own.calls, "CUDA is called when a thread ends");
}

/* ---- the runs ---- */

static void start(run *of, crmm_resource *mr, uint64_t seed)
{
    *of = (run){.mr = mr, .seed = seed, .is_device = crmm_resource_has(mr, CRMM_DEVICE_ACCESSIBLE)};
    for (int i = 0; i < SLOTS; i++) {
        check(pthread_mutex_init(&of->slots[i].mutex, NULL) == 0, "no mutex");
        cuda(cudaEventCreateWithFlags(&of->slots[i].used, cudaEventDisableTiming));
    }
}

static void finish(run *of)
{
    cuda(cudaDeviceSynchronize());
    for (int i = 0; i < SLOTS; i++) {
        crmm_deallocate_sync(of->mr, of->slots[i].ptr, of->slots[i].bytes, 256);
        cuda(cudaEventDestroy(of->slots[i].used));
        (void)pthread_mutex_destroy(&of->slots[i].mutex);
    }
}

static void exercise(crmm_resource *mr, uint64_t seed)
{
    static run of;
    pthread_t threads[THREADS];

    start(&of, mr, seed);
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, act, &of) == 0, "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "no end");
    }
    finish(&of);
}

static void run_row(const row *of, uint64_t seed)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_resource *mr = NULL;
    char why[48] = "";
    uint64_t found = crmm_misuse_count();

    subject = of->name;
#ifdef CUDART_EMULATED
    cudart_emulated_set_seed(seed);
#endif
    check(every_resource_make(of, &mr, why) == CRMM_SUCCESS, "it cannot be made");
    if (mr == NULL) {
        return;
    }
    exercise(mr, seed);
    end_a_thread(mr);
    if (crmm_resource_info(mr, &info) == CRMM_SUCCESS) {
        check(info.live == 0, "what came back is still counted");
    }
    crmm_resource_release(&mr);
    check(crmm_misuse_count() == found, "misuse is reported");
    check(cudaGetLastError() == cudaSuccess, "an error is pending");
#ifdef CUDART_EMULATED
    if (cudart_emulated_violations() != 0) {
        check(false, cudart_emulated_violation(0));
    }
#endif
}

int main(void)
{
    every_resource_set_up();
    if (cudaGetDeviceCount(&device_count) != cudaSuccess || device_count == 0) {
        check(getenv("CRMM_TEST_REQUIRE_GPU") == NULL, "no device");
        return 77;
    }
    for (size_t i = 0; i < row_count; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            run_row(&rows[i], seed);
        }
    }
    return 0;
}
