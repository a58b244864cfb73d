/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <stdio.h>
#include <string.h>

static int digit_of(char character)
{
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    if (character >= 'a' && character <= 'f') {
        return character - 'a' + 10;
    }
    if (character >= 'A' && character <= 'F') {
        return character - 'A' + 10;
    }
    return 16;
}

/* The digits at the start of a text; `*rest` is what follows. False: there are none, or too many.
 */
static bool read_digits(const char *text, unsigned base, uint64_t *out, const char **rest)
{
    const char *at = text;
    uint64_t value = 0;

    for (; digit_of(*at) < (int)base; at++) {
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, (unsigned)digit_of(*at), &value)) {
            return false;
        }
    }
    *out = value;
    *rest = at;
    return at != text;
}

bool number_decimal(const char *text, uint64_t *out)
{
    const char *rest = NULL;
    uint64_t value = 0;

    if (!read_digits(text, 10, &value, &rest) || *rest != '\0') {
        return false;
    }
    *out = value;
    return true;
}

bool number_address(const char *text, uint64_t *out)
{
    const char *rest = NULL;
    uint64_t value = 0;

    if (strncmp(text, "0x", 2) != 0) {
        return number_decimal(text, out);
    }
    if (!read_digits(text + 2, 16, &value, &rest) || *rest != '\0') {
        return false;
    }
    *out = value;
    return true;
}

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};

enum { UNIT_COUNT = sizeof(units) / sizeof(units[0]) };

bool number_size(const char *text, size_t *out)
{
    const char *unit = NULL;
    uint64_t value = 0;

    if (!read_digits(text, 10, &value, &unit)) {
        return false;
    }
    if (*unit == '\0') {
        *out = value;
        return true;
    }
    for (unsigned i = 1; i < UNIT_COUNT; i++) {
        if (strcmp(unit, units[i]) == 0 && value <= SIZE_MAX >> (10 * i)) {
            *out = value << (10 * i);
            return true;
        }
    }
    return false;
}

const char *number_print_size(size_t bytes, char text[NUMBER_SIZE_TEXT])
{
    double value = (double)bytes;
    unsigned unit = 0;

    /* What would be printed as 1024.00 goes to the next unit. */
    while (value >= 1023.995 && unit + 1 < UNIT_COUNT) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, NUMBER_SIZE_TEXT, "%.*f %s", unit == 0 ? 0 : 2, value, units[unit]);
    return text;
}
