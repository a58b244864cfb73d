/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV of RMM's logging adaptor: blocks are told apart by address, which may be used again. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "trace.h"

const char rmm_log_header[] = "Thread,Time,Action,Pointer,Size,Stream";

typedef struct live_block {
    uint64_t address; /* first: the key */
    size_t bytes;
    uint32_t number;
    uint32_t line;
} live_block;

typedef struct reader {
    trace *out;
    lines *in;
    problem *why;
    void *live; /* tree of live_block by address */
} reader;

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const live_block *)a)->address;
    uint64_t right = ((const live_block *)b)->address;

    return left < right ? -1 : left > right;
}

/* ---- fields ---- */

static bool two_digits(const char *text, unsigned most)
{
    return text[0] >= '0' && text[0] <= '9' && text[1] >= '0' && text[1] <= '9' &&
           (unsigned)(text[0] - '0') * 10 + (unsigned)(text[1] - '0') <= most;
}

/*
 * HH:MM:SS and microseconds. Only its form is checked: it is local time, which starts again at
 * midnight and is taken before threads get in line for the file.
 */
static bool is_time(const char *text)
{
    if (strlen(text) != sizeof("HH:MM:SS.uuuuuu") - 1) {
        return false;
    }
    return two_digits(text, 23) && text[2] == ':' && two_digits(text + 3, 59) && text[5] == ':' &&
           two_digits(text + 6, 60) && text[8] == '.' && two_digits(text + 9, 99) &&
           two_digits(text + 11, 99) && two_digits(text + 13, 99);
}

static bool read_action(const char *text, trace_action *action)
{
    if (strcmp(text, "allocate") == 0) {
        *action = TRACE_ALLOCATE;
    } else if (strcmp(text, "free") == 0) {
        *action = TRACE_FREE;
    } else if (strcmp(text, "allocate failure") == 0) {
        *action = TRACE_FAILED_ALLOCATE;
    } else {
        return false;
    }
    return true;
}

static bool read_pointer(const char *text, uint64_t *address)
{
    if (strcmp(text, "(nil)") == 0) {
        *address = 0;
        return true;
    }
    return number_address(text, address);
}

/* Handles 0 and 1 are both the legacy default stream and 2 is the per-thread one, as in CUDA. */
static bool read_stream(reader *from, const char *text, uint32_t *index)
{
    trace_stream stream = {.kind = TRACE_STREAM_OWN};

    if (!number_address(text, &stream.name)) {
        return lines_malformed(from->in, from->why, "Stream \"%s\" is not a number", text);
    }
    if (stream.name <= 1) {
        stream = (trace_stream){.name = 0, .kind = TRACE_STREAM_LEGACY};
    } else if (stream.name == 2) {
        stream.kind = TRACE_STREAM_PER_THREAD;
    }
    return trace_find_stream(from->out, from->in, stream, index, from->why);
}

/* ---- rows ---- */

static bool add_live(reader *from, uint64_t address, trace_row *row)
{
    if (from->out->block_count == TRACE_NO_BLOCK) {
        return lines_malformed(from->in, from->why, "more allocations than can be replayed");
    }
    live_block *added = malloc(sizeof(*added));
    if (added == NULL) {
        return problem_no_memory(from->why);
    }
    *added = (live_block){.address = address,
                          .bytes = row->bytes,
                          .number = (uint32_t)from->out->block_count,
                          .line = from->in->number};
    live_block **found = tsearch(added, &from->live, by_address);
    if (found == NULL) {
        free(added);
        return problem_no_memory(from->why);
    }
    if (*found != added) {
        free(added);
        return lines_malformed(from->in, from->why,
                               "allocate of Pointer 0x%llx, which is live since line %u",
                               (unsigned long long)address, (*found)->line);
    }
    row->block = added->number;
    from->out->block_count++;
    return true;
}

static bool take_live(reader *from, uint64_t address, trace_row *row)
{
    live_block key = {.address = address};
    live_block **found = tfind(&key, &from->live, by_address);

    if (found == NULL) {
        return lines_malformed(from->in, from->why, "free of Pointer 0x%llx, which is not live",
                               (unsigned long long)address);
    }
    live_block *taken = *found;
    if (taken->bytes != row->bytes) {
        return lines_malformed(from->in, from->why,
                               "free of Pointer 0x%llx with Size %zu, which line %u gave %zu",
                               (unsigned long long)address, row->bytes, taken->line, taken->bytes);
    }
    row->block = taken->number;
    (void)tdelete(&key, &from->live, by_address);
    free(taken);
    return true;
}

/* Give the row its block. What has no bytes or no address has none: it is asked for and given back
 * as nothing. */
static bool find_block(reader *from, uint64_t address, trace_row *row)
{
    row->block = TRACE_NO_BLOCK;
    switch (row->action) {
    case TRACE_ALLOCATE:
        if (address == 0 && row->bytes > 0) {
            return lines_malformed(from->in, from->why, "allocate of %zu bytes without a Pointer",
                                   row->bytes);
        }
        return row->bytes == 0 || add_live(from, address, row);
    case TRACE_FREE:
        return row->bytes == 0 || address == 0 || take_live(from, address, row);
    case TRACE_FAILED_ALLOCATE:
        return address == 0 ||
               lines_malformed(from->in, from->why, "allocate failure with Pointer 0x%llx",
                               (unsigned long long)address);
    }
    return false;
}

static bool read_row(reader *from)
{
    char *fields[6];
    trace_row row = {0};
    uint64_t thread = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;

    if (!lines_split(from->in, fields, 6, rmm_log_header, from->why)) {
        return false;
    }
    if (!number_decimal(fields[0], &thread)) {
        return lines_malformed(from->in, from->why, "Thread \"%s\" is not a number", fields[0]);
    }
    if (!is_time(fields[1])) {
        return lines_malformed(from->in, from->why, "Time \"%s\" is not HH:MM:SS.uuuuuu",
                               fields[1]);
    }
    if (!read_action(fields[2], &row.action)) {
        return lines_malformed(from->in, from->why,
                               "Action \"%s\" is none of allocate, free and allocate failure",
                               fields[2]);
    }
    if (!read_pointer(fields[3], &address)) {
        return lines_malformed(from->in, from->why, "Pointer \"%s\" is not an address", fields[3]);
    }
    if (!number_decimal(fields[4], &bytes)) {
        return lines_malformed(from->in, from->why, "Size \"%s\" is not a number", fields[4]);
    }
    row.bytes = bytes;
    return read_stream(from, fields[5], &row.stream) &&
           trace_find_thread(from->out, from->in, thread, &row.thread, from->why) &&
           find_block(from, address, &row) && trace_add_row(from->out, from->in, row, from->why);
}

bool rmm_log_read(trace *out, lines *in, problem *why)
{
    reader from = {.out = out, .in = in, .why = why};
    lines_result result = LINES_GOT;
    bool good = true;

    while (good && (result = lines_next(in, why)) == LINES_GOT) {
        good = read_row(&from);
    }
    tdestroy(from.live, free);
    return good && result == LINES_END;
}
