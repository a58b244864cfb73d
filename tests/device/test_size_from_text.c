/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/size_from_text.h>

#include <locale.h>
#include <stdint.h>

#include "cuda_support.h"
#include "expect.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static const struct {
    const char *text;
    size_t bytes;
} good[] = {
    {"0", 0},
    {"0B", 0},
    {"007", 7},
    {"5368709120", 5 * GIB},
    {"5368709120B", 5 * GIB},
    {"18446744073709551615", SIZE_MAX},
    {"5GiB", 5 * GIB},
    {"5GB", 5000000000},
    {"3kB", 3000},
    {"3KiB", 3 * KIB},
    {"2TB", 2000000000000},
    {"2TiB", 2048 * GIB},
    {"512 MiB", 512 * MIB},
    {" \t512\tMiB ", 512 * MIB},
    {"1.5GiB", 3 * GIB / 2},
    {"0.5KiB", 512},
    {"1.50000000000000000000000000000000000000KiB", 1536},
    {"1.0009KiB", 1024},
    {"1.001kB", 1001},
    {"0.9999999999999999999999kB", 999},
    {"0.1MB", 100000},
    {"0.3TB", 300000000000},
    {"16777215.5TiB", ((size_t)16777215 << 40) + 512 * GIB},
};

Test(size_from_text, bytes_with_and_without_a_unit)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        size_t bytes = 7;
        crmm_status status = crmm_size_from_text(good[i].text, &bytes);
        cr_expect(status == CRMM_SUCCESS && bytes == good[i].bytes, "\"%s\": %s, %zu", good[i].text,
                  crmm_status_name(status), bytes);
    }
}

/* A decimal comma is no part of it, and a locale that has one changes nothing. */
Test(size_from_text, is_the_same_in_every_locale)
{
    size_t bytes = 7;

    (void)setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed */
    expect_success(crmm_size_from_text("1.5GiB", &bytes));
    expect_equal(bytes, 3 * GIB / 2);
    expect_failure(crmm_size_from_text("1,5GiB", &bytes), CRMM_ERROR_INVALID_ARGUMENT,
                   "\"1,5GiB\", character 2: a unit is expected");
    expect_equal(bytes, 3 * GIB / 2);
}

static const struct {
    const char *text;
    const char *message;
} wrong[] = {
    {"", "\"\", character 1: a number is expected"},
    {"  ", "character 3: a number is expected"},
    {"MiB", "\"MiB\", character 1: a number is expected"},
    {"-1", "character 1: a number"},
    {"+1", "character 1: a number"},
    {".5GiB", "character 1: a number"},
    {"inf", "character 1: a number"},
    {"\n1", "character 1: a number"},
    {"%", "character 1: a number"},
    {"1.GiB", "character 3: a digit is expected after the point"},
    {"1.", "character 3: a digit"},
    {"1..5GiB", "character 3: a digit"},
    {"1.5.5GiB", "character 4: a unit"},
    {"1e9", "character 2: a unit is expected: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, "
            "TiB (powers of 1024) or %"},
    {"0x10", "character 2: a unit"},
    {"5G", "character 2: a unit"},
    {"5gib", "character 2: a unit"},
    {"5 GiBs", "character 3: a unit"},
    {"5GiB1", "character 2: a unit"},
    {"5\n", "character 2: a unit"},
    {"5PiB", "character 2: a unit"},
    {"5 GiB free", "character 7: the end is expected"},
    {"5 6", "character 3: a unit"},
    {"5%%", "character 3: the end"},
    {"5% MiB", "character 4: the end"},
    {"1.5", "character 4: a fraction needs a unit, and a byte has none"},
    {"1.5B", "character 4: a fraction"},
    {"1.0", "character 4: a fraction"},
    {"0%", "\"0%\", character 1: percent are more than 0 and up to 100"},
    {"0.000%", "character 1: percent"},
    {"101%", "character 1: percent"},
    {" 100.01%", "character 2: percent"},
    {"leave", "character 1: a number"},
    {"leave=", "character 7: a number"},
    {"leave =1GiB", "character 1: a number"},
    {"Leave=1GiB", "character 1: a number"},
    {"leave=leave=1GiB", "character 7: a number"},
    {"leave=-1", "character 7: a number"},
    {"leave=10%", "character 9: what is left is bytes, not a part"},
    {"leave=1GiB,", "character 8: a unit"},
};

Test(size_from_text, what_is_no_size_is_told_with_its_place)
{
    size_t bytes = 7;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        expect_failure(crmm_size_from_text(wrong[i].text, &bytes), CRMM_ERROR_INVALID_ARGUMENT,
                       wrong[i].message);
        expect_message("crmm_size_from_text: \"");
    }
    expect_failure(crmm_size_from_text(NULL, &bytes), CRMM_ERROR_INVALID_ARGUMENT, "text is NULL");
    expect_failure(crmm_size_from_text("1", NULL), CRMM_ERROR_INVALID_ARGUMENT, "bytes is NULL");
    expect_equal(bytes, 7);
}

Test(size_from_text, what_does_not_fit_is_refused)
{
    static const char *const large[] = {
        "18446744073709551616", "99999999999999999999", "99999999999999999999%",  "16777216TiB",
        "leave=16777216TiB",    "18446744073709.6MB",   "18446744.073709551616TB"};
    size_t bytes = 7;

    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        expect_failure(crmm_size_from_text(large[i], &bytes), CRMM_ERROR_OUT_OF_MEMORY,
                       "is more bytes than can exist");
        expect_message(large[i]);
    }
    expect_equal(bytes, 7);
    expect_success(crmm_size_from_text("18446744.073709551615TB", &bytes));
    expect_equal(bytes, SIZE_MAX);
}

Test(size_from_text, parts_of_what_is_free)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    size_t half = 0;
    size_t rest = 0;

    need_devices(1);
    claim_free_memory();
    expect_success(crmm_size_from_text("50%", &half));
    expect_success(crmm_size_from_text("leave=1MiB", &rest));
    cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
    expect_equal(half % 256, 0);
    expect_equal(rest % 256, 0);
    /* Other programs may allocate meanwhile, but not by half. */
    cr_assert(half > free_bytes / 4 && half < free_bytes / 4 * 3, "%zu of %zu", half, free_bytes);
    cr_assert(rest > half && rest < total_bytes, "%zu of %zu", rest, free_bytes);
    expect_failure(crmm_size_from_text("leave=1000TiB", &rest), CRMM_ERROR_OUT_OF_MEMORY,
                   "\"leave=1000TiB\" comes to nothing: the device has ");
}
