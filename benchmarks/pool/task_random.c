/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "random.h"
#include "tasks.h"

enum { ALLOCATIONS = 1000, CALLS = 2 * ALLOCATIONS, ALLOCATE_PERCENT = 73 };

#define MOST_LIVE ((size_t)20000 << 20)

/* Drawn beforehand: what is live is known without asking the resource. */
typedef struct drawn_call {
    size_t bytes; /* 0: a free */
    size_t index; /* of the block that goes; the last one takes its place */
} drawn_call;

typedef struct random_state {
    drawn_call calls[CALLS];
    struct {
        void *ptr;
        size_t bytes;
    } blocks[ALLOCATIONS];
    size_t count; /* of blocks */
} random_state;

static void draw_calls(random_state *own, uint64_t *random, size_t most_bytes)
{
    size_t sizes[ALLOCATIONS];
    size_t live = 0;
    size_t count = 0;

    for (size_t i = 0; i < CALLS; i++) {
        size_t bytes = 1 + draw_index(draw(random), most_bytes);
        bool wants = draw_index(draw(random), 100) < ALLOCATE_PERCENT;
        /* What is left suffices to free all: as many calls of either kind in the end. */
        bool can = CALLS - i > count && live + bytes < MOST_LIVE;
        if (count == 0 || (wants && can)) {
            own->calls[i] = (drawn_call){.bytes = bytes};
            sizes[count++] = bytes;
            live += bytes;
        } else {
            size_t index = draw_index(draw(random), ALLOCATIONS) % count;
            own->calls[i] = (drawn_call){.index = index};
            live -= sizes[index];
            sizes[index] = sizes[--count];
        }
    }
}

static void free_block(worker *self, random_state *own, size_t index)
{
    worker_free(self, self->streams[0], own->blocks[index].ptr, own->blocks[index].bytes);
    own->blocks[index] = own->blocks[--own->count];
}

static bool do_pass(worker *self, random_state *own)
{
    for (size_t i = 0; i < CALLS; i++) {
        size_t bytes = own->calls[i].bytes;
        if (bytes == 0) {
            free_block(self, own, own->calls[i].index);
        } else {
            if (!worker_allocate(self, self->streams[0], bytes, &own->blocks[own->count].ptr)) {
                return false;
            }
            own->blocks[own->count++].bytes = bytes;
        }
    }
    return true;
}

static void begin(worker *self)
{
    random_state *own = worker_zeroed(1, sizeof(*own));

    self->state = own;
    draw_calls(own, &self->random, self->of->parameter);
    for (uint64_t done = 0; done < self->of->warm_up && do_pass(self, own); done += CALLS) {
    }
}

/* Whole passes; a pass ends with nothing live. */
static void run(worker *self, uint64_t most)
{
    random_state *own = self->state;
    uint64_t done = 0;
    worker_begin(self);

    while (done < most && !worker_should_stop(self) && do_pass(self, own)) {
        done += CALLS;
    }
    worker_end(self);
    self->steps = done;
}

static void end(worker *self)
{
    random_state *own = self->state;

    while (own->count > 0) {
        free_block(self, own, own->count - 1);
    }
    free(own);
}

const task_class random_task = {.begin = begin, .run = run, .end = end};
