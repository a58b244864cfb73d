/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_STATISTICS_COUNTERS_H
#define CRMM_ADAPTORS_SRC_STATISTICS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/adaptors/statistics_resource_adaptor.h>

#include "statistics_room.h"

/* Both counters. */
typedef struct crmm_priv_counter_pair {
    crmm_statistics_counter bytes;
    crmm_statistics_counter allocations;
} crmm_priv_counter_pair;

/* Count in a pair that one thread has to itself. */
void crmm_priv_counter_pair_add(crmm_priv_counter_pair *pair, int64_t bytes);
void crmm_priv_counter_pair_subtract(crmm_priv_counter_pair *pair, int64_t bytes);

/* Enter in `outer` what `inner` counted while `outer` did not. */
void crmm_priv_counter_pair_merge(crmm_priv_counter_pair *outer,
                                  const crmm_priv_counter_pair *inner);

typedef struct crmm_priv_counter_level crmm_priv_counter_level;

/* The counters of all threads; the peak is a ceiling that rises. Thread-safety: safe. */
typedef struct crmm_priv_counters {
    crmm_priv_room room;
    crmm_priv_counter_level *below; /* counters put aside, the latest first; with all locks */
} crmm_priv_counters;

/* false: no memory. */
bool crmm_priv_counters_init(crmm_priv_counters *counters);
void crmm_priv_counters_finish(crmm_priv_counters *counters);

static inline void crmm_priv_counters_add(crmm_priv_counters *counters, int64_t bytes)
{
    crmm_priv_room_take(&counters->room, (crmm_priv_amounts){bytes, 1});
}

static inline void crmm_priv_counters_subtract(crmm_priv_counters *counters, int64_t bytes)
{
    crmm_priv_room_give(&counters->room, (crmm_priv_amounts){bytes, 1});
}

crmm_priv_counter_pair crmm_priv_counters_read(crmm_priv_counters *counters);

/* `*pair` is what was put aside. false: no memory, and nothing has changed. */
bool crmm_priv_counters_push(crmm_priv_counters *counters, crmm_priv_counter_pair *pair);

/* `*pair` is what was counted since the push. false: there was none. */
bool crmm_priv_counters_pop(crmm_priv_counters *counters, crmm_priv_counter_pair *pair);

#endif
