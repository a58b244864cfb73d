/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool without host memory for what it knows of a stream: an allocation fails, and a block that
 * is given back there is taken all the same. Who needs it later waits for the device.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>

/* The linker gives the functions that are replaced these names. */
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

static bool is_short;

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
    enum { NO_MEMORY = 12 }; /* any number but 0 will do */
    return is_short ? NO_MEMORY : __real_posix_memalign(memory, alignment, size);
}

static const size_t sizes[] = {1000, (size_t)3 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_pool_host_memory: %s (%s)\n", what,
                      crmm_last_error()->message);
        exit(1);
    }
}

static void give_back_in_need(crmm_resource *pool, cudaStream_t known, cudaStream_t unknown)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *blocks[SIZES];
    void *all = NULL;

    for (size_t i = 0; i < SIZES; i++) {
        check(crmm_allocate(pool, known, sizes[i], 256, &blocks[i]) == CRMM_SUCCESS, "allocate");
    }
    is_short = true;
    check(crmm_allocate(pool, unknown, 1000, 256, &all) == CRMM_ERROR_OUT_OF_MEMORY,
          "an allocation on a stream that cannot be known");
    for (size_t i = 0; i < SIZES; i++) {
        crmm_deallocate(pool, unknown, blocks[i], sizes[i], 256);
    }
    check(crmm_misuse_count() == 0, "a free without host memory");
    is_short = false;
    check(crmm_resource_info(pool, &info) == CRMM_SUCCESS && info.live == 0, "live");
    check(info.pending > sizes[SIZES - 1], "nobody knows that the work is complete");
    check(crmm_allocate(pool, known, (size_t)8 << 20, 256, &all) == CRMM_SUCCESS, "all of it");
    crmm_deallocate(pool, known, all, (size_t)8 << 20, 256);
    /* The second time it is found out, as ever. */
    is_short = true;
    crmm_deallocate(pool, unknown, blocks[SIZES - 1], sizes[SIZES - 1], 256);
    is_short = false;
    check(crmm_misuse_count() == 1, "a double free without host memory");
}

int main(void)
{
    crmm_pool_memory_resource_options options;
    cudaStream_t streams[2];
    crmm_resource *pool = NULL;
    int count = 0;

    if (crmm_get_num_cuda_devices(&count) != CRMM_SUCCESS &&
        getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_pool_host_memory: skipped: %s\n",
                      crmm_last_error()->message);
        return 77;
    }
    check(count > 0, "no device");
    for (size_t i = 0; i < 2; i++) {
        check(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) == cudaSuccess,
              "stream");
    }
    crmm_pool_memory_resource_options_init(&options);
    options.initial_pool_size = (size_t)8 << 20;
    options.maximum_pool_size = options.initial_pool_size;
    check(crmm_pool_memory_resource_create(crmm_cuda_memory_resource(), &options, &pool) ==
              CRMM_SUCCESS,
          "create");
    give_back_in_need(pool, streams[0], streams[1]);
    crmm_resource_release(&pool);
    for (size_t i = 0; i < 2; i++) {
        check(cudaStreamDestroy(streams[i]) == cudaSuccess, "destroy");
    }
    return 0;
}
