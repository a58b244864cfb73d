/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_TASKS_H
#define CRMM_BENCHMARKS_POOL_TASKS_H

#include "team.h"

/* Allocate `parameter` bytes and give them back. */
extern const task_class pair_task;

/* RMM's random_allocations: a pass of 2 x 1 000 calls, of at most `parameter` bytes each. */
extern const task_class random_task;

/* `parameter` live blocks of log-uniform sizes; a step replaces one drawn at random. */
extern const task_class churn_task;

/* The same, and each call is timed alone. */
extern const task_class latency_task;

/* A queue of blocks of 1 MiB that are given back on another stream than their own. */
enum { HANDOFF_STREAMS = 8, HANDOFF_BLOCKS = 960, HANDOFF_BYTES = 1 << 20 };
extern const task_class handoff_around_task; /* round all streams */
extern const task_class handoff_across_task; /* from one half of the streams to the other */

/* A recorded program, read before. */
extern const task_class trace_task;
void trace_task_load(const char *path);
size_t trace_task_rows(void);
size_t trace_task_streams(void);
void trace_task_unload(void);

#endif
