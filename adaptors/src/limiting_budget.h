/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LIMITING_BUDGET_H
#define CRMM_ADAPTORS_SRC_LIMITING_BUDGET_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct crmm_priv_budget_shard crmm_priv_budget_shard;

/*
 * An amount that many threads spend and refund: what is left of it is split among shards, one for
 * each thread, so that they do not write to one place. A shard that runs short gets a new part from
 * all that is left, under a mutex; only that shows whether the budget is used up.
 *
 * Thread-safety: safe.
 */
typedef struct crmm_priv_budget {
    pthread_mutex_t mutex; /* held while what is left is split anew */
    size_t limit;
    crmm_priv_budget_shard *shards;
} crmm_priv_budget;

/* Nothing spent. false: no memory. */
bool crmm_priv_budget_init(crmm_priv_budget *budget, size_t limit);
void crmm_priv_budget_finish(crmm_priv_budget *budget);

/* false: it would be more than is left, and nothing is spent. */
bool crmm_priv_budget_spend(crmm_priv_budget *budget, size_t amount);
void crmm_priv_budget_refund(crmm_priv_budget *budget, size_t amount);

/*
 * Whether so much can have been spent, by what the thread's own shard has: false is certain, and
 * where one thread spends and refunds, so is true.
 */
bool crmm_priv_budget_can_refund(const crmm_priv_budget *budget, size_t amount);

/* Exact where nobody else spends or refunds meanwhile; never more than the limit. */
size_t crmm_priv_budget_spent(crmm_priv_budget *budget);

#endif
