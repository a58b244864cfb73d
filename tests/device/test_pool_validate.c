/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with the option `validate`. */
#include <crmm/device/pool_memory_resource.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>
#include <crmm/interfaces/resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static crmm_resource *make(crmm_resource *upstream)
{
    crmm_resource *made = NULL;

    need_devices(1);
    expect_success(crmm_pool_memory_resource_create(
        upstream, CRMM_OPTIONS(crmm_pool_memory_resource, .validate = 1), &made));
    misuse_recorder_start();
    return made;
}

/* One byte, by work on the stream, whose memory it is in. */
static void scribble(void *at, cudaStream_t stream)
{
    cuda(cudaMemsetAsync(at, 0x11, 1, stream));
}

/* ---- guards ---- */

Test(pool_validate, a_clean_block_is_no_finding)
{
    static const size_t sizes[] = {1, 255, 256, 257, 4095, 65536, (1 << 20) + 1, 5 << 20};
    crmm_resource *mr = make(NULL);
    cudaStream_t stream = make_stream();

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t alignment = 1; alignment <= (size_t)4 << 20; alignment *= 32) {
            void *a = NULL;
            void *b = NULL;
            expect_success(crmm_allocate(mr, stream, sizes[i], alignment, &a));
            expect_success(crmm_allocate_sync(mr, sizes[i], alignment, &b));
            cr_assert(crmm_is_pointer_aligned(a, alignment) && crmm_is_pointer_aligned(a, 256));
            cr_assert(crmm_is_pointer_aligned(b, alignment) && crmm_is_pointer_aligned(b, 256));
            cuda(cudaMemsetAsync(a, 1, sizes[i], stream));
            device_fill(b, 2, sizes[i]);
            crmm_deallocate(mr, stream, a, sizes[i], alignment);
            crmm_deallocate_sync(mr, b, sizes[i], alignment);
        }
    }
    /* Without a use and without a wait in between, on and off streams. */
    void *ptr = NULL;
    expect_success(crmm_allocate(mr, stream, 1000, 256, &ptr));
    crmm_deallocate_sync(mr, ptr, 1000, 256);
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
    crmm_deallocate(mr, stream, ptr, 1000, 256);
    expect_success(crmm_allocate(mr, CRMM_STREAM_PER_THREAD, 1000, 256, &ptr));
    crmm_deallocate_ptr(mr, CRMM_STREAM_PER_THREAD, ptr);
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(stream));
}

/* User report 73. */
Test(pool_validate, an_overrun_is_found_on_either_side)
{
    static const size_t sizes[] = {1, 256, 1000, (1 << 20) + 8};
    crmm_resource *mr = make(NULL);
    cudaStream_t stream = make_stream();
    char expected[64];
    char *ptr = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i];
        const size_t last = crmm_align_up(size, 256) + 255;

        expect_success(crmm_allocate(mr, stream, size, 256, (void **)&ptr));
        scribble(ptr + size, stream);
        (void)snprintf(expected, sizeof(expected),
                       "past its end: the first wrong byte is at "
                       "offset %zu,",
                       size);
        expect_misuse(crmm_deallocate(mr, stream, ptr, size, 256), CRMM_MISUSE_OVERRUN, expected);
        cr_assert(misuse_recorded()->latest.ptr == ptr);
        expect_equal(misuse_recorded()->latest.bytes, size);

        expect_success(crmm_allocate(mr, stream, size, 4096, (void **)&ptr));
        scribble(ptr + last, stream);
        (void)snprintf(expected, sizeof(expected), "offset %zu, and 1 of", last);
        expect_misuse(crmm_deallocate(mr, stream, ptr, size, 4096), CRMM_MISUSE_OVERRUN, expected);

        expect_success(crmm_allocate(mr, stream, size, 8192, (void **)&ptr));
        scribble(ptr - 1, stream);
        expect_misuse(crmm_deallocate_ptr(mr, stream, ptr), CRMM_MISUSE_OVERRUN,
                      "before its start: the first wrong byte is at offset -1, and 1 of 256");

        expect_success(crmm_allocate_sync(mr, size, 256, (void **)&ptr));
        device_fill(ptr - 256, 0, 256 + size);
        expect_misuse(crmm_deallocate_sync(mr, ptr, size, 256), CRMM_MISUSE_OVERRUN,
                      "without a stream) was overrun before its start: the first wrong byte is at "
                      "offset -256, and 256 of 256");
    }
    /* Both sides are two findings; the block was taken back all the same. */
    size_t before = misuse_recorded()->count;
    expect_success(crmm_allocate(mr, stream, 100, 256, (void **)&ptr));
    cuda(cudaMemsetAsync(ptr - 8, 3, 116, stream));
    crmm_deallocate(mr, stream, ptr, 100, 256);
    expect_equal(misuse_recorded()->count, before + 2);
    crmm_memory_info info = {.struct_size = sizeof(info)};
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.allocations, 0);
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, before + 2);
    cuda(cudaStreamDestroy(stream));
}

Test(pool_validate, a_deallocation_waits_for_the_stream)
{
    gate held;
    crmm_resource *mr = make(NULL);
    cudaStream_t stream = make_stream();
    char *ptr = NULL;

    /* The overrun itself is still to come when the block goes back. */
    gate_close(&held, stream);
    expect_success(crmm_allocate(mr, stream, 100, 256, (void **)&ptr));
    scribble(ptr + 100, stream);
    pthread_t opener = gate_open_later(&held);
    expect_misuse(crmm_deallocate(mr, stream, ptr, 100, 256), CRMM_MISUSE_OVERRUN, "offset 100");
    cr_assert(gate_is_open(&held));
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

Test(pool_validate, other_misuse_leaves_the_block_alone)
{
    crmm_resource *mr = make(NULL);
    cudaStream_t stream = make_stream();
    char *ptr = NULL;

    expect_success(crmm_allocate(mr, stream, 1000, 256, (void **)&ptr));
    expect_misuse(crmm_deallocate(mr, stream, ptr, 1001, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "is a block of 1000 bytes");
    expect_misuse(crmm_deallocate(mr, stream, ptr, 1000, 512), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                  "with alignment 256");
    expect_misuse(crmm_deallocate(mr, stream, ptr + 1, 1000, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "no block of this pool begins at");
    expect_misuse(crmm_deallocate(mr, stream, &mr, 1000, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "no block of this pool begins at");
    expect_misuse(crmm_deallocate_ptr(mr, stream, ptr + 1), CRMM_MISUSE_FOREIGN_POINTER, "begins");
    crmm_deallocate(mr, stream, ptr, 1000, 256);
    expect_misuse(crmm_deallocate(mr, stream, ptr, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back before");
    expect_misuse(crmm_deallocate_ptr(mr, stream, ptr), CRMM_MISUSE_DOUBLE_FREE, "before");
    expect_status(crmm_allocate(mr, stream, PTRDIFF_MAX, 256, (void **)&ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate_sync(mr, 1, (size_t)1 << 63, (void **)&ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    size_t count = misuse_recorded()->count;
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, count);
    cuda(cudaStreamDestroy(stream));
}

/* ---- leaks ---- */

enum { MOST_LEAKS = 8 };

static struct {
    crmm_misuse findings[MOST_LEAKS];
    char messages[MOST_LEAKS][256];
    size_t count;
} leaks;

static void note_leak(const crmm_misuse *misuse, void *user_data)
{
    (void)user_data;
    if (leaks.count < MOST_LEAKS) {
        leaks.findings[leaks.count] = *misuse;
        (void)snprintf(leaks.messages[leaks.count], sizeof(leaks.messages[0]), "%s",
                       misuse->message);
    }
    leaks.count++;
}

Test(pool_validate, every_leak_is_listed)
{
    /* Over this one, what is lost with the blocks can be given back here. */
    crmm_resource *mr = make(crmm_cuda_memory_resource());
    cudaStream_t stream = make_stream();
    void *ptr[5];
    void *chunks[5];

    expect_success(crmm_allocate(mr, stream, 100, 256, &ptr[0]));
    expect_success(crmm_allocate(mr, NULL, 200, 256, &ptr[1]));
    expect_success(crmm_allocate_sync(mr, 3 << 20, 512, &ptr[2]));
    expect_success(crmm_allocate(mr, stream, 400, 256, &ptr[3]));
    expect_success(crmm_allocate(mr, stream, 500, 256, &ptr[4]));
    for (size_t i = 0; i < 5; i++) {
        expect_success(crmm_pool_memory_resource_chunk(mr, ptr[i], &chunks[i], NULL));
    }
    crmm_deallocate(mr, stream, ptr[3], 400, 256);
    crmm_set_misuse_handler(note_leak, NULL);
    crmm_resource_release(&mr);
    static const size_t sizes[] = {100, 200, 3 << 20, 500};
    static const size_t which[] = {0, 1, 2, 4};
    static const char *const origins[] = {
        "allocation 1, on the stream with id ", "allocation 2, on the default stream",
        "allocation 3, without a stream", "allocation 5, on the stream"};
    expect_equal(leaks.count, 4);
    for (size_t i = 0; i < 4; i++) {
        expect_equal(leaks.findings[i].kind, CRMM_MISUSE_LEAK);
        expect_equal(leaks.findings[i].bytes, sizes[i]);
        cr_assert(leaks.findings[i].ptr == ptr[which[i]]);
        cr_assert(strstr(leaks.messages[i], origins[i]) != NULL, "%s", leaks.messages[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        bool is_first = true;
        for (size_t j = 0; j < i; j++) {
            is_first = is_first && chunks[which[j]] != chunks[which[i]];
        }
        if (is_first) {
            cuda(cudaFree(chunks[which[i]]));
        }
    }
    cuda(cudaStreamDestroy(stream));
}

/* ---- captures ---- */

Test(pool_validate, a_capture_is_refused_and_stays_valid)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    crmm_resource *mr = make(NULL);
    cudaStream_t blocking = NULL;
    cudaGraph_t graph = NULL;
    void *ptr = NULL;
    void *other = &other;

    cuda(cudaStreamCreate(&blocking));
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        expect_success(crmm_allocate(mr, blocking, 1000, 256, &ptr));
        cuda(cudaStreamBeginCapture(blocking, modes[i]));
        expect_failure(crmm_allocate(mr, blocking, 1000, 256, &other), CRMM_ERROR_UNSUPPORTED,
                       "is being captured");
        expect_misuse(crmm_deallocate(mr, blocking, ptr, 1000, 256), CRMM_MISUSE_UNSUPPORTED,
                      "which is being captured");
        /* Work on the default stream would end the capture. */
        expect_status(crmm_allocate(mr, NULL, 1000, 256, &other), CRMM_ERROR_UNSUPPORTED);
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 1000, 256), CRMM_MISUSE_UNSUPPORTED,
                      "which is being captured");
        cr_assert(other == &other);
        cuda(cudaStreamEndCapture(blocking, &graph));
        cuda(cudaGraphDestroy(graph));
        crmm_deallocate(mr, blocking, ptr, 1000, 256);
        /* What names no stream, or another one, is allowed meanwhile. */
        cudaStream_t stream = make_stream();
        void *sync = NULL;
        cuda(cudaStreamBeginCapture(blocking, modes[i]));
        expect_success(crmm_allocate(mr, stream, 1000, 256, &ptr));
        expect_success(crmm_allocate_sync(mr, 1000, 256, &sync));
        crmm_deallocate(mr, stream, ptr, 1000, 256);
        crmm_deallocate_sync(mr, sync, 1000, 256);
        cuda(cudaStreamEndCapture(blocking, &graph));
        cuda(cudaGraphDestroy(graph));
        cuda(cudaStreamDestroy(stream));
    }
    expect_equal(misuse_recorded()->count, 2 * sizeof(modes) / sizeof(modes[0]));
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 2 * sizeof(modes) / sizeof(modes[0]));
    cuda(cudaStreamDestroy(blocking));
}

/* ---- over whatever upstream ---- */

/* By the host where it can: under AddressSanitizer it could not write there itself. */
static void overrun(crmm_resource *mr, char *ptr, size_t size)
{
    if (crmm_resource_has(mr, CRMM_DEVICE_ACCESSIBLE)) {
        device_fill(ptr + size, 0x22, 4);
        return;
    }
#if !defined(__SANITIZE_ADDRESS__)
    memset(ptr + size, 0x22, 4);
#endif
}

static bool can_overrun(const crmm_resource *mr)
{
#if defined(__SANITIZE_ADDRESS__)
    return !crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE);
#else
    (void)mr;
    return true;
#endif
}

Test(pool_validate, serves_over_every_upstream)
{
    need_devices(1);
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), crmm_malloc_memory_resource(),
                                  crmm_pinned_host_memory_resource(),
                                  crmm_managed_memory_resource()};
    cudaStream_t stream = make_stream();

    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *mr = make(upstreams[i]);
        char *ptr = NULL;
        char text[256];

        (void)crmm_resource_describe(mr, text, sizeof(text));
        cr_assert(strstr(text, ", validating") != NULL, "%s", text);
        for (size_t size = 1; size <= (4 << 20); size = size * 7 + 1) {
            expect_success(crmm_allocate_sync(mr, size, 64, (void **)&ptr));
            if (crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE)) {
                memset(ptr, 1, size);
            }
            crmm_deallocate_sync(mr, ptr, size, 64);
            if (crmm_resource_has(mr, CRMM_STREAM_ORDERED)) {
                expect_success(crmm_allocate(mr, stream, size, 1024, (void **)&ptr));
                cuda(cudaMemsetAsync(ptr, 2, size, stream));
                crmm_deallocate(mr, stream, ptr, size, 1024);
            }
        }
        expect_equal(misuse_recorded()->count, 0);
        expect_success(crmm_allocate_sync(mr, 1000, 256, (void **)&ptr));
        if (can_overrun(mr)) {
            overrun(mr, ptr, 1000);
            expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_OVERRUN,
                          "offset 1000, and 4 of");
        } else {
            crmm_deallocate_ptr(mr, NULL, ptr);
        }
        size_t released = 0;
        expect_success(crmm_resource_trim(mr, 0, &released));
        crmm_resource_release(&mr);
        expect_equal(misuse_recorded()->count, can_overrun(upstreams[i]) ? 1 : 0);
    }
    cuda(cudaStreamDestroy(stream));
}

static void count_live(const crmm_pool_block *block, void *user_data)
{
    *(size_t *)user_data += block->is_live != 0;
}

Test(pool_validate, is_a_pool_in_all_else)
{
    crmm_resource *mr = make(NULL);
    cudaStream_t stream = make_stream();
    crmm_pool_statistics statistics = {.struct_size = sizeof(statistics)};
    size_t live = 0;
    size_t bytes = 0;
    void *base = NULL;
    void *ptr = NULL;

    expect_text(crmm_resource_name(mr), "pool_memory_resource");
    expect_success(crmm_allocate(mr, stream, 1000, 256, &ptr));
    cr_assert(crmm_pool_memory_resource_pool_size(mr) > 1000);
    expect_success(crmm_pool_memory_resource_statistics(mr, &statistics));
    expect_equal(statistics.streams, 1);
    expect_success(crmm_pool_memory_resource_snapshot(mr, count_live, &live));
    expect_equal(live, 1);
    expect_success(crmm_pool_memory_resource_chunk(mr, ptr, &base, &bytes));
    cr_assert(base < ptr && (char *)ptr < (char *)base + bytes);
    expect_success(crmm_pool_memory_resource_retire_stream(mr, stream));
    crmm_deallocate(mr, stream, ptr, 1000, 256);
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(stream));
}
