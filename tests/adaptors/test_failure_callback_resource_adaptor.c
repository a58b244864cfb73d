/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/failure_callback_resource_adaptor.h>

#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

/* A callback that records what it is told and does as it is. */
typedef struct listener {
    mock_resource upstream;
    crmm_resource *mr;
    size_t calls;
    crmm_failure last;
    char message[256];
    size_t give_up_after;  /* calls that say "again" */
    size_t mend_after;     /* calls after which upstream works; 0: never */
    crmm_resource *also;   /* not NULL: allocate 1 byte from it, each time */
    crmm_status also_gave; /* with this result */
    bool destroyed;
    size_t live_when_destroyed;
    void *to_free; /* given back to upstream by destroy */
} listener;

static bool on_failure(const crmm_failure *failure, void *user_data)
{
    listener *to = user_data;
    void *ptr = NULL;

    to->calls++;
    to->last = *failure;
    (void)strcpy(to->message, crmm_last_error()->message);
    if (to->also != NULL) {
        to->also_gave = crmm_allocate_sync(to->also, 1, 1, &ptr);
        if (to->also_gave == CRMM_SUCCESS) {
            crmm_deallocate_sync(to->also, ptr, 1, 1);
        }
    }
    if (to->calls == to->mend_after) {
        to->upstream.fail_with = CRMM_SUCCESS;
    }
    return to->calls <= to->give_up_after;
}

static void on_destroy(void *user_data)
{
    listener *to = user_data;

    to->destroyed = true;
    if (to->to_free != NULL) {
        crmm_deallocate_sync(&to->upstream.base, to->to_free, 8, 8);
    }
    to->live_when_destroyed = to->upstream.live;
}

static void start(listener *to, crmm_status fail_with)
{
    *to = (listener){.give_up_after = SIZE_MAX};
    mock_resource_init(&to->upstream, ALL);
    to->upstream.fail_with = fail_with;
    expect_success(crmm_failure_callback_resource_adaptor_create(&to->upstream.base, on_failure, to,
                                                                 on_destroy, &to->mr));
}

Test(failure_callback_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(
        crmm_failure_callback_resource_adaptor_create(&upstream.base, on_failure, NULL, NULL, &mr));
    expect_text(crmm_resource_name(mr), "failure_callback_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "failure_callback_resource_adaptor over mock_resource");
    crmm_resource_release(&mr);
}

/* User report 59: the callback can tell the first try from the tenth, and what failed how. */
Test(failure_callback_resource_adaptor, tells_what_failed_and_how_often)
{
    crmm_stream stream = (crmm_stream)(uintptr_t)0x40;
    listener to;
    void *ptr = NULL;

    start(&to, CRMM_ERROR_OUT_OF_MEMORY);
    to.mend_after = 3;
    expect_success(crmm_allocate(to.mr, stream, 100, 64, &ptr));
    expect_equal(to.calls, 3);
    expect_equal(to.upstream.allocations, 4);
    expect_equal(to.last.struct_size, sizeof(crmm_failure));
    expect_equal(to.last.bytes, 100);
    expect_equal(to.last.alignment, 64);
    cr_assert(to.last.stream == stream);
    expect_equal(to.last.status, CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(to.last.attempt, 3);
    expect_text(to.message, "the mock was told to fail");
    crmm_deallocate(to.mr, stream, ptr, 100, 64);
    expect_equal(to.upstream.live, 0);

    /* The next allocation begins at 1. */
    to.upstream.fail_with = CRMM_ERROR_LIMIT_EXCEEDED;
    to.mend_after = 4;
    expect_success(crmm_allocate_sync(to.mr, 7, 8, &ptr));
    cr_assert(to.upstream.last_allocate.sync);
    expect_equal(to.last.attempt, 1);
    expect_equal(to.last.status, CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(to.last.stream == NULL);
    crmm_deallocate_sync(to.mr, ptr, 7, 8);
    cr_assert(to.upstream.last_deallocate.sync);
    crmm_resource_release(&to.mr);
}

Test(failure_callback_resource_adaptor, gives_up_when_the_callback_does)
{
    listener to;
    void *ptr = &to;

    start(&to, CRMM_ERROR_BAD_ALLOC);
    to.give_up_after = 1; /* one retry, as in RMM's test */
    expect_failure(crmm_allocate(to.mr, NULL, 100, 64, &ptr), CRMM_ERROR_BAD_ALLOC,
                   "the mock was told to fail");
    expect_equal(to.calls, 2);
    expect_equal(to.last.attempt, 2);
    expect_equal(to.upstream.allocations, 2);
    cr_assert(ptr == &to);
    crmm_resource_release(&to.mr);
}

/* User report 59, the other half: other failures are none of the callback's. */
Test(failure_callback_resource_adaptor, is_called_for_allocation_failures_only)
{
    listener to;
    void *ptr = &to;

    start(&to, CRMM_SUCCESS);
    to.give_up_after = 0;
    for (int status = CRMM_ERROR_INVALID_ARGUMENT; status <= CRMM_ERROR_IO; status++) {
        bool counts = status == CRMM_ERROR_BAD_ALLOC || status == CRMM_ERROR_OUT_OF_MEMORY ||
                      status == CRMM_ERROR_LIMIT_EXCEEDED;
        to.calls = 0;
        to.upstream.fail_with = (crmm_status)status;
        expect_status(crmm_allocate(to.mr, NULL, 10, 8, &ptr), (crmm_status)status);
        expect_equal(to.calls, counts ? 1 : 0);
        expect_status(crmm_allocate_sync(to.mr, 10, 8, &ptr), (crmm_status)status);
        expect_equal(to.calls, counts ? 2 : 0);
    }
    to.calls = 0;
    to.upstream.fail_with = CRMM_SUCCESS;
    to.upstream.give_null = true; /* which is CRMM_ERROR_BAD_ALLOC */
    expect_status(crmm_allocate(to.mr, NULL, 10, 8, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_equal(to.calls, 1);
    to.calls = 0;
    expect_status(crmm_allocate(to.mr, NULL, SIZE_MAX, 8, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(to.mr, NULL, 10, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    expect_success(crmm_allocate(to.mr, NULL, 0, 8, &ptr));
    expect_equal(to.calls, 0);
    crmm_resource_release(&to.mr);
}

/* Whatever the callback does meanwhile. */
Test(failure_callback_resource_adaptor, the_record_is_that_of_the_failure_returned)
{
    mock_resource other;
    listener to;
    void *ptr = &to;

    start(&to, CRMM_ERROR_OUT_OF_MEMORY);
    mock_resource_init(&other, ALL);
    other.fail_with = CRMM_ERROR_CUDA;
    to.also = &other.base;
    to.give_up_after = 2;
    expect_failure(crmm_allocate(to.mr, NULL, 100, 64, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_equal(crmm_last_error()->native_code, 42);
    expect_equal(other.allocations, 3);
    expect_equal(to.also_gave, CRMM_ERROR_CUDA);
    crmm_resource_release(&to.mr);
}

Test(failure_callback_resource_adaptor, its_own_failing_allocations_do_not_call_it_again)
{
    listener to;
    void *ptr = &to;

    start(&to, CRMM_ERROR_OUT_OF_MEMORY);
    to.also = to.mr;
    to.give_up_after = 1;
    expect_status(crmm_allocate(to.mr, NULL, 100, 64, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(to.calls, 2);
    expect_equal(to.also_gave, CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(to.upstream.allocations, 4);
    expect_equal(to.last.bytes, 100);

    /* Afterwards it is called as ever. */
    to.also = NULL;
    to.calls = 0;
    expect_status(crmm_allocate_sync(to.mr, 5, 8, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(to.calls, 2);
    crmm_resource_release(&to.mr);
}

/* Two adaptors whose callbacks allocate from each other: each is called once. */
Test(failure_callback_resource_adaptor, callbacks_of_different_adaptors_do_not_go_round_in_circles)
{
    listener one;
    listener two;
    void *ptr = &one;

    start(&one, CRMM_ERROR_OUT_OF_MEMORY);
    start(&two, CRMM_ERROR_BAD_ALLOC);
    one.also = two.mr;
    two.also = one.mr;
    one.give_up_after = two.give_up_after = 0;
    expect_status(crmm_allocate(one.mr, NULL, 100, 64, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(one.calls, 1);
    expect_equal(two.calls, 1);
    expect_equal(one.also_gave, CRMM_ERROR_BAD_ALLOC);
    expect_equal(two.also_gave, CRMM_ERROR_OUT_OF_MEMORY);
    crmm_resource_release(&one.mr);
    crmm_resource_release(&two.mr);
}

/* A callback of a failure inside a stack of two gets what each layer was asked. */
Test(failure_callback_resource_adaptor, stacks)
{
    listener lower;
    listener upper = {.give_up_after = 1};
    void *ptr = &lower;

    start(&lower, CRMM_ERROR_OUT_OF_MEMORY);
    lower.give_up_after = 0;
    expect_success(crmm_failure_callback_resource_adaptor_create(lower.mr, on_failure, &upper, NULL,
                                                                 &upper.mr));
    expect_status(crmm_allocate(upper.mr, NULL, 10, 8, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(lower.calls, 2);
    expect_equal(lower.last.attempt, 1);
    expect_equal(upper.calls, 2);
    expect_equal(upper.last.attempt, 2);
    crmm_resource_release(&upper.mr);
    cr_assert(!lower.destroyed);
    crmm_resource_release(&lower.mr);
    cr_assert(lower.destroyed);
}

/* A cache that the callback spills is the usual thing to own. */
Test(failure_callback_resource_adaptor, owns_its_user_data_and_drops_it_before_upstream)
{
    bool upstream_destroyed = false;
    listener to;

    start(&to, CRMM_SUCCESS);
    to.upstream.destroyed = &upstream_destroyed;
    expect_success(crmm_allocate_sync(&to.upstream.base, 8, 8, &to.to_free));
    crmm_resource *own = &to.upstream.base;
    crmm_resource *second = crmm_resource_retain(to.mr);
    crmm_resource_release(&own);
    crmm_resource_release(&to.mr);
    cr_assert(!to.destroyed && !upstream_destroyed);
    crmm_resource_release(&second);
    cr_assert(to.destroyed && upstream_destroyed);
    expect_equal(to.live_when_destroyed, 0);
}

Test(failure_callback_resource_adaptor, refuses_bad_arguments_of_create)
{
    listener to = {0};
    crmm_resource *mr = NULL;

    mock_resource_init(&to.upstream, ALL);
    expect_failure(
        crmm_failure_callback_resource_adaptor_create(NULL, on_failure, &to, on_destroy, &mr),
        CRMM_ERROR_INVALID_ARGUMENT, "failure_callback_resource_adaptor: upstream is NULL");
    expect_failure(crmm_failure_callback_resource_adaptor_create(&to.upstream.base, NULL, &to,
                                                                 on_destroy, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "callback is NULL");
    expect_failure(crmm_failure_callback_resource_adaptor_create(&to.upstream.base, on_failure, &to,
                                                                 on_destroy, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    cr_assert(!to.destroyed);
    cr_assert(mr == NULL);
}

Test(failure_callback_resource_adaptor, gives_back_through_upstream)
{
    listener to;

    start(&to, CRMM_SUCCESS);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate_ptr(to.mr, NULL, &to), CRMM_MISUSE_UNSUPPORTED,
                  "mock_resource keeps no sizes");
    crmm_resource_release(&to.mr);
}
