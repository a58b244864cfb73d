/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_SLOTS_H
#define CRMM_ADAPTORS_SRC_TRACKING_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/stream.h>

#include "spin_lock.h"
#include "tracking_stack.h"

/* An allocation, as crmm_tracked_allocation describes it. */
typedef struct crmm_priv_tracked {
    const void *ptr;
    size_t bytes;
    size_t alignment;
    crmm_stream stream;
    uint64_t thread;
    uint64_t time;
    uint64_t epoch;
    const char *label;
    crmm_priv_stack *stack; /* one reference, or NULL */
} crmm_priv_tracked;

/*
 * What is known of one address, in one cache line: the allocation that is outstanding there, if one
 * is. Read and written with its lock held, or by who has all slots to himself.
 */
typedef struct crmm_priv_tracking_slot {
    _Alignas(64) crmm_priv_spin_lock lock;
    uint32_t thread; /* as the system numbers them */
    bool is_live;
    unsigned char alignment_log2;
    size_t bytes;
    crmm_stream stream;
    uint64_t time;
    uint64_t epoch;
    const char *label;
    crmm_priv_stack *stack;
} crmm_priv_tracking_slot;

/*
 * A slot for each address, by open addressing with linear probing. An address keeps its slot when
 * its allocation ends. The addresses are apart from the slots, so that who searches reads lines
 * that hardly anybody writes, and then touches the one slot that he is about.
 *
 * Thread-safety: any number of threads may find and claim at a time; what says "alone" needs that
 * none does. At least one slot must be free at all times, which is up to the caller.
 */
typedef struct crmm_priv_tracking_slots {
    crmm_priv_tracking_slot *slots;
    const void **addresses; /* atomic, of each slot; NULL: it is free. Part of the slots' memory */
    size_t capacity;        /* a power of two */
    unsigned shift;         /* of a hash, the bits that are not needed */
} crmm_priv_tracking_slots;

/* false: no memory. */
bool crmm_priv_tracking_slots_init(crmm_priv_tracking_slots *slots);

/* Forget everything; alone. */
void crmm_priv_tracking_slots_finish(crmm_priv_tracking_slots *slots);

/* The slot of an address; NULL: it has none. */
crmm_priv_tracking_slot *crmm_priv_tracking_slots_find(const crmm_priv_tracking_slots *slots,
                                                       const void *ptr);

/* The slot of an address, and whether it was free until now. */
crmm_priv_tracking_slot *crmm_priv_tracking_slots_claim(crmm_priv_tracking_slots *slots,
                                                        const void *ptr, bool *was_free);

/* Make as many slots free as is worth the work, and some at least unless there is no memory; alone.
 * The number of those that are not. */
size_t crmm_priv_tracking_slots_renew(crmm_priv_tracking_slots *slots);

/* How many of the slots may be in use, so that a search ends soon. */
static inline size_t crmm_priv_tracking_slots_most(const crmm_priv_tracking_slots *slots)
{
    return slots->capacity / 4 * 3;
}

/* The allocation at a slot's index, without a reference to its stack; false: none. Alone. */
bool crmm_priv_tracking_slots_at(const crmm_priv_tracking_slots *slots, size_t index,
                                 crmm_priv_tracked *entry);

/* Between a slot and an entry; a reference to the stack goes along. */
void crmm_priv_tracking_slot_store(crmm_priv_tracking_slot *slot, const crmm_priv_tracked *entry);
void crmm_priv_tracking_slot_load(const crmm_priv_tracking_slot *slot, crmm_priv_tracked *entry);

#endif
