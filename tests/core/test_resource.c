/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/resource.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static char anywhere; /* an address that no resource gave */

/* ---- identity ---- */

Test(resource, answers_about_itself)
{
    mock_resource mock;

    mock_resource_init(&mock, ALL);
    expect_equal(crmm_resource_properties(&mock.base), ALL);
    cr_assert(crmm_resource_has(&mock.base, CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED));
    expect_text(crmm_resource_name(&mock.base), "mock_resource");
    expect_equal(crmm_resource_device(&mock.base), -1);
    cr_assert(crmm_resource_upstream(&mock.base) == NULL);
    cr_assert(!crmm_resource_is_adaptor(&mock.base));
    crmm_resource_bind_device(&mock.base, 3);
    expect_equal(crmm_resource_device(&mock.base), 3);
    crmm_resource_bind_device(&mock.base, -1);
    expect_equal(crmm_resource_device(&mock.base), -1);
}

Test(resource, null_answers_too)
{
    char text[16];

    expect_equal(crmm_resource_properties(NULL), 0);
    cr_assert(!crmm_resource_has(NULL, 0));
    expect_text(crmm_resource_name(NULL), "(null)");
    expect_equal(crmm_resource_device(NULL), -1);
    cr_assert(crmm_resource_upstream(NULL) == NULL);
    cr_assert(!crmm_resource_is_adaptor(NULL));
    expect_equal(crmm_resource_describe(NULL, text, sizeof(text)), 6);
    expect_text(text, "(null)");
    cr_assert(crmm_resource_retain(NULL) == NULL);
}

Test(resource, has_needs_all_properties)
{
    mock_resource mock;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    cr_assert(crmm_resource_has(&mock.base, CRMM_HOST_ACCESSIBLE));
    cr_assert(!crmm_resource_has(&mock.base, CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE));
}

Test(resource, equality_is_identity_unless_the_class_says_more)
{
    mock_resource a;
    mock_resource b;

    mock_resource_init(&a, ALL);
    mock_resource_init(&b, ALL);
    cr_assert(crmm_resource_is_equal(&a.base, &a.base));
    cr_assert(!crmm_resource_is_equal(&a.base, &b.base));
    cr_assert(!crmm_resource_is_equal(&a.base, NULL));
    cr_assert(!crmm_resource_is_equal(NULL, &a.base));
    cr_assert(crmm_resource_is_equal(NULL, NULL));
}

/* ---- lifetime ---- */

Test(resource, last_release_destroys)
{
    mock_resource mock;
    bool destroyed = false;

    mock_resource_init(&mock, ALL);
    mock.destroyed = &destroyed;
    crmm_resource *first = &mock.base;
    crmm_resource *second = crmm_resource_retain(first);
    cr_assert(second == first);
    crmm_resource_release(&first);
    cr_assert(first == NULL);
    cr_assert(!destroyed);
    crmm_resource_release(&second);
    cr_assert(second == NULL);
    cr_assert(destroyed);
    crmm_resource_release(&second); /* NULL inside */
    crmm_resource_release(NULL);
}

Test(resource, incomplete_class_is_found_and_refused)
{
    static const crmm_resource_ops nothing = {.struct_size = sizeof(crmm_resource_ops)};
    static const crmm_resource_ops tiny = {.struct_size = 8};
    struct crmm_resource base;
    void *ptr = &anywhere;

    misuse_recorder_start();
    expect_misuse(crmm_resource_init(NULL, &nothing, "x", 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "resource is NULL");
    expect_misuse(crmm_resource_init(&base, NULL, "x", 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "ops is NULL");
    expect_misuse(crmm_resource_init(&base, &tiny, "x", 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "struct_size is too small");
    expect_misuse(crmm_resource_init(&base, &nothing, "lame", CRMM_STREAM_ORDERED),
                  CRMM_MISUSE_INVALID_ARGUMENT, "lame: ops lacks");
    expect_failure(crmm_allocate(&base, NULL, 8, 8, &ptr), CRMM_ERROR_INVALID_ARGUMENT,
                   "incomplete class");
    cr_assert(ptr == &anywhere);
    expect_misuse(crmm_deallocate(&base, NULL, ptr, 8, 8), CRMM_MISUSE_INVALID_ARGUMENT,
                  "incomplete");
}

static crmm_status only_sync(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    *ptr = &anywhere;
    return CRMM_SUCCESS;
}

static void ignore_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static void ignore_destroy(crmm_resource *resource)
{
    (void)resource;
}

Test(resource, stream_order_needs_its_slots)
{
    static const crmm_resource_ops sync_only = {
        .struct_size = sizeof(crmm_resource_ops),
        .allocate_sync = only_sync,
        .deallocate_sync = ignore_sync,
        .destroy = ignore_destroy,
    };
    struct crmm_resource base;
    void *ptr = NULL;

    misuse_recorder_start();
    expect_misuse(crmm_resource_init(&base, &sync_only, "x", CRMM_STREAM_ORDERED),
                  CRMM_MISUSE_INVALID_ARGUMENT, "CRMM_STREAM_ORDERED");
    crmm_resource_init(&base, &sync_only, "x", CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_allocate_sync(&base, 8, 8, &ptr));
    cr_assert(ptr == &anywhere);
}

Test(resource, a_table_of_an_older_header_is_not_read_past_its_end)
{
    /* The table ends before deallocate_ptr; what lies behind it must not be called. */
    struct {
        crmm_resource_ops ops;
    } older = {.ops = {.struct_size = offsetof(crmm_resource_ops, deallocate_ptr),
                       .allocate_sync = only_sync,
                       .deallocate_sync = ignore_sync,
                       .destroy = ignore_destroy}};
    struct crmm_resource base;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    size_t released = 9;

    memset((char *)&older.ops + older.ops.struct_size, 0xEE,
           sizeof(older.ops) - older.ops.struct_size);
    misuse_recorder_start();
    crmm_resource_init(&base, &older.ops, "older", CRMM_HOST_ACCESSIBLE);
    expect_misuse(crmm_deallocate_ptr(&base, NULL, &anywhere), CRMM_MISUSE_UNSUPPORTED, "older");
    cr_assert(crmm_resource_upstream(&base) == NULL);
    expect_success(crmm_resource_trim(&base, 0, &released));
    expect_equal(released, 0);
    expect_status(crmm_resource_info(&base, &info), CRMM_ERROR_UNSUPPORTED);
    expect_equal(crmm_resource_describe(&base, NULL, 0), 5);
}

/* ---- allocation ---- */

Test(resource, passes_requests_on_as_they_are)
{
    mock_resource mock;
    void *ptr = NULL;
    crmm_stream stream = (crmm_stream)(uintptr_t)0x1230;

    mock_resource_init(&mock, ALL);
    expect_success(crmm_allocate(&mock.base, stream, 1000, 64, &ptr));
    cr_assert(ptr == mock.last_allocate.ptr);
    expect_equal(mock.last_allocate.bytes, 1000);
    expect_equal(mock.last_allocate.alignment, 64);
    cr_assert(mock.last_allocate.stream == stream && !mock.last_allocate.sync);
    crmm_deallocate(&mock.base, stream, ptr, 1000, 64);
    cr_assert(mock.last_deallocate.ptr == ptr && mock.last_deallocate.stream == stream);
    expect_equal(mock.last_deallocate.bytes, 1000);
    expect_equal(mock.last_deallocate.alignment, 64);

    expect_success(crmm_allocate_sync(&mock.base, 7, 16, &ptr));
    cr_assert(mock.last_allocate.sync);
    crmm_deallocate_sync(&mock.base, ptr, 7, 16);
    cr_assert(mock.last_deallocate.sync);
    expect_equal(mock.live, 0);
}

/* What a request without its own NULL output must do, in the table's order of checks. */
static const struct {
    const char *what;
    bool no_resource, no_output;
    size_t bytes, alignment;
    crmm_status status;
    const char *message;
} refused[] = {
    {"NULL resource", true, false, 8, 8, CRMM_ERROR_INVALID_ARGUMENT, "resource is NULL"},
    {"NULL resource, 0 bytes", true, false, 0, 8, CRMM_ERROR_INVALID_ARGUMENT, "resource is NULL"},
    {"NULL output", false, true, 8, 8, CRMM_ERROR_INVALID_ARGUMENT, "ptr is NULL"},
    {"alignment 0", false, false, 8, 0, CRMM_ERROR_INVALID_ARGUMENT, "alignment 0 is not"},
    {"alignment 3", false, false, 8, 3, CRMM_ERROR_INVALID_ARGUMENT, "alignment 3 is not"},
    {"alignment 0, 0 bytes", false, false, 0, 0, CRMM_ERROR_INVALID_ARGUMENT, "alignment 0 is not"},
    {"alignment 12, huge", false, false, SIZE_MAX, 12, CRMM_ERROR_INVALID_ARGUMENT,
     "alignment 12 is not"},
    {"SIZE_MAX", false, false, SIZE_MAX, 8, CRMM_ERROR_OUT_OF_MEMORY,
     "18446744073709551615 bytes from mock_resource are more than can exist"},
    {"PTRDIFF_MAX + 1", false, false, (size_t)PTRDIFF_MAX + 1, 8, CRMM_ERROR_OUT_OF_MEMORY,
     "more than can exist"},
};

Test(resource, refuses_what_no_resource_may_be_asked)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        for (int sync = 0; sync < 2; sync++) {
            mock_resource mock;
            void *ptr = &anywhere;

            mock_resource_init(&mock, ALL);
            crmm_resource *resource = refused[i].no_resource ? NULL : &mock.base;
            void **out = refused[i].no_output ? NULL : &ptr;
            crmm_status status =
                sync != 0
                    ? crmm_allocate_sync(resource, refused[i].bytes, refused[i].alignment, out)
                    : crmm_allocate(resource, NULL, refused[i].bytes, refused[i].alignment, out);
            cr_assert(status == refused[i].status, "%s: %s", refused[i].what,
                      crmm_status_name(status));
            expect_message(refused[i].message);
            expect_message(sync != 0 ? "crmm_allocate_sync" : "crmm_allocate");
            cr_assert(ptr == &anywhere, "%s: output written", refused[i].what);
            expect_equal(mock.allocations, 0); /* nobody was asked */
        }
    }
    expect_equal(crmm_last_error()->requested_bytes, (size_t)PTRDIFF_MAX + 1);
}

Test(resource, zero_bytes_succeed_with_null_and_ask_nobody)
{
    mock_resource mock;
    void *ptr = &anywhere;

    mock_resource_init(&mock, ALL);
    expect_success(crmm_allocate(&mock.base, NULL, 0, 8, &ptr));
    cr_assert(ptr == NULL);
    ptr = &anywhere;
    expect_success(crmm_allocate_sync(&mock.base, 0, 4096, &ptr));
    cr_assert(ptr == NULL);
    misuse_recorder_start();
    crmm_deallocate(&mock.base, NULL, NULL, 0, 8);
    crmm_deallocate_sync(&mock.base, NULL, 0, 8);
    crmm_deallocate_ptr(&mock.base, NULL, NULL);
    crmm_deallocate(NULL, NULL, NULL, 5, 3);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(mock.allocations + mock.deallocations, 0);
}

Test(resource, sync_only_resources_refuse_streams)
{
    mock_resource mock;
    void *ptr = &anywhere;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    expect_failure(crmm_allocate(&mock.base, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "crmm_allocate: mock_resource is not stream-ordered");
    cr_assert(ptr == &anywhere);
    expect_equal(mock.allocations, 0);
    expect_success(crmm_allocate(&mock.base, NULL, 0, 8, &ptr)); /* 0 bytes always succeed */
    expect_success(crmm_allocate_sync(&mock.base, 8, 8, &ptr));
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(&mock.base, NULL, ptr, 8, 8), CRMM_MISUSE_PROPERTY,
                  "not stream-ordered");
    expect_equal(mock.live, 1); /* the block is left alone */
    crmm_deallocate_sync(&mock.base, ptr, 8, 8);
    expect_equal(mock.live, 0);
}

Test(resource, failures_pass_through_and_leave_the_output)
{
    mock_resource mock;
    void *ptr = &anywhere;

    mock_resource_init(&mock, ALL);
    mock.fail_with = CRMM_ERROR_LIMIT_EXCEEDED;
    expect_failure(crmm_allocate(&mock.base, NULL, 8, 8, &ptr), CRMM_ERROR_LIMIT_EXCEEDED,
                   "the mock was told to fail");
    expect_equal(crmm_last_error()->native_code, 42);
    expect_status(crmm_allocate_sync(&mock.base, 8, 8, &ptr), CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(ptr == &anywhere);
}

Test(resource, success_with_null_is_a_failure)
{
    mock_resource mock;
    void *ptr = &anywhere;

    mock_resource_init(&mock, ALL);
    mock.give_null = true;
    expect_failure(crmm_allocate(&mock.base, NULL, 8, 8, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "mock_resource gave NULL for 8 bytes");
    expect_equal(crmm_last_error()->requested_bytes, 8);
    expect_status(crmm_allocate_sync(&mock.base, 8, 8, &ptr), CRMM_ERROR_BAD_ALLOC);
    cr_assert(ptr == &anywhere);
}

Test(resource, bad_deallocations_are_reported_and_leave_the_block)
{
    mock_resource mock;
    void *ptr = NULL;

    mock_resource_init(&mock, ALL);
    expect_success(crmm_allocate(&mock.base, NULL, 64, 8, &ptr));
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(NULL, NULL, ptr, 64, 8), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_deallocate: resource is NULL");
    expect_misuse(crmm_deallocate(&mock.base, NULL, ptr, 0, 8), CRMM_MISUSE_INVALID_ARGUMENT,
                  "with 0 bytes");
    expect_misuse(crmm_deallocate(&mock.base, NULL, ptr, 64, 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "alignment 0");
    expect_misuse(crmm_deallocate(&mock.base, NULL, ptr, 64, 24), CRMM_MISUSE_INVALID_ARGUMENT,
                  "alignment 24");
    expect_misuse(crmm_deallocate_sync(NULL, ptr, 64, 8), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_deallocate_sync: resource is NULL");
    expect_misuse(crmm_deallocate_sync(&mock.base, ptr, 0, 8), CRMM_MISUSE_INVALID_ARGUMENT,
                  "with 0 bytes");
    expect_misuse(crmm_deallocate_ptr(NULL, NULL, ptr), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_deallocate_ptr: resource is NULL");
    expect_misuse(crmm_deallocate_ptr(&mock.base, NULL, ptr), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    cr_assert(misuse_recorded()->latest.ptr == ptr);
    expect_equal(mock.live, 1);
    crmm_deallocate(&mock.base, NULL, ptr, 64, 8);
    expect_equal(misuse_recorded()->count, 8);
}

/* ---- description and figures ---- */

Test(resource, describes_like_snprintf)
{
    mock_resource mock;
    char text[32] = "untouched";

    mock_resource_init(&mock, ALL);
    expect_equal(crmm_resource_describe(&mock.base, NULL, 0), strlen("mock_resource"));
    expect_equal(crmm_resource_describe(&mock.base, text, 5), strlen("mock_resource"));
    expect_text(text, "mock");
    expect_equal(crmm_resource_describe(&mock.base, text, sizeof(text)), strlen("mock_resource"));
    expect_text(text, "mock_resource");
    text[0] = 'x';
    (void)crmm_resource_describe(&mock.base, text, 0);
    expect_equal(text[0], 'x');
}

static crmm_status check_size(const crmm_resource *resource, crmm_memory_info *info)
{
    (void)resource;
    cr_assert(info->struct_size == sizeof(crmm_memory_info), "it is %zu", info->struct_size);
    info->live = 42;
    return CRMM_SUCCESS;
}

Test(resource, an_implementer_is_told_how_far_to_fill_figures)
{
    static const crmm_resource_ops with_info = {
        .struct_size = sizeof(crmm_resource_ops),
        .allocate_sync = only_sync,
        .deallocate_sync = ignore_sync,
        .destroy = ignore_destroy,
        .info = check_size,
    };
    struct crmm_resource base;
    crmm_memory_info info = {.struct_size = 2 * sizeof(size_t), .held = 7};

    crmm_resource_init(&base, &with_info, "x", CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_resource_info(&base, &info));
    expect_equal(info.struct_size, 2 * sizeof(size_t));
    expect_equal(info.live, 42);
    expect_equal(info.held, 7);
}

Test(resource, trim_and_info_of_a_resource_without_them)
{
    mock_resource mock;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    size_t released = 1;

    mock_resource_init(&mock, ALL);
    expect_success(crmm_resource_trim(&mock.base, 0, &released));
    expect_equal(released, 0);
    expect_success(crmm_resource_trim(&mock.base, 0, NULL));
    expect_failure(crmm_resource_trim(NULL, 0, &released), CRMM_ERROR_INVALID_ARGUMENT,
                   "resource is NULL");
    expect_failure(crmm_resource_info(&mock.base, &info), CRMM_ERROR_UNSUPPORTED,
                   "mock_resource keeps no figures");
    expect_failure(crmm_resource_info(NULL, &info), CRMM_ERROR_INVALID_ARGUMENT,
                   "resource is NULL");
    expect_failure(crmm_resource_info(&mock.base, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "info is NULL");
    info.struct_size = 0;
    expect_failure(crmm_resource_info(&mock.base, &info), CRMM_ERROR_INVALID_ARGUMENT,
                   "struct_size is 0");
}
