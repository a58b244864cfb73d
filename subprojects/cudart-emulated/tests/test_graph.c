/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs under many orders: what they order, what they do not, and what outlives what. */
#include "check.h"

#include <string.h>

#define BYTES 256
#define SEEDS 40

static cudaStream_t s, t;
static cudaEvent_t e;
static unsigned char *a, *b, *c;

static void start(unsigned seed)
{
    void *p[3];
    cudart_emulated_reset();
    cudart_emulated_set_option("quiet", 1);
    cudart_emulated_set_seed(seed);
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    CHECK_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cudaMalloc(&p[i], BYTES));
    }
    a = p[0];
    b = p[1];
    c = p[2];
}

/* On s: a; on t: whatever the second branch writes; then both are read on s. */
static cudaGraphExec_t forked(unsigned char *second, bool join)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    CHECK_OK(cudaEventRecord(e, s));
    CHECK_OK(cudaStreamWaitEvent(t, e, 0));
    CHECK_OK(cudaMemsetAsync(a, 1, BYTES, s));
    CHECK_OK(cudaMemsetAsync(second, 2, BYTES, t));
    CHECK_OK(cudaEventRecord(e, t));
    if (join) {
        CHECK_OK(cudaStreamWaitEvent(s, e, 0));
    }
    CHECK_OK(cudaMemcpyAsync(c, a, BYTES / 2, cudaMemcpyDeviceToDevice, s));
    CHECK_OK(cudaMemcpyAsync(c + BYTES / 2, second, BYTES / 2, cudaMemcpyDeviceToDevice, s));
    if (!join) {
        CHECK_OK(cudaStreamWaitEvent(s, e, 0));
    }
    CHECK_OK(cudaStreamEndCapture(s, &graph));
    CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_OK(cudaGraphDestroy(graph));
    return exec;
}

static bool race(void)
{
    const char *text = cudart_emulated_violation(0);
    return text != NULL && strncmp(text, "race", 4) == 0;
}

static void test_fork_join(unsigned seed)
{
    unsigned char bytes[BYTES];
    start(seed);
    cudaGraphExec_t exec = forked(b, true);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cudaMemsetAsync(c, 9, BYTES, s));
        CHECK_OK(cudaGraphLaunch(exec, s));
    }
    CHECK_OK(cudaGraphLaunch(exec, t)); /* after the launch before, on another stream */
    CHECK_OK(cudaGraphExecDestroy(exec));
    CHECK_OK(cudaStreamSynchronize(t));
    CHECK_OK(cudart_emulated_host_read(bytes, c, BYTES));
    CHECK(bytes[0] == 1 && bytes[BYTES - 1] == 2);
    CHECK(cudart_emulated_violations() == 0);
}

static void test_branches_conflict(unsigned seed)
{
    start(seed);
    cudaGraphExec_t exec = forked(a, true);
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(race());
    start(seed);
    exec = forked(b, false);
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(race());
}

static void test_others(unsigned seed)
{
    start(seed);
    cudaGraphExec_t exec = forked(b, true);
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaMemsetAsync(b, 3, BYTES, s));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(cudart_emulated_violations() == 0);
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaMemsetAsync(b, 3, BYTES, t));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(race());
}

static void test_allocation(unsigned seed)
{
    void *p = NULL, *h;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    struct cudart_emulated_usage usage;
    start(seed);
    CHECK_OK(cudaMallocHost(&h, BYTES));
    memset(h, 0, BYTES);
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(cudaMallocAsync(&p, BYTES, s));
    CHECK_OK(cudaMemsetAsync(p, 6, BYTES, s));
    CHECK_OK(cudaMemcpyAsync(h, p, BYTES, cudaMemcpyDeviceToHost, s));
    CHECK_OK(cudaFreeAsync(p, s));
    CHECK_OK(cudaStreamEndCapture(s, &graph));
    CHECK_OK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaGraphLaunch(exec, s));
    CHECK_OK(cudaGraphExecDestroy(exec)); /* with both launches pending */
    CHECK_OK(cudaGraphDestroy(graph));
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(((unsigned char *)h)[BYTES - 1] == 6);
    CHECK(cudart_emulated_violations() == 0);
    CHECK(cudart_emulated_usage(0, &usage) == 0);
    CHECK(usage.physical == 3 * BYTES && usage.peak_physical > 3 * BYTES);
}

int main(void)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        test_fork_join(seed);
        test_branches_conflict(seed);
        test_others(seed);
        test_allocation(seed);
    }
    return check_result();
}
