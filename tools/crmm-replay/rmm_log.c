/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a logging adaptor, RMM's or crmm's. */
#include <string.h>

#include "log_events.h"
#include "number.h"

const char rmm_log_header[] = "Thread,Time,Action,Pointer,Size,Stream";

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

static bool read_row(log_events *to)
{
    lines *in = to->in;
    char *fields[6];
    log_event event = {0};

    if (!lines_split(in, fields, 6, rmm_log_header, to->why)) {
        return false;
    }
    if (!number_decimal(fields[0], &event.thread)) {
        return lines_malformed(in, to->why, "Thread \"%s\" is not a number", fields[0]);
    }
    if (!is_time(fields[1])) {
        return lines_malformed(in, to->why, "Time \"%s\" is not HH:MM:SS.uuuuuu", fields[1]);
    }
    if (!read_action(fields[2], &event.action)) {
        return lines_malformed(
            in, to->why, "Action \"%s\" is none of allocate, free and allocate failure", fields[2]);
    }
    if (!read_pointer(fields[3], &event.address)) {
        return lines_malformed(in, to->why, "Pointer \"%s\" is not an address", fields[3]);
    }
    if (!number_decimal(fields[4], &event.bytes)) {
        return lines_malformed(in, to->why, "Size \"%s\" is not a number", fields[4]);
    }
    if (!number_address(fields[5], &event.stream)) {
        return lines_malformed(in, to->why, "Stream \"%s\" is not a number", fields[5]);
    }
    return log_events_add(to, &event);
}

bool rmm_log_read(trace *out, lines *in, problem *why)
{
    log_events to = {.out = out, .in = in, .why = why};
    lines_result result = LINES_GOT;
    bool good = true;

    while (good && (result = lines_next(in, why)) == LINES_GOT) {
        good = read_row(&to);
    }
    log_events_finish(&to);
    return good && result == LINES_END;
}
