/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management. */
#include "conformance.h"

static DRIVER(cuMemGetAllocationGranularity);
static DRIVER(cuMemAddressReserve);
static DRIVER(cuMemAddressFree);
static DRIVER(cuMemCreate);
static DRIVER(cuMemRelease);
static DRIVER(cuMemMap);
static DRIVER(cuMemUnmap);
static DRIVER(cuMemSetAccess);
static DRIVER(cuMemGetAccess);
static DRIVER(cuMemRetainAllocationHandle);

static void load(void)
{
    cudaFree(0);
    LOAD(cuMemGetAllocationGranularity);
    LOAD(cuMemAddressReserve);
    LOAD(cuMemAddressFree);
    LOAD(cuMemCreate);
    LOAD(cuMemRelease);
    LOAD(cuMemMap);
    LOAD(cuMemUnmap);
    LOAD(cuMemSetAccess);
    LOAD(cuMemGetAccess);
    LOAD(cuMemRetainAllocationHandle);
}

static CUmemAllocationProp prop_of(int device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    return prop;
}

static CUdeviceptr reserve(size_t size)
{
    CUdeviceptr va = 0;
    cuMemAddressReserve_fn(&va, size, 0, 0, 0);
    return va;
}

static CUmemGenericAllocationHandle create(size_t size)
{
    const CUmemAllocationProp prop = prop_of(0);
    CUmemGenericAllocationHandle handle = 0;
    cuMemCreate_fn(&handle, size, &prop, 0);
    return handle;
}

static CUresult set_access(CUdeviceptr va, size_t size, int device, int flags)
{
    const CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, (CUmemAccess_flags)flags};
    return cuMemSetAccess_fn(va, size, &desc, 1);
}

static CUdeviceptr mapped(size_t size, CUmemGenericAllocationHandle *handle)
{
    CUdeviceptr va = reserve(size);
    *handle = create(size);
    cuMemMap_fn(va, size, 0, *handle, 0);
    set_access(va, size, 0, 3);
    return va;
}

static void *ptr(CUdeviceptr va)
{
    return (void *)(uintptr_t)va;
}

static int byte_at(CUdeviceptr va)
{
    unsigned char byte = 0;
    cudaMemcpy(&byte, ptr(va), 1, cudaMemcpyDeviceToHost);
    return byte;
}

static void vmm01(void)
{
    CUmemAllocationProp prop = prop_of(0);
    size_t least = 0, best = 0;
    load();
    put("%s",
        NM(cuMemGetAllocationGranularity_fn(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
    cuMemGetAllocationGranularity_fn(&best, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    put("%s/%s", sz(least), sz(best));
    prop = prop_of(99);
    put("dev99:%s",
        NM(cuMemGetAllocationGranularity_fn(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
}

#if defined(__SANITIZE_THREAD__)
#define FEW_ADDRESSES
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FEW_ADDRESSES
#endif
#endif

static void vmm02(void)
{
    CUdeviceptr va = 0, hint;
    load();
#ifdef FEW_ADDRESSES
    put("SKIP: ThreadSanitizer has the addresses");
    return;
#endif
    CUresult err = cuMemAddressReserve_fn(&va, 2 * MIB, 0, 0, 0);
    put("%s:%s", NM(err), va % (2 * MIB) == 0 ? "2M" : "less");
    err = cuMemAddressReserve_fn(&va, 2 * MIB, GIB, 0, 0);
    put("1G:%s:%s", NM(err), va % GIB == 0 ? "1G" : "less");
    put("3M:%s", NM(cuMemAddressReserve_fn(&va, 2 * MIB, 3 * MIB, 0, 0)));
    put("al4096:%s", NM(cuMemAddressReserve_fn(&va, 2 * MIB, 4096, 0, 0)));
    put("size4096:%s", NM(cuMemAddressReserve_fn(&va, 4096, 0, 0, 0)));
    put("size0:%s", NM(cuMemAddressReserve_fn(&va, 0, 0, 0, 0)));
    err = cuMemAddressReserve_fn(&va, (size_t)1 << 46, 0, 0, 0);
    put("2^46:%s", NM(err));
    if (err == CUDA_SUCCESS) {
        cuMemAddressFree_fn(va, (size_t)1 << 46);
    }
    put("2^40:%s", NM(cuMemAddressReserve_fn(&va, (size_t)1 << 40, 0, 0, 0)));
    hint = reserve(64 * MIB);
    cuMemAddressFree_fn(hint, 64 * MIB);
    hint += 16 * MIB;
    err = cuMemAddressReserve_fn(&va, 2 * MIB, 0, hint, 0);
    put("hint:%s:%s", NM(err), va == hint ? "honoured" : "moved");
    err = cuMemAddressReserve_fn(&va, 2 * MIB, 0, hint, 0);
    put("hint_used:%s:%s", NM(err), va == hint ? "honoured" : "moved");
    put("flags1:%s", NM(cuMemAddressReserve_fn(&va, 2 * MIB, 0, 0, 1)));
}

static void vmm03(void)
{
    CUmemAllocationProp prop = prop_of(0);
    CUmemGenericAllocationHandle handle;
    load();
    put("4096:%s", NM(cuMemCreate_fn(&handle, 4096, &prop, 0)));
    put("3M:%s", NM(cuMemCreate_fn(&handle, 3 * MIB, &prop, 0)));
    put("0:%s", NM(cuMemCreate_fn(&handle, 0, &prop, 0)));
    put("2^50:%s", NM(cuMemCreate_fn(&handle, (size_t)1 << 50, &prop, 0)));
    prop = prop_of(99);
    put("dev99:%s", NM(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0)));
    prop = prop_of(0);
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    put("type0:%s", NM(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0)));
    prop = prop_of(0);
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    put("fd:%s", NM(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0)));
}

static void vmm04(void)
{
    load();
    CUdeviceptr va = reserve(8 * MIB);
    CUmemGenericAllocationHandle handle = create(4 * MIB);
    put("va+4096:%s", NM(cuMemMap_fn(va + 4096, 4 * MIB, 0, handle, 0)));
    put("size4096:%s", NM(cuMemMap_fn(va, 4096, 0, handle, 0)));
    put("part:%s", NM(cuMemMap_fn(va, 2 * MIB, 0, handle, 0)));
    put("offset:%s", NM(cuMemMap_fn(va + 2 * MIB, 2 * MIB, 2 * MIB, handle, 0)));
    put("big:%s", NM(cuMemMap_fn(va, 8 * MIB, 0, handle, 0)));
    put("outside:%s", NM(cuMemMap_fn(va + ((CUdeviceptr)1 << 40), 4 * MIB, 0, handle, 0)));
    put("flags1:%s", NM(cuMemMap_fn(va, 4 * MIB, 0, handle, 1)));
}

static void vmm05(void)
{
    load();
    CUdeviceptr va = reserve(8 * MIB);
    CUmemGenericAllocationHandle first = create(4 * MIB), second = create(4 * MIB);
    cuMemMap_fn(va, 4 * MIB, 0, first, 0);
    put("same:%s", NM(cuMemMap_fn(va, 4 * MIB, 0, second, 0)));
    put("overlap:%s", NM(cuMemMap_fn(va + 2 * MIB, 4 * MIB, 0, second, 0)));
}

static void vmm06(void)
{
    load();
    CUdeviceptr va = reserve(8 * MIB);
    CUmemGenericAllocationHandle first = create(4 * MIB), second = create(2 * MIB);
    cuMemMap_fn(va, 4 * MIB, 0, first, 0);
    cuMemMap_fn(va + 4 * MIB, 2 * MIB, 0, second, 0);
    put("part:%s", NM(cuMemUnmap_fn(va, 2 * MIB)));
    put("unaligned:%s", NM(cuMemUnmap_fn(va, 4 * MIB + 4096)));
    put("both:%s", NM(cuMemUnmap_fn(va, 6 * MIB)));
    put("again:%s", NM(cuMemUnmap_fn(va, 6 * MIB)));
    cuMemMap_fn(va, 4 * MIB, 0, first, 0);
    put("hole:%s", NM(cuMemUnmap_fn(va, 8 * MIB)));
    put("then:%s", NM(cuMemMap_fn(va, 4 * MIB, 0, first, 0)));
}

static void vmm07(void)
{
    CUmemGenericAllocationHandle handle;
    load();
    CUdeviceptr a = mapped(2 * MIB, &handle), b = reserve(2 * MIB);
    put("map2:%s", NM(cuMemMap_fn(b, 2 * MIB, 0, handle, 0)));
    put("acc2:%s", NM(set_access(b, 2 * MIB, 0, 3)));
    cudaMemset(ptr(a), 9, 64);
    cudaDeviceSynchronize();
    put("byte:%d", byte_at(b));
}

static size_t free_now(void)
{
    size_t f = 0, t;
    cudaMemGetInfo(&f, &t);
    return f;
}

static void vmm08(void)
{
    load();
    size_t start = free_now();
    CUdeviceptr va = reserve(64 * MIB);
    put("reserve:%s", sz(start - free_now()));
    CUmemGenericAllocationHandle handle = create(64 * MIB);
    put("create:%s", sz(start - free_now()));
    cuMemMap_fn(va, 64 * MIB, 0, handle, 0);
    put("map:%s", sz(start - free_now()));
    set_access(va, 64 * MIB, 0, 3);
    put("access:%s", sz(start - free_now()));
    cuMemRelease_fn(handle);
    put("release:%s", sz(start - free_now()));
    cuMemUnmap_fn(va, 64 * MIB);
    put("unmap:%s", sz(start - free_now()));
    cuMemAddressFree_fn(va, 64 * MIB);
    put("free:%s", sz(start - free_now()));
}

static void vmm09(void)
{
    unsigned char byte;
    load();
    CUdeviceptr va = reserve(4 * MIB);
    CUmemGenericAllocationHandle handle = create(2 * MIB);
    const CUmemLocation where = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    unsigned long long flags = 99;
    cuMemMap_fn(va, 2 * MIB, 0, handle, 0);
    CUresult err = cuMemGetAccess_fn(&flags, &where, va);
    put("getaccess:%s:%llu", NM(err), flags);
    put("memset:%s", nm(cudaMemset(ptr(va), 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
    put("memcpy:%s", nm(cudaMemcpy(&byte, ptr(va), 1, cudaMemcpyDeviceToHost)));
    put("unmapped:%s", nm(cudaMemset(ptr(va + 2 * MIB), 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void vmm10(void)
{
    CUmemGenericAllocationHandle handle, again = 0;
    load();
    CUdeviceptr va = mapped(2 * MIB, &handle);
    put("release:%s", NM(cuMemRelease_fn(handle)));
    put("memset:%s", nm(cudaMemset(ptr(va), 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
    CUresult err = cuMemRetainAllocationHandle_fn(&again, ptr(va));
    put("retain:%s:%s", NM(err), again == handle ? "same" : "other");
    put("unmap:%s", NM(cuMemUnmap_fn(va, 2 * MIB)));
}

static void vmm11(void)
{
    CUmemGenericAllocationHandle first, second;
    load();
    CUdeviceptr va = mapped(2 * MIB, &first), elsewhere = reserve(2 * MIB);
    cudaMemset(ptr(va), 6, 64);
    cudaDeviceSynchronize();
    cuMemUnmap_fn(va, 2 * MIB);
    cuMemMap_fn(elsewhere, 2 * MIB, 0, first, 0);
    set_access(elsewhere, 2 * MIB, 0, 3);
    put("contents:%d", byte_at(elsewhere));
    second = create(2 * MIB);
    cuMemMap_fn(va, 2 * MIB, 0, second, 0);
    put("noaccess:%s", nm(cudaMemset(ptr(va), 1, 64)));
    set_access(va, 2 * MIB, 0, 3);
    put("access:%s", nm(cudaMemset(ptr(va), 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void vmm12(void)
{
    load();
    CUdeviceptr va = reserve(8 * MIB);
    CUmemGenericAllocationHandle handle = create(4 * MIB);
    cuMemMap_fn(va, 4 * MIB, 0, handle, 0);
    put("dev99:%s", NM(set_access(va, 4 * MIB, 99, 3)));
    put("unmapped:%s", NM(set_access(va + 4 * MIB, 2 * MIB, 0, 3)));
    put("unaligned:%s", NM(set_access(va, 4096, 0, 3)));
    put("count0:%s", NM(cuMemSetAccess_fn(va, 4 * MIB, NULL, 0)));
    put("half:%s", NM(set_access(va, 2 * MIB, 0, 3)));
    put("ro:%s", NM(set_access(va, 4 * MIB, 0, 1)));
    put("memset:%s", nm(cudaMemset(ptr(va), 1, 64)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void vmm13(void)
{
    CUmemGenericAllocationHandle handle;
    load();
    CUdeviceptr va = mapped(4 * MIB, &handle);
    put("mapped:%s", NM(cuMemAddressFree_fn(va, 4 * MIB)));
    put("unmap:%s", NM(cuMemUnmap_fn(va, 4 * MIB)));
    put("half:%s", NM(cuMemAddressFree_fn(va, 2 * MIB)));
    put("ok:%s", NM(cuMemAddressFree_fn(va, 4 * MIB)));
    put("twice:%s", NM(cuMemAddressFree_fn(va, 4 * MIB)));
    put("unmap:%s", NM(cuMemUnmap_fn(va, 4 * MIB)));
}

static CUdeviceptr two_mappings(void)
{
    CUdeviceptr va = reserve(8 * MIB);
    cuMemMap_fn(va, 2 * MIB, 0, create(2 * MIB), 0);
    cuMemMap_fn(va + 2 * MIB, 2 * MIB, 0, create(2 * MIB), 0);
    set_access(va, 4 * MIB, 0, 3);
    return va;
}

static void vmm15(void)
{
    unsigned char bytes[128] = {0};
    load();
    CUdeviceptr va = two_mappings(), other = two_mappings();
    CUdeviceptr seam = va + 2 * MIB - 64;
    put("memset:%s", nm(cudaMemset(ptr(seam), 3, 128)));
    put("d2h:%s", nm(cudaMemcpy(bytes, ptr(seam), 128, cudaMemcpyDeviceToHost)));
    put("%d,%d", bytes[0], bytes[127]);
    put("d2d:%s", nm(cudaMemcpyAsync(ptr(other + 2 * MIB - 64), ptr(seam), 128,
                                     cudaMemcpyDeviceToDevice, 0)));
    put("sync:%s", nm(cudaDeviceSynchronize()));
}

static void describe(const char *name, CUdeviceptr va)
{
    struct cudaPointerAttributes a;
    cudaPointerGetAttributes(&a, ptr(va));
    put("%s:t%d/dev%d/%s/%s", name, (int)a.type, a.device,
        a.devicePointer == ptr(va) ? "dp=p"
        : a.devicePointer == NULL  ? "0"
                                   : "dp?",
        a.hostPointer == ptr(va) ? "hp=p"
        : a.hostPointer == NULL  ? "0"
                                 : "hp?");
}

static void vmm16(void)
{
    load();
    CUdeviceptr va = reserve(8 * MIB);
    CUmemGenericAllocationHandle first = create(2 * MIB), second = create(2 * MIB);
    cuMemMap_fn(va, 2 * MIB, 0, first, 0);
    set_access(va, 2 * MIB, 0, 3);
    cuMemMap_fn(va + 2 * MIB, 2 * MIB, 0, second, 0);
    describe("mapped", va);
    describe("inner", va + 4096);
    describe("unmapped", va + 4 * MIB);
    describe("noaccess", va + 2 * MIB);
    put("cudaFree:%s", nm(cudaFree(ptr(va))));
    put("freeAsync:%s", nm(cudaFreeAsync(ptr(va), 0)));
    put("still:%s", nm(cudaMemset(ptr(va), 1, 64)));
    cudaDeviceSynchronize();
    cuMemUnmap_fn(va, 4 * MIB);
    cuMemAddressFree_fn(va, 8 * MIB);
    describe("freed", va);
}

static void vmm17(void)
{
    static struct gate gate;
    cudaStream_t s;
    load();
    s = nonblocking();
    CUdeviceptr va = reserve(8 * MIB);
    cuMemMap_fn(va, 2 * MIB, 0, create(2 * MIB), 0);
    set_access(va, 2 * MIB, 0, 3);
    cudaMemset(ptr(va), 0, 2 * MIB);
    cudaDeviceSynchronize();
    gate_close(&gate, s);
    cudaMemsetAsync(ptr(va), 2, 64, s);
    cuMemMap_fn(va + 2 * MIB, 2 * MIB, 0, create(2 * MIB), 0);
    CUresult err = set_access(va + 2 * MIB, 2 * MIB, 0, 3);
    put("%s:%s", NM(err), gate_is_open(&gate) ? "wait" : "ret");
    cudaMemsetAsync(ptr(va + 64), 4, 4 * MIB - 64, s);
    gate_open(&gate);
    put("sync:%s", nm(cudaStreamSynchronize(s)));
    put("%d,%d,%d", byte_at(va), byte_at(va + 64), byte_at(va + 4 * MIB - 1));
}

const struct check vmm_checks[] = {
    {"VMM01", vmm01}, {"VMM02", vmm02}, {"VMM03", vmm03}, {"VMM04", vmm04}, {"VMM05", vmm05},
    {"VMM06", vmm06}, {"VMM07", vmm07}, {"VMM08", vmm08}, {"VMM09", vmm09}, {"VMM10", vmm10},
    {"VMM11", vmm11}, {"VMM12", vmm12}, {"VMM13", vmm13}, {"VMM15", vmm15}, {"VMM16", vmm16},
    {"VMM17", vmm17}, {NULL, NULL},
};
