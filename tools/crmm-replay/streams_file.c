/* SPDX-License-Identifier: Apache-2.0 */
/* The side file of a trace: which blocks were in use on streams other than their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "number.h"
#include "trace.h"

const char streams_file_header[] = "time_us,event,id,stream";

typedef struct reader {
    trace *out;
    lines *in;
    problem *why;
    uint64_t time;
    const uint32_t *own; /* stream of each block */
} reader;

/* ---- names ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool streams_file_is(const char *path)
{
    return ends_with(path, ".streams.csv") || ends_with(path, ".streams.csv.gz");
}

/* The path of the side file, to be freed; NULL with `*good` where there is none. */
static char *side_path(const char *path, bool *good)
{
    static const char *const trace_ends[] = {".csv.gz", ".csv"};
    static const char *const side_ends[] = {".streams.csv.gz", ".streams.csv"};

    *good = true;
    for (size_t i = 0; i < 2; i++) {
        if (!ends_with(path, trace_ends[i])) {
            continue;
        }
        for (size_t j = 0; j < 2; j++) {
            char *side = NULL;
            int length = (int)(strlen(path) - strlen(trace_ends[i]));
            if (asprintf(&side, "%.*s%s", length, path, side_ends[j]) < 0) {
                *good = false;
                return NULL;
            }
            if (access(side, F_OK) == 0) {
                return side;
            }
            free(side);
        }
        return NULL;
    }
    return NULL;
}

/* ---- rows ---- */

static bool add_use(reader *from, uint32_t block, uint32_t stream)
{
    void *uses = from->out->uses;

    if (!trace_grow(&uses, &from->out->use_capacity, from->out->use_count,
                    sizeof(*from->out->uses))) {
        return problem_no_memory(from->why);
    }
    from->out->uses = uses;
    from->out->uses[from->out->use_count++] = (trace_use){.block = block, .stream = stream};
    return true;
}

static bool read_row(reader *from)
{
    char *fields[4];
    uint64_t time = 0;
    uint64_t id = 0;
    trace_stream stream = {.kind = TRACE_STREAM_OWN};
    uint32_t index = 0;

    if (!lines_split(from->in, fields, 4, streams_file_header, from->why)) {
        return false;
    }
    if (!number_decimal(fields[0], &time)) {
        return lines_malformed(from->in, from->why, "time_us \"%s\" is not a number", fields[0]);
    }
    if (time < from->time) {
        return lines_malformed(from->in, from->why,
                               "time_us %s is less than the %llu of the row before", fields[0],
                               (unsigned long long)from->time);
    }
    from->time = time;
    bool is_use = strcmp(fields[1], "use") == 0;
    if (!is_use && strcmp(fields[1], "reusable") != 0) {
        return lines_malformed(from->in, from->why, "event \"%s\" is neither use nor reusable",
                               fields[1]);
    }
    if (!number_decimal(fields[2], &id)) {
        return lines_malformed(from->in, from->why, "id \"%s\" is not a number", fields[2]);
    }
    if (id >= from->out->block_count) {
        return lines_malformed(from->in, from->why, "id %s has no alloc in %s", fields[2],
                               from->out->path);
    }
    if (!number_decimal(fields[3], &stream.name)) {
        return lines_malformed(from->in, from->why, "stream \"%s\" is not a number", fields[3]);
    }
    if (stream.name == 0) {
        stream.kind = TRACE_STREAM_LEGACY;
    }
    if (!trace_find_stream(from->out, from->in, stream, &index, from->why)) {
        return false;
    }
    bool is_own = index == from->own[id];
    if (!is_use && !is_own) {
        return lines_malformed(from->in, from->why, "reusable on stream %s, which id %s is not of",
                               fields[3], fields[2]);
    }
    /* When a block could be used again was up to the allocator that was recorded: only the uses
     * bind one that is replayed. */
    return !is_use || is_own || add_use(from, (uint32_t)id, index);
}

static bool read_rows(reader *from)
{
    lines_result result = lines_next(from->in, from->why);

    if (result == LINES_FAILED) {
        return false;
    }
    if (result == LINES_END || strcmp(from->in->text, streams_file_header) != 0) {
        return lines_malformed(from->in, from->why, "the header is not \"%s\"",
                               streams_file_header);
    }
    while ((result = lines_next(from->in, from->why)) == LINES_GOT) {
        if (!read_row(from)) {
            return false;
        }
    }
    return result == LINES_END;
}

/* ---- the whole ---- */

static int by_block_and_stream(const void *a, const void *b)
{
    const trace_use *left = a;
    const trace_use *right = b;

    if (left->block != right->block) {
        return left->block < right->block ? -1 : 1;
    }
    return left->stream < right->stream ? -1 : left->stream > right->stream;
}

static void sort_uses(trace *out)
{
    size_t kept = 0;

    if (out->use_count == 0) {
        return;
    }
    qsort(out->uses, out->use_count, sizeof(*out->uses), by_block_and_stream);
    for (size_t i = 1; i < out->use_count; i++) {
        if (by_block_and_stream(&out->uses[kept], &out->uses[i]) != 0) {
            out->uses[++kept] = out->uses[i];
        }
    }
    out->use_count = kept + 1;
}

static bool load(trace *out, const char *path, problem *why)
{
    uint32_t *own = calloc(out->block_count + 1, sizeof(*own));
    lines in;

    if (own == NULL) {
        return problem_no_memory(why);
    }
    for (size_t i = 0; i < out->row_count; i++) {
        if (out->rows[i].action == TRACE_ALLOCATE) {
            own[out->rows[i].block] = out->rows[i].stream;
        }
    }
    bool good = lines_open(&in, path, why);
    if (good) {
        reader from = {.out = out, .in = &in, .why = why, .own = own};
        good = read_rows(&from);
        lines_close(&in);
    }
    free(own);
    return good;
}

bool streams_file_load(trace *out, problem *why)
{
    bool good = true;
    char *path = side_path(out->path, &good);

    if (path == NULL) {
        return good || problem_no_memory(why);
    }
    good = load(out, path, why);
    free(path);
    if (good) {
        sort_uses(out);
    }
    return good;
}
