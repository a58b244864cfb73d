/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "streams.h"
#include "tasks.h"

/* Block k is the k-th that was allocated; its place is k modulo HANDOFF_BLOCKS. */
typedef struct handoff {
    void *blocks[HANDOFF_BLOCKS];
    uint64_t first; /* block that has not been given back */
    uint64_t next;  /* block that has not been allocated */
} handoff;

typedef struct route {
    size_t allocates; /* indices of streams */
    size_t frees;
} route;

/* Neighbours, and each stream is both. */
static route route_around(uint64_t number)
{
    return (route){(size_t)(3 * number % HANDOFF_STREAMS),
                   (size_t)((3 * number + 1) % HANDOFF_STREAMS)};
}

/* A producer and its consumer. */
static route route_across(uint64_t number)
{
    size_t half = HANDOFF_STREAMS / 2;
    return (route){half + (size_t)(number % half), (size_t)(number % half)};
}

static bool allocate_next(worker *self, handoff *own, route (*route_of)(uint64_t))
{
    crmm_stream stream = self->streams[route_of(own->next).allocates];

    if (!worker_allocate(self, stream, HANDOFF_BYTES, &own->blocks[own->next % HANDOFF_BLOCKS])) {
        return false;
    }
    own->next++;
    return true;
}

static void free_first(worker *self, handoff *own, route (*route_of)(uint64_t))
{
    worker_free(self, self->streams[route_of(own->first).frees],
                own->blocks[own->first % HANDOFF_BLOCKS], HANDOFF_BYTES);
    own->first++;
}

/*
 * A program may give a block back on another stream only after it has ordered that stream after the
 * block's own. This orders all that was allocated so far, so between two of these no block may be
 * both allocated and given back. It is the program's work, not the allocator's, and is not timed.
 */
static void order_streams(const worker *self, route (*route_of)(uint64_t))
{
    for (uint64_t i = 0; i < HANDOFF_STREAMS; i++) {
        route along = route_of(i);
        streams_order(self->streams[along.allocates], self->streams[along.frees]);
    }
}

static uint64_t do_lap(worker *self, uint64_t most, route (*route_of)(uint64_t))
{
    handoff *own = self->state;
    uint64_t done = 0;

    while (done < most && !worker_should_stop(self)) {
        free_first(self, own, route_of);
        if (!allocate_next(self, own, route_of)) {
            break;
        }
        done++;
    }
    return done;
}

static void do_steps(worker *self, uint64_t most, route (*route_of)(uint64_t))
{
    uint64_t longest = streams_are_real() ? HANDOFF_BLOCKS : most;
    uint64_t lap = 0;
    uint64_t done = 0;

    self->steps = 0;
    do {
        lap = most - self->steps < longest ? most - self->steps : longest;
        order_streams(self, route_of);
        worker_begin(self);
        done = do_lap(self, lap, route_of);
        worker_end(self);
        self->steps += done;
    } while (done == lap && self->steps < most);
}

static void begin(worker *self, route (*route_of)(uint64_t))
{
    handoff *own = worker_zeroed(1, sizeof(*own));

    self->state = own;
    while (own->next < HANDOFF_BLOCKS && allocate_next(self, own, route_of)) {
    }
    if (own->next == HANDOFF_BLOCKS) {
        do_steps(self, self->of->warm_up, route_of);
    }
}

static void run(worker *self, uint64_t most, route (*route_of)(uint64_t))
{
    if (self->of->is_busy) {
        streams_hold(self->streams, self->of->streams);
    }
    do_steps(self, most, route_of);
    if (self->of->is_busy) {
        streams_let_go();
    }
}

static void end(worker *self, route (*route_of)(uint64_t))
{
    handoff *own = self->state;

    order_streams(self, route_of);
    while (own->first < own->next) {
        free_first(self, own, route_of);
    }
    free(own);
}

static void begin_around(worker *self)
{
    begin(self, route_around);
}

static void run_around(worker *self, uint64_t most)
{
    run(self, most, route_around);
}

static void end_around(worker *self)
{
    end(self, route_around);
}

static void begin_across(worker *self)
{
    begin(self, route_across);
}

static void run_across(worker *self, uint64_t most)
{
    run(self, most, route_across);
}

static void end_across(worker *self)
{
    end(self, route_across);
}

const task_class handoff_around_task = {
    .begin = begin_around, .run = run_around, .end = end_around};
const task_class handoff_across_task = {
    .begin = begin_across, .run = run_across, .end = end_across};
