/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_TABLE_H
#define CRMM_ADAPTORS_SRC_TRACKING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/stream.h>

#include "tracking_stack.h"

/* An allocation, as crmm_tracked_allocation describes it. */
typedef struct crmm_priv_tracked {
    const void *ptr; /* NULL: an empty slot of a table */
    size_t bytes;
    size_t alignment;
    crmm_stream stream;
    uint64_t thread;
    uint64_t time;
    uint64_t epoch;
    const char *label;
    crmm_priv_stack *stack; /* one reference, or NULL */
} crmm_priv_tracked;

typedef struct crmm_priv_tracking_shard crmm_priv_tracking_shard;

/*
 * What is outstanding, by address, in shards with a lock each. An entry's slot is reserved when it
 * is added; taking it out allocates nothing.
 *
 * Thread-safety: safe.
 */
typedef struct crmm_priv_tracking_table {
    crmm_priv_tracking_shard *shards;
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
    CRMM_PRIV_TRACKING_TAKEN_BEFORE, /* not in, but it was until a moment ago */
    CRMM_PRIV_TRACKING_UNKNOWN       /* not in */
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
