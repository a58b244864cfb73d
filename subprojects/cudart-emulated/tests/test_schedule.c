/* SPDX-License-Identifier: Apache-2.0 */
/* A seed chooses an order among the legal ones, the same each time. */
#include "check.h"

#include <string.h>
#include <unistd.h>

#define STREAMS 4
#define EACH 8
#define COUNT (STREAMS * EACH)

static char order[COUNT + 1];
static size_t used;

static void note(void *letter)
{
    if (used < COUNT) {
        order[used++] = *(const char *)letter;
    }
}

static const char letters[] = "abcdABCDefghEFGHijklIJKLmnopMNOP";

/* Stream by stream; the last of each waits for the first of the next. */
static void run(unsigned long long seed, bool host_functions, char *out)
{
    cudaStream_t s[STREAMS];
    cudaEvent_t e[STREAMS];
    used = 0;
    memset(order, 0, sizeof order);
    cudart_emulated_reset();
    cudart_emulated_set_seed(seed);
    for (int i = 0; i < STREAMS; i++) {
        CHECK_OK(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        CHECK_OK(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
    }
    for (int i = 0; i < STREAMS; i++) {
        for (int k = 0; k < EACH; k++) {
            void *arg;
            const char *at = &letters[i * EACH + k];
            memcpy(&arg, &at, sizeof arg);
            if (host_functions) {
                CHECK_OK(cudaLaunchHostFunc(s[i], note, arg));
            } else {
                CHECK_OK(cudart_emulated_kernel(s[i], NULL, 0, note, arg));
            }
            if (k == 0 && i > 0) {
                CHECK_OK(cudaEventRecord(e[i - 1], s[i - 1]));
                CHECK_OK(cudaStreamWaitEvent(s[i], e[i - 1], 0));
            }
            cudaStreamQuery(s[(i + k) % STREAMS]);
        }
    }
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(used == COUNT);
    memcpy(out, order, sizeof order);
}

static size_t place(const char *text, char letter)
{
    const char *found = strchr(text, letter);
    return found == NULL ? COUNT : (size_t)(found - text);
}

static bool legal(const char *text)
{
    for (int i = 0; i < COUNT; i++) {
        if (place(text, letters[i]) == COUNT) {
            return false;
        }
        if (i % EACH != 0 && place(text, letters[i - 1]) > place(text, letters[i])) {
            return false;
        }
        /* What follows the first of a stream comes after the stream before. */
        if (i % EACH == 1 && i > EACH && place(text, letters[i - 2]) > place(text, letters[i])) {
            return false;
        }
    }
    return true;
}

static void test_seeds(bool host_functions)
{
    static char texts[32][COUNT + 1];
    int different = 0;
    for (unsigned seed = 0; seed < 32; seed++) {
        char again[COUNT + 1];
        run(seed, host_functions, texts[seed]);
        CHECK(legal(texts[seed]));
        run(seed, host_functions, again);
        CHECK(memcmp(again, texts[seed], sizeof again) == 0);
        different += seed != 0 && memcmp(texts[seed], texts[0], sizeof again) != 0;
    }
    CHECK(different > 16);
}

static void hold(void *open)
{
    while (!__atomic_load_n((int *)open, __ATOMIC_SEQ_CST)) {
        usleep(500);
    }
}

static void set_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

/* With threads of their own, one host function does not hold another. */
static void test_host_threads(void)
{
    static int open, ran;
    cudaStream_t a, b;
    cudart_emulated_reset();
    cudart_emulated_set_option("host_threads", 1);
    CHECK_OK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK_OK(cudaLaunchHostFunc(a, hold, &open));
    CHECK(cudaStreamQuery(a) == cudaErrorNotReady);
    CHECK_OK(cudaLaunchHostFunc(b, set_flag, &ran));
    CHECK_OK(cudaStreamSynchronize(b));
    CHECK(__atomic_load_n(&ran, __ATOMIC_SEQ_CST));
    set_flag(&open);
    CHECK_OK(cudaDeviceSynchronize());
}

/* What was queued is done when a call has waited for it, and not before. */
static void test_idle_queries(void)
{
    cudaStream_t s;
    cudaEvent_t e;
    cudart_emulated_reset();
    cudart_emulated_set_option("idle_queries", 1);
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK_OK(cudart_emulated_kernel(s, NULL, 0, NULL, NULL));
    CHECK_OK(cudaEventRecord(e, s));
    CHECK(cudaEventQuery(e) == cudaErrorNotReady && cudaStreamQuery(s) == cudaErrorNotReady);
    CHECK_OK(cudaEventSynchronize(e));
    CHECK_OK(cudaEventQuery(e));
    CHECK_OK(cudaStreamQuery(s));
    cudart_emulated_set_option("idle_queries", 0);
    CHECK_OK(cudart_emulated_kernel(s, NULL, 0, NULL, NULL));
    CHECK_OK(cudaStreamQuery(s));
}

/* A full queue makes the next call wait. */
static void test_queue_depth(void)
{
    void *p;
    cudaStream_t s;
    cudart_emulated_reset();
    cudart_emulated_set_option("queue_depth", 10);
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_OK(cudaMalloc(&p, 64));
    for (int i = 0; i < 100; i++) {
        CHECK_OK(cudaMemsetAsync(p, i, 64, s));
        CHECK(cudart_emulated_pending() <= 10);
    }
    CHECK_OK(cudaStreamSynchronize(s));
    cudart_emulated_reset();
    cudart_emulated_set_option("pool_largest", 1 << 20);
    CHECK_OK(cudaMallocAsync(&p, 1 << 20, 0));
    CHECK(cudaMallocAsync(&p, (1 << 20) + 1, 0) == cudaErrorMemoryAllocation);
}

/* Memory of the heap, where a device can reach it. */
static void test_pageable(void)
{
    static unsigned char bytes[256];
    const struct cudart_emulated_range range = {bytes + 128, 128, 1, 4};
    cudart_emulated_reset();
    CHECK(cudaMemset(bytes, 3, sizeof bytes) == cudaErrorInvalidValue);
    cudart_emulated_set_attribute(-1, cudaDevAttrPageableMemoryAccess, 1);
    CHECK_OK(cudaMemset(bytes, 3, sizeof bytes));
    CHECK_OK(cudart_emulated_kernel(0, &range, 1, NULL, NULL));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(bytes[0] == 3 && bytes[255] == 4);
    CHECK(cudart_emulated_violations() == 0);
}

int main(void)
{
    test_seeds(false);
    test_seeds(true);
    test_host_threads();
    test_idle_queries();
    test_queue_depth();
    test_pageable();
    return check_result();
}
