/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_PROGRAM_H
#define CRMM_TESTS_POOL_MODEL_PROGRAM_H

#include "style.h"

/* A program to be run, and how it went. */
typedef struct program_run {
    const subject *pool;
    const configuration *of;
    uint64_t seed;
    uint64_t operations;
    uint64_t check_every; /* operations between two looks at the pool's structure */
    uint64_t done;        /* operations before it ended, or failed */
    uint64_t allocations; /* that succeeded */
    uint64_t refusals;    /* allocations that failed as they may */
    style like;
    sim_counts counts;
    char why[512]; /* empty: nothing is wrong */
} program_run;

/*
 * Run the random program of a seed on a new pool: streams that come and go, blocks of all sizes,
 * mostly given back where they came from. Returns whether nothing is wrong.
 */
bool program_run_all(program_run *run);

/* Pools in which something was wrong, so that what is left of them is not to be trusted. They stay
 * reachable, and so are no leaks. */
enum { PROGRAM_ABANDONED = 4096 };
extern crmm_resource *program_abandoned[PROGRAM_ABANDONED];

#endif
