/* SPDX-License-Identifier: Apache-2.0 */
/* What fixed_size, binning and arena have in common: order between streams, captures, faults. */
#include <cudart_emulated.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "random_numbers.h"

enum { KIB = 1024, MIB = 1 << 20, STREAMS = 3, SLOTS = 24, MOST = 64 * KIB };

/* ---- one of each ---- */

static crmm_status create_fixed_size(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_fixed_size_memory_resource_create(upstream,
                                                  CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                               .block_size = MOST,
                                                               .blocks_to_preallocate = 4),
                                                  out);
}

static crmm_status create_binning(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_binning_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = 10, .max_size_exponent = 15,
                     .blocks_to_preallocate = 2),
        out);
}

static crmm_status create_arena(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_arena_memory_resource_create(
        upstream, CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = 2 * MIB), out);
}

static const struct subject {
    const char *name;
    crmm_status (*create)(crmm_resource *upstream, crmm_resource **out);
} subjects[] = {
    {"fixed_size", create_fixed_size}, {"binning", create_binning}, {"arena", create_arena}};

enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

/* ---- order ---- */

typedef struct slot {
    char *ptr;
    size_t bytes;
    int stream;
} slot;

typedef struct scene {
    crmm_resource *mr;
    cudaStream_t streams[STREAMS];
    slot slots[SLOTS];
    uint64_t random;
} scene;

static void write_with_kernel(cudaStream_t stream, void *ptr, size_t bytes)
{
    const struct cudart_emulated_range range = {.ptr = ptr, .size = bytes, .write = 1, .value = 1};
    cuda(cudart_emulated_kernel(stream, &range, 1, NULL, NULL));
}

static void step(scene *of)
{
    slot *at = &of->slots[random_below(&of->random, SLOTS)];

    if (at->ptr == NULL) {
        at->stream = (int)random_below(&of->random, STREAMS);
        at->bytes = 1 + random_below(&of->random, MOST);
        expect_success(
            crmm_allocate(of->mr, of->streams[at->stream], at->bytes, 256, (void **)&at->ptr));
        write_with_kernel(of->streams[at->stream], at->ptr, at->bytes);
        return;
    }
    int on =
        random_below(&of->random, 4) != 0 ? at->stream : (int)random_below(&of->random, STREAMS);
    if (on != at->stream) {
        /* As a program must before it gives a block back there. */
        order_streams(of->streams[at->stream], of->streams[on]);
    }
    crmm_deallocate(of->mr, of->streams[on], at->ptr, at->bytes, 256);
    at->ptr = NULL;
}

/* Whatever the order in which streams run: nobody has memory before the one before is done. */
Test(emulation_suballocators, hand_out_memory_in_the_order_of_streams, .timeout = 100)
{
    enum { SEEDS = 20, STEPS = 300 };

    misuse_recorder_start();
    for (int i = 0; i < SUBJECTS; i++) {
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            scene of = {.random = seed};
            cudart_emulated_set_seed(seed);
            expect_success(subjects[i].create(crmm_cuda_memory_resource(), &of.mr));
            for (int k = 1; k < STREAMS; k++) {
                of.streams[k] = make_stream();
            }
            for (int k = 0; k < STEPS; k++) {
                step(&of);
            }
            for (int k = 0; k < SLOTS; k++) {
                if (of.slots[k].ptr != NULL) {
                    crmm_deallocate(of.mr, of.streams[of.slots[k].stream], of.slots[k].ptr,
                                    of.slots[k].bytes, 256);
                }
            }
            for (int k = 1; k < STREAMS; k++) {
                cuda(cudaStreamDestroy(of.streams[k]));
            }
            crmm_resource_release(&of.mr);
            cr_assert(cudart_emulated_violations() == 0, "%s, seed %llu: %s", subjects[i].name,
                      (unsigned long long)seed, cudart_emulated_violation(0));
        }
    }
    expect_equal(misuse_recorded()->count, 0);
}

/* A new stream that has the handle of one that is gone has nothing of that one's memory. */
Test(emulation_suballocators, streams_are_told_apart_by_their_id)
{
    for (int i = 0; i < SUBJECTS; i++) {
        crmm_resource *mr = NULL;
        void *ptr = NULL;

        expect_success(subjects[i].create(crmm_cuda_memory_resource(), &mr));
        for (int round = 0; round < 20; round++) {
            cudaStream_t stream = make_stream();
            expect_success(crmm_allocate(mr, stream, MOST / 2, 256, &ptr));
            write_with_kernel(stream, ptr, MOST / 2);
            crmm_deallocate(mr, stream, ptr, MOST / 2, 256);
            cuda(cudaStreamDestroy(stream));
        }
        crmm_resource_release(&mr);
        cr_assert(cudart_emulated_violations() == 0, "%s: %s", subjects[i].name,
                  cudart_emulated_violation(0));
    }
}

/* ---- captures ---- */

Test(emulation_suballocators, a_captured_stream_gets_nothing_and_stays_valid)
{
    for (int i = 0; i < SUBJECTS; i++) {
        cudaStream_t stream = make_stream();
        cudaGraph_t graph = NULL;
        crmm_resource *mr = NULL;
        void *ptr = NULL;
        void *none = &none;

        misuse_recorder_start();
        expect_success(subjects[i].create(crmm_cuda_memory_resource(), &mr));
        expect_success(crmm_allocate(mr, stream, 1000, 256, &ptr));
        cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        expect_failure(crmm_allocate(mr, stream, 1000, 256, &none), CRMM_ERROR_UNSUPPORTED,
                       "is being captured");
        expect_misuse(crmm_deallocate(mr, stream, ptr, 1000, 256), CRMM_MISUSE_UNSUPPORTED,
                      "is being captured");
        cr_assert(none == &none);
        cuda(cudaStreamEndCapture(stream, &graph));
        cuda(cudaGraphDestroy(graph));
        crmm_deallocate(mr, stream, ptr, 1000, 256);
        expect_equal(misuse_recorded()->count, 1);
        crmm_resource_release(&mr);
        cuda(cudaStreamDestroy(stream));
    }
}

/* ---- threads ---- */

typedef struct visit {
    crmm_resource *mr;
    unsigned long long calls;
    crmm_status status;
} visit;

static void *use_once(void *data)
{
    visit *own = data;
    void *ptr = NULL;

    own->status = crmm_allocate(own->mr, CRMM_STREAM_PER_THREAD, 1000, 256, &ptr);
    crmm_deallocate(own->mr, CRMM_STREAM_PER_THREAD, ptr, 1000, 256);
    own->calls = cudart_emulated_calls(NULL);
    return NULL;
}

/* User report 30: no call of CUDA's when a thread ends. */
Test(emulation_suballocators, a_thread_that_ends_calls_nothing)
{
    for (int i = 0; i < SUBJECTS; i++) {
        visit own = {0};
        pthread_t thread;

        expect_success(subjects[i].create(crmm_cuda_memory_resource(), &own.mr));
        cr_assert(pthread_create(&thread, NULL, use_once, &own) == 0);
        (void)pthread_join(thread, NULL);
        expect_equal(own.status, CRMM_SUCCESS);
        cr_assert(cudart_emulated_calls(NULL) == own.calls, "%s", subjects[i].name);
        crmm_resource_release(&own.mr);
    }
}

/* ---- faults ---- */

/* Two streams, a block of each kind, one given back across streams, and a shortage. */
static void use(crmm_resource *mr, cudaStream_t const *streams, size_t *failed)
{
    static const size_t sizes[] = {100, 2000, 40 * KIB, 60 * KIB, 64 * KIB, 64 * KIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    void *ptrs[COUNT] = {NULL};

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            crmm_status status =
                i == 2 ? crmm_allocate_sync(mr, sizes[i], 256, &ptrs[i])
                       : crmm_allocate(mr, streams[(i + round) % 2], sizes[i], 256, &ptrs[i]);
            cr_assert((status == CRMM_SUCCESS) == (ptrs[i] != NULL));
            if (status != CRMM_SUCCESS) {
                (*failed)++;
                cr_assert(crmm_last_error()->status == status);
            }
        }
        for (int i = 0; i < COUNT; i++) {
            if (i == 2) {
                crmm_deallocate_sync(mr, ptrs[i], sizes[i], 256);
            } else {
                crmm_deallocate(mr, streams[(i + round) % 2], ptrs[i], sizes[i], 256);
            }
            ptrs[i] = NULL;
        }
    }
}

/* Whichever call of CUDA's fails: an error or none, and what can be given back is. */
Test(emulation_suballocators, lose_nothing_whichever_call_fails, .timeout = 100)
{
    for (int i = 0; i < SUBJECTS; i++) {
        bool all_done = false;
        for (unsigned long long position = 1; !all_done; position++) {
            struct cudart_emulated_usage usage;
            size_t failed = 0;
            crmm_resource *mr = NULL;
            void *ptr = NULL;

            cudart_emulated_reset();
            misuse_recorder_start();
            cudaStream_t streams[2] = {make_stream(), make_stream()};
            unsigned long long before = cudart_emulated_calls(NULL);
            cudart_emulated_fail(NULL, position, 1, cudaErrorIllegalAddress);
            crmm_status status = subjects[i].create(crmm_cuda_memory_resource(), &mr);
            cr_assert((status == CRMM_SUCCESS) == (mr != NULL));
            if (mr != NULL) {
                use(mr, streams, &failed);
                size_t found = misuse_recorded()->count;
                all_done = cudart_emulated_calls(NULL) - before < position;
                cudart_emulated_clear_faults();
                /* A free on a stream of which CUDA tells nothing leaves the block alone. */
                if (found == 0) {
                    crmm_memory_info info = {.struct_size = sizeof(info)};
                    expect_success(crmm_resource_info(mr, &info));
                    expect_equal(info.live, 0);
                }
                expect_success(crmm_allocate(mr, streams[0], 1000, 256, &ptr));
                crmm_deallocate(mr, streams[0], ptr, 1000, 256);
                crmm_resource_release(&mr);
                if (found == 0) {
                    expect_equal(misuse_recorded()->count, 0);
                }
            }
            cudart_emulated_clear_faults();
            cudart_emulated_usage(0, &usage);
            cr_assert(usage.allocated == 0 || misuse_recorded()->count > 0,
                      "%s, call %llu: %zu bytes are left", subjects[i].name, position,
                      usage.allocated);
            expect_equal(cudart_emulated_violations(), 0);
            expect_equal(cudaGetLastError(), cudaSuccess);
        }
    }
}
