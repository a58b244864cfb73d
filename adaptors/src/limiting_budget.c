/* SPDX-License-Identifier: Apache-2.0 */
#include "limiting_budget.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHARDS = 32,
    SHARD_ALIGNMENT = 128 /* two cache lines: processors fetch lines in pairs */
};

struct crmm_priv_budget_shard {
    _Alignas(SHARD_ALIGNMENT) size_t left; /* atomic */
    bool is_used;                          /* gets a part of what is split; under the mutex */
};

/* The calling thread's shard, of every budget in the process. */
static inline crmm_priv_budget_shard *own_shard(const crmm_priv_budget *budget)
{
    static unsigned threads;
    static _Thread_local unsigned own; /* plus 1; 0: not chosen yet */

    if (own == 0) {
        own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % SHARDS + 1;
    }
    return &budget->shards[own - 1];
}

/* ---- splitting; the mutex is held ----
 * Others may spend and refund meanwhile. Who finds a shard empty then comes for the mutex too, so
 * nobody is refused because of what is just being split. */

static size_t collect(crmm_priv_budget *budget)
{
    size_t all = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        if (__atomic_load_n(&budget->shards[i].left, __ATOMIC_RELAXED) != 0) {
            all += __atomic_exchange_n(&budget->shards[i].left, 0, __ATOMIC_RELAXED);
        }
    }
    return all;
}

static size_t count_used(const crmm_priv_budget *budget)
{
    size_t count = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        count += budget->shards[i].is_used;
    }
    return count;
}

/* One shard, which has run short, gets half, and the others in use equal parts of the rest. */
static void split(crmm_priv_budget *budget, crmm_priv_budget_shard *own, size_t all)
{
    size_t others = count_used(budget) - 1;
    size_t part = others != 0 ? all / 2 / others : 0;

    for (size_t i = 0; i < SHARDS; i++) {
        crmm_priv_budget_shard *shard = &budget->shards[i];
        if (shard != own && shard->is_used) {
            (void)__atomic_fetch_add(&shard->left, part, __ATOMIC_RELAXED);
        }
    }
    (void)__atomic_fetch_add(&own->left, all - part * others, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static bool spend_from_all(crmm_priv_budget *budget,
                                                     crmm_priv_budget_shard *own, size_t amount)
{
    pthread_mutex_lock(&budget->mutex);
    own->is_used = true;
    size_t all = 0;
    size_t more;
    do {
        /* What is refunded to a shard that was passed already is found in the next round. */
        more = collect(budget);
        all += more;
    } while (all < amount && more != 0);
    bool is_enough = all >= amount;
    split(budget, own, is_enough ? all - amount : all);
    pthread_mutex_unlock(&budget->mutex);
    return is_enough;
}

/* ---- spending ---- */

bool crmm_priv_budget_spend(crmm_priv_budget *budget, size_t amount)
{
    crmm_priv_budget_shard *own = own_shard(budget);
    size_t left = __atomic_load_n(&own->left, __ATOMIC_RELAXED);

    if (amount > budget->limit) {
        return false;
    }
    while (left >= amount) {
        if (__atomic_compare_exchange_n(&own->left, &left, left - amount, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return spend_from_all(budget, own, amount);
}

void crmm_priv_budget_refund(crmm_priv_budget *budget, size_t amount)
{
    (void)__atomic_fetch_add(&own_shard(budget)->left, amount, __ATOMIC_RELAXED);
}

bool crmm_priv_budget_can_refund(const crmm_priv_budget *budget, size_t amount)
{
    size_t left = __atomic_load_n(&own_shard(budget)->left, __ATOMIC_RELAXED);

    return left <= budget->limit && amount <= budget->limit - left;
}

size_t crmm_priv_budget_spent(crmm_priv_budget *budget)
{
    size_t left = 0;

    pthread_mutex_lock(&budget->mutex);
    for (size_t i = 0; i < SHARDS; i++) {
        left += __atomic_load_n(&budget->shards[i].left, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&budget->mutex);
    return left < budget->limit ? budget->limit - left : 0;
}

/* ---- life ---- */

bool crmm_priv_budget_init(crmm_priv_budget *budget, size_t limit)
{
    size_t size = SHARDS * sizeof(*budget->shards);

    *budget = (crmm_priv_budget){.limit = limit, .shards = aligned_alloc(SHARD_ALIGNMENT, size)};
    if (budget->shards == NULL) {
        return false;
    }
    memset(budget->shards, 0, size);
    budget->shards[0].left = limit; /* whoever comes first collects it */
    pthread_mutex_init(&budget->mutex, NULL);
    return true;
}

void crmm_priv_budget_finish(crmm_priv_budget *budget)
{
    free(budget->shards);
    pthread_mutex_destroy(&budget->mutex);
}
