/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_STATISTICS_ROOM_H
#define CRMM_ADAPTORS_SRC_STATISTICS_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/internal/lock.h>

/* Bytes and allocations: a change, or a sum. */
typedef struct crmm_priv_amounts {
    int64_t bytes;
    int64_t allocations;
} crmm_priv_amounts;

/* The sum; the nearest bound where it does not fit. */
static inline int64_t crmm_priv_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) {
        return sum;
    }
    return a < 0 ? INT64_MIN : INT64_MAX;
}

typedef struct crmm_priv_room_shard crmm_priv_room_shard;

/* The most threads that count apart from each other. */
enum { CRMM_PRIV_ROOM_SHARDS = 32 };

/*
 * What is outstanding, and the most that ever was, the ceiling, counted by many threads: the
 * ceiling is kept in one place, and the room below it is dealt out to shards, one for each thread:
 * outstanding = ceiling - all room. What a shard's own room covers cannot reach a new ceiling and
 * touches nothing that other threads write. What it does not cover borrows from other shards; if
 * that is not enough, all room is collected, the ceiling raised by what is missing, and the rest
 * dealt out.
 *
 * Thread-safety: safe. All amounts given are at least 0.
 */
typedef struct crmm_priv_room {
    crmm_priv_lock lock;          /* the first member; taken before the shards' locks */
    crmm_priv_amounts ceiling;    /* changed with all locks held */
    crmm_priv_room_shard *shards; /* CRMM_PRIV_ROOM_SHARDS */
    crmm_priv_room_shard *active[CRMM_PRIV_ROOM_SHARDS]; /* those in use; others are zero */
    size_t active_count; /* atomic: read without a lock, which finds some of them */
} crmm_priv_room;

/* What has been counted at one moment. */
typedef struct crmm_priv_room_sums {
    crmm_priv_amounts outstanding;
    crmm_priv_amounts ceiling;
    crmm_priv_amounts total; /* of all that was taken */
} crmm_priv_room_sums;

/* Nothing outstanding, a ceiling of 0. false: no memory. */
bool crmm_priv_room_init(crmm_priv_room *room);
void crmm_priv_room_finish(crmm_priv_room *room);

/* Take; the ceiling rises where it has to. */
void crmm_priv_room_take(crmm_priv_room *room, crmm_priv_amounts amounts);

/* Give back. */
void crmm_priv_room_give(crmm_priv_room *room, crmm_priv_amounts amounts);

/* Hold all locks, for the functions below. */
void crmm_priv_room_lock(crmm_priv_room *room);
void crmm_priv_room_unlock(crmm_priv_room *room);

crmm_priv_room_sums crmm_priv_room_sum_up(const crmm_priv_room *room);

/* Go on from other sums; the ceiling is at least what is outstanding. */
void crmm_priv_room_restart(crmm_priv_room *room, const crmm_priv_room_sums *sums);

#endif
