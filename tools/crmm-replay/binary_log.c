/* SPDX-License-Identifier: Apache-2.0 */
#include "binary_log.h"

#include <string.h>

const char binary_log_header[] = "CRMMLOG";

enum { VERSION = 1, HEADER_SIZE = 64, LARGEST_HEADER = 4096 };

/* ---- the header ---- */

static uint64_t fixed(const unsigned char *bytes, unsigned count)
{
    uint64_t value = 0;

    for (unsigned i = count; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

static bool cut_off(binary_log *log)
{
    return lines_failed(log->in, log->why) ||
           lines_malformed(log->in, log->why, "the file ends within %s",
                           log->in->number == 1 ? "its header" : "a record");
}

/* Later versions may say more there. */
static bool skip(binary_log *log, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (gzgetc(log->in->file) < 0) {
            (void)cut_off(log);
            return false;
        }
    }
    return true;
}

bool binary_log_begin(binary_log *log, lines *in, problem *why)
{
    unsigned char header[HEADER_SIZE];
    const unsigned magic = sizeof(binary_log_header); /* with its newline */

    *log = (binary_log){.in = in, .why = why};
    if (gzread(in->file, header + magic, HEADER_SIZE - magic) != (int)(HEADER_SIZE - magic)) {
        (void)cut_off(log);
        return false;
    }
    uint64_t version = fixed(header + 8, 4);
    uint64_t size = fixed(header + 12, 4);
    if (version != VERSION) {
        return lines_malformed(in, why, "version %llu of the binary log, but %d is known",
                               (unsigned long long)version, VERSION);
    }
    if (size < HEADER_SIZE || size > LARGEST_HEADER) {
        return lines_malformed(in, why, "a header of %llu bytes", (unsigned long long)size);
    }
    log->start = fixed(header + 16, 8);
    log->utc_offset = (int32_t)(uint32_t)fixed(header + 24, 4);
    log->process = (uint32_t)fixed(header + 28, 4);
    log->device = (int32_t)(uint32_t)fixed(header + 32, 4);
    memcpy(log->uuid, header + 40, sizeof(log->uuid));
    log->time = log->start;
    return skip(log, size - HEADER_SIZE);
}

/* ---- records ---- */

static bool read_varint(binary_log *log, uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        int byte = gzgetc(log->in->file);
        if (byte < 0) {
            (void)cut_off(log);
            return false;
        }
        if (shift == 63 && byte > 1) {
            break;
        }
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
    return lines_malformed(log->in, log->why, "a number of more than 64 bits");
}

/* A difference to what was before. */
static bool read_delta(binary_log *log, uint64_t *value)
{
    uint64_t delta = 0;

    if (!read_varint(log, &delta)) {
        return false;
    }
    *value += (delta >> 1) ^ (0 - (delta & 1));
    return true;
}

enum { ACTION = 3, SAME_THREAD = 4, SAME_STREAM = 8, KNOWN_BITS = 15 };

static bool read_action(binary_log *log, unsigned tag, trace_action *action)
{
    static const trace_action actions[] = {TRACE_ALLOCATE, TRACE_FAILED_ALLOCATE, TRACE_FREE};

    if ((tag & ACTION) == ACTION || (tag & ~(unsigned)KNOWN_BITS) != 0) {
        (void)lines_malformed(log->in, log->why, "0x%02x begins no record", tag);
        return false;
    }
    *action = actions[tag & ACTION];
    return true;
}

/* What follows the first byte, in order. */
static bool read_rest(binary_log *log, unsigned tag, log_event *event)
{
    uint64_t status = 0;

    if (!read_delta(log, &log->time)) {
        return false;
    }
    if ((tag & SAME_THREAD) == 0 && !read_varint(log, &log->thread)) {
        return false;
    }
    if ((tag & SAME_STREAM) == 0 && !read_varint(log, &log->stream)) {
        return false;
    }
    bool failed = event->action == TRACE_FAILED_ALLOCATE;
    if (!(failed ? read_varint(log, &status) : read_delta(log, &log->address))) {
        return false;
    }
    event->thread = log->thread;
    event->stream = log->stream;
    event->address = failed ? 0 : log->address;
    return read_varint(log, &event->bytes);
}

lines_result binary_log_next(binary_log *log, log_event *event)
{
    int tag = gzgetc(log->in->file);

    log->in->number++;
    if (tag < 0) {
        return lines_failed(log->in, log->why) ? LINES_FAILED : LINES_END;
    }
    return read_action(log, (unsigned)tag, &event->action) && read_rest(log, (unsigned)tag, event)
               ? LINES_GOT
               : LINES_FAILED;
}

bool binary_log_read(trace *out, lines *in, problem *why)
{
    log_events to = {.out = out, .in = in, .why = why};
    binary_log log;
    log_event event;
    lines_result result = LINES_GOT;

    bool good = binary_log_begin(&log, in, why);
    while (good && (result = binary_log_next(&log, &event)) == LINES_GOT) {
        good = log_events_add(&to, &event);
    }
    log_events_finish(&to);
    return good && result == LINES_END;
}
