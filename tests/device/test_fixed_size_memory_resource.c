/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/fixed_size_memory_resource.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "common_checks.h"
#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, KIB = 1024, MIB = 1 << 20 };

static crmm_resource *make(crmm_resource *upstream, size_t block_size, uint64_t blocks)
{
    crmm_resource *made = NULL;

    expect_success(crmm_fixed_size_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_fixed_size_memory_resource, .block_size = block_size,
                     .blocks_to_preallocate = blocks),
        &made));
    return made;
}

static crmm_memory_info info_of(const crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    expect_success(crmm_resource_info(mr, &info));
    return info;
}

/* ---- creation ---- */

static crmm_status try_to_make(crmm_resource *upstream, size_t block_size, uint64_t blocks,
                               crmm_resource **out)
{
    return crmm_fixed_size_memory_resource_create(upstream,
                                                  CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                               .block_size = block_size,
                                                               .blocks_to_preallocate = blocks),
                                                  out);
}

Test(fixed_size_memory_resource, create_refuses_what_cannot_be)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *untouched = cuda_mr;
    crmm_fixed_size_memory_resource_options options;

    need_devices(1);
    expect_failure(crmm_fixed_size_memory_resource_create(NULL, NULL, &untouched),
                   CRMM_ERROR_INVALID_ARGUMENT, "upstream is NULL");
    expect_failure(crmm_fixed_size_memory_resource_create(cuda_mr, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    expect_failure(try_to_make(cuda_mr, SIZE_MAX, 1, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "block_size 18446744073709551615 is more than can exist");
    expect_failure(try_to_make(cuda_mr, PTRDIFF_MAX, CRMM_PREALLOCATE_NONE, &untouched),
                   CRMM_ERROR_OUT_OF_MEMORY, "more than can exist");
    expect_failure(try_to_make(cuda_mr, (size_t)1 << 40, (size_t)1 << 40, &untouched),
                   CRMM_ERROR_OUT_OF_MEMORY,
                   "1099511627776 blocks of 1099511627776 bytes are more than can exist");
    expect_failure(try_to_make(cuda_mr, 256, UINT64_MAX - 1, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "more than can exist");
    expect_failure(try_to_make(cuda_mr, (size_t)15 << 30, 16, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaErrorMemoryAllocation");
    crmm_fixed_size_memory_resource_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.struct_size = 1;
    expect_status(crmm_fixed_size_memory_resource_create(cuda_mr, &options, &untouched),
                  CRMM_ERROR_INVALID_ARGUMENT);
    struct {
        crmm_fixed_size_memory_resource_options known;
        uint64_t unknown;
    } newer = {.known = {.struct_size = sizeof(newer)}, .unknown = 1};
    expect_status(crmm_fixed_size_memory_resource_create(cuda_mr, &newer.known, &untouched),
                  CRMM_ERROR_UNSUPPORTED);
    cr_assert(untouched == cuda_mr, "a failure wrote the output");
    crmm_fixed_size_memory_resource_options_init(NULL);
}

Test(fixed_size_memory_resource, a_failed_create_keeps_nothing)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_resource *mr = NULL;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    mock.destroyed = &destroyed;
    mock.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_failure(try_to_make(&mock.base, 1024, 4, &mr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    expect_equal(crmm_last_error()->native_code, 42);
    expect_equal(mock.allocations, 1);
    crmm_resource *mock_mr = &mock.base;
    crmm_resource_release(&mock_mr);
    cr_assert(destroyed && mr == NULL);
}

Test(fixed_size_memory_resource, looks_as_declared)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *mr = NULL;
    char text[200];

    need_devices(1);
    expect_success(crmm_fixed_size_memory_resource_create(cuda_mr, NULL, &mr));
    expect_text(crmm_resource_name(mr), "fixed_size_memory_resource");
    expect_equal(crmm_resource_properties(mr), ORDERED);
    expect_equal(crmm_resource_device(mr), 0);
    cr_assert(crmm_resource_upstream(mr) == cuda_mr && crmm_resource_is_adaptor(mr));
    expect_equal(crmm_fixed_size_memory_resource_block_size(mr), MIB);
    expect_equal(info_of(mr).held, 128 * MIB);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "fixed_size_memory_resource (device 0, blocks of 1048576) over "
                      "cuda_memory_resource");
    cr_assert(crmm_resource_is_equal(mr, mr));
    crmm_resource *other = make(cuda_mr, 0, 1);
    cr_assert(!crmm_resource_is_equal(mr, other));
    crmm_resource_release(&other);
    crmm_resource_release(&mr);

    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_fixed_size_memory_resource_block_size(cuda_mr), 0),
                  CRMM_MISUSE_WRONG_CLASS, "of another class");
    expect_misuse(expect_equal(crmm_fixed_size_memory_resource_block_size(NULL), 0),
                  CRMM_MISUSE_WRONG_CLASS, "of another class");
}

/* A block of a class of the pool's is of that size; others take up to an eighth more. */
Test(fixed_size_memory_resource, takes_what_its_blocks_need)
{
    static const struct {
        size_t asked, block_size, stride;
    } cases[] = {{1, 256, 256},
                 {256, 256, 256},
                 {257, 512, 512},
                 {1000, 1024, 1024},
                 {4097, 4352, 4608},
                 {64 * KIB, 64 * KIB, 64 * KIB},
                 {MIB, MIB, MIB},
                 {MIB - 1, MIB, MIB},
                 {MIB + 1, MIB + 256, MIB + 256},
                 {3 * MIB, 3 * MIB, 3 * MIB}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        mock_resource mock;
        mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
        crmm_resource *mr = make(&mock.base, cases[i].asked, 3);
        expect_equal(crmm_fixed_size_memory_resource_block_size(mr), cases[i].block_size);
        expect_equal(mock.allocations, 1);
        expect_equal(mock.last_allocate.bytes, 3 * cases[i].stride);
        expect_equal(info_of(mr).held, 3 * cases[i].stride);
        crmm_resource_release(&mr);
        expect_equal(mock.live, 0);
    }
}

/* ---- blocks ---- */

Test(fixed_size_memory_resource, every_request_takes_a_whole_block)
{
    enum { BLOCKS = 4, BLOCK = 1024 };
    static const size_t sizes[] = {1, 255, 1024, 512, 257, 1, 1000, 1024};
    mock_resource mock;
    char *ptrs[2 * BLOCKS];

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&mock.base, BLOCK, BLOCKS);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 2 * BLOCKS; i++) {
            expect_success(crmm_allocate_sync(mr, sizes[i], 256, (void **)&ptrs[i]));
            memset(ptrs[i], (int)i, BLOCK);
            cr_assert(crmm_is_pointer_aligned(ptrs[i], CRMM_DEVICE_ALIGNMENT));
            /* As many again, when all are in use and not before. */
            expect_equal(mock.allocations, round == 0 && i < BLOCKS ? 1 : 2);
            expect_equal(mock.last_allocate.bytes, BLOCKS * BLOCK);
        }
        expect_equal(info_of(mr).live, 2 * BLOCKS * BLOCK);
        expect_equal(info_of(mr).allocations, 2 * BLOCKS);
        expect_equal(info_of(mr).cached, 0);
        for (size_t i = 0; i < 2 * BLOCKS; i++) {
            cr_assert(ptrs[i][0] == (char)i && ptrs[i][BLOCK - 1] == (char)i, "blocks overlap");
            crmm_deallocate_sync(mr, ptrs[i], sizes[i], 256);
        }
        expect_equal(info_of(mr).live, 0);
        expect_equal(info_of(mr).cached, 2 * BLOCKS * BLOCK);
    }
    size_t released = 0;
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_equal(released, 2 * BLOCKS * BLOCK);
    expect_equal(mock.live, 0);
    expect_success(crmm_allocate_sync(mr, 1, 1, (void **)&ptrs[0]));
    crmm_deallocate_ptr(mr, NULL, ptrs[0]);
    expect_equal(info_of(mr).live, 0);
    crmm_resource_release(&mr);
    expect_equal(mock.live, 0);
}

Test(fixed_size_memory_resource, preallocates_nothing_if_told_so)
{
    mock_resource mock;
    void *ptr = NULL;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&mock.base, 3000, CRMM_PREALLOCATE_NONE);
    expect_equal(mock.allocations, 0);
    expect_success(crmm_allocate_sync(mr, 3000, 256, &ptr));
    expect_equal(mock.allocations, 1);
    expect_equal(mock.last_allocate.bytes % 3072, 0);
    crmm_deallocate_sync(mr, ptr, 3000, 256);
    crmm_resource_release(&mr);
    /* Where upstream has little left, fewer blocks do. */
    mr = make(&mock.base, (size_t)1 << 50, CRMM_PREALLOCATE_NONE);
    expect_status(crmm_allocate_sync(mr, 1, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    crmm_resource_release(&mr);
}

Test(fixed_size_memory_resource, refuses_what_no_block_has)
{
    mock_resource mock;
    void *ptr = &ptr;

    mock_resource_init(&mock, ORDERED | CRMM_HOST_ACCESSIBLE);
    need_devices(1);
    crmm_resource *mr = make(&mock.base, 1024, 2);
    expect_failure(crmm_allocate(mr, NULL, 1025, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "1025 bytes are more than a block has, 1024");
    expect_equal(crmm_last_error()->requested_bytes, 1025);
    expect_failure(crmm_allocate_sync(mr, 1025, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "1025 bytes are more than a block has, 1024");
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(mr, NULL, PTRDIFF_MAX, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_failure(crmm_allocate(mr, NULL, 1, 512, &ptr), CRMM_ERROR_UNSUPPORTED,
                   "alignment 512 is more than the 256 it gives");
    expect_status(crmm_allocate_sync(mr, 1, 512, &ptr), CRMM_ERROR_UNSUPPORTED);
    expect_status(crmm_allocate(mr, NULL, 1, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_allocate(mr, NULL, 0, 0, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    cr_assert(ptr == &ptr);
    expect_equal(mock.allocations, 1);
    /* A block for which upstream has no memory. */
    void *kept[2];
    expect_success(crmm_allocate_sync(mr, 1, 1, &kept[0]));
    expect_success(crmm_allocate_sync(mr, 1, 1, &kept[1]));
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate_sync(mr, 1, 1, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "fixed_size_memory_resource: no 1024 bytes");
    cr_assert(ptr == &ptr);
    crmm_deallocate_sync(mr, kept[0], 1, 1);
    expect_success(crmm_allocate_sync(mr, 1, 1, &kept[0]));
    crmm_deallocate_sync(mr, kept[0], 1, 1);
    crmm_deallocate_sync(mr, kept[1], 1, 1);
    crmm_resource_release(&mr);
}

Test(fixed_size_memory_resource, finds_misuse)
{
    char foreign[256];
    const size_t sizes[] = {1024, 4097, 64 * KIB, 2 * MIB};

    need_devices(1);
    misuse_recorder_start();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        crmm_resource *mr = make(crmm_cuda_memory_resource(), sizes[i], 4);
        size_t block = crmm_fixed_size_memory_resource_block_size(mr);
        char *ptr = NULL;

        expect_success(crmm_allocate(mr, NULL, 100, 256, (void **)&ptr));
        expect_misuse(crmm_deallocate(mr, NULL, ptr, block + 1, 256), CRMM_MISUSE_SIZE_MISMATCH,
                      "fixed_size_memory_resource");
        expect_misuse(crmm_deallocate_sync(mr, ptr, SIZE_MAX, 256), CRMM_MISUSE_SIZE_MISMATCH,
                      "is a block of");
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 100, 512), CRMM_MISUSE_SIZE_MISMATCH,
                      "alignment 512");
        expect_misuse(crmm_deallocate(mr, NULL, ptr + 256, 100, 256), CRMM_MISUSE_FOREIGN_POINTER,
                      "no block of this pool begins at");
        expect_misuse(crmm_deallocate(mr, NULL, foreign, 100, 256), CRMM_MISUSE_FOREIGN_POINTER,
                      "is not from this pool");
        expect_misuse(crmm_deallocate_ptr(mr, NULL, foreign), CRMM_MISUSE_FOREIGN_POINTER, "");
        expect_text(misuse_recorded()->resource_name, "fixed_size_memory_resource");
        expect_equal(info_of(mr).allocations, 1);
        crmm_deallocate(mr, NULL, ptr, 100, 256);
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 100, 256), CRMM_MISUSE_DOUBLE_FREE,
                      "was given back before");
        expect_equal(info_of(mr).allocations, 0);

        expect_success(crmm_allocate_sync(mr, 1, 256, (void **)&ptr));
        expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                      "fixed_size_memory_resource: released with");
    }
}

/* A chunk with a live block stays, the others go back. */
Test(fixed_size_memory_resource, a_leak_keeps_only_its_chunk)
{
    mock_resource mock;
    void *ptrs[3];

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&mock.base, 1024, 1);
    for (int i = 0; i < 3; i++) {
        expect_success(crmm_allocate_sync(mr, 1, 1, &ptrs[i]));
    }
    expect_equal(mock.live, 3);
    crmm_deallocate_sync(mr, ptrs[0], 1, 1);
    crmm_deallocate_sync(mr, ptrs[2], 1, 1);
    misuse_recorder_start();
    expect_misuse(
        crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
        "released with 1024 bytes alive; the memory that holds them, 1024 bytes, is lost");
    expect_equal(mock.live, 1);
    free(ptrs[1]); /* the chunk begins with its block */
}

/* ---- over what there is ---- */

Test(fixed_size_memory_resource, is_as_its_upstream)
{
    crmm_resource *upstreams[4] = {crmm_malloc_memory_resource(), crmm_cuda_memory_resource()};
    const char *wrong = NULL;

    need_devices(1);
    expect_success(crmm_vmm_memory_resource_create(NULL, &upstreams[2]));
    expect_success(
        crmm_pool_memory_resource_create(crmm_cuda_memory_resource(), NULL, &upstreams[3]));
    misuse_recorder_start();
    for (size_t i = 0; i < 4; i++) {
        crmm_resource *mr = make(upstreams[i], 5 * MIB, 20);
        void *ptr = NULL;
        expect_equal(crmm_resource_properties(mr), crmm_resource_properties(upstreams[i]));
        if (i == 0) {
            expect_status(crmm_allocate(mr, NULL, 1, 1, &ptr), CRMM_ERROR_PROPERTY);
            expect_success(crmm_allocate_sync(mr, 1, 1, &ptr));
            crmm_deallocate_sync(mr, ptr, 1, 1);
        } else {
            expect_success(crmm_allocate_sync(mr, 5 * MIB, 256, &ptr));
            device_fill(ptr, 3, 5 * MIB);
            cr_assert(device_has(ptr, 3, 5 * MIB));
            crmm_deallocate_sync(mr, ptr, 5 * MIB, 256);
            wrong = common_all(mr, 5 * MIB);
            cr_assert(wrong == NULL, "over %s: %s", crmm_resource_name(upstreams[i]), wrong);
        }
        expect_equal(info_of(mr).live, 0);
        crmm_resource_release(&upstreams[i]);
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
}

Test(fixed_size_memory_resource, serves_threads)
{
    need_devices(1);
    crmm_resource *mr = make(crmm_cuda_memory_resource(), MIB, 128);
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    const char *wrong = NULL;

    misuse_recorder_start();
    wrong = common_all_by_threads(mr, MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, NULL, NULL, MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, cudaStreamPerThread, cudaStreamPerThread, MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, streams[0], streams[0], MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    wrong = common_hand_over(mr, streams[0], streams[1], MIB);
    cr_assert(wrong == NULL, "%s", wrong);
    expect_equal(info_of(mr).live, 0);
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 0);
}
