/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_TABLE_H
#define CRMM_DEVICE_POOL_EXTENTS_TABLE_H

/*
 * The extents in use, by the address where they begin: a hash table, in which also
 * crmm_priv_extents_lookup() looks.
 */

#include "extents_bins.h"

/* Where the search for an address begins, by its low bits, so that a slot tells its own. */
static inline uint32_t slot_of(const crmm_priv_extents *extents, uint32_t key)
{
    /* Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4. */
    return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (extents->table_size - 1);
}

static inline void insert(crmm_priv_extents *extents, uint64_t at, uint32_t index)
{
    uint32_t slot = slot_of(extents, (uint32_t)at);

    while (extents->table[slot].index != NONE) {
        slot = (slot + 1) & (extents->table_size - 1);
    }
    extents->table[slot] = (crmm_priv_extent_slot){.key = (uint32_t)at, .index = index};
    extents->used_count++;
}

static inline uint32_t find(const crmm_priv_extents *extents, uint64_t at)
{
    uint32_t slot = slot_of(extents, (uint32_t)at);

    while (extents->table[slot].index != NONE) {
        if (extents->table[slot].key == (uint32_t)at &&
            get(extents, extents->table[slot].index)->at == at) {
            return slot;
        }
        slot = (slot + 1) & (extents->table_size - 1);
    }
    return UINT32_MAX;
}

/* Remove an entry, which is there, and close the gap, so that no search ends early. */
static inline void erase(crmm_priv_extents *extents, uint64_t at, uint32_t index)
{
    const uint32_t mask = extents->table_size - 1;
    uint32_t gap = slot_of(extents, (uint32_t)at);

    while (extents->table[gap].index != index) {
        gap = (gap + 1) & mask;
    }
    for (uint32_t slot = (gap + 1) & mask; extents->table[slot].index != NONE;
         slot = (slot + 1) & mask) {
        uint32_t home = slot_of(extents, extents->table[slot].key);
        if (((slot - home) & mask) >= ((slot - gap) & mask)) {
            extents->table[gap] = extents->table[slot];
            gap = slot;
        }
    }
    extents->table[gap].index = NONE;
    extents->used_count--;
}

/* An extent that is in no list is in use, after crmm_priv_extents_reserve(). */
static inline void crmm_priv_extents_make_used(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->state = CRMM_PRIV_POOL_USED;
    insert(extents, extent->at, index);
    extents->used_granules += extent->size;
}

/* The reverse. */
static inline void crmm_priv_extents_unmake_used(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    erase(extents, extent->at, index);
    extents->used_granules -= extent->size;
}

/* Make the table twice as large. false: no host memory. */
bool crmm_priv_extents_table_grow(crmm_priv_extents *extents);

#endif
