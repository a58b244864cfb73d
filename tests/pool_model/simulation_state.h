/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SIMULATION_STATE_H
#define CRMM_TESTS_POOL_MODEL_SIMULATION_STATE_H

/* What simulation.c and simulated_floor.c share. */

#include "simulation.h"

struct CUstream_st {
    uint64_t id;
    uint32_t clock;
    /* Read without the lock, so that questions for the identity order no threads. */
    bool alive;
    bool capturing;
    sim_clock order; /* what its next work comes after; its own clock: what was queued */
};

struct CUevent_st {
    bool alive;
    bool recorded;
    sim_clock order;
    struct CUevent_st *next; /* in the list of those that were destroyed */
};

extern sim_manner sim_now;
extern sim_counts sim_counts_now;

/* What a handle stands for on this thread; NULL for no handle of ours. */
struct CUstream_st *sim_resolve(crmm_stream stream);
bool sim_is_capturing(const struct CUstream_st *stream);

struct CUevent_st *sim_event_create(void);
void sim_event_destroy(struct CUevent_st *event);

/* Whether the device has got past it. */
bool sim_is_complete(const sim_clock *order);

#endif
