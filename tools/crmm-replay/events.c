/* SPDX-License-Identifier: Apache-2.0 */
/* The format of recorded traces: one row an event, allocations numbered from 0. */
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "trace.h"

const char events_header[] = "time_us,action,id,bytes,stream";

/* What is known of an allocation while the file is read, for the checks of its free. */
typedef struct allocation {
    size_t bytes;
    uint32_t stream;
    uint32_t freed_line; /* 0: it is live */
} allocation;

typedef struct reader {
    trace *out;
    lines *in;
    problem *why;
    uint64_t time;
    allocation *allocations; /* by id */
    size_t capacity;
} reader;

static bool check_time(reader *from, const char *text)
{
    uint64_t time = 0;

    if (!number_decimal(text, &time)) {
        return lines_malformed(from->in, from->why, "time_us \"%s\" is not a number", text);
    }
    if (time < from->time) {
        return lines_malformed(from->in, from->why,
                               "time_us %s is less than the %llu of the row before", text,
                               (unsigned long long)from->time);
    }
    from->time = time;
    return true;
}

static bool read_stream(reader *from, const char *text, uint32_t *index)
{
    trace_stream stream = {.kind = TRACE_STREAM_OWN};

    if (!number_decimal(text, &stream.name)) {
        return lines_malformed(from->in, from->why, "stream \"%s\" is not a number", text);
    }
    if (stream.name == 0) {
        stream.kind = TRACE_STREAM_LEGACY;
    }
    return trace_find_stream(from->out, from->in, stream, index, from->why);
}

static bool read_alloc(reader *from, uint64_t id, trace_row row)
{
    void *allocations = from->allocations;

    if (id != from->out->block_count) {
        return lines_malformed(from->in, from->why,
                               "id %llu of an alloc; ids run without gaps, and the next is %zu",
                               (unsigned long long)id, from->out->block_count);
    }
    if (id == TRACE_NO_BLOCK) {
        return lines_malformed(from->in, from->why, "more allocations than can be replayed");
    }
    if (!trace_grow(&allocations, &from->capacity, from->out->block_count,
                    sizeof(*from->allocations))) {
        return problem_no_memory(from->why);
    }
    from->allocations = allocations;
    from->allocations[id] = (allocation){.bytes = row.bytes, .stream = row.stream};
    from->out->block_count++;

    row.action = TRACE_ALLOCATE;
    row.block = (uint32_t)id;
    return trace_add_row(from->out, from->in, row, from->why);
}

static bool read_free(reader *from, uint64_t id, trace_row row)
{
    if (from->allocations == NULL || id >= from->out->block_count) {
        return lines_malformed(from->in, from->why, "free of id %llu, which has no alloc",
                               (unsigned long long)id);
    }
    allocation *freed = &from->allocations[id];
    if (freed->freed_line != 0) {
        return lines_malformed(from->in, from->why, "free of id %llu, which line %u has freed",
                               (unsigned long long)id, freed->freed_line);
    }
    if (freed->bytes != row.bytes) {
        return lines_malformed(from->in, from->why, "free of id %llu with %zu bytes, which has %zu",
                               (unsigned long long)id, row.bytes, freed->bytes);
    }
    if (freed->stream != row.stream) {
        const trace_stream *streams = from->out->streams;
        return lines_malformed(from->in, from->why,
                               "free of id %llu on stream %llu, which is of stream %llu",
                               (unsigned long long)id, (unsigned long long)streams[row.stream].name,
                               (unsigned long long)streams[freed->stream].name);
    }
    freed->freed_line = from->in->number;

    row.action = TRACE_FREE;
    row.block = (uint32_t)id;
    return trace_add_row(from->out, from->in, row, from->why);
}

static bool read_row(reader *from)
{
    char *fields[5];
    trace_row row = {0};
    uint64_t id = 0;
    uint64_t bytes = 0;

    if (!lines_split(from->in, fields, 5, events_header, from->why) ||
        !check_time(from, fields[0])) {
        return false;
    }
    bool is_alloc = strcmp(fields[1], "alloc") == 0;
    if (!is_alloc && strcmp(fields[1], "free") != 0) {
        return lines_malformed(from->in, from->why, "action \"%s\" is neither alloc nor free",
                               fields[1]);
    }
    if (!number_decimal(fields[2], &id)) {
        return lines_malformed(from->in, from->why, "id \"%s\" is not a number", fields[2]);
    }
    if (!number_decimal(fields[3], &bytes)) {
        return lines_malformed(from->in, from->why, "bytes \"%s\" is not a number", fields[3]);
    }
    if (!read_stream(from, fields[4], &row.stream)) {
        return false;
    }
    row.bytes = bytes;
    return is_alloc ? read_alloc(from, id, row) : read_free(from, id, row);
}

bool events_read(trace *out, lines *in, problem *why)
{
    reader from = {.out = out, .in = in, .why = why};
    uint32_t thread = 0;
    lines_result result = LINES_GOT;

    /* The format does not tell threads apart. */
    bool good = trace_find_thread(out, in, 0, &thread, why);
    while (good && (result = lines_next(in, why)) == LINES_GOT) {
        good = read_row(&from);
    }
    free(from.allocations);
    return good && result == LINES_END;
}
