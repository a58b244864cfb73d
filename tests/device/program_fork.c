/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child forked after CUDA was used: everything that needs CUDA fails by name, and the heap works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

static crmm_misuse_kind last_kind;

static void note(const crmm_misuse *misuse, void *user_data)
{
    (void)user_data;
    last_kind = misuse->kind;
}

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_fork: %s (%s)\n", what, crmm_last_error()->message);
        _exit(1);
    }
}

/* A call of the child failed with the status, native code and text of its own. */
static void check_forked(crmm_status status, const char *what)
{
    check(status == CRMM_ERROR_FORKED, what);
    check(crmm_last_error()->status == CRMM_ERROR_FORKED, what);
    check(strstr(crmm_last_error()->message, "forked child") != NULL, what);
}

/* ---- pools and their kin ---- */

enum { POOLS = 5, BYTES = 1000 };

/* The last is asked for more than a bin has. */
static const size_t sizes[POOLS] = {BYTES, BYTES, BYTES, BYTES, 100 * BYTES};

static void make_pools(crmm_resource **pools, void **blocks)
{
    crmm_resource *cuda = crmm_cuda_memory_resource();

    check(crmm_pool_memory_resource_create(cuda, NULL, &pools[0]) == CRMM_SUCCESS, "pool");
    check(crmm_fixed_size_memory_resource_create(cuda, NULL, &pools[1]) == CRMM_SUCCESS,
          "fixed_size");
    check(crmm_arena_memory_resource_create(
              cuda, CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = 1 << 20), &pools[2]) ==
              CRMM_SUCCESS,
          "arena");
    check(crmm_binning_memory_resource_create(cuda,
                                              CRMM_OPTIONS(crmm_binning_memory_resource,
                                                           .min_size_exponent = 10,
                                                           .max_size_exponent = 12),
                                              &pools[3]) == CRMM_SUCCESS,
          "binning");
    pools[4] = crmm_resource_retain(pools[3]);
    for (int i = 0; i < POOLS; i++) {
        check(crmm_allocate(pools[i], NULL, sizes[i], 256, &blocks[i]) == CRMM_SUCCESS,
              "a block of a pool");
    }
}

static void use_pools_as_child(crmm_resource **pools, void **blocks)
{
    void *ptr = &ptr;

    for (int i = 0; i < POOLS; i++) {
        uint64_t found = crmm_misuse_count();
        check_forked(crmm_allocate(pools[i], NULL, sizes[i], 256, &ptr), "allocate of a pool");
        check_forked(crmm_allocate_sync(pools[i], sizes[i], 256, &ptr), "allocate_sync of a pool");
        crmm_deallocate(pools[i], NULL, blocks[i], sizes[i], 256);
        check(last_kind == CRMM_MISUSE_FORKED && crmm_misuse_count() == found + 1,
              "deallocate of a pool");
    }
    check(ptr == &ptr, "an output was written");
    /* The memory is the parent's: nothing is given back, and no leak reported but of what binning
     * itself knows of. */
    for (int i = 0; i < 3; i++) {
        uint64_t found = crmm_misuse_count();
        crmm_resource_release(&pools[i]);
        check(crmm_misuse_count() == found, "release of a pool");
    }
    crmm_resource_release(&pools[3]);
    crmm_resource_release(&pools[4]);
}

static void release_pools(crmm_resource **pools, void **blocks)
{
    for (int i = 0; i < POOLS; i++) {
        crmm_deallocate(pools[i], NULL, blocks[i], sizes[i], 256);
        crmm_resource_release(&pools[i]);
    }
}

static void be_child(void *block, crmm_device_buffer *buffer, crmm_resource **pools, void **blocks)
{
    void *ptr = &ptr;
    int number = 0;
    size_t bytes = 0;
    crmm_resource *mr = NULL;
    crmm_device_buffer fresh = {0};

    crmm_set_misuse_handler(note, NULL);
    check_forked(crmm_allocate(crmm_cuda_memory_resource(), NULL, 64, 64, &ptr), "allocate");
    check_forked(crmm_allocate_sync(crmm_cuda_memory_resource(), 64, 64, &ptr), "allocate_sync");
    check_forked(crmm_allocate_sync(crmm_managed_memory_resource(), 64, 64, &ptr), "managed");
    check(ptr == &ptr, "an output was written");
    check_forked(crmm_get_num_cuda_devices(&number), "device count");
    check_forked(crmm_get_current_cuda_device(&number), "current device");
    check_forked(crmm_percent_of_free_device_memory(1, &bytes), "memory");
    check_forked(crmm_get_current_device_resource(&mr), "current resource");
    check_forked(crmm_get_per_device_resource(0, &mr), "resource of device 0");
    check_forked(crmm_reset_per_device_resource(0, NULL), "reset of device 0");
    check_forked(crmm_device_buffer_init(&fresh, 64, NULL, NULL), "buffer");
    check_forked(crmm_device_buffer_resize(buffer, 1 << 20, NULL), "resize");
    crmm_deallocate(crmm_cuda_memory_resource(), NULL, block, 64, 64);
    check(last_kind == CRMM_MISUSE_FORKED && crmm_misuse_count() == 1, "deallocate");
    crmm_deallocate_sync(crmm_cuda_memory_resource(), block, 64, 64);
    check(crmm_misuse_count() == 2, "deallocate_sync");
    crmm_device_buffer_finish(buffer);
    check(last_kind == CRMM_MISUSE_FORKED && crmm_misuse_count() == 3, "finish");

    check(crmm_allocate_sync(crmm_malloc_memory_resource(), 64, 64, &ptr) == CRMM_SUCCESS, "heap");
    memset(ptr, 1, 64);
    crmm_deallocate_sync(crmm_malloc_memory_resource(), ptr, 64, 64);
    check(crmm_misuse_count() == 3, "heap deallocation");
    use_pools_as_child(pools, blocks);
    _exit(42);
}

int main(void)
{
    void *block = NULL;
    int state = 0;
    int devices = 0;
    crmm_device_buffer buffer = {0};

    if (crmm_get_num_cuda_devices(&devices) != CRMM_SUCCESS &&
        getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_fork: skipped: %s\n", crmm_last_error()->message);
        return 77;
    }
    crmm_status status = crmm_allocate(crmm_cuda_memory_resource(), NULL, 64, 64, &block);
    check(status == CRMM_SUCCESS, "allocate in the parent");
    check(crmm_device_buffer_init(&buffer, 64, NULL, NULL) == CRMM_SUCCESS, "buffer in the parent");
    crmm_resource *mr = NULL;
    check(crmm_get_per_device_resource(0, &mr) == CRMM_SUCCESS, "table in the parent");
    crmm_resource *pools[POOLS] = {NULL};
    void *blocks[POOLS] = {NULL};
    make_pools(pools, blocks);
    pid_t child = fork();
    if (child == 0) {
        be_child(block, &buffer, pools, blocks);
    }
    check(waitpid(child, &state, 0) == child, "waitpid");
    check(WIFEXITED(state) && WEXITSTATUS(state) == 42, "the child did not end well");

    /* The parent is as it was. */
    release_pools(pools, blocks);
    crmm_device_buffer_finish(&buffer);
    crmm_deallocate(crmm_cuda_memory_resource(), NULL, block, 64, 64);
    check(crmm_misuse_count() == 0, "misuse in the parent");
    return 0;
}
