/* SPDX-License-Identifier: Apache-2.0 */
/* Operations queued and run, and blocks allocated and freed, in millions for each second. */
#include "check.h"

#include <time.h>

#define COUNT 500000

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void measure(const char *name, void (*one)(cudaStream_t, void *), cudaStream_t s, void *p)
{
    double start = now();
    for (int i = 0; i < COUNT; i++) {
        one(s, p);
        if (i % 1000 == 999) {
            CHECK_OK(cudaStreamSynchronize(s));
        }
    }
    printf("%-24s %6.2f\n", name, COUNT / (now() - start) * 1e-6);
}

static void set(cudaStream_t s, void *p)
{
    cudaMemsetAsync(p, 1, 64, s);
}

static void copy(cudaStream_t s, void *p)
{
    cudaMemcpyAsync(p, (char *)p + 64, 64, cudaMemcpyDeviceToDevice, s);
}

static cudaEvent_t event;

static void record_and_wait(cudaStream_t s, void *p)
{
    (void)p;
    cudaEventRecord(event, s);
    cudaStreamWaitEvent(s, event, 0);
}

static void block(cudaStream_t s, void *p)
{
    (void)s;
    cudaMalloc(&p, 1 << 20);
    cudaFree(p);
}

static void pool_block(cudaStream_t s, void *p)
{
    cudaMallocAsync(&p, 1 << 20, s);
    cudaFreeAsync(p, s);
}

int main(void)
{
    cudaStream_t s;
    void *p;
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK_OK(cudaMalloc(&p, 4096));
    for (unsigned checker = 0; checker < 2; checker++) {
        cudart_emulated_set_option("checker", checker);
        printf("checker %s\n", checker ? "on" : "off");
        measure("memset", set, s, p);
        measure("copy", copy, s, p);
        measure("record and wait", record_and_wait, s, p);
        measure("cudaMalloc and cudaFree", block, s, p);
        measure("pool block", pool_block, s, p);
    }
    return check_result();
}
