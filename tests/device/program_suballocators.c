/* SPDX-License-Identifier: Apache-2.0 */
/* fixed_size, binning and arena from several threads, with bins that come while they run. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include <cuda_runtime_api.h>

#include "random_numbers.h"

enum { THREADS = 4, STEPS = 4000, SLOTS = 64, MOST = 8192, MIB = 1 << 20 };

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_suballocators: %s (%s)\n", what, crmm_last_error()->message);
        exit(1);
    }
}

/* ---- blocks that any thread may give back ---- */

typedef struct slot {
    pthread_mutex_t mutex;
    void *ptr;
    size_t bytes;
    unsigned char mark;
} slot;

typedef struct run {
    crmm_resource *mr;
    bool is_host; /* its memory can be written here */
    slot slots[SLOTS];
    unsigned threads;
} run;

static void mark_block(const run *of, slot *at)
{
    if (of->is_host) {
        ((unsigned char *)at->ptr)[0] = at->mark;
        ((unsigned char *)at->ptr)[at->bytes - 1] = at->mark;
    }
}

static bool is_marked(const run *of, const slot *at)
{
    const unsigned char *bytes = at->ptr;
    return !of->is_host || (bytes[0] == at->mark && bytes[at->bytes - 1] == at->mark);
}

/* The one who empties a slot has other streams than the one who filled it. */
static void step(run *of, crmm_stream stream, uint64_t *random)
{
    slot *at = &of->slots[random_below(random, SLOTS)];
    size_t bytes = 1 + random_below(random, MOST);
    crmm_stream on = random_below(random, 4) == 0 ? NULL : stream;
    bool is_sync = of->is_host || random_below(random, 8) == 0;

    pthread_mutex_lock(&at->mutex);
    if (at->ptr == NULL) {
        crmm_status status = is_sync ? crmm_allocate_sync(of->mr, bytes, 256, &at->ptr)
                                     : crmm_allocate(of->mr, on, bytes, 256, &at->ptr);
        check(status == CRMM_SUCCESS, "no memory");
        at->bytes = bytes;
        at->mark = (unsigned char)random_next(random);
        mark_block(of, at);
    } else {
        check(is_marked(of, at), "two live blocks overlap");
        if (is_sync) {
            crmm_deallocate_sync(of->mr, at->ptr, at->bytes, 256);
        } else {
            crmm_deallocate(of->mr, on, at->ptr, at->bytes, 256);
        }
        at->ptr = NULL;
    }
    pthread_mutex_unlock(&at->mutex);
}

static void *work(void *data)
{
    run *of = data;
    uint64_t random = __atomic_add_fetch(&of->threads, 1, __ATOMIC_RELAXED);
    cudaStream_t stream = NULL;

    if (!of->is_host) {
        check(cudaStreamCreate(&stream) == cudaSuccess, "no stream");
    }
    for (int i = 0; i < STEPS; i++) {
        step(of, stream, &random);
    }
    if (stream != NULL) {
        check(cudaStreamDestroy(stream) == cudaSuccess, "the stream failed");
    }
    return NULL;
}

/* Bins of all kinds, one after the other; each size is new. */
static void *add_bins(void *data)
{
    run *of = data;
    crmm_resource *given = NULL;
    size_t size = 0;

    for (size_t i = 0; i < 24; i++) {
        size = 256 * (3 + 2 * (i * 7 % 24)); /* no power of two */
        if (i % 3 == 0) {
            check(crmm_pool_memory_resource_create(crmm_resource_upstream(of->mr), NULL, &given) ==
                      CRMM_SUCCESS,
                  "no pool for a bin");
        }
        check(crmm_binning_memory_resource_add_bin(of->mr, size, given) == CRMM_SUCCESS, "no bin");
        crmm_resource_release(&given);
    }
    return NULL;
}

/* ---- the runs ---- */

static void exercise(crmm_resource *mr, bool is_binning)
{
    static run of;
    pthread_t threads[THREADS];
    pthread_t adder;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    uint64_t found = crmm_misuse_count();

    of = (run){.mr = mr, .is_host = crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE)};
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&of.slots[i].mutex, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, &of) == 0, "no thread");
    }
    if (is_binning) {
        check(pthread_create(&adder, NULL, add_bins, &of) == 0, "no thread");
        pthread_join(adder, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < SLOTS; i++) {
        if (of.slots[i].ptr != NULL) {
            check(is_marked(&of, &of.slots[i]), "two live blocks overlap");
            crmm_deallocate_sync(mr, of.slots[i].ptr, of.slots[i].bytes, 256);
        }
        pthread_mutex_destroy(&of.slots[i].mutex);
    }
    check(crmm_resource_info(mr, &info) == CRMM_SUCCESS && info.live == 0 && info.allocations == 0,
          "what came back is still counted");
    check(crmm_misuse_count() == found, "misuse is reported");
    crmm_resource_release(&mr);
    check(crmm_misuse_count() == found, "misuse is reported at the end");
}

int main(void)
{
    crmm_resource *upstreams[] = {crmm_malloc_memory_resource(), crmm_cuda_memory_resource()};
    int devices = 0;
    int count = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 ? 2 : 1;

    for (int i = 0; i < count; i++) {
        crmm_resource *mr = NULL;
        check(crmm_fixed_size_memory_resource_create(upstreams[i],
                                                     CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                                  .block_size = MOST,
                                                                  .blocks_to_preallocate = 16),
                                                     &mr) == CRMM_SUCCESS,
              "no fixed_size");
        exercise(mr, false);
        check(crmm_binning_memory_resource_create(
                  upstreams[i],
                  CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = 10,
                               .max_size_exponent = 12, .blocks_to_preallocate = 4),
                  &mr) == CRMM_SUCCESS,
              "no binning");
        exercise(mr, true);
        /* So small that it runs short all the time. */
        check(crmm_arena_memory_resource_create(
                  upstreams[i], CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = MIB), &mr) ==
                  CRMM_SUCCESS,
              "no arena");
        exercise(mr, false);
    }
    return 0;
}
