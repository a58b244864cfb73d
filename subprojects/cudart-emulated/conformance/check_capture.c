/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream capture allows. Each call is made once while a stream is captured, in each of the
 * three modes, from the capturing thread and from another; then the capture is ended.
 */
#include "conformance.h"

struct scene {
    cudaStream_t s;     /* captured */
    cudaStream_t other; /* not captured, non-blocking */
    void *p, *q, *h, *m, *t;
    cudaEvent_t e, e1; /* complete, from before the capture */
    cudaEvent_t e2, never;
    cudaMemPool_t pool, full_pool, standard;
    unsigned char *host;
    CUdeviceptr va, va2;
    CUmemGenericAllocationHandle handle, handle2;
    cudaError_t first;
};

static DRIVER(cuMemAddressReserve);
static DRIVER(cuMemAddressFree);
static DRIVER(cuMemCreate);
static DRIVER(cuMemRelease);
static DRIVER(cuMemMap);
static DRIVER(cuMemUnmap);
static DRIVER(cuMemSetAccess);
static DRIVER(cuStreamGetId);
static DRIVER(cuStreamGetCtx);
static DRIVER(cuStreamIsCapturing);

static void load(void)
{
    LOAD(cuMemAddressReserve);
    LOAD(cuMemAddressFree);
    LOAD(cuMemCreate);
    LOAD(cuMemRelease);
    LOAD(cuMemMap);
    LOAD(cuMemUnmap);
    LOAD(cuMemSetAccess);
    LOAD(cuStreamGetId);
    LOAD(cuStreamGetCtx);
    LOAD(cuStreamIsCapturing);
}

static const CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc access_desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

typedef cudaError_t call_fn(struct scene *);

static const char *abbreviated(cudaError_t err)
{
    switch (err) {
    case cudaErrorStreamCaptureUnsupported:
        return "Unsup";
    case cudaErrorStreamCaptureInvalidated:
        return "Inval";
    case cudaErrorStreamCaptureImplicit:
        return "Implicit";
    case cudaErrorStreamCaptureIsolation:
        return "Isol";
    default:
        return nm(err);
    }
}

static struct scene *prepare(bool is_blocking)
{
    struct scene *x = calloc(1, sizeof *x);
    x->s = is_blocking ? blocking() : nonblocking();
    x->other = nonblocking();
    cudaMalloc(&x->p, MIB);
    cudaMallocAsync(&x->q, MIB, x->other);
    cudaMallocHost(&x->h, 4096);
    cudaMallocManaged(&x->m, MIB, cudaMemAttachGlobal);
    memset(x->m, 1, MIB);
    if (posix_memalign((void **)&x->host, 4096, 64 * KIB) != 0) {
        abort();
    }
    memset(x->host, 1, 64 * KIB);
    cudaEventCreate(&x->e);
    cudaEventCreate(&x->e1);
    cudaEventRecord(x->e1, x->other);
    cudaEventRecord(x->e, x->other);
    x->e2 = event();
    x->never = event();
    x->pool = new_pool(0, 1, 1, 1, 0);
    x->full_pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    cudaMallocFromPoolAsync(&x->t, MIB, x->full_pool, x->other);
    cudaFreeAsync(x->t, x->other);
    x->t = NULL;
    cudaDeviceGetDefaultMemPool(&x->standard, 0);
    cuMemAddressReserve_fn(&x->va, 2 * MIB, 0, 0, 0);
    cuMemAddressReserve_fn(&x->va2, 2 * MIB, 0, 0, 0);
    cuMemCreate_fn(&x->handle, 2 * MIB, &prop, 0);
    cuMemCreate_fn(&x->handle2, 2 * MIB, &prop, 0);
    cudaDeviceSynchronize();
    return x;
}

struct job {
    struct scene *x;
    call_fn *call;
    cudaError_t err;
};

static void do_job(void *arg)
{
    struct job *job = arg;
    job->err = job->call(job->x);
}

enum kind { PLAIN, BLOCKING, MAPPED, ACCESSIBLE, REGISTERED, NO_END };

static void one(char *out, size_t size, call_fn *call, enum kind kind, int mode, bool elsewhere)
{
    struct scene *x = prepare(kind == BLOCKING);
    struct job job = {x, call, cudaSuccess};
    cudaGraph_t graph = NULL;
    if (kind == MAPPED || kind == ACCESSIBLE) {
        cuMemMap_fn(x->va, 2 * MIB, 0, x->handle, 0);
    }
    if (kind == ACCESSIBLE) {
        cuMemSetAccess_fn(x->va, 2 * MIB, &access_desc, 1);
    }
    if (kind == REGISTERED) {
        cudaHostRegister(x->host, 64 * KIB, cudaHostRegisterDefault);
    }
    cudaStreamBeginCapture(x->s, (enum cudaStreamCaptureMode)mode);
    cudaMemsetAsync(x->p, 1, 64, x->s);
    if (elsewhere) {
        in_thread(do_job, &job);
    } else {
        do_job(&job);
    }
    cudaError_t end = kind == NO_END ? cudaSuccess : cudaStreamEndCapture(x->s, &graph);
    snprintf(out, size, "%s", abbreviated(job.err));
    size_t used = strlen(out);
    if (end == cudaErrorStreamCaptureInvalidated) {
        snprintf(out + used, size - used, "!");
    } else if (end != cudaSuccess) {
        snprintf(out + used, size - used, ">%s", nm(end));
    }
}

static void all(call_fn *call, enum kind kind)
{
    char texts[6][64];
    bool same = true;
    load();
    cudaFree(0);
    for (int i = 0; i < 6; i++) {
        one(texts[i], sizeof texts[i], call, kind, i / 2, i % 2 == 1);
        same = same && strcmp(texts[i], texts[0]) == 0;
    }
    if (same) {
        put("all=%s", texts[0]);
        return;
    }
    for (int i = 0; i < 3; i++) {
        put("%c=%s/%s", "GTR"[i], texts[2 * i], texts[2 * i + 1]);
    }
}

#define THEN(a, b) ((x->first = (a)) != cudaSuccess ? x->first : (b))
#define CU(call) ((cudaError_t)(call))
#define CAP(id, kind, expression)                 \
    static cudaError_t call_##id(struct scene *x) \
    {                                             \
        (void)x;                                  \
        return expression;                        \
    }                                             \
    static void run_##id(void)                    \
    {                                             \
        all(call_##id, kind);                     \
    }

static cudaError_t status_of(cudaStream_t s)
{
    enum cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(s, &status);
}

static cudaError_t info_of(cudaStream_t s)
{
    enum cudaStreamCaptureStatus status;
    unsigned long long id;
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL, NULL);
#else
    return cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL);
#endif
}

static cudaError_t id_of(cudaStream_t s)
{
    unsigned long long id;
    return cudaStreamGetId(s, &id);
}

static cudaError_t properties_of(struct scene *x)
{
    unsigned flags;
    int priority;
    return THEN(cudaStreamGetFlags(x->s, &flags), cudaStreamGetPriority(x->s, &priority));
}

static cudaError_t device_of(cudaStream_t s)
{
#if CUDART_VERSION >= 12080
    int device;
    return cudaStreamGetDevice(s, &device);
#else
    unsigned flags;
    return cudaStreamGetFlags(s, &flags);
#endif
}

static cudaError_t driver_id(cudaStream_t s)
{
    unsigned long long id;
    return CU(cuStreamGetId_fn(s, &id));
}

static cudaError_t driver_context(cudaStream_t s)
{
    CUcontext context;
    return CU(cuStreamGetCtx_fn(s, &context));
}

static cudaError_t driver_status(cudaStream_t s)
{
    CUstreamCaptureStatus status;
    return CU(cuStreamIsCapturing_fn(s, &status));
}

static cudaError_t memory_info(void)
{
    size_t a, b;
    return cudaMemGetInfo(&a, &b);
}

static cudaError_t attribute(void)
{
    int value;
    return cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0);
}

static cudaError_t pointer(void *p)
{
    struct cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, p);
}

static cudaError_t make_pool(void)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPool_t pool;
    return cudaMemPoolCreate(&pool, &props);
}

static cudaError_t pool_questions(struct scene *x)
{
    uint64_t value = 0;
    return THEN(cudaMemPoolGetAttribute(x->pool, cudaMemPoolAttrUsedMemCurrent, &value),
                cudaMemPoolSetAttribute(x->pool, cudaMemPoolAttrReleaseThreshold, &value));
}

static cudaError_t pool_access(struct scene *x)
{
    const struct cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 0},
                                           cudaMemAccessFlagsProtReadWrite};
    return cudaMemPoolSetAccess(x->pool, &desc, 1);
}

static cudaError_t prefetch(struct scene *x, cudaStream_t s)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, 0};
    return cudaMemPrefetchAsync(x->m, MIB, where, 0, s);
#else
    return cudaMemPrefetchAsync(x->m, MIB, 0, s);
#endif
}

static cudaError_t advise(struct scene *x)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, 0};
    return cudaMemAdvise(x->m, MIB, cudaMemAdviseSetReadMostly, where);
#else
    return cudaMemAdvise(x->m, MIB, cudaMemAdviseSetReadMostly, 0);
#endif
}

static cudaError_t pitch(struct scene *x)
{
    size_t unused;
    return cudaMallocPitch(&x->t, &unused, 64, 100);
}

static void nothing(void *unused)
{
    (void)unused;
}

static cudaError_t fork_join(struct scene *x, bool join)
{
    cudaError_t err = cudaEventRecord(x->e2, x->s);
    err = err != cudaSuccess ? err : cudaStreamWaitEvent(x->other, x->e2, 0);
    err = err != cudaSuccess ? err : cudaMemsetAsync(x->p, 2, 64, x->other);
    if (!join) {
        return err;
    }
    err = err != cudaSuccess ? err : cudaEventRecord(x->e2, x->other);
    return err != cudaSuccess ? err : cudaStreamWaitEvent(x->s, x->e2, 0);
}

static cudaError_t relaxed_malloc(struct scene *x)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t err = cudaThreadExchangeStreamCaptureMode(&mode);
    err = err != cudaSuccess ? err : cudaMalloc(&x->t, MIB);
    cudaError_t back = cudaThreadExchangeStreamCaptureMode(&mode);
    return err != cudaSuccess ? err : back;
}

static cudaError_t elapsed(struct scene *x)
{
    float ms;
    return cudaEventElapsedTime(&ms, x->e1, x->e);
}

static cudaError_t default_pools(void)
{
    cudaMemPool_t a, b;
    cudaError_t err = cudaDeviceGetDefaultMemPool(&a, 0);
    return err != cudaSuccess ? err : cudaDeviceGetMemPool(&b, 0);
}

static cudaError_t host_questions(struct scene *x)
{
    int value;
    return THEN(cudaHostGetDevicePointer(&x->t, x->h, 0),
                THEN(cudaGetDevice(&value), cudaGetDeviceCount(&value)));
}

static cudaError_t graph_memory(void)
{
    uint64_t value;
    return cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &value);
}

static cudaError_t other_streams(struct scene *x)
{
    return THEN(cudaMemcpyAsync(x->p, x->h, 64, cudaMemcpyHostToDevice, x->other),
                cudaMemsetAsync(x->q, 1, 64, cudaStreamPerThread));
}

#define H2D cudaMemcpyHostToDevice
#define D2H cudaMemcpyDeviceToHost
CAP(CAP01, PLAIN, cudaMalloc(&x->t, MIB))
CAP(CAP02, PLAIN, cudaFree(x->p))
CAP(CAP03, PLAIN, cudaFree(NULL))
CAP(CAP04, PLAIN, cudaMallocHost(&x->t, 4096))
CAP(CAP05, PLAIN, cudaHostAlloc(&x->t, 4096, cudaHostAllocMapped))
CAP(CAP06, PLAIN, cudaFreeHost(x->h))
CAP(CAP07, PLAIN, cudaMallocManaged(&x->t, 4096, cudaMemAttachGlobal))
CAP(CAP08, PLAIN, cudaMallocAsync(&x->t, MIB, x->s))
CAP(CAP09, PLAIN, THEN(cudaMallocAsync(&x->t, MIB, x->s), cudaFreeAsync(x->t, x->s)))
CAP(CAP10, PLAIN, cudaMallocAsync(&x->t, MIB, x->other))
CAP(CAP11, PLAIN, cudaMallocFromPoolAsync(&x->t, MIB, x->pool, x->s))
CAP(CAP12, PLAIN, cudaFreeAsync(x->q, x->s))
CAP(CAP13, PLAIN, cudaFreeAsync(x->q, x->other))
CAP(CAP14, PLAIN, cudaEventRecord(x->e2, x->s))
CAP(CAP15, PLAIN, cudaEventRecord(x->e2, x->other))
CAP(CAP16, PLAIN, cudaEventQuery(x->e))
CAP(CAP17, PLAIN, THEN(cudaEventRecord(x->e2, x->s), cudaEventQuery(x->e2)))
CAP(CAP18, PLAIN, cudaEventSynchronize(x->e))
CAP(CAP19, PLAIN, THEN(cudaEventRecord(x->e2, x->s), cudaEventSynchronize(x->e2)))
CAP(CAP20, PLAIN, cudaStreamSynchronize(x->s))
CAP(CAP21, PLAIN, cudaStreamSynchronize(x->other))
CAP(CAP22, PLAIN, cudaStreamQuery(x->s))
CAP(CAP23, PLAIN, cudaStreamQuery(x->other))
CAP(CAP24, PLAIN, cudaDeviceSynchronize())
CAP(CAP25, PLAIN, cudaMemcpyAsync(x->p, x->host, 4096, H2D, x->s))
CAP(CAP26, PLAIN, cudaMemcpyAsync(x->p, x->h, 4096, H2D, x->s))
CAP(CAP27, PLAIN, cudaMemcpyAsync(x->host, x->p, 4096, D2H, x->s))
CAP(CAP28, PLAIN, cudaMemcpyAsync(x->p, x->host, 4096, H2D, x->other))
CAP(CAP29, PLAIN, cudaMemcpy(x->p, x->host, 4096, H2D))
CAP(CAP30, BLOCKING, cudaMemcpy(x->p, x->host, 4096, H2D))
CAP(CAP31, PLAIN, cudaMemset(x->p, 1, 4096))
CAP(CAP32, BLOCKING, cudaMemsetAsync(x->p, 1, 4096, 0))
CAP(CAP33, PLAIN, cudaMemsetAsync(x->p, 1, 4096, 0))
CAP(CAP34, BLOCKING, cudaEventRecord(x->e2, 0))
CAP(CAP35, BLOCKING, cudaStreamQuery(0))
CAP(CAP36, BLOCKING, cudaStreamSynchronize(0))
CAP(CAP37, BLOCKING, status_of(0))
CAP(CAP38, PLAIN, status_of(0))
CAP(CAP39, PLAIN, memory_info())
CAP(CAP40, PLAIN, attribute())
CAP(CAP41, PLAIN, id_of(x->s))
CAP(CAP42, PLAIN, THEN(status_of(x->s), info_of(x->s)))
CAP(CAP43, PLAIN, cudaStreamWaitEvent(x->s, x->e, 0))
CAP(CAP44, PLAIN, cudaStreamWaitEvent(x->s, x->never, 0))
CAP(CAP45, PLAIN, fork_join(x, true))
CAP(CAP46, PLAIN, fork_join(x, false))
CAP(CAP47, PLAIN, cudaLaunchHostFunc(x->s, nothing, NULL))
CAP(CAP48, PLAIN, cudaStreamCreateWithFlags(&x->other, cudaStreamNonBlocking))
CAP(CAP49, PLAIN, cudaStreamDestroy(x->other))
CAP(CAP50, PLAIN, cudaEventCreateWithFlags(&x->e2, cudaEventDisableTiming))
CAP(CAP51, PLAIN, cudaEventDestroy(x->e))
CAP(CAP52, PLAIN, CU(cuMemAddressReserve_fn(&x->va, 8 * MIB, 0, 0, 0)))
CAP(CAP53, PLAIN, CU(cuMemCreate_fn(&x->handle, 2 * MIB, &prop, 0)))
CAP(CAP54, PLAIN, CU(cuMemMap_fn(x->va, 2 * MIB, 0, x->handle, 0)))
CAP(CAP55, MAPPED, CU(cuMemSetAccess_fn(x->va, 2 * MIB, &access_desc, 1)))
CAP(CAP56, ACCESSIBLE, CU(cuMemUnmap_fn(x->va, 2 * MIB)))
CAP(CAP57, PLAIN, CU(cuMemRelease_fn(x->handle2)))
CAP(CAP58, PLAIN, cudaHostRegister(x->host, 64 * KIB, cudaHostRegisterDefault))
CAP(CAP59, REGISTERED, cudaHostUnregister(x->host))
CAP(CAP60, PLAIN, pointer(x->p))
CAP(CAP61, PLAIN, make_pool())
CAP(CAP62, PLAIN, cudaMemPoolDestroy(x->pool))
CAP(CAP63, PLAIN, cudaMemPoolTrimTo(x->full_pool, 0))
CAP(CAP64, PLAIN, pool_questions(x))
CAP(CAP65, PLAIN, prefetch(x, x->s))
CAP(CAP66, PLAIN, prefetch(x, x->other))
CAP(CAP67, PLAIN, advise(x))
CAP(CAP68, PLAIN, cudaSetDevice(0))
CAP(CAP69, NO_END, cudaStreamDestroy(x->s))
CAP(CAP70, PLAIN, cudaStreamBeginCapture(x->s, cudaStreamCaptureModeRelaxed))
CAP(CAP71, PLAIN, elapsed(x))
CAP(CAP72, PLAIN, pitch(x))
CAP(CAP73, PLAIN, relaxed_malloc(x))
CAP(CAP74, PLAIN, cudaFree(x->q))
CAP(CAP75, PLAIN, other_streams(x))
CAP(CAP76, PLAIN, driver_id(x->s))
CAP(CAP77, PLAIN, properties_of(x))
CAP(CAP78, PLAIN, device_of(x->s))
CAP(CAP79, PLAIN, driver_context(x->s))
CAP(CAP92, PLAIN, id_of(x->other))
CAP(CAP93, BLOCKING, id_of(0))
CAP(CAP94, PLAIN, id_of(0))
CAP(CAP95, PLAIN, cudaMemcpy(x->host, x->p, 4096, D2H))
CAP(CAP96, PLAIN, cudaEventQuery(x->never))
CAP(CAP97, PLAIN, cudaFreeAsync(NULL, x->s))
CAP(CAP98, PLAIN, default_pools())
CAP(CAP99, PLAIN, cudaDeviceSetMemPool(0, x->standard))
CAP(CAQ01, PLAIN, pool_access(x))
CAP(CAQ02, PLAIN, THEN(cudaMalloc(&x->t, 0), cudaMallocAsync(&x->t, 0, x->s)))
CAP(CAQ03, PLAIN, cudaMallocAsync(&x->t, 0, x->s))
CAP(CAQ04, PLAIN, host_questions(x))
CAP(CAQ05, PLAIN, cudaLaunchHostFunc(x->other, nothing, NULL))
CAP(CAQ06, PLAIN, CU(cuMemAddressFree_fn(x->va2, 2 * MIB)))
CAP(CAQ07, PLAIN, driver_status(x->s))
CAP(CAQ08, PLAIN, cudaFree((void *)0xdead00))
CAP(CAQ09, PLAIN, cudaMallocAsync(&x->t, (size_t)1 << 60, x->s))
CAP(CAQ10, PLAIN, graph_memory())

/* ---- one by one ---- */

static struct gate gate;

static void run_CAP80(void)
{
    cudaStream_t s = nonblocking();
    cudaGraph_t graph;
    put("0:%s", abbreviated(cudaStreamBeginCapture(0, cudaStreamCaptureModeGlobal)));
    put("legacy:%s",
        abbreviated(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeGlobal)));
    put("ptds:%s",
        abbreviated(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal)));
    put("end:%s", abbreviated(cudaStreamEndCapture(cudaStreamPerThread, &graph)));
    put("mode9:%s", abbreviated(cudaStreamBeginCapture(s, (enum cudaStreamCaptureMode)9)));
    put("end_idle:%s", abbreviated(cudaStreamEndCapture(s, &graph)));
}

struct ending {
    cudaStream_t s;
    cudaError_t err;
};

static void end_capture(void *arg)
{
    struct ending *ending = arg;
    cudaGraph_t graph;
    ending->err = cudaStreamEndCapture(ending->s, &graph);
}

static void run_CAP81(void)
{
    for (int mode = 0; mode < 3; mode++) {
        struct ending ending = {nonblocking(), cudaSuccess};
        cudaGraph_t graph;
        cudaStreamBeginCapture(ending.s, (enum cudaStreamCaptureMode)mode);
        in_thread(end_capture, &ending);
        cudaError_t here = cudaStreamEndCapture(ending.s, &graph);
        put("%c:%s/%s", "GTR"[mode], abbreviated(ending.err), abbreviated(here));
    }
}

static void run_CAP82(void)
{
    cudaStream_t s = nonblocking();
    void *p, *t;
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph = (cudaGraph_t)0x1234;
    cudaMalloc(&p, 64);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    put("malloc:%s", abbreviated(cudaMalloc(&t, 64)));
    put("memset:%s", abbreviated(cudaMemsetAsync(p, 1, 64, s)));
    cudaStreamIsCapturing(s, &status);
    put("status:%d", (int)status);
    put("end:%s", abbreviated(cudaStreamEndCapture(s, &graph)));
    put("graph_%s", graph == NULL ? "null" : "set");
    put("after:%s", abbreviated(cudaMemsetAsync(p, 1, 64, s)));
    put("sync:%s", abbreviated(cudaStreamSynchronize(s)));
}

static int byte_at(void *p)
{
    unsigned char byte = 0;
    cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost);
    return byte;
}

static cudaGraphExec_t finish(cudaStream_t s)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaStreamEndCapture(s, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    return exec;
}

static void run_CAP83(void)
{
    cudaStream_t s = nonblocking();
    void *p;
    cudaMalloc(&p, 64);
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(p, 7, 64, s);
    cudaGraphExec_t exec = finish(s);
    put("%d", byte_at(p));
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    put("%d", byte_at(p));
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    put("%d", byte_at(p));
}

static void replay_copy(const char *name, unsigned char *from)
{
    cudaStream_t s = nonblocking();
    void *p;
    cudaMalloc(&p, 4096);
    memset(from, 1, 4096);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaError_t err = cudaMemcpyAsync(p, from, 4096, cudaMemcpyHostToDevice, s);
    cudaGraphExec_t exec = finish(s);
    memset(from, 2, 4096);
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    int first = byte_at(p);
    memset(from, 3, 4096);
    cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    put("%s:%s:%d,%d", name, nm(err), first, byte_at(p));
}

static void run_CAP84(void)
{
    void *h;
    cudaMallocHost(&h, 4096);
    replay_copy("pinned", h);
    replay_copy("pageable", malloc(4096));
}

static size_t graph_number(enum cudaGraphMemAttributeType attr)
{
    uint64_t value = 0;
    cudaDeviceGetGraphMemAttribute(0, attr, &value);
    return (size_t)value;
}

static void run_CAP85(void)
{
    cudaStream_t s = nonblocking();
    void *p = NULL, *h;
    cudaMemPool_t pool;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaMallocHost(&h, 64);
    unsigned char *bytes = h;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    put("malloc:%s", nm(cudaMallocAsync(&p, MIB, s)));
    cudaMemsetAsync(p, 5, MIB, s);
    cudaMemcpyAsync(h, p, 64, cudaMemcpyDeviceToHost, s);
    put("free:%s", nm(cudaFreeAsync(p, s)));
    put("ptr_%s", p == NULL ? "null" : "nonnull");
    cudaStreamEndCapture(s, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 2; i++) {
        bytes[0] = 0;
        put("launch:%s", nm(cudaGraphLaunch(exec, s)));
        cudaError_t err = cudaStreamSynchronize(s);
        put("sync:%s:%d", nm(err), bytes[0]);
    }
    put("graph=%s/%s", sz(graph_number(cudaGraphMemAttrUsedMemCurrent)),
        sz(graph_number(cudaGraphMemAttrReservedMemCurrent)));
    put("pool=%s/%s", sz(USED(pool)), sz(RESERVED(pool)));
    put("trim:%s", nm(cudaDeviceGraphMemTrim(0)));
    put("resv:%s", sz(graph_number(cudaGraphMemAttrReservedMemCurrent)));
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaDeviceGraphMemTrim(0);
    put("destroyed:%s", sz(graph_number(cudaGraphMemAttrReservedMemCurrent)));
}

static void run_CAP86(void)
{
    cudaStream_t s = nonblocking();
    void *p = NULL;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&p, MIB, s);
    cudaMemsetAsync(p, 5, MIB, s);
    cudaGraphExec_t exec = finish(s);
    put("early_free:%s", nm(cudaFreeAsync(p, s)));
    put("launch:%s", nm(cudaGraphLaunch(exec, s)));
    cudaStreamSynchronize(s);
    put("byte:%d", byte_at(p));
    put("again:%s", nm(cudaGraphLaunch(exec, s)));
    put("freeAsync:%s", nm(cudaFreeAsync(p, s)));
    put("launch:%s", nm(cudaGraphLaunch(exec, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("cudaFree:%s", nm(cudaFree(p)));
    put("launch:%s", nm(cudaGraphLaunch(exec, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
}

struct capturing {
    int mode;
    pthread_barrier_t begun, called;
    cudaError_t end;
};

static void *capture_thread(void *arg)
{
    struct capturing *c = arg;
    cudaStream_t s = nonblocking();
    cudaGraph_t graph;
    cudaStreamBeginCapture(s, (enum cudaStreamCaptureMode)c->mode);
    pthread_barrier_wait(&c->begun);
    pthread_barrier_wait(&c->called);
    c->end = cudaStreamEndCapture(s, &graph);
    return NULL;
}

static void run_CAP87(void)
{
    cudaFree(0);
    for (int i = 0; i < 6; i++) {
        struct capturing c = {.mode = i / 2};
        enum cudaStreamCaptureMode mode =
            i % 2 == 1 ? cudaStreamCaptureModeRelaxed : cudaStreamCaptureModeGlobal;
        pthread_t thread;
        void *p;
        pthread_barrier_init(&c.begun, NULL, 2);
        pthread_barrier_init(&c.called, NULL, 2);
        pthread_create(&thread, NULL, capture_thread, &c);
        pthread_barrier_wait(&c.begun);
        cudaThreadExchangeStreamCaptureMode(&mode);
        cudaError_t err = cudaMalloc(&p, 64);
        cudaThreadExchangeStreamCaptureMode(&mode);
        pthread_barrier_wait(&c.called);
        pthread_join(thread, NULL);
        put("%c%s:%s/end:%s", "GTR"[i / 2], i % 2 == 1 ? "+relaxed" : "", abbreviated(err),
            abbreviated(c.end));
    }
}

static void run_CAP88(void)
{
    cudaStream_t s = nonblocking(), other = nonblocking();
    cudaEvent_t e = event();
    cudaGraph_t graph;
    cudaEventRecord(e, other);
    cudaEventSynchronize(e);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaEventRecord(e, s);
    cudaStreamEndCapture(s, &graph);
    put("query:%s", nm(cudaEventQuery(e)));
    put("sync:%s", nm(cudaEventSynchronize(e)));
    put("wait:%s", nm(cudaStreamWaitEvent(other, e, 0)));
    cudaEventRecord(e, other);
    cudaStreamSynchronize(other);
    put("again:%s", nm(cudaEventQuery(e)));
}

static void run_CAP89(void)
{
    cudaStream_t s = nonblocking();
    void *p;
    cudaGraph_t graph;
    cudaMalloc(&p, 64);
    cudaMemset(p, 0, 64);
    cudaDeviceSynchronize();
    gate_close(&gate, s);
    cudaError_t err = cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    put("%s:%s", nm(err), gate_is_open(&gate) ? "wait" : "ret");
    cudaMemsetAsync(p, 7, 64, s);
    cudaStreamEndCapture(s, &graph);
    gate_open(&gate);
    cudaStreamSynchronize(s);
    put("byte:%d", byte_at(p));
}

static void run_CAP90(void)
{
    cudaStream_t s = nonblocking();
    void *p, *q;
    cudaGraph_t graph = NULL;
    size_t count = 0;
    cudaMalloc(&p, 64);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(p, 1, 64, s);
    cudaMallocAsync(&q, 64, s);
    cudaFreeAsync(q, s);
    cudaEventRecord(event(), s);
    cudaLaunchHostFunc(s, nothing, NULL);
    cudaStreamEndCapture(s, &graph);
    cudaGraphGetNodes(graph, NULL, &count);
    put("%zu", count);
}

static void driver_says(const char *name, cudaStream_t s)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaError_t err = CU(cuStreamIsCapturing_fn(s, &status));
    put("%s:%s:%d", name, abbreviated(err), (int)status);
}

static void run_CAP91(void)
{
    cudaStream_t s = nonblocking(), broken = nonblocking(), idle = nonblocking(), b = blocking();
    unsigned long long id;
    cudaGraph_t graph;
    load();
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    driver_says("capturing", s);
    cudaStreamEndCapture(s, &graph);
    cudaStreamBeginCapture(broken, cudaStreamCaptureModeRelaxed);
    cudaStreamGetId(broken, &id);
    driver_says("invalidated", broken);
    cudaStreamEndCapture(broken, &graph);
    driver_says("idle", idle);
    cudaStreamBeginCapture(b, cudaStreamCaptureModeRelaxed);
    driver_says("legacy", 0);
    driver_says("after", b);
    cudaStreamEndCapture(b, &graph);
}

#define ROW(id)       \
    {                 \
#id, run_##id \
    }
const struct check capture_checks[] = {
    ROW(CAP01), ROW(CAP02), ROW(CAP03), ROW(CAP04), ROW(CAP05),   ROW(CAP06), ROW(CAP07),
    ROW(CAP08), ROW(CAP09), ROW(CAP10), ROW(CAP11), ROW(CAP12),   ROW(CAP13), ROW(CAP14),
    ROW(CAP15), ROW(CAP16), ROW(CAP17), ROW(CAP18), ROW(CAP19),   ROW(CAP20), ROW(CAP21),
    ROW(CAP22), ROW(CAP23), ROW(CAP24), ROW(CAP25), ROW(CAP26),   ROW(CAP27), ROW(CAP28),
    ROW(CAP29), ROW(CAP30), ROW(CAP31), ROW(CAP32), ROW(CAP33),   ROW(CAP34), ROW(CAP35),
    ROW(CAP36), ROW(CAP37), ROW(CAP38), ROW(CAP39), ROW(CAP40),   ROW(CAP41), ROW(CAP42),
    ROW(CAP43), ROW(CAP44), ROW(CAP45), ROW(CAP46), ROW(CAP47),   ROW(CAP48), ROW(CAP49),
    ROW(CAP50), ROW(CAP51), ROW(CAP52), ROW(CAP53), ROW(CAP54),   ROW(CAP55), ROW(CAP56),
    ROW(CAP57), ROW(CAP58), ROW(CAP59), ROW(CAP60), ROW(CAP61),   ROW(CAP62), ROW(CAP63),
    ROW(CAP64), ROW(CAP65), ROW(CAP66), ROW(CAP67), ROW(CAP68),   ROW(CAP69), ROW(CAP70),
    ROW(CAP71), ROW(CAP72), ROW(CAP73), ROW(CAP74), ROW(CAP75),   ROW(CAP76), ROW(CAP77),
    ROW(CAP78), ROW(CAP79), ROW(CAP80), ROW(CAP81), ROW(CAP82),   ROW(CAP83), ROW(CAP84),
    ROW(CAP85), ROW(CAP86), ROW(CAP87), ROW(CAP88), ROW(CAP89),   ROW(CAP90), ROW(CAP91),
    ROW(CAP92), ROW(CAP93), ROW(CAP94), ROW(CAP95), ROW(CAP96),   ROW(CAP97), ROW(CAP98),
    ROW(CAP99), ROW(CAQ01), ROW(CAQ02), ROW(CAQ03), ROW(CAQ04),   ROW(CAQ05), ROW(CAQ06),
    ROW(CAQ07), ROW(CAQ08), ROW(CAQ09), ROW(CAQ10), {NULL, NULL},
};
