/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/limiting_resource_adaptor.h>

#include <stdint.h>

#include <crmm/device/cuda_async_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make(mock_resource *upstream, size_t limit)
{
    crmm_resource *made = NULL;
    mock_resource_init(upstream, ALL);
    expect_success(crmm_limiting_resource_adaptor_create(&upstream->base, limit, NULL, &made));
    return made;
}

Test(limiting_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_limiting_resource_adaptor_create(&upstream.base, 1000, NULL, &mr));
    expect_text(crmm_resource_name(mr), "limiting_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_is_adaptor(mr));
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    expect_equal(crmm_limiting_resource_adaptor_allocation_limit(mr), 1000);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "limiting_resource_adaptor (limit 1000, allocated 0) over mock_resource");
    expect_equal(crmm_resource_describe(mr, text, 30), 70);
    expect_text(text, "limiting_resource_adaptor (li");
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, holds_its_upstream)
{
    mock_resource upstream;
    bool destroyed = false;
    crmm_resource *mr = make(&upstream, 1000);
    crmm_resource *own = &upstream.base;

    upstream.destroyed = &destroyed;
    crmm_resource_release(&own);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

Test(limiting_resource_adaptor, refuses_what_would_exceed_the_limit)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, 1024);
    void *a = NULL;
    void *b = NULL;
    void *c = &mr;

    expect_success(crmm_allocate(mr, NULL, 512, 16, &a));
    expect_success(crmm_allocate_sync(mr, 512, 32, &b)); /* the limit exactly */
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 1024);
    expect_failure(crmm_allocate(mr, NULL, 1, 16, &c), CRMM_ERROR_LIMIT_EXCEEDED,
                   "limiting_resource_adaptor: 1 bytes more than the 1024 allocated would exceed "
                   "the limit of 1024");
    expect_equal(crmm_last_error()->requested_bytes, 1);
    expect_equal(crmm_last_error()->live_bytes, 1024);
    expect_status(crmm_allocate_sync(mr, 1, 16, &c), CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(c == &mr);
    expect_equal(upstream.allocations, 2); /* upstream was not asked */
    expect_success(crmm_allocate(mr, NULL, 0, 16, &c));
    crmm_deallocate(mr, NULL, a, 512, 16);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 512);
    crmm_deallocate_sync(mr, b, 512, 32);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, counts_multiples_of_its_alignment_and_asks_for_the_bytes)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    void *a = NULL;

    mock_resource_init(&upstream, ALL);
    expect_success(crmm_limiting_resource_adaptor_create(
        &upstream.base, 1 << 20, CRMM_OPTIONS(crmm_limiting_resource_adaptor, .alignment = 4096),
        &mr));
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 5000, 64, &a));
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 8192);
    expect_equal(upstream.last_allocate.bytes, 5000);
    expect_equal(upstream.last_allocate.alignment, 64);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x50, a, 5000, 64);
    expect_equal(upstream.last_deallocate.bytes, 5000);
    expect_equal(upstream.last_deallocate.alignment, 64);
    cr_assert(upstream.last_allocate.stream == (crmm_stream)(uintptr_t)0x40);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, the_default_alignment_is_the_devices)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, SIZE_MAX);
    void *a = NULL;

    expect_success(crmm_allocate(mr, NULL, 1, 16, &a));
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 256);
    crmm_deallocate(mr, NULL, a, 1, 16);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, huge_sizes_do_not_wrap)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, 1 << 20);
    void *ptr = &mr;

    for (size_t less = 0; less < 600; less += 7) {
        crmm_status status = crmm_allocate(mr, NULL, SIZE_MAX - less, 16, &ptr);
        expect_equal(status, CRMM_ERROR_OUT_OF_MEMORY);
        status = crmm_allocate(mr, NULL, (size_t)PTRDIFF_MAX - less, 16, &ptr);
        expect_equal(status, CRMM_ERROR_LIMIT_EXCEEDED);
    }
    expect_equal(upstream.allocations, 0);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    cr_assert(ptr == &mr);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, no_limit_refuses_only_what_cannot_exist)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, SIZE_MAX);
    void *ptr = &mr;

    expect_equal(crmm_limiting_resource_adaptor_allocation_limit(mr), SIZE_MAX);
    expect_failure(crmm_allocate(mr, NULL, PTRDIFF_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "9223372036854775807 bytes are more than can exist");
    upstream.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_status(crmm_allocate(mr, NULL, PTRDIFF_MAX - 255, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_equal(upstream.allocations, 1);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    cr_assert(ptr == &mr);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, gives_the_charge_back_when_upstream_fails)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, 1024);
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_failure(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    cr_assert(ptr == &mr);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, refuses_bad_arguments_of_create)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    crmm_limiting_resource_adaptor_options options;

    mock_resource_init(&upstream, ALL);
    expect_failure(crmm_limiting_resource_adaptor_create(NULL, 1, NULL, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "limiting_resource_adaptor: upstream is NULL");
    expect_failure(crmm_limiting_resource_adaptor_create(&upstream.base, 1, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    crmm_limiting_resource_adaptor_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    expect_equal(options.alignment, 0);
    options.alignment = 3;
    expect_failure(crmm_limiting_resource_adaptor_create(&upstream.base, 1, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->alignment 3 is not a power of two");
    options.struct_size = 3;
    expect_failure(crmm_limiting_resource_adaptor_create(&upstream.base, 1, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 3");
    cr_assert(mr == NULL);
}

Test(limiting_resource_adaptor, its_functions_refuse_other_classes)
{
    mock_resource other;

    mock_resource_init(&other, ALL);
    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(&other.base), 0),
                  CRMM_MISUSE_WRONG_CLASS,
                  "crmm_limiting_resource_adaptor_allocated_bytes: resource is mock_resource");
    expect_misuse(expect_equal(crmm_limiting_resource_adaptor_allocation_limit(NULL), 0),
                  CRMM_MISUSE_WRONG_CLASS, "resource is (null)");
}

Test(limiting_resource_adaptor, reports_leaks_and_blocks_it_cannot_have_given)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, 1 << 20);
    void *ptr = NULL;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, NULL, 512, 16, &ptr));
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 1024, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "given back with 1024 bytes, but only 512 are allocated");
    expect_equal(upstream.live, 1); /* left alone */
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK, "released with 512 bytes");
    cr_assert(mr == NULL);
    crmm_deallocate(&upstream.base, NULL, ptr, 512, 16);
}

/* A block counts for its size, which it keeps for none. */
Test(limiting_resource_adaptor, refuses_frees_by_address_alone)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, 1 << 20);
    void *ptr = NULL;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, NULL, 512, 16, &ptr));
    expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_UNSUPPORTED,
                  "limiting_resource_adaptor keeps no sizes");
    expect_equal(upstream.live, 1); /* left alone */
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 512);
    crmm_deallocate(mr, NULL, ptr, 512, 16);
    crmm_resource_release(&mr);
}

Test(limiting_resource_adaptor, over_a_sync_only_resource_is_sync_only)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    void *ptr = &mr;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_limiting_resource_adaptor_create(&upstream.base, 4096, NULL, &mr));
    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "limiting_resource_adaptor is not stream-ordered");
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    crmm_resource_release(&mr);
}

/* User report 62: a driver's pool has no cap of its own; the limit holds while the device has room.
 */
Test(limiting_resource_adaptor, limits_a_pool_of_the_driver)
{
    enum { MIB = 1 << 20, BLOCKS = 16 };
    crmm_resource *pool = NULL;
    crmm_resource *mr = NULL;
    void *blocks[BLOCKS] = {NULL};
    void *refused = &mr;
    size_t room = 0;
    size_t total = 0;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &pool));
    expect_success(crmm_limiting_resource_adaptor_create(pool, (size_t)BLOCKS * MIB, NULL, &mr));
    for (int i = 0; i < BLOCKS; i++) {
        expect_success(crmm_allocate(mr, stream, MIB, 256, &blocks[i]));
    }
    expect_status(crmm_allocate(mr, stream, MIB, 256, &refused), CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(refused == &mr);
    cuda(cudaMemGetInfo(&room, &total));
    cr_assert(room > MIB);
    for (int i = 0; i < BLOCKS; i++) {
        crmm_deallocate(mr, stream, blocks[i], MIB, 256);
    }
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(mr), 0);
    cuda(cudaStreamSynchronize(stream));
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&mr);
    crmm_resource_release(&pool);
}
