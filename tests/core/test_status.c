/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/status.h>

#include "expect.h"

/* The values are part of the ABI, so they stand here as numbers. */
static const struct {
    int value;
    crmm_status status;
    const char *name;
    bool allocation_failure;
} rows[] = {
    {0, CRMM_SUCCESS, "CRMM_SUCCESS", false},
    {1, CRMM_ERROR_INVALID_ARGUMENT, "CRMM_ERROR_INVALID_ARGUMENT", false},
    {2, CRMM_ERROR_LOGIC, "CRMM_ERROR_LOGIC", false},
    {3, CRMM_ERROR_OUT_OF_RANGE, "CRMM_ERROR_OUT_OF_RANGE", false},
    {4, CRMM_ERROR_BAD_ALLOC, "CRMM_ERROR_BAD_ALLOC", true},
    {5, CRMM_ERROR_OUT_OF_MEMORY, "CRMM_ERROR_OUT_OF_MEMORY", true},
    {6, CRMM_ERROR_LIMIT_EXCEEDED, "CRMM_ERROR_LIMIT_EXCEEDED", true},
    {7, CRMM_ERROR_PROPERTY, "CRMM_ERROR_PROPERTY", false},
    {8, CRMM_ERROR_UNSUPPORTED, "CRMM_ERROR_UNSUPPORTED", false},
    {9, CRMM_ERROR_CUDA, "CRMM_ERROR_CUDA", false},
    {10, CRMM_ERROR_FORKED, "CRMM_ERROR_FORKED", false},
    {11, CRMM_ERROR_IO, "CRMM_ERROR_IO", false},
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

Test(status, values_are_pinned)
{
    for (int i = 0; i < ROWS; i++) {
        expect_equal(rows[i].status, rows[i].value);
    }
}

Test(status, names_are_spelt_as_in_c)
{
    for (int i = 0; i < ROWS; i++) {
        expect_text(crmm_status_name(rows[i].status), rows[i].name);
    }
    expect_text(crmm_status_name((crmm_status)12), "CRMM_ERROR_UNKNOWN");
    expect_text(crmm_status_name((crmm_status)-1), "CRMM_ERROR_UNKNOWN");
}

Test(status, texts_are_there_and_differ)
{
    for (int i = 0; i < ROWS; i++) {
        cr_assert(strlen(crmm_status_string(rows[i].status)) > 3);
        for (int j = 0; j < i; j++) {
            cr_assert(strcmp(crmm_status_string(rows[i].status),
                             crmm_status_string(rows[j].status)) != 0);
        }
    }
    expect_text(crmm_status_string((crmm_status)12), "unknown status");
}

Test(status, allocation_failures_are_three)
{
    for (int i = 0; i < ROWS; i++) {
        expect_equal(crmm_status_is_allocation_failure(rows[i].status), rows[i].allocation_failure);
    }
}
