/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread sees; program_thread_safe_threads.c has the threads. */
#include <crmm/adaptors/thread_safe_resource_adaptor.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make(mock_resource *upstream)
{
    crmm_resource *made = NULL;
    mock_resource_init(upstream, ALL);
    expect_success(crmm_thread_safe_resource_adaptor_create(&upstream->base, &made));
    return made;
}

Test(thread_safe_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;
    crmm_resource *second = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_thread_safe_resource_adaptor_create(&upstream.base, &mr));
    expect_text(crmm_resource_name(mr), "thread_safe_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "thread_safe_resource_adaptor over mock_resource");
    expect_equal(crmm_resource_describe(mr, NULL, 0), strlen(text));
    expect_equal(crmm_resource_describe(mr, text, 7), 47);
    expect_text(text, "thread");
    expect_success(crmm_thread_safe_resource_adaptor_create(&upstream.base, &second));
    cr_assert(crmm_resource_is_equal(mr, mr));
    cr_assert(!crmm_resource_is_equal(mr, second));
    crmm_resource_release(&mr);
    crmm_resource_release(&second);
}

Test(thread_safe_resource_adaptor, passes_every_call_on)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = NULL;
    void *b = &mr;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 100, 64, &a));
    cr_assert(!upstream.last_allocate.sync);
    cr_assert(upstream.last_allocate.stream == (crmm_stream)(uintptr_t)0x40);
    expect_equal(upstream.last_allocate.bytes, 100);
    expect_equal(upstream.last_allocate.alignment, 64);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x50, a, 100, 64);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    expect_success(crmm_allocate_sync(mr, 200, 32, &a));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate_sync(mr, a, 200, 32);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(upstream.live, 0);
    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, NULL, 1, 1, &b), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 1, 1, &b), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(b == &mr);
    expect_misuse(crmm_deallocate_ptr(mr, NULL, a), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    crmm_resource_release(&mr);
}

Test(thread_safe_resource_adaptor, passes_figures_and_trimming_on)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_resource *mr = NULL;
    size_t released = 77;
    void *ptr = NULL;

    expect_success(crmm_thread_safe_resource_adaptor_create(crmm_malloc_memory_resource(), &mr));
    expect_success(crmm_allocate_sync(mr, 1000, 16, &ptr));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.struct_size, sizeof(info));
    expect_equal(info.live, 1000);
    expect_equal(info.allocations, 1);
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_equal(released, 0);
    crmm_deallocate_sync(mr, ptr, 1000, 16);
    crmm_resource_release(&mr);

    mock_resource upstream;
    mr = make(&upstream);
    expect_failure(crmm_resource_info(mr, &info), CRMM_ERROR_UNSUPPORTED,
                   "mock_resource keeps no figures");
    crmm_resource_release(&mr);
}

Test(thread_safe_resource_adaptor, holds_its_upstream)
{
    mock_resource upstream;
    bool destroyed = false;
    crmm_resource *mr = make(&upstream);
    crmm_resource *own = &upstream.base;

    upstream.destroyed = &destroyed;
    crmm_resource_release(&own);
    cr_assert(!destroyed);
    crmm_resource_release(&mr);
    cr_assert(destroyed);
}

static crmm_resource *from_the_handler;

static void use_the_adaptor(const crmm_misuse *misuse, void *user_data)
{
    size_t *calls = user_data;
    void *ptr = NULL;

    (void)misuse;
    (*calls)++;
    expect_success(crmm_allocate_sync(from_the_handler, 10, 8, &ptr));
    crmm_deallocate_sync(from_the_handler, ptr, 10, 8);
}

/* A handler may call the library, and this adaptor's lock is held then. */
Test(thread_safe_resource_adaptor, may_be_used_from_within)
{
    mock_resource upstream;
    size_t calls = 0;

    from_the_handler = make(&upstream);
    crmm_set_misuse_handler(use_the_adaptor, &calls);
    crmm_deallocate_ptr(from_the_handler, NULL, &calls);
    crmm_set_misuse_handler(NULL, NULL);
    expect_equal(calls, 1);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&from_the_handler);
}

Test(thread_safe_resource_adaptor, refuses_bad_arguments_of_create)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, ALL);
    expect_failure(crmm_thread_safe_resource_adaptor_create(NULL, &mr), CRMM_ERROR_INVALID_ARGUMENT,
                   "thread_safe_resource_adaptor: upstream is NULL");
    expect_failure(crmm_thread_safe_resource_adaptor_create(&upstream.base, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    cr_assert(mr == NULL);
}
