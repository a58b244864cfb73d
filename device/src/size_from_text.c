/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/size_from_text.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

static const char name[] = "crmm_size_from_text";

/* As it was written: digits, and digits after a point. */
typedef struct decimal {
    size_t whole;
    const char *fraction;
    size_t fraction_length;
} decimal;

typedef enum form { FORM_BYTES, FORM_PERCENT, FORM_LEAVE } form;

/* What a text says, before a device is asked. */
typedef struct request {
    form form;
    decimal percent;
    size_t bytes;
} request;

static crmm_status wrong_at(const char *text, const char *at, const char *what)
{
    return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: \"%.60s\", character %zu: %s", name, text,
                (size_t)(at - text) + 1, what);
}

static crmm_status too_much(const char *text)
{
    return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: \"%.60s\" is more bytes than can exist", name,
                text);
}

/* ---- numbers ---- */

/* Not isdigit() and its like: they know locales. */
static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

/* A number at `*at`, which moves past it. */
static crmm_status read_decimal(const char *text, const char **at, decimal *out)
{
    const char *digit = *at;
    decimal read = {0};

    if (!is_digit(*digit)) {
        return wrong_at(text, digit, "a number is expected");
    }
    for (; is_digit(*digit); digit++) {
        if (__builtin_mul_overflow(read.whole, (size_t)10, &read.whole) ||
            __builtin_add_overflow(read.whole, (size_t)(*digit - '0'), &read.whole)) {
            return too_much(text);
        }
    }
    if (*digit == '.') {
        read.fraction = ++digit;
        if (!is_digit(*digit)) {
            return wrong_at(text, digit, "a digit is expected after the point");
        }
        while (is_digit(*digit)) {
            digit++;
        }
        read.fraction_length = (size_t)(digit - read.fraction);
    }
    *at = digit;
    *out = read;
    return CRMM_SUCCESS;
}

/* Rounded down; false: it does not fit. From the last digit on, each tenth of a tenth can be
 * rounded down by itself, and the sum is as exact as if it were done once. */
static bool multiply(const decimal *number, size_t unit, size_t *out)
{
    size_t part = 0;
    size_t whole = 0;

    for (size_t i = number->fraction_length; i > 0; i--) {
        size_t digits = (size_t)(number->fraction[i - 1] - '0');
        if (__builtin_mul_overflow(digits, unit, &digits) ||
            __builtin_add_overflow(digits, part, &digits)) {
            return false;
        }
        part = digits / 10;
    }
    return !__builtin_mul_overflow(number->whole, unit, &whole) &&
           !__builtin_add_overflow(whole, part, out);
}

static bool has_fraction(const decimal *number)
{
    return strspn(number->fraction_length != 0 ? number->fraction : "", "0") <
           number->fraction_length;
}

/* ---- texts ---- */

static const struct {
    const char *name;
    size_t bytes;
} units[] = {
    {"B", 1},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"KiB", (size_t)1 << 10},
    {"MiB", (size_t)1 << 20},
    {"GiB", (size_t)1 << 30},
    {"TiB", (size_t)1 << 40},
};

/* The unit at `*at`, which moves past it; none is a byte. */
static crmm_status read_unit(const char *text, const char **at, size_t *unit)
{
    size_t length = strcspn(*at, " \t");

    if (length == 0) {
        *unit = 1;
        return CRMM_SUCCESS;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strlen(units[i].name) == length && strncmp(*at, units[i].name, length) == 0) {
            *at += length;
            *unit = units[i].bytes;
            return CRMM_SUCCESS;
        }
    }
    return wrong_at(text, *at,
                    "a unit is expected: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB "
                    "(powers of 1024) or %");
}

static crmm_status read_end(const char *text, const char *at)
{
    at = skip_blanks(at);
    return *at == '\0' ? CRMM_SUCCESS : wrong_at(text, at, "the end is expected");
}

static crmm_status read_percent(const char *text, const char *start, const char *at, request *out)
{
    if (out->form == FORM_LEAVE) {
        return wrong_at(text, at, "what is left is bytes, not a part");
    }
    if (out->percent.whole > 100 || (out->percent.whole == 100 && has_fraction(&out->percent)) ||
        (out->percent.whole == 0 && !has_fraction(&out->percent))) {
        return wrong_at(text, start, "percent are more than 0 and up to 100");
    }
    out->form = FORM_PERCENT;
    return read_end(text, at + 1);
}

static crmm_status read_bytes(const char *text, const char *at, const decimal *number, request *out)
{
    const char *unit_at = at;
    size_t unit = 0;

    crmm_status status = read_unit(text, &at, &unit);
    if (status == CRMM_SUCCESS) {
        status = read_end(text, at);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (unit == 1 && number->fraction_length != 0) {
        return wrong_at(text, unit_at, "a fraction needs a unit, and a byte has none");
    }
    return multiply(number, unit, &out->bytes) ? CRMM_SUCCESS : too_much(text);
}

static crmm_status read_request(const char *text, request *out)
{
    static const char leave[] = "leave=";
    const char *at = skip_blanks(text);
    decimal number = {0};

    if (strncmp(at, leave, strlen(leave)) == 0) {
        out->form = FORM_LEAVE;
        at = skip_blanks(at + strlen(leave));
    }
    const char *start = at;
    crmm_status status = read_decimal(text, &at, &number);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    at = skip_blanks(at);
    if (*at == '%') {
        out->percent = number;
        return read_percent(text, start, at, out);
    }
    return read_bytes(text, at, &number, out);
}

/* ---- of what is free ---- */

static crmm_status ask_device(const char *text, const request *wanted, size_t *bytes)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    size_t share = 0;

    crmm_status status = crmm_priv_cuda_memory(&free_bytes, &total_bytes);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (wanted->form == FORM_LEAVE) {
        share = free_bytes > wanted->bytes ? free_bytes - wanted->bytes : 0;
    } else if (!multiply(&wanted->percent, free_bytes, &share)) {
        return too_much(text);
    } else {
        share /= 100;
    }
    share = crmm_align_down(share, CRMM_DEVICE_ALIGNMENT);
    if (share == 0) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: \"%.60s\" comes to nothing: the device has %zu bytes free of %zu", name,
                    text, free_bytes, total_bytes);
    }
    *bytes = share;
    return CRMM_SUCCESS;
}

/* ---- public interface ---- */

crmm_status crmm_size_from_text(const char *text, size_t *bytes)
{
    request wanted = {.form = FORM_BYTES};

    if (text == NULL || bytes == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", name,
                    text == NULL ? "text" : "bytes");
    }
    crmm_status status = read_request(text, &wanted);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (wanted.form != FORM_BYTES) {
        return ask_device(text, &wanted, bytes);
    }
    *bytes = wanted.bytes;
    return CRMM_SUCCESS;
}
