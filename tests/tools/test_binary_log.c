/* SPDX-License-Identifier: Apache-2.0 */
#include "binary_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "folder.h"

TestSuite(binary_log, .init = folder_make, .fini = folder_remove);

/* ---- logs, written by hand as docs/log-format.md says ---- */

typedef struct bytes {
    unsigned char data[512];
    size_t length;
} bytes;

static void put(bytes *to, const char *data, size_t length)
{
    memcpy(to->data + to->length, data, length);
    to->length += length;
}

/* Text with embedded zeros. */
#define PUT(to, text) put(to, text, sizeof(text) - 1)

/* Started at 1 s, two hours ahead of UTC, by process 3 on device 1. */
static void put_header(bytes *to)
{
    PUT(to, "CRMMLOG\n\x01\0\0\0\x40\0\0\0");
    PUT(to, "\0\xca\x9a\x3b\0\0\0\0"
            "\x20\x1c\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0");
    PUT(to, "0123456789abcdef\0\0\0\0\0\0\0\0");
}

static void put_records(bytes *to)
{
    PUT(to, "\x00\x90\x4e\x07\x90\x02\x80\xfc\x03\x40"); /* 5 us later, 0x110, 0x7f00, 64 */
    PUT(to, "\x04\x00\x00\x80\x02\x80\x01");             /* on stream 0, 0x7f80, 128 */
    PUT(to, "\x0d\x01\x05\x80\x80\x01");                 /* 1 ns earlier, failed, 16384 */
    PUT(to, "\x0a\x02\x09\xff\x01\x40");                 /* thread 9 frees 0x7f00, 64 */
    PUT(to, "\x02\x00\x07\x90\x02\x80\x02\x80\x01");     /* thread 7 frees 0x7f80, 128 */
}

static const char *write_file(const bytes *what)
{
    const char *path = folder_path("a.log");
    FILE *file = fopen(path, "wb");

    cr_assert(file != NULL);
    cr_assert(fwrite(what->data, 1, what->length, file) == what->length);
    cr_assert(fclose(file) == 0);
    return path;
}

static void expect_refused(const bytes *what, const char *reason)
{
    trace read;
    problem why;

    cr_assert(!trace_load(&read, write_file(what), &why));
    cr_expect(strstr(why.text, reason) != NULL, "\"%s\" does not say \"%s\"", why.text, reason);
}

/* ---- reading ---- */

Test(binary_log, records_build_on_each_other)
{
    bytes file = {.length = 0};
    trace read;
    problem why;

    put_header(&file);
    put_records(&file);
    cr_assert(trace_load(&read, write_file(&file), &why), "%s", why.text);
    cr_assert(read.row_count == 5 && read.block_count == 2 && read.stream_count == 2);
    cr_expect(read.streams[0].name == 0x110 && read.streams[0].kind == TRACE_STREAM_OWN);
    cr_expect(read.streams[1].kind == TRACE_STREAM_LEGACY);
    cr_assert(read.thread_count == 2 && read.threads[0] == 7 && read.threads[1] == 9);
    const trace_row *rows = read.rows;
    cr_expect(rows[0].action == TRACE_ALLOCATE && rows[0].bytes == 64 && rows[0].block == 0);
    cr_expect(rows[0].line == 2 && rows[0].stream == 0 && rows[0].thread == 0);
    cr_expect(rows[1].action == TRACE_ALLOCATE && rows[1].bytes == 128 && rows[1].stream == 1);
    cr_expect(rows[2].action == TRACE_FAILED_ALLOCATE && rows[2].bytes == 16384);
    cr_expect(rows[2].stream == 1 && rows[2].thread == 0);
    cr_expect(rows[3].action == TRACE_FREE && rows[3].block == 0 && rows[3].thread == 1);
    cr_expect(rows[4].action == TRACE_FREE && rows[4].block == 1 && rows[4].stream == 0);
    cr_expect(rows[4].line == 6);
    trace_free(&read);
}

Test(binary_log, the_header_and_times_are_read)
{
    bytes file = {.length = 0};
    lines in;
    problem why;
    binary_log log;
    log_event event;

    put_header(&file);
    put_records(&file);
    cr_assert(lines_open(&in, write_file(&file), &why) && lines_next(&in, &why) == LINES_GOT);
    cr_assert(binary_log_begin(&log, &in, &why), "%s", why.text);
    cr_expect(log.start == 1000000000 && log.utc_offset == 7200 && log.process == 3);
    cr_expect(log.device == 1 && memcmp(log.uuid, "0123456789abcdef", 16) == 0);
    cr_assert(binary_log_next(&log, &event) == LINES_GOT);
    cr_expect(log.time == 1000005000 && event.address == 0x7f00 && event.thread == 7);
    cr_assert(binary_log_next(&log, &event) == LINES_GOT);
    cr_expect(log.time == 1000005000 && event.address == 0x7f80 && event.stream == 0);
    cr_assert(binary_log_next(&log, &event) == LINES_GOT);
    cr_expect(log.time == 1000004999 && event.address == 0);
    cr_assert(binary_log_next(&log, &event) == LINES_GOT);
    cr_expect(log.time == 1000005000 && event.address == 0x7f00 && event.thread == 9);
    lines_close(&in);
}

Test(binary_log, a_log_without_records_is_an_empty_trace)
{
    bytes file = {.length = 0};
    trace read;
    problem why;

    put_header(&file);
    cr_assert(trace_load(&read, write_file(&file), &why), "%s", why.text);
    cr_expect(read.row_count == 0);
    trace_free(&read);
}

Test(binary_log, a_longer_header_of_this_version_is_skipped)
{
    bytes file = {.length = 0};
    trace read;
    problem why;

    put_header(&file);
    PUT(&file, "\xff\xff\xff");
    file.data[12] = 67;
    put_records(&file);
    cr_assert(trace_load(&read, write_file(&file), &why), "%s", why.text);
    cr_expect(read.row_count == 5);
    trace_free(&read);
}

/* ---- what is wrong ---- */

Test(binary_log, wherever_it_is_cut_off_that_is_found)
{
    static const size_t ends[] = {64, 74, 81, 87, 93, 102};
    bytes whole = {.length = 0};

    put_header(&whole);
    put_records(&whole);
    cr_assert(whole.length == 102);
    for (size_t length = 8; length < whole.length; length++) {
        bytes cut = whole;
        cut.length = length;
        bool between = false;
        for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
            between = between || ends[i] == length;
        }
        if (!between) {
            expect_refused(&cut, length < 64 ? "a.log:1: the file ends within its header"
                                             : "the file ends within a record");
        }
    }
}

Test(binary_log, what_it_does_not_know_is_refused)
{
    bytes file = {.length = 0};

    put_header(&file);
    file.data[8] = 2;
    expect_refused(&file, "a.log:1: version 2 of the binary log, but 1 is known");
    file.data[8] = 1;
    file.data[12] = 63;
    expect_refused(&file, "a.log:1: a header of 63 bytes");
    file.data[15] = 1;
    expect_refused(&file, "a header of 16777279 bytes");
    file.data[12] = 64;
    file.data[15] = 0;
    put_records(&file);
    bytes good = file;
    PUT(&file, "\x03");
    expect_refused(&file, "a.log:7: 0x03 begins no record");
    file = good;
    PUT(&file, "\x1c");
    expect_refused(&file, "a.log:7: 0x1c begins no record");
    file = good;
    PUT(&file, "\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
    expect_refused(&file, "a.log:7: a number of more than 64 bits");
    file = good;
    PUT(&file, "\x0c\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x01");
    expect_refused(&file, "a number of more than 64 bits");
}

Test(binary_log, rows_that_contradict_each_other_are_named)
{
    bytes file = {.length = 0};

    put_header(&file);
    put_records(&file);
    PUT(&file, "\x0e\x00\x00\x80\x01"); /* frees 0x7f80 again */
    expect_refused(&file, "a.log:7: free of Pointer 0x7f80, which is not live");
    file.length = 64 + 10; /* the first record */
    PUT(&file, "\x0c\x00\x00\x40");
    expect_refused(&file, "a.log:3: allocate of Pointer 0x7f00, which is live since line 2");
}
