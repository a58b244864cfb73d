/* SPDX-License-Identifier: Apache-2.0 */
/* Codes, outputs of failed calls, and the last error. */
#include "conformance.h"

static struct gate gate;
#define PRESET ((void *)0x1234)
#define HUGE ((size_t)1 << 50)

static const char *pointer(const void *p)
{
    return p == NULL ? "null" : p == PRESET ? "preset" : "set";
}

static void err01(void)
{
    void *p = PRESET;
    put("%s", nm(cudaMalloc(&p, HUGE)));
    put("ptr_%s", pointer(p));
    put("peek:%s", nm(cudaPeekAtLastError()));
    put("get:%s", nm(cudaGetLastError()));
    put("again:%s", nm(cudaGetLastError()));
}

static void err02(void)
{
    void *p = PRESET;
    size_t pitch;
    put("mallocHost:%s", nm(cudaMallocHost(&p, HUGE)));
    put("ptr_%s", pointer(p));
    p = PRESET;
    put("hostAlloc:%s", nm(cudaHostAlloc(&p, HUGE, 0)));
    put("ptr_%s", pointer(p));
    p = PRESET;
    put("managed:%s", nm(cudaMallocManaged(&p, HUGE, cudaMemAttachGlobal)));
    put("ptr_%s", pointer(p));
    p = PRESET;
    put("pitch:%s", nm(cudaMallocPitch(&p, &pitch, HUGE, 1)));
    put("ptr_%s", pointer(p));
}

static void err03(void)
{
    int on_stack;
    char *p;
    void *d, *h;
    cudaMalloc(&d, 1024);
    cudaMallocHost(&h, 64);
    p = d;
    put("null:%s", nm(cudaFree(NULL)));
    put("0xdead00:%s", nm(cudaFree((void *)0xdead00)));
    put("stack:%s", nm(cudaFree(&on_stack)));
    put("malloc:%s", nm(cudaFree(malloc(64))));
    put("interior:%s", nm(cudaFree(p + 256)));
    put("pinned:%s", nm(cudaFree(h)));
    put("ok:%s", nm(cudaFree(d)));
    put("twice:%s", nm(cudaFree(d)));
    put("last:%s", nm(cudaGetLastError()));
}

static void err04(void)
{
    void *d, *h, *r = NULL;
    cudaMalloc(&d, 1024);
    cudaMallocHost(&h, 1024);
    if (posix_memalign(&r, 4096, 4096) != 0) {
        return;
    }
    cudaHostRegister(r, 4096, 0);
    put("null:%s", nm(cudaFreeHost(NULL)));
    put("0xdead00:%s", nm(cudaFreeHost((void *)0xdead00)));
    put("malloc:%s", nm(cudaFreeHost(malloc(64))));
    put("device:%s", nm(cudaFreeHost(d)));
    put("interior:%s", nm(cudaFreeHost((char *)h + 64)));
    put("ok:%s", nm(cudaFreeHost(h)));
    put("twice:%s", nm(cudaFreeHost(h)));
    put("registered:%s", nm(cudaFreeHost(r)));
}

static void err05(void)
{
    void *p = PRESET;
    size_t pitch;
    char bytes[64];
    put("malloc:%s", nm(cudaMalloc(&p, 0)));
    add(":%s", pointer(p));
    p = PRESET;
    put("mallocHost:%s", nm(cudaMallocHost(&p, 0)));
    add(":%s", pointer(p));
    p = PRESET;
    put("hostAlloc:%s", nm(cudaHostAlloc(&p, 0, 0)));
    add(":%s", pointer(p));
    p = PRESET;
    put("managed:%s", nm(cudaMallocManaged(&p, 0, cudaMemAttachGlobal)));
    add(":%s", pointer(p));
    p = PRESET;
    put("pitch00:%s", nm(cudaMallocPitch(&p, &pitch, 0, 0)));
    add(":%s", pointer(p));
    p = PRESET;
    put("pitch16,0:%s", nm(cudaMallocPitch(&p, &pitch, 16, 0)));
    add(":%s", pointer(p));
    put("register:%s", nm(cudaHostRegister(bytes, 0, 0)));
    cudaMalloc(&p, 64);
    put("memset:%s", nm(cudaMemset(p, 0, 0)));
    put("memsetnull:%s", nm(cudaMemset(NULL, 0, 0)));
    put("memsetasyncnull:%s", nm(cudaMemsetAsync(NULL, 0, 0, 0)));
}

static cudaError_t prefetch(void *p, size_t size, int type, int id)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {(enum cudaMemLocationType)type, id};
    return cudaMemPrefetchAsync(p, size, where, 0, 0);
#else
    return type == 0 ? cudaErrorInvalidValue : cudaMemPrefetchAsync(p, size, id, 0);
#endif
}

static cudaError_t advise(void *p, size_t size, int advice, int device)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, device};
    return cudaMemAdvise(p, size, (enum cudaMemoryAdvise)advice, where);
#else
    return cudaMemAdvise(p, size, (enum cudaMemoryAdvise)advice, device);
#endif
}

static void err06(void)
{
    void *d, *q, *h, *m;
    cudaMalloc(&d, MIB);
    cudaMallocAsync(&q, MIB, 0);
    cudaMallocHost(&h, MIB);
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    cudaDeviceSynchronize();
    put("dev:%s", nm(prefetch(d, MIB, 1, 0)));
    put("pool:%s", nm(prefetch(q, MIB, 1, 0)));
    put("pinned:%s", nm(prefetch(h, MIB, 1, 0)));
    put("pageable:%s", nm(prefetch(malloc(MIB), MIB, 1, 0)));
    put("size0:%s", nm(prefetch(m, 0, 1, 0)));
    put("beyond:%s", nm(prefetch(m, 64 * MIB, 1, 0)));
    put("null:%s", nm(prefetch(NULL, MIB, 1, 0)));
    put("dev99:%s", nm(prefetch(m, MIB, 1, 99)));
    put("loc0:%s", nm(prefetch(m, MIB, 0, 0)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void err07(void)
{
    void *d, *h, *m;
    cudaMalloc(&d, MIB);
    cudaMallocHost(&h, MIB);
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    put("dev:%s", nm(advise(d, MIB, cudaMemAdviseSetReadMostly, 0)));
    put("pinned:%s", nm(advise(h, MIB, cudaMemAdviseSetReadMostly, 0)));
    put("pageable:%s", nm(advise(malloc(MIB), MIB, cudaMemAdviseSetReadMostly, 0)));
    put("managed:%s", nm(advise(m, MIB, cudaMemAdviseSetReadMostly, 0)));
    put("size0:%s", nm(advise(m, 0, cudaMemAdviseSetReadMostly, 0)));
    put("99:%s", nm(advise(m, MIB, 99, 0)));
    put("dev99:%s", nm(advise(m, MIB, cudaMemAdviseSetPreferredLocation, 99)));
}

static unsigned alignment(uintptr_t all)
{
    return (unsigned)(all & (~all + 1));
}

static void err08(void)
{
    uintptr_t device = 0, host = 0, managed = 0;
    void *p;
    for (size_t size = 1; size <= 4096; size++) {
        cudaMalloc(&p, size);
        device |= (uintptr_t)p;
    }
    for (size_t size = 1; size <= 4096; size += 37) {
        cudaMallocHost(&p, size);
        host |= (uintptr_t)p;
    }
    for (size_t size = 1; size <= 4096; size += 37) {
        cudaMallocManaged(&p, size, cudaMemAttachGlobal);
        managed |= (uintptr_t)p;
    }
    put("cudaMalloc:align%u", alignment(device));
    put("cudaMallocHost:align%u", alignment(host));
    put("managed:align%u", alignment(managed));
}

static void err09(void)
{
    int value;
    put("9999:%s", nm(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 0)));
    put("0:%s", nm(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)0, 0)));
    put("-1:%s", nm(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr) - 1, 0)));
    put("dev99:%s", nm(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99)));
    put("dev-1:%s", nm(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, -1)));
    put("null:%s", nm(cudaDeviceGetAttribute(NULL, cudaDevAttrWarpSize, 0)));
    put("last:%s", nm(cudaGetLastError()));
}

static void err10(void)
{
    cudaMemPool_t pool;
    void *p;
    int device = -5;
    put("99:%s", nm(cudaSetDevice(99)));
    put("-1:%s", nm(cudaSetDevice(-1)));
    put("last:%s", nm(cudaGetLastError()));
    cudaGetDevice(&device);
    put("cur:%d", device);
    put("defpool99:%s", nm(cudaDeviceGetDefaultMemPool(&pool, 99)));
    put("defpool-1:%s", nm(cudaDeviceGetDefaultMemPool(&pool, -1)));
    put("pool99:%s", nm(cudaDeviceGetMemPool(&pool, 99)));
    put("pool-1:%s", nm(cudaDeviceGetMemPool(&pool, -1)));
    put("malloc:%s", nm(cudaMalloc(&p, 64)));
}

static void err11(void)
{
    size_t f, t;
    put("%s", nm(cudaMemGetInfo(NULL, &t)));
    put("%s", nm(cudaMemGetInfo(&f, NULL)));
    put("%s", nm(cudaMemGetInfo(NULL, NULL)));
    put("%s", nm(cudaGetDevice(NULL)));
    put("malloc:%s", nm(cudaMalloc(NULL, 16)));
    put("mallocHost:%s", nm(cudaMallocHost(NULL, 16)));
}

static void err12(void)
{
    void *p;
    int device;
    cudaMalloc(&p, HUGE);
    put("%s", nm(cudaMalloc(&p, 64)));
    put("%s", nm(cudaGetDevice(&device)));
    put("%s", nm(cudaStreamQuery(0)));
    put("%s", nm(cudaDeviceSynchronize()));
    put("peek:%s", nm(cudaPeekAtLastError()));
    cudaFree((void *)0xdead00);
    put("then:%s", nm(cudaGetLastError()));
}

static void peek(void *err)
{
    *(cudaError_t *)err = cudaPeekAtLastError();
}

static void err13(void)
{
    void *p;
    cudaError_t other;
    cudaMalloc(&p, HUGE);
    in_thread(peek, &other);
    put("other:%s", nm(other));
    put("main:%s", nm(cudaPeekAtLastError()));
}

static void err15(void)
{
    void *f = entry_point("cuMemAlloc"), *g = entry_point("cuMemFree"), *p;
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*release)(CUdeviceptr);
    CUdeviceptr d = 0;
    memcpy(&alloc, &f, sizeof f);
    memcpy(&release, &g, sizeof g);
    cudaFree(0);
    put("%s", nm((cudaError_t)alloc(&d, HUGE)));
    put("last:%s", nm(cudaGetLastError()));
    alloc(&d, 64);
    put("cudaFree:%s", nm(cudaFree((void *)(uintptr_t)d)));
    cudaMalloc(&p, 64);
    put("cuMemFree:%s", nm((cudaError_t)release((CUdeviceptr)(uintptr_t)p)));
}

static void describe(const char *name, const void *p)
{
    struct cudaPointerAttributes a;
    cudaPointerGetAttributes(&a, p);
    put("%s:t%d/dev%d/%s/%s", name, (int)a.type, a.device,
        a.devicePointer == p      ? "dp=p"
        : a.devicePointer == NULL ? "0"
                                  : "dp?",
        a.hostPointer == p      ? "hp=p"
        : a.hostPointer == NULL ? "0"
                                : "hp?");
}

static void err17(void)
{
    int on_stack;
    void *d, *freed, *h, *m, *r = NULL;
    cudaMalloc(&d, 2 * MIB);
    cudaMalloc(&freed, MIB);
    cudaMallocHost(&h, MIB);
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    if (posix_memalign(&r, 4096, 4096) != 0) {
        return;
    }
    cudaHostRegister(r, 4096, 0);
    cudaFree(freed); /* last, so that its address is not used again */
    describe("null", NULL);
    describe("stack", &on_stack);
    describe("malloc", malloc(64));
    describe("dev", d);
    describe("inner", (char *)d + 4096);
    describe("end", (char *)d + 2 * MIB);
    describe("freed", freed);
    describe("pinned", h);
    describe("pinner", (char *)h + 64);
    describe("managed", m);
    describe("registered", r);
}

static void err18(void)
{
    char *r = NULL;
    if (posix_memalign((void **)&r, 4096, 65536) != 0) {
        return;
    }
    put("1:%s", nm(cudaHostRegister(r, 8192, 0)));
    put("same:%s", nm(cudaHostRegister(r, 8192, 0)));
    put("overlap:%s", nm(cudaHostRegister(r + 4096, 8192, 0)));
    put("unaligned:%s", nm(cudaHostRegister(r + 32768 + 100, 1000, 0)));
    put("null:%s", nm(cudaHostRegister(NULL, 4096, 0)));
    put("flags:%s", nm(cudaHostRegister(r + 49152, 4096, 0x80)));
    put("un_not:%s", nm(cudaHostUnregister(r + 57344)));
    put("un_inner:%s", nm(cudaHostUnregister(r + 64)));
    put("un:%s", nm(cudaHostUnregister(r)));
    put("un_twice:%s", nm(cudaHostUnregister(r)));
}

static void err19(void)
{
    void *p;
    put("0:%s", nm(cudaMallocManaged(&p, 64, 0)));
    put("2:%s", nm(cudaMallocManaged(&p, 64, 2)));
    put("4:%s", nm(cudaMallocManaged(&p, 64, 4)));
    put("8:%s", nm(cudaMallocManaged(&p, 64, 8)));
    put("host0x80:%s", nm(cudaHostAlloc(&p, 64, 0x80)));
}

static void err20(void)
{
    const size_t widths[] = {1, 512, 513, 1000};
    for (int i = 0; i < 4; i++) {
        void *p;
        size_t pitch = 0;
        cudaError_t err = cudaMallocPitch(&p, &pitch, widths[i], 4);
        put("%zu:%s:%zu", widths[i], nm(err), pitch);
    }
}

static void err21(void)
{
    void *p, *h, *last = NULL;
    cudaEvent_t e;
    cudaStream_t s;
    cudaError_t err;
    while ((err = cudaMalloc(&p, 8 * GIB)) == cudaSuccess) {
        last = p;
    }
    put("%s", nm(err));
    put("1K:%s", nm(cudaMalloc(&p, 1024)));
    put("event:%s", nm(cudaEventCreate(&e)));
    put("stream:%s", nm(cudaStreamCreate(&s)));
    put("host:%s", nm(cudaMallocHost(&h, 1024)));
    cudaFree(last);
    put("again:%s", nm(cudaMalloc(&p, 8 * GIB)));
}

static void err22(void)
{
    cudaStream_t s = nonblocking();
    void *p;
    gate_close(&gate, s);
    cudaGetLastError();
    cudaStreamWaitEvent(s, NULL, 0);
    put("%s", nm(cudaMallocAsync(&p, 64, s)));
    cudaStreamQuery(s);
    put("%s", nm(cudaMallocAsync(&p, 64, s)));
    put("last:%s", nm(cudaGetLastError()));
    gate_open(&gate);
}

static size_t free_now(void)
{
    size_t f = 0, t;
    cudaMemGetInfo(&f, &t);
    return f;
}

static void err23(void)
{
    const size_t sizes[] = {1, 1, MIB, 2 * MIB, 3 * MIB, 64 * MIB};
    void *p[6];
    cudaFree(0);
    /* The first small block of all takes a slab, which goes back with the last. */
    cudaMalloc(&p[0], 1);
    size_t start = free_now();
    for (int i = 0; i < 6; i++) {
        size_t before = free_now();
        cudaMalloc(&p[i], sizes[i]);
        put("%s:%s", sz(sizes[i]), sz(before - free_now()));
    }
    for (int i = 0; i < 6; i++) {
        cudaFree(p[i]);
    }
    put("%s", free_now() == start ? "returned" : "kept");
}

static struct {
    cudaStream_t s;
    cudaError_t reserve, create, sid, sctx, scapturing, ctx;
} fresh;

static void fresh_thread(void *functions)
{
    void **f = functions;
    DRIVER(cuMemAddressReserve);
    DRIVER(cuMemCreate);
    DRIVER(cuStreamGetId);
    DRIVER(cuStreamGetCtx);
    DRIVER(cuStreamIsCapturing);
    DRIVER(cuCtxGetCurrent);
    memcpy(&cuMemAddressReserve_fn, &f[0], sizeof f[0]);
    memcpy(&cuMemCreate_fn, &f[1], sizeof f[0]);
    memcpy(&cuStreamGetId_fn, &f[2], sizeof f[0]);
    memcpy(&cuStreamGetCtx_fn, &f[3], sizeof f[0]);
    memcpy(&cuStreamIsCapturing_fn, &f[4], sizeof f[0]);
    memcpy(&cuCtxGetCurrent_fn, &f[5], sizeof f[0]);
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle;
    unsigned long long id;
    CUcontext context, current = NULL;
    CUstreamCaptureStatus status;
    fresh.reserve = (cudaError_t)cuMemAddressReserve_fn(&va, 2 * MIB, 0, 0, 0);
    fresh.create = (cudaError_t)cuMemCreate_fn(&handle, 2 * MIB, &prop, 0);
    fresh.sid = (cudaError_t)cuStreamGetId_fn(fresh.s, &id);
    fresh.sctx = (cudaError_t)cuStreamGetCtx_fn(fresh.s, &context);
    fresh.scapturing = (cudaError_t)cuStreamIsCapturing_fn(fresh.s, &status);
    fresh.ctx = (cudaError_t)cuCtxGetCurrent_fn(&current);
    if (current == NULL) {
        fresh.ctx = cudaErrorDeviceUninitialized;
    }
}

static void err24(void)
{
    void *functions[] = {entry_point("cuMemAddressReserve"), entry_point("cuMemCreate"),
                         entry_point("cuStreamGetId"),       entry_point("cuStreamGetCtx"),
                         entry_point("cuStreamIsCapturing"), entry_point("cuCtxGetCurrent")};
    fresh.s = nonblocking();
    in_thread(fresh_thread, functions);
    put("reserve:%s", nm(fresh.reserve));
    put("create:%s", nm(fresh.create));
    put("sid:%s", nm(fresh.sid));
    put("sctx:%s", nm(fresh.sctx));
    put("scapturing:%s", nm(fresh.scapturing));
    put("ctx:%s", nm(fresh.ctx));
}

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>

static void break_device(void)
{
    const struct cudart_emulated_range range = {(void *)0x10, 4, 1, 0};
    cudart_emulated_set_option("quiet", 1);
    cudart_emulated_kernel(0, &range, 1, NULL, NULL);
}
#else
/* One thread that stores to address 0x10, in the driver's assembly language. */
static const char bad_kernel[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                                 ".visible .entry bad()\n{\n.reg .b64 %a;\n.reg .b32 %v;\n"
                                 "mov.u64 %a, 16;\nmov.u32 %v, 1;\nst.global.u32 [%a], %v;\n"
                                 "ret;\n}\n";

static void break_device(void)
{
    DRIVER(cuModuleLoadData);
    DRIVER(cuModuleGetFunction);
    DRIVER(cuLaunchKernel);
    void *a = entry_point("cuModuleLoadData"), *b = entry_point("cuModuleGetFunction");
    void *c = entry_point("cuLaunchKernel");
    CUmodule module;
    CUfunction function;
    memcpy(&cuModuleLoadData_fn, &a, sizeof a);
    memcpy(&cuModuleGetFunction_fn, &b, sizeof b);
    memcpy(&cuLaunchKernel_fn, &c, sizeof c);
    cuModuleLoadData_fn(&module, bad_kernel);
    cuModuleGetFunction_fn(&function, module, "bad");
    cuLaunchKernel_fn(function, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL);
}
#endif

static void err16(void)
{
    cudaStream_t s = nonblocking();
    cudaEvent_t e = event(), other;
    cudaMemPool_t pool = new_pool(0, 1, 1, 1, 0);
    void *p, *q, *h, *t;
    int value;
    size_t a, b;
    cudaMalloc(&p, 64);
    cudaMallocAsync(&q, 64, s);
    cudaMallocHost(&h, 64);
    cudaEventRecord(e, s);
    cudaDeviceSynchronize();
    break_device();
    put("sync:%s", nm(cudaDeviceSynchronize()));
    put("get:%s", nm(cudaGetLastError()));
    put("get:%s", nm(cudaGetLastError()));
    put("malloc:%s", nm(cudaMalloc(&t, 64)));
    put("free:%s", nm(cudaFree(p)));
    put("free0:%s", nm(cudaFree(0)));
    put("mallocHost:%s", nm(cudaMallocHost(&t, 64)));
    put("freeHost:%s", nm(cudaFreeHost(h)));
    put("mallocAsync:%s", nm(cudaMallocAsync(&t, 64, s)));
    put("freeAsync:%s", nm(cudaFreeAsync(q, s)));
    put("ecreate:%s", nm(cudaEventCreate(&other)));
    put("equery:%s", nm(cudaEventQuery(e)));
    put("squery:%s", nm(cudaStreamQuery(s)));
    put("edestroy:%s", nm(cudaEventDestroy(e)));
    put("sdestroy:%s", nm(cudaStreamDestroy(s)));
    put("meminfo:%s", nm(cudaMemGetInfo(&a, &b)));
    put("getdev:%s", nm(cudaGetDevice(&value)));
    put("attr:%s", nm(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0)));
    put("pooldestroy:%s", nm(cudaMemPoolDestroy(pool)));
}

const struct check error_checks[] = {
    {"ERR01", err01}, {"ERR02", err02}, {"ERR03", err03}, {"ERR04", err04}, {"ERR05", err05},
    {"ERR06", err06}, {"ERR07", err07}, {"ERR08", err08}, {"ERR09", err09}, {"ERR10", err10},
    {"ERR11", err11}, {"ERR12", err12}, {"ERR13", err13}, {"ERR15", err15}, {"ERR16", err16},
    {"ERR17", err17}, {"ERR18", err18}, {"ERR19", err19}, {"ERR20", err20}, {"ERR21", err21},
    {"ERR22", err22}, {"ERR23", err23}, {"ERR24", err24}, {NULL, NULL},
};
