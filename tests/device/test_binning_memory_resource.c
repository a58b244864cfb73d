/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/binning_memory_resource.h>

#include <stdint.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "common_checks.h"
#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, KIB = 1024, MIB = 1 << 20 };

static crmm_resource *make(crmm_resource *upstream, uint64_t first, uint64_t last)
{
    crmm_resource *made = NULL;

    expect_success(crmm_binning_memory_resource_create(upstream,
                                                       CRMM_OPTIONS(crmm_binning_memory_resource,
                                                                    .min_size_exponent = first,
                                                                    .max_size_exponent = last),
                                                       &made));
    return made;
}

static crmm_memory_info info_of(const crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    expect_success(crmm_resource_info(mr, &info));
    return info;
}

static crmm_status try_to_make(uint64_t first, uint64_t last, uint64_t blocks, crmm_resource **out)
{
    return crmm_binning_memory_resource_create(
        crmm_cuda_memory_resource(),
        CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = first,
                     .max_size_exponent = last, .blocks_to_preallocate = blocks),
        out);
}

/* ---- creation ---- */

Test(binning_memory_resource, create_refuses_what_cannot_be)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *untouched = cuda_mr;
    crmm_binning_memory_resource_options options;

    need_devices(1);
    expect_failure(crmm_binning_memory_resource_create(NULL, NULL, &untouched),
                   CRMM_ERROR_INVALID_ARGUMENT, "upstream is NULL");
    expect_failure(crmm_binning_memory_resource_create(cuda_mr, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    expect_failure(try_to_make(5, 4, 0, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "min_size_exponent 5 is more than max_size_exponent 4");
    expect_failure(try_to_make(18, 0, 0, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "min_size_exponent 18 is more than max_size_exponent 0");
    expect_failure(try_to_make(10, 63, 0, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "max_size_exponent 63 is more than 62");
    expect_failure(try_to_make(UINT64_MAX - 1, UINT64_MAX, 0, &untouched),
                   CRMM_ERROR_INVALID_ARGUMENT, "is more than 62");
    expect_failure(try_to_make(10, 62, 1, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaErrorMemoryAllocation");
    expect_failure(try_to_make(62, 62, 4, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "more than can exist");
    expect_equal(info_of(cuda_mr).held, 0);
    crmm_binning_memory_resource_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.struct_size = 1;
    expect_status(crmm_binning_memory_resource_create(cuda_mr, &options, &untouched),
                  CRMM_ERROR_INVALID_ARGUMENT);
    struct {
        crmm_binning_memory_resource_options known;
        uint64_t unknown;
    } newer = {.known = {.struct_size = sizeof(newer)}, .unknown = 1};
    expect_status(crmm_binning_memory_resource_create(cuda_mr, &newer.known, &untouched),
                  CRMM_ERROR_UNSUPPORTED);
    cr_assert(untouched == cuda_mr, "a failure wrote the output");
}

Test(binning_memory_resource, looks_as_declared)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    char text[200];

    need_devices(1);
    crmm_resource *mr = make(cuda_mr, 18, 22);
    expect_text(crmm_resource_name(mr), "binning_memory_resource");
    expect_equal(crmm_resource_properties(mr), ORDERED);
    expect_equal(crmm_resource_device(mr), 0);
    cr_assert(crmm_resource_upstream(mr) == cuda_mr && crmm_resource_is_adaptor(mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "binning_memory_resource (device 0, 5 bins of 262144 to 4194304) over "
                      "cuda_memory_resource");
    expect_equal(info_of(mr).held, 5 * 16 * MIB);
    cr_assert(crmm_resource_is_equal(mr, mr));
    crmm_resource_release(&mr);
    mr = make(cuda_mr, 0, 0);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "binning_memory_resource (device 0, no bins) over cuda_memory_resource");
    expect_equal(info_of(mr).held, 0);
    crmm_resource_release(&mr);
    expect_equal(info_of(cuda_mr).held, 0);
}

/* All exponents there are; what is smaller than a block can be is one bin. */
Test(binning_memory_resource, has_every_exponent)
{
    crmm_resource *mr = NULL;
    char text[200];
    void *ptr = NULL;

    need_devices(1);
    expect_success(try_to_make(0, 62, CRMM_PREALLOCATE_NONE, &mr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, "55 bins of 256 to 4611686018427387904") != NULL, "%s", text);
    expect_equal(info_of(mr).held, 0);
    expect_status(crmm_allocate(mr, NULL, (size_t)1 << 62, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(mr, NULL, ((size_t)1 << 62) + 1, 256, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    for (size_t bytes = 1; bytes <= 64 * MIB; bytes *= 2) {
        expect_success(crmm_allocate(mr, NULL, bytes, 256, &ptr));
        expect_equal(info_of(mr).live, bytes < 256 ? 256 : bytes);
        crmm_deallocate(mr, NULL, ptr, bytes, 256);
    }
    crmm_resource_release(&mr);
}

/* ---- which bin ---- */

Test(binning_memory_resource, the_smallest_bin_serves_and_upstream_the_rest)
{
    mock_resource upstream;
    mock_resource small;
    mock_resource large;
    void *ptr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    mock_resource_init(&small, CRMM_HOST_ACCESSIBLE);
    mock_resource_init(&large, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&upstream.base, 0, 0);
    expect_success(crmm_binning_memory_resource_add_bin(mr, 4096, &large.base));
    expect_success(crmm_binning_memory_resource_add_bin(mr, 1000, &small.base));
    const struct {
        size_t bytes;
        mock_resource *served_by;
    } cases[] = {{1, &small},    {1000, &small},    {1024, &small},  {1025, &large},
                 {4096, &large}, {4097, &upstream}, {MIB, &upstream}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mock_resource *by = cases[i].served_by;
        /* The alignment is passed on. */
        expect_success(crmm_allocate_sync(mr, cases[i].bytes, 512, &ptr));
        expect_equal(by->live, 1);
        expect_equal(by->last_allocate.bytes, cases[i].bytes);
        expect_equal(by->last_allocate.alignment, 512);
        expect_equal(info_of(mr).live, cases[i].bytes);
        expect_equal(info_of(mr).allocations, 1);
        crmm_deallocate_sync(mr, ptr, cases[i].bytes, 512);
        expect_equal(by->live, 0);
        expect_equal(by->last_deallocate.bytes, cases[i].bytes);
        expect_equal(by->last_deallocate.alignment, 512);
    }
    /* A bin that fails is not gone round. */
    small.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate_sync(mr, 10, 1, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_success(crmm_allocate_sync(mr, 0, 1, &ptr));
    cr_assert(ptr == NULL);
    small.give_null = true;
    small.fail_with = CRMM_SUCCESS;
    expect_status(crmm_allocate_sync(mr, 10, 1, &ptr), CRMM_ERROR_BAD_ALLOC);
    crmm_resource_release(&mr);
}

/* Sizes between the same two powers of two, each side of every edge. */
Test(binning_memory_resource, bins_may_lie_as_close_as_they_like)
{
    enum { BINS = 5 };
    static const size_t sizes[BINS] = {256, 512, 768, 1024, 1280};
    mock_resource bins[BINS];
    mock_resource upstream;
    void *ptr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&upstream.base, 0, 0);
    for (size_t k = 0; k < BINS; k++) {
        size_t i = (k * 2 + 1) % BINS; /* in no order */
        mock_resource_init(&bins[i], CRMM_HOST_ACCESSIBLE);
        expect_success(crmm_binning_memory_resource_add_bin(mr, sizes[i], &bins[i].base));
    }
    for (size_t bytes = 1; bytes <= 1400; bytes++) {
        size_t i = (bytes - 1) / 256;
        mock_resource *by = i < BINS ? &bins[i] : &upstream;
        expect_success(crmm_allocate_sync(mr, bytes, 16, &ptr));
        cr_assert(by->live == 1, "%zu bytes", bytes);
        crmm_deallocate_sync(mr, ptr, bytes, 16);
        cr_assert(by->live == 0, "%zu bytes", bytes);
    }
    crmm_resource_release(&mr);
}

Test(binning_memory_resource, own_bins_give_whole_blocks)
{
    mock_resource upstream;
    void *ptr = NULL;
    void *aligned = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&upstream.base, 10, 12);
    expect_equal(upstream.allocations, 3);
    expect_equal(info_of(mr).held, 128 * (1024 + 2048 + 4096));
    expect_success(crmm_allocate_sync(mr, 1025, 256, &ptr));
    expect_equal(info_of(mr).live, 2048);
    expect_equal(upstream.allocations, 3);
    /* Bins of its own give no more than 256, upstream may. */
    expect_success(crmm_allocate_sync(mr, 1000, 4096, &aligned));
    expect_equal(upstream.allocations, 4);
    expect_equal(upstream.last_allocate.alignment, 4096);
    crmm_deallocate_sync(mr, aligned, 1000, 4096);
    expect_equal(upstream.deallocations, 1);
    crmm_deallocate_ptr(mr, NULL, ptr);
    expect_success(crmm_allocate_sync(mr, 5000, 256, &ptr));
    crmm_deallocate_ptr(mr, NULL, ptr);
    expect_equal(upstream.live, 3);
    size_t released = 0;
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_equal(released, 128 * (1024 + 2048 + 4096));
    expect_equal(upstream.live, 0);
    expect_equal(info_of(mr).held, 0);
    expect_equal(info_of(mr).peak_held, 128 * (1024 + 2048 + 4096) + 5000); /* of upstream's */
    crmm_resource_release(&mr);
}

/* Of other resources' blocks exactly, also if nobody asked meanwhile. */
Test(binning_memory_resource, peaks_are_those_of_its_parts)
{
    mock_resource upstream;
    void *ptrs[3] = {NULL};

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&upstream.base, 10, 12);
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptrs[0]));
    expect_success(crmm_allocate_sync(mr, 4000, 256, &ptrs[1]));
    expect_success(crmm_allocate_sync(mr, 5000, 256, &ptrs[2]));
    crmm_deallocate_ptr(mr, NULL, ptrs[2]);
    expect_equal(info_of(mr).peak_live, 1024 + 4096 + 5000);
    crmm_deallocate_sync(mr, ptrs[0], 1000, 256);
    crmm_deallocate_sync(mr, ptrs[1], 4000, 256);
    crmm_memory_info info = info_of(mr);
    expect_equal(info.live, 0);
    expect_equal(info.allocations, 0);
    expect_equal(info.peak_live, 1024 + 4096 + 5000);
    expect_equal(info.peak_held, 128 * (1024 + 2048 + 4096) + 5000);
    crmm_resource_release(&mr);
}

/* Whatever was added meanwhile, a block goes back where it came from. */
Test(binning_memory_resource, a_bin_that_comes_later_does_not_misroute)
{
    mock_resource upstream;
    mock_resource given;
    void *ptrs[4];

    misuse_recorder_start();
    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    mock_resource_init(&given, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&upstream.base, 12, 12);
    expect_success(crmm_binning_memory_resource_add_bin(mr, 64 * KIB, &given.base));
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptrs[0]));      /* from the bin of 4 KiB */
    expect_success(crmm_allocate_sync(mr, 10000, 256, &ptrs[1]));     /* from the given one */
    expect_success(crmm_allocate_sync(mr, 100 * KIB, 256, &ptrs[2])); /* from upstream */
    size_t from_upstream = upstream.live;
    expect_equal(given.live, 1);
    expect_success(crmm_binning_memory_resource_add_bin(mr, 1024, NULL));
    expect_success(crmm_binning_memory_resource_add_bin(mr, 16 * KIB, NULL));
    expect_success(crmm_binning_memory_resource_add_bin(mr, MIB, NULL));
    from_upstream = upstream.live - from_upstream;
    expect_equal(from_upstream, 3);
    expect_success(crmm_allocate_sync(mr, 1000, 256, &ptrs[3])); /* from the bin of 1 KiB */
    expect_equal(info_of(mr).live, 4096 + 10000 + 100 * KIB + 1024);
    crmm_deallocate_sync(mr, ptrs[0], 1000, 256);
    expect_equal(info_of(mr).live, 10000 + 100 * KIB + 1024);
    crmm_deallocate_sync(mr, ptrs[1], 10000, 256);
    expect_equal(given.live, 0);
    expect_equal(given.last_deallocate.bytes, 10000);
    size_t before = upstream.live;
    crmm_deallocate_sync(mr, ptrs[2], 100 * KIB, 256);
    expect_equal(upstream.live, before - 1);
    crmm_deallocate_ptr(mr, NULL, ptrs[3]);
    expect_equal(info_of(mr).live, 0);
    expect_equal(misuse_recorded()->count, 0);
    crmm_resource_release(&mr);
    expect_equal(upstream.live, 0);
    expect_equal(misuse_recorded()->count, 0);
}

Test(binning_memory_resource, add_bin_refuses_what_cannot_be)
{
    crmm_resource *malloc_mr = crmm_malloc_memory_resource();
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    mock_resource upstream;
    mock_resource given;
    crmm_resource *over = NULL;

    need_devices(1);
    crmm_resource *mr = make(cuda_mr, 10, 10);
    expect_failure(crmm_binning_memory_resource_add_bin(NULL, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "of another class");
    expect_failure(crmm_binning_memory_resource_add_bin(cuda_mr, 1, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "of another class");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 0, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "a bin of 0 bytes");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, SIZE_MAX, NULL),
                   CRMM_ERROR_OUT_OF_MEMORY, "more than can exist");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 1024, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "there is a bin of 1024 bytes");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 1000, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "there is a bin of 1024 bytes");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 2048, malloc_mr), CRMM_ERROR_PROPERTY,
                   "malloc_memory_resource is not device accessible, stream-ordered");
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 2048, mr), CRMM_ERROR_INVALID_ARGUMENT,
                   "stands on this resource itself");
    expect_success(crmm_pool_memory_resource_create(mr, NULL, &over));
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 2048, over),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "pool_memory_resource stands on this resource itself");
    crmm_resource_release(&over);
    expect_status(crmm_binning_memory_resource_add_bin(mr, (size_t)1 << 40, NULL),
                  CRMM_ERROR_OUT_OF_MEMORY);
    crmm_resource_release(&mr);

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    mock_resource_init(&given, CRMM_HOST_ACCESSIBLE);
    mr = make(&upstream.base, 0, 0);
    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_binning_memory_resource_add_bin(mr, 1024, NULL), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    upstream.fail_with = CRMM_SUCCESS;
    /* It can still be added, and is retained then. */
    bool destroyed = false;
    given.destroyed = &destroyed;
    expect_success(crmm_binning_memory_resource_add_bin(mr, 1024, &given.base));
    crmm_resource *given_mr = &given.base;
    crmm_resource_release(&given_mr);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

/* ---- misuse ---- */

Test(binning_memory_resource, finds_misuse)
{
    char foreign[256];
    void *in_bin = NULL;
    void *outside = NULL;

    need_devices(1);
    misuse_recorder_start();
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 10, 11);
    expect_success(crmm_allocate(mr, NULL, 700, 256, &in_bin));
    expect_success(crmm_allocate(mr, NULL, 7000, 128, &outside));
    expect_misuse(crmm_deallocate(mr, NULL, in_bin, 1025, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "fixed_size_memory_resource");
    expect_misuse(crmm_deallocate(mr, NULL, in_bin, 7000, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "is a block of 1024 bytes");
    expect_misuse(crmm_deallocate_sync(mr, in_bin, 700, 1024), CRMM_MISUSE_SIZE_MISMATCH,
                  "alignment 1024");
    expect_misuse(crmm_deallocate(mr, NULL, outside, 700, 128), CRMM_MISUSE_SIZE_MISMATCH,
                  "binning_memory_resource");
    expect_misuse(crmm_deallocate(mr, NULL, outside, 7001, 128), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 7000 bytes and given back with 7001");
    expect_misuse(crmm_deallocate(mr, NULL, outside, 7000, 256), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                  "was allocated with alignment 128 and given back with alignment 256");
    expect_misuse(crmm_deallocate(mr, NULL, foreign, 7000, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_misuse(crmm_deallocate(mr, NULL, foreign, 7, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_misuse(crmm_deallocate_ptr(mr, NULL, foreign), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_equal(info_of(mr).allocations, 2);
    crmm_deallocate(mr, NULL, in_bin, 700, 256);
    crmm_deallocate(mr, NULL, outside, 7000, 128);
    expect_misuse(crmm_deallocate(mr, NULL, in_bin, 700, 256), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back before");
    expect_misuse(crmm_deallocate(mr, NULL, outside, 7000, 128), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back before");
    expect_equal(info_of(mr).allocations, 0);

    /* A block of the upstream's is not the bin's, even if it is of that size. */
    crmm_resource *direct = crmm_cuda_memory_resource();
    void *others[2];
    expect_success(crmm_allocate(direct, NULL, 700, 256, &others[0]));
    expect_success(crmm_allocate(direct, NULL, 700, 256, &others[1]));
    expect_misuse(crmm_deallocate(mr, NULL, others[1], 700, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    crmm_deallocate(direct, NULL, others[0], 700, 256);
    crmm_deallocate(direct, NULL, others[1], 700, 256);

    expect_success(crmm_allocate(mr, NULL, 7000, 256, &outside));
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "released with 1 allocations of 7000 bytes alive");
    crmm_deallocate(direct, NULL, outside, 7000, 256);
}

/* ---- with a device ---- */

Test(binning_memory_resource, an_explicit_bin_may_be_any_resource)
{
    crmm_resource *pool = NULL;
    void *ptr = NULL;

    need_devices(1);
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 0, 0);
    expect_success(crmm_binning_memory_resource_add_bin(mr, 1024, crmm_cuda_memory_resource()));
    expect_success(crmm_pool_memory_resource_create(NULL, NULL, &pool));
    expect_success(crmm_binning_memory_resource_add_bin(mr, MIB, pool));
    expect_success(crmm_allocate(mr, NULL, 512, 256, &ptr));
    device_fill(ptr, 1, 512);
    cr_assert(device_has(ptr, 1, 512));
    crmm_deallocate(mr, NULL, ptr, 512, 256);
    expect_success(crmm_allocate(mr, NULL, 512 * KIB, 4096, &ptr));
    expect_equal(info_of(pool).live, 512 * KIB);
    crmm_deallocate(mr, NULL, ptr, 512 * KIB, 4096);
    expect_equal(info_of(pool).live, 0);
    crmm_resource_release(&pool);
    crmm_resource_release(&mr);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
}

Test(binning_memory_resource, serves_one_thread_and_several)
{
    const char *wrong = NULL;

    need_devices(1);
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    misuse_recorder_start();
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 18, 22);
    wrong = common_all(mr, 5 * MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_all_by_threads(mr, 5 * MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, NULL, NULL, MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, cudaStreamPerThread, cudaStreamPerThread, MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, streams[0], streams[0], 5 * MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, streams[0], streams[1], 5 * MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    expect_equal(info_of(mr).live, 0);
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
}
