/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include <criterion/criterion.h>

#include "number.h"

Test(number, decimal_takes_digits_that_fit)
{
    uint64_t value = 7;

    cr_expect(number_decimal("0", &value) && value == 0);
    cr_expect(number_decimal("18446744073709551615", &value) && value == UINT64_MAX);
    cr_expect(number_decimal("007", &value) && value == 7);
}

Test(number, decimal_refuses_the_rest)
{
    static const char *const wrong[] = {
        "",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1x",
        "0x1",
        "1.0",
        "1e3",
        "18446744073709551616",
        "99999999999999999999",
    };
    uint64_t value = 7;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(!number_decimal(wrong[i], &value), "\"%s\"", wrong[i]);
    }
    cr_expect(value == 7, "untouched on failure");
}

Test(number, address_is_decimal_or_hexadecimal)
{
    static const char *const wrong[] = {
        "", "0x", "0xg", "x1", "1f", "0X1", "-0x1", "0x1 ", "0x10000000000000000"};
    uint64_t value = 7;

    cr_expect(number_address("0x55d0c0ffEE10", &value) && value == 0x55d0c0ffee10);
    cr_expect(number_address("0xffffffffffffffff", &value) && value == UINT64_MAX);
    cr_expect(number_address("31", &value) && value == 31);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(!number_address(wrong[i], &value), "\"%s\"", wrong[i]);
    }
    cr_expect(value == 31, "untouched on failure");
}

Test(number, size_has_a_binary_unit_or_none)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"1KiB", 1024},
        {"64MiB", (size_t)64 << 20},
        {"1GiB", (size_t)1 << 30},
        {"2TiB", (size_t)2 << 40},
        {"16777215TiB", (size_t)16777215 << 40},
    };
    /* A decimal unit, a bare letter and a fraction could mean more than one number of bytes. */
    static const char *const wrong[] = {
        "",      "MiB",   "64MB", "64M", "64mib", "64 MiB",      "1.5GiB",
        "-1MiB", "1MiB1", "1iB",  "1B",  "1PiB",  "16777216TiB", "0x10",
    };
    size_t bytes = 7;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_expect(number_size(good[i].text, &bytes) && bytes == good[i].bytes, "\"%s\"",
                  good[i].text);
    }
    bytes = 7;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_expect(!number_size(wrong[i], &bytes), "\"%s\"", wrong[i]);
    }
    cr_expect(bytes == 7, "untouched on failure");
}

Test(number, sizes_print_in_units_a_person_reads)
{
    static const struct {
        size_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {((size_t)1 << 20) - 1, "1.00 MiB"},
        {48460872672, "45.13 GiB"},
        {SIZE_MAX, "16777216.00 TiB"},
    };
    char text[NUMBER_SIZE_TEXT];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_expect_str_eq(number_print_size(cases[i].bytes, text), cases[i].text);
    }
}
