/* SPDX-License-Identifier: Apache-2.0 */
#include "limiting_budget.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS = CRMM_PRIV_BUDGET_SHARDS };

_Thread_local unsigned crmm_priv_budget_own;

void crmm_priv_budget_choose_own(void)
{
    static unsigned threads;

    crmm_priv_budget_own = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % SHARDS + 1;
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

bool crmm_priv_budget_spend_from_all(crmm_priv_budget *budget, crmm_priv_budget_shard *own,
                                     size_t amount)
{
    if (amount > budget->limit) {
        return false;
    }
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

/* ---- what is spent ---- */

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

    *budget = (crmm_priv_budget){.limit = limit,
                                 .shards = aligned_alloc(_Alignof(crmm_priv_budget_shard), size)};
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
