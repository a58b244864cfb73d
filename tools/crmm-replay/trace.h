/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_TRACE_H
#define CRMM_REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lines.h"
#include "problem.h"

typedef enum trace_action {
    TRACE_ALLOCATE,
    TRACE_FREE,
    TRACE_FAILED_ALLOCATE, /* failed when it was recorded: there is no block */
} trace_action;

/* The block of a row that has none: nothing is given back, or zero bytes were asked for. */
#define TRACE_NO_BLOCK UINT32_MAX

typedef struct trace_row {
    size_t bytes;
    uint32_t block;  /* number of the allocation, from 0, or TRACE_NO_BLOCK */
    uint32_t stream; /* index into trace.streams */
    uint32_t thread; /* index into trace.threads */
    uint32_t line;   /* in the file, whose header is line 1 */
    trace_action action;
} trace_row;

typedef enum trace_stream_kind {
    TRACE_STREAM_LEGACY,
    TRACE_STREAM_PER_THREAD,
    TRACE_STREAM_OWN,
} trace_stream_kind;

typedef struct trace_stream {
    uint64_t name; /* as the file has it */
    trace_stream_kind kind;
} trace_stream;

/* A block was in use on a stream that is not its own when it was freed. */
typedef struct trace_use {
    uint32_t block;
    uint32_t stream;
} trace_use;

/* A recorded program, read once and replayed any number of times. */
typedef struct trace {
    char *path;
    trace_row *rows;
    size_t row_count, row_capacity;
    size_t block_count;
    trace_stream *streams;
    size_t stream_count, stream_capacity;
    uint64_t *threads; /* names, as the file has them */
    size_t thread_count, thread_capacity;
    trace_use *uses; /* sorted by block and stream, none twice */
    size_t use_count, use_capacity;
} trace;

/*
 * Read a trace in any of the formats, with the side file beside it. "-" is standard input. On
 * failure there is nothing to free, and `why` names file, line and reason.
 */
bool trace_load(trace *out, const char *path, problem *why);
void trace_free(trace *out);

/* The most bytes live at any time, were every row served. */
size_t trace_peak_live(const trace *of);

/* ---- for the readers of the formats ---- */

/* Room for one element more in an array that grows: true if `*array` and `*capacity` allow it. */
bool trace_grow(void **array, size_t *capacity, size_t count, size_t element_size);

/* Append the row of the line just read. */
bool trace_add_row(trace *out, const lines *in, trace_row row, problem *why);

/* The index of a stream or thread by its name; a new one is appended. */
bool trace_find_stream(trace *out, const lines *in, trace_stream stream, uint32_t *index,
                       problem *why);
bool trace_find_thread(trace *out, const lines *in, uint64_t name, uint32_t *index, problem *why);

/* ---- the formats; `in` has just read the header ---- */

extern const char events_header[];
bool events_read(trace *out, lines *in, problem *why);

extern const char rmm_log_header[];
bool rmm_log_read(trace *out, lines *in, problem *why);

extern const char streams_file_header[];
/* Read the side file beside `out->path` into `out->uses`, where there is one. */
bool streams_file_load(trace *out, problem *why);
/* Whether a path is named as side files are. */
bool streams_file_is(const char *path);

#endif
