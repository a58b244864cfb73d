/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

bool trace_grow(void **array, size_t *capacity, size_t count, size_t element_size)
{
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity == 0 ? 16 : *capacity * 2;
    void *grown = reallocarray(*array, wanted, element_size);
    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *capacity = wanted;
    return true;
}

bool trace_add_row(trace *out, const lines *in, trace_row row, problem *why)
{
    void *rows = out->rows;

    if (!trace_grow(&rows, &out->row_capacity, out->row_count, sizeof(*out->rows))) {
        return problem_no_memory(why);
    }
    out->rows = rows;
    row.line = in->number;
    out->rows[out->row_count++] = row;
    return true;
}

/* Every stream and every thread of a trace becomes a real one, and is looked for one by one. */
enum { MOST_STREAMS = 4096, MOST_THREADS = 1024 };

bool trace_find_stream(trace *out, const lines *in, trace_stream stream, uint32_t *index,
                       problem *why)
{
    void *streams = out->streams;

    for (size_t i = 0; i < out->stream_count; i++) {
        if (out->streams[i].name == stream.name) {
            *index = (uint32_t)i;
            return true;
        }
    }
    if (out->stream_count == MOST_STREAMS) {
        return lines_malformed(in, why, "more than %d streams", MOST_STREAMS);
    }
    if (!trace_grow(&streams, &out->stream_capacity, out->stream_count, sizeof(*out->streams))) {
        return problem_no_memory(why);
    }
    out->streams = streams;
    *index = (uint32_t)out->stream_count;
    out->streams[out->stream_count++] = stream;
    return true;
}

bool trace_find_thread(trace *out, const lines *in, uint64_t name, uint32_t *index, problem *why)
{
    void *threads = out->threads;

    for (size_t i = 0; i < out->thread_count; i++) {
        if (out->threads[i] == name) {
            *index = (uint32_t)i;
            return true;
        }
    }
    if (out->thread_count == MOST_THREADS) {
        return lines_malformed(in, why, "more than %d threads", MOST_THREADS);
    }
    if (!trace_grow(&threads, &out->thread_capacity, out->thread_count, sizeof(*out->threads))) {
        return problem_no_memory(why);
    }
    out->threads = threads;
    *index = (uint32_t)out->thread_count;
    out->threads[out->thread_count++] = name;
    return true;
}

static bool is_side_file(const char *path, problem *why)
{
    return problem_set(why,
                       "%s: this is not a trace but the stream uses that belong to one; name the "
                       "trace, and the file beside it is read with it",
                       path);
}

static bool read_rows(trace *out, lines *in, problem *why)
{
    lines_result result = lines_next(in, why);
    if (result != LINES_GOT) {
        return result == LINES_END ? lines_malformed(in, why, "the file is empty") : false;
    }
    if (strcmp(in->text, events_header) == 0) {
        return events_read(out, in, why) && streams_file_load(out, why);
    }
    if (strcmp(in->text, rmm_log_header) == 0) {
        return rmm_log_read(out, in, why);
    }
    if (strcmp(in->text, streams_file_header) == 0) {
        return is_side_file(out->path, why);
    }
    return lines_malformed(in, why, "the header is neither \"%s\" nor \"%s\"", events_header,
                           rmm_log_header);
}

bool trace_load(trace *out, const char *path, problem *why)
{
    lines in;

    if (streams_file_is(path)) {
        return is_side_file(path, why);
    }
    *out = (trace){.path = strdup(path)};
    if (out->path == NULL) {
        return problem_no_memory(why);
    }
    bool good = lines_open(&in, path, why);
    if (good) {
        good = read_rows(out, &in, why);
        lines_close(&in);
    }
    if (!good) {
        trace_free(out);
    }
    return good;
}

void trace_free(trace *out)
{
    free(out->path);
    free(out->rows);
    free(out->streams);
    free(out->threads);
    free(out->uses);
    *out = (trace){0};
}

size_t trace_peak_live(const trace *of)
{
    size_t live = 0;
    size_t peak = 0;

    for (size_t i = 0; i < of->row_count; i++) {
        const trace_row *row = &of->rows[i];
        if (row->block == TRACE_NO_BLOCK) {
            continue;
        }
        if (row->action == TRACE_FREE) {
            live -= row->bytes;
        } else if (__builtin_add_overflow(live, row->bytes, &live)) {
            return SIZE_MAX;
        }
        peak = live > peak ? live : peak;
    }
    return peak;
}
