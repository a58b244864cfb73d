/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_LOG_EVENTS_H
#define CRMM_REPLAY_LOG_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

/* A row of a logging adaptor, whatever form it was read from. */
typedef struct log_event {
    trace_action action;
    uint64_t thread;
    uint64_t address;
    uint64_t bytes;
    uint64_t stream; /* the handle */
} log_event;

/*
 * Makes a trace of the rows of a log, in which blocks are told apart by address, which may be used
 * again.
 */
typedef struct log_events {
    trace *out;
    lines *in;
    problem *why;
    void *live; /* tree of the blocks that are live, by address */
} log_events;

/* Append the event of the row just read. */
bool log_events_add(log_events *to, const log_event *event);
void log_events_finish(log_events *to);

#endif
