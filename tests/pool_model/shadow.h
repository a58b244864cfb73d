/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SHADOW_H
#define CRMM_TESTS_POOL_MODEL_SHADOW_H

/*
 * Whose every 256 bytes of the simulated memory are, and which work may still be on them. Kept in
 * segments, so that an operation costs as many steps as it meets former blocks. Addresses are never
 * touched. All functions are called with the simulation locked, and call sim_fail() at what they
 * find wrong.
 */

#include "simulation.h"

enum {
    SHADOW_GRANULE = 256,
    SHADOW_PAGE = 2 << 20 /* what upstreams give is made of these */
};

/* Simulated memory has addresses in [SHADOW_BASE, SHADOW_BASE + SHADOW_BYTES). */
#define SHADOW_BASE (UINT64_C(1) << 44)
#define SHADOW_BYTES (UINT64_C(1) << 43)

/* Nothing is mapped. */
void shadow_start(void);
void shadow_finish(void);

/* Memory comes into being, with this work pending on it: nothing is mapped there. */
void shadow_map(void *ptr, size_t bytes, sim_point pending);
/* Memory goes away: no block is alive in it, and all work on it comes before `order`; NULL: the
 * host knows that it is complete. */
void shadow_unmap(void *ptr, size_t bytes, const sim_clock *order);

/* Memory gets a second address, where nothing is mapped; it is used there from now on, and the work
 * that is pending on it stays so. No block is alive in it. */
void shadow_move(void *to, void *from, size_t bytes);
/* The first address goes; no work is pending on it. */
void shadow_end_move(void *from, size_t bytes);
/* The second one goes, where no block is alive. */
void shadow_undo_move(void *to, void *from, size_t bytes);

/* A block comes alive: no other one is there, and earlier work comes before `order`, as above. */
void shadow_take(void *ptr, size_t bytes, const sim_clock *order);
/* A whole block ends, with this work pending on it. */
void shadow_give(void *ptr, size_t bytes, sim_point pending);
/* The block was not given back after all. */
void shadow_keep(void *ptr, size_t bytes);

#endif
