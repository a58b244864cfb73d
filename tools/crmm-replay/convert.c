/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "binary_log.h"

static const char *action_name(trace_action action)
{
    switch (action) {
    case TRACE_ALLOCATE:
        return "allocate";
    case TRACE_FREE:
        return "free";
    case TRACE_FAILED_ALLOCATE:
        return "allocate failure";
    }
    return "";
}

/* As RMM prints a handle: 0 has no prefix. */
static void print_stream(FILE *out, uint64_t stream)
{
    (void)fprintf(out, stream == 0 ? "0\n" : "0x%llx\n", (unsigned long long)stream);
}

static void print_row(FILE *out, const binary_log *log, const log_event *event)
{
    /* Time of day where it was recorded. */
    uint64_t second = (log->time / 1000000000 + (uint64_t)(int64_t)log->utc_offset) % 86400;

    (void)fprintf(out, "%llu,%02u:%02u:%02u.%06u,%s,", (unsigned long long)event->thread,
                  (unsigned)(second / 3600), (unsigned)(second / 60 % 60), (unsigned)(second % 60),
                  (unsigned)(log->time % 1000000000 / 1000), action_name(event->action));
    if (event->address == 0) {
        (void)fprintf(out, "(nil),");
    } else {
        (void)fprintf(out, "0x%llx,", (unsigned long long)event->address);
    }
    (void)fprintf(out, "%llu,", (unsigned long long)event->bytes);
    print_stream(out, event->stream);
}

static bool convert_rows(lines *in, FILE *out, problem *why)
{
    binary_log log;
    log_event event;
    lines_result result = LINES_END;

    if (!binary_log_begin(&log, in, why)) {
        return false;
    }
    (void)fprintf(out, "%s\n", rmm_log_header);
    while ((result = binary_log_next(&log, &event)) == LINES_GOT) {
        print_row(out, &log, &event);
    }
    return result == LINES_END;
}

/* Whether the log is there and binary; its first line has been read then. */
static bool is_binary(lines *in, problem *why)
{
    lines_result result = lines_next(in, why);

    if (result == LINES_FAILED) {
        return false;
    }
    return (result == LINES_GOT && strcmp(in->text, binary_log_header) == 0) ||
           lines_malformed(in, why, "this is not a binary log of crmm");
}

static bool is_same_file(const char *from, const char *to)
{
    struct stat of_from;
    struct stat of_to;

    return stat(from, &of_from) == 0 && stat(to, &of_to) == 0 && of_from.st_dev == of_to.st_dev &&
           of_from.st_ino == of_to.st_ino;
}

static convert_outcome not_written(const char *to, problem *why)
{
    (void)problem_set(why, "%s: cannot be written: %s", to, strerror(errno));
    return CONVERT_NOT_WRITTEN;
}

static convert_outcome convert_into(lines *in, const char *to, problem *why)
{
    bool to_standard = strcmp(to, "-") == 0;
    FILE *out = to_standard ? stdout : fopen(to, "w");

    if (out == NULL) {
        return not_written(to, why);
    }
    bool good = convert_rows(in, out, why);
    bool written = fflush(out) == 0 && ferror(out) == 0;
    if (!to_standard && fclose(out) != 0) {
        written = false;
    }
    if (!written) {
        return not_written(to, why);
    }
    return good ? CONVERT_DONE : CONVERT_MALFORMED;
}

convert_outcome convert_log(const char *from, const char *to, problem *why)
{
    lines in;

    if (is_same_file(from, to)) {
        (void)problem_set(why, "%s: cannot be converted into itself", from);
        return CONVERT_NOT_WRITTEN;
    }
    if (!lines_open(&in, from, why)) {
        return CONVERT_MALFORMED;
    }
    convert_outcome outcome = is_binary(&in, why) ? convert_into(&in, to, why) : CONVERT_MALFORMED;
    lines_close(&in);
    return outcome;
}
