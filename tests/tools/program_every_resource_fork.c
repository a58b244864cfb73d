/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that is forked while every resource has memory out: what needs CUDA fails by name and
 * makes no call of CUDA's, the heap works, and the parent goes on as before. (User report 47.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_stream.h>
#include <crmm/device/cuda_stream_pool.h>
#include <crmm/device/prefetch.h>

#include <cuda_runtime_api.h>

#include "every_resource.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { BYTES = 5000, MOST_ROWS = 64 };

static crmm_resource *mrs[MOST_ROWS];
static void *blocks[MOST_ROWS];
static crmm_cuda_stream stream;
static crmm_cuda_stream_pool streams;
static const char *subject = "nothing";
static crmm_misuse_kind last_kind;

static void note(const crmm_misuse *misuse, void *user_data)
{
    (void)user_data;
    last_kind = misuse->kind;
}

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_every_resource_fork: %s: %s (%s)\n", subject, what,
                      crmm_last_error()->message);
        _exit(1);
    }
}

/* By the call that the resource has. */
static crmm_status take(crmm_resource *mr, void **ptr)
{
    return crmm_resource_has(mr, CRMM_STREAM_ORDERED)
               ? crmm_allocate(mr, stream.stream, BYTES, 256, ptr)
               : crmm_allocate_sync(mr, BYTES, 256, ptr);
}

static void give(crmm_resource *mr, void *ptr)
{
    if (crmm_resource_has(mr, CRMM_STREAM_ORDERED)) {
        crmm_deallocate(mr, stream.stream, ptr, BYTES, 256);
    } else {
        crmm_deallocate_sync(mr, ptr, BYTES, 256);
    }
}

/* ---- the child ---- */

static void check_forked(crmm_status status, const char *what)
{
    check(status == CRMM_ERROR_FORKED && crmm_last_error()->status == CRMM_ERROR_FORKED, what);
    check(strstr(crmm_last_error()->message, "forked child") != NULL, what);
}

static void use_as_child(crmm_resource **mr, void *block)
{
    void *ptr = &ptr;

    check_forked(take(*mr, &ptr), "an allocation");
    check_forked(crmm_allocate_sync(*mr, BYTES, 256, &ptr), "an allocation without a stream");
    check(ptr == &ptr, "an output is written");
    uint64_t found = crmm_misuse_count();
    give(*mr, block);
    check(crmm_misuse_count() == found + 1 && last_kind == CRMM_MISUSE_FORKED, "a deallocation");
    crmm_status trimmed = crmm_resource_trim(*mr, 0, NULL);
    check(trimmed == CRMM_SUCCESS || crmm_last_error()->status == trimmed, "a trim");
    crmm_resource_release(mr);
}

static void use_heap_as_child(crmm_resource *mr, void *block)
{
    void *ptr = NULL;
    uint64_t found = crmm_misuse_count();

    check(take(mr, &ptr) == CRMM_SUCCESS, "an allocation");
    memset(ptr, 1, BYTES);
    give(mr, ptr);
    give(mr, block);
    check(crmm_misuse_count() == found, "a deallocation");
}

static void use_streams_as_child(void)
{
    crmm_cuda_stream made = {0};

    subject = "streams";
    check_forked(crmm_cuda_stream_init(&made, 0), "a new stream");
    check_forked(crmm_cuda_stream_synchronize(&stream), "a wait");
    check_forked(crmm_prefetch(&made, sizeof(made), 0, NULL), "a prefetch");
    uint64_t found = crmm_misuse_count();
    crmm_cuda_stream_finish(&stream);
    check(crmm_misuse_count() == found + 1 && last_kind == CRMM_MISUSE_FORKED, "an end");
    crmm_cuda_stream_pool_finish(&streams);
}

static void be_child(void)
{
    crmm_set_misuse_handler(note, NULL);
    for (size_t i = 0; i < row_count; i++) {
        subject = rows[i].name;
        if (mrs[i] == NULL) {
            continue;
        }
        if (strcmp(rows[i].name, "malloc") == 0) {
            use_heap_as_child(mrs[i], blocks[i]);
        } else {
            use_as_child(&mrs[i], blocks[i]);
        }
    }
    use_streams_as_child();
#ifdef CUDART_EMULATED
    subject = "all";
    check(cudart_emulated_late_calls() == 0, "CUDA is called");
#endif
    _exit(42);
}

/* ---- the parent ---- */

static void make_all(void)
{
    char why[48] = "";

    for (size_t i = 0; i < row_count; i++) {
        subject = rows[i].name;
        check(every_resource_make(&rows[i], &mrs[i], why) == CRMM_SUCCESS, "it cannot be made");
        check(mrs[i] == NULL || take(mrs[i], &blocks[i]) == CRMM_SUCCESS, "no memory");
    }
}

static void use_as_parent(void)
{
    for (size_t i = 0; i < row_count; i++) {
        void *ptr = NULL;
        subject = rows[i].name;
        if (mrs[i] != NULL) {
            check(take(mrs[i], &ptr) == CRMM_SUCCESS, "no memory in the parent");
            give(mrs[i], ptr);
            give(mrs[i], blocks[i]);
            crmm_resource_release(&mrs[i]);
        }
    }
    check(crmm_cuda_stream_synchronize(&stream) == CRMM_SUCCESS, "a wait in the parent");
    crmm_cuda_stream_finish(&stream);
    crmm_cuda_stream_pool_finish(&streams);
    check(crmm_misuse_count() == 0, "misuse in the parent");
}

int main(void)
{
    int devices = 0;
    int state = 0;

    every_resource_set_up();
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        check(getenv("CRMM_TEST_REQUIRE_GPU") == NULL, "no device");
        return 77;
    }
    check(row_count <= MOST_ROWS, "too many rows");
    check(crmm_cuda_stream_init(&stream, CRMM_CUDA_STREAM_NON_BLOCKING) == CRMM_SUCCESS, "stream");
    check(crmm_cuda_stream_pool_init(&streams, 4, 0) == CRMM_SUCCESS, "streams");
    make_all();
    pid_t child = fork();
    if (child == 0) {
        be_child();
    }
    check(waitpid(child, &state, 0) == child, "waitpid");
    check(WIFEXITED(state) && WEXITSTATUS(state) == 42, "the child did not end well");
    use_as_parent();
    return 0;
}
