/* SPDX-License-Identifier: Apache-2.0 */
/* The two forms of a log. docs/log-format.md describes the binary one. */
#include "log_rows.h"

#include <string.h>
#include <time.h>

enum { HEADER_SIZE = 64, VERSION = 1 };

static const char csv_header[] = "Thread,Time,Action,Pointer,Size,Stream\n";
static const char magic[] = "CRMMLOG\n";

/* ---- text ---- */

static char *put_text(char *out, const char *text)
{
    return stpcpy(out, text);
}

static char *put_digits(char *out, uint64_t value, unsigned base)
{
    char digits[20];
    unsigned count = 0;

    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (count > 0) {
        *out++ = digits[--count];
    }
    return out;
}

static char *put_hex(char *out, uint64_t value)
{
    return put_digits(put_text(out, "0x"), value, 16);
}

static char *put_padded(char *out, unsigned value, unsigned width)
{
    for (unsigned i = width; i > 0; i--) {
        out[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return out + width;
}

/* Local time differs from UTC by whole minutes. */
static void read_clock(crmm_priv_log_rows *rows, int64_t minute)
{
    time_t seconds = (time_t)(minute * 60);
    struct tm local = {0};

    (void)localtime_r(&seconds, &local);
    rows->minute = minute;
    char *end = put_padded(rows->clock, (unsigned)local.tm_hour, 2);
    *end++ = ':';
    end = put_padded(end, (unsigned)local.tm_min, 2);
    *end = '\0';
}

static char *put_time(crmm_priv_log_rows *rows, char *out, uint64_t time)
{
    uint64_t seconds = time / 1000000000;
    int64_t minute = (int64_t)(seconds / 60);

    if (minute != rows->minute) {
        read_clock(rows, minute);
    }
    out = put_text(out, rows->clock);
    *out++ = ':';
    out = put_padded(out, (unsigned)(seconds % 60), 2);
    *out++ = '.';
    return put_padded(out, (unsigned)(time % 1000000000 / 1000), 6);
}

static size_t add_text(crmm_priv_log_rows *rows, const crmm_priv_log_record *record, char *out)
{
    static const char *const actions[] = {
        [CRMM_PRIV_LOG_ALLOCATE] = ",allocate,",
        [CRMM_PRIV_LOG_ALLOCATE_FAILURE] = ",allocate failure,",
        [CRMM_PRIV_LOG_FREE] = ",free,",
    };
    char *end = put_digits(out, record->thread, 10);

    *end++ = ',';
    end = put_time(rows, end, record->time);
    end = put_text(end, actions[record->action]);
    end = record->ptr == 0 ? put_text(end, "(nil)") : put_hex(end, record->ptr);
    *end++ = ',';
    end = put_digits(end, record->bytes, 10);
    *end++ = ',';
    end = record->stream == 0 ? put_text(end, "0") : put_hex(end, record->stream);
    *end++ = '\n';
    return (size_t)(end - out);
}

/* ---- binary ---- */

static void put_fixed(char *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        out[i] = (char)(value >> (8 * i) & 0xff);
    }
}

/* Seven bits a byte, lowest first; the top bit says that more follow. */
static char *put_varint(char *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (char)((value & 0x7f) | 0x80);
        value >>= 7;
    }
    *out++ = (char)value;
    return out;
}

/* A difference, small in either direction. */
static char *put_delta(char *out, uint64_t from, uint64_t to)
{
    uint64_t delta = to - from;
    return put_varint(out, (delta << 1) ^ (0 - (delta >> 63)));
}

static int32_t utc_offset(uint64_t time)
{
    time_t seconds = (time_t)(time / 1000000000);
    struct tm local = {0};

    (void)localtime_r(&seconds, &local);
    return (int32_t)local.tm_gmtoff;
}

static size_t begin_binary(crmm_priv_log_rows *rows, const crmm_priv_log_origin *origin, char *out)
{
    memset(out, 0, HEADER_SIZE);
    memcpy(out, magic, sizeof(magic) - 1);
    put_fixed(out + 8, VERSION, 4);
    put_fixed(out + 12, HEADER_SIZE, 4);
    put_fixed(out + 16, origin->time, 8);
    put_fixed(out + 24, (uint32_t)utc_offset(origin->time), 4);
    put_fixed(out + 28, origin->process, 4);
    put_fixed(out + 32, (uint32_t)origin->device, 4);
    memcpy(out + 40, origin->uuid, sizeof(origin->uuid));
    rows->time = origin->time;
    return HEADER_SIZE;
}

/* The first byte: the action, and which of what follows is as in the record before. */
enum { SAME_THREAD = 4, SAME_STREAM = 8 };

static size_t add_binary(crmm_priv_log_rows *rows, const crmm_priv_log_record *record, char *out)
{
    bool same_thread = record->thread == rows->thread;
    bool same_stream = record->stream == rows->stream;
    char *end = out;

    *end++ =
        (char)(record->action | (same_thread ? SAME_THREAD : 0) | (same_stream ? SAME_STREAM : 0));
    end = put_delta(end, rows->time, record->time);
    if (!same_thread) {
        end = put_varint(end, record->thread);
    }
    if (!same_stream) {
        end = put_varint(end, record->stream);
    }
    if (record->action == CRMM_PRIV_LOG_ALLOCATE_FAILURE) {
        end = put_varint(end, record->status);
    } else {
        end = put_delta(end, rows->ptr, record->ptr);
        rows->ptr = record->ptr;
    }
    end = put_varint(end, record->bytes);
    rows->time = record->time;
    rows->thread = record->thread;
    rows->stream = record->stream;
    return (size_t)(end - out);
}

/* ---- either ---- */

size_t crmm_priv_log_rows_begin(crmm_priv_log_rows *rows, bool binary,
                                const crmm_priv_log_origin *origin, char *out)
{
    *rows = (crmm_priv_log_rows){.binary = binary};
    if (binary) {
        return begin_binary(rows, origin, out);
    }
    /* The first look at the time zone allocates, and calls must not. */
    read_clock(rows, (int64_t)(origin->time / 1000000000 / 60));
    return (size_t)(put_text(out, csv_header) - out);
}

size_t crmm_priv_log_rows_add(crmm_priv_log_rows *rows, const crmm_priv_log_record *record,
                              char *out)
{
    return rows->binary ? add_binary(rows, record, out) : add_text(rows, record, out);
}
