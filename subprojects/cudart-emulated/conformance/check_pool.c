/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include "conformance.h"

static struct gate gate;
#define PRESET ((void *)0x1234)
#define HIGH(pool, what) pool_number((pool), cudaMemPoolAttr##what##MemHigh)
#define KEEP UINT64_MAX

static void *from(cudaMemPool_t pool, size_t size, cudaStream_t s)
{
    void *p = NULL;
    cudaMallocFromPoolAsync(&p, size, pool, s);
    return p;
}

static const char *same(const void *a, const void *b)
{
    return a == b && a != NULL ? "equal" : "differ";
}

static int switch_value(cudaMemPool_t pool, enum cudaMemPoolAttr attr)
{
    int value = -1;
    cudaMemPoolGetAttribute(pool, attr, &value);
    return value;
}

static void eight(cudaMemPool_t pool)
{
    put("thr:%zu", pool_number(pool, cudaMemPoolAttrReleaseThreshold));
    put("reuse:%d%d%d", switch_value(pool, cudaMemPoolReuseFollowEventDependencies),
        switch_value(pool, cudaMemPoolReuseAllowOpportunistic),
        switch_value(pool, cudaMemPoolReuseAllowInternalDependencies));
    put("resv:%zu", RESERVED(pool));
    put("used:%zu", USED(pool));
    put("rhigh:%zu", HIGH(pool, Reserved));
    put("uhigh:%zu", HIGH(pool, Used));
}

static cudaMemPool_t standard(void)
{
    cudaMemPool_t pool = NULL;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    return pool;
}

static cudaMemPool_t plain(void)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPool_t pool = NULL;
    cudaMemPoolCreate(&pool, &props);
    return pool;
}

static void pol01(void)
{
    eight(standard());
}

static void pol02(void)
{
    eight(plain());
}

static void pol03(void)
{
    cudaMemPool_t pool = plain(), current;
    void *p;
    cudaStream_t s = nonblocking();
    cudaDeviceGetMemPool(&current, 0);
    put("%s", current == standard() ? "same" : "differ");
    cudaDeviceSetMemPool(0, pool);
    cudaDeviceGetMemPool(&current, 0);
    put("%s", current == pool ? "set" : "unset");
    cudaMallocAsync(&p, 1000, s);
    put("used:%zu", USED(pool));
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    put("destroy:%s", nm(cudaMemPoolDestroy(pool)));
    cudaDeviceGetMemPool(&current, 0);
    put("%s", current == standard() ? "default_again" : "other");
}

static void four(const char *name, cudaMemPool_t pool)
{
    put("%s=%zu/%s/%zu/%s", name, USED(pool), sz(RESERVED(pool)), HIGH(pool, Used),
        sz(HIGH(pool, Reserved)));
}

static void pol04(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p[4];
    p[0] = from(pool, 1, s);
    four("1", pool);
    p[1] = from(pool, 513 - 1, s);
    cudaFreeAsync(p[1], s);
    p[1] = from(pool, 513, s);
    four("513", pool);
    p[2] = from(pool, MIB, s);
    four("1M", pool);
    p[3] = from(pool, 33 * MIB, s);
    four("33M", pool);
    for (int i = 0; i < 4; i++) {
        cudaFreeAsync(p[i], s);
    }
    four("freed", pool);
    cudaStreamSynchronize(s);
    four("sync", pool);
}

static void two(const char *name, cudaMemPool_t pool)
{
    put("%s=%s/%s", name, sz(USED(pool)), sz(RESERVED(pool)));
}

static void pol05(void)
{
    cudaMemPool_t pool = new_pool(0, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p = from(pool, MIB, s);
    cudaStreamSynchronize(s);
    two("start", pool);
    gate_close(&gate, s);
    cudaFreeAsync(p, s);
    two("freed_gated", pool);
    p = from(pool, 2 * MIB, s);
    two("alloc_gated", pool);
    cudaFreeAsync(p, s);
    gate_open(&gate);
    cudaStreamSynchronize(s);
    two("end", pool);
}

static void pol06(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    uint64_t zero = 0, five = 5;
    cudaFreeAsync(from(pool, 4 * MIB, s), s);
    cudaStreamSynchronize(s);
    put("%s", sz(HIGH(pool, Used)));
    put("%s", nm(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero)));
    put("%s", sz(HIGH(pool, Used)));
    put("%s", nm(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero)));
    put("%s", sz(HIGH(pool, Reserved)));
    put("set5:%s", nm(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &five)));
    put("used:%s", nm(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &zero)));
    put("resv:%s", nm(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &zero)));
}

static void pol07(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p = from(pool, MIB, s), *q;
    cudaFreeAsync(p, s);
    q = from(pool, MIB, s);
    put("idle:%s", same(p, q));
    gate_close(&gate, s);
    cudaFreeAsync(q, s);
    p = from(pool, MIB, s);
    put("gated:%s", same(p, q));
    cudaFreeAsync(p, s);
    q = from(pool, MIB / 2, s);
    put("half:%s", same(p, q));
    gate_open(&gate);
}

enum link { NO_LINK, EVENT_LINK, EARLY_LINK };

/* 32 MiB freed on a held stream, then wanted on another. */
static void across(const char *name, int follow, int opportunistic, int internal, enum link link)
{
    cudaMemPool_t pool = new_pool(KEEP, follow, opportunistic, internal, 0);
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event();
    void *p = from(pool, 32 * MIB, a), *q;
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    if (link == EARLY_LINK) {
        cudaEventRecord(e, a);
        cudaStreamWaitEvent(b, e, 0);
    }
    cudaFreeAsync(p, a);
    if (link == EVENT_LINK) {
        cudaEventRecord(e, a);
        cudaStreamWaitEvent(b, e, 0);
    }
    q = from(pool, 32 * MIB, b);
    if (link == EARLY_LINK) {
        put("%s", same(p, q));
    } else {
        put("%s:%s:%s", name, same(p, q), gate_is_open(&gate) ? "wait" : "ret");
        put("B_%s", runs(b) ? "runs" : "waits");
    }
    gate_open(&gate);
    cudaDeviceSynchronize();
}

static void pol08(void)
{
    across("111", 1, 1, 1, NO_LINK);
}

static void pol09(void)
{
    across("110", 1, 1, 0, NO_LINK);
    across("000", 0, 0, 0, NO_LINK);
}

static void pol10(void)
{
    across("100", 1, 0, 0, EVENT_LINK);
    across("000", 0, 0, 0, EVENT_LINK);
}

static void pol49(void)
{
    across("100", 1, 0, 0, EARLY_LINK);
}

enum way { SSYNC, SLEEP, EQUERY, SQUERY, ESYNC };

static void settled(const char *name, int opportunistic, enum way way)
{
    cudaMemPool_t pool = new_pool(KEEP, 0, opportunistic, 0, 0);
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event();
    void *p = from(pool, 32 * MIB, a);
    cudaStreamSynchronize(a);
    cudaFreeAsync(p, a);
    cudaEventRecord(e, a);
    switch (way) {
    case SSYNC:
        cudaStreamSynchronize(a);
        break;
    case SLEEP:
        usleep(50000);
        break;
    case EQUERY:
        while (cudaEventQuery(e) != cudaSuccess) {
        }
        break;
    case SQUERY:
        while (cudaStreamQuery(a) != cudaSuccess) {
        }
        break;
    case ESYNC:
        cudaEventSynchronize(e);
    }
    put("%s:%s", name, same(p, from(pool, 32 * MIB, b)));
    cudaDeviceSynchronize();
}

static void pol11(void)
{
    settled("ssync", 1, SSYNC);
    settled("sleep", 1, SLEEP);
    settled("equery", 1, EQUERY);
    settled("squery", 1, SQUERY);
    settled("esync", 1, ESYNC);
    settled("off_ssync", 0, SSYNC);
    settled("off_esync", 0, ESYNC);
}

static void pol12(void)
{
    void *p = PRESET;
    cudaStream_t s = nonblocking();
    put("1T:%s", nm(cudaMallocAsync(&p, (size_t)1 << 40, s)));
    put("ptr_%s", p == NULL ? "null" : "set");
    put("last:%s", nm(cudaGetLastError()));
    put("2^60:%s", nm(cudaMallocAsync(&p, (size_t)1 << 60, s)));
    put("then:%s", nm(cudaMallocAsync(&p, MIB, s)));
}

static void pol13(void)
{
    void *p = PRESET;
    cudaStream_t s = nonblocking();
    cudaMemPool_t pool = plain();
    put("%s", nm(cudaMallocAsync(&p, 0, s)));
    put("ptr_%s", p == NULL ? "null" : "set");
    p = PRESET;
    put("%s", nm(cudaMallocFromPoolAsync(&p, 0, pool, s)));
    put("ptr_%s", p == NULL ? "null" : "set");
    put("used:%zu", USED(pool));
    put("free:%s", nm(cudaFreeAsync(p, s)));
    put("nullout:%s", nm(cudaMallocAsync(NULL, 64, s)));
}

static void pol14(void)
{
    put("%s", nm(cudaFreeAsync(NULL, nonblocking())));
    put("last:%s", nm(cudaGetLastError()));
}

static void pol15(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p = from(pool, MIB, s), *q = from(pool, MIB, s);
    cudaStreamSynchronize(s);
    cudaFreeAsync(p, s);
    put("at_once:%s", nm(cudaFreeAsync(p, s)));
    cudaStreamSynchronize(s);
    put("after_sync:%s", nm(cudaFreeAsync(p, s)));
    put("used:%s", sz(USED(pool)));
    put("free_q:%s", nm(cudaFreeAsync(q, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
}

static void pol16(void)
{
    int on_stack;
    void *h, *d, *m, *q;
    cudaStream_t s = nonblocking();
    cudaMallocHost(&h, 64);
    cudaMalloc(&d, 64);
    cudaMallocManaged(&m, 64, cudaMemAttachGlobal);
    cudaMallocAsync(&q, 4096, s);
    cudaStreamSynchronize(s);
    put("stack:%s", nm(cudaFreeAsync(&on_stack, s)));
    put("malloc:%s", nm(cudaFreeAsync(malloc(64), s)));
    put("pinned:%s", nm(cudaFreeAsync(h, s)));
    put("cudaMalloc:%s", nm(cudaFreeAsync(d, s)));
    put("managed:%s", nm(cudaFreeAsync(m, s)));
    put("interior:%s", nm(cudaFreeAsync((char *)q + 512, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("use:%s", nm(cudaMemset(d, 0, 64)));
    put("free:%s", nm(cudaFree(d)));
}

static void pol17(void)
{
    cudaStream_t s = nonblocking();
    struct cudaPointerAttributes a;
    void *p;
    cudaMalloc(&p, MIB);
    gate_close(&gate, s);
    cudaError_t err = cudaFreeAsync(p, s);
    put("%s:%s", gate_is_open(&gate) ? "wait" : "ret", nm(err));
    err = cudaPointerGetAttributes(&a, p);
    put("gated:%s:type%d", nm(err), (int)a.type);
    gate_open(&gate);
    cudaStreamSynchronize(s);
    put("memset:%s", nm(cudaMemset(p, 0, 64)));
    put("free:%s", nm(cudaFree(p)));
}

static void pol19(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event();
    void *p = from(pool, MIB, a), *q = from(pool, MIB, a);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0);
    put("%s", nm(cudaFreeAsync(p, b)));
    cudaDeviceSynchronize();
    put("%s", nm(cudaFreeAsync(q, nonblocking())));
    cudaDeviceSynchronize();
    put("used:%zu", USED(pool));
}

static const char *try(cudaMemPool_t pool, size_t size, cudaStream_t s, void **p)
{
    return nm(cudaMallocFromPoolAsync(p, size, pool, s));
}

static void pol20(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 64 * MIB);
    cudaStream_t s = nonblocking();
    void *p, *q;
    int made = 0;
    put("65M:%s", try(pool, 65 * MIB, s, &p));
    put("64M:%s", try(pool, 64 * MIB, s, &p));
    put("1:%s", try(pool, 1, s, &q));
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    while (made < 64 && from(pool, MIB, s) != NULL) {
        made++;
    }
    put("%dx1M", made);
    pool = new_pool(KEEP, 1, 1, 1, MIB);
    put("max1M:1M:%s", try(pool, MIB, s, &p));
    put("2M:%s", try(pool, 2 * MIB, s, &p));
    put("33M:%s", try(pool, 33 * MIB, s, &p));
}

static void full(const char *name, int internal)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, internal, 64 * MIB);
    cudaStream_t a = nonblocking(), b = nonblocking();
    void *p = from(pool, 64 * MIB, a), *q;
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaFreeAsync(p, a);
    const char *code = try(pool, 64 * MIB, b, &q);
    put("%s:%s:%s", name, code, gate_is_open(&gate) ? "wait" : "ret");
    gate_open(&gate);
    cudaDeviceSynchronize();
}

static void pol21(void)
{
    full("111", 1);
    full("110", 0);
}

static cudaError_t create(int type, int location, int id, unsigned handles, cudaMemPool_t *pool)
{
    struct cudaMemPoolProps props = {.allocType = (enum cudaMemAllocationType)type,
                                     .handleTypes = (enum cudaMemAllocationHandleType)handles,
                                     .location = {(enum cudaMemLocationType)location, id}};
    return cudaMemPoolCreate(pool, &props);
}

static void pol22(void)
{
    const unsigned handles[] = {1, 2, 4, 8, 16, 3};
    cudaMemPool_t pool;
    int fd;
    for (int i = 0; i < 6; i++) {
        put("%u:%s", handles[i], nm(create(1, 1, 0, handles[i], &pool)));
    }
    put("export:%s", nm(cudaMemPoolExportToShareableHandle(
                         &fd, plain(), cudaMemHandleTypePosixFileDescriptor, 0)));
}

static void pol23(void)
{
    const struct {
        const char *name;
        int type, location, id;
    } rows[] = {{"dev99", 1, 1, 99}, {"dev-1", 1, 1, -1},  {"loc0", 1, 0, 0},    {"host", 1, 2, 0},
                {"numa0", 1, 3, 0},  {"numa99", 1, 3, 99}, {"numacur", 1, 4, 0}, {"mdev0", 2, 1, 0},
                {"mnone", 2, 0, 0},  {"mhost", 2, 2, 0},   {"type0", 0, 1, 0}};
    cudaMemPool_t pool;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        put("%s:%s", rows[i].name,
            nm(create(rows[i].type, rows[i].location, rows[i].id, 0, &pool)));
    }
}

static void pol24(void)
{
    cudaMemPool_t pool = NULL;
    cudaStream_t s = nonblocking();
    void *p = NULL;
    struct cudaPointerAttributes a;
    put("create:%s", nm(create(1, 3, 0, 0, &pool)));
    put("alloc:%s", nm(cudaMallocFromPoolAsync(&p, MIB, pool, s)));
    cudaStreamSynchronize(s);
    unsigned char *bytes = p;
    bytes[0] = 1;
    put("host_write:ok");
    cudaError_t err = cudaPointerGetAttributes(&a, p);
    put("type:%s:%d", nm(err), (int)a.type);
    put("memset_noaccess:%s", nm(cudaMemsetAsync(p, 6, 64, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    const struct cudaMemAccessDesc desc = {{cudaMemLocationTypeDevice, 0},
                                           cudaMemAccessFlagsProtReadWrite};
    put("setaccess:%s", nm(cudaMemPoolSetAccess(pool, &desc, 1)));
    put("memset:%s", nm(cudaMemsetAsync(p, 6, 64, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("byte:%d", bytes[0]);
    put("free:%s", nm(cudaFreeAsync(p, s)));
}

static void pol25(void)
{
    cudaMemPool_t pool = NULL;
    cudaStream_t s = nonblocking();
    void *p = NULL;
    struct cudaPointerAttributes a;
    put("create:%s", nm(create(2, 1, 0, 0, &pool)));
    put("alloc:%s", nm(cudaMallocFromPoolAsync(&p, MIB, pool, s)));
    cudaStreamSynchronize(s);
    unsigned char *bytes = p;
    bytes[0] = 1;
    cudaPointerGetAttributes(&a, p);
    put("type:%d", (int)a.type);
    put("memset:%s", nm(cudaMemsetAsync(p, 6, 64, s)));
    cudaStreamSynchronize(s);
    put("byte:%d", bytes[0]);
    put("used:%s", sz(USED(pool)));
    put("resv:%s", sz(RESERVED(pool)));
#if CUDART_VERSION >= 13000
    struct cudaMemLocation where = {cudaMemLocationTypeHost, 0};
    put("prefetch:%s", nm(cudaMemPrefetchAsync(p, MIB, where, 0, s)));
#else
    put("prefetch:%s", nm(cudaMemPrefetchAsync(p, MIB, cudaCpuDeviceId, s)));
#endif
    put("free:%s", nm(cudaFreeAsync(p, s)));
    cudaStreamSynchronize(s);
    put("destroy:%s", nm(cudaMemPoolDestroy(pool)));
}

static cudaError_t access_of(cudaMemPool_t pool, int type, int id, int *flags)
{
    struct cudaMemLocation where = {(enum cudaMemLocationType)type, id};
    enum cudaMemAccessFlags got = cudaMemAccessFlagsProtNone;
    cudaError_t err = cudaMemPoolGetAccess(&got, pool, &where);
    *flags = (int)got;
    return err;
}

static cudaError_t set_access(cudaMemPool_t pool, int type, int id, int flags)
{
    const struct cudaMemAccessDesc desc = {{(enum cudaMemLocationType)type, id},
                                           (enum cudaMemAccessFlags)flags};
    return cudaMemPoolSetAccess(pool, &desc, 1);
}

static void pol26(void)
{
    cudaMemPool_t pool = plain();
    int flags;
    cudaError_t err = access_of(pool, 1, 0, &flags);
    put("get:%s:%d", nm(err), flags);
    put("none:%s", nm(set_access(pool, 1, 0, 0)));
    put("read:%s", nm(set_access(pool, 1, 0, 1)));
    put("rw:%s", nm(set_access(pool, 1, 0, 3)));
    put("dev99:%s", nm(set_access(pool, 1, 99, 3)));
    err = access_of(pool, 2, 0, &flags);
    put("hostget:%s:%d", nm(err), flags);
    put("hostset:%s", nm(set_access(pool, 2, 0, 3)));
    put("count0:%s", nm(cudaMemPoolSetAccess(pool, NULL, 0)));
}

static void pol27(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    unsigned char byte = 0;
    void *p = from(pool, MIB, s);
    cudaStreamSynchronize(s);
    put("destroy:%s", nm(cudaMemPoolDestroy(pool)));
    put("memset:%s", nm(cudaMemsetAsync(p, 4, 64, s)));
    cudaStreamSynchronize(s);
    cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost);
    put("byte:%d", byte);
    put("free:%s", nm(cudaFreeAsync(p, s)));
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("default:%s", nm(cudaMemPoolDestroy(standard())));
    put("null:%s", nm(cudaMemPoolDestroy(NULL)));
}

static void pol29(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p[3];
    for (int i = 0; i < 3; i++) {
        p[i] = from(pool, 32 * MIB, s);
    }
    cudaFreeAsync(p[0], s);
    cudaFreeAsync(p[1], s);
    cudaStreamSynchronize(s);
    put("%s", sz(RESERVED(pool)));
    cudaMemPoolTrimTo(pool, GIB);
    put("1G:%s", sz(RESERVED(pool)));
    cudaMemPoolTrimTo(pool, 64 * MIB);
    put("64M:%s", sz(RESERVED(pool)));
    cudaMemPoolTrimTo(pool, 0);
    put("0:%s", sz(RESERVED(pool)));
    cudaFreeAsync(p[2], s);
    cudaStreamSynchronize(s);
    cudaMemPoolTrimTo(pool, 1);
    put("1:%s", sz(RESERVED(pool)));
}

static void released(const char *name)
{
    cudaMemPool_t pool = new_pool(0, 1, 1, 1, 0);
    cudaStream_t s = nonblocking(), other = nonblocking();
    cudaEvent_t e = event();
    void *p = from(pool, 64 * MIB, s), *d;
    unsigned char byte;
    cudaMalloc(&d, 64);
    cudaStreamSynchronize(s);
    cudaFreeAsync(p, s);
    cudaEventRecord(e, s);
    if (strcmp(name, "none") != 0) {
        usleep(20000);
    }
    if (strcmp(name, "squery") == 0) {
        while (cudaStreamQuery(s) != cudaSuccess) {
        }
    } else if (strcmp(name, "equery") == 0) {
        while (cudaEventQuery(e) != cudaSuccess) {
        }
    } else if (strcmp(name, "esync") == 0) {
        cudaEventSynchronize(e);
    } else if (strcmp(name, "ssync") == 0) {
        cudaStreamSynchronize(s);
    } else if (strcmp(name, "other") == 0) {
        cudaStreamSynchronize(other);
    } else if (strcmp(name, "dsync") == 0) {
        cudaDeviceSynchronize();
    } else if (strcmp(name, "nextalloc") == 0) {
        from(pool, 1, s);
    } else if (strcmp(name, "memcpy") == 0) {
        cudaMemcpy(&byte, d, 1, cudaMemcpyDeviceToHost);
    }
    put("%s:%s", name, sz(RESERVED(pool)));
}

static void pol30(void)
{
    const char *const ways[] = {"none",  "sleep", "squery", "equery",    "esync",
                                "ssync", "other", "dsync",  "nextalloc", "memcpy"};
    for (int i = 0; i < 10; i++) {
        released(ways[i]);
    }
}

static void pol31(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    const size_t sizes[] = {1, 512, 513, 1024, 4096};
    uintptr_t all = 0;
    for (size_t size = 1; size <= 4096; size++) {
        all |= (uintptr_t)from(pool, size, s);
    }
    put("align:%zu", (size_t)(all & (~all + 1)));
    pool = new_pool(KEEP, 1, 1, 1, 0);
    char *a = from(pool, 1, s), *b = from(pool, 1, s);
    put("gap:%ld", labs((long)(b - a)));
    for (int i = 0; i < 5; i++) {
        size_t before = USED(pool);
        from(pool, sizes[i], s);
        put("%zu+%zu", sizes[i], USED(pool) - before);
    }
}

static void pol32(void)
{
    const size_t sizes[] = {1, 2 * MIB, 31 * MIB, 32 * MIB, 33 * MIB, 100 * MIB, GIB + 1};
    cudaStream_t s = nonblocking();
    for (int i = 0; i < 7; i++) {
        cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
        void *p = from(pool, sizes[i], s);
        put("%s=%s/%s", sz(sizes[i]), sz(USED(pool)), sz(RESERVED(pool)));
        cudaFreeAsync(p, s);
        cudaStreamSynchronize(s);
        cudaMemPoolDestroy(pool);
    }
}

static void pol33(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = from(pool, 8 * MIB, s);
    }
    put("%s", sz(RESERVED(pool)));
    for (int i = 0; i < 4; i++) {
        cudaFreeAsync(p[i], s);
    }
    cudaStreamSynchronize(s);
    void *q = from(pool, 32 * MIB, s);
    put("%s", sz(RESERVED(pool)));
    put("%s", same(p[0] < p[3] ? p[0] : p[3], q));
}

static void pol34(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p = from(pool, 32 * MIB, s), *q = from(pool, 32 * MIB, s);
    cudaFreeAsync(p, s);
    cudaFreeAsync(q, s);
    cudaStreamSynchronize(s);
    put("%s", sz(RESERVED(pool)));
    from(pool, 64 * MIB, s);
    put("%s", sz(RESERVED(pool)));
}

static void pol35(void)
{
    cudaMemPool_t pool = plain();
    uint64_t value;
    void *p;
    put("99:%s", nm(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)99, &value)));
    put("0:%s", nm(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)0, &value)));
    put("nullval:%s", nm(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, NULL)));
    put("nullpool:%s", nm(cudaMemPoolGetAttribute(NULL, cudaMemPoolAttrUsedMemCurrent, &value)));
    put("allocnullpool:%s", nm(cudaMallocFromPoolAsync(&p, 64, NULL, 0)));
}

static void pol36(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *p = from(pool, MIB, s);
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
    put("%s", nm(cudaFreeAsync(p, 0)));
    cudaDeviceSynchronize();
    put("used:%zu", USED(pool));
}

static void describe(const char *name, void *p, bool whole)
{
    struct cudaPointerAttributes a;
    cudaError_t err = cudaPointerGetAttributes(&a, p);
    if (whole) {
        put("%s:type%d:dev%d:%s:%s", nm(err), (int)a.type, a.device,
            a.devicePointer == p ? "dp" : "nodp", a.hostPointer == NULL ? "nohp" : "hp");
    } else {
        put("%s:type%d:%s", name, (int)a.type, a.devicePointer == p ? "dp" : "nodp");
    }
}

static void pol37(void)
{
    cudaStream_t s = nonblocking();
    struct cudaPointerAttributes a;
    void *p;
    cudaMallocAsync(&p, MIB, s);
    cudaStreamSynchronize(s);
    describe("", p, true);
    describe("inner", (char *)p + 4096, false);
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    cudaError_t err = cudaPointerGetAttributes(&a, p);
    put("freed:%s:type%d", nm(err), (int)a.type);
}

static size_t free_now(void)
{
    size_t f = 0, t;
    cudaMemGetInfo(&f, &t);
    return f;
}

static size_t sixty(size_t bytes)
{
    return bytes / 10 * 6 / (2 * MIB) * (2 * MIB);
}

static void fill(cudaMemPool_t pool, cudaStream_t s)
{
    void *p = from(pool, sixty(free_now()), s);
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
}

static void pol38(void)
{
    cudaStream_t s = nonblocking();
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0), second;
    void *p, *f = entry_point("cuMemCreate"), *g = entry_point("cuMemRelease");
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    DRIVER(cuMemCreate);
    DRIVER(cuMemRelease);
    CUmemGenericAllocationHandle handle = 0;
    memcpy(&cuMemCreate_fn, &f, sizeof f);
    memcpy(&cuMemRelease_fn, &g, sizeof g);
    size_t start = free_now();
    fill(pool, s);
    put("cudaMalloc:%s", nm(cudaMalloc(&p, sixty(start))));
    put("reserved_%zu", RESERVED(pool));
    cudaFree(p);
    fill(pool, s);
    second = new_pool(0, 1, 1, 1, 0);
    put("otherpool:%s", nm(cudaMallocFromPoolAsync(&p, sixty(start), second, s)));
    put("reserved_%zu", RESERVED(pool));
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    fill(pool, s);
    put("cuMemCreate:%s", nm((cudaError_t)cuMemCreate_fn(&handle, sixty(start), &prop, 0)));
    cuMemRelease_fn(handle);
}

static void pol39(void)
{
    cudaMemPool_t pool = new_pool(0, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    size_t start = free_now();
    void *p = from(pool, MIB, s);
    put("drop:%s", sz(start - free_now()));
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    put("%s", free_now() == start ? "returned" : "kept");
}

static void pol40(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t a = nonblocking(), b = nonblocking();
    cudaEvent_t e = event(), done = event();
    unsigned char byte = 0;
    gate_close(&gate, a);
    void *p = from(pool, MIB, a);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(b, e, 0);
    put("%s", nm(cudaMemsetAsync(p, 3, 64, b)));
    cudaEventRecord(done, b);
    put("B_%s", completes(done) ? "runs" : "waits");
    gate_open(&gate);
    put("sync:%s", nm(cudaStreamSynchronize(b)));
    cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost);
    put("byte:%d", byte);
}

static void pol43(void)
{
#if CUDART_VERSION >= 13000
    struct cudaMemLocation device = {cudaMemLocationTypeDevice, 0};
    struct cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    struct cudaMemLocation numa = {cudaMemLocationTypeHostNuma, 0};
    cudaMemPool_t pool = NULL;
    cudaError_t err = cudaMemGetDefaultMemPool(&pool, &device, cudaMemAllocationTypePinned);
    put("%s:%s", nm(err), pool == standard() ? "same" : "other");
    put("managed:%s", nm(cudaMemGetDefaultMemPool(&pool, &device, cudaMemAllocationTypeManaged)));
    put("host:%s", nm(cudaMemGetDefaultMemPool(&pool, &host, cudaMemAllocationTypePinned)));
    put("numa0:%s", nm(cudaMemGetDefaultMemPool(&pool, &numa, cudaMemAllocationTypePinned)));
#else
    put("SKIP");
#endif
}

static void pol44(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 0, 0, 0);
    cudaStream_t a = blocking(), b = blocking();
    void *p = from(pool, 32 * MIB, a), *d, *q;
    cudaMalloc(&d, 64);
    cudaMemset(d, 0, 64);
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaFreeAsync(p, a);
    cudaMemsetAsync(d, 1, 64, 0);
    q = from(pool, 32 * MIB, b);
    put("%s", same(p, q));
    put("B_%s", runs(b) ? "runs" : "waits");
    gate_open(&gate);
}

static void pol46(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0), other;
    cudaStream_t s = nonblocking();
    void *p = from(pool, 32 * MIB, s), *q = from(pool, MIB, s);
    cudaStreamSynchronize(s);
    put("%s", nm(cudaFree(p)));
    two("used", pool);
    cudaDeviceSynchronize();
    two("sync", pool);
    put("twice:%s", nm(cudaFree(p)));
    cudaFree(q);
    put("freeAsync_after:%s", nm(cudaFreeAsync(q, s)));
    other = new_pool(0, 1, 1, 1, 0);
    p = from(other, MIB, s);
    cudaStreamSynchronize(s);
    put("thr0:%s", nm(cudaFree(p)));
    put("%s/%s", sz(USED(other)), sz(RESERVED(other)));
    cudaDeviceSynchronize();
    two("sync", other);
}

static void pol47(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking();
    void *first = NULL;
    bool equal = true;
    gate_close(&gate, s);
    for (int i = 0; i < 20; i++) {
        void *p = from(pool, 8 * MIB, s);
        first = first == NULL ? p : first;
        equal = equal && p == first;
        cudaFreeAsync(p, s);
    }
    put("%s:%s", sz(RESERVED(pool)), equal ? "equal" : "differ");
    gate_open(&gate);
}

static void pol48(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 0, 0, 0);
    cudaStream_t a = nonblocking(), b = nonblocking(), c = nonblocking();
    cudaEvent_t e = event(), f = event();
    void *p = from(pool, 32 * MIB, a), *q;
    cudaDeviceSynchronize();
    gate_close(&gate, a);
    cudaFreeAsync(p, a);
    cudaEventRecord(e, a);
    cudaStreamWaitEvent(c, e, 0);
    cudaEventRecord(f, c);
    cudaStreamWaitEvent(b, f, 0);
    q = from(pool, 32 * MIB, b);
    put("%s", same(p, q));
    put("B_%s", runs(b) ? "runs" : "waits");
    gate_open(&gate);
}

static void pol50(void)
{
    cudaMemPool_t pool = new_pool(KEEP, 1, 1, 1, 0);
    cudaStream_t s = nonblocking(), other = nonblocking();
    char *p = from(pool, 32 * MIB, s), *a, *b;
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    a = from(pool, MIB, 0);
    b = from(pool, MIB, other);
    put("%s", a >= p && a < p + 32 * MIB ? "inside" : "outside");
    put("%s", b >= p && b < p + 32 * MIB ? "inside" : "outside");
    put("%s", sz(RESERVED(pool)));
}

const struct check pool_checks[] = {
    {"POL01", pol01}, {"POL02", pol02}, {"POL03", pol03}, {"POL04", pol04}, {"POL05", pol05},
    {"POL06", pol06}, {"POL07", pol07}, {"POL08", pol08}, {"POL09", pol09}, {"POL10", pol10},
    {"POL11", pol11}, {"POL12", pol12}, {"POL13", pol13}, {"POL14", pol14}, {"POL15", pol15},
    {"POL16", pol16}, {"POL17", pol17}, {"POL19", pol19}, {"POL20", pol20}, {"POL21", pol21},
    {"POL22", pol22}, {"POL23", pol23}, {"POL24", pol24}, {"POL25", pol25}, {"POL26", pol26},
    {"POL27", pol27}, {"POL29", pol29}, {"POL30", pol30}, {"POL31", pol31}, {"POL32", pol32},
    {"POL33", pol33}, {"POL34", pol34}, {"POL35", pol35}, {"POL36", pol36}, {"POL37", pol37},
    {"POL38", pol38}, {"POL39", pol39}, {"POL40", pol40}, {"POL43", pol43}, {"POL44", pol44},
    {"POL46", pol46}, {"POL47", pol47}, {"POL48", pol48}, {"POL49", pol49}, {"POL50", pol50},
    {NULL, NULL},
};
