/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_TEAM_H
#define CRMM_BENCHMARKS_POOL_TEAM_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>

#include "bench.h"

typedef struct worker worker;

/* What the threads of a case do. Each function is called on the worker's thread. */
typedef struct task_class {
    /* Make `state` and the live blocks; with worker_failed() on failure. */
    void (*begin)(worker *self);
    /* Do `most` steps, fewer if told to stop, set `steps`, and time them. */
    void (*run)(worker *self, uint64_t most);
    /* Give everything back, after a failure too. */
    void (*end)(worker *self);
    /* Optional, on the main thread, when the last round is over: add to the result. */
    void (*tell)(worker *const *workers, size_t count, result *to);
} task_class;

/* A thread of a team. On cache lines of its own, as the hot loops write it. */
struct worker {
    const bench_case *of;
    crmm_resource *resource;
    const crmm_stream *streams;
    size_t number;
    uint64_t random;
    size_t live; /* bytes; the main thread looks at it */
    size_t peak;
    const bool *stop; /* asked between steps, relaxed */
    void *state;
    uint64_t steps;       /* of the last round */
    double spent;         /* its nanoseconds */
    double entered, left; /* when it was begun and over */
    double delay;         /* how long others had the processor */
    bool has_processor;   /* of its own, or it is alone: else others are the other workers */
    double part_began;    /* the clock, and the delay until then */
    double part_delay;
    bool has_failed;
    char why[WHY_SIZE];
    struct team *team;
} __attribute__((aligned(128)));

typedef struct team {
    const bench_case *of;
    worker **workers;
    pthread_t *threads;
    size_t count;
    crmm_stream *streams;
    size_t stream_count;
    pthread_barrier_t start;
    sem_t done;
    bool stop;
    bool ends;
    bool is_cut;
    size_t peak_live;
} team;

typedef struct round_figures {
    double ns;         /* a step, mean of the threads */
    double per_second; /* of all threads */
    double delayed;    /* share of the time in which others had the processors */
    uint64_t steps;    /* with those of rounds that had to be run again */
} round_figures;

/* Make the threads and let them begin. False, and why: what the first that failed says. */
bool team_start(team *self, const bench_case *of, crmm_resource *resource, char *why);
/* One round, in which all threads take part. False, and why. */
bool team_round(team *self, round_figures *out, char *why);
/* What the task has to tell. */
void team_tell(const team *self, result *to);
void team_end(team *self);

/* ---- for tasks ---- */

/* Keep why the last call failed. */
void worker_failed(worker *self, const char *what);

/*
 * What is between these two is in `spent`; a run can have several such parts. It is the thread's
 * processor time where no call can block and nobody contends; else it is time, without that in
 * which others had the processor.
 */
void worker_begin(worker *self);
void worker_end(worker *self);

void *worker_zeroed(size_t count, size_t size);

static inline bool worker_should_stop(const worker *self)
{
    return __atomic_load_n(self->stop, __ATOMIC_RELAXED);
}

/* Relaxed stores: plain ones, which another thread may look at. */
static inline bool worker_allocate(worker *self, crmm_stream stream, size_t bytes, void **ptr)
{
    if (crmm_allocate(self->resource, stream, bytes, 256, ptr) != CRMM_SUCCESS) {
        worker_failed(self, "an allocation failed");
        return false;
    }
    size_t live = self->live + bytes;
    __atomic_store_n(&self->live, live, __ATOMIC_RELAXED);
    self->peak = live > self->peak ? live : self->peak;
    return true;
}

static inline void worker_free(worker *self, crmm_stream stream, void *ptr, size_t bytes)
{
    crmm_deallocate(self->resource, stream, ptr, bytes, 256);
    __atomic_store_n(&self->live, self->live - bytes, __ATOMIC_RELAXED);
}

#endif
