/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_EXPECT_H
#define CRMM_TESTS_SUPPORT_EXPECT_H

/*
 * Assertions on what the library returns and reports, with the values in the message when they
 * fail. Macros, so that Criterion names the line of the test.
 */

#include <string.h>

#include <criterion/criterion.h>

#include <crmm/core/error.h>
#include <crmm/core/status.h>

/* The call returns just this status, and a failure is on record with it. */
#define expect_status(call, expected)                                                             \
    do {                                                                                          \
        crmm_status got_ = (call);                                                                \
        cr_assert(got_ == (expected), "%s: %s instead of %s (%s)", #call, crmm_status_name(got_), \
                  crmm_status_name(expected), crmm_last_error()->message);                        \
        if (got_ != CRMM_SUCCESS) {                                                               \
            cr_assert(crmm_last_error()->status == got_, "%s: the record says %s", #call,         \
                      crmm_status_name(crmm_last_error()->status));                               \
        }                                                                                         \
    } while (0)

#define expect_success(call) expect_status(call, CRMM_SUCCESS)

/* The latest failure's message says this. */
#define expect_message(part)                                                                    \
    cr_assert(strstr(crmm_last_error()->message, (part)) != NULL, "\"%s\" does not say \"%s\"", \
              crmm_last_error()->message, (part))

/* The call fails with this status and a message that says this. */
#define expect_failure(call, expected, part) \
    do {                                     \
        expect_status(call, expected);       \
        expect_message(part);                \
    } while (0)

#define expect_equal(actual, expected)                                                  \
    do {                                                                                \
        unsigned long long actual_ = (unsigned long long)(actual);                      \
        unsigned long long expected_ = (unsigned long long)(expected);                  \
        cr_assert(actual_ == expected_, "%s is %llu instead of %llu", #actual, actual_, \
                  expected_);                                                           \
    } while (0)

#define expect_text(actual, expected)                                                        \
    do {                                                                                     \
        const char *text_ = (actual);                                                        \
        cr_assert(strcmp(text_, (expected)) == 0, "%s is \"%s\" instead of \"%s\"", #actual, \
                  text_, (expected));                                                        \
    } while (0)

#endif
