/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls wait for pending work: each is made while another stream, non-blocking, blocking or
 * stream 0, is held by a gate that opens by itself.
 */
#include "conformance.h"

struct scene {
    cudaStream_t s;    /* held */
    cudaStream_t idle; /* another, non-blocking */
    void *p, *q, *h, *t;
    cudaEvent_t e;
    cudaMemPool_t pool;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CUdeviceptr va;
    CUmemGenericAllocationHandle handle;
    cudaError_t first;
    unsigned char host[4096], host2[4096];
    void *big;
};

static DRIVER(cuMemAddressReserve);
static DRIVER(cuMemAddressFree);
static DRIVER(cuMemCreate);
static DRIVER(cuMemRelease);
static DRIVER(cuMemMap);
static DRIVER(cuMemUnmap);
static DRIVER(cuMemSetAccess);

static void load(void)
{
    LOAD(cuMemAddressReserve);
    LOAD(cuMemAddressFree);
    LOAD(cuMemCreate);
    LOAD(cuMemRelease);
    LOAD(cuMemMap);
    LOAD(cuMemUnmap);
    LOAD(cuMemSetAccess);
}

typedef void prepare_fn(struct scene *);
typedef cudaError_t call_fn(struct scene *);

static struct gate gate;

/* pend: a memset of 4 KiB at x->p goes behind the gate first. */
static const char *one(prepare_fn *prepare, call_fn *call, int which, bool pend)
{
    static char text[64];
    struct scene *x = calloc(1, sizeof *x);
    x->s = which == 0 ? nonblocking() : which == 1 ? blocking() : 0;
    x->idle = nonblocking();
    x->e = event();
    prepare(x);
    cudaDeviceSynchronize();
    gate_close(&gate, x->s);
    if (pend) {
        cudaMemsetAsync(x->p, 1, 4096, x->s);
    }
    gate_open_later(&gate);
    cudaError_t err = call(x);
    const char *verdict = gate_verdict(&gate);
    cudaDeviceSynchronize();
    if (err == cudaSuccess) {
        return verdict;
    }
    snprintf(text, sizeof text, "%s:%s", verdict, nm(err));
    return text;
}

static void warm_up(prepare_fn *prepare, call_fn *call)
{
    struct scene *x = calloc(1, sizeof *x);
    x->s = nonblocking();
    x->idle = nonblocking();
    x->e = event();
    prepare(x);
    cudaDeviceSynchronize();
    call(x);
    cudaDeviceSynchronize();
    cudaGetLastError();
}

static void all(prepare_fn *prepare, call_fn *call, bool pend)
{
    load();
    warm_up(prepare, call);
    put("nb=%s", one(prepare, call, 0, pend));
    put("bl=%s", one(prepare, call, 1, pend));
    put("leg=%s", one(prepare, call, 2, pend));
}

#define THEN(a, b) ((x->first = (a)) != cudaSuccess ? x->first : (b))
#define CU(call) ((cudaError_t)(call))
#define SYN(id, pend, preparation, expression)    \
    static void prepare_##id(struct scene *x)     \
    {                                             \
        (void)x;                                  \
        preparation;                              \
    }                                             \
    static cudaError_t call_##id(struct scene *x) \
    {                                             \
        (void)x;                                  \
        return expression;                        \
    }                                             \
    static void run_##id(void)                    \
    {                                             \
        all(prepare_##id, call_##id, pend);       \
    }

static void managed(struct scene *x, size_t size)
{
    cudaMallocManaged(&x->p, size, cudaMemAttachGlobal);
    memset(x->p, 1, size);
}

static void pageable_mib(struct scene *x)
{
    cudaMalloc(&x->p, MIB);
    x->big = calloc(1, MIB);
}

static cudaMemPool_t pool_with_block(struct scene *x, size_t size)
{
    x->pool = new_pool(UINT64_MAX, 1, 1, 1, 0);
    cudaMallocFromPoolAsync(&x->p, size, x->pool, x->idle);
    cudaStreamSynchronize(x->idle);
    return x->pool;
}

static void pool_with_free_memory(struct scene *x)
{
    pool_with_block(x, 64 * MIB);
    cudaFreeAsync(x->p, x->idle);
}

static const CUmemAllocationProp prop = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc access_desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                            CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void reserve(struct scene *x)
{
    cuMemAddressReserve_fn(&x->va, 2 * MIB, 0, 0, 0);
}

static void create(struct scene *x)
{
    cuMemCreate_fn(&x->handle, 2 * MIB, &prop, 0);
}

static void map(struct scene *x)
{
    reserve(x);
    create(x);
    cuMemMap_fn(x->va, 2 * MIB, 0, x->handle, 0);
}

static void map_access(struct scene *x)
{
    map(x);
    cuMemSetAccess_fn(x->va, 2 * MIB, &access_desc, 1);
    x->p = (void *)(uintptr_t)x->va;
}

static void memset_graph(struct scene *x)
{
    cudaMalloc(&x->q, 4096);
    cudaStreamBeginCapture(x->idle, cudaStreamCaptureModeRelaxed);
    cudaMemsetAsync(x->q, 1, 4096, x->idle);
    cudaStreamEndCapture(x->idle, &x->graph);
}

static void memset_exec(struct scene *x)
{
    memset_graph(x);
    cudaGraphInstantiate(&x->exec, x->graph, 0);
    cudaGraphLaunch(x->exec, x->idle);
}

static cudaError_t prefetch(struct scene *x, bool to_device)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost,
                                    0};
    return cudaMemPrefetchAsync(x->p, MIB, where, 0, x->idle);
#else
    return cudaMemPrefetchAsync(x->p, MIB, to_device ? 0 : cudaCpuDeviceId, x->idle);
#endif
}

static cudaError_t advise(struct scene *x)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, 0};
    return cudaMemAdvise(x->p, MIB, cudaMemAdviseSetPreferredLocation, where);
#else
    return cudaMemAdvise(x->p, MIB, cudaMemAdviseSetPreferredLocation, 0);
#endif
}

static void on_device(struct scene *x)
{
    managed(x, MIB);
    prefetch(x, true);
}

static void nothing(void *unused)
{
    (void)unused;
}

static cudaError_t four_questions(struct scene *x)
{
    int value;
    unsigned long long id;
    struct cudaPointerAttributes attributes;
    cudaError_t err = cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0);
    err = err != cudaSuccess ? err : cudaPointerGetAttributes(&attributes, x->p);
    err = err != cudaSuccess ? err : cudaStreamGetId(x->idle, &id);
    return err != cudaSuccess ? err : cudaGetDevice(&value);
}

static cudaError_t pool_questions(struct scene *x)
{
    uint64_t value = 0;
    cudaError_t err = cudaMemPoolGetAttribute(x->pool, cudaMemPoolAttrUsedMemCurrent, &value);
    return err != cudaSuccess
               ? err
               : cudaMemPoolSetAttribute(x->pool, cudaMemPoolAttrReleaseThreshold, &value);
}

static cudaError_t make_pool(struct scene *x)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    return cudaMemPoolCreate(&x->pool, &props);
}

static cudaError_t switch_pools(struct scene *x)
{
    cudaMemPool_t standard;
    cudaDeviceGetDefaultMemPool(&standard, 0);
    return THEN(cudaDeviceSetMemPool(0, x->pool), cudaDeviceSetMemPool(0, standard));
}

static cudaError_t pool_access(struct scene *x)
{
    const struct cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 0},
                                           cudaMemAccessFlagsProtReadWrite};
    return cudaMemPoolSetAccess(x->pool, &desc, 1);
}

static void exportable_pool(struct scene *x)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPoolCreate(&x->pool, &props);
}

static cudaError_t export_pool(struct scene *x)
{
    int fd;
    return cudaMemPoolExportToShareableHandle(&fd, x->pool, cudaMemHandleTypePosixFileDescriptor,
                                              0);
}

static cudaError_t memory_info(void)
{
    size_t a, b;
    return cudaMemGetInfo(&a, &b);
}

static void complete_event(struct scene *x)
{
    cudaEventRecord(x->e, x->idle);
}

static void registered(struct scene *x)
{
    if (posix_memalign(&x->h, 4096, MIB) == 0) {
        memset(x->h, 1, MIB);
    }
}

static void pool_block_then_graphless(struct scene *x)
{
    cudaMallocAsync(&x->p, MIB, x->idle);
}

#define DONE (void)0
SYN(SYN01, false, DONE, cudaMalloc(&x->t, MIB))
SYN(SYN02, false, DONE, cudaMalloc(&x->t, 256 * MIB))
SYN(SYN03, false, cudaMalloc(&x->p, MIB), cudaFree(x->p))
SYN(SYN04, true, cudaMalloc(&x->p, MIB), cudaFree(x->p))
SYN(SYN05, false, cudaMalloc(&x->p, 256 * MIB), cudaFree(x->p))
SYN(SYN06, false, DONE, cudaMallocHost(&x->t, MIB))
SYN(SYN07, false, DONE, cudaHostAlloc(&x->t, 64 * MIB, cudaHostAllocMapped | cudaHostAllocPortable))
SYN(SYN08, false, cudaMallocHost(&x->h, MIB), cudaFreeHost(x->h))
SYN(SYN09, true, cudaMallocHost(&x->p, MIB), cudaFreeHost(x->p))
SYN(SYN10, false, DONE, cudaMallocManaged(&x->t, MIB, cudaMemAttachGlobal))
SYN(SYN11, false, managed(x, MIB), cudaFree(x->p))
SYN(SYN12, false, cudaMalloc(&x->p, MIB), cudaMemcpy(x->p, x->host, 4096, cudaMemcpyHostToDevice))
SYN(SYN13, false, pageable_mib(x), cudaMemcpy(x->p, x->big, MIB, cudaMemcpyHostToDevice))
SYN(SYN14, false, (cudaMalloc(&x->p, MIB), cudaMallocHost(&x->h, 4096)),
    cudaMemcpy(x->p, x->h, 4096, cudaMemcpyHostToDevice))
SYN(SYN15, false, cudaMalloc(&x->p, MIB), cudaMemcpy(x->host, x->p, 4096, cudaMemcpyDeviceToHost))
SYN(SYN16, false, (cudaMalloc(&x->p, MIB), cudaMallocHost(&x->h, 4096)),
    cudaMemcpy(x->h, x->p, 4096, cudaMemcpyDeviceToHost))
SYN(SYN17, false, (cudaMalloc(&x->p, MIB), cudaMalloc(&x->q, MIB)),
    cudaMemcpy(x->p, x->q, 64 * KIB, cudaMemcpyDeviceToDevice))
SYN(SYN18, false, DONE, cudaMemcpy(x->host, x->host2, 4096, cudaMemcpyHostToHost))
SYN(SYN19, false, cudaMalloc(&x->p, MIB), cudaMemset(x->p, 1, 64 * KIB))
SYN(SYN20, false, cudaMallocHost(&x->h, 4096), cudaMemset(x->h, 1, 4096))
SYN(SYN21, false, cudaMalloc(&x->p, MIB), cudaMemsetAsync(x->p, 1, 4096, x->idle))
SYN(SYN22, false, DONE, cudaMallocAsync(&x->t, MIB, x->idle))
SYN(SYN23, false, pool_block_then_graphless(x), cudaFreeAsync(x->p, x->idle))
SYN(SYN24, false, DONE, cudaMallocAsync(&x->t, 512 * MIB, x->s))
SYN(SYN25, false, pool_block_then_graphless(x), cudaFree(x->p))
SYN(SYN27, false, pool_with_free_memory(x), cudaMemPoolTrimTo(x->pool, 0))
SYN(SYN29, false, DONE, make_pool(x))
SYN(SYN30, false, pool_with_free_memory(x), cudaMemPoolDestroy(x->pool))
SYN(SYN32, false, DONE, cudaStreamCreateWithFlags(&x->idle, cudaStreamNonBlocking))
SYN(SYN33, false, DONE, cudaStreamCreate(&x->idle))
SYN(SYN34, false, DONE, cudaStreamDestroy(x->idle))
SYN(SYN35, false, DONE, cudaEventCreateWithFlags(&x->e, cudaEventDisableTiming))
SYN(SYN36, false, complete_event(x), cudaEventDestroy(x->e))
SYN(SYN37, false, DONE, cudaDeviceSynchronize())
SYN(SYN38, false, DONE, memory_info())
SYN(SYN39, false, managed(x, MIB), prefetch(x, true))
SYN(SYN40, false, on_device(x), prefetch(x, false))
SYN(SYN41, false, managed(x, MIB), advise(x))
SYN(SYN42, false, registered(x), cudaHostRegister(x->h, MIB, cudaHostRegisterDefault))
SYN(SYN43, false, (registered(x), cudaHostRegister(x->h, MIB, cudaHostRegisterDefault)),
    cudaHostUnregister(x->h))
SYN(SYN44, false, DONE, CU(cuMemAddressReserve_fn(&x->va, 8 * MIB, 0, 0, 0)))
SYN(SYN45, false, DONE, CU(cuMemCreate_fn(&x->handle, 2 * MIB, &prop, 0)))
SYN(SYN46, false, (reserve(x), create(x)), CU(cuMemMap_fn(x->va, 2 * MIB, 0, x->handle, 0)))
SYN(SYN47, false, map(x), CU(cuMemSetAccess_fn(x->va, 2 * MIB, &access_desc, 1)))
SYN(SYN48, false, map_access(x), CU(cuMemUnmap_fn(x->va, 2 * MIB)))
SYN(SYN50, true, map_access(x), CU(cuMemRelease_fn(x->handle)))
SYN(SYN51, false, create(x), CU(cuMemRelease_fn(x->handle)))
SYN(SYN52, false, reserve(x), CU(cuMemAddressFree_fn(x->va, 2 * MIB)))
SYN(SYN53, true, map_access(x), CU(cuMemSetAccess_fn(x->va, 2 * MIB, &access_desc, 1)))
SYN(SYN54, false, cudaMalloc(&x->p, 64), four_questions(x))
SYN(SYN55, false, DONE, cudaStreamSynchronize(x->idle))
SYN(SYN56, false, DONE, cudaStreamSynchronize(0))
SYN(SYN57, false, DONE, cudaSetDevice(0))
SYN(SYN58, false, memset_exec(x), cudaGraphLaunch(x->exec, x->idle))
SYN(SYN59, false, memset_graph(x), cudaGraphInstantiate(&x->exec, x->graph, 0))
SYN(SYN60, false, pool_with_block(x, MIB), pool_questions(x))
SYN(SYN61, false, DONE, cudaLaunchHostFunc(x->idle, nothing, NULL))
static cudaError_t pitch(struct scene *x)
{
    size_t unused;
    return cudaMallocPitch(&x->t, &unused, 64, 1000);
}
SYN(SYN62, false, DONE, pitch(x))
SYN(SYN63, true, pool_block_then_graphless(x), cudaFreeAsync(x->p, x->s))
SYN(SYN64, false, DONE, THEN(cudaEventRecord(x->e, x->idle), cudaStreamWaitEvent(x->s, x->e, 0)))
SYN(SYN65, false, (cudaMalloc(&x->p, MIB), cudaMalloc(&x->q, MIB)),
    cudaMemcpyPeerAsync(x->p, 0, x->q, 0, 4096, x->idle))
SYN(SYN66, false, DONE, cudaFree(NULL))
SYN(SYN67, false, DONE, cudaFree((void *)0xdead00))
SYN(SYN68, false, DONE, THEN(cudaFreeHost(NULL), cudaFreeAsync(NULL, x->idle)))
SYN(SYN69, false, DONE, cudaMalloc(&x->t, 200 * GIB))
SYN(SYN71, false, memset_exec(x), cudaGraphExecDestroy(x->exec))
SYN(SYN72, false, make_pool(x), switch_pools(x))
SYN(SYN73, false, make_pool(x), pool_access(x))
SYN(SYN74, false, complete_event(x),
    THEN(cudaStreamSynchronize(x->idle), THEN(cudaEventSynchronize(x->e), cudaEventQuery(x->e))))
SYN(SYN75, false, DONE, cudaMalloc(&x->t, 0))
SYN(SYN76, false, cudaMalloc(&x->p, MIB), cudaFreeAsync(x->p, x->idle))
SYN(SYN77, false, exportable_pool(x), export_pool(x))

static void run_SYN28(void)
{
    struct scene x = {.idle = nonblocking(), .s = nonblocking()};
    pool_with_block(&x, 64 * MIB);
    gate_close(&gate, x.s);
    cudaFreeAsync(x.p, x.s);
    cudaMemPoolTrimTo(x.pool, 0);
    put("trim_%s", gate_is_open(&gate) ? "wait" : "ret");
    put("reserved:%s", sz(RESERVED(x.pool)));
    gate_open(&gate);
    cudaStreamSynchronize(x.s);
    cudaMemPoolTrimTo(x.pool, 0);
    put("later:%s", sz(RESERVED(x.pool)));
}

static void run_SYN31(void)
{
    struct scene x = {.idle = nonblocking(), .s = nonblocking()};
    pool_with_block(&x, 64 * MIB);
    gate_close(&gate, x.s);
    cudaMemsetAsync(x.p, 1, 4096, x.s);
    cudaError_t err = cudaMemPoolDestroy(x.pool);
    put("%s:%s", gate_is_open(&gate) ? "wait" : "ret", nm(err));
    gate_open(&gate);
    put("sync:%s", nm(cudaDeviceSynchronize()));
    put("free:%s", nm(cudaFreeAsync(x.p, x.s)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

#define ROW(id)       \
    {                 \
#id, run_##id \
    }
const struct check sync_checks[] = {
    ROW(SYN01), ROW(SYN02), ROW(SYN03), ROW(SYN04), ROW(SYN05),   ROW(SYN06), ROW(SYN07),
    ROW(SYN08), ROW(SYN09), ROW(SYN10), ROW(SYN11), ROW(SYN12),   ROW(SYN13), ROW(SYN14),
    ROW(SYN15), ROW(SYN16), ROW(SYN17), ROW(SYN18), ROW(SYN19),   ROW(SYN20), ROW(SYN21),
    ROW(SYN22), ROW(SYN23), ROW(SYN24), ROW(SYN25), ROW(SYN27),   ROW(SYN28), ROW(SYN29),
    ROW(SYN30), ROW(SYN31), ROW(SYN32), ROW(SYN33), ROW(SYN34),   ROW(SYN35), ROW(SYN36),
    ROW(SYN37), ROW(SYN38), ROW(SYN39), ROW(SYN40), ROW(SYN41),   ROW(SYN42), ROW(SYN43),
    ROW(SYN44), ROW(SYN45), ROW(SYN46), ROW(SYN47), ROW(SYN48),   ROW(SYN50), ROW(SYN51),
    ROW(SYN52), ROW(SYN53), ROW(SYN54), ROW(SYN55), ROW(SYN56),   ROW(SYN57), ROW(SYN58),
    ROW(SYN59), ROW(SYN60), ROW(SYN61), ROW(SYN62), ROW(SYN63),   ROW(SYN64), ROW(SYN65),
    ROW(SYN66), ROW(SYN67), ROW(SYN68), ROW(SYN69), ROW(SYN71),   ROW(SYN72), ROW(SYN73),
    ROW(SYN74), ROW(SYN75), ROW(SYN76), ROW(SYN77), {NULL, NULL},
};
