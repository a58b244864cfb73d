/* SPDX-License-Identifier: Apache-2.0 */
#include "replay.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crmm/core/alignment.h>
#include <crmm/core/misuse.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/held.h>

#include "cuda.h"
#include "progress.h"

typedef struct block {
    void *memory;
    size_t bytes;
    uint32_t stream;
} block;

/* Everything of one replay. While it runs, only the thread whose turn it is touches it. */
typedef struct run {
    const trace *what;
    crmm_resource *resource;
    bool ordered; /* the resource has stream order */
    crmm_stream *streams;
    block *blocks;
    size_t next; /* row */
    bool stop;
    bool broken;
    size_t live;
    uint64_t elapsed_ns;
    replay_result *result;
    problem *why;
    progress bar;
    sem_t *turns; /* one a thread, where there are several */
} run;

/* ---- time ---- */

static uint64_t now_ns(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000U + (uint64_t)time.tv_nsec;
}

/* What reading the clock adds to a measured time: the least of many, so as never to take off more
 * than it adds. */
static uint64_t clock_cost_ns(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 1000; i++) {
        uint64_t before = now_ns();
        uint64_t cost = now_ns() - before;
        least = cost < least ? cost : least;
    }
    return least;
}

/* ---- rows ---- */

static bool allocate(run *state, const trace_row *row, void **memory)
{
    crmm_status status = CRMM_SUCCESS;
    uint64_t before = now_ns();

    if (state->ordered) {
        status = crmm_allocate(state->resource, state->streams[row->stream], row->bytes,
                               CRMM_DEVICE_ALIGNMENT, memory);
    } else {
        status = crmm_allocate_sync(state->resource, row->bytes, CRMM_DEVICE_ALIGNMENT, memory);
    }
    state->elapsed_ns += now_ns() - before;
    state->result->calls++;
    state->result->status = status;
    return status == CRMM_SUCCESS;
}

static void deallocate(const run *state, const trace_row *row, void *memory)
{
    if (state->ordered) {
        crmm_deallocate(state->resource, state->streams[row->stream], memory, row->bytes,
                        CRMM_DEVICE_ALIGNMENT);
    } else {
        crmm_deallocate_sync(state->resource, memory, row->bytes, CRMM_DEVICE_ALIGNMENT);
    }
}

/* Note the failure and what the resource says of itself, before anything is taken down. */
static bool fail(run *state, const trace_row *row)
{
    replay_failure *failure = &state->result->failure;

    failure->line = row->line;
    failure->bytes = row->bytes;
    failure->stream = state->what->streams[row->stream].name;
    failure->error = *crmm_last_error();
    (void)crmm_resource_describe(state->resource, failure->description,
                                 sizeof(failure->description));
    failure->info = (crmm_memory_info){.struct_size = sizeof(failure->info)};
    failure->has_info = crmm_resource_info(state->resource, &failure->info) == CRMM_SUCCESS;
    return false;
}

static bool replay_allocate(run *state, const trace_row *row)
{
    void *memory = NULL;

    if (!allocate(state, row, &memory)) {
        return fail(state, row);
    }
    if (row->block != TRACE_NO_BLOCK) {
        state->blocks[row->block] =
            (block){.memory = memory, .bytes = row->bytes, .stream = row->stream};
    }
    state->live += row->bytes;
    if (state->live > state->result->peak_live) {
        state->result->peak_live = state->live;
    }
    return true;
}

/* The program that was recorded never had this memory. */
static bool replay_attempt(run *state, const trace_row *row)
{
    void *memory = NULL;

    if (!allocate(state, row, &memory)) {
        return fail(state, row);
    }
    deallocate(state, row, memory);
    return true;
}

static bool order(run *state, uint32_t earlier, uint32_t later)
{
    if (crmm_priv_cuda_order_streams(state->streams[earlier], state->streams[later]) !=
        CRMM_SUCCESS) {
        state->broken = true;
        return problem_set(state->why, "%s: streams cannot be put in order: %s", state->what->path,
                           crmm_last_error()->message);
    }
    return true;
}

/* The first use of a block, or of a later one. */
static size_t find_use(const trace *what, uint32_t of)
{
    size_t low = 0;
    size_t high = what->use_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (what->uses[middle].block < of) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Make the stream that a block is freed on wait for the others that it was in use on: as the
 * recorded program had to, so its time is not the library's. */
static bool order_uses(run *state, const trace_row *row)
{
    const trace *what = state->what;
    uint32_t own = state->blocks[row->block].stream;

    if (own != row->stream && !order(state, own, row->stream)) {
        return false;
    }
    for (size_t i = find_use(what, row->block);
         i < what->use_count && what->uses[i].block == row->block; i++) {
        if (what->uses[i].stream != row->stream &&
            !order(state, what->uses[i].stream, row->stream)) {
            return false;
        }
    }
    return true;
}

static bool replay_free(run *state, const trace_row *row)
{
    bool has_block = row->block != TRACE_NO_BLOCK;
    void *memory = has_block ? state->blocks[row->block].memory : NULL;

    if (state->ordered && has_block && !order_uses(state, row)) {
        return false;
    }
    uint64_t before = now_ns();
    deallocate(state, row, memory);
    state->elapsed_ns += now_ns() - before;
    state->result->calls++;
    if (has_block) {
        state->blocks[row->block].memory = NULL;
        state->live -= row->bytes;
    }
    return true;
}

static bool replay_row(run *state, const trace_row *row)
{
    switch (row->action) {
    case TRACE_ALLOCATE:
        return replay_allocate(state, row);
    case TRACE_FREE:
        return replay_free(state, row);
    case TRACE_FAILED_ALLOCATE:
        return replay_attempt(state, row);
    }
    return false;
}

/* The rows from the next one on that belong to a thread. */
static void take_turn(run *state, uint32_t thread)
{
    const trace *what = state->what;

    while (!state->stop && state->next < what->row_count &&
           what->rows[state->next].thread == thread) {
        state->stop = !replay_row(state, &what->rows[state->next]);
        state->next++;
        progress_step(&state->bar, state->next);
    }
}

/* ---- threads ---- */

typedef struct worker {
    run *state;
    uint32_t thread;
    pthread_t handle;
} worker;

static void wait_for_turn(sem_t *turn)
{
    while (sem_wait(turn) != 0 && errno == EINTR) {
    }
}

static void wake_all(run *state)
{
    for (size_t i = 0; i < state->what->thread_count; i++) {
        (void)sem_post(&state->turns[i]);
    }
}

static void *work(void *argument)
{
    const worker *self = argument;
    run *state = self->state;

    for (;;) {
        wait_for_turn(&state->turns[self->thread]);
        if (state->stop || state->next == state->what->row_count) {
            return NULL; /* another thread came to the end and has woken all */
        }
        take_turn(state, self->thread);
        if (state->stop || state->next == state->what->row_count) {
            wake_all(state);
            return NULL;
        }
        (void)sem_post(&state->turns[state->what->rows[state->next].thread]);
    }
}

static size_t start_workers(run *state, worker *workers)
{
    for (size_t i = 0; i < state->what->thread_count; i++) {
        workers[i] = (worker){.state = state, .thread = (uint32_t)i};
        if (pthread_create(&workers[i].handle, NULL, work, &workers[i]) != 0) {
            return i;
        }
    }
    return state->what->thread_count;
}

static bool replay_with_threads(run *state)
{
    size_t count = state->what->thread_count;
    worker *workers = calloc(count, sizeof(*workers));

    state->turns = calloc(count, sizeof(*state->turns));
    if (workers == NULL || state->turns == NULL) {
        free(workers);
        free(state->turns);
        return problem_no_memory(state->why);
    }
    for (size_t i = 0; i < count; i++) {
        (void)sem_init(&state->turns[i], 0, 0);
    }
    size_t started = start_workers(state, workers);
    if (started == count) {
        (void)sem_post(&state->turns[state->what->rows[0].thread]);
    } else {
        state->stop = true;
        wake_all(state);
    }
    for (size_t i = 0; i < started; i++) {
        (void)pthread_join(workers[i].handle, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        (void)sem_destroy(&state->turns[i]);
    }
    free(state->turns);
    free(workers);
    return started == count ||
           problem_set(state->why, "%s: %zu threads cannot be started", state->what->path, count);
}

static bool replay_rows(run *state)
{
    progress_begin(&state->bar, state->what->path, crmm_resource_name(state->resource),
                   state->what->row_count);
    bool good = true;
    if (state->what->thread_count > 1) {
        good = replay_with_threads(state);
    } else {
        take_turn(state, 0);
    }
    progress_end(&state->bar);
    return good && !state->broken;
}

/* ---- set up and take down ---- */

static bool create_streams(run *state)
{
    const trace *what = state->what;

    if (!state->ordered || what->stream_count == 0) {
        return true;
    }
    state->streams = calloc(what->stream_count, sizeof(crmm_stream));
    if (state->streams == NULL) {
        return problem_no_memory(state->why);
    }
    for (size_t i = 0; i < what->stream_count; i++) {
        if (what->streams[i].kind == TRACE_STREAM_PER_THREAD) {
            state->streams[i] = CRMM_STREAM_PER_THREAD;
        } else if (what->streams[i].kind == TRACE_STREAM_OWN &&
                   !cuda_create_stream(&state->streams[i], state->why)) {
            return false;
        }
    }
    return true;
}

static bool destroy_streams(const run *state)
{
    bool good = true;

    for (size_t i = 0; state->streams != NULL && i < state->what->stream_count; i++) {
        if (state->what->streams[i].kind == TRACE_STREAM_OWN && state->streams[i] != NULL) {
            good = cuda_destroy_stream(state->streams[i], state->why) && good;
        }
    }
    free(state->streams);
    return good;
}

/* What the recorded program had not freed when the recording, or this replay, ended. */
static void free_rest(const run *state)
{
    for (size_t i = 0; state->blocks != NULL && i < state->what->block_count; i++) {
        if (state->blocks[i].memory != NULL) {
            crmm_deallocate_sync(state->resource, state->blocks[i].memory, state->blocks[i].bytes,
                                 CRMM_DEVICE_ALIGNMENT);
        }
    }
    free(state->blocks);
}

/* Whether there is a device, for a resource whose memory is a device's. */
static bool can_run(run *state)
{
    problem reason;

    if (!crmm_resource_has(state->resource, CRMM_DEVICE_ACCESSIBLE) || cuda_has_device(&reason)) {
        return true;
    }
    state->result->status = CRMM_ERROR_UNSUPPORTED;
    return problem_set(state->why, "%s needs a device: %s", crmm_resource_name(state->resource),
                       reason.text);
}

static bool set_up(run *state)
{
    state->blocks = calloc(state->what->block_count + 1, sizeof(block));
    if (state->blocks == NULL) {
        return problem_no_memory(state->why);
    }
    return create_streams(state);
}

static bool wait_for_all(const run *state)
{
    return state->streams == NULL || cuda_synchronize(state->why);
}

/* The streams go after the resource, which may know them. */
static bool take_down(run *state, problem *why)
{
    state->why = why;
    bool good = wait_for_all(state); /* no work may be pending on what is given back */

    free_rest(state);
    good = wait_for_all(state) && good; /* nor a free on a resource that goes */
    crmm_resource_release(&state->resource);
    return destroy_streams(state) && good;
}

static void finish_result(const run *state)
{
    replay_result *result = state->result;
    double calls = (double)result->calls;

    if (result->calls > 0) {
        double measured = (double)state->elapsed_ns / calls - (double)clock_cost_ns();
        result->ns_per_call = measured > 0 ? measured : 0;
    }
}

static bool create(run *state, const spec *through)
{
    state->result->status = spec_create(through, &state->resource);
    if (state->result->status == CRMM_SUCCESS) {
        return can_run(state);
    }
    return problem_set(state->why, "SPEC \"%s\": %s: %s", through->text,
                       crmm_status_name(state->result->status), crmm_last_error()->message);
}

replay_outcome replay_run(const trace *what, const spec *through, replay_result *result,
                          problem *why)
{
    run state = {.what = what, .result = result, .why = why};
    uint64_t findings = crmm_misuse_count();
    problem later;

    *result = (replay_result){.status = CRMM_SUCCESS};
    crmm_priv_held_watch();
    crmm_priv_held_reset_peak();
    if (!create(&state, through)) {
        crmm_resource_release(&state.resource);
        return REPLAY_REFUSED;
    }
    state.ordered = crmm_resource_has(state.resource, CRMM_STREAM_ORDERED);

    bool good = set_up(&state) && replay_rows(&state);
    finish_result(&state);
    good = take_down(&state, good ? why : &later) && good;
    /* Now, since a pool of the driver's is counted when it is done with. */
    result->peak_held = crmm_priv_held_peak();
    if (good && crmm_misuse_count() != findings) {
        good = problem_set(why, "%s: %s: the library has found misuse, so the figures mean nothing",
                           what->path, through->text);
    }
    if (!good) {
        return REPLAY_BROKEN;
    }
    return result->failure.line != 0 ? REPLAY_ALLOCATION_FAILED : REPLAY_DONE;
}
