/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads at once, each with memory of its own: for ThreadSanitizer, and for no report. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 1500

static cudaEvent_t shared[THREADS];

struct worker {
    int number;
    int failures;
    int called;
    pthread_t thread;
    unsigned state;
};

static unsigned pick(struct worker *w, unsigned bound)
{
    w->state = w->state * 1103515245u + 12345u;
    return (w->state >> 16) % bound;
}

static void expect(struct worker *w, cudaError_t err)
{
    w->failures += err != cudaSuccess;
}

static void count(void *called)
{
    __atomic_add_fetch((int *)called, 1, __ATOMIC_SEQ_CST);
}

struct memory {
    void *device, *pinned, *managed, *own, *pooled;
};

static void one(struct worker *w, cudaStream_t s, struct memory *m)
{
    cudaError_t err;
    unsigned char byte;
    switch (pick(w, 12)) {
    case 0:
        expect(w, cudaMemsetAsync(m->device, 1, 4096, s));
        break;
    case 1:
        expect(w, cudaMemcpyAsync(m->pinned, m->device, 64, cudaMemcpyDeviceToHost, s));
        break;
    case 2:
        expect(w, cudaMemcpyAsync(m->device, m->managed, 64, cudaMemcpyDefault, s));
        break;
    case 3:
        expect(w, cudaEventRecord(shared[w->number], s));
        break;
    case 4:
        expect(w, cudaStreamWaitEvent(s, shared[pick(w, THREADS)], 0));
        break;
    case 5:
        err = cudaEventQuery(shared[pick(w, THREADS)]);
        w->failures += err != cudaSuccess && err != cudaErrorNotReady;
        break;
    case 6:
        expect(w, cudaLaunchHostFunc(s, count, &w->called));
        break;
    case 7:
        expect(w, cudaFreeAsync(m->pooled, s));
        expect(w, cudaMallocAsync(&m->pooled, 1 + pick(w, 1 << 20), s));
        break;
    case 8:
        expect(w, cudaMemcpyAsync(&byte, m->device, 1, cudaMemcpyDeviceToHost, s));
        break;
    case 9:
        expect(w, cudaFree(m->device));
        expect(w, cudaMalloc(&m->device, 4096 + pick(w, 1 << 20)));
        break;
    case 10:
        expect(w, cudaMemsetAsync(m->own, 1, 64, cudaStreamPerThread));
        expect(w, cudaStreamSynchronize(cudaStreamPerThread));
        break;
    default:
        expect(w, cudaStreamSynchronize(s));
    }
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct memory m;
    cudaStream_t s;
    expect(w, cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    expect(w, cudaMalloc(&m.device, 8192));
    expect(w, cudaMallocHost(&m.pinned, 64));
    expect(w, cudaMallocManaged(&m.managed, 64, cudaMemAttachGlobal));
    expect(w, cudaMallocManaged(&m.own, 64, cudaMemAttachGlobal));
    expect(w, cudaMallocAsync(&m.pooled, 64, s));
    for (int i = 0; i < ROUNDS; i++) {
        one(w, s, &m);
        if (i % 100 == 99) { /* the stream goes, its work stays */
            expect(w, cudaStreamSynchronize(s));
            expect(w, cudaStreamDestroy(s));
            expect(w, cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        }
    }
    expect(w, cudaStreamSynchronize(s));
    expect(w, cudaFreeAsync(m.pooled, s));
    expect(w, cudaStreamSynchronize(s));
    expect(w, cudaFree(m.device));
    expect(w, cudaFree(m.managed));
    expect(w, cudaFree(m.own));
    expect(w, cudaFreeHost(m.pinned));
    expect(w, cudaStreamDestroy(s));
    return NULL;
}

static void run(unsigned seed, unsigned host_threads)
{
    struct worker workers[THREADS];
    cudart_emulated_reset();
    cudart_emulated_set_seed(seed);
    cudart_emulated_set_option("host_threads", host_threads);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(cudaEventCreateWithFlags(&shared[i], cudaEventDisableTiming));
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.number = i, .state = seed * 7 + (unsigned)i};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        CHECK(workers[i].failures == 0);
    }
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(cudart_emulated_pending() == 0);
    CHECK(cudart_emulated_violations() == 0);
}

struct unregistering {
    void *ptr;
    cudaError_t err;
    pthread_t thread;
};

static void *unregister(void *argument)
{
    struct unregistering *u = argument;
    u->err = cudaHostUnregister(u->ptr);
    return NULL;
}

static void wait_until_set(void *gate)
{
    while (__atomic_load_n((int *)gate, __ATOMIC_SEQ_CST) == 0) {
        usleep(1000);
    }
}

/* Both wait for the device, which gives the lock up; only one finds the memory afterwards. */
static void test_unregistered_twice(void)
{
    static unsigned char bytes[4096];
    struct unregistering both[2] = {{.ptr = bytes}, {.ptr = bytes}};
    int gate = 0;
    cudaStream_t s;
    cudart_emulated_reset();
    cudart_emulated_set_option("host_free_waits", 1);
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaHostRegister(bytes, sizeof bytes, 0));
    CHECK_OK(cudaLaunchHostFunc(s, wait_until_set, &gate));
    for (int i = 0; i < 2; i++) {
        pthread_create(&both[i].thread, NULL, unregister, &both[i]);
    }
    usleep(50000); /* both will be waiting; were one late, the test would only say less */
    __atomic_store_n(&gate, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) {
        pthread_join(both[i].thread, NULL);
    }
    CHECK((both[0].err == cudaSuccess) != (both[1].err == cudaSuccess));
    CHECK((both[0].err == cudaErrorHostMemoryNotRegistered) !=
          (both[1].err == cudaErrorHostMemoryNotRegistered));
    cudart_emulated_reset();
}

int main(void)
{
    test_unregistered_twice();
    for (unsigned seed = 0; seed < 4; seed++) {
        run(seed, seed % 2);
    }
    struct cudart_emulated_usage usage;
    CHECK(cudart_emulated_usage(0, &usage) == 0 && usage.allocated == 0);
    return check_result();
}
