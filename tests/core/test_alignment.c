/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/alignment.h>

#include "expect.h"

Test(alignment, constants)
{
    expect_equal(CRMM_DEVICE_ALIGNMENT, 256);
    expect_equal(CRMM_HOST_ALIGNMENT, _Alignof(max_align_t));
}

Test(alignment, powers_of_two_are_known)
{
    cr_assert(!crmm_is_pow2(0));
    for (int bit = 0; bit < 64; bit++) {
        size_t power = (size_t)1 << bit;
        cr_assert(crmm_is_pow2(power));
        cr_assert(crmm_is_supported_alignment(power));
        expect_equal(crmm_is_supported_base_resource_alignment(power), power <= 256);
        cr_assert(bit < 2 || !crmm_is_pow2(power - 1));
        cr_assert(bit < 1 || bit > 62 || !crmm_is_pow2(power + 1) || bit == 0);
    }
    cr_assert(!crmm_is_supported_alignment(0));
    cr_assert(!crmm_is_supported_base_resource_alignment(0));
    cr_assert(!crmm_is_supported_base_resource_alignment(48));
}

Test(alignment, rounds_up_and_down)
{
    static const struct {
        size_t value, alignment, up, down;
    } rows[] = {
        {0, 1, 0, 0},
        {1, 1, 1, 1},
        {0, 256, 0, 0},
        {1, 256, 256, 0},
        {255, 256, 256, 0},
        {256, 256, 256, 256},
        {257, 256, 512, 256},
        {1000, 8, 1000, 1000},
        {1001, 8, 1008, 1000},
        {SIZE_MAX, 1, SIZE_MAX, SIZE_MAX},
        {SIZE_MAX - 255, 256, SIZE_MAX - 255, SIZE_MAX - 255},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t checked = 12345;
        expect_equal(crmm_align_up(rows[i].value, rows[i].alignment), rows[i].up);
        expect_equal(crmm_align_down(rows[i].value, rows[i].alignment), rows[i].down);
        expect_success(crmm_align_up_checked(rows[i].value, rows[i].alignment, &checked));
        expect_equal(checked, rows[i].up);
        expect_equal(crmm_is_aligned(rows[i].value, rows[i].alignment),
                     rows[i].value == rows[i].up);
    }
}

Test(alignment, what_does_not_fit_is_an_error)
{
    size_t result = 77;

    expect_equal(crmm_align_up(SIZE_MAX, 256), 0);
    expect_equal(crmm_align_up(SIZE_MAX - 254, 256), 0);
    expect_failure(crmm_align_up_checked(SIZE_MAX - 254, 256, &result), CRMM_ERROR_OUT_OF_MEMORY,
                   "18446744073709551361 rounded up to a multiple of 256");
    expect_equal(result, 77);
}

Test(alignment, bad_alignments_are_refused)
{
    size_t result = 77;

    expect_failure(crmm_align_up_checked(1, 0, &result), CRMM_ERROR_INVALID_ARGUMENT,
                   "alignment 0 is not a power of two");
    expect_failure(crmm_align_up_checked(1, 3, &result), CRMM_ERROR_INVALID_ARGUMENT,
                   "alignment 3 is not a power of two");
    expect_failure(crmm_align_up_checked(1, 2, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "result is NULL");
    expect_equal(result, 77);
    expect_equal(crmm_align_up(5, 3), 0);
    expect_equal(crmm_align_down(5, 3), 0);
    cr_assert(!crmm_is_aligned(6, 3));
}

Test(alignment, pointers)
{
    cr_assert(crmm_is_pointer_aligned(NULL, 256));
    cr_assert(crmm_is_pointer_aligned((void *)(uintptr_t)512, 256));
    cr_assert(!crmm_is_pointer_aligned((void *)(uintptr_t)513, 256));
    cr_assert(!crmm_is_pointer_aligned((void *)(uintptr_t)9, 3));
}
