/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/aligned_resource_adaptor.h>

#include <stdint.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"
#include "recording_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make(crmm_resource *upstream, size_t alignment, size_t threshold)
{
    crmm_resource *made = NULL;
    expect_success(crmm_aligned_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_aligned_resource_adaptor, .alignment = alignment,
                     .alignment_threshold = threshold),
        &made));
    return made;
}

Test(aligned_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_aligned_resource_adaptor_create(&upstream.base, NULL, &mr));
    expect_text(crmm_resource_name(mr), "aligned_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_is_adaptor(mr));
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "aligned_resource_adaptor (alignment 256, threshold 0) over mock_resource");
    expect_equal(crmm_resource_describe(mr, NULL, 0), strlen(text));
    crmm_resource_release(&mr);
    mr = make(&upstream.base, 4096, 65536);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text,
                "aligned_resource_adaptor (alignment 4096, threshold 65536) over mock_resource");
    crmm_resource_release(&mr);
}

Test(aligned_resource_adaptor, holds_its_upstream)
{
    mock_resource upstream;
    bool destroyed = false;

    mock_resource_init(&upstream, ALL);
    upstream.destroyed = &destroyed;
    crmm_resource *mr = make(&upstream.base, 512, 0);
    crmm_resource *own = &upstream.base;
    crmm_resource_release(&own);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

Test(aligned_resource_adaptor, refuses_bad_arguments_of_create)
{
    static const size_t bad[] = {3, 255, 768, SIZE_MAX};
    mock_resource upstream;
    crmm_resource *mr = NULL;
    crmm_aligned_resource_adaptor_options options;

    mock_resource_init(&upstream, ALL);
    expect_failure(crmm_aligned_resource_adaptor_create(NULL, NULL, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "aligned_resource_adaptor: upstream is NULL");
    expect_failure(crmm_aligned_resource_adaptor_create(&upstream.base, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    crmm_aligned_resource_adaptor_options_init(&options);
    crmm_aligned_resource_adaptor_options_init(NULL);
    expect_equal(options.struct_size, sizeof(options));
    expect_equal(options.alignment, 0);
    expect_equal(options.alignment_threshold, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        options.alignment = bad[i];
        expect_failure(crmm_aligned_resource_adaptor_create(&upstream.base, &options, &mr),
                       CRMM_ERROR_INVALID_ARGUMENT, "is not a power of two");
    }
    options.struct_size = 3;
    expect_failure(crmm_aligned_resource_adaptor_create(&upstream.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 3");
    cr_assert(mr == NULL);
}

/* RMM's table of sizes; what comes back is what was given, with its stream. */
Test(aligned_resource_adaptor, pads_from_the_threshold_on)
{
    static const struct {
        size_t bytes;
        size_t asked;
        size_t alignment; /* asked of upstream */
    } rows[] = {
        {65536, 69376, 256}, {73728, 77568, 256}, {77800, 81664, 256},
        {65528, 65528, 16},  {5, 5, 16},
    };
    crmm_stream stream = (crmm_stream)(uintptr_t)0x40;
    mock_resource upstream;

    mock_resource_init(&upstream, ALL);
    crmm_resource *mr = make(&upstream.base, 4096, 65536);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *ptr = NULL;
        expect_success(crmm_allocate(mr, stream, rows[i].bytes, 16, &ptr));
        expect_equal(upstream.last_allocate.bytes, rows[i].asked);
        expect_equal(upstream.last_allocate.alignment, rows[i].alignment);
        cr_assert(!upstream.last_allocate.sync && upstream.last_allocate.stream == stream);
        cr_assert(crmm_is_pointer_aligned(ptr, rows[i].bytes < 65536 ? 16 : 4096));
        cr_assert((char *)ptr + rows[i].bytes <=
                  (char *)upstream.last_allocate.ptr + rows[i].asked);
        crmm_deallocate(mr, stream, ptr, rows[i].bytes, 16);
        cr_assert(upstream.last_deallocate.ptr == upstream.last_allocate.ptr);
        expect_equal(upstream.last_deallocate.bytes, rows[i].asked);
        expect_equal(upstream.last_deallocate.alignment, rows[i].alignment);
        cr_assert(!upstream.last_deallocate.sync && upstream.last_deallocate.stream == stream);

        expect_success(crmm_allocate_sync(mr, rows[i].bytes, 16, &ptr));
        cr_assert(upstream.last_allocate.sync);
        expect_equal(upstream.last_allocate.bytes, rows[i].asked);
        crmm_deallocate_sync(mr, ptr, rows[i].bytes, 16);
        cr_assert(upstream.last_deallocate.sync);
        expect_equal(upstream.last_deallocate.bytes, rows[i].asked);
    }
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* By default it gives CRMM_DEVICE_ALIGNMENT, and what a request asks for above that. */
Test(aligned_resource_adaptor, the_default_is_the_devices_alignment)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    mock_resource_init(&upstream, ALL);
    expect_success(crmm_aligned_resource_adaptor_create(&upstream.base, NULL, &mr));
    for (size_t alignment = 1; alignment <= 256; alignment *= 2) {
        expect_success(crmm_allocate(mr, NULL, 1000, alignment, &ptr));
        expect_equal(upstream.last_allocate.bytes, 1000);
        expect_equal(upstream.last_allocate.alignment, 256);
        crmm_deallocate(mr, NULL, ptr, 1000, alignment);
        expect_equal(upstream.last_deallocate.alignment, 256);
    }
    crmm_resource_release(&mr);

    mr = make(&upstream.base, 64, 0); /* less than what upstream gives: the same */
    expect_success(crmm_allocate(mr, NULL, 1000, 16, &ptr));
    cr_assert(crmm_is_pointer_aligned(ptr, 256));
    crmm_deallocate(mr, NULL, ptr, 1000, 16);
    crmm_resource_release(&mr);
}

/* User reports 51 and 53: an alignment is honoured or refused, never ignored. The upstream gives
 * just what it is asked for, so that nothing is aligned by chance. */
Test(aligned_resource_adaptor, gives_any_power_of_two)
{
    static const size_t bad[] = {0, 3, 48};
    recording_resource upstream;
    void *ptr = &upstream;

    recording_resource_init(&upstream, ALL);
    recording_expect(true, NULL);
    expect_status(crmm_allocate_sync(&upstream.base, 10, 512, &ptr), CRMM_ERROR_UNSUPPORTED);
    crmm_resource *mr = make(&upstream.base, 0, 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        expect_status(crmm_allocate_sync(mr, 10, bad[i], &ptr), CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_allocate_sync(mr, 0, bad[i], &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    }
    for (size_t alignment = 1; alignment <= (1 << 20); alignment *= 2) {
        for (size_t bytes = 1; bytes <= 3 * alignment; bytes += alignment - alignment / 3) {
            expect_success(crmm_allocate_sync(mr, bytes, alignment, &ptr));
            cr_assert(crmm_is_pointer_aligned(ptr, alignment));
            memset(ptr, 1, crmm_align_up(bytes, alignment > 256 ? alignment : 1));
            crmm_deallocate_sync(mr, ptr, bytes, alignment);
        }
    }
    expect_equal(upstream.live_blocks, 0);
    cr_assert(upstream.wrong == 0, "%s", upstream.first_wrong);
    crmm_resource_release(&mr);
    recording_resource_finish(&upstream);
}

Test(aligned_resource_adaptor, the_larger_alignment_wins)
{
    mock_resource upstream;
    void *ptr = NULL;

    mock_resource_init(&upstream, ALL);
    crmm_resource *mr = make(&upstream.base, 1024, 4096);
    expect_success(crmm_allocate(mr, NULL, 5000, 2048, &ptr));
    cr_assert(crmm_is_pointer_aligned(ptr, 2048));
    expect_equal(upstream.last_allocate.bytes, 6144 + 2048 - 256);
    crmm_deallocate(mr, NULL, ptr, 5000, 2048);
    expect_success(crmm_allocate(mr, NULL, 100, 512, &ptr)); /* below the threshold */
    cr_assert(crmm_is_pointer_aligned(ptr, 512));
    expect_equal(upstream.last_allocate.bytes, 512 + 512 - 256);
    crmm_deallocate(mr, NULL, ptr, 100, 512);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* User report 50 is behind this: no size wraps, and upstream is not asked. */
Test(aligned_resource_adaptor, huge_sizes_do_not_wrap)
{
    mock_resource upstream;
    void *ptr = &upstream;

    mock_resource_init(&upstream, ALL);
    crmm_resource *mr = make(&upstream.base, 4096, 0);
    for (size_t less = 0; less < 5000; less += 7) {
        expect_status(crmm_allocate(mr, NULL, SIZE_MAX - less, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
        if (less < 3840) {
            expect_failure(crmm_allocate(mr, NULL, (size_t)PTRDIFF_MAX - less, 16, &ptr),
                           CRMM_ERROR_OUT_OF_MEMORY,
                           "bytes aligned to 4096 need more than can exist");
            expect_equal(crmm_last_error()->requested_bytes, (size_t)PTRDIFF_MAX - less);
        }
    }
    expect_status(crmm_allocate_sync(mr, 1, (size_t)1 << 63, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate_sync(mr, (size_t)PTRDIFF_MAX, (size_t)1 << 63, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(upstream.allocations, 0);
    cr_assert(ptr == &upstream);
    crmm_resource_release(&mr);
}

Test(aligned_resource_adaptor, upstream_failures_are_passed_on)
{
    mock_resource upstream;
    void *ptr = &upstream;

    mock_resource_init(&upstream, ALL);
    crmm_resource *mr = make(&upstream.base, 4096, 0);
    upstream.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_failure(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    cr_assert(ptr == &upstream);
    crmm_resource_release(&mr);
}

/* User report 54 is behind this: what was not found changes nothing. */
Test(aligned_resource_adaptor, finds_wrong_frees_of_padded_blocks)
{
    mock_resource upstream;
    char foreign[4096];
    void *ptr = NULL;

    mock_resource_init(&upstream, ALL);
    misuse_recorder_start();
    crmm_resource *mr = make(&upstream.base, 4096, 1000);
    expect_misuse(crmm_deallocate(mr, NULL, foreign, 5000, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "(5000 bytes, alignment 16) is not allocated here");
    expect_success(crmm_allocate(mr, NULL, 5000, 16, &ptr));
    expect_misuse(crmm_deallocate(mr, NULL, foreign, 5000, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "is not allocated here");
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 5001, 16), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 5000 bytes and given back with 5001");
    expect_misuse(crmm_deallocate_sync(mr, ptr, 999, 16), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 5000 bytes and given back with 999"); /* as if unpadded */
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 999, 16), CRMM_MISUSE_SIZE_MISMATCH, "999");
    expect_misuse(crmm_deallocate_sync(mr, ptr, 5000, 32), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                  "allocated with alignment 16 and given back with alignment 32");
    expect_equal(misuse_recorded()->latest.bytes, 5000);
    cr_assert(misuse_recorded()->latest.ptr == ptr);
    expect_text(misuse_recorded()->resource_name, "aligned_resource_adaptor");
    expect_equal(upstream.deallocations, 0); /* left alone */
    crmm_deallocate(mr, NULL, ptr, 5000, 16);
    expect_equal(upstream.live, 0);
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 5000, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "is not allocated here");
    expect_equal(upstream.deallocations, 1);

    /* A block that was not padded, given back with an alignment of a padded one. */
    expect_success(crmm_allocate(mr, NULL, 500, 16, &ptr));
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 500, 1024), CRMM_MISUSE_FOREIGN_POINTER,
                  "is not allocated here");
    crmm_deallocate(mr, NULL, ptr, 500, 16);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

Test(aligned_resource_adaptor, reports_padded_blocks_that_leak)
{
    mock_resource upstream;
    void *ptr = NULL;
    void *other = NULL;

    mock_resource_init(&upstream, ALL);
    misuse_recorder_start();
    crmm_resource *mr = make(&upstream.base, 4096, 0);
    expect_success(crmm_allocate(mr, NULL, 5000, 16, &ptr));
    mock_call first = upstream.last_allocate;
    expect_success(crmm_allocate(mr, NULL, 1000, 16, &other));
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "released with 2 padded allocations of 6000 bytes alive, among them 0x");
    expect_equal(misuse_recorded()->latest.bytes, 6000);
    expect_equal(upstream.live, 2);
    crmm_deallocate(&upstream.base, NULL, first.ptr, first.bytes, first.alignment);
    crmm_deallocate(&upstream.base, NULL, upstream.last_allocate.ptr, upstream.last_allocate.bytes,
                    upstream.last_allocate.alignment);
}

Test(aligned_resource_adaptor, frees_by_address_what_it_has_padded)
{
    mock_resource upstream;
    void *ptr = NULL;
    void *small = NULL;

    mock_resource_init(&upstream, ALL);
    misuse_recorder_start();
    crmm_resource *mr = make(&upstream.base, 4096, 1000);
    expect_success(crmm_allocate(mr, NULL, 5000, 16, &ptr));
    crmm_deallocate_ptr(mr, (crmm_stream)(uintptr_t)0x50, ptr);
    expect_equal(upstream.live, 0);
    expect_equal(upstream.last_deallocate.bytes, 8192 + 4096 - 256);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    expect_success(crmm_allocate(mr, NULL, 10, 16, &small));
    expect_misuse(crmm_deallocate_ptr(mr, NULL, small), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    crmm_deallocate(mr, NULL, small, 10, 16);
    crmm_resource_release(&mr);

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    mr = make(&upstream.base, 4096, 0);
    expect_success(crmm_allocate_sync(mr, 5000, 16, &ptr));
    crmm_deallocate_ptr(mr, NULL, ptr);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* Many blocks at a time, given back in another order: the table grows, and closes its holes. */
Test(aligned_resource_adaptor, keeps_many_blocks)
{
    enum { BLOCKS = 3000, STEP = 1009 };
    static void *blocks[BLOCKS];
    recording_resource upstream;

    misuse_recorder_start();
    recording_resource_init(&upstream, ALL);
    recording_expect(true, NULL);
    crmm_resource *mr = make(&upstream.base, 512, 0);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            expect_success(crmm_allocate_sync(mr, 1 + i % 600, 16, &blocks[i]));
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t which = i * STEP % BLOCKS;
            crmm_deallocate_sync(mr, blocks[which], 1 + which % 600, 16);
        }
        expect_equal(upstream.live_blocks, 0);
    }
    expect_equal(misuse_recorded()->count, 0);
    cr_assert(upstream.wrong == 0, "%s", upstream.first_wrong);
    crmm_resource_release(&mr);
    recording_resource_finish(&upstream);
}

Test(aligned_resource_adaptor, over_a_sync_only_resource_is_sync_only)
{
    crmm_resource *mr = make(crmm_malloc_memory_resource(), 1 << 16, 0);
    void *ptr = &mr;

    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "aligned_resource_adaptor is not stream-ordered");
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    cr_assert(crmm_is_pointer_aligned(ptr, 1 << 16));
    memset(ptr, 1, 1 << 16);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    crmm_resource_release(&mr);
}

/* User report 51, on device memory. */
Test(aligned_resource_adaptor, aligns_device_memory)
{
    void *ptr = NULL;

    need_devices(1);
    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    crmm_resource *cuda_memory = crmm_cuda_memory_resource();
    crmm_resource *mr = make(cuda_memory, 0, 0);
    for (size_t alignment = 512; alignment <= 1 << 16; alignment *= 2) {
        void *untouched = &mr;
        expect_status(crmm_allocate(cuda_memory, stream, 1000, alignment, &untouched),
                      CRMM_ERROR_UNSUPPORTED);
        expect_success(crmm_allocate(mr, stream, 1000, alignment, &ptr));
        cr_assert(crmm_is_pointer_aligned(ptr, alignment));
        device_fill(ptr, 3, 1000);
        cr_assert(device_has(ptr, 3, 1000));
        crmm_deallocate(mr, stream, ptr, 1000, alignment);
    }
    expect_equal(misuse_recorded()->count, 0);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}
