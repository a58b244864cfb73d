/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "folder.h"
#include "trace.h"

TestSuite(events, .init = folder_make, .fini = folder_remove);

static void expect_refused(const char *path, const char *reason)
{
    trace read;
    problem why;

    cr_assert(!trace_load(&read, path, &why), "%s", path);
    cr_expect(strstr(why.text, path) != NULL, "\"%s\" does not name the file", why.text);
    cr_expect(strstr(why.text, reason) != NULL, "\"%s\" does not say \"%s\"", why.text, reason);
}

/* The rows that come before a malformed one, on lines 1 to 4. */
#define GOOD_ROWS \
    "time_us,action,id,bytes,stream\n10,alloc,0,512,0\n20,alloc,1,7,1\n20,free,1,7,1\n"

static void expect_row(const trace *of, size_t index, trace_row expected)
{
    const trace_row *row = &of->rows[index];

    cr_expect(row->action == expected.action && row->bytes == expected.bytes &&
                  row->block == expected.block && row->stream == expected.stream &&
                  row->line == expected.line && row->thread == 0,
              "row %zu", index);
}

static void expect_good_rows(const char *path)
{
    trace read;
    problem why;

    cr_assert(trace_load(&read, path, &why), "%s", why.text);
    cr_expect(read.row_count == 3);
    cr_expect(read.block_count == 2);
    cr_expect(read.thread_count == 1);
    cr_expect(read.stream_count == 2);
    cr_expect(read.streams[0].kind == TRACE_STREAM_LEGACY);
    cr_expect(read.streams[1].kind == TRACE_STREAM_OWN);
    expect_row(&read, 0, (trace_row){.bytes = 512, .block = 0, .stream = 0, .line = 2});
    expect_row(&read, 1, (trace_row){.bytes = 7, .block = 1, .stream = 1, .line = 3});
    expect_row(&read, 2,
               (trace_row){.action = TRACE_FREE, .bytes = 7, .block = 1, .stream = 1, .line = 4});
    trace_free(&read);
}

Test(events, plain_and_gzip_read_the_same)
{
    expect_good_rows(folder_write("plain.csv", GOOD_ROWS));
    expect_good_rows(folder_write_gzip("packed.csv.gz", GOOD_ROWS));
    expect_good_rows(folder_write_gzip("packed_without_saying_so", GOOD_ROWS));
}

Test(events, the_last_line_may_lack_its_newline)
{
    char text[] = GOOD_ROWS;

    text[strlen(text) - 1] = '\0';
    expect_good_rows(folder_write("trace.csv", text));
}

Test(events, a_header_alone_is_an_empty_trace)
{
    trace read;
    problem why;

    cr_assert(
        trace_load(&read, folder_write("empty.csv", "time_us,action,id,bytes,stream\n"), &why));
    cr_expect(read.row_count == 0);
    trace_free(&read);
}

Test(events, a_malformed_row_names_file_line_and_reason)
{
    static const struct {
        const char *row;
        const char *reason;
    } cases[] = {
        {"", ":5: 1 fields where there are 5 (time_us,action,id,bytes,stream)"},
        {"20,alloc,2,8", ":5: 4 fields"},
        {"20,alloc,2,8,0,", ":5: 6 fields"},
        {"x,alloc,2,8,0", ":5: time_us \"x\" is not a number"},
        {"-1,alloc,2,8,0", ":5: time_us \"-1\" is not a number"},
        {"19,alloc,2,8,0", ":5: time_us 19 is less than the 20 of the row before"},
        {"20,allocate,2,8,0", ":5: action \"allocate\" is neither alloc nor free"},
        {"20, alloc,2,8,0", ":5: action \" alloc\""},
        {"20,alloc,,8,0", ":5: id \"\" is not a number"},
        {"20,alloc,3,8,0", ":5: id 3 of an alloc; ids run without gaps, and the next is 2"},
        {"20,alloc,1,8,0", ":5: id 1 of an alloc"},
        {"20,alloc,2,8.5,0", ":5: bytes \"8.5\" is not a number"},
        {"20,alloc,2,18446744073709551616,0", ":5: bytes \"18446744073709551616\""},
        {"20,alloc,2,8,0x1", ":5: stream \"0x1\" is not a number"},
        {"20,alloc,2,8,0\r", ":5: stream \"0\r\" is not a number"},
        {"20,free,2,8,0", ":5: free of id 2, which has no alloc"},
        {"20,free,1,7,1", ":5: free of id 1, which line 4 has freed"},
        {"20,free,0,511,0", ":5: free of id 0 with 511 bytes, which has 512"},
        {"20,free,0,512,1", ":5: free of id 0 on stream 1, which is of stream 0"},
    };
    char text[1024];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "%s%s\n25,alloc,2,1,0\n", GOOD_ROWS, cases[i].row);
        expect_refused(folder_write("trace.csv", text), cases[i].reason);
        expect_refused(folder_write_gzip("trace.csv.gz", text), cases[i].reason);
    }
}

Test(events, a_row_that_is_too_long_is_malformed)
{
    char text[2048] = GOOD_ROWS;
    size_t length = strlen(text);

    memset(text + length, '1', 1000);
    text[length + 1000] = '\0';
    expect_refused(folder_write("trace.csv", text), ":5: the row is longer than");
}

Test(events, the_header_must_match)
{
    expect_refused(folder_write("trace.csv", "time,action,id,bytes,stream\n"),
                   ":1: the header is neither");
    expect_refused(folder_write("trace.csv", "time_us,action,id,bytes,stream \n"),
                   ":1: the header is neither");
    expect_refused(folder_write("trace.csv", ""), ":1: the file is empty");
}

Test(events, what_cannot_be_read_says_why)
{
    expect_refused(folder_path("missing.csv"), "cannot be opened: No such file or directory");
    expect_refused(folder_path(""), "Is a directory");
}

Test(events, the_last_row_may_lack_its_newline_but_not_be_cut_by_nul)
{
    static const char with_nul[] = "time_us,action,id,bytes,stream\n0,alloc,0,1,0\0garbage";
    trace read;
    problem why;

    const char *path = folder_write("trace.csv", with_nul); /* what stands before the NUL */
    cr_assert(trace_load(&read, path, &why), "%s", why.text);
    trace_free(&read);

    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    cr_assert(fwrite(with_nul, 1, sizeof(with_nul) - 1, file) == sizeof(with_nul) - 1);
    cr_assert(fclose(file) == 0);
    expect_refused(path, "contains NUL");
}

Test(events, compressed_data_that_ends_too_early_is_an_error)
{
    const char *path = folder_write_gzip("trace.csv.gz", GOOD_ROWS);
    char bytes[512];

    FILE *file = fopen(path, "r+");
    cr_assert(file != NULL);
    size_t length = fread(bytes, 1, sizeof(bytes), file);
    rewind(file);
    cr_assert(ftruncate(fileno(file), (off_t)length - 12) == 0);
    cr_assert(fclose(file) == 0);
    expect_refused(path, "cannot be read: the compressed data ends too early");
}

Test(events, the_peak_is_that_of_the_rows)
{
    trace read;
    problem why;

    cr_assert(trace_load(&read, folder_write("trace.csv", GOOD_ROWS "30,alloc,2,6,0\n"), &why));
    cr_expect(trace_peak_live(&read) == 519);
    trace_free(&read);
    cr_assert(trace_load(&read,
                         folder_write("trace.csv", GOOD_ROWS "30,alloc,2,"
                                                             "18446744073709551615,0\n"),
                         &why));
    cr_expect(trace_peak_live(&read) == SIZE_MAX, "more than can be counted");
    trace_free(&read);
}

/* ---- the side file ---- */

#define TWO_BLOCKS \
    "time_us,action,id,bytes,stream\n0,alloc,0,1,0\n1,alloc,1,1,1\n9,free,1,1,1\n9,free,0,1,0\n"

Test(events, the_side_file_is_read_with_its_trace)
{
    const char *path = folder_write("t.csv", TWO_BLOCKS);
    trace read;
    problem why;

    /* Out of order and twice; a use on the block's own stream says nothing; a stream that the
     * trace does not have is a new one. */
    (void)folder_write_gzip("t.streams.csv.gz",
                            "time_us,event,id,stream\n2,use,1,0\n3,use,0,7\n"
                            "3,use,0,1\n4,use,0,7\n4,use,1,1\n5,reusable,0,0\n");
    cr_assert(trace_load(&read, path, &why), "%s", why.text);
    cr_expect(read.stream_count == 3 && read.streams[2].name == 7);
    cr_assert(read.use_count == 3);
    cr_expect(read.uses[0].block == 0 && read.uses[0].stream == 1);
    cr_expect(read.uses[1].block == 0 && read.uses[1].stream == 2);
    cr_expect(read.uses[2].block == 1 && read.uses[2].stream == 0);
    trace_free(&read);
}

Test(events, a_malformed_side_file_names_file_line_and_reason)
{
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "t.streams.csv:1: the header is not \"time_us,event,id,stream\""},
        {"time_us,event,id\n", "t.streams.csv:1: the header is not"},
        {"time_us,event,id,stream\n1,use,0\n", "t.streams.csv:2: 3 fields where there are 4"},
        {"time_us,event,id,stream\n1,used,0,1\n", ":2: event \"used\" is neither use nor reusable"},
        {"time_us,event,id,stream\na,use,0,1\n", ":2: time_us \"a\" is not a number"},
        {"time_us,event,id,stream\n2,use,0,1\n1,use,0,1\n", ":3: time_us 1 is less than the 2"},
        {"time_us,event,id,stream\n1,use,a,1\n", ":2: id \"a\" is not a number"},
        {"time_us,event,id,stream\n1,use,2,1\n", ":2: id 2 has no alloc in "},
        {"time_us,event,id,stream\n1,use,0,a\n", ":2: stream \"a\" is not a number"},
        {"time_us,event,id,stream\n1,reusable,0,1\n",
         ":2: reusable on stream 1, which id 0 is not of"},
    };
    trace read;
    problem why;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path = folder_write("t.csv", TWO_BLOCKS);
        (void)folder_write("t.streams.csv", cases[i].text);
        cr_assert(!trace_load(&read, path, &why), "case %zu", i);
        cr_expect(strstr(why.text, cases[i].reason) != NULL, "\"%s\" does not say \"%s\"", why.text,
                  cases[i].reason);
    }
}

Test(events, a_side_file_is_no_trace)
{
    static const char reason[] = "this is not a trace but the stream uses that belong to one";
    static const char text[] = "time_us,event,id,stream\n2,use,1,0\n";

    expect_refused(folder_write("t.streams.csv", text), reason);
    expect_refused(folder_write_gzip("t.streams.csv.gz", text), reason);
    /* By its content too, under another name. */
    expect_refused(folder_write("other.csv", text), reason);
}
