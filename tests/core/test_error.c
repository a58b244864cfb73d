/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/error.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/resource.h>

#include "expect.h"

Test(error, starts_as_success)
{
    expect_equal(crmm_last_error()->status, CRMM_SUCCESS);
    expect_equal(crmm_last_error()->native_code, 0);
    expect_text(crmm_last_error()->message, "");
}

Test(error, records_what_an_implementer_says)
{
    expect_equal(crmm_set_last_error(CRMM_ERROR_IO, 5, "the disk is gone"), CRMM_ERROR_IO);
    expect_equal(crmm_last_error()->status, CRMM_ERROR_IO);
    expect_equal(crmm_last_error()->native_code, 5);
    expect_text(crmm_last_error()->message, "the disk is gone");
}

Test(error, without_a_message_says_what_the_status_means)
{
    (void)crmm_set_last_error(CRMM_ERROR_LOGIC, 0, NULL);
    expect_text(crmm_last_error()->message, crmm_status_string(CRMM_ERROR_LOGIC));
}

Test(error, cuts_a_long_message)
{
    char text[400];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)crmm_set_last_error(CRMM_ERROR_IO, 0, text);
    expect_equal(strlen(crmm_last_error()->message), 255);
}

Test(error, may_be_given_its_own_message)
{
    (void)crmm_set_last_error(CRMM_ERROR_IO, 1, "kept");
    (void)crmm_set_last_error(CRMM_ERROR_CUDA, 2, crmm_last_error()->message);
    expect_text(crmm_last_error()->message, "kept");
    expect_equal(crmm_last_error()->native_code, 2);
}

Test(error, takes_percent_signs_literally)
{
    (void)crmm_set_last_error(CRMM_ERROR_IO, 0, "100%s full %n");
    expect_text(crmm_last_error()->message, "100%s full %n");
}

Test(error, is_not_cleared_by_success)
{
    (void)crmm_set_last_error(CRMM_ERROR_IO, 0, "still here");
    expect_equal(crmm_resource_retain(NULL) == NULL, true);
    expect_text(crmm_last_error()->message, "still here");
}

Test(error, keeps_the_size_of_a_failed_allocation_only)
{
    void *ptr = NULL;

    (void)!crmm_allocate(NULL, NULL, 4096, 3, &ptr);
    expect_equal(crmm_last_error()->requested_bytes, 0);
    (void)crmm_set_last_error(CRMM_ERROR_IO, 0, "no allocation");
    expect_equal(crmm_last_error()->requested_bytes, 0);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    bool fresh = crmm_last_error()->status == CRMM_SUCCESS;
    (void)crmm_set_last_error(CRMM_ERROR_CUDA, 700, "elsewhere");
    return (void *)(uintptr_t)fresh;
}

Test(error, belongs_to_its_thread)
{
    pthread_t thread;
    void *fresh = NULL;

    (void)crmm_set_last_error(CRMM_ERROR_IO, 5, "here");
    cr_assert(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
    cr_assert(pthread_join(thread, &fresh) == 0);
    cr_assert(fresh != NULL, "the new thread did not start without a failure");
    expect_text(crmm_last_error()->message, "here");
}

Test(error, is_copied_to_a_forked_child)
{
    int state = 0;

    (void)crmm_set_last_error(CRMM_ERROR_IO, 5, "before the fork");
    pid_t child = fork();
    if (child == 0) {
        _exit(strcmp(crmm_last_error()->message, "before the fork") == 0 ? 7 : 1);
    }
    cr_assert(waitpid(child, &state, 0) == child);
    cr_assert(WIFEXITED(state) && WEXITSTATUS(state) == 7);
}
