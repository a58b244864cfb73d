/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LIMITING_BUDGET_H
#define CRMM_ADAPTORS_SRC_LIMITING_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/internal/lock.h>

#include "thread_number.h"

enum { CRMM_PRIV_BUDGET_SHARDS = 32 };

/* The most that a budget can have: the bit above is a shard's mark of being split. */
#define CRMM_PRIV_BUDGET_MOST ((size_t)PTRDIFF_MAX)

typedef struct crmm_priv_budget_shard {
    /* Atomic. In two cache lines, as processors fetch them in pairs. */
    _Alignas(128) size_t left;
    bool is_used; /* gets a part of what is split; under the lock */
} crmm_priv_budget_shard;

/*
 * An amount that many threads spend and refund: what is left of it is split among shards, one for
 * each thread, so that they do not write to one place. A shard that runs short gets a new part from
 * all that is left, under a lock; only that shows whether the budget is used up.
 *
 * Thread-safety: safe.
 */
typedef struct crmm_priv_budget {
    crmm_priv_lock lock; /* held while what is left is split anew */
    size_t limit;        /* CRMM_PRIV_BUDGET_MOST at most */
    crmm_priv_budget_shard *shards;
} crmm_priv_budget;

/* Nothing spent; of a limit of more than CRMM_PRIV_BUDGET_MOST, that. false: no memory. */
bool crmm_priv_budget_init(crmm_priv_budget *budget, size_t limit);
void crmm_priv_budget_finish(crmm_priv_budget *budget);

/* Exact where nobody else spends or refunds meanwhile; never more than the limit. */
size_t crmm_priv_budget_spent(crmm_priv_budget *budget);

/* ---- spending: on the path of every call, so inlined into it ---- */

/* Spend from a shard that has less, or tell that all of them have. */
bool crmm_priv_budget_spend_from_all(crmm_priv_budget *budget, crmm_priv_budget_shard *own,
                                     size_t amount);

/* The calling thread's. */
static inline crmm_priv_budget_shard *crmm_priv_budget_shard_of(const crmm_priv_budget *budget)
{
    return &budget->shards[crmm_priv_thread_number() % CRMM_PRIV_BUDGET_SHARDS];
}

/* false: it would be more than is left, and nothing is spent. */
static inline bool crmm_priv_budget_spend(crmm_priv_budget *budget, crmm_priv_budget_shard *own,
                                          size_t amount)
{
    size_t left = __atomic_load_n(&own->left, __ATOMIC_RELAXED);

    while (left >= amount && left <= CRMM_PRIV_BUDGET_MOST) {
        if (__atomic_compare_exchange_n(&own->left, &left, left - amount, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            return true;
        }
    }
    return crmm_priv_budget_spend_from_all(budget, own, amount);
}

static inline void crmm_priv_budget_refund(crmm_priv_budget_shard *own, size_t amount)
{
    (void)__atomic_fetch_add(&own->left, amount, __ATOMIC_RELAXED);
}

/*
 * Whether so much can have been spent, by what the thread's own shard has: false is certain, and
 * where one thread spends and refunds, so is true.
 */
static inline bool crmm_priv_budget_can_refund(const crmm_priv_budget *budget,
                                               const crmm_priv_budget_shard *own, size_t amount)
{
    size_t left = __atomic_load_n(&own->left, __ATOMIC_RELAXED) & CRMM_PRIV_BUDGET_MOST;

    return left <= budget->limit && amount <= budget->limit - left;
}

#endif
