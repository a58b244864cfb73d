/* SPDX-License-Identifier: Apache-2.0 */
/* Order between streams. */
#include "conformance.h"

static struct gate gate;

static void simple(cudaStream_t gated, cudaStream_t asked, const char *who)
{
    gate_close(&gate, gated);
    put("%s_%s", who, runs(asked) ? "runs" : "waits");
    gate_open(&gate);
}

static void ord01(void)
{
    simple(blocking(), 0, "legacy");
}

static void ord02(void)
{
    simple(nonblocking(), 0, "legacy");
}

static void ord03(void)
{
    cudaStream_t a = blocking();
    simple(0, a, "blocking");
}

static void ord04(void)
{
    cudaStream_t a = nonblocking();
    simple(0, a, "nonblocking");
}

static void ord05(void)
{
    cudaStream_t b = blocking();
    simple(blocking(), b, "B");
}

static void ord06(void)
{
    cudaStream_t a = blocking(), b = blocking(), c = nonblocking();
    void *p;
    cudaMalloc(&p, 64);
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaMemsetAsync(p, 1, 64, 0);
    put("B_%s", runs(b) ? "runs" : "waits");
    put("C_%s", runs(c) ? "runs" : "waits");
    gate_open(&gate);
}

static void ord07(void)
{
    cudaStream_t a = blocking(), b = blocking();
    gate_close(&gate, a);
    cudaEventRecord(event(), 0);
    put("B_%s", runs(b) ? "runs" : "waits");
    gate_open(&gate);
}

static void ord08(void)
{
    cudaStream_t a = blocking(), b = blocking();
    cudaEvent_t e = event();
    cudaEventRecord(e, b);
    cudaEventSynchronize(e);
    gate_close(&gate, a);
    cudaStreamWaitEvent(0, e, 0);
    put("B_%s", runs(b) ? "runs" : "waits");
    gate_open(&gate);
}

static void ord09(void)
{
    simple(cudaStreamPerThread, 0, "legacy");
}

static void ord10(void)
{
    simple(0, cudaStreamPerThread, "ptds");
}

static void other_per_thread(void *unused)
{
    (void)unused;
    put("other_ptds_%s", runs(cudaStreamPerThread) ? "runs" : "waits");
}

static void ord11(void)
{
    cudaStream_t a = blocking();
    gate_close(&gate, cudaStreamPerThread);
    in_thread(other_per_thread, NULL);
    put("A_%s", runs(a) ? "runs" : "waits");
    gate_open(&gate);
}

static void ord12(void)
{
    unsigned long long id[3];
    put("%s", nm(cudaStreamGetId(0, &id[0])));
    put("%s", nm(cudaStreamGetId(cudaStreamLegacy, &id[1])));
    put("%s", nm(cudaStreamGetId(cudaStreamPerThread, &id[2])));
    put("id0%sid1", id[0] == id[1] ? "==" : "!=");
    put("id2%sid0", id[2] == id[0] ? "==" : "!=");
}

static void own_id(void *id)
{
    cudaStreamGetId(cudaStreamPerThread, id);
}

static void ord13(void)
{
    unsigned long long first, again, t1, t2;
    own_id(&first);
    in_thread(own_id, &t1);
    in_thread(own_id, &t2);
    own_id(&again);
    put("main%sT1", first == t1 ? "==" : "!=");
    put("T1%sT2", t1 == t2 ? "==" : "!=");
    put("main_%s", first == again ? "stable" : "moves");
}

static void ord14(void)
{
    cudaStream_t a = blocking(), n = nonblocking();
    static struct gate second;
    gate_close(&gate, a);
    put("blocking:%s", nm(cudaStreamQuery(0)));
    gate_open(&gate);
    cudaDeviceSynchronize();
    gate_close(&second, n);
    put("nonblocking:%s", nm(cudaStreamQuery(0)));
    gate_open(&second);
}

static void ord15(void)
{
    cudaStream_t a = blocking(), n = nonblocking();
    static struct gate second;
    gate_close(&gate, a);
    gate_open_later(&gate);
    cudaStreamSynchronize(0);
    put("blocking:%s", gate_verdict(&gate));
    cudaDeviceSynchronize();
    gate_close(&second, n);
    gate_open_later(&second);
    cudaStreamSynchronize(0);
    put("nonblocking:%s", gate_verdict(&second));
    cudaDeviceSynchronize();
}

static void ord16(void)
{
    cudaStream_t a = blocking();
    gate_close(&gate, 0);
    put("query:%s", nm(cudaStreamQuery(a)));
    gate_open_later(&gate);
    cudaStreamSynchronize(a);
    put("sync:%s", gate_verdict(&gate));
    cudaDeviceSynchronize();
}

static void ord17(void)
{
    simple(cudaStreamLegacy, 0, "stream0");
}

static void set_flag(void *flag)
{
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

static bool flag_rises(int *flag, cudaStream_t stream)
{
    for (int i = 0; i < 200; i++) {
        if (__atomic_load_n(flag, __ATOMIC_SEQ_CST)) {
            return true;
        }
        cudaStreamQuery(stream);
        usleep(1000);
    }
    return false;
}

static void ord18(void)
{
    static int ran;
    cudaStream_t a = nonblocking(), b = nonblocking();
    gate_close(&gate, a);
    cudaLaunchHostFunc(b, set_flag, &ran);
    put("second_%s", flag_rises(&ran, b) ? "runs" : "waits");
    gate_open(&gate);
    put("after_open_%s", flag_rises(&ran, b) ? "ran" : "waits");
}

static void ord19(void)
{
    cudaStream_t a = nonblocking();
    unsigned char *h;
    void *p, *q;
    cudaMalloc(&p, 64);
    cudaMallocHost(&q, 64);
    h = q;
    h[0] = 0;
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaMemsetAsync(p, 7, 64, a);
    cudaMemcpyAsync(h, p, 64, cudaMemcpyDeviceToHost, a);
    usleep(20000);
    put("before:%d", h[0]);
    gate_open(&gate);
    cudaStreamSynchronize(a);
    put("after:%d", h[0]);
}

static void ord20(void)
{
    int least = 0, greatest = 0;
    cudaStream_t low, high;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStreamCreateWithPriority(&low, cudaStreamNonBlocking, least);
    cudaStreamCreateWithPriority(&high, cudaStreamNonBlocking, greatest);
    simple(low, high, "high");
}

static void ord21(void)
{
    cudaStream_t a = blocking();
    cudaEvent_t e = event();
    cudaEventRecord(e, 0);
    gate_close(&gate, a);
    put("earlier_%s", completes(e) ? "runs" : "waits");
    gate_open(&gate);
}

const struct check order_checks[] = {
    {"ORD01", ord01}, {"ORD02", ord02}, {"ORD03", ord03}, {"ORD04", ord04}, {"ORD05", ord05},
    {"ORD06", ord06}, {"ORD07", ord07}, {"ORD08", ord08}, {"ORD09", ord09}, {"ORD10", ord10},
    {"ORD11", ord11}, {"ORD12", ord12}, {"ORD13", ord13}, {"ORD14", ord14}, {"ORD15", ord15},
    {"ORD16", ord16}, {"ORD17", ord17}, {"ORD18", ord18}, {"ORD19", ord19}, {"ORD20", ord20},
    {"ORD21", ord21}, {NULL, NULL},
};
