/* SPDX-License-Identifier: Apache-2.0 */
#include "tracking_slots.h"

#include <stdlib.h>
#include <string.h>

/* From the kept capacity on, slots of addresses at which nothing is outstanding are freed rather
 * than more memory taken, unless the others are more than half of what may be in use. */
enum { FIRST_CAPACITY = 1024, KEPT_CAPACITY = 8192 };

_Static_assert(sizeof(crmm_priv_tracking_slot) == 64, "one cache line");

/* ---- one slot ---- */

void crmm_priv_tracking_slot_store(crmm_priv_tracking_slot *slot, const crmm_priv_tracked *entry)
{
    slot->thread = (uint32_t)entry->thread;
    slot->is_live = true;
    slot->alignment_log2 = (unsigned char)__builtin_ctzll(entry->alignment);
    slot->bytes = entry->bytes;
    slot->stream = entry->stream;
    slot->time = entry->time;
    slot->epoch = entry->epoch;
    slot->label = entry->label;
    slot->stack = entry->stack;
}

void crmm_priv_tracking_slot_load(const crmm_priv_tracking_slot *slot, crmm_priv_tracked *entry)
{
    entry->bytes = slot->bytes;
    entry->alignment = (size_t)1 << slot->alignment_log2;
    entry->stream = slot->stream;
    entry->thread = slot->thread;
    entry->time = slot->time;
    entry->epoch = slot->epoch;
    entry->label = slot->label;
    entry->stack = slot->stack;
}

/* ---- searching ---- */

/* Where the search for an address begins. The multiplier is 2^64 divided by the golden ratio
 * (Knuth, The Art of Computer Programming 3, section 6.4). */
static inline size_t home_of(const crmm_priv_tracking_slots *slots, const void *ptr)
{
    return (size_t)((uint64_t)(uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15) >> slots->shift);
}

static inline size_t after(const crmm_priv_tracking_slots *slots, size_t index)
{
    return (index + 1) & (slots->capacity - 1);
}

static inline const void *address_at(const crmm_priv_tracking_slots *slots, size_t index)
{
    return __atomic_load_n(&slots->addresses[index], __ATOMIC_RELAXED);
}

crmm_priv_tracking_slot *crmm_priv_tracking_slots_find(const crmm_priv_tracking_slots *slots,
                                                       const void *ptr)
{
    size_t index = home_of(slots, ptr);
    const void *address;

    while ((address = address_at(slots, index)) != ptr) {
        if (address == NULL) {
            return NULL;
        }
        index = after(slots, index);
    }
    return &slots->slots[index];
}

/* Two threads that claim a slot for one address come by the same free slot, and one of them finds
 * it taken, so no address has two. */
crmm_priv_tracking_slot *crmm_priv_tracking_slots_claim(crmm_priv_tracking_slots *slots,
                                                        const void *ptr, bool *was_free)
{
    size_t index = home_of(slots, ptr);

    for (;;) {
        const void *address = NULL;
        *was_free = __atomic_compare_exchange_n(&slots->addresses[index], &address, ptr, false,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        if (*was_free || address == ptr) {
            return &slots->slots[index];
        }
        index = after(slots, index);
    }
}

bool crmm_priv_tracking_slots_at(const crmm_priv_tracking_slots *slots, size_t index,
                                 crmm_priv_tracked *entry)
{
    const crmm_priv_tracking_slot *slot = &slots->slots[index];

    entry->ptr = address_at(slots, index);
    if (entry->ptr == NULL || !slot->is_live) {
        return false;
    }
    crmm_priv_tracking_slot_load(slot, entry);
    return true;
}

/* ---- making slots free; alone ---- */

static bool allocate(crmm_priv_tracking_slots *slots, size_t capacity)
{
    size_t size = capacity * (sizeof(*slots->slots) + sizeof(*slots->addresses));

    slots->slots = aligned_alloc(_Alignof(crmm_priv_tracking_slot), size);
    if (slots->slots == NULL) {
        return false;
    }
    memset(slots->slots, 0, size);
    slots->addresses = (const void **)(void *)(slots->slots + capacity);
    slots->capacity = capacity;
    slots->shift = 64 - (unsigned)__builtin_ctzll(capacity);
    return true;
}

static size_t count_live(const crmm_priv_tracking_slots *slots)
{
    size_t count = 0;

    for (size_t i = 0; i < slots->capacity; i++) {
        count += slots->slots[i].is_live;
    }
    return count;
}

static size_t count_used(const crmm_priv_tracking_slots *slots)
{
    size_t count = 0;

    for (size_t i = 0; i < slots->capacity; i++) {
        count += slots->addresses[i] != NULL;
    }
    return count;
}

/* Move into twice the memory. false: there is none. */
static bool grow(crmm_priv_tracking_slots *slots)
{
    crmm_priv_tracking_slots larger;
    bool was_free;

    if (!allocate(&larger, slots->capacity * 2)) {
        return false;
    }
    for (size_t i = 0; i < slots->capacity; i++) {
        if (slots->addresses[i] != NULL) {
            *crmm_priv_tracking_slots_claim(&larger, slots->addresses[i], &was_free) =
                slots->slots[i];
        }
    }
    free(slots->slots);
    *slots = larger;
    return true;
}

/* Free a slot, and close the gap that it leaves in the searches that pass it. */
static void free_slot(crmm_priv_tracking_slots *slots, size_t gap)
{
    size_t mask = slots->capacity - 1;

    for (size_t i = after(slots, gap); slots->addresses[i] != NULL; i = after(slots, i)) {
        size_t from_home = (i - home_of(slots, slots->addresses[i])) & mask;
        if (from_home >= ((i - gap) & mask)) {
            slots->addresses[gap] = slots->addresses[i];
            slots->slots[gap] = slots->slots[i];
            gap = i;
        }
    }
    slots->addresses[gap] = NULL;
    slots->slots[gap].is_live = false;
}

/* Free the slots of all addresses at which nothing is outstanding, with no memory for it. */
static void sweep(crmm_priv_tracking_slots *slots)
{
    for (size_t i = 0; i < slots->capacity; i++) {
        while (slots->addresses[i] != NULL && !slots->slots[i].is_live) {
            free_slot(slots, i); /* another one may have moved here */
        }
    }
}

size_t crmm_priv_tracking_slots_renew(crmm_priv_tracking_slots *slots)
{
    bool is_enough = slots->capacity >= KEPT_CAPACITY &&
                     count_live(slots) <= crmm_priv_tracking_slots_most(slots) / 2;

    if (is_enough || !grow(slots)) {
        sweep(slots);
    }
    return count_used(slots);
}

/* ---- life ---- */

bool crmm_priv_tracking_slots_init(crmm_priv_tracking_slots *slots)
{
    return allocate(slots, FIRST_CAPACITY);
}

void crmm_priv_tracking_slots_finish(crmm_priv_tracking_slots *slots)
{
    for (size_t i = 0; i < slots->capacity; i++) {
        if (slots->slots[i].is_live) {
            crmm_priv_stack_release(slots->slots[i].stack);
        }
    }
    free(slots->slots);
}
