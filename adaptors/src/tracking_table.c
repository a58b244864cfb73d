/* SPDX-License-Identifier: Apache-2.0 */
#include "tracking_table.h"

#include <stdlib.h>
#include <string.h>

#include "spin_lock.h"
#include "thread_number.h"

enum {
    SHARDS = 32,
    SHARD_ALIGNMENT = 128, /* two cache lines: processors fetch lines in pairs */
    BATCH = 8              /* slots that a shard gets at a time to take into use */
};

struct crmm_priv_tracking_shard {
    _Alignas(SHARD_ALIGNMENT) crmm_priv_spin_lock lock;
    size_t unused; /* slots that it may take into use */
    /* What its threads have added less what they have taken, which others may have added: the sums
     * over all shards are numbers and bytes of the entries, modulo SIZE_MAX + 1. */
    size_t count;
    size_t bytes;
};

/* ---- locks ---- */

static inline crmm_priv_tracking_shard *lock_own(const crmm_priv_tracking_table *table)
{
    crmm_priv_tracking_shard *own = &table->shards[crmm_priv_thread_number() % SHARDS];

    crmm_priv_spin_acquire(&own->lock);
    return own;
}

static inline void unlock_own(crmm_priv_tracking_shard *own)
{
    crmm_priv_spin_release(&own->lock);
}

/* With all shards locked, no slot is. */
static void lock_shards(crmm_priv_lock *lock)
{
    const crmm_priv_tracking_table *table = (const crmm_priv_tracking_table *)lock;

    for (size_t i = 0; i < SHARDS; i++) {
        crmm_priv_spin_acquire(&table->shards[i].lock);
    }
}

static void unlock_shards(crmm_priv_lock *lock)
{
    const crmm_priv_tracking_table *table = (const crmm_priv_tracking_table *)lock;

    for (size_t i = 0; i < SHARDS; i++) {
        crmm_priv_spin_release(&table->shards[i].lock);
    }
}

static void lock_all(crmm_priv_tracking_table *table)
{
    crmm_priv_lock_acquire(&table->lock);
    lock_shards(&table->lock);
}

static void unlock_all(crmm_priv_tracking_table *table)
{
    unlock_shards(&table->lock);
    crmm_priv_lock_release(&table->lock);
}

/* ---- slots for new addresses ---- */

/* Get some slots to take into use; the shard is locked. false: too few are free. */
static bool get_batch(crmm_priv_tracking_table *table, crmm_priv_tracking_shard *own)
{
    size_t most = crmm_priv_tracking_slots_most(&table->slots);
    size_t claimed = __atomic_load_n(&table->claimed, __ATOMIC_RELAXED);

    do {
        if (claimed + BATCH > most) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&table->claimed, &claimed, claimed + BATCH, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    own->unused = BATCH;
    return true;
}

/* Make sure that there is a batch of slots. false: no memory. */
__attribute__((noinline)) static bool make_room(crmm_priv_tracking_table *table)
{
    lock_all(table);
    if (table->claimed + BATCH > crmm_priv_tracking_slots_most(&table->slots)) {
        for (size_t i = 0; i < SHARDS; i++) {
            table->shards[i].unused = 0;
        }
        table->claimed = crmm_priv_tracking_slots_renew(&table->slots);
    }
    bool has_room = table->claimed + BATCH <= crmm_priv_tracking_slots_most(&table->slots);
    unlock_all(table);
    return has_room;
}

/* The slot of an address, a new one if it has none; the shard is locked. NULL: none is free. */
static crmm_priv_tracking_slot *slot_for(crmm_priv_tracking_table *table,
                                         crmm_priv_tracking_shard *own, const void *ptr)
{
    crmm_priv_tracking_slot *slot = crmm_priv_tracking_slots_find(&table->slots, ptr);
    bool was_free;

    if (slot == NULL && (own->unused != 0 || get_batch(table, own))) {
        slot = crmm_priv_tracking_slots_claim(&table->slots, ptr, &was_free);
        own->unused -= was_free;
    }
    return slot;
}

/* ---- entries ---- */

/* Put an entry into its slot; what is in it goes to `*stale`, or NULL to its `ptr`. */
static void replace(crmm_priv_tracking_slot *slot, const crmm_priv_tracked *added,
                    crmm_priv_tracked *stale)
{
    stale->ptr = NULL;
    crmm_priv_spin_acquire(&slot->lock);
    if (slot->is_live) {
        crmm_priv_tracking_slot_load(slot, stale);
        stale->ptr = added->ptr;
    }
    crmm_priv_tracking_slot_store(slot, added);
    crmm_priv_spin_release(&slot->lock);
}

bool crmm_priv_tracking_table_add(crmm_priv_tracking_table *table, const crmm_priv_tracked *added,
                                  crmm_priv_tracked *stale)
{
    crmm_priv_tracking_shard *own = lock_own(table);
    crmm_priv_tracking_slot *slot;

    while ((slot = slot_for(table, own, added->ptr)) == NULL) {
        unlock_own(own);
        if (!make_room(table)) {
            return false;
        }
        own = lock_own(table); /* another thread may have been faster */
    }
    replace(slot, added, stale);
    own->count += stale->ptr == NULL;
    own->bytes += added->bytes - (stale->ptr != NULL ? stale->bytes : 0);
    unlock_own(own);
    return true;
}

/* Take the entry out of a slot, if there is one with this size and alignment. */
static crmm_priv_tracking_found empty(crmm_priv_tracking_slot *slot, size_t bytes, size_t alignment,
                                      crmm_priv_tracked *known)
{
    crmm_priv_tracking_found found = CRMM_PRIV_TRACKING_TAKEN_BEFORE;

    crmm_priv_spin_acquire(&slot->lock);
    if (slot->is_live) {
        crmm_priv_tracking_slot_load(slot, known);
        slot->is_live = bytes != 0 && (bytes != known->bytes || alignment != known->alignment);
        found = slot->is_live ? CRMM_PRIV_TRACKING_MISMATCHING : CRMM_PRIV_TRACKING_TAKEN;
    }
    crmm_priv_spin_release(&slot->lock);
    return found;
}

crmm_priv_tracking_found crmm_priv_tracking_table_take(crmm_priv_tracking_table *table,
                                                       const void *ptr, size_t bytes,
                                                       size_t alignment, crmm_priv_tracked *known)
{
    crmm_priv_tracking_found found = CRMM_PRIV_TRACKING_UNKNOWN;
    crmm_priv_tracking_shard *own = lock_own(table);
    crmm_priv_tracking_slot *slot = crmm_priv_tracking_slots_find(&table->slots, ptr);

    if (slot != NULL) {
        known->ptr = ptr;
        found = empty(slot, bytes, alignment, known);
    }
    if (found == CRMM_PRIV_TRACKING_TAKEN) {
        own->count--;
        own->bytes -= known->bytes;
    }
    unlock_own(own);
    return found;
}

/* ---- all entries ---- */

/* All shards are locked. */
static void sum_up(const crmm_priv_tracking_table *table, size_t *count, size_t *bytes)
{
    *count = 0;
    *bytes = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        *count += table->shards[i].count;
        *bytes += table->shards[i].bytes;
    }
}

void crmm_priv_tracking_table_sum(crmm_priv_tracking_table *table, size_t *count, size_t *bytes)
{
    lock_all(table);
    sum_up(table, count, bytes);
    unlock_all(table);
}

/* List into room for all; what is missing: entries that the list has no room for. */
static size_t list_into(crmm_priv_tracking_table *table, uint64_t from, uint64_t to,
                        crmm_priv_tracked_list *list)
{
    crmm_priv_tracked entry;
    size_t count;
    size_t bytes;

    lock_all(table);
    sum_up(table, &count, &bytes);
    bool has_room = count <= list->capacity;
    for (size_t i = 0; has_room && i < table->slots.capacity; i++) {
        if (crmm_priv_tracking_slots_at(&table->slots, i, &entry) && entry.epoch >= from &&
            entry.epoch < to) {
            crmm_priv_stack_retain(entry.stack);
            list->items[list->count++] = entry;
        }
    }
    unlock_all(table);
    return has_room ? 0 : count;
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t)((const crmm_priv_tracked *)a)->ptr;
    uintptr_t second = (uintptr_t)((const crmm_priv_tracked *)b)->ptr;
    return (first > second) - (first < second);
}

bool crmm_priv_tracking_table_list(crmm_priv_tracking_table *table, uint64_t from, uint64_t to,
                                   crmm_priv_tracked_list *list)
{
    size_t needed;

    *list = (crmm_priv_tracked_list){0};
    /* Memory is taken with no lock held, so there may be more entries by then. */
    while ((needed = list_into(table, from, to, list)) != 0) {
        size_t capacity = needed + needed / 8;
        free(list->items);
        list->items = calloc(capacity, sizeof(*list->items));
        if (list->items == NULL) {
            return false;
        }
        list->capacity = capacity;
    }
    if (list->count > 1) {
        qsort(list->items, list->count, sizeof(*list->items), compare_addresses);
    }
    return true;
}

void crmm_priv_tracked_list_finish(crmm_priv_tracked_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        crmm_priv_stack_release(list->items[i].stack);
    }
    free(list->items);
    *list = (crmm_priv_tracked_list){0};
}

/* ---- life ---- */

bool crmm_priv_tracking_table_init(crmm_priv_tracking_table *table)
{
    size_t size = SHARDS * sizeof(*table->shards);

    table->claimed = 0;
    table->shards = aligned_alloc(SHARD_ALIGNMENT, size);
    if (table->shards == NULL || !crmm_priv_tracking_slots_init(&table->slots)) {
        free(table->shards);
        return false;
    }
    memset(table->shards, 0, size);
    crmm_priv_lock_init_guard(&table->lock, lock_shards, unlock_shards);
    return true;
}

void crmm_priv_tracking_table_finish(crmm_priv_tracking_table *table)
{
    crmm_priv_lock_forget(&table->lock);
    crmm_priv_tracking_slots_finish(&table->slots);
    free(table->shards);
}
