/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics_counters.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Two cache lines: processors fetch lines in pairs. */
enum { SHARD_ALIGNMENT = 128 };

struct crmm_priv_counter_shard {
    _Alignas(SHARD_ALIGNMENT) unsigned lock; /* 1: taken */
    unsigned is_active;
    size_t lender; /* among the active: who had slack to spare the last time */
    crmm_priv_amounts slack;
    crmm_priv_amounts total;
};

/* Counters put aside. */
struct crmm_priv_counter_level {
    crmm_priv_counter_pair pair;
    crmm_priv_counter_level *below;
};

/* ---- one pair ---- */

/* How far a counter is below its peak. */
static int64_t below_peak(const crmm_statistics_counter *counter)
{
    int64_t difference;
    return __builtin_sub_overflow(counter->peak, counter->value, &difference) ? INT64_MAX
                                                                              : difference;
}

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

/* ---- locks ----
 * A shard's lock is held for a handful of instructions and hardly ever contended, and a mutex would
 * cost twice as much as all the rest of a call. */

static void wait_for(const unsigned *lock)
{
    enum { PATIENCE = 100 };

    for (int i = 0; __atomic_load_n(lock, __ATOMIC_RELAXED) != 0; i++) {
        if (i >= PATIENCE) {
            /* Its holder is probably not running. */
            (void)sched_yield();
        }
    }
}

static inline void take(crmm_priv_counter_shard *shard)
{
    while (__atomic_exchange_n(&shard->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        wait_for(&shard->lock);
    }
}

static inline bool try_take(crmm_priv_counter_shard *shard)
{
    return __atomic_exchange_n(&shard->lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void leave(crmm_priv_counter_shard *shard)
{
    __atomic_store_n(&shard->lock, 0, __ATOMIC_RELEASE);
}

static void take_all(crmm_priv_counters *counters)
{
    pthread_mutex_lock(&counters->mutex);
    for (size_t i = 0; i < counters->active_count; i++) {
        take(counters->active[i]);
    }
}

static void leave_all(crmm_priv_counters *counters)
{
    for (size_t i = 0; i < counters->active_count; i++) {
        leave(counters->active[i]);
    }
    pthread_mutex_unlock(&counters->mutex);
}

/* ---- shards ---- */

/* The calling thread's shard, in all counters of the process. */
static inline crmm_priv_counter_shard *own_shard(const crmm_priv_counters *counters)
{
    static unsigned threads;
    static _Thread_local unsigned own; /* plus 1; 0: not chosen yet */

    if (own == 0) {
        own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % CRMM_PRIV_COUNTER_SHARDS + 1;
    }
    return &counters->shards[own - 1];
}

/* Begin to use a shard; all locks are held, and then that of the shard too. */
static void activate(crmm_priv_counters *counters, crmm_priv_counter_shard *shard)
{
    if (shard->is_active == 0) {
        take(shard);
        shard->is_active = 1;
        counters->active[counters->active_count] = shard;
        __atomic_store_n(&counters->active_count, counters->active_count + 1, __ATOMIC_RELEASE);
    }
}

/* Take all slack; all locks are held. */
static crmm_priv_amounts collect_slack(crmm_priv_counters *counters)
{
    crmm_priv_amounts all = {0};

    for (size_t i = 0; i < counters->active_count; i++) {
        crmm_priv_amounts *slack = &counters->active[i]->slack;
        all.bytes = crmm_priv_saturated(all.bytes, slack->bytes);
        all.allocations = crmm_priv_saturated(all.allocations, slack->allocations);
        *slack = (crmm_priv_amounts){0};
    }
    return all;
}

/* Deal slack out in equal parts, and what is left over to one shard, which is active; all locks are
 * held. */
static void deal_slack(crmm_priv_counters *counters, crmm_priv_counter_shard *last,
                       crmm_priv_amounts slack)
{
    int64_t shards = counters->active_count != 0 ? (int64_t)counters->active_count : 1;
    crmm_priv_amounts part = {slack.bytes / shards, slack.allocations / shards};

    for (size_t i = 0; i < counters->active_count; i++) {
        counters->active[i]->slack = part;
    }
    last->slack.bytes += slack.bytes % shards;
    last->slack.allocations += slack.allocations % shards;
}

/* Take an amount from the slack, and raise the peak by what is missing. */
static void use_up(int64_t *slack, int64_t *peak, int64_t amount)
{
    int64_t missing = amount > *slack ? amount - *slack : 0;

    *peak = crmm_priv_saturated(*peak, missing);
    *slack -= amount - missing;
}

static void count_total(crmm_priv_counter_shard *shard, int64_t bytes)
{
    shard->total.bytes = crmm_priv_saturated(shard->total.bytes, bytes);
    shard->total.allocations++;
}

static void give_slack(crmm_priv_counter_shard *shard, int64_t bytes)
{
    shard->slack.bytes = crmm_priv_saturated(shard->slack.bytes, bytes);
    shard->slack.allocations++;
}

static bool covers(const crmm_priv_counter_shard *shard, int64_t bytes)
{
    return shard->slack.bytes >= bytes && shard->slack.allocations >= 1;
}

/* ---- borrowing ---- */

/* Move half of one shard's slack to another; both locks are held. */
static void borrow_half(int64_t *slack, int64_t *lent)
{
    int64_t half = *lent - *lent / 2;

    *slack = crmm_priv_saturated(*slack, half);
    *lent -= half;
}

/*
 * Borrow slack from other shards until it covers an allocation; the shard's own lock is held, which
 * keeps those who sum up all slack out until the move is done. Others' locks are only tried, so
 * that two shards cannot wait for each other. false: it was not enough.
 */
static bool borrow(crmm_priv_counters *counters, crmm_priv_counter_shard *own, int64_t bytes)
{
    size_t count = __atomic_load_n(&counters->active_count, __ATOMIC_ACQUIRE);

    for (size_t i = 0; i < count; i++) {
        size_t index = (own->lender + i) % count;
        crmm_priv_counter_shard *lender = counters->active[index];
        if (lender == own || !try_take(lender)) {
            continue;
        }
        if (own->slack.bytes < bytes) {
            borrow_half(&own->slack.bytes, &lender->slack.bytes);
        }
        if (own->slack.allocations < 1) {
            borrow_half(&own->slack.allocations, &lender->slack.allocations);
        }
        leave(lender);
        if (covers(own, bytes)) {
            own->lender = index;
            return true;
        }
    }
    return false;
}

/* ---- counting ---- */

/* What the slack that was at hand does not cover. */
__attribute__((noinline)) static void add_from_all(crmm_priv_counters *counters,
                                                   crmm_priv_counter_shard *own, int64_t bytes)
{
    take_all(counters);
    activate(counters, own);
    crmm_priv_amounts slack = collect_slack(counters);
    use_up(&slack.bytes, &counters->peak.bytes, bytes);
    use_up(&slack.allocations, &counters->peak.allocations, 1);
    count_total(own, bytes);
    deal_slack(counters, own, slack);
    leave_all(counters);
}

void crmm_priv_counters_add(crmm_priv_counters *counters, int64_t bytes)
{
    crmm_priv_counter_shard *own = own_shard(counters);

    take(own);
    bool covered = covers(own, bytes) || (own->is_active != 0 && borrow(counters, own, bytes));
    if (covered) {
        own->slack.bytes -= bytes;
        own->slack.allocations--;
        count_total(own, bytes);
    }
    leave(own);
    if (!covered) {
        add_from_all(counters, own, bytes);
    }
}

/* The first call of a thread. */
__attribute__((noinline)) static void subtract_first(crmm_priv_counters *counters,
                                                     crmm_priv_counter_shard *own, int64_t bytes)
{
    take_all(counters);
    activate(counters, own);
    give_slack(own, bytes);
    leave_all(counters);
}

void crmm_priv_counters_subtract(crmm_priv_counters *counters, int64_t bytes)
{
    crmm_priv_counter_shard *own = own_shard(counters);

    take(own);
    bool is_active = own->is_active != 0;
    if (is_active) {
        give_slack(own, bytes);
    }
    leave(own);
    if (!is_active) {
        subtract_first(counters, own, bytes);
    }
}

/* ---- all of it ---- */

/* The counters now; all locks are held. */
static crmm_priv_counter_pair sum_up(const crmm_priv_counters *counters)
{
    crmm_priv_counter_pair pair = {.bytes = {.peak = counters->peak.bytes},
                                   .allocations = {.peak = counters->peak.allocations}};
    crmm_priv_amounts slack = {0};

    for (size_t i = 0; i < counters->active_count; i++) {
        const crmm_priv_counter_shard *shard = counters->active[i];
        slack.bytes = crmm_priv_saturated(slack.bytes, shard->slack.bytes);
        slack.allocations = crmm_priv_saturated(slack.allocations, shard->slack.allocations);
        pair.bytes.total = crmm_priv_saturated(pair.bytes.total, shard->total.bytes);
        pair.allocations.total =
            crmm_priv_saturated(pair.allocations.total, shard->total.allocations);
    }
    pair.bytes.value = pair.bytes.peak - slack.bytes;
    pair.allocations.value = pair.allocations.peak - slack.allocations;
    return pair;
}

/* Go on from a pair of counters; all locks are held. */
static void start_from(crmm_priv_counters *counters, const crmm_priv_counter_pair *pair)
{
    for (size_t i = 0; i < counters->active_count; i++) {
        counters->active[i]->total = (crmm_priv_amounts){0};
        counters->active[i]->slack = (crmm_priv_amounts){0};
    }
    counters->peak = (crmm_priv_amounts){pair->bytes.peak, pair->allocations.peak};
    if (counters->active_count != 0) {
        crmm_priv_counter_shard *first = counters->active[0];
        first->total = (crmm_priv_amounts){pair->bytes.total, pair->allocations.total};
        deal_slack(counters, first,
                   (crmm_priv_amounts){below_peak(&pair->bytes), below_peak(&pair->allocations)});
    }
}

crmm_priv_counter_pair crmm_priv_counters_read(crmm_priv_counters *counters)
{
    take_all(counters);
    crmm_priv_counter_pair pair = sum_up(counters);
    leave_all(counters);
    return pair;
}

bool crmm_priv_counters_push(crmm_priv_counters *counters, crmm_priv_counter_pair *pair)
{
    crmm_priv_counter_level *level = malloc(sizeof(*level));
    if (level == NULL) {
        return false;
    }
    take_all(counters);
    *pair = sum_up(counters);
    level->pair = *pair;
    level->below = counters->below;
    counters->below = level;
    start_from(counters, &(crmm_priv_counter_pair){0});
    leave_all(counters);
    return true;
}

bool crmm_priv_counters_pop(crmm_priv_counters *counters, crmm_priv_counter_pair *pair)
{
    take_all(counters);
    crmm_priv_counter_level *level = counters->below;
    if (level != NULL) {
        *pair = sum_up(counters);
        counters->below = level->below;
        crmm_priv_counter_pair_merge(&level->pair, pair);
        start_from(counters, &level->pair);
    }
    leave_all(counters);
    free(level);
    return level != NULL;
}

/* ---- life ---- */

bool crmm_priv_counters_init(crmm_priv_counters *counters)
{
    size_t size = CRMM_PRIV_COUNTER_SHARDS * sizeof(*counters->shards);

    *counters = (crmm_priv_counters){.shards = aligned_alloc(SHARD_ALIGNMENT, size)};
    if (counters->shards == NULL) {
        return false;
    }
    memset(counters->shards, 0, size);
    pthread_mutex_init(&counters->mutex, NULL);
    return true;
}

void crmm_priv_counters_finish(crmm_priv_counters *counters)
{
    while (counters->below != NULL) {
        crmm_priv_counter_level *level = counters->below;
        counters->below = level->below;
        free(level);
    }
    free(counters->shards);
    pthread_mutex_destroy(&counters->mutex);
}
