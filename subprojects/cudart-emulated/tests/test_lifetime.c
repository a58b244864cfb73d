/* SPDX-License-Identifier: Apache-2.0 */
/* What is reported: memory and handles that are used too late, and device memory on the host. */
#include "check.h"

#include <cuda.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static bool reported(const char *kind)
{
    const char *text = cudart_emulated_violation(0);
    bool found = text != NULL && strncmp(text, kind, strlen(kind)) == 0;
    if (!found) {
        fprintf(stderr, "not a report of %s: %s\n", kind, text == NULL ? "none" : text);
    }
    cudart_emulated_reset();
    cudart_emulated_set_option("quiet", 1);
    return found;
}

static cudaStream_t stream(void)
{
    cudaStream_t s = NULL;
    CHECK_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static void test_pinned_freed_early(void)
{
    void *h;
    CHECK_OK(cudaMallocHost(&h, 4096));
    CHECK_OK(cudaMemsetAsync(h, 1, 4096, stream()));
    CHECK_OK(cudaFreeHost(h));
    CHECK(reported("lifetime: cudaFreeHost"));
    CHECK_OK(cudaMallocHost(&h, 4096));
    CHECK_OK(cudaMemsetAsync(h, 1, 4096, stream()));
    cudart_emulated_set_option("host_free_waits", 1);
    CHECK_OK(cudaFreeHost(h));
    CHECK(cudart_emulated_violations() == 0);
    cudart_emulated_reset();
    cudart_emulated_set_option("quiet", 1);
}

/* Done, but the program cannot know it. */
static void test_freed_without_waiting(void)
{
    void *h;
    cudaStream_t s = stream(), other = stream();
    cudaEvent_t e;
    CHECK_OK(cudaEventCreate(&e));
    CHECK_OK(cudaMallocHost(&h, 4096));
    CHECK_OK(cudaMemsetAsync(h, 1, 4096, s));
    CHECK_OK(cudaEventRecord(e, s));
    CHECK_OK(cudaStreamWaitEvent(other, e, 0));
    CHECK_OK(cudaEventRecord(e, 0));
    CHECK_OK(cudaStreamQuery(0));
    CHECK_OK(cudaFreeHost(h));
    CHECK(reported("lifetime: cudaFreeHost"));
}

static void test_pool_block_freed_now(void)
{
    void *p;
    cudaStream_t s = stream();
    CHECK_OK(cudaMallocAsync(&p, MIB, s));
    CHECK_OK(cudaMemsetAsync(p, 1, MIB, s));
    CHECK_OK(cudaFree(p));
    CHECK(reported("lifetime: cudaFree"));
}

static void test_free_does_not_wait(void)
{
    void *p;
    cudart_emulated_set_option("free_waits", 0);
    CHECK_OK(cudaMalloc(&p, MIB));
    CHECK_OK(cudaMemsetAsync(p, 1, MIB, stream()));
    CHECK_OK(cudaFree(p));
    CHECK(reported("lifetime: cudaFree"));
}

#define DRIVER(name) __typeof__(name) *name##_fn
static DRIVER(cuMemAddressReserve);
static DRIVER(cuMemCreate);
static DRIVER(cuMemExportToShareableHandle);
static DRIVER(cuMemImportFromShareableHandle);
static DRIVER(cuMemMap);
static DRIVER(cuMemRelease);
static DRIVER(cuMemRetainAllocationHandle);
static DRIVER(cuMemSetAccess);
static DRIVER(cuMemUnmap);

static void load(void)
{
    void *f;
#define LOAD(name)                                                         \
    CHECK_OK(cudaGetDriverEntryPoint(#name, &f, cudaEnableDefault, NULL)); \
    memcpy(&name##_fn, &f, sizeof f)
    LOAD(cuMemAddressReserve);
    LOAD(cuMemCreate);
    LOAD(cuMemExportToShareableHandle);
    LOAD(cuMemImportFromShareableHandle);
    LOAD(cuMemMap);
    LOAD(cuMemRelease);
    LOAD(cuMemRetainAllocationHandle);
    LOAD(cuMemSetAccess);
    LOAD(cuMemUnmap);
}

static void map_at(CUdeviceptr va, CUmemGenericAllocationHandle handle)
{
    const CUmemAccessDesc desc = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemMap_fn(va, 2 * MIB, 0, handle, 0) == CUDA_SUCCESS);
    CHECK(cuMemSetAccess_fn(va, 2 * MIB, &desc, 1) == CUDA_SUCCESS);
}

/* 2 MiB that live as long as they are mapped, in a reservation of 4. */
static CUdeviceptr mapped(void)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr va = 0;
    load();
    size_t ranges = cudart_emulated_reserved();
    CHECK(cuMemAddressReserve_fn(&va, 4 * MIB, 0, 0, 0) == CUDA_SUCCESS);
    CHECK(cudart_emulated_reserved() == ranges + 1);
    CHECK(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
    map_at(va, handle);
    CHECK(cuMemRelease_fn(handle) == CUDA_SUCCESS);
    return va;
}

static void *pointer(CUdeviceptr va)
{
    return (void *)(uintptr_t)va;
}

static void test_unmapped_early(void)
{
    cudaStream_t s = stream();
    CUdeviceptr va = mapped();
    CHECK_OK(cudaMemsetAsync(pointer(va), 1, 4096, s));
    CHECK(cuMemUnmap_fn(va, 2 * MIB) == CUDA_SUCCESS);
    CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
    CHECK(reported("lifetime: cuMemUnmap"));
}

static size_t physical_bytes(void)
{
    struct cudart_emulated_usage usage;
    cudart_emulated_usage(0, &usage);
    return usage.physical;
}

/* Memory with two addresses is there once, and goes with the last of them. */
static void test_moved_to_another_address(void)
{
    CUmemGenericAllocationHandle handle = 0;
    unsigned char byte = 0;
    cudaStream_t s = stream();
    CUdeviceptr from = mapped();
    CUdeviceptr to = from + 2 * MIB;
    size_t before = physical_bytes();
    CHECK(before == 2 * MIB);
    CHECK_OK(cudaMemset(pointer(from), 7, 4096));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(cuMemRetainAllocationHandle_fn(&handle, pointer(from + MIB)) == CUDA_SUCCESS);
    map_at(to, handle);
    CHECK(cuMemRelease_fn(handle) == CUDA_SUCCESS);
    CHECK(physical_bytes() == before);
    CHECK_OK(cudaMemcpyAsync(&byte, pointer(to), 1, cudaMemcpyDeviceToHost, s));
    CHECK_OK(cudaMemsetAsync(pointer(to), 8, 4096, s)); /* pending through the other address */
    CHECK(cuMemUnmap_fn(from, 2 * MIB) == CUDA_SUCCESS);
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(byte == 7 && physical_bytes() == before);
    CHECK(cudart_emulated_violations() == 0);
    CHECK_OK(cudaMemcpy(&byte, pointer(to), 1, cudaMemcpyDeviceToHost));
    CHECK(byte == 8);
    CHECK(cuMemUnmap_fn(to, 2 * MIB) == CUDA_SUCCESS);
    CHECK(physical_bytes() == 0 && cudart_emulated_violations() == 0);
    cudart_emulated_reset();
    cudart_emulated_set_option("quiet", 1);
}

/* A handle that was exported twice is imported by either, and by the number in a fabric handle;
 * what was not made for that kind, or is no handle, is refused. */
static void test_exported(void)
{
    const CUmemAllocationHandleType file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const CUmemAllocationHandleType fabric = CU_MEM_HANDLE_TYPE_FABRIC;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = file | fabric,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle = 0, again = 0;
    CUmemFabricHandle number = {{0}};
    int one = -1, two = -1;
    CHECK(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0) == CUDA_ERROR_NOT_SUPPORTED);
    cudart_emulated_set_attribute(-1, 128, 1);
    CHECK(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
    CHECK(cuMemImportFromShareableHandle_fn(&again, &number, fabric) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemExportToShareableHandle_fn(&one, handle, file, 0) == CUDA_SUCCESS);
    CHECK(cuMemExportToShareableHandle_fn(&two, handle, file, 0) == CUDA_SUCCESS && one != two);
    CHECK(cuMemExportToShareableHandle_fn(&number, handle, fabric, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        void *shared = i == 0 ? &number : (void *)(intptr_t)(i == 1 ? one : two);
        CHECK(cuMemImportFromShareableHandle_fn(&again, shared, i == 0 ? fabric : file) ==
              CUDA_SUCCESS);
        CHECK(again == handle && cuMemRelease_fn(again) == CUDA_SUCCESS);
    }
    CHECK(cuMemRelease_fn(handle) == CUDA_SUCCESS && physical_bytes() == 0);
    CHECK(cuMemImportFromShareableHandle_fn(&again, (void *)(intptr_t)one, file) ==
          CUDA_ERROR_NOT_SUPPORTED);
    CHECK(close(one) == 0 && close(two) == 0);
    prop.requestedHandleTypes = file;
    CHECK(cuMemCreate_fn(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
    CHECK(cuMemExportToShareableHandle_fn(&number, handle, fabric, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemRelease_fn(handle) == CUDA_SUCCESS);
    cudart_emulated_reset();
    cudart_emulated_set_option("quiet", 1);
}

static void test_dead_handles(void)
{
    cudaStream_t s = stream();
    cudaEvent_t e;
    CHECK_OK(cudaStreamDestroy(s));
    CHECK(cudaStreamQuery(s) == cudaErrorInvalidResourceHandle);
    CHECK(reported("handle: stream"));
    CHECK_OK(cudaEventCreate(&e));
    CHECK_OK(cudaEventDestroy(e));
    CHECK(cudaEventQuery(e) == cudaErrorInvalidResourceHandle);
    CHECK(reported("handle: event"));
    CHECK(cudaStreamQuery((cudaStream_t)0xdead) == cudaErrorInvalidResourceHandle);
    CHECK(reported("handle: stream"));
}

static void test_kernel_out_of_bounds(void)
{
    void *p;
    CHECK_OK(cudaMalloc(&p, 1024));
    const struct cudart_emulated_range range = {p, 4096, 1, 1};
    CHECK_OK(cudart_emulated_kernel(0, &range, 1, NULL, NULL));
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    CHECK(cudaMalloc(&p, 64) == cudaErrorIllegalAddress);
    CHECK(reported("kernel"));
}

static void kernel(cudaStream_t s, void *ptr, size_t size)
{
    const struct cudart_emulated_range range = {ptr, size, 1, 1};
    CHECK_OK(cudart_emulated_kernel(s, &range, 1, NULL, NULL));
}

/* In order, so that no race is in it: the memory is there, but no longer the program's. */
static void test_kernel_after_free_in_order(void)
{
    void *p;
    cudaStream_t s = stream();
    CHECK_OK(cudaMallocAsync(&p, 4096, s));
    kernel(s, p, 4096);
    CHECK_OK(cudaFreeAsync(p, s)); /* without a wait, which would give the chunk back */
    CHECK(cudart_emulated_violations() == 0);
    kernel(s, p, 4096);
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(cudart_emulated_violations() == 1);
    CHECK(reported("lifetime: a kernel"));
}

static void test_kernel_past_pool_block(void)
{
    void *p;
    cudaStream_t s = stream();
    CHECK_OK(cudaMallocAsync(&p, 512, s));
    kernel(s, (char *)p + 256, 256);
    CHECK(cudart_emulated_violations() == 0);
    kernel(s, p, MIB);
    CHECK_OK(cudaStreamSynchronize(s));
    CHECK(reported("lifetime: a kernel"));
}

/* What a capture allocates lives in it; what was freed before is gone for it too. */
static void test_captured_kernel(void)
{
    void *p, *gone;
    cudaGraph_t graph;
    cudaStream_t s = stream();
    CHECK_OK(cudaMallocAsync(&gone, 512, s));
    CHECK_OK(cudaFreeAsync(gone, s));
    CHECK_OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    CHECK_OK(cudaMallocAsync(&p, 512, s));
    kernel(s, p, 512);
    CHECK_OK(cudaFreeAsync(p, s));
    CHECK(cudart_emulated_violations() == 0);
    kernel(s, gone, 512);
    CHECK_OK(cudaStreamEndCapture(s, &graph));
    CHECK(reported("lifetime: a kernel"));
}

/* The host faults on device memory. */
static void test_guarded_memory(void)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        void *p = NULL;
        cudart_emulated_reset();
        if (cudaMalloc(&p, 64) != cudaSuccess) {
            _exit(1);
        }
        *(volatile char *)p = 1;
        _exit(0);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* Two addresses of one memory are one memory for the checker. */
static void test_used_before_allocated(void)
{
    void *p;
    cudaStream_t a = stream(), b = stream();
    CHECK_OK(cudaMallocAsync(&p, MIB, a));
    CHECK_OK(cudaMemsetAsync(p, 1, 64, b));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(reported("race"));
    a = stream();
    b = stream();
    CHECK_OK(cudaMallocAsync(&p, MIB, a));
    CHECK_OK(cudaStreamSynchronize(a));
    CHECK_OK(cudaMemsetAsync(p, 1, 64, b));
    CHECK_OK(cudaFreeAsync(p, a));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(reported("race"));
}

static void test_checker_off(void)
{
    void *p;
    cudart_emulated_set_option("checker", 0);
    CHECK_OK(cudaMallocAsync(&p, MIB, stream()));
    CHECK_OK(cudaMemsetAsync(p, 1, 64, stream()));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK(cudart_emulated_violations() == 0);
    cudart_emulated_reset();
}

int main(void)
{
    test_guarded_memory(); /* in a child of a process that has not used CUDA */
    cudart_emulated_set_option("quiet", 1);
    test_pinned_freed_early();
    test_freed_without_waiting();
    test_pool_block_freed_now();
    test_free_does_not_wait();
    test_unmapped_early();
    test_moved_to_another_address();
    test_exported();
    test_dead_handles();
    test_kernel_out_of_bounds();
    test_kernel_after_free_in_order();
    test_kernel_past_pool_block();
    test_captured_kernel();
    test_used_before_allocated();
    test_checker_off();
    return check_result();
}
