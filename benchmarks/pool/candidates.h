/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_CANDIDATES_H
#define CRMM_BENCHMARKS_POOL_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>

#include "bench.h"

/* A resource that is measured, made for one case. */
typedef struct subject {
    crmm_resource *resource;
    const crmm_resource *books; /* whose info says what is held */
    bool is_given;              /* it was given its memory at once */
} subject;

/* A kind of resource to measure. */
typedef struct candidate {
    const char *name;
    crmm_status (*create)(const char *name, const bench_case *of, subject *out);
} candidate;

/* What all others are compared with. */
extern const char reference_name[];

/* A candidate by the name that the user gave; false: there is none. */
bool candidate_find(const char *name, candidate *out);

/* What is measured if the user names nothing. */
extern const char *const default_candidates[];
extern const size_t default_candidate_count;

/* For the usage. */
extern const char candidates_help[];

/* ---- of both programs ---- */

void subject_finish(subject *of);

typedef struct driver_calls {
    uint64_t records, queries, waits, moves;
} driver_calls;

/* The driver calls so far; false: the resource does not tell. */
bool subject_get_calls(const subject *of, driver_calls *out);

/* The pool or rmm_shape over an upstream, of which the new resource has the only reference. */
crmm_status create_pool(crmm_resource *upstream, const bench_case *of, subject *out);
crmm_status create_rmm_shape(crmm_resource *upstream, const bench_case *of, subject *out);

#endif
