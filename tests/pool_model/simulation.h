/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SIMULATION_H
#define CRMM_TESTS_POOL_MODEL_SIMULATION_H

/*
 * A device that does nothing but keep order. Each stream has a clock; a piece of work is a tick of
 * its stream's clock, and a vector of clocks says which work of every stream something comes after.
 * What the program knows to be complete is one more such vector. How far the device really got is
 * drawn at random, as late as the seed likes.
 *
 * floor_event.h is implemented on top of it in simulated_floor.c. One simulation a process.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/stream.h>

enum {
    SIM_CLOCKS = 128, /* more than streams that a pool keeps apart */
    SIM_THREADS = 8,  /* threads that have a per-thread stream */
    SIM_HANDLES = 10  /* created streams that can be alive at a time */
};

typedef struct sim_clock {
    uint32_t at[SIM_CLOCKS];
} sim_clock;

/* A piece of work: the tick of one clock. */
typedef struct sim_point {
    uint32_t clock;
    uint32_t tick; /* 0: complete from the beginning */
} sim_point;

/* How the device and the calls behave; zero is a device that never gets anywhere by itself. */
typedef struct sim_manner {
    uint64_t seed;
    unsigned progress;    /* of 1024 chances how many make a stream get on */
    bool one_stalls;      /* one clock in four never gets on by itself */
    bool captures_legacy; /* a capture makes the legacy stream unusable */
    unsigned faults;      /* of 1024 calls how many fail */
    uint64_t fault_at;    /* the number of the call that fails; 0: none */
    bool threads;         /* calls come from several threads */
} sim_manner;

typedef struct sim_counts {
    uint64_t calls; /* that can fail, those of the upstream too */
    uint64_t faults;
    uint64_t events;
    uint64_t records;
    uint64_t queries;
    uint64_t waits;
    uint64_t synchronizes;
    uint64_t device_waits;
} sim_counts;

void sim_start(const sim_manner *manner);
/* Whether no event is left; else a failure. */
void sim_finish(void);

/* A no-op unless the simulation has threads. What is marked "locked" is called between them. */
void sim_lock(void);
void sim_unlock(void);
/* What each call ends with, not locked. With threads: stop for a moment now and then, so that
 * others come between two steps of this one. Without: see that the caller holds no lock. */
void sim_end_of_call(void);

/* How to see that: the name of a lock that is held, or NULL. NULL: nobody looks. */
void sim_watch_locks(const char *(*held_lock)(void *user_data), void *user_data);

/* Something is wrong. The first call is kept; locked. */
__attribute__((format(printf, 1, 2))) void sim_fail(const char *format, ...);
bool sim_has_failed(void);
const char *sim_failure(void);

const sim_counts *sim_counted(void);
/* Whether the call that is being made fails, by the manner; locked. */
bool sim_call_fails(void);

/* ---- streams ---- */

/* NULL if there is no room. Ids are never used twice, handles are. */
crmm_stream sim_stream_create(void);
void sim_stream_destroy(crmm_stream stream);
void sim_stream_set_capturing(crmm_stream stream, bool capturing);

/* A thread below SIM_THREADS, with a per-thread stream of its own, which ends when it does. The
 * main thread is 0 and needs neither. */
void sim_thread_begin(unsigned thread);
void sim_thread_end(void);

/* The stream that the program's call on the pool names; a pool touches no other one. */
void sim_call_begin(crmm_stream stream);
void sim_call_begin_sync(void);
void sim_call_end(void);
/*
 * The stream behind a handle, if a pool may name it now: it is alive, and the program's call is on
 * it. The legacy stream cannot die, so that it may be named at any time. NULL, and a failure in the
 * name of `call`, for any other.
 */
struct CUstream_st *sim_usable(const char *call, crmm_stream stream);

/* Queue one piece of work; locked. */
sim_point sim_stream_work(crmm_stream stream);
/* The stream's latest piece of work; locked. */
sim_point sim_stream_latest(crmm_stream stream);
/* What the stream's next work comes after; locked. */
const sim_clock *sim_stream_order(crmm_stream stream);
/* The stream's next work comes after this too; locked. */
void sim_stream_follow(crmm_stream stream, const sim_clock *order);
/* The host has waited for this; locked. */
void sim_observe(const sim_clock *order);
void sim_observe_all(void);
/* From now on so many of 1024 calls fail. */
void sim_set_faults(unsigned faults);

/* A clock that belongs to no stream of the program; locked. */
uint32_t sim_clock_create(void);
/* One more piece of work on it, which the stream's next work comes after; locked. */
sim_point sim_clock_work(uint32_t clock, crmm_stream stream);

/* Whether the host knows that it is complete; locked. */
bool sim_is_observed(sim_point point);
/* The same, or it comes before this; locked. */
bool sim_is_before(sim_point point, const sim_clock *order);

/* Give the device a chance to get on; locked. */
void sim_progress(void);

#endif
