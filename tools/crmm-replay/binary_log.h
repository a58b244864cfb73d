/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_BINARY_LOG_H
#define CRMM_REPLAY_BINARY_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "log_events.h"

/* Reads the binary form of crmm's logging adaptor, as docs/log-format.md describes it. */
typedef struct binary_log {
    lines *in;
    problem *why;
    uint64_t start;     /* nanoseconds since the epoch */
    int32_t utc_offset; /* seconds that local time was ahead */
    uint32_t process;
    int32_t device; /* -1: none */
    unsigned char uuid[16];
    /* Of the latest record, on which the next one builds. */
    uint64_t time; /* nanoseconds since the epoch */
    uint64_t address;
    uint64_t stream;
    uint64_t thread;
} binary_log;

/* Read the rest of the header of a file whose first line has just been read. */
bool binary_log_begin(binary_log *log, lines *in, problem *why);

/* Read a record. Its number, in what `in` says of problems, is the line it has as text. */
lines_result binary_log_next(binary_log *log, log_event *event);

#endif
