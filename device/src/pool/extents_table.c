/* SPDX-License-Identifier: Apache-2.0 */
#include "extents_table.h"

#include <stdlib.h>

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

uint32_t crmm_priv_extents_lookup(const crmm_priv_extents *extents, uint64_t at)
{
    uint32_t slot = find(extents, at);
    return slot == UINT32_MAX ? NONE : extents->table[slot].index;
}
