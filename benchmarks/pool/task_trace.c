/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tasks.h"
#include "trace.h"

static trace loaded;

void trace_task_load(const char *path)
{
    problem why;

    if (!trace_load(&loaded, path, &why)) {
        bench_fail("%s", why.text);
    }
}

size_t trace_task_rows(void)
{
    return loaded.row_count;
}

size_t trace_task_streams(void)
{
    return loaded.stream_count;
}

void trace_task_unload(void)
{
    trace_free(&loaded);
}

typedef struct live_row {
    void *ptr; /* NULL: not live */
    size_t bytes;
    uint32_t stream;
} live_row;

static bool do_row(worker *self, live_row *blocks, const trace_row *row)
{
    live_row *block = &blocks[row->block];
    crmm_stream stream = self->streams[row->stream];

    if (row->action == TRACE_ALLOCATE) {
        block->bytes = row->bytes;
        block->stream = row->stream;
        return worker_allocate(self, stream, row->bytes, &block->ptr);
    }
    if (row->action == TRACE_FREE && block->ptr != NULL) {
        worker_free(self, stream, block->ptr, block->bytes);
        block->ptr = NULL;
    }
    return true;
}

/* What the program itself had not given back. */
static void free_rest(worker *self, live_row *blocks)
{
    for (size_t i = 0; i < loaded.block_count; i++) {
        if (blocks[i].ptr != NULL) {
            worker_free(self, self->streams[blocks[i].stream], blocks[i].ptr, blocks[i].bytes);
            blocks[i].ptr = NULL;
        }
    }
}

static uint64_t do_rows(worker *self, live_row *blocks)
{
    uint64_t done = 0;

    for (size_t i = 0; i < loaded.row_count && !worker_should_stop(self); i++) {
        const trace_row *row = &loaded.rows[i];
        if (row->block != TRACE_NO_BLOCK && !do_row(self, blocks, row)) {
            break;
        }
        done++;
    }
    return done;
}

static void begin(worker *self)
{
    self->state = worker_zeroed(loaded.block_count, sizeof(live_row));
    if (self->of->warm_up > 0) {
        (void)do_rows(self, self->state);
    }
}

static void run(worker *self, uint64_t most)
{
    (void)most;
    free_rest(self, self->state);
    worker_begin(self);
    self->steps = do_rows(self, self->state);
    worker_end(self);
}

static void end(worker *self)
{
    free_rest(self, self->state);
    free(self->state);
}

const task_class trace_task = {.begin = begin, .run = run, .end = end};
