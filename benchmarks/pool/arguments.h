/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_ARGUMENTS_H
#define CRMM_BENCHMARKS_POOL_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

enum { MOST_THREAD_COUNTS = 16 };

typedef struct arguments {
    const char *program;
    const char *workloads; /* names with commas between them; NULL: all */
    const char *name;      /* only cases in whose name this occurs; NULL: all */
    const char *allocators[MOST_CANDIDATES];
    size_t allocator_count; /* 0: the default ones */
    size_t threads[MOST_THREAD_COUNTS];
    size_t thread_counts;
    size_t rounds;  /* 0: each case's own */
    uint64_t steps; /* 0: each case's own */
    double seconds;
    bool has_seconds;
    const char *trace; /* NULL: none */
    const char *json;  /* NULL: none */
    size_t most_bytes; /* of a growing pool, 0: no limit */
    uint64_t lag;      /* ns until an event is complete */
    bool check;
} arguments;

/* Reads the command line; ends the program where it is wrong, or asks for help. */
arguments arguments_read(int argc, char **argv);

/* Whether a workload was asked for, and a case of it. `name` may be NULL: any. */
bool arguments_want(const arguments *as, const char *workload, const char *name);

#endif
