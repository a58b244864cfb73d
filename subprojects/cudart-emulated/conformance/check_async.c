/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies on a held stream. */
#include "conformance.h"

static struct gate gate;
static cudaStream_t s;
static unsigned char *device_memory;

static void open_all(size_t size)
{
    void *p;
    s = nonblocking();
    cudaMalloc(&p, size);
    device_memory = p;
    cudaMemset(p, 0, size);
    cudaDeviceSynchronize();
}

static const char *name_of(size_t size)
{
    return size == 4096 ? "4K" : size == 65536 ? "64K" : sz(size);
}

/* Copies to the device behind a gate; says whether the call waited and which bytes went. */
static void to_device(unsigned char *from, size_t size)
{
    unsigned char *back = malloc(size);
    memset(from, 1, size);
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemcpyAsync(device_memory, from, size, cudaMemcpyHostToDevice, s);
    bool waited = gate_is_open(&gate);
    memset(from, 2, size);
    gate_open(&gate);
    cudaStreamSynchronize(s);
    cudaMemcpy(back, device_memory, size, cudaMemcpyDeviceToHost);
    put("%s:%s:%s", name_of(size), waited ? "wait" : "ret", back[size - 1] == 1 ? "old" : "new");
    free(back);
}

static void pageable(const size_t *sizes, int count)
{
    open_all(16 * MIB);
    unsigned char *from = malloc(16 * MIB);
    memset(from, 0, 16 * MIB);
    cudaMemcpy(device_memory, from, 16 * MIB, cudaMemcpyHostToDevice);
    for (int i = 0; i < count; i++) {
        to_device(from, sizes[i]);
    }
}

static void asy01(void)
{
    pageable((const size_t[]){1, 4096, 65536}, 3);
}

static void asy02(void)
{
    pageable((const size_t[]){65537, MIB, 16 * MIB}, 3);
}

static void asy03(void)
{
    void *p;
    open_all(MIB);
    cudaMallocHost(&p, MIB);
    to_device(p, 1);
    to_device(p, 4096);
    to_device(p, MIB);
}

static void to_host(unsigned char *to, size_t size)
{
    memset(to, 0, size);
    cudaMemset(device_memory, 0, size);
    cudaDeviceSynchronize();
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemsetAsync(device_memory, 7, size, s);
    cudaMemcpyAsync(to, device_memory, size, cudaMemcpyDeviceToHost, s);
    bool waited = gate_is_open(&gate);
    bool ready = to[size - 1] == 7;
    put("%s:%s:%s", size == 4096 ? "4K" : sz(size), waited ? "wait" : "ret",
        ready ? "ready_at_return" : "not_ready");
    gate_open(&gate);
    cudaStreamSynchronize(s);
}

static void asy05(void)
{
    open_all(MIB);
    unsigned char *to = malloc(MIB);
    to_host(to, 1);
    to_host(to, 4096);
    to_host(to, MIB);
}

static void asy06(void)
{
    void *p;
    open_all(MIB);
    cudaMallocHost(&p, MIB);
    to_host(p, 1);
    to_host(p, 4096);
    to_host(p, MIB);
}

static void timed(const char *name, void *to, const void *from, enum cudaMemcpyKind kind)
{
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemcpyAsync(to, from, 4096, kind, s);
    put("%s:%s", name, gate_verdict(&gate));
    cudaStreamSynchronize(s);
}

static void asy07(void)
{
    void *pin1, *pin2;
    open_all(4096);
    cudaMallocHost(&pin1, 4096);
    cudaMallocHost(&pin2, 4096);
    unsigned char *page1 = calloc(1, 4096), *page2 = calloc(1, 4096);
    timed("page->page", page1, page2, cudaMemcpyHostToHost);
    timed("page->pin", pin1, page1, cudaMemcpyHostToHost);
    timed("pin->page", page1, pin1, cudaMemcpyHostToHost);
    timed("pin->pin", pin1, pin2, cudaMemcpyHostToHost);
}

static void asy08(void)
{
    void *pinned, *managed, *other;
    open_all(4096);
    cudaMallocHost(&pinned, 4096);
    cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal);
    cudaMalloc(&other, 4096);
    cudaMemsetAsync(pinned, 0, 4096, s);
    cudaMemsetAsync(managed, 0, 4096, s);
    cudaDeviceSynchronize();
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemsetAsync(pinned, 1, 4096, s);
    put("pinned:%s", gate_is_open(&gate) ? "wait" : "ret");
    cudaMemsetAsync(managed, 1, 4096, s);
    put("managed:%s", gate_is_open(&gate) ? "wait" : "ret");
    cudaMemcpyAsync(other, device_memory, 4096, cudaMemcpyDeviceToDevice, s);
    put("d2d:%s", gate_verdict(&gate));
    cudaDeviceSynchronize();
}

static void asy09(void)
{
    void *managed;
    open_all(4096);
    cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal);
    memset(managed, 1, 4096);
    timed("from", device_memory, managed, cudaMemcpyDefault);
    timed("to", managed, device_memory, cudaMemcpyDefault);
}

static void asy10(void)
{
    open_all(4096);
    void *from = NULL;
    if (posix_memalign(&from, 4096, 4096) != 0) {
        return;
    }
    memset(from, 1, 4096);
    cudaHostRegister(from, 4096, cudaHostRegisterDefault);
    unsigned char back = 0;
    gate_close(&gate, s);
    gate_open_later(&gate);
    cudaMemcpyAsync(device_memory, from, 4096, cudaMemcpyHostToDevice, s);
    bool waited = gate_is_open(&gate);
    memset(from, 2, 4096);
    gate_open(&gate);
    cudaStreamSynchronize(s);
    cudaMemcpy(&back, device_memory, 1, cudaMemcpyDeviceToHost);
    put("%s:%s", waited ? "wait" : "ret", back == 1 ? "old" : "new");
}

static void asy11(void)
{
    unsigned char a[64] = {0}, b[64] = {0};
    open_all(256);
    unsigned char *d = device_memory;
    put("D2H(h,h):%s", nm(cudaMemcpy(a, b, 64, cudaMemcpyDeviceToHost)));
    put("H2D(d,d):%s", nm(cudaMemcpy(d, d + 128, 64, cudaMemcpyHostToDevice)));
    put("D2D(d,h):%s", nm(cudaMemcpy(d, b, 64, cudaMemcpyDeviceToDevice)));
    put("99:%s", nm(cudaMemcpy(d, b, 64, (enum cudaMemcpyKind)99)));
    put("null0:%s", nm(cudaMemcpy(NULL, NULL, 0, cudaMemcpyHostToDevice)));
    put("null16:%s", nm(cudaMemcpy(NULL, b, 16, cudaMemcpyHostToDevice)));
    put("nullasync16:%s", nm(cudaMemcpyAsync(NULL, b, 16, cudaMemcpyHostToDevice, s)));
}

const struct check async_checks[] = {
    {"ASY01", asy01}, {"ASY02", asy02}, {"ASY03", asy03}, {"ASY05", asy05},
    {"ASY06", asy06}, {"ASY07", asy07}, {"ASY08", asy08}, {"ASY09", asy09},
    {"ASY10", asy10}, {"ASY11", asy11}, {NULL, NULL},
};
