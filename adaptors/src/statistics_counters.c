/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics_counters.h"

#include <stdlib.h>

/* Counters put aside. */
struct crmm_priv_counter_level {
    crmm_priv_counter_pair pair;
    crmm_priv_counter_level *below;
};

/* ---- one pair ---- */

static void counter_add(crmm_statistics_counter *counter, int64_t amount)
{
    counter->value = crmm_priv_saturated(counter->value, amount);
    counter->total = crmm_priv_saturated(counter->total, amount);
    if (counter->value > counter->peak) {
        counter->peak = counter->value;
    }
}

static void counter_merge(crmm_statistics_counter *outer, const crmm_statistics_counter *inner)
{
    int64_t peak = crmm_priv_saturated(outer->value, inner->peak);

    if (peak > outer->peak) {
        outer->peak = peak;
    }
    outer->value = crmm_priv_saturated(outer->value, inner->value);
    outer->total = crmm_priv_saturated(outer->total, inner->total);
}

void crmm_priv_counter_pair_add(crmm_priv_counter_pair *pair, int64_t bytes)
{
    counter_add(&pair->bytes, bytes);
    counter_add(&pair->allocations, 1);
}

void crmm_priv_counter_pair_subtract(crmm_priv_counter_pair *pair, int64_t bytes)
{
    pair->bytes.value = crmm_priv_saturated(pair->bytes.value, -bytes);
    pair->allocations.value = crmm_priv_saturated(pair->allocations.value, -1);
}

void crmm_priv_counter_pair_merge(crmm_priv_counter_pair *outer,
                                  const crmm_priv_counter_pair *inner)
{
    counter_merge(&outer->bytes, &inner->bytes);
    counter_merge(&outer->allocations, &inner->allocations);
}

/* ---- all threads' counters ---- */

/* The counters now; all locks are held. */
static crmm_priv_counter_pair current(const crmm_priv_counters *counters)
{
    crmm_priv_room_sums sums = crmm_priv_room_sum_up(&counters->room);

    return (crmm_priv_counter_pair){
        .bytes = {sums.outstanding.bytes, sums.ceiling.bytes, sums.total.bytes},
        .allocations = {sums.outstanding.allocations, sums.ceiling.allocations,
                        sums.total.allocations},
    };
}

/* Go on from a pair of counters; all locks are held. */
static void restart(crmm_priv_counters *counters, const crmm_priv_counter_pair *pair)
{
    const crmm_priv_room_sums sums = {
        .outstanding = {pair->bytes.value, pair->allocations.value},
        .ceiling = {pair->bytes.peak, pair->allocations.peak},
        .total = {pair->bytes.total, pair->allocations.total},
    };
    crmm_priv_room_restart(&counters->room, &sums);
}

crmm_priv_counter_pair crmm_priv_counters_read(crmm_priv_counters *counters)
{
    crmm_priv_room_lock(&counters->room);
    crmm_priv_counter_pair pair = current(counters);
    crmm_priv_room_unlock(&counters->room);
    return pair;
}

bool crmm_priv_counters_push(crmm_priv_counters *counters, crmm_priv_counter_pair *pair)
{
    crmm_priv_counter_level *level = malloc(sizeof(*level));
    if (level == NULL) {
        return false;
    }
    crmm_priv_room_lock(&counters->room);
    *pair = current(counters);
    level->pair = *pair;
    level->below = counters->below;
    counters->below = level;
    restart(counters, &(crmm_priv_counter_pair){0});
    crmm_priv_room_unlock(&counters->room);
    return true;
}

bool crmm_priv_counters_pop(crmm_priv_counters *counters, crmm_priv_counter_pair *pair)
{
    crmm_priv_room_lock(&counters->room);
    crmm_priv_counter_level *level = counters->below;
    if (level != NULL) {
        *pair = current(counters);
        counters->below = level->below;
        crmm_priv_counter_pair_merge(&level->pair, pair);
        restart(counters, &level->pair);
    }
    crmm_priv_room_unlock(&counters->room);
    free(level);
    return level != NULL;
}

bool crmm_priv_counters_init(crmm_priv_counters *counters)
{
    counters->below = NULL;
    return crmm_priv_room_init(&counters->room);
}

void crmm_priv_counters_finish(crmm_priv_counters *counters)
{
    while (counters->below != NULL) {
        crmm_priv_counter_level *level = counters->below;
        counters->below = level->below;
        free(level);
    }
    crmm_priv_room_finish(&counters->room);
}
