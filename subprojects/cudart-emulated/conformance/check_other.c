/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that no other check calls. */
#include "conformance.h"

static struct gate gate;

#define FETCH(name) \
    DRIVER(name);   \
    LOAD(name)

static int attribute(enum cudaDeviceAttr attr)
{
    int value = -1;
    cudaDeviceGetAttribute(&value, attr, 0);
    return value;
}

static void oth01(void)
{
    static struct cudaDeviceProp prop;
    size_t total = 0;
    cudaMemGetInfo(NULL, &total);
    put("%s", nm(cudaGetDeviceProperties(&prop, 0)));
    put("%s", prop.name[0] != '\0' ? "named" : "nameless");
    put("total:%s", prop.totalGlobalMem == total ? "same" : "other");
    put("major:%s", prop.major == attribute(cudaDevAttrComputeCapabilityMajor) ? "same" : "other");
    put("count:%s",
        prop.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount) ? "same" : "other");
    put("pools:%d", prop.memoryPoolsSupported);
    put("managed:%d", prop.managedMemory);
    put("99:%s", nm(cudaGetDeviceProperties(&prop, 99)));
    put("null:%s", nm(cudaGetDeviceProperties(NULL, 0)));
}

static void oth02(void)
{
    void *a, *b, *c, *d;
    unsigned flags = 99;
    cudaMallocHost(&a, 64);
    cudaHostAlloc(&b, 64, cudaHostAllocPortable);
    cudaHostAlloc(&c, 64, cudaHostAllocWriteCombined);
    cudaMalloc(&d, 64);
    put("%s", nm(cudaHostGetFlags(&flags, a)));
    put("%u", flags);
    cudaHostGetFlags(&flags, b);
    put("%u", flags);
    cudaHostGetFlags(&flags, c);
    put("%u", flags);
    put("device:%s", nm(cudaHostGetFlags(&flags, d)));
    put("null:%s", nm(cudaHostGetFlags(NULL, a)));
    put("malloc:%s", nm(cudaHostGetDevicePointer(&d, malloc(64), 0)));
    put("flags1:%s", nm(cudaHostGetDevicePointer(&d, a, 1)));
}

static int range_attribute(enum cudaMemRangeAttribute attr, void *p)
{
    int value = 99;
    cudaError_t err = cudaMemRangeGetAttribute(&value, sizeof value, attr, p, MIB);
    return err == cudaSuccess ? value : 1000 + (int)err;
}

static void three(const char *name, void *p)
{
    put("%s:%d/%d/%d", name, range_attribute(cudaMemRangeAttributeReadMostly, p),
        range_attribute(cudaMemRangeAttributePreferredLocation, p),
        range_attribute(cudaMemRangeAttributeLastPrefetchLocation, p));
}

static void advise(void *p, enum cudaMemoryAdvise advice, bool host)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, 0};
    cudaMemAdvise(p, MIB, advice, where);
#else
    cudaMemAdvise(p, MIB, advice, host ? cudaCpuDeviceId : 0);
#endif
}

static void prefetch(void *p, bool host)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {host ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, 0};
    cudaMemPrefetchAsync(p, MIB, where, 0, 0);
#else
    cudaMemPrefetchAsync(p, MIB, host ? cudaCpuDeviceId : 0, 0);
#endif
    cudaDeviceSynchronize();
}

static void oth03(void)
{
    void *m, *d;
    int list[2] = {99, 99}, value;
    cudaMallocManaged(&m, MIB, cudaMemAttachGlobal);
    cudaMalloc(&d, MIB);
    three("fresh", m);
    advise(m, cudaMemAdviseSetReadMostly, false);
    advise(m, cudaMemAdviseSetPreferredLocation, false);
    prefetch(m, false);
    three("device", m);
    advise(m, cudaMemAdviseUnsetReadMostly, false);
    advise(m, cudaMemAdviseSetPreferredLocation, true);
    prefetch(m, true);
    three("host", m);
    advise(m, cudaMemAdviseUnsetPreferredLocation, false);
    three("unset", m);
    advise(m, cudaMemAdviseSetAccessedBy, false);
    cudaMemRangeGetAttribute(list, sizeof list, cudaMemRangeAttributeAccessedBy, m, MIB);
    put("by:%d/%d", list[0], list[1]);
    put("size8:%s", nm(cudaMemRangeGetAttribute(list, 8, cudaMemRangeAttributeReadMostly, m, MIB)));
    put("attr99:%s",
        nm(cudaMemRangeGetAttribute(&value, 4, (enum cudaMemRangeAttribute)99, m, MIB)));
    put("device:%s",
        nm(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, d, MIB)));
}

static void nothing(void *unused)
{
    (void)unused;
}

static void oth04(void)
{
    cudaStream_t s = nonblocking();
    void *p, *h, *q;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaGraphNode_t nodes[8] = {NULL};
    size_t count = 8;
    uint64_t zero = 0, five = 5;
    cudaMalloc(&p, 64);
    cudaMallocHost(&h, 64);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaMemsetAsync(p, 1, 64, s);
    cudaMemcpyAsync(h, p, 64, cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, nothing, NULL);
    cudaMallocAsync(&q, 64, s);
    cudaFreeAsync(q, s);
    cudaStreamEndCapture(s, &graph);
    put("%s", nm(cudaGraphGetNodes(graph, nodes, &count)));
    put("count:%zu", count);
    for (size_t i = 0; i < count && i < 8; i++) {
        enum cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
        cudaGraphNodeGetType(nodes[i], &type);
        put("%d", (int)type);
    }
    put("null:%s", nm(cudaGraphNodeGetType(NULL, NULL)));
    cudaGraphInstantiate(&exec, graph, 0);
    put("upload:%s", nm(cudaGraphUpload(exec, s)));
    put("launch:%s", nm(cudaGraphLaunch(exec, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("high0:%s", nm(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero)));
    put("high5:%s", nm(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &five)));
    put("now:%s", nm(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &zero)));
    put("dev99:%s", nm(cudaDeviceSetGraphMemAttribute(99, cudaGraphMemAttrUsedMemHigh, &zero)));
}

static void oth05(void)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    cudaMemPool_t standard, pool = new_pool(0, 1, 1, 1, 0), got = NULL;
    cudaDeviceGetDefaultMemPool(&standard, 0);
    put("%s", nm(cudaMemGetMemPool(&got, &device, cudaMemAllocationTypePinned)));
    put("%s", got == standard ? "default" : "other");
    put("%s", nm(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, pool)));
    cudaMemGetMemPool(&got, &device, cudaMemAllocationTypePinned);
    put("%s", got == pool ? "set" : "other");
    cudaDeviceGetMemPool(&got, 0);
    put("%s", got == pool ? "set" : "other");
    put("%s", nm(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, standard)));
    put("null:%s", nm(cudaMemSetMemPool(&device, cudaMemAllocationTypePinned, NULL)));
#else
    put("SKIP");
#endif
}

static void oth06(void)
{
    cudaMemPool_t pool = NULL;
    put("null:%s", nm(cudaMemPoolImportFromShareableHandle(
                       NULL, NULL, cudaMemHandleTypePosixFileDescriptor, 0)));
    put("type0:%s",
        nm(cudaMemPoolImportFromShareableHandle(&pool, NULL, cudaMemHandleTypeNone, 0)));
}

static void oth07(void)
{
    int value = -1, other = -2;
    CUcontext context = (CUcontext)1, before = NULL;
    const char *text = "";
    size_t f = 0, t = 0, f2 = 0, t2 = 0;
    cudaFree(0);
    FETCH(cuInit);
    FETCH(cuDriverGetVersion);
    FETCH(cuDeviceGet);
    FETCH(cuDeviceGetCount);
    FETCH(cuDeviceGetAttribute);
    FETCH(cuCtxGetDevice);
    FETCH(cuCtxGetCurrent);
    FETCH(cuCtxSetCurrent);
    FETCH(cuGetErrorString);
    void *found = entry_point("cuMemGetInfo");
    CUresult (*info)(size_t *, size_t *);
    memcpy(&info, &found, sizeof found);
    put("init:%s", NM(cuInit_fn(0)));
    put("init1:%s", NM(cuInit_fn(1)));
    cuDriverGetVersion_fn(&value);
    cudaDriverGetVersion(&other);
    put("version:%s", value == other ? "same" : "other");
    put("device:%s", NM(cuDeviceGet_fn(&value, 0)));
    put("%d", value);
    put("device99:%s", NM(cuDeviceGet_fn(&value, 99)));
    cuDeviceGetCount_fn(&value);
    cudaGetDeviceCount(&other);
    put("count:%s", value == other ? "same" : "other");
    cuDeviceGetAttribute_fn(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    put("vmm:%d", value);
    put("attr9999:%s", NM(cuDeviceGetAttribute_fn(&value, (CUdevice_attribute)9999, 0)));
    put("ctxdevice:%s", NM(cuCtxGetDevice_fn(&value)));
    put("%d", value);
    cuCtxGetCurrent_fn(&before);
    put("setnull:%s", NM(cuCtxSetCurrent_fn(NULL)));
    cuCtxGetCurrent_fn(&context);
    put("%s", context == NULL ? "none" : "some");
    put("ctxdevice:%s", NM(cuCtxGetDevice_fn(&value)));
    put("back:%s", NM(cuCtxSetCurrent_fn(before)));
    put("text:%s", NM(cuGetErrorString_fn(CUDA_ERROR_OUT_OF_MEMORY, &text)));
    put("%s", text);
    put("text12345:%s", NM(cuGetErrorString_fn((CUresult)12345, &text)));
    put("info:%s", NM(info(&f, &t)));
    cudaMemGetInfo(&f2, &t2);
    put("total:%s", t == t2 ? "same" : "other");
}

static void oth08(void)
{
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event();
    FETCH(cuEventRecord);
    FETCH(cuEventQuery);
    FETCH(cuEventSynchronize);
    FETCH(cuStreamWaitEvent);
    FETCH(cuStreamQuery);
    FETCH(cuStreamSynchronize);
    FETCH(cuLaunchHostFunc);
    gate_close(&gate, a);
    put("record:%s", NM(cuEventRecord_fn(e, a)));
    put("query:%s", NM(cuEventQuery_fn(e)));
    put("wait:%s", NM(cuStreamWaitEvent_fn(b, e, 0)));
    put("stream:%s", NM(cuStreamQuery_fn(b)));
    put("host:%s", NM(cuLaunchHostFunc_fn(b, nothing, NULL)));
    gate_open(&gate);
    put("sync:%s", NM(cuStreamSynchronize_fn(b)));
    put("esync:%s", NM(cuEventSynchronize_fn(e)));
    put("query:%s", NM(cuEventQuery_fn(e)));
    put("null:%s", NM(cuEventQuery_fn(NULL)));
    put("last:%s", nm(cudaGetLastError()));
}

static void oth09(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAllocationProp got = {.type = CU_MEM_ALLOCATION_TYPE_INVALID};
    CUmemGenericAllocationHandle handle, shareable, again = 0;
    int fd = -1;
    cudaFree(0);
    FETCH(cuMemCreate);
    FETCH(cuMemRelease);
    FETCH(cuMemGetAllocationPropertiesFromHandle);
    FETCH(cuMemExportToShareableHandle);
    FETCH(cuMemImportFromShareableHandle);
    cuMemCreate_fn(&handle, 2 * MIB, &prop, 0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    cuMemCreate_fn(&shareable, 2 * MIB, &prop, 0);
    put("%s", NM(cuMemGetAllocationPropertiesFromHandle_fn(&got, shareable)));
    put("%d/%d/%d/%d", (int)got.type, (int)got.location.type, got.location.id,
        (int)got.requestedHandleTypes);
    put("unasked:%s", NM(cuMemExportToShareableHandle_fn(
                          &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
    put("export:%s", NM(cuMemExportToShareableHandle_fn(
                         &fd, shareable, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
    put("fd:%s", fd >= 0 ? "open" : "none");
    put("import:%s", NM(cuMemImportFromShareableHandle_fn(
                         &again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
    put("release:%s", NM(cuMemRelease_fn(again)));
    put("release:%s", NM(cuMemRelease_fn(shareable)));
}

static void ask(const char *name, const char *symbol, unsigned version, unsigned long long flags,
                bool status)
{
    enum cudaDriverEntryPointQueryResult result = (enum cudaDriverEntryPointQueryResult)9;
    void *p = (void *)0x1234;
#if CUDART_VERSION >= 12050
    cudaError_t err =
        cudaGetDriverEntryPointByVersion(symbol, &p, version, flags, status ? &result : NULL);
#else
    (void)version;
    cudaError_t err = cudaGetDriverEntryPoint(symbol, &p, flags, status ? &result : NULL);
#endif
    put("%s:%s/%d/%s", name, nm(err), (int)result,
        p == NULL             ? "null"
        : p == (void *)0x1234 ? "untouched"
                              : "set");
}

static void oth10(void)
{
#if CUDART_VERSION >= 12050
    ask("known", "cuStreamGetId", 12000, cudaEnableDefault, true);
    ask("unknown", "cuNoSuchFunction", 12000, cudaEnableDefault, true);
    ask("old", "cuStreamGetId", 11000, cudaEnableDefault, true);
    ask("legacy", "cuStreamGetId", 12000, cudaEnableLegacyStream, true);
    ask("flags7", "cuStreamGetId", 12000, 7, true);
#else
    put("SKIP"); /* a version cannot be asked for */
#endif
}

static void oth13(void)
{
    ask("empty", "", 12000, cudaEnableDefault, true);
    ask("unknown", "cuNoSuchFunction", 12000, cudaEnableDefault, false);
}

static void oth11(void)
{
    const int codes[] = {0, 1, 2, 3, 4, 100, 101, 400, 600, 700, 719, 800, 801, 900, 901, 906};
    put("12345:%s/%s", cudaGetErrorName((cudaError_t)12345),
        cudaGetErrorString((cudaError_t)12345));
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        put("%s", cudaGetErrorString((cudaError_t)codes[i]));
    }
}

static void oth12(void)
{
    void *p, *q;
    int least = 9;
    unsigned char byte = 0;
    cudaMalloc(&p, 64);
    cudaMalloc(&q, 64);
    cudaMemset(p, 7, 64);
    put("peer:%s", nm(cudaMemcpyPeer(q, 0, p, 0, 64)));
    cudaMemcpy(&byte, q, 1, cudaMemcpyDeviceToHost);
    put("%d", byte);
    put("peer99:%s", nm(cudaMemcpyPeer(q, 99, p, 0, 64)));
    put("range:%s", nm(cudaDeviceGetStreamPriorityRange(&least, NULL)));
    put("%d", least);
    put("range:%s", nm(cudaDeviceGetStreamPriorityRange(NULL, NULL)));
}

const struct check other_checks[] = {
    {"OTH01", oth01}, {"OTH02", oth02}, {"OTH03", oth03}, {"OTH04", oth04}, {"OTH05", oth05},
    {"OTH06", oth06}, {"OTH07", oth07}, {"OTH08", oth08}, {"OTH09", oth09}, {"OTH10", oth10},
    {"OTH11", oth11}, {"OTH12", oth12}, {"OTH13", oth13}, {NULL, NULL},
};
