/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_BENCH_H
#define CRMM_BENCHMARKS_POOL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { MOST_THREADS = 256, MOST_FIGURES = 8, MOST_CANDIDATES = 8, WHY_SIZE = 256 };

struct task_class;

typedef enum stream_sharing {
    STREAMS_OWN,    /* each thread has its own */
    STREAMS_SHARED, /* all threads use the same */
    STREAMS_LEGACY, /* the one of CUDA's that every program has */
} stream_sharing;

/* One thing to measure: a workload with its parameters. */
typedef struct bench_case {
    const char *workload; /* W1 to W9 */
    char name[64];
    const char *unit; /* what is counted: pair, call, step */
    const struct task_class *task;
    size_t parameter; /* a size, a number of live blocks: the task's */
    size_t threads;
    stream_sharing sharing;
    size_t streams;   /* that a thread uses, or all of them together */
    uint64_t warm_up; /* steps */
    uint64_t steps;   /* in a round of one thread */
    double seconds; /* a round of several threads; the most that one thread's takes, 0: no limit */
    double warm_up_seconds; /* the most that the warm-up takes, 0: no limit */
    size_t rounds;
    size_t pool_bytes; /* what a pool that is given its memory at once is given, 0: nothing */
    bool is_limited;   /* and no pool may have more */
    size_t most_bytes; /* what no growing pool may have more than, 0: no limit */
    bool is_busy;      /* with unfinished work on the streams */
    bool is_fresh;     /* each round has a new resource */
    bool hides_held;   /* what is held says nothing: there is next to nothing live */
    size_t number;     /* in the order in which cases were made */
} bench_case;

/* What a task tells beside the time. */
typedef struct figure {
    const char *name;
    double value;
} figure;

typedef struct result {
    const bench_case *of;
    const char *allocator;
    char why[WHY_SIZE];       /* why there are no figures; empty: there are */
    bool is_cut;              /* the warm-up took too long: not the steady state */
    double median_ns, min_ns; /* a step, as one thread sees it */
    double per_second;        /* steps of all threads, median */
    double delayed;           /* share of the time in which others had the processors */
    size_t peak_live, peak_held;
    bool is_given; /* the pool was given its memory at once, so what it holds says nothing */
    bool tells_calls;
    double records, queries, waits, moves; /* a step */
    figure figures[MOST_FIGURES];
    size_t figure_count;
} result;

/* Say what is wrong and exit. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_fail(const char *format, ...);

#endif
