/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "folder.h"
#include "trace.h"

TestSuite(rmm_log, .init = folder_make, .fini = folder_remove);

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

static trace load(const char *text)
{
    trace read;
    problem why;

    cr_assert(trace_load(&read, folder_write("rmm.csv", text), &why), "%s", why.text);
    return read;
}

/* User report 71: the stream column was read as 0, and rows of failures were skipped. */
Test(rmm_log, streams_are_hexadecimal_handles)
{
    trace read = load(HEADER "1,10:00:00.000001,allocate,0x7f00,64,0x55d0c0ffee10\n"
                             "1,10:00:00.000002,allocate,0x7e00,64,0x55d0c0ffee20\n"
                             "1,10:00:00.000003,allocate,0x7d00,64,0\n"
                             "1,10:00:00.000004,allocate,0x7c00,64,0x1\n"
                             "1,10:00:00.000005,allocate,0x7b00,64,0x2\n"
                             "1,10:00:00.000006,allocate failure,(nil),64,0x55d0c0ffee20\n");

    cr_assert(read.row_count == 6);
    cr_assert(read.stream_count == 4);
    cr_expect(read.rows[0].stream == 0 && read.streams[0].name == 0x55d0c0ffee10);
    cr_expect(read.streams[0].kind == TRACE_STREAM_OWN);
    cr_expect(read.rows[1].stream == 1 && read.streams[1].name == 0x55d0c0ffee20);
    cr_expect(read.rows[2].stream == 2 && read.streams[2].kind == TRACE_STREAM_LEGACY);
    cr_expect(read.rows[3].stream == 2, "both are the legacy default stream");
    cr_expect(read.rows[4].stream == 3 && read.streams[3].kind == TRACE_STREAM_PER_THREAD);
    cr_expect(read.rows[5].action == TRACE_FAILED_ALLOCATE && read.rows[5].stream == 1);
    cr_expect(read.rows[5].block == TRACE_NO_BLOCK && read.rows[5].line == 7);
    trace_free(&read);
}

Test(rmm_log, an_address_that_comes_again_is_another_block)
{
    trace read = load(HEADER "7,23:59:59.999999,allocate,0x7f00,64,0\n"
                             "9,00:00:00.000000,free,0x7f00,64,0x2f\n"
                             "7,00:00:00.000001,allocate,0x7f00,32,0\n"
                             "7,00:00:00.000002,free,0x7f00,32,0\n");

    cr_assert(read.row_count == 4 && read.block_count == 2);
    cr_expect(read.rows[0].block == 0 && read.rows[1].block == 0);
    cr_expect(read.rows[2].block == 1 && read.rows[3].block == 1);
    cr_expect(read.thread_count == 2);
    cr_expect(read.rows[0].thread == 0 && read.rows[1].thread == 1 && read.rows[2].thread == 0);
    cr_expect(read.rows[1].stream == 1, "it may be given back on another stream");
    trace_free(&read);
}

Test(rmm_log, what_has_no_bytes_or_no_address_has_no_block)
{
    trace read = load(HEADER "1,10:00:00.000001,allocate,(nil),0,0\n"
                             "1,10:00:00.000002,allocate,0x7f00,0,0\n"
                             "1,10:00:00.000003,allocate,0x7f00,0,0\n"
                             "1,10:00:00.000004,free,0x7f00,0,0\n"
                             "1,10:00:00.000005,free,(nil),0,0\n"
                             "1,10:00:00.000006,free,(nil),64,0\n");

    cr_assert(read.row_count == 6 && read.block_count == 0);
    for (size_t i = 0; i < 6; i++) {
        cr_expect(read.rows[i].block == TRACE_NO_BLOCK, "row %zu", i);
    }
    trace_free(&read);
}

Test(rmm_log, a_malformed_row_names_file_line_and_reason)
{
    static const char good[] = HEADER "1,10:00:00.000001,allocate,0x7f00,64,0\n";
    static const struct {
        const char *row;
        const char *reason;
    } cases[] = {
        {"1,10:00:00.000002,allocate,0x7e00,64", ":3: 5 fields where there are 6 (Thread,Time,"},
        {"0x1,10:00:00.000002,allocate,0x7e00,64,0", ":3: Thread \"0x1\" is not a number"},
        {"1,10:00:00,allocate,0x7e00,64,0", ":3: Time \"10:00:00\" is not HH:MM:SS.uuuuuu"},
        {"1,24:00:00.000002,allocate,0x7e00,64,0", ":3: Time \"24:00:00.000002\""},
        {"1,10:60:00.000002,allocate,0x7e00,64,0", ":3: Time"},
        {"1,10:00:00.00000x,allocate,0x7e00,64,0", ":3: Time"},
        {"1,10-00-00.000002,allocate,0x7e00,64,0", ":3: Time"},
        {"1,10:00:00.000002,alloc,0x7e00,64,0",
         ":3: Action \"alloc\" is none of allocate, free and allocate failure"},
        {"1,10:00:00.000002,allocate,nil,64,0", ":3: Pointer \"nil\" is not an address"},
        {"1,10:00:00.000002,allocate,0x7e00,-64,0", ":3: Size \"-64\" is not a number"},
        {"1,10:00:00.000002,allocate,0x7e00,64,stream", ":3: Stream \"stream\" is not a number"},
        {"1,10:00:00.000002,allocate,(nil),64,0", ":3: allocate of 64 bytes without a Pointer"},
        {"1,10:00:00.000002,allocate,0x7f00,64,0",
         ":3: allocate of Pointer 0x7f00, which is live since line 2"},
        {"1,10:00:00.000002,free,0x7e00,64,0", ":3: free of Pointer 0x7e00, which is not live"},
        {"1,10:00:00.000002,free,0x7f00,32,0",
         ":3: free of Pointer 0x7f00 with Size 32, which line 2 gave 64"},
        {"1,10:00:00.000002,allocate failure,0x7e00,64,0",
         ":3: allocate failure with Pointer 0x7e00"},
    };
    char text[512];
    trace read;
    problem why;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s%s\n", good, cases[i].row);
        const char *path = folder_write("rmm.csv", text);
        cr_assert(!trace_load(&read, path, &why), "%s", cases[i].row);
        cr_expect(strncmp(why.text, path, strlen(path)) == 0, "\"%s\"", why.text);
        cr_expect(strncmp(why.text + strlen(path), cases[i].reason, strlen(cases[i].reason)) == 0,
                  "\"%s\" does not say \"%s\"", why.text, cases[i].reason);
    }
}
