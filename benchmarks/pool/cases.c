/* SPDX-License-Identifier: Apache-2.0 */
/* The workloads by their parameters; docs/benchmarks.md says what each is for. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

#include "streams.h"
#include "tasks.h"

#define GIB ((size_t)1 << 30)
#define MIB ((size_t)1 << 20)
#define KIB ((size_t)1 << 10)

/* What a pool that is given its memory at once has; none of these cases needs more. */
#define GIVEN_BYTES (40 * GIB)

/* A round of several threads, and the most that one thread's takes, in seconds. */
#define THREADS_SECONDS 0.15
#define ROUND_SECONDS 1.0
#define WARM_UP_SECONDS 2.0

/* ---- cases ---- */

static bench_case common(const char *workload, const task_class *task, size_t threads)
{
    return (bench_case){
        .workload = workload,
        .unit = "step",
        .task = task,
        .threads = threads,
        .streams = 1,
        .seconds = threads > 1 ? THREADS_SECONDS : ROUND_SECONDS,
        .warm_up_seconds = WARM_UP_SECONDS,
        .rounds = 5,
        .pool_bytes = GIVEN_BYTES,
    };
}

bench_case case_pair(size_t bytes, size_t threads, stream_sharing sharing)
{
    bench_case made = common("W1", &pair_task, threads);

    (void)snprintf(made.name, sizeof(made.name), "%s %zu KiB",
                   sharing == STREAMS_LEGACY ? "legacy pair of" : "pair", bytes / KIB);
    made.unit = "pair";
    made.parameter = bytes;
    made.sharing = sharing;
    made.hides_held = true;
    made.warm_up = 1000;
    made.steps = 100000;
    made.rounds = 7;
    return made;
}

bench_case case_churn(size_t live_blocks, size_t threads, stream_sharing sharing)
{
    bench_case made = common("W3", &churn_task, threads);

    if (threads > 1) {
        made.workload = sharing == STREAMS_OWN ? "W4" : "W5";
    }
    (void)snprintf(made.name, sizeof(made.name), "churn of %zu blocks", live_blocks);
    made.parameter = live_blocks;
    made.sharing = sharing;
    made.warm_up = 3 * (uint64_t)live_blocks;
    made.steps = 200000;
    return made;
}

static bench_case case_random(size_t most_bytes, size_t threads)
{
    bench_case made = common("W2", &random_task, threads);

    (void)snprintf(made.name, sizeof(made.name), "random up to %zu MiB", most_bytes / MIB);
    made.unit = "call";
    made.parameter = most_bytes;
    made.steps = 2000;
    made.warm_up = 2000;
    made.rounds = 41;
    made.pool_bytes *= threads;
    return made;
}

static bench_case case_handoff(const char *workload, bool around, size_t threads)
{
    bench_case made =
        common(workload, around ? &handoff_around_task : &handoff_across_task, threads);

    (void)snprintf(made.name, sizeof(made.name), "hand-off %s", around ? "around" : "across");
    made.streams = HANDOFF_STREAMS;
    made.warm_up = 3 * (uint64_t)HANDOFF_BLOCKS;
    made.steps = 100000;
    made.rounds = 7;
    made.pool_bytes = threads * GIB;
    made.is_limited = true;
    return made;
}

static bench_case case_latency(size_t live_blocks, size_t threads)
{
    bench_case made = common("W8", &latency_task, threads);

    (void)snprintf(made.name, sizeof(made.name), "each call, churn of %zu blocks", live_blocks);
    made.parameter = live_blocks;
    made.warm_up = 3 * (uint64_t)live_blocks;
    made.steps = 200000;
    /* All steps, so that the tail is there. */
    made.seconds = 10;
    made.rounds = 1;
    return made;
}

/* From an empty resource, or over what an earlier run of the program had left. */
static bench_case case_trace(bool is_fresh)
{
    bench_case made = common("W7", &trace_task, 1);

    (void)snprintf(made.name, sizeof(made.name), "trace, %s", is_fresh ? "growing" : "grown");
    made.unit = "call";
    made.streams = trace_task_streams();
    made.steps = trace_task_rows();
    made.warm_up = is_fresh ? 0 : trace_task_rows();
    made.warm_up_seconds = 60;
    made.seconds = 60;
    made.rounds = 5;
    made.pool_bytes = 0;
    made.is_fresh = is_fresh;
    return made;
}

static bench_case busy(bench_case of, const char *workload, uint64_t steps, bool is_busy)
{
    size_t end = strlen(of.name);

    of.workload = workload;
    of.steps = steps;
    of.is_busy = is_busy;
    /* Blocking must show, not be cut short. */
    of.seconds = 60;
    of.rounds = 5;
    (void)snprintf(of.name + end, sizeof(of.name) - end, ", %s", is_busy ? "busy" : "idle");
    return of;
}

/* ---- the list ---- */

static void add(case_list *to, const arguments *as, bench_case of)
{
    if (!arguments_want(as, of.workload, of.name)) {
        return;
    }
    if (to->count == to->capacity) {
        to->capacity = to->capacity * 2 + 64;
        to->cases = realloc(to->cases, to->capacity * sizeof(*to->cases));
        if (to->cases == NULL) {
            bench_fail("no host memory");
        }
    }
    of.rounds = as->rounds != 0 ? as->rounds : of.rounds;
    of.most_bytes = as->most_bytes;
    of.steps = as->steps != 0 && of.task != &trace_task ? as->steps : of.steps;
    if (as->has_seconds) {
        of.seconds = as->seconds;
        of.warm_up_seconds = as->seconds;
    }
    to->cases[to->count++] = of;
}

static void leave_out(const arguments *as, const char *workload, const char *why)
{
    if (arguments_want(as, workload, NULL)) {
        (void)fprintf(stderr, "%s: %s is left out: %s\n", as->program, workload, why);
    }
}

/* The workloads that have no threads of their own in them. */
static void add_single(case_list *to, const arguments *as)
{
    static const size_t live[] = {100, 1000, 10000, 100000};

    for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
        add(to, as, case_churn(live[i], 1, STREAMS_OWN));
    }
}

static void add_with_threads(case_list *to, const arguments *as, size_t threads)
{
    static const size_t sizes[] = {KIB, 64 * KIB, MIB, 64 * MIB};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        add(to, as, case_pair(sizes[i], threads, STREAMS_OWN));
        if (threads > 1) {
            add(to, as, case_pair(sizes[i], threads, STREAMS_SHARED));
        }
    }
    if (threads == 1) {
        add(to, as, case_pair(KIB, threads, STREAMS_LEGACY));
    }
    add(to, as, case_random(MIB, threads));
    add(to, as, case_random(64 * MIB, threads));
    if (threads > 1) {
        add(to, as, case_churn(1000, threads, STREAMS_OWN));
        add(to, as, case_churn(1000, threads, STREAMS_SHARED));
    }
    add(to, as, case_handoff("W6", true, threads));
    add(to, as, case_handoff("W6", false, threads));
    add(to, as, case_latency(1000, threads));
    if (threads == 1) {
        add(to, as, case_latency(10000, threads));
    }
}

static void add_busy(case_list *to, const arguments *as)
{
    for (int is_busy = 0; is_busy < 2; is_busy++) {
        add(to, as, busy(case_churn(1000, 1, STREAMS_OWN), "W9", 400, is_busy != 0));
    }
    for (int is_busy = 0; is_busy < 2; is_busy++) {
        add(to, as, busy(case_handoff("W9", false, 1), "W9", 2000, is_busy != 0));
    }
}

static int compare_workloads(const void *a, const void *b)
{
    const bench_case *first = a;
    const bench_case *second = b;
    int order = strcmp(first->workload, second->workload);

    return order != 0 ? order : (first->number > second->number) - (first->number < second->number);
}

void cases_make(case_list *out, const arguments *as)
{
    *out = (case_list){0};
    add_single(out, as);
    for (size_t i = 0; i < as->thread_counts; i++) {
        add_with_threads(out, as, as->threads[i]);
    }
    if (as->trace != NULL) {
        add(out, as, case_trace(true));
        add(out, as, case_trace(false));
    } else {
        leave_out(as, "W7", "no --trace was given");
    }
    if (streams_are_real()) {
        add_busy(out, as);
    } else {
        leave_out(as, "W9", "there is no CUDA here, so no stream can be held");
    }
    for (size_t i = 0; i < out->count; i++) {
        out->cases[i].number = i;
    }
    if (out->count > 0) {
        qsort(out->cases, out->count, sizeof(*out->cases), compare_workloads);
    }
}

void cases_free(case_list *list)
{
    free(list->cases);
}
