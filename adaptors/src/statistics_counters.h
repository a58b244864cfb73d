/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_STATISTICS_COUNTERS_H
#define CRMM_ADAPTORS_SRC_STATISTICS_COUNTERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <crmm/adaptors/statistics_resource_adaptor.h>

/* Bytes and allocations: a change, or a sum. */
typedef struct crmm_priv_amounts {
    int64_t bytes;
    int64_t allocations;
} crmm_priv_amounts;

/* Both counters. */
typedef struct crmm_priv_counter_pair {
    crmm_statistics_counter bytes;
    crmm_statistics_counter allocations;
} crmm_priv_counter_pair;

/* The sum; the nearest bound where it does not fit. */
static inline int64_t crmm_priv_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum)) {
        return sum;
    }
    return a < 0 ? INT64_MIN : INT64_MAX;
}

/* Count in a pair that one thread has to itself. */
void crmm_priv_counter_pair_add(crmm_priv_counter_pair *pair, int64_t bytes);
void crmm_priv_counter_pair_subtract(crmm_priv_counter_pair *pair, int64_t bytes);

/* Enter in `outer` what `inner` counted while `outer` did not. */
void crmm_priv_counter_pair_merge(crmm_priv_counter_pair *outer,
                                  const crmm_priv_counter_pair *inner);

typedef struct crmm_priv_counter_shard crmm_priv_counter_shard;
typedef struct crmm_priv_counter_level crmm_priv_counter_level;

/* The most threads that count apart from each other. */
enum { CRMM_PRIV_COUNTER_SHARDS = 32 };

/*
 * The counters of all threads.
 *
 * The peak is kept in one place, and what may still be allocated before it is exceeded, the slack,
 * is dealt out to the shards, one for each thread: value = peak - all slack. An allocation that its
 * shard's slack covers cannot set a new peak and touches nothing that other threads write. One that
 * it does not cover borrows from other shards; if that is not enough, it collects all slack, raises
 * the peak by what is missing, and deals out the rest.
 *
 * Thread-safety: safe.
 */
typedef struct crmm_priv_counters {
    pthread_mutex_t mutex;           /* taken before the shards' locks */
    crmm_priv_amounts peak;          /* changed with the locks of all active shards held as well */
    crmm_priv_counter_level *below;  /* counters put aside, the latest first */
    crmm_priv_counter_shard *shards; /* CRMM_PRIV_COUNTER_SHARDS */
    crmm_priv_counter_shard *active[CRMM_PRIV_COUNTER_SHARDS]; /* those in use; others are zero */
    size_t active_count; /* atomic: read without a lock, which finds some of them */
} crmm_priv_counters;

/* false: no memory. */
bool crmm_priv_counters_init(crmm_priv_counters *counters);
void crmm_priv_counters_finish(crmm_priv_counters *counters);

void crmm_priv_counters_add(crmm_priv_counters *counters, int64_t bytes);
void crmm_priv_counters_subtract(crmm_priv_counters *counters, int64_t bytes);

crmm_priv_counter_pair crmm_priv_counters_read(crmm_priv_counters *counters);

/* `*pair` is what was put aside. false: no memory, and nothing has changed. */
bool crmm_priv_counters_push(crmm_priv_counters *counters, crmm_priv_counter_pair *pair);

/* `*pair` is what was counted since the push. false: there was none. */
bool crmm_priv_counters_pop(crmm_priv_counters *counters, crmm_priv_counter_pair *pair);

#endif
