/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/prefetch_resource_adaptor.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

enum { BYTES = 1 << 20 };

static crmm_resource *make(crmm_resource *upstream)
{
    crmm_resource *made = NULL;
    expect_success(crmm_prefetch_resource_adaptor_create(upstream, &made));
    return made;
}

static int last_location(const void *ptr, size_t bytes)
{
    int location = 99;
    cuda(cudaMemRangeGetAttribute(&location, sizeof(location),
                                  cudaMemRangeAttributeLastPrefetchLocation, ptr, bytes));
    return location;
}

Test(prefetch_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    crmm_resource *mr = make(&upstream.base);
    expect_text(crmm_resource_name(mr), "prefetch_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "prefetch_resource_adaptor (refused 0) over mock_resource");
    crmm_resource_release(&mr);
}

Test(prefetch_resource_adaptor, prefetches_what_it_allocates)
{
    int concurrent = 0;
    void *ptr = NULL;

    need_devices(1);
    cuda(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
    if (concurrent == 0) {
        cr_skip_test("needs concurrent managed access");
    }
    cudaStream_t stream = make_stream();
    crmm_resource *mr = make(crmm_managed_memory_resource());
    expect_success(crmm_allocate(mr, stream, BYTES, 256, &ptr));
    cuda(cudaStreamSynchronize(stream));
    expect_equal(last_location(ptr, BYTES), 0);
    crmm_deallocate(mr, stream, ptr, BYTES, 256);

    expect_success(crmm_allocate_sync(mr, BYTES, 256, &ptr)); /* done, not only queued */
    expect_equal(last_location(ptr, BYTES), 0);
    crmm_deallocate_sync(mr, ptr, BYTES, 256);

    expect_success(crmm_allocate(crmm_managed_memory_resource(), stream, BYTES, 256, &ptr));
    expect_equal(last_location(ptr, BYTES), cudaInvalidDeviceId);
    crmm_deallocate(crmm_managed_memory_resource(), stream, ptr, BYTES, 256);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

/* User report 83. */
Test(prefetch_resource_adaptor, is_harmless_over_other_memory)
{
    void *ptr = NULL;

    need_devices(1);
    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    crmm_resource *mr = make(crmm_cuda_memory_resource());
    expect_success(crmm_allocate(mr, stream, BYTES, 256, &ptr));
    device_fill(ptr, 3, BYTES);
    crmm_deallocate(mr, stream, ptr, BYTES, 256);
    expect_success(crmm_allocate_sync(mr, BYTES, 256, &ptr));
    crmm_deallocate_sync(mr, ptr, BYTES, 256);
    expect_equal(cudaPeekAtLastError(), cudaSuccess);
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS);
    expect_equal(misuse_recorded()->count, 0);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
}

Test(prefetch_resource_adaptor, leaves_host_memory_alone)
{
    crmm_resource *mr = make(crmm_malloc_memory_resource());
    void *ptr = &mr;

    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "prefetch_resource_adaptor is not stream-ordered");
    expect_success(crmm_allocate_sync(mr, 4096, 16, &ptr));
    memset(ptr, 1, 4096);
    crmm_deallocate_sync(mr, ptr, 4096, 16);
    crmm_resource_release(&mr);
}

Test(prefetch_resource_adaptor, passes_every_call_on)
{
    mock_resource upstream;
    bool destroyed = false;
    void *a = NULL;
    void *b = &upstream;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED);
    misuse_recorder_start();
    upstream.destroyed = &destroyed;
    crmm_resource *mr = make(&upstream.base);
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 100, 64, &a));
    cr_assert(upstream.last_allocate.stream == (crmm_stream)(uintptr_t)0x40);
    expect_equal(upstream.last_allocate.bytes, 100);
    expect_equal(upstream.last_allocate.alignment, 64);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x50, a, 100, 64);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    expect_success(crmm_allocate_sync(mr, 200, 32, &a));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate_sync(mr, a, 200, 32);
    cr_assert(upstream.last_deallocate.sync);
    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, NULL, 1, 1, &b), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 1, 1, &b), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(b == &upstream);
    expect_misuse(crmm_deallocate_ptr(mr, NULL, a), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    crmm_resource *own = &upstream.base;
    crmm_resource_release(&own);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

Test(prefetch_resource_adaptor, refuses_bad_arguments_of_create)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    expect_failure(crmm_prefetch_resource_adaptor_create(NULL, &mr), CRMM_ERROR_INVALID_ARGUMENT,
                   "prefetch_resource_adaptor: upstream is NULL");
    expect_failure(crmm_prefetch_resource_adaptor_create(&upstream.base, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    cr_assert(mr == NULL);
}
