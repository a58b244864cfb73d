/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a program that holds memory of every resource, streams and all: a handler that runs
 * after the runtime has unloaded gives everything back, in silence and without a call of CUDA's, as
 * a static object would. (User report 46: such an object was given back after its manager.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/cuda_stream.h>
#include <crmm/device/cuda_stream_pool.h>

#include <cuda_runtime_api.h>

#include "every_resource.h"

#ifdef CUDART_EMULATED
#include <cudart_emulated.h>
#endif

enum { BYTES = 5000, MOST_ROWS = 64 };

typedef struct holding {
    crmm_resource *mr;
    void *ordered; /* by a stream, if there are streams */
    void *sync;
} holding;

static holding held[MOST_ROWS];
static crmm_cuda_stream stream;
static crmm_cuda_stream_pool streams;
static const char *subject = "nothing";

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_every_resource_exit: %s: %s (%s)\n", subject, what,
                      crmm_last_error()->message);
        _exit(1);
    }
}

static void give_back(holding *of)
{
    void *ptr = NULL;

    if (of->ordered != NULL) {
        crmm_deallocate(of->mr, stream.stream, of->ordered, BYTES, 256);
        if (crmm_allocate(of->mr, stream.stream, BYTES, 256, &ptr) == CRMM_SUCCESS) {
            crmm_deallocate(of->mr, stream.stream, ptr, BYTES, 256);
        }
    }
    crmm_deallocate_sync(of->mr, of->sync, BYTES, 256);
    if (crmm_allocate_sync(of->mr, (size_t)BYTES << 10, 256, &ptr) == CRMM_SUCCESS) {
        crmm_deallocate_sync(of->mr, ptr, (size_t)BYTES << 10, 256);
    }
    crmm_status trimmed = crmm_resource_trim(of->mr, 0, NULL);
    check(trimmed == CRMM_SUCCESS || crmm_last_error()->status == trimmed, "a trim");
    crmm_resource_release(&of->mr);
}

static void late(void)
{
    for (size_t i = 0; i < row_count; i++) {
        subject = rows[i].name;
        if (held[i].mr != NULL) {
            give_back(&held[i]);
        }
        check(crmm_misuse_count() == 0, "misuse is reported while the program ends");
#ifdef CUDART_EMULATED
        check(cudart_emulated_late_calls() == 0, "the runtime is called after it has unloaded");
#endif
    }
    subject = "streams";
    crmm_cuda_stream_pool_finish(&streams);
    crmm_cuda_stream_finish(&stream);
    check(crmm_misuse_count() == 0, "misuse is reported while the program ends");
#ifdef CUDART_EMULATED
    check(cudart_emulated_late_calls() == 0, "the runtime is called after it has unloaded");
#endif
    (void)puts("program_every_resource_exit: the late handler has run");
    (void)fflush(stdout);
}

static void take(const row *of, holding *out)
{
    char why[48] = "";

    subject = of->name;
    check(every_resource_make(of, &out->mr, why) == CRMM_SUCCESS, "it cannot be made");
    if (out->mr == NULL) {
        return;
    }
    check(crmm_allocate_sync(out->mr, BYTES, 256, &out->sync) == CRMM_SUCCESS, "no memory");
    if (crmm_resource_has(out->mr, CRMM_STREAM_ORDERED)) {
        check(crmm_allocate(out->mr, stream.stream, BYTES, 256, &out->ordered) == CRMM_SUCCESS,
              "no memory");
    }
}

int main(void)
{
    int devices = 0;

    check(atexit(late) == 0, "atexit");
    every_resource_set_up();
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        check(getenv("CRMM_TEST_REQUIRE_GPU") == NULL, "no device");
        _exit(77);
    }
    check(row_count <= MOST_ROWS, "too many rows");
    check(crmm_cuda_stream_init(&stream, CRMM_CUDA_STREAM_NON_BLOCKING) == CRMM_SUCCESS, "stream");
    check(crmm_cuda_stream_pool_init(&streams, 4, 0) == CRMM_SUCCESS, "streams");
    for (size_t i = 0; i < row_count; i++) {
        take(&rows[i], &held[i]);
    }
    return 0;
}
