/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_TABLE_H
#define CRMM_ADAPTORS_SRC_TRACKING_TABLE_H

#include <crmm/internal/lock.h>

#include "tracking_slots.h"

typedef struct crmm_priv_tracking_shard crmm_priv_tracking_shard;

/*
 * What is outstanding, by address. Each thread has a shard, which it locks while it is at the
 * slots and in which it counts; so a thread that is given addresses that it was given before writes
 * nothing that others do. Who needs the slots at one moment, or changes where they are, takes the
 * locks of all shards.
 *
 * An address has one slot, whoever allocates there: one that is handed out while it is outstanding
 * is found at once. It keeps the slot when it is given back, which tells a double free from a
 * foreign pointer, until slots are needed for other addresses. Giving back allocates nothing.
 *
 * Thread-safety: safe. A forked child finds the table whole and free.
 */
typedef struct crmm_priv_tracking_table {
    crmm_priv_lock lock; /* the first member; taken before the shards' locks, where all are */
    crmm_priv_tracking_slots slots;
    crmm_priv_tracking_shard *shards;
    size_t claimed; /* atomic: slots in use, or that shards may still take into use */
} crmm_priv_tracking_table;

/* false: no memory. */
bool crmm_priv_tracking_table_init(crmm_priv_tracking_table *table);

/* Forget everything. */
void crmm_priv_tracking_table_finish(crmm_priv_tracking_table *table);

/*
 * Add an entry. One that has its address already is replaced and handed out in `*stale`; otherwise
 * its `ptr` is NULL. false: no memory, and nothing was added.
 */
bool crmm_priv_tracking_table_add(crmm_priv_tracking_table *table, const crmm_priv_tracked *added,
                                  crmm_priv_tracked *stale);

typedef enum crmm_priv_tracking_found {
    CRMM_PRIV_TRACKING_TAKEN,        /* taken out; `*known` is the entry, with its reference */
    CRMM_PRIV_TRACKING_MISMATCHING,  /* still in; `*known` says what it is, without a reference */
    CRMM_PRIV_TRACKING_TAKEN_BEFORE, /* not in, but it was */
    CRMM_PRIV_TRACKING_UNKNOWN       /* not in, and was not, or long ago */
} crmm_priv_tracking_found;

/* Take an entry out, if it has this size and alignment; `bytes` 0 leaves both open. */
crmm_priv_tracking_found crmm_priv_tracking_table_take(crmm_priv_tracking_table *table,
                                                       const void *ptr, size_t bytes,
                                                       size_t alignment, crmm_priv_tracked *known);

/* Number and bytes of all entries, at one moment. */
void crmm_priv_tracking_table_sum(crmm_priv_tracking_table *table, size_t *count, size_t *bytes);

/* The entries at one moment, in the addresses' order, with a reference to each stack. */
typedef struct crmm_priv_tracked_list {
    crmm_priv_tracked *items;
    size_t count;
    size_t capacity;
} crmm_priv_tracked_list;

/* List the entries with from <= epoch < to. false: no memory. */
bool crmm_priv_tracking_table_list(crmm_priv_tracking_table *table, uint64_t from, uint64_t to,
                                   crmm_priv_tracked_list *list);
void crmm_priv_tracked_list_finish(crmm_priv_tracked_list *list);

#endif
