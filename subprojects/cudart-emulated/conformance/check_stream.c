/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and host functions. */
#include "conformance.h"

static struct gate gate;

static void str01(void)
{
    cudaStream_t a = nonblocking();
    void *p;
    unsigned char byte = 0;
    cudaMalloc(&p, 64);
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaMemsetAsync(p, 5, 64, a);
    cudaStreamDestroy(a);
    put("destroy_%s", gate_is_open(&gate) ? "wait" : "ret");
    gate_open(&gate);
    cudaDeviceSynchronize();
    cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost);
    put("work:%s", byte == 5 ? "done" : "lost");
}

static void str02(void)
{
    cudaStream_t a = blocking();
    gate_close(&gate, a);
    cudaStreamDestroy(a);
    put("legacy_%s", runs(0) ? "runs" : "waits");
    gate_open_later(&gate);
    cudaDeviceSynchronize();
    put("device_sync_%s", gate_verdict(&gate));
}

static void str07(void)
{
    put("%s", nm(cudaStreamDestroy(0)));
    put("%s", nm(cudaStreamDestroy(cudaStreamLegacy)));
    put("%s", nm(cudaStreamDestroy(cudaStreamPerThread)));
}

static void str08(void)
{
    int least = 9, greatest = 9, priority = 9;
    cudaStream_t s;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    put("range_%d..%d", least, greatest);
    put("%s", nm(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 100)));
    cudaStreamGetPriority(s, &priority);
    put("100->%d", priority);
    put("%s", nm(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -100)));
    cudaStreamGetPriority(s, &priority);
    put("-100->%d", priority);
    cudaError_t err = cudaStreamGetPriority(0, &priority);
    put("%s,0:%d", nm(err), priority);
    err = cudaStreamGetPriority(cudaStreamPerThread, &priority);
    put("%s,ptds:%d", nm(err), priority);
}

static void str09(void)
{
    cudaStream_t a = blocking(), b = nonblocking(), s;
    unsigned flags = 9;
    cudaStreamGetFlags(a, &flags);
    put("bl:%u", flags);
    cudaStreamGetFlags(b, &flags);
    put("nb:%u", flags);
    put("%s", nm(cudaStreamGetFlags(0, &flags)));
    put("0:%u", flags);
    put("%s", nm(cudaStreamGetFlags(cudaStreamPerThread, &flags)));
    put("ptds:%u", flags);
    put("flags8:%s", nm(cudaStreamCreateWithFlags(&s, 8)));
    put("null:%s", nm(cudaStreamCreate(NULL)));
}

static void str10(void)
{
#if CUDART_VERSION >= 12080
    const cudaStream_t streams[] = {0, cudaStreamLegacy, cudaStreamPerThread, nonblocking()};
    for (int i = 0; i < 4; i++) {
        int device = -1;
        cudaError_t err = cudaStreamGetDevice(streams[i], &device);
        put("%s:%d", nm(err), device);
    }
#else
    put("SKIP");
#endif
}

static void str11(void)
{
    DRIVER(cuStreamGetCtx);
    DRIVER(cuCtxGetCurrent);
    void *f = entry_point("cuStreamGetCtx"), *g = entry_point("cuCtxGetCurrent");
    memcpy(&cuStreamGetCtx_fn, &f, sizeof f);
    memcpy(&cuCtxGetCurrent_fn, &g, sizeof g);
    cudaFree(0);
    const cudaStream_t streams[] = {0, cudaStreamLegacy, cudaStreamPerThread, nonblocking()};
    CUcontext current = NULL;
    cuCtxGetCurrent_fn(&current);
    for (int i = 0; i < 4; i++) {
        CUcontext context = NULL;
        cudaError_t err = (cudaError_t)cuStreamGetCtx_fn(streams[i], &context);
        put("%s:%s", nm(err), context == current && current != NULL ? "current" : "other");
    }
}

static struct {
    cudaEvent_t e;
    cudaError_t equery, squery, malloc, free, last, info, id;
} inside;

static void calls_inside(void *unused)
{
    (void)unused;
    void *p;
    size_t a, b;
    unsigned long long id;
    inside.equery = cudaEventQuery(inside.e);
    inside.squery = cudaStreamQuery(0);
    inside.malloc = cudaMalloc(&p, 64);
    inside.free = cudaFree(0);
    inside.last = cudaGetLastError();
    inside.info = cudaMemGetInfo(&a, &b);
    inside.id = cudaStreamGetId(cudaStreamLegacy, &id);
}

static void str13(void)
{
    cudaStream_t a = nonblocking();
    inside.e = event();
    cudaEventRecord(inside.e, a);
    cudaStreamSynchronize(a);
    cudaLaunchHostFunc(a, calls_inside, NULL);
    cudaStreamSynchronize(a);
    put("equery:%s", nm(inside.equery));
    put("squery0:%s", nm(inside.squery));
    put("malloc:%s", nm(inside.malloc));
    put("free0:%s", nm(inside.free));
    put("last:%s", nm(inside.last));
    put("meminfo:%s", nm(inside.info));
    put("id:%s", nm(inside.id));
}

static void slow(void *flag)
{
    usleep(50000);
    __atomic_store_n((int *)flag, 1, __ATOMIC_SEQ_CST);
}

static void str14(void)
{
    static int ran;
    cudaStream_t a = nonblocking();
    cudaEvent_t e = event();
    gate_close(&gate, a);
    cudaLaunchHostFunc(a, slow, &ran);
    cudaEventRecord(e, a);
    gate_open(&gate);
    cudaEventSynchronize(e);
    put("%s_host_fn", __atomic_load_n(&ran, __ATOMIC_SEQ_CST) ? "after" : "before");
}

struct second {
    cudaStream_t s;
    void *p;
};

static void second_thread(void *arg)
{
    struct second *second = arg;
    int device = -1;
    put("%s", nm(cudaMemsetAsync(second->p, 3, 64, second->s)));
    cudaGetDevice(&device);
    put("device:%d", device);
}

static void str15(void)
{
    struct second second = {nonblocking(), NULL};
    unsigned char byte = 0;
    cudaMalloc(&second.p, 64);
    in_thread(second_thread, &second);
    cudaStreamSynchronize(second.s);
    cudaMemcpy(&byte, second.p, 1, cudaMemcpyDeviceToHost);
    put("byte:%d", byte);
}

const struct check stream_checks[] = {
    {"STR01", str01}, {"STR02", str02}, {"STR07", str07}, {"STR08", str08},
    {"STR09", str09}, {"STR10", str10}, {"STR11", str11}, {"STR13", str13},
    {"STR14", str14}, {"STR15", str15}, {NULL, NULL},
};
