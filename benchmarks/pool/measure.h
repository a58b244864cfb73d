/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_MEASURE_H
#define CRMM_BENCHMARKS_POOL_MEASURE_H

#include "bench.h"
#include "candidates.h"

/* A case on an allocator. */
typedef struct entry {
    const bench_case *of;
    const candidate *on;
} entry;

/* Measure entries in turns: each has its round before any has its next one, so that what disturbs
 * the machine disturbs all of them. Entries may be of several cases. */
void measure(const entry *entries, size_t count, result *results);

#endif
