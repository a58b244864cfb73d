/* SPDX-License-Identifier: Apache-2.0 */
/* What a test can make the emulation do: fail, refuse, limit, restrict, count. */
#include "check.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void test_rules(void)
{
    void *p;
    int failed = 0;
    CHECK(cudart_emulated_fail("cudaMalloc", 3, 2, cudaErrorMemoryAllocation) == 0);
    for (int i = 1; i <= 6; i++) {
        cudaError_t err = cudaMalloc(&p, 64);
        CHECK(err == (i == 3 || i == 4 ? cudaErrorMemoryAllocation : cudaSuccess));
    }
    cudart_emulated_reset();
    CHECK(cudart_emulated_fail(NULL, 1, 0, cudaErrorUnknown) == 0);
    CHECK(cudaMalloc(&p, 64) == cudaErrorUnknown);
    CHECK(cudaStreamQuery(0) == cudaErrorUnknown);
    CHECK(cudaGetLastError() == cudaErrorUnknown);
    cudart_emulated_reset();
    CHECK(cudart_emulated_fail_randomly("cudaMalloc", 250, cudaErrorMemoryAllocation) == 0);
    for (int i = 0; i < 1000; i++) {
        failed += cudaMalloc(&p, 64) != cudaSuccess;
    }
    CHECK(failed > 150 && failed < 350);
    cudart_emulated_reset();
    CHECK(cudart_emulated_calls("cudaMalloc") == 0);
    CHECK_OK(cudaMalloc(&p, 64));
    CHECK(cudart_emulated_calls("cudaMalloc") == 1 && cudart_emulated_calls(NULL) >= 1);
    cudart_emulated_reset();
}

static void test_driver_rules(void)
{
    void *f = NULL;
    __typeof__(cuMemCreate) *create;
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CHECK_OK(cudaGetDriverEntryPoint("cuMemCreate", &f, cudaEnableDefault, NULL));
    memcpy(&create, &f, sizeof f);
    cudart_emulated_fail("cuMemCreate", 1, 1, cudaErrorMemoryAllocation);
    CHECK(create(&handle, 2 * MIB, &prop, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CHECK(create(&handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
    cudart_emulated_reset();
}

static void test_capabilities(void)
{
    cudaMemPool_t pool;
    void *p;
    int value = -1;
    cudart_emulated_set_attribute(-1, cudaDevAttrMemoryPoolsSupported, 0);
    CHECK_OK(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolsSupported, 0));
    CHECK(value == 0);
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaErrorNotSupported);
    CHECK(cudaMallocAsync(&p, 64, 0) == cudaErrorNotSupported);
    cudart_emulated_set_attribute(0, cudaDevAttrManagedMemory, 0);
    CHECK(cudaMallocManaged(&p, 64, cudaMemAttachGlobal) == cudaErrorNotSupported);
    cudart_emulated_reset();
    CHECK_OK(cudaMallocAsync(&p, 64, 0));
    cudart_emulated_reset();
}

static void test_memory_limit(void)
{
    void *p, *q;
    size_t free_bytes, total;
    struct cudart_emulated_usage usage;
    CHECK(cudart_emulated_set_memory(0, 10 * MIB) == 0);
    CHECK_OK(cudaMalloc(&p, 10 * MIB));
    CHECK(cudaMalloc(&q, 1) == cudaErrorMemoryAllocation);
    CHECK_OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(total == 10 * MIB && free_bytes == 0);
    CHECK_OK(cudaFree(p));
    CHECK(cudaMalloc(&q, 10 * MIB + 1) == cudaErrorMemoryAllocation);
    CHECK(cudart_emulated_usage(0, &usage) == 0);
    CHECK(usage.allocated == 0 && usage.peak_allocated == 10 * MIB);
    CHECK(usage.physical == 0 && usage.peak_physical == 10 * MIB);
    CHECK(cudart_emulated_set_memory(99, 1) == -1);
    cudart_emulated_reset();
}

static void test_driver_version(void)
{
    int version, count;
    enum cudaDriverEntryPointQueryResult result;
    void *p;
    cudart_emulated_set_driver_version(11080);
    CHECK_OK(cudaDriverGetVersion(&version));
    CHECK(version == 11080);
    CHECK(cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver);
    CHECK(cudaMalloc(&p, 64) == cudaErrorInsufficientDriver);
    cudart_emulated_reset();
    CHECK_OK(cudaGetDriverEntryPoint("cuStreamGetId", &p, cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointSuccess);
#if CUDART_VERSION >= 12050
    CHECK_OK(
        cudaGetDriverEntryPointByVersion("cuStreamGetId", &p, 11000, cudaEnableDefault, &result));
    CHECK(result == cudaDriverEntryPointVersionNotSufficent && p == NULL);
#endif
    cudart_emulated_reset();
}

static void test_no_device(void)
{
    int count = 9;
    void *p;
    CHECK(cudart_emulated_set_devices(0) == 0);
    CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0);
    CHECK(cudaMalloc(&p, 64) == cudaErrorNoDevice);
    cudart_emulated_reset();
}

static void test_options(void)
{
    cudaStream_t s, t;
    void *p, *q;
    CHECK(cudart_emulated_set_option("no such option", 1) == -1);
    CHECK(cudart_emulated_set_option("reuse_handles", 1) == 0);
    CHECK_OK(cudaStreamCreate(&s));
    unsigned long long first, second;
    CHECK_OK(cudaStreamGetId(s, &first));
    CHECK_OK(cudaStreamDestroy(s));
    CHECK_OK(cudaStreamCreate(&t));
    CHECK_OK(cudaStreamGetId(t, &second));
    CHECK(s == t && first != second);
    CHECK(cudart_emulated_set_option("reuse_handles", 0) == 0);
    CHECK_OK(cudaStreamDestroy(t));
    CHECK_OK(cudaStreamCreate(&s));
    CHECK(s != t);
    CHECK(cudart_emulated_set_option("alignment", 256) == 0);
    CHECK_OK(cudaMalloc(&p, 1));
    CHECK_OK(cudaMalloc(&q, 1));
    CHECK(labs((char *)p - (char *)q) == 256);
    cudart_emulated_reset();
}

/* Another process, so that its environment is read. */
static int with_environment(const char *self, const char *name, const char *value, const char *part)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        setenv(name, value, 1);
        execl(self, self, part, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A child that forked after the first call is none of the report's business. */
static void child_writes_nothing(void)
{
    struct stat status;
    pid_t pid = fork();
    if (pid == 0) {
        exit(0);
    }
    waitpid(pid, NULL, 0);
    CHECK(stat(getenv("CUDART_EMULATED_REPORT"), &status) == 0 && status.st_size == 0);
}

static int part(const char *name)
{
    void *p;
    size_t total;
    int count;
    if (strcmp(name, "faults") == 0) {
        CHECK_OK(cudaMalloc(&p, 64));
        CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
        CHECK_OK(cudaMalloc(&p, 64));
    } else if (strcmp(name, "unread") == 0) {
        CHECK(cudart_emulated_violations() == 1);
        CHECK_OK(cudaMalloc(&p, 64));
    } else if (strcmp(name, "no share") == 0) {
        CHECK(cudart_emulated_violations() == 0);
        CHECK_OK(cudaMalloc(&p, 64));
    } else if (strcmp(name, "number") == 0) {
        CHECK(cudart_emulated_violations() == 0);
        CHECK(cudaMalloc(&p, 64) == cudaErrorMemoryAllocation);
    } else if (strcmp(name, "memory") == 0) {
        CHECK_OK(cudaMemGetInfo(NULL, &total));
        CHECK(total == 160 * 1024 * MIB);
        for (int i = 0; i < 48; i++) {
            CHECK_OK(cudaMalloc(&p, 1024 * MIB));
        }
    } else if (strcmp(name, "devices") == 0) {
        CHECK_OK(cudaGetDeviceCount(&count));
        CHECK(count == 3);
    } else if (strcmp(name, "attributes") == 0) {
        CHECK_OK(cudaDeviceGetAttribute(&count, cudaDevAttrMemoryPoolsSupported, 0));
        CHECK(count == 0);
        CHECK_OK(cudaDeviceGetAttribute(&count, cudaDevAttrManagedMemory, 0));
        CHECK(count == 7);
    } else if (strcmp(name, "each") == 0) {
        cudart_emulated_set_devices(2);
        CHECK_OK(cudaSetDevice(1));
        CHECK_OK(cudaMemGetInfo(NULL, &total));
        CHECK(total == 64 * MIB);
    } else if (strcmp(name, "report") == 0) {
        CHECK_OK(cudaMalloc(&p, 3000));
        CHECK_OK(cudaFree(p));
        child_writes_nothing();
    }
    return check_result();
}

/* A rule that would inject nothing is reported; one of no share is a rule for no call. */
static void test_unread_rules(const char *self)
{
    static const char *const unread[] = {
        "cudaMalloc:cudaErrorMemoryAlocation",
        "cudaMalloc:0",
        "cudaMalloc:2x",
        "cudaMaloc:2",
        "cudaMalloc:cudaErrorMemoryAllocation:one",
        "cudaMaloc:2:%0",
    };
    char overlong[400] = "cudaMalloc:2:";
    memset(overlong + strlen(overlong), '1', sizeof overlong - strlen(overlong) - 1);
    overlong[sizeof overlong - 1] = '\0';
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) {
        CHECK(with_environment(self, "CUDART_EMULATED_FAULTS", unread[i], "unread") == 0);
    }
    CHECK(with_environment(self, "CUDART_EMULATED_FAULTS", overlong, "unread") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_FAULTS", "cudaMalloc:2:%0", "no share") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_FAULTS", "cudaMalloc:2", "number") == 0);
}

static void test_environment(const char *self)
{
    char text[1024] = "", path[] = "/tmp/cudart-emulated-XXXXXX";
    CHECK(with_environment(self, "CUDART_EMULATED_FAULTS", "cudaMalloc:cudaErrorMemoryAllocation:2",
                           "faults") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_MEMORY", "160GiB", "memory") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_DEVICES", "3", "devices") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_ATTRIBUTES", "115=0;0:83=7,1:83=9",
                           "attributes") == 0);
    CHECK(with_environment(self, "CUDART_EMULATED_MEMORY", "1GiB,64MiB", "each") == 0);
    close(mkstemp(path));
    CHECK(with_environment(self, "CUDART_EMULATED_REPORT", path, "report") == 0);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fgets(text, sizeof text, file) != NULL);
    CHECK(strstr(text, "\"peak_allocated_bytes\": 3000, \"physical_bytes\": 0, "
                       "\"peak_physical_bytes\": 3000") != NULL);
    fclose(file);
    unlink(path);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return part(argv[1]);
    }
    test_environment(argv[0]); /* before this process has used CUDA */
    test_unread_rules(argv[0]);
    test_rules();
    test_driver_rules();
    test_capabilities();
    test_memory_limit();
    test_driver_version();
    test_no_device();
    test_options();
    return check_result();
}
