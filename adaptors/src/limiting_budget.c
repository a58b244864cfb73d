/* SPDX-License-Identifier: Apache-2.0 */
#include "limiting_budget.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS = CRMM_PRIV_BUDGET_SHARDS };

/* ---- splitting; the lock is held ----
 * A shard that is marked can be refunded to, but not spent from: who tries comes for the lock. So
 * with all of them marked what is left can only grow, and a sum that is short was short in truth.
 */

#define MARK (CRMM_PRIV_BUDGET_MOST + 1)

/* Take what the shards have, and leave them marked; also what has been refunded since. */
static size_t collect(crmm_priv_budget *budget)
{
    size_t all = 0;

    for (size_t i = 0; i < SHARDS; i++) {
        all += __atomic_exchange_n(&budget->shards[i].left, MARK, __ATOMIC_RELAXED) & ~MARK;
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

/*
 * Unmark them all. One shard, which has run short, gets half, and the others in use equal parts of
 * the rest.
 */
static void split(crmm_priv_budget *budget, const crmm_priv_budget_shard *own, size_t all)
{
    size_t others = count_used(budget) - 1;
    size_t part = others != 0 ? all / 2 / others : 0;

    for (size_t i = 0; i < SHARDS; i++) {
        crmm_priv_budget_shard *shard = &budget->shards[i];
        size_t share = shard->is_used ? part : 0;
        if (shard == own) {
            share = all - part * others;
        }
        /* A second mark added to the first is none. */
        (void)__atomic_fetch_add(&shard->left, share + MARK, __ATOMIC_RELAXED);
    }
}

bool crmm_priv_budget_spend_from_all(crmm_priv_budget *budget, crmm_priv_budget_shard *own,
                                     size_t amount)
{
    if (amount > budget->limit) {
        return false;
    }
    crmm_priv_lock_acquire(&budget->lock);
    own->is_used = true;
    size_t all = collect(budget);
    if (all < amount) {
        all += collect(budget); /* refunds to shards that were passed before others were marked */
    }
    bool is_enough = all >= amount;
    split(budget, own, is_enough ? all - amount : all);
    crmm_priv_lock_release(&budget->lock);
    return is_enough;
}

/* ---- what is spent ---- */

size_t crmm_priv_budget_spent(crmm_priv_budget *budget)
{
    size_t left = 0;

    crmm_priv_lock_acquire(&budget->lock);
    for (size_t i = 0; i < SHARDS; i++) {
        left += __atomic_load_n(&budget->shards[i].left, __ATOMIC_RELAXED);
    }
    crmm_priv_lock_release(&budget->lock);
    return left < budget->limit ? budget->limit - left : 0;
}

/* ---- life ---- */

bool crmm_priv_budget_init(crmm_priv_budget *budget, size_t limit)
{
    size_t size = SHARDS * sizeof(*budget->shards);

    *budget = (crmm_priv_budget){
        .lock = CRMM_PRIV_LOCK_INITIALIZER,
        .limit = limit < CRMM_PRIV_BUDGET_MOST ? limit : CRMM_PRIV_BUDGET_MOST,
        .shards = aligned_alloc(_Alignof(crmm_priv_budget_shard), size),
    };
    if (budget->shards == NULL) {
        return false;
    }
    memset(budget->shards, 0, size);
    budget->shards[0].left = budget->limit; /* whoever comes first collects it */
    return true;
}

void crmm_priv_budget_finish(crmm_priv_budget *budget)
{
    crmm_priv_lock_forget(&budget->lock);
    free(budget->shards);
}
