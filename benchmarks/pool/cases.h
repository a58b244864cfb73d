/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_CASES_H
#define CRMM_BENCHMARKS_POOL_CASES_H

#include "arguments.h"
#include "bench.h"

/* Cases in the order in which they are measured. */
typedef struct case_list {
    bench_case *cases;
    size_t count, capacity;
} case_list;

/* All cases that were asked for. Says on stderr which workloads are left out, and why. */
void cases_make(case_list *out, const arguments *as);
void cases_free(case_list *list);

/* The cases that several workloads and the check are made of. */
bench_case case_pair(size_t bytes, size_t threads, stream_sharing sharing);
bench_case case_churn(size_t live_blocks, size_t threads, stream_sharing sharing);

#endif
