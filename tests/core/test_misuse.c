/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/misuse.h>

#include <stdio.h>

#include <crmm/core/error.h>
#include <crmm/core/resource.h>

#include "expect.h"
#include "misuse_recorder.h"

#include <criterion/redirect.h>

static const crmm_misuse finding = {
    .struct_size = sizeof(crmm_misuse),
    .kind = CRMM_MISUSE_DOUBLE_FREE,
    .native_code = 3,
    .resource_name = "some_resource",
    .bytes = 64,
    .alignment = 32,
    .message = "a test found something",
};

Test(misuse, reaches_the_handler_whole)
{
    misuse_recorder_start();
    expect_misuse(crmm_report_misuse(&finding), CRMM_MISUSE_DOUBLE_FREE, "a test found something");
    expect_equal(misuse_recorded()->latest.struct_size, sizeof(crmm_misuse));
    expect_equal(misuse_recorded()->latest.native_code, 3);
    expect_equal(misuse_recorded()->latest.bytes, 64);
    expect_equal(misuse_recorded()->latest.alignment, 32);
    expect_text(misuse_recorded()->resource_name, "some_resource");
}

Test(misuse, is_counted)
{
    misuse_recorder_start();
    uint64_t before = crmm_misuse_count();
    crmm_report_misuse(&finding);
    crmm_report_misuse(&finding);
    crmm_report_misuse(NULL);
    expect_equal(crmm_misuse_count() - before, 2);
}

static void misuse_again(const crmm_misuse *misuse, void *user_data)
{
    int *entered = user_data;

    (void)misuse;
    (*entered)++;
    crmm_deallocate(NULL, NULL, entered, 1, 1); /* the handler may call the library */
}

Test(misuse, handler_is_not_entered_from_itself)
{
    int entered = 0;

    crmm_set_misuse_handler(misuse_again, &entered);
    uint64_t before = crmm_misuse_count();
    crmm_report_misuse(&finding);
    expect_equal(entered, 1);
    expect_equal(crmm_misuse_count() - before, 2);
    crmm_report_misuse(&finding);
    expect_equal(entered, 2);
}

static void fail_within(const crmm_misuse *misuse, void *user_data)
{
    (void)misuse;
    (void)user_data;
    (void)crmm_set_last_error(CRMM_ERROR_IO, 5, "the handler's own");
}

Test(misuse, handler_leaves_the_error_record_alone)
{
    crmm_set_misuse_handler(fail_within, NULL);
    (void)crmm_set_last_error(CRMM_ERROR_CUDA, 700, "the one that is returned");
    crmm_report_misuse(&finding);
    expect_equal(crmm_last_error()->status, CRMM_ERROR_CUDA);
    expect_text(crmm_last_error()->message, "the one that is returned");
}

Test(misuse, reads_no_more_of_an_older_struct_than_it_has)
{
    crmm_misuse older = finding;

    misuse_recorder_start();
    older.struct_size = offsetof(crmm_misuse, ptr);
    older.ptr = &older;
    older.message = NULL;
    crmm_report_misuse(&older);
    expect_equal(misuse_recorded()->latest.kind, CRMM_MISUSE_DOUBLE_FREE);
    cr_assert(misuse_recorded()->latest.ptr == NULL);
}

Test(misuse, default_prints_one_line_on_standard_error, .init = cr_redirect_stderr)
{
    crmm_set_misuse_handler(NULL, NULL);
    crmm_report_misuse(&finding);
    (void)fflush(stderr);
    cr_assert_stderr_eq_str("crmm: misuse: a test found something\n");
}
