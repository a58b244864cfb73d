/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child forked while a pool is in use: the pool refuses it by name, its release does no harm, and
 * the parent's pool is as it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
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
        (void)fprintf(stderr, "program_pool_fork: %s (%s)\n", what, crmm_last_error()->message);
        _exit(1);
    }
}

static void check_forked(crmm_status status, const char *what)
{
    check(status == CRMM_ERROR_FORKED && crmm_last_error()->status == status, what);
    check(strstr(crmm_last_error()->message, "forked child") != NULL, what);
}

static void be_child(crmm_resource *pool, void *block)
{
    void *ptr = &ptr;
    crmm_resource *other = NULL;
    crmm_pool_export handle = {.struct_size = sizeof(handle)};
    char text[300];

    crmm_set_misuse_handler(note, NULL);
    check_forked(crmm_allocate(pool, NULL, 64, 64, &ptr), "allocate");
    check_forked(crmm_allocate(pool, CRMM_STREAM_PER_THREAD, 8 << 20, 64, &ptr), "large");
    check_forked(crmm_allocate_sync(pool, 64, 64, &ptr), "allocate_sync");
    check_forked(crmm_pool_memory_resource_retire_stream(pool, NULL), "retire_stream");
    check_forked(crmm_resource_trim(pool, 0, NULL), "trim");
    check_forked(
        crmm_pool_memory_resource_export(pool, block, CRMM_EXPORT_FILE_DESCRIPTOR, &handle),
        "export");
    check_forked(crmm_pool_memory_resource_chunk(pool, block, NULL, NULL), "chunk");
    check(crmm_resource_describe(pool, text, sizeof(text)) < sizeof(text) &&
              strstr(text, "held") == NULL,
          "describe");
    check_forked(crmm_pool_memory_resource_create(NULL, NULL, &other), "create");
    check(ptr == &ptr && other == NULL, "an output was written");
    crmm_deallocate(pool, NULL, block, 64, 64);
    check(last_kind == CRMM_MISUSE_FORKED && crmm_misuse_count() == 1, "deallocate");
    crmm_deallocate_sync(pool, block, 64, 64);
    crmm_deallocate_ptr(pool, NULL, block);
    check(last_kind == CRMM_MISUSE_FORKED && crmm_misuse_count() == 3, "deallocate_ptr");
    crmm_resource_release(&pool);
    check(crmm_misuse_count() == 3, "release");

    check(crmm_pool_memory_resource_create(crmm_malloc_memory_resource(), NULL, &other) ==
              CRMM_SUCCESS,
          "a pool of the child's own");
    check(crmm_allocate_sync(other, 1000, 64, &ptr) == CRMM_SUCCESS, "its memory");
    memset(ptr, 1, 1000);
    crmm_deallocate_sync(other, ptr, 1000, 64);
    crmm_resource_release(&other);
    check(crmm_misuse_count() == 3, "misuse of the heap");
    _exit(42);
}

int main(void)
{
    void *block = NULL;
    void *more = NULL;
    int state = 0;
    int devices = 0;
    crmm_resource *pool = NULL;

    if (crmm_get_num_cuda_devices(&devices) != CRMM_SUCCESS &&
        getenv("CRMM_TEST_REQUIRE_GPU") == NULL) {
        (void)fprintf(stderr, "program_pool_fork: skipped: %s\n", crmm_last_error()->message);
        return 77;
    }
    check(crmm_pool_memory_resource_create(NULL, NULL, &pool) == CRMM_SUCCESS, "create");
    check(crmm_allocate(pool, NULL, 64, 64, &block) == CRMM_SUCCESS, "allocate in the parent");
    pid_t child = fork();
    if (child == 0) {
        be_child(pool, block);
    }
    check(waitpid(child, &state, 0) == child, "waitpid");
    check(WIFEXITED(state) && WEXITSTATUS(state) == 42, "the child did not end well");

    /* The parent is as it was. */
    check(crmm_allocate(pool, NULL, 8 << 20, 64, &more) == CRMM_SUCCESS, "allocate afterwards");
    crmm_deallocate(pool, NULL, more, 8 << 20, 64);
    crmm_deallocate(pool, NULL, block, 64, 64);
    crmm_resource_release(&pool);
    check(crmm_misuse_count() == 0, "misuse in the parent");
    return 0;
}
