/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices, with peer access possible and not enabled at the start. */
#include "conformance.h"

static struct gate gate;

static bool two_devices(void)
{
    int count = 0;
    cudaGetDeviceCount(&count);
    if (count < 2) {
        put("SKIP: one device");
    }
    return count >= 2;
}

static cudaStream_t stream_on(int device, bool is_blocking)
{
    cudaSetDevice(device);
    cudaStream_t s = is_blocking ? blocking() : nonblocking();
    cudaSetDevice(0);
    return s;
}

static cudaEvent_t event_on(int device)
{
    cudaSetDevice(device);
    cudaEvent_t e = event();
    cudaSetDevice(0);
    return e;
}

static void *memory_on(int device, size_t size)
{
    void *p = NULL;
    cudaSetDevice(device);
    cudaMalloc(&p, size);
    cudaMemset(p, 0, size);
    cudaDeviceSynchronize();
    cudaSetDevice(0);
    return p;
}

static int byte_at(void *p)
{
    unsigned char byte = 0;
    cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost);
    return byte;
}

static void mgp01(void)
{
    if (!two_devices()) {
        return;
    }
    cudaEvent_t e = event_on(0);
    cudaStream_t s1 = stream_on(1, false);
    put("cur0:%s", nm(cudaEventRecord(e, s1)));
    cudaSetDevice(1);
    put("cur1:%s", nm(cudaEventRecord(e, s1)));
    put("legacy1:%s", nm(cudaEventRecord(e, 0)));
    put("ptds1:%s", nm(cudaEventRecord(e, cudaStreamPerThread)));
    put("query:%s", nm(cudaEventQuery(e)));
}

static void mgp02(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t a = stream_on(0, false), b = stream_on(1, false);
    cudaEvent_t e = event_on(0), done = event_on(1);
    gate_close(&gate, a);
    cudaEventRecord(e, a);
    put("%s", nm(cudaStreamWaitEvent(b, e, 0)));
    cudaEventRecord(done, b);
    put("B_%s", completes(done) ? "runs" : "waits");
    gate_open(&gate);
    put("B_%s", cudaEventSynchronize(done) == cudaSuccess ? "runs" : "fails");
}

static void nothing(void *unused)
{
    (void)unused;
}

static void mgp03(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s = stream_on(0, false);
    cudaEvent_t e = event_on(0);
    void *p = memory_on(0, 4096), *q = NULL;
    unsigned char host[64] = {0};
    unsigned long long id;
    struct cudaPointerAttributes a;
    cudaSetDevice(1);
    put("erec:%s", nm(cudaEventRecord(e, s)));
    cudaStreamSynchronize(s);
    put("equery:%s", nm(cudaEventQuery(e)));
    put("esync:%s", nm(cudaEventSynchronize(e)));
    put("squery:%s", nm(cudaStreamQuery(s)));
    put("ssync:%s", nm(cudaStreamSynchronize(s)));
    put("id:%s", nm(cudaStreamGetId(s, &id)));
    put("swait:%s", nm(cudaStreamWaitEvent(s, e, 0)));
    put("hostfn:%s", nm(cudaLaunchHostFunc(s, nothing, NULL)));
    put("memset:%s", nm(cudaMemsetAsync(p, 1, 64, s)));
    put("memcpy:%s", nm(cudaMemcpyAsync(p, host, 64, cudaMemcpyHostToDevice, s)));
    put("mallocAsync:%s", nm(cudaMallocAsync(&q, 64, s)));
    cudaPointerGetAttributes(&a, q);
    put("on_dev%d", a.device);
    put("freeAsync:%s", nm(cudaFreeAsync(q, s)));
    put("free:%s", nm(cudaFree(p)));
    put("edestroy:%s", nm(cudaEventDestroy(e)));
    put("sdestroy:%s", nm(cudaStreamDestroy(s)));
}

static void mgp04(void)
{
    int can = -1;
    if (!two_devices()) {
        return;
    }
    cudaDeviceCanAccessPeer(&can, 0, 1);
    put("can:%d", can);
    put("1:%s", nm(cudaDeviceEnablePeerAccess(1, 0)));
    put("again:%s", nm(cudaDeviceEnablePeerAccess(1, 0)));
    put("last:%s", nm(cudaGetLastError()));
    put("self:%s", nm(cudaDeviceEnablePeerAccess(0, 0)));
    put("99:%s", nm(cudaDeviceEnablePeerAccess(99, 0)));
    put("flags:%s", nm(cudaDeviceEnablePeerAccess(1, 1)));
    put("disable:%s", nm(cudaDeviceDisablePeerAccess(1)));
    put("again:%s", nm(cudaDeviceDisablePeerAccess(1)));
}

static cudaError_t access_of(cudaMemPool_t pool, int device, int *flags)
{
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, device};
    enum cudaMemAccessFlags got = cudaMemAccessFlagsProtNone;
    cudaError_t err = cudaMemPoolGetAccess(&got, pool, &where);
    *flags = (int)got;
    return err;
}

static cudaError_t set_access(cudaMemPool_t pool, int device, int flags)
{
    const struct cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, device},
                                           (enum cudaMemAccessFlags)flags};
    return cudaMemPoolSetAccess(pool, &desc, 1);
}

static void *pool_block(cudaMemPool_t pool)
{
    cudaStream_t s = stream_on(0, false);
    void *p = NULL;
    cudaMallocFromPoolAsync(&p, MIB, pool, s);
    cudaStreamSynchronize(s);
    return p;
}

static void mgp05(void)
{
    if (!two_devices()) {
        return;
    }
    cudaMemPool_t pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    cudaStream_t s1 = stream_on(1, false);
    void *p = pool_block(pool);
    int flags;
    cudaError_t err = access_of(pool, 1, &flags);
    put("get:%s:%d", nm(err), flags);
    put("setRW:%s", nm(set_access(pool, 1, 3)));
    put("memset:%s", nm(cudaMemsetAsync(p, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
    put("setnone:%s", nm(set_access(pool, 1, 0)));
    access_of(pool, 1, &flags);
    put("get:%d", flags);
    put("memset_noaccess:%s", nm(cudaMemsetAsync(p, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
}

static void mgp06(void)
{
    if (!two_devices()) {
        return;
    }
    cudaMemPool_t pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    cudaStream_t s1 = stream_on(1, false);
    void *p = pool_block(pool), *d = memory_on(0, 4096);
    put("cudaMalloc_nopeer:%s", nm(cudaMemsetAsync(d, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
    cudaSetDevice(1);
    put("enable:%s", nm(cudaDeviceEnablePeerAccess(0, 0)));
    put("cudaMalloc_peer:%s", nm(cudaMemsetAsync(d, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
    put("pool_peer:%s", nm(cudaMemsetAsync(p, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
}

static void mgp07(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
    void *a = memory_on(0, 4096), *b = memory_on(1, 4096);
    cudaMemPool_t pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    void *q = pool_block(pool);
    cudaMemset(a, 5, 64);
    cudaDeviceSynchronize();
    cudaError_t err = cudaMemcpyPeerAsync(b, 1, a, 0, 64, s0);
    cudaStreamSynchronize(s0);
    put("s0:%s,%d", nm(err), byte_at(b));
    put("s1:%s", nm(cudaMemcpyPeerAsync(b, 1, a, 0, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
    cudaMemsetAsync(q, 8, 64, s0);
    cudaMemcpyPeerAsync(b, 1, q, 0, 64, s0);
    cudaStreamSynchronize(s0);
    put("pool:%d", byte_at(b));
    put("default:%s", nm(cudaMemcpyAsync(b, a, 64, cudaMemcpyDefault, s0)));
    put("sync:%s", nm(cudaStreamSynchronize(s0)));
    put("%d", byte_at(b));
    put("wrong:%s", nm(cudaMemcpyPeerAsync(b, 0, a, 0, 64, s0)));
    cudaStreamSynchronize(s0);
    put("99:%s", nm(cudaMemcpyPeerAsync(b, 99, a, 0, 64, s0)));
}

static void mgp08(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s = stream_on(0, false);
    void *p = memory_on(1, MIB), *h, *m, *t;
    cudaSetDevice(1);
    cudaHostAlloc(&h, 4096, cudaHostAllocPortable);
    gate_close(&gate, s);
    gate_open_later(&gate);
#define STILL (gate_is_open(&gate) ? "wait" : "ret")
    cudaMalloc(&t, MIB);
    put("malloc:%s", STILL);
    cudaFree(p);
    put("free:%s", STILL);
    cudaDeviceSynchronize();
    put("dsync:%s", STILL);
    cudaHostAlloc(&t, 4096, cudaHostAllocPortable);
    put("hostalloc:%s", STILL);
    cudaFreeHost(h);
    put("freehost:%s", STILL);
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    put("managed:%s", STILL);
    cudaSetDevice(0);
    put("setdevice:%s", gate_verdict(&gate));
}

static void mgp09(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
    void *p = memory_on(0, MIB), *q = memory_on(0, MIB);
    static struct gate second;
    cudaSetDevice(1);
    gate_close(&gate, s0);
    gate_open_later(&gate);
    cudaError_t err = cudaFree(p);
    put("gated_dev0:%s:%s", nm(err), gate_verdict(&gate));
    put("sync:%s", nm(cudaStreamSynchronize(s0)));
    gate_close(&second, s1);
    gate_open_later(&second);
    err = cudaFree(q);
    put("gated_dev1:%s:%s", nm(err), gate_verdict(&second));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
}

static void describe(const char *name, void *p)
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

static void mgp10(void)
{
    if (!two_devices()) {
        return;
    }
    cudaMemPool_t pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    void *d = memory_on(0, 4096), *d1 = memory_on(1, 4096), *q = pool_block(pool), *h, *m;
    cudaMallocHost(&h, 64);
    cudaMallocManaged(&m, 64, cudaMemAttachGlobal);
    cudaSetDevice(1);
    describe("dev", d);
    describe("pool", q);
    describe("pinned", h);
    describe("managed", m);
    cudaDeviceEnablePeerAccess(0, 0);
    describe("dev_peer", d);
    describe("pool_peer", q);
    cudaSetDevice(0);
    describe("dev1", d1);
}

static void mgp11(void)
{
    if (!two_devices()) {
        return;
    }
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 1}};
    cudaStream_t s = stream_on(0, false), other = stream_on(0, false);
    struct cudaPointerAttributes a;
    cudaMemPool_t pool;
    void *p = NULL, *q = NULL;
    cudaMemPoolCreate(&pool, &props);
    put("%s", nm(cudaMallocFromPoolAsync(&p, MIB, pool, s)));
    cudaPointerGetAttributes(&a, p);
    put("dev%d", a.device);
    put("free:%s", nm(cudaFreeAsync(p, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    cudaMallocFromPoolAsync(&q, MIB, pool, s);
    cudaStreamSynchronize(s);
    put("freeOther:%s", nm(cudaFreeAsync(q, other)));
    put("sync:%s", nm(cudaStreamSynchronize(other)));
    put("setpool:%s", nm(cudaDeviceSetMemPool(0, pool)));
}

static void mgp12(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t b = stream_on(1, true);
    gate_close(&gate, 0);
    cudaSetDevice(1);
    put("legacy1_%s", runs(0) ? "runs" : "waits");
    put("bl1_%s", runs(b) ? "runs" : "waits");
    gate_open(&gate);
}

static void mgp13(void)
{
#if CUDART_VERSION >= 12080
    if (!two_devices()) {
        return;
    }
    unsigned long long legacy[2], own[2], made[2];
    cudaStream_t s[2] = {stream_on(0, false), stream_on(1, false)};
    int device = -1;
    for (int d = 0; d < 2; d++) {
        cudaSetDevice(d);
        cudaStreamGetId(0, &legacy[d]);
        cudaStreamGetId(cudaStreamPerThread, &own[d]);
        cudaStreamGetId(s[d], &made[d]);
    }
    put("legacy_%s", legacy[0] == legacy[1] ? "same" : "differ");
    put("ptds_%s", own[0] == own[1] ? "same" : "differ");
    put("created_%s", made[0] == made[1] ? "same" : "differ");
    cudaStreamGetDevice(s[0], &device);
    put("dev%d", device);
    cudaStreamGetDevice(s[1], &device);
    put("dev%d", device);
    cudaStreamGetDevice(0, &device);
    put("legacy:dev%d", device);
#else
    put("SKIP");
#endif
}

static cudaError_t prefetch(void *p, int device, cudaStream_t s)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, device};
    return cudaMemPrefetchAsync(p, MIB, where, 0, s);
#else
    return cudaMemPrefetchAsync(p, MIB, device, s);
#endif
}

static void mgp14(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
    void *m;
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    put("s0:%s", nm(prefetch(m, 1, s0)));
    put("sync:%s", nm(cudaStreamSynchronize(s0)));
    put("s1:%s", nm(prefetch(m, 1, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, 1};
    put("advise:%s", nm(cudaMemAdvise(m, MIB, cudaMemAdviseSetAccessedBy, where)));
#else
    put("advise:%s", nm(cudaMemAdvise(m, MIB, cudaMemAdviseSetAccessedBy, 1)));
#endif
}

static void mgp15(void)
{
    if (!two_devices()) {
        return;
    }
    DRIVER(cuMemAddressReserve);
    DRIVER(cuMemCreate);
    DRIVER(cuMemMap);
    DRIVER(cuMemSetAccess);
    void *f[] = {entry_point("cuMemAddressReserve"), entry_point("cuMemCreate"),
                 entry_point("cuMemMap"), entry_point("cuMemSetAccess")};
    memcpy(&cuMemAddressReserve_fn, &f[0], sizeof f[0]);
    memcpy(&cuMemCreate_fn, &f[1], sizeof f[0]);
    memcpy(&cuMemMap_fn, &f[2], sizeof f[0]);
    memcpy(&cuMemSetAccess_fn, &f[3], sizeof f[0]);
    cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 1}};
    const CUmemAccessDesc both[2] = {
        {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr va;
    cuMemAddressReserve_fn(&va, 2 * MIB, 0, 0, 0);
    cuMemCreate_fn(&handle, 2 * MIB, &prop, 0);
    cuMemMap_fn(va, 2 * MIB, 0, handle, 0);
    void *p = (void *)(uintptr_t)va;
    put("acc0:%s", nm((cudaError_t)cuMemSetAccess_fn(va, 2 * MIB, both, 1)));
    put("memset0:%s", nm(cudaMemsetAsync(p, 1, 64, s0)));
    put("sync:%s", nm(cudaStreamSynchronize(s0)));
    put("memset1:%s", nm(cudaMemsetAsync(p, 1, 64, s1)));
    put("both:%s", nm((cudaError_t)cuMemSetAccess_fn(va, 2 * MIB, both, 2)));
    put("memset1:%s", nm(cudaMemsetAsync(p, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
}

static cudaError_t during_capture(int which, cudaStream_t s1, cudaEvent_t e1)
{
    void *p;
    switch (which) {
    case 0:
        return cudaMalloc(&p, 64);
    case 1:
        return cudaMallocAsync(&p, 64, s1);
    case 2:
        return cudaEventQuery(e1);
    default:
        return cudaStreamSynchronize(s1);
    }
}

static void mgp16(void)
{
    const char *const names[] = {"malloc", "mallocAsync", "equery", "ssync"};
    if (!two_devices()) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
        cudaEvent_t e1 = event_on(1);
        cudaGraph_t graph;
        cudaEventRecord(e1, s1);
        cudaStreamSynchronize(s1);
        cudaStreamBeginCapture(s0, cudaStreamCaptureModeGlobal);
        cudaSetDevice(1);
        cudaError_t err = during_capture(i, s1, e1);
        cudaSetDevice(0);
        cudaError_t end = cudaStreamEndCapture(s0, &graph);
        put("%s:%s%s", names[i], nm(err), end == cudaErrorStreamCaptureInvalidated ? "!" : "");
    }
}

static void mgp17(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s0 = stream_on(0, false), s1 = stream_on(1, false);
    cudaEvent_t a, b;
    float ms;
    cudaEventCreate(&a);
    cudaSetDevice(1);
    cudaEventCreate(&b);
    cudaSetDevice(0);
    cudaEventRecord(a, s0);
    cudaEventRecord(b, s1);
    cudaStreamSynchronize(s0);
    cudaStreamSynchronize(s1);
    put("%s", nm(cudaEventElapsedTime(&ms, a, b)));
}

static void mgp19(void)
{
    if (!two_devices()) {
        return;
    }
    void *p = memory_on(0, 4096);
    unsigned char byte;
    cudaSetDevice(1);
    put("memcpy:%s", nm(cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost)));
    put("memset:%s", nm(cudaMemset(p, 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void waits(const char *which, cudaStream_t s)
{
    cudaMemPool_t pool = new_pool(0, 1, 1, 1, 0);
    void *p, *q;
    cudaDeviceEnablePeerAccess(1, 0); /* the first time takes long */
    cudaDeviceDisablePeerAccess(1);
    cudaMalloc(&p, MIB);
    gate_close(&gate, s);
    gate_open_later(&gate);
    put("%s", which);
    cudaDeviceEnablePeerAccess(1, 0);
    put("enable:%s", STILL);
    cudaDeviceDisablePeerAccess(1);
    put("disable:%s", STILL);
    set_access(pool, 1, 3);
    put("poolaccess:%s", STILL);
    cudaMalloc(&q, MIB);
    put("malloc:%s", STILL);
    cudaFree(p);
    put("free:%s", gate_verdict(&gate));
    cudaStreamSynchronize(s);
}

static void mgp21(void)
{
    if (!two_devices()) {
        return;
    }
    waits("gated0", stream_on(0, false));
    waits("gated1", stream_on(1, false));
}

static void peer_copy(const char *name, cudaStream_t s)
{
    void *a = memory_on(0, 64 * KIB), *b = memory_on(1, 64 * KIB);
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemcpyPeer(b, 1, a, 0, 64 * KIB);
    put("%s:%s", name, gate_verdict(&gate));
    cudaStreamSynchronize(s);
    cudaDeviceSynchronize();
}

static void mgp22(void)
{
    if (!two_devices()) {
        return;
    }
    peer_copy("bl0", stream_on(0, true));
    peer_copy("bl1", stream_on(1, true));
    peer_copy("nb0", stream_on(0, false));
}

static void mgp23(void)
{
    if (!two_devices()) {
        return;
    }
    DRIVER(cuStreamGetCtx);
    DRIVER(cuCtxGetCurrent);
    void *f = entry_point("cuStreamGetCtx"), *g = entry_point("cuCtxGetCurrent");
    memcpy(&cuStreamGetCtx_fn, &f, sizeof f);
    memcpy(&cuCtxGetCurrent_fn, &g, sizeof g);
    cudaStream_t s1 = stream_on(1, false);
    CUcontext of1 = NULL, legacy[2] = {NULL, NULL}, current[2] = {NULL, NULL};
    cudaError_t err = (cudaError_t)cuStreamGetCtx_fn(s1, &of1);
    for (int d = 0; d < 2; d++) {
        cudaSetDevice(d);
        cudaFree(0);
        cuCtxGetCurrent_fn(&current[d]);
        cuStreamGetCtx_fn(0, &legacy[d]);
    }
    put("%s:%s", nm(err), of1 == current[1] ? "ctx1" : "other");
    put("legacy:%s", legacy[0] == current[0] ? "ctx0" : "other");
    put("%s", legacy[1] == current[1] ? "ctx1" : "other");
}

static void mgp24(void)
{
    if (!two_devices()) {
        return;
    }
    cudaStream_t s1 = stream_on(1, false);
    void *h, *d = memory_on(1, 4096);
    cudaMallocHost(&h, 4096);
    put("d2h:%s", nm(cudaMemcpyAsync(h, d, 64, cudaMemcpyDeviceToHost, s1)));
    put("memset:%s", nm(cudaMemsetAsync(h, 1, 64, s1)));
    put("sync:%s", nm(cudaStreamSynchronize(s1)));
    cudaSetDevice(1);
    put("free:%s", nm(cudaFreeHost(h)));
}

const struct check device_checks[] = {
    {"MGP01", mgp01}, {"MGP02", mgp02}, {"MGP03", mgp03}, {"MGP04", mgp04}, {"MGP05", mgp05},
    {"MGP06", mgp06}, {"MGP07", mgp07}, {"MGP08", mgp08}, {"MGP09", mgp09}, {"MGP10", mgp10},
    {"MGP11", mgp11}, {"MGP12", mgp12}, {"MGP13", mgp13}, {"MGP14", mgp14}, {"MGP15", mgp15},
    {"MGP16", mgp16}, {"MGP17", mgp17}, {"MGP19", mgp19}, {"MGP21", mgp21}, {"MGP22", mgp22},
    {"MGP23", mgp23}, {"MGP24", mgp24}, {NULL, NULL},
};
