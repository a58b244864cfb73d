/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, memory and errors, as a program sees them. */
#include "check.h"

#include <cuda.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void test_memory(void)
{
    void *p = (void *)0x1234;
    struct cudaPointerAttributes a;
    CHECK_OK(cudaMalloc(&p, 1 << 20));
    CHECK((uintptr_t)p % 512 == 0);
    CHECK_OK(cudaPointerGetAttributes(&a, (char *)p + 100));
    CHECK(a.type == cudaMemoryTypeDevice && a.device == 0 && a.hostPointer == NULL);
    CHECK(cudaFree((char *)p + 256) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK_OK(cudaFree(p));
    CHECK(cudaFree(p) == cudaErrorInvalidValue);
    CHECK(cudaMalloc(&p, (size_t)1 << 50) == cudaErrorMemoryAllocation);
    CHECK(p == NULL);
    CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaSuccess);
    p = (void *)0x1234;
    CHECK_OK(cudaMalloc(&p, 0));
    CHECK(p == NULL);
    CHECK_OK(cudaFree(NULL));
}

static void test_copies(void)
{
    enum { N = 5000 };
    unsigned char in[N], out[N];
    void *d, *pinned, *managed;
    cudaStream_t s;
    memset(in, 7, sizeof in);
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaMalloc(&d, N));
    CHECK_OK(cudaMallocHost(&pinned, N));
    CHECK_OK(cudaMallocManaged(&managed, N, cudaMemAttachGlobal));
    CHECK_OK(cudaMemcpyAsync(d, in, N, cudaMemcpyHostToDevice, s));
    memset(in, 9, sizeof in);
    memset(pinned, 0, N);
    CHECK_OK(cudaMemcpyAsync(pinned, d, N, cudaMemcpyDeviceToHost, s));
    CHECK(((unsigned char *)pinned)[0] == 0);
    CHECK(cudart_emulated_pending() == 2);
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(((unsigned char *)pinned)[N - 1] == 7);
    CHECK_OK(cudaMemsetAsync(managed, 3, N, s));
    CHECK_OK(cudaMemcpyAsync(out, managed, N, cudaMemcpyDefault, s));
    CHECK(out[17] == 3);
    CHECK(cudaMemset((char *)d + 1, 0, N) == cudaErrorInvalidValue);
    CHECK(cudaMemset((char *)d + 512, 0, N) == cudaErrorInvalidValue);
    CHECK_OK(cudart_emulated_host_read(out, d, N));
    CHECK(out[N - 1] == 7);
    CHECK_OK(cudaFree(d));
    CHECK_OK(cudaFree(managed));
    CHECK_OK(cudaFreeHost(pinned));
    CHECK_OK(cudaStreamDestroy(s));
    cudaGetLastError();
}

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool entered, open;
};

static void gate_function(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static bool entered(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool value = gate->entered;
    pthread_mutex_unlock(&gate->lock);
    return value;
}

static void gate_close(struct gate *gate, cudaStream_t s)
{
    *gate = (struct gate){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    CHECK_OK(cudaLaunchHostFunc(s, gate_function, gate));
    while (!entered(gate)) {
        CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
        usleep(100);
    }
}

static void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void test_order(void)
{
    cudaStream_t a, b, c;
    cudaEvent_t e, f;
    struct gate gate;
    CHECK_OK(cudaStreamCreate(&a));
    CHECK_OK(cudaStreamCreate(&b));
    CHECK_OK(cudaStreamCreateWithFlags(&c, cudaStreamNonBlocking));
    CHECK_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK_OK(cudaEventCreateWithFlags(&f, cudaEventDisableTiming));
    gate_close(&gate, a);
    CHECK_OK(cudaEventRecord(e, b));
    CHECK_OK(cudaEventQuery(e));
    CHECK_OK(cudaEventRecord(e, c));
    CHECK_OK(cudaEventQuery(e));
    CHECK_OK(cudaEventRecord(e, 0));
    CHECK(cudaEventQuery(e) == cudaErrorNotReady);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK_OK(cudaEventRecord(f, b));
    CHECK(cudaEventQuery(f) == cudaErrorNotReady);
    CHECK_OK(cudaStreamWaitEvent(c, e, 0));
    CHECK(cudaStreamQuery(c) == cudaErrorNotReady);
    CHECK_OK(cudaEventDestroy(e));
    CHECK(cudaStreamQuery(c) == cudaErrorNotReady);
    CHECK_OK(cudaStreamDestroy(c));
    gate_open(&gate);
    CHECK_OK(cudaEventSynchronize(f));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(cudart_emulated_pending() == 0);
    CHECK_OK(cudaStreamDestroy(a));
    CHECK_OK(cudaStreamDestroy(b));
    CHECK_OK(cudaEventDestroy(f));
}

static void test_capture(void)
{
    cudaStream_t s;
    cudaGraph_t graph = NULL;
    enum cudaStreamCaptureStatus status;
    unsigned long long id;
    void *p, *q;
    size_t count = 0;
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaMalloc(&p, 64));
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK_OK(cudaMemsetAsync(p, 1, 64, s));
    CHECK_OK(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    CHECK_OK(cudaStreamEndCapture(s, &graph));
    CHECK_OK(cudaGraphGetNodes(graph, NULL, &count));
    CHECK(count == 1);
    CHECK_OK(cudaGraphDestroy(graph));
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK(cudaMalloc(&q, 64) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == NULL);
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    CHECK(cudaStreamGetId(s, &id) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK_OK(cudaStreamGetId(s, &id));
    CHECK_OK(cudaStreamDestroy(s));
    CHECK_OK(cudaFree(p));
    cudaGetLastError();
}

static void test_driver(void)
{
    enum cudaDriverEntryPointQueryResult result;
    __typeof__(cuStreamGetId) *get_id;
    void *f;
    unsigned long long a, b;
    CHECK_OK(cudaGetDriverEntryPoint("cuStreamGetId", &f, cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSuccess);
    memcpy(&get_id, &f, sizeof f);
    CHECK(get_id(NULL, &a) == CUDA_SUCCESS);
    CHECK_OK(cudaStreamGetId(cudaStreamLegacy, &b));
    CHECK(a == b);
    CHECK_OK(cudaStreamGetId(cudaStreamPerThread, &b));
    CHECK(a != b);
    CHECK_OK(cudaGetDriverEntryPoint("cuNothing", &f, cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSymbolNotFound && f == NULL);
}

static void test_faults(void)
{
    void *p;
    unsigned long long before = cudart_emulated_calls("cudaMalloc");
    CHECK(cudart_emulated_fail("cudaMalloc", 2, 1, cudaErrorMemoryAllocation) == 0);
    CHECK_OK(cudaMalloc(&p, 64));
    CHECK_OK(cudaFree(p));
    CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
    CHECK_OK(cudaMalloc(&p, 64));
    CHECK_OK(cudaFree(p));
    CHECK(cudart_emulated_calls("cudaMalloc") == before + 3);
    CHECK(cudart_emulated_fail("cudaNothing", 1, 1, cudaErrorUnknown) == -1);
    cudart_emulated_clear_faults();
    cudaGetLastError();
}

int main(void)
{
    test_memory();
    test_copies();
    test_order();
    test_capture();
    test_driver();
    test_faults();
    CHECK(cudart_emulated_violations() == 0);
    struct cudart_emulated_usage usage;
    CHECK(cudart_emulated_usage(0, &usage) == 0);
    CHECK(usage.allocated == 0 && usage.peak_allocated >= 1 << 20);
    cudart_emulated_reset();
    test_copies();
    return check_result();
}
