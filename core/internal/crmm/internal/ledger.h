/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_LEDGER_H
#define CRMM_INTERNAL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>
#include <crmm/internal/lock.h>

typedef struct crmm_priv_ledger_entry crmm_priv_ledger_entry;

/*
 * Every block a resource has handed out, live or given back, by address: what finds foreign
 * pointers, wrong sizes and double frees. A block given back stays in the ledger until its address
 * is handed out again, so the ledger is as large as the number of distinct addresses ever seen.
 *
 * Thread-safety: safe. A ledger in zeroed or static storage is valid after
 * CRMM_PRIV_LEDGER_INITIALIZER.
 */
typedef struct crmm_priv_ledger {
    crmm_priv_lock lock;
    crmm_priv_ledger_entry *entries; /* open addressing, linear probing */
    size_t capacity;                 /* a power of two, or 0 */
    size_t used;
} crmm_priv_ledger;

#define CRMM_PRIV_LEDGER_INITIALIZER       \
    {                                      \
        .lock = CRMM_PRIV_LOCK_INITIALIZER \
    }

/* Enter a block that has just been handed out. false: no memory for the entry. */
bool crmm_priv_ledger_add(crmm_priv_ledger *ledger, const void *ptr, size_t bytes,
                          size_t alignment);

/*
 * Mark a block as given back, before it really is. Where it is unknown, already given back, or of
 * another size or alignment, that is reported in the name of `resource`, and false.
 */
bool crmm_priv_ledger_take(crmm_priv_ledger *ledger, const crmm_resource *resource, const void *ptr,
                           size_t bytes, size_t alignment);

/* Report what is live as a leak in the name of `resource`, and free the ledger's own memory. */
void crmm_priv_ledger_finish(crmm_priv_ledger *ledger, const crmm_resource *resource);

#endif
