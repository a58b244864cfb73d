/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "churn.h"
#include "streams.h"
#include "tasks.h"

void churn_begin(worker *self, churn *of)
{
    of->count = self->of->parameter;
    of->blocks = worker_zeroed(of->count, sizeof(*of->blocks));
    for (size_t i = 0; i < of->count && !self->has_failed; i++) {
        of->blocks[i].bytes = draw_size(draw(&self->random));
        if (!worker_allocate(self, self->streams[0], of->blocks[i].bytes, &of->blocks[i].ptr)) {
            of->blocks[i].ptr = NULL;
            return;
        }
    }
    for (uint64_t i = 0; i < self->of->warm_up && !worker_should_stop(self); i++) {
        if (!churn_step(self, of)) {
            return;
        }
    }
}

void churn_end(worker *self, churn *of)
{
    for (size_t i = 0; i < of->count; i++) {
        if (of->blocks[i].ptr != NULL) {
            worker_free(self, self->streams[0], of->blocks[i].ptr, of->blocks[i].bytes);
        }
    }
    free(of->blocks);
}

static void begin(worker *self)
{
    self->state = worker_zeroed(1, sizeof(churn));
    churn_begin(self, self->state);
}

static void run(worker *self, uint64_t most)
{
    churn *own = self->state;
    uint64_t done = 0;

    if (self->of->is_busy) {
        streams_hold(self->streams, self->of->streams);
    }
    worker_begin(self);
    while (done < most && !worker_should_stop(self) && churn_step(self, own)) {
        done++;
    }
    worker_end(self);
    self->steps = done;
    if (self->of->is_busy) {
        streams_let_go();
    }
}

static void end(worker *self)
{
    churn_end(self, self->state);
    free(self->state);
}

const task_class churn_task = {.begin = begin, .run = run, .end = end};
