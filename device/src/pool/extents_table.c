/* SPDX-License-Identifier: Apache-2.0 */
#include "extents_table.h"

#include <stdlib.h>

#include "extents_bins.h"

static uint32_t slot_of(const crmm_priv_extents *extents, uint64_t at)
{
    /* Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4. */
    return (uint32_t)((at * 0x9E3779B97F4A7C15u) >> 32) & (extents->table_size - 1);
}

static void insert(crmm_priv_extents *extents, uint64_t at, uint32_t index)
{
    uint32_t slot = slot_of(extents, at);

    while (extents->table[slot].index != NONE) {
        slot = (slot + 1) & (extents->table_size - 1);
    }
    extents->table[slot] = (crmm_priv_extent_slot){.key = (uint32_t)at, .index = index};
    extents->used_count++;
}

static uint32_t find(const crmm_priv_extents *extents, uint64_t at)
{
    uint32_t slot = slot_of(extents, at);

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
static void erase(crmm_priv_extents *extents, uint64_t at, uint32_t index)
{
    const uint32_t mask = extents->table_size - 1;
    uint32_t gap = slot_of(extents, at);

    while (extents->table[gap].index != index) {
        gap = (gap + 1) & mask;
    }
    for (uint32_t slot = (gap + 1) & mask; extents->table[slot].index != NONE;
         slot = (slot + 1) & mask) {
        uint32_t home = slot_of(extents, get(extents, extents->table[slot].index)->at);
        if (((slot - home) & mask) >= ((slot - gap) & mask)) {
            extents->table[gap] = extents->table[slot];
            gap = slot;
        }
    }
    extents->table[gap].index = NONE;
    extents->used_count--;
}

bool crmm_priv_extents_table_grow(crmm_priv_extents *extents)
{
    crmm_priv_extent_slot *before = extents->table;
    uint32_t size = extents->table_size;
    crmm_priv_extent_slot *table = calloc((size_t)size * 2, sizeof(*table));

    if (table == NULL) {
        return false;
    }
    extents->table = table;
    extents->table_size = size * 2;
    extents->used_count = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (before[i].index != NONE) {
            insert(extents, get(extents, before[i].index)->at, before[i].index);
        }
    }
    free(before);
    return true;
}

void crmm_priv_extents_make_used(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->state = CRMM_PRIV_POOL_USED;
    insert(extents, extent->at, index);
    extents->used_granules += extent->size;
}

void crmm_priv_extents_unmake_used(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    erase(extents, extent->at, index);
    extents->used_granules -= extent->size;
}

uint32_t crmm_priv_extents_lookup(const crmm_priv_extents *extents, uint64_t at)
{
    uint32_t slot = find(extents, at);
    return slot == UINT32_MAX ? NONE : extents->table[slot].index;
}
