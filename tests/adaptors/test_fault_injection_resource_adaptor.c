/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/fault_injection_resource_adaptor.h>

#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

/* An adaptor with some rules over a new mock. */
#define make(upstream, ...) \
    make_with((upstream), CRMM_OPTIONS(crmm_fault_injection_resource_adaptor, __VA_ARGS__))

static crmm_resource *make_with(mock_resource *upstream,
                                const crmm_fault_injection_resource_adaptor_options *options)
{
    crmm_resource *made = NULL;
    mock_resource_init(upstream, ALL);
    expect_success(crmm_fault_injection_resource_adaptor_create(&upstream->base, options, &made));
    return made;
}

/* Make a call, every other one sync, and give the memory back; how it went. */
static crmm_status call(crmm_resource *mr, size_t bytes)
{
    static bool sync;
    void *ptr = &sync;

    sync = !sync;
    crmm_status status =
        sync ? crmm_allocate_sync(mr, bytes, 16, &ptr) : crmm_allocate(mr, NULL, bytes, 16, &ptr);
    cr_assert((status != CRMM_SUCCESS) == (ptr == &sync));
    if (status != CRMM_SUCCESS) {
        expect_equal(crmm_last_error()->status, status);
        expect_equal(crmm_last_error()->requested_bytes, bytes);
    } else if (sync) {
        crmm_deallocate_sync(mr, ptr, bytes, 16);
    } else {
        crmm_deallocate(mr, NULL, ptr, bytes, 16);
    }
    return status;
}

/* The calls 1 to `count`, a letter each: '.' for those that succeed. */
static const char *pattern(crmm_resource *mr, size_t count)
{
    static char text[2001];

    cr_assert(count < sizeof(text));
    for (size_t i = 0; i < count; i++) {
        text[i] = call(mr, 100) == CRMM_SUCCESS ? '.' : 'x';
    }
    text[count] = '\0';
    return text;
}

Test(fault_injection_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_fault_injection_resource_adaptor_create(&upstream.base, NULL, &mr));
    expect_text(crmm_resource_name(mr), "fault_injection_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "fault_injection_resource_adaptor (calls 0, failures 0) over mock_resource");
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, without_rules_nothing_fails)
{
    mock_resource upstream;
    crmm_resource *mr = make_with(&upstream, NULL);

    expect_text(pattern(mr, 20), "....................");
    expect_equal(crmm_fault_injection_resource_adaptor_calls(mr), 20);
    expect_equal(crmm_fault_injection_resource_adaptor_failures(mr), 0);
    crmm_resource_release(&mr);
}

/* User report 60: a failure of just the call that a test is about. */
Test(fault_injection_resource_adaptor, fails_call_k)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, .fail_call = 3);
    void *ptr = &mr;

    expect_equal(call(mr, 10), CRMM_SUCCESS);
    expect_equal(call(mr, 10), CRMM_SUCCESS);
    expect_success(crmm_allocate(mr, NULL, 0, 16, &ptr)); /* not a call that comes here */
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_failure(crmm_allocate(mr, NULL, 10, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "fault_injection_resource_adaptor: call 3, of 10 bytes, was chosen to fail");
    expect_equal(upstream.allocations, 2); /* upstream was not asked */
    expect_text(pattern(mr, 5), ".....");
    expect_equal(crmm_fault_injection_resource_adaptor_calls(mr), 8);
    expect_equal(crmm_fault_injection_resource_adaptor_failures(mr), 1);
    crmm_resource_release(&mr);

    mr = make(&upstream, .fail_call = 3, .fail_call_count = 4);
    expect_text(pattern(mr, 10), "..xxxx....");
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_call = 3, .fail_call_count = UINT64_MAX);
    expect_text(pattern(mr, 10), "..xxxxxxxx");
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_call = UINT64_MAX, .fail_call_count = UINT64_MAX);
    expect_text(pattern(mr, 10), "..........");
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, fails_every_nth)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, .fail_every = 3);

    expect_text(pattern(mr, 10), "..x..x..x.");
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_every = 1);
    expect_text(pattern(mr, 4), "xxxx");
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_every = 3, .fail_call = 1);
    expect_text(pattern(mr, 6), "x.x..x"); /* rules add up */
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, fails_what_is_large)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, .fail_above = 4096, .status = CRMM_ERROR_LIMIT_EXCEEDED);

    expect_equal(call(mr, 4096), CRMM_SUCCESS);
    expect_equal(call(mr, 4097), CRMM_ERROR_LIMIT_EXCEEDED);
    expect_equal(call(mr, 1), CRMM_SUCCESS);
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, fails_a_share_that_a_seed_chooses)
{
    enum { CALLS = 2000 };
    mock_resource upstream;
    char first[CALLS + 1];

    crmm_resource *mr = make(&upstream, .fail_per_million = 250000, .seed = 7);
    (void)strcpy(first, pattern(mr, CALLS));
    uint64_t failures = crmm_fault_injection_resource_adaptor_failures(mr);
    cr_assert(failures > 425 && failures < 575, "%llu", (unsigned long long)failures);
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_per_million = 250000, .seed = 7);
    expect_text(pattern(mr, CALLS), first);
    crmm_resource_release(&mr);
    mr = make(&upstream, .fail_per_million = 250000, .seed = 8);
    cr_assert(strcmp(pattern(mr, CALLS), first) != 0);
    crmm_resource_release(&mr);

    mr = make(&upstream, .fail_per_million = 1000000);
    (void)pattern(mr, CALLS);
    expect_equal(crmm_fault_injection_resource_adaptor_failures(mr), CALLS);
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, fails_with_any_status)
{
    mock_resource upstream;

    for (uint64_t status = 1; status <= CRMM_ERROR_IO; status++) {
        crmm_resource *mr = make(&upstream, .fail_call = 1, .status = status);
        expect_equal(call(mr, 10), status);
        expect_equal(call(mr, 10), CRMM_SUCCESS);
        crmm_resource_release(&mr);
    }
}

Test(fault_injection_resource_adaptor, never_fails_to_give_back)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, .fail_call = 3, .fail_call_count = UINT64_MAX);
    void *a = NULL;
    void *b = NULL;

    misuse_recorder_start();
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 10, 16, &a));
    expect_success(crmm_allocate_sync(mr, 20, 32, &b));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x40, a, 10, 16);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x40);
    expect_equal(upstream.last_deallocate.bytes, 10);
    crmm_deallocate_sync(mr, b, 20, 32);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(upstream.last_deallocate.alignment, 32);
    expect_equal(upstream.live, 0);
    expect_misuse(crmm_deallocate_ptr(mr, NULL, &a), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, upstream_failures_are_passed_on)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream, .fail_call = 100);
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_BAD_ALLOC;
    expect_failure(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    expect_equal(crmm_fault_injection_resource_adaptor_failures(mr), 0);
    cr_assert(ptr == &mr);
    crmm_resource_release(&mr);
}

Test(fault_injection_resource_adaptor, refuses_bad_arguments)
{
    mock_resource other;
    crmm_resource *mr = NULL;
    crmm_fault_injection_resource_adaptor_options options;

    mock_resource_init(&other, ALL);
    misuse_recorder_start();
    expect_failure(crmm_fault_injection_resource_adaptor_create(NULL, NULL, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "fault_injection_resource_adaptor: upstream is NULL");
    expect_failure(crmm_fault_injection_resource_adaptor_create(&other.base, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    crmm_fault_injection_resource_adaptor_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.status = CRMM_ERROR_IO + 1;
    expect_failure(crmm_fault_injection_resource_adaptor_create(&other.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "status is 12, which is no crmm_status");
    options.status = 0;
    options.fail_per_million = 1000001;
    expect_failure(crmm_fault_injection_resource_adaptor_create(&other.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "fail_per_million is 1000001, more than a million");
    options.fail_per_million = 0;
    options.fail_call_count = 2;
    expect_failure(crmm_fault_injection_resource_adaptor_create(&other.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "fail_call_count is 2 without a fail_call");
    options.struct_size = 1;
    expect_failure(crmm_fault_injection_resource_adaptor_create(&other.base, &options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 1");
    cr_assert(mr == NULL);
    expect_misuse(expect_equal(crmm_fault_injection_resource_adaptor_calls(&other.base), 0),
                  CRMM_MISUSE_WRONG_CLASS,
                  "crmm_fault_injection_resource_adaptor_calls: resource is mock_resource");
    expect_misuse(expect_equal(crmm_fault_injection_resource_adaptor_failures(NULL), 0),
                  CRMM_MISUSE_WRONG_CLASS, "resource is (null)");
}
