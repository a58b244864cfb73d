/* SPDX-License-Identifier: Apache-2.0 */
#include "extents.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_CAPACITY = 64,
    FIRST_TABLE = 256,
    MOST_PROBES = 8, /* extents looked at within one bin */
    NEW_EXTENTS = 3, /* that one call can make */
    NONE = 0
};

static crmm_priv_extent *get(const crmm_priv_extents *extents, uint32_t index)
{
    return &extents->all[index];
}

/* ---- the array ---- */

bool crmm_priv_extents_init(crmm_priv_extents *extents)
{
    extents->table_size = FIRST_TABLE;
    extents->table = calloc(FIRST_TABLE, sizeof(*extents->table));
    return extents->table != NULL && crmm_priv_extents_reserve(extents) &&
           crmm_priv_extents_reserve_owner(extents, CRMM_PRIV_POOL_CLEAN) &&
           crmm_priv_extents_reserve_owner(extents, CRMM_PRIV_POOL_STRANDED);
}

void crmm_priv_extents_finish(crmm_priv_extents *extents)
{
    for (uint32_t i = 0; i < extents->set_count; i++) {
        free(extents->sets[i]);
    }
    free(extents->sets);
    free(extents->table);
    free(extents->all);
    *extents = (crmm_priv_extents){0};
}

static bool grow_array(crmm_priv_extents *extents)
{
    uint32_t before = extents->capacity;
    uint32_t capacity = before == 0 ? FIRST_CAPACITY : before * 2;
    crmm_priv_extent *all = realloc(extents->all, capacity * sizeof(*all));

    if (all == NULL) {
        return false;
    }
    memset(all + before, 0, (capacity - before) * sizeof(*all));
    /* Entry 0 stands for none. The others are linked in order. */
    for (uint32_t i = capacity - 1; i >= before && i > 0; i--) {
        all[i].bin_after = extents->unused;
        extents->unused = i;
    }
    extents->all = all;
    extents->capacity = capacity;
    return true;
}

static bool has_unused(const crmm_priv_extents *extents, uint32_t count)
{
    uint32_t index = extents->unused;

    while (count > 0 && index != NONE) {
        index = get(extents, index)->bin_after;
        count--;
    }
    return count == 0;
}

static uint32_t new_extent(crmm_priv_extents *extents)
{
    uint32_t index = extents->unused;

    extents->unused = get(extents, index)->bin_after;
    *get(extents, index) = (crmm_priv_extent){0};
    return index;
}

static void delete_extent(crmm_priv_extents *extents, uint32_t index)
{
    *get(extents, index) = (crmm_priv_extent){.bin_after = extents->unused};
    extents->unused = index;
}

/* ---- the table of those in use ---- */

static uint32_t slot_of(const crmm_priv_extents *extents, uint64_t at)
{
    /* Fibonacci hashing: Knuth, The Art of Computer Programming 3, 6.4. */
    return (uint32_t)((at * 0x9E3779B97F4A7C15u) >> 32) & (extents->table_size - 1);
}

static void table_insert(crmm_priv_extents *extents, uint64_t at, uint32_t index)
{
    uint32_t slot = slot_of(extents, at);

    while (extents->table[slot].index != NONE) {
        slot = (slot + 1) & (extents->table_size - 1);
    }
    extents->table[slot] = (crmm_priv_extent_slot){.key = (uint32_t)at, .index = index};
    extents->used_count++;
}

static uint32_t table_find(const crmm_priv_extents *extents, uint64_t at)
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

/* Remove an entry and close the gap, so that no search ends early. */
static void table_remove(crmm_priv_extents *extents, uint64_t at)
{
    const uint32_t mask = extents->table_size - 1;
    uint32_t gap = table_find(extents, at);

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

static bool grow_table(crmm_priv_extents *extents)
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
            table_insert(extents, get(extents, before[i].index)->at, before[i].index);
        }
    }
    free(before);
    return true;
}

bool crmm_priv_extents_reserve(crmm_priv_extents *extents)
{
    if (!has_unused(extents, NEW_EXTENTS) && !grow_array(extents)) {
        return false;
    }
    /* At most half full. */
    return (extents->used_count + 1) * 2 <= extents->table_size || grow_table(extents);
}

bool crmm_priv_extents_reserve_owner(crmm_priv_extents *extents, uint16_t owner)
{
    if (owner >= extents->set_count) {
        uint32_t count = owner + 16u;
        crmm_priv_extent_set **sets =
            realloc(extents->sets, count * sizeof(crmm_priv_extent_set *));
        if (sets == NULL) {
            return false;
        }
        memset(sets + extents->set_count, 0,
               (count - extents->set_count) * sizeof(crmm_priv_extent_set *));
        extents->sets = sets;
        extents->set_count = count;
    }
    if (extents->sets[owner] == NULL) {
        extents->sets[owner] = calloc(1, sizeof(crmm_priv_extent_set));
    }
    return extents->sets[owner] != NULL;
}

/* ---- bins ---- */

typedef struct place {
    uint32_t row, column;
} place;

/* Sizes below 32 have a bin each; above, each doubling has 32. */
static place place_of(uint32_t size)
{
    if (size < CRMM_PRIV_POOL_COLUMNS) {
        return (place){.row = 0, .column = size};
    }
    uint32_t highest = 31u - (uint32_t)__builtin_clz(size);
    return (place){.row = highest - 4,
                   .column = (size >> (highest - 5)) & (CRMM_PRIV_POOL_COLUMNS - 1)};
}

static void link_bin(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);
    place at = place_of(extent->size);
    uint32_t *bin = &set->bins[at.row][at.column];

    extent->bin_before = NONE;
    extent->bin_after = *bin;
    if (*bin != NONE) {
        get(extents, *bin)->bin_before = index;
    }
    *bin = index;
    set->rows |= 1u << at.row;
    set->columns[at.row] |= 1u << at.column;
    set->granules += extent->size;
}

static void unlink_bin(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    set->granules -= extent->size;
    if (extent->bin_after != NONE) {
        get(extents, extent->bin_after)->bin_before = extent->bin_before;
    }
    if (extent->bin_before != NONE) {
        get(extents, extent->bin_before)->bin_after = extent->bin_after;
        return;
    }
    place at = place_of(extent->size);
    set->bins[at.row][at.column] = extent->bin_after;
    if (extent->bin_after == NONE) {
        set->columns[at.row] &= ~(1u << at.column);
        if (set->columns[at.row] == 0) {
            set->rows &= ~(1u << at.row);
        }
    }
}

static void link_age(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->age_before = set->newest;
    extent->age_after = NONE;
    if (set->newest != NONE) {
        get(extents, set->newest)->age_after = index;
    } else {
        set->oldest = index;
    }
    set->newest = index;
}

static void unlink_age(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    if (extent->age_before != NONE) {
        get(extents, extent->age_before)->age_after = extent->age_after;
    } else {
        set->oldest = extent->age_after;
    }
    if (extent->age_after != NONE) {
        get(extents, extent->age_after)->age_before = extent->age_before;
    } else {
        set->newest = extent->age_before;
    }
}

/* ---- states ---- */

static void make_free(crmm_priv_extents *extents, uint32_t index, uint16_t owner, uint64_t epoch)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[owner];

    extent->state = CRMM_PRIV_POOL_FREE;
    extent->owner = owner;
    extent->epoch = epoch;
    link_bin(extents, set, index);
    if (owner != CRMM_PRIV_POOL_CLEAN) {
        link_age(extents, set, index);
    }
    set->count++;
    extents->free_granules += extent->size;
}

static void unmake_free(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[extent->owner];

    unlink_bin(extents, set, index);
    if (extent->owner != CRMM_PRIV_POOL_CLEAN) {
        unlink_age(extents, set, index);
    }
    set->count--;
    extents->free_granules -= extent->size;
}

/* Holes and leaving extents are in a list each. */
static uint32_t *list_of(crmm_priv_extents *extents, uint8_t state)
{
    return state == CRMM_PRIV_POOL_HOLE ? &extents->holes : &extents->leaving;
}

static void link_list(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t *first = list_of(extents, extent->state);

    extent->bin_before = NONE;
    extent->bin_after = *first;
    if (*first != NONE) {
        get(extents, *first)->bin_before = index;
    }
    *first = index;
}

static void unlink_list(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    if (extent->bin_before != NONE) {
        get(extents, extent->bin_before)->bin_after = extent->bin_after;
    } else {
        *list_of(extents, extent->state) = extent->bin_after;
    }
    if (extent->bin_after != NONE) {
        get(extents, extent->bin_after)->bin_before = extent->bin_before;
    }
}

/* Enter an extent in what its state demands. */
static void make(crmm_priv_extents *extents, uint32_t index, crmm_priv_pool_state state)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->state = (uint8_t)state;
    switch (state) {
    case CRMM_PRIV_POOL_USED:
        table_insert(extents, extent->at, index);
        extents->used_granules += extent->size;
        break;
    case CRMM_PRIV_POOL_HOLE:
        link_list(extents, index);
        extents->hole_granules += extent->size;
        break;
    case CRMM_PRIV_POOL_LEAVING:
        link_list(extents, index);
        extents->leaving_granules += extent->size;
        break;
    case CRMM_PRIV_POOL_BUSY:
        extents->busy_granules += extent->size;
        break;
    case CRMM_PRIV_POOL_FREE:
    case CRMM_PRIV_POOL_NOTHING:
        break;
    }
}

/* The reverse. */
static void unmake(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    switch ((crmm_priv_pool_state)extent->state) {
    case CRMM_PRIV_POOL_USED:
        table_remove(extents, extent->at);
        extents->used_granules -= extent->size;
        break;
    case CRMM_PRIV_POOL_FREE:
        unmake_free(extents, index);
        break;
    case CRMM_PRIV_POOL_HOLE:
        unlink_list(extents, index);
        extents->hole_granules -= extent->size;
        break;
    case CRMM_PRIV_POOL_LEAVING:
        unlink_list(extents, index);
        extents->leaving_granules -= extent->size;
        break;
    case CRMM_PRIV_POOL_BUSY:
        extents->busy_granules -= extent->size;
        break;
    case CRMM_PRIV_POOL_NOTHING:
        break;
    }
}

/* ---- neighbours ---- */

/* Put a new extent into address space, right before another one. */
static void insert_before(crmm_priv_extents *extents, uint32_t index, uint32_t other)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent *next = get(extents, other);

    extent->before = next->before;
    extent->after = other;
    if (extent->before != NONE) {
        get(extents, extent->before)->after = index;
    }
    next->before = index;
}

/* Right after another one. */
static void insert_after(crmm_priv_extents *extents, uint32_t index, uint32_t other)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent *previous = get(extents, other);

    extent->before = other;
    extent->after = previous->after;
    if (extent->after != NONE) {
        get(extents, extent->after)->before = index;
    }
    previous->after = index;
}

/* An extent, in no list any more, swallows the one that follows it, in none either. */
static void swallow_next(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t victim = extent->after;

    extent->size += get(extents, victim)->size;
    extent->after = get(extents, victim)->after;
    if (extent->after != NONE) {
        get(extents, extent->after)->before = index;
    }
    delete_extent(extents, victim);
}

/* Whom two neighbours belong to when they are joined; UINT16_MAX: they are not. */
static uint16_t joint_owner(const crmm_priv_extents *extents, uint16_t one, uint16_t other)
{
    if (one == other) {
        return one;
    }
    if (extents->solo == 0) {
        return UINT16_MAX;
    }
    if (one == CRMM_PRIV_POOL_CLEAN && other == extents->solo) {
        return other;
    }
    return other == CRMM_PRIV_POOL_CLEAN && one == extents->solo ? one : UINT16_MAX;
}

/* An extent that is in no list becomes free, joined with its neighbours. */
static void free_and_join(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                          uint64_t epoch)
{
    for (;;) {
        const crmm_priv_extent *extent = get(extents, index);
        uint32_t before = extent->before;
        uint32_t after = extent->after;
        uint16_t joint = UINT16_MAX;

        if (after != NONE && get(extents, after)->state == CRMM_PRIV_POOL_FREE) {
            joint = joint_owner(extents, owner, get(extents, after)->owner);
        }
        if (joint != UINT16_MAX) {
            epoch = get(extents, after)->epoch > epoch ? get(extents, after)->epoch : epoch;
            unmake_free(extents, after);
            swallow_next(extents, index);
            owner = joint;
            continue;
        }
        if (before != NONE && get(extents, before)->state == CRMM_PRIV_POOL_FREE) {
            joint = joint_owner(extents, owner, get(extents, before)->owner);
        }
        if (joint == UINT16_MAX) {
            break;
        }
        epoch = get(extents, before)->epoch > epoch ? get(extents, before)->epoch : epoch;
        unmake_free(extents, before);
        swallow_next(extents, before);
        index = before;
        owner = joint;
    }
    make_free(extents, index, owner, epoch);
}

/* ---- chunks ---- */

uint32_t crmm_priv_extents_add(crmm_priv_extents *extents, uint64_t at, uint32_t size,
                               crmm_priv_pool_state state)
{
    uint32_t index = new_extent(extents);
    crmm_priv_extent *extent = get(extents, index);

    extent->at = at;
    extent->size = size;
    if (state == CRMM_PRIV_POOL_FREE) {
        make_free(extents, index, CRMM_PRIV_POOL_CLEAN, 0);
    } else {
        make(extents, index, state);
    }
    return index;
}

void crmm_priv_extents_remove(crmm_priv_extents *extents, uint32_t index)
{
    unmake(extents, index);
    delete_extent(extents, index);
}

/* ---- taking ---- */

/* Granules to skip in an extent so that a block in it is aligned. */
static uint32_t padding(const crmm_priv_extent *extent, uint32_t alignment)
{
    return (uint32_t)(-extent->at & (uint64_t)(alignment - 1));
}

static bool fits(const crmm_priv_extent *extent, uint32_t size, uint32_t alignment)
{
    return extent->size >= size && extent->size - size >= padding(extent, alignment);
}

typedef struct candidate {
    uint32_t index, size;
    uint64_t at;
} candidate;

/* The tightest fit among the first extents of a bin, then the one at the lowest address. */
static void search_bin(const crmm_priv_extents *extents, uint32_t index, uint32_t size,
                       uint32_t alignment, uint64_t epoch, candidate *best)
{
    for (int i = 0; i < MOST_PROBES && index != NONE; i++) {
        const crmm_priv_extent *extent = get(extents, index);
        if (extent->epoch <= epoch && fits(extent, size, alignment) &&
            (extent->size < best->size || (extent->size == best->size && extent->at < best->at))) {
            *best = (candidate){.index = index, .size = extent->size, .at = extent->at};
        }
        index = extent->bin_after;
    }
}

/* The smallest size that belongs into a bin. */
static uint32_t smallest_in(uint32_t row, uint32_t column)
{
    return row == 0 ? column : (CRMM_PRIV_POOL_COLUMNS + column) << (row - 1);
}

static void search_set(const crmm_priv_extents *extents, const crmm_priv_extent_set *set,
                       uint32_t size, uint32_t alignment, uint64_t epoch, candidate *best)
{
    place at = place_of(size);
    uint32_t before = best->index;

    search_bin(extents, set->bins[at.row][at.column], size, alignment, epoch, best);
    if (best->index != before) {
        return;
    }
    /* The bins above hold larger extents only; the first one with a fit has the tightest. */
    uint32_t columns = set->columns[at.row] & (uint32_t)(~(uint64_t)0 << (at.column + 1));
    uint32_t rows = set->rows & (~0u << (at.row + 1));
    uint32_t row = at.row;

    for (;;) {
        for (; columns != 0; columns &= columns - 1) {
            uint32_t column = (uint32_t)__builtin_ctz(columns);
            if (smallest_in(row, column) >= best->size) {
                return;
            }
            search_bin(extents, set->bins[row][column], size, alignment, epoch, best);
            if (best->index != before) {
                return;
            }
        }
        if (rows == 0) {
            return;
        }
        row = (uint32_t)__builtin_ctz(rows);
        rows &= rows - 1;
        columns = set->columns[row];
    }
}

/* Whether a source has anything; that nothing of it is old enough is seen at the oldest one. */
static bool has_any(const crmm_priv_extents *extents, const crmm_priv_extent_set *set,
                    uint64_t epoch)
{
    return set != NULL && set->rows != 0 &&
           (epoch == UINT64_MAX || get(extents, set->oldest)->epoch <= epoch);
}

uint32_t crmm_priv_extents_find(const crmm_priv_extents *extents, uint32_t size, uint32_t alignment,
                                const crmm_priv_extent_source *sources, size_t source_count)
{
    candidate best = {.index = NONE, .size = UINT32_MAX, .at = UINT64_MAX};

    for (size_t i = 0; i < source_count; i++) {
        const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, sources[i].owner);
        if (has_any(extents, set, sources[i].epoch)) {
            search_set(extents, set, size, alignment, sources[i].epoch, &best);
        }
    }
    return best.index;
}

/* Visit every free extent of some sources that is at least so large, until `visit` has seen all. */
static void for_each_fit(const crmm_priv_extents *extents, uint32_t size,
                         const crmm_priv_extent_source *sources, size_t source_count,
                         void (*visit)(const crmm_priv_extent *extent, uint32_t index, void *data),
                         void *data)
{
    const place at = place_of(size);

    for (size_t i = 0; i < source_count; i++) {
        const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, sources[i].owner);
        for (uint32_t row = at.row; set != NULL && row < CRMM_PRIV_POOL_ROWS; row++) {
            uint32_t columns = set->columns[row] & (row == at.row ? ~0u << at.column : ~0u);
            for (; columns != 0; columns &= columns - 1) {
                uint32_t index = set->bins[row][__builtin_ctz(columns)];
                for (; index != NONE; index = get(extents, index)->bin_after) {
                    const crmm_priv_extent *extent = get(extents, index);
                    if (extent->size >= size && extent->epoch <= sources[i].epoch) {
                        visit(extent, index, data);
                    }
                }
            }
        }
    }
}

static void keep_lowest(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    candidate *best = data;

    if (extent->at < best->at) {
        *best = (candidate){.index = index, .size = extent->size, .at = extent->at};
    }
}

uint32_t crmm_priv_extents_find_lowest(const crmm_priv_extents *extents, uint32_t size,
                                       const crmm_priv_extent_source *sources, size_t source_count)
{
    candidate best = {.index = NONE, .size = UINT32_MAX, .at = UINT64_MAX};

    for_each_fit(extents, size, sources, source_count, keep_lowest, &best);
    return best.index;
}

typedef struct thrifty {
    candidate part, whole; /* of a chunk */
    uint32_t most;         /* size of one for one block */
    bool (*has_one_block)(const void *chunks, uint64_t at);
    const void *chunks;
} thrifty;

static void keep_thrifty(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    thrifty *found = data;
    bool is_whole = extent->before == NONE && extent->after == NONE;
    candidate *best = is_whole ? &found->whole : &found->part;

    if (extent->size < best->size && ((is_whole && extent->size <= found->most) ||
                                      !found->has_one_block(found->chunks, extent->at))) {
        *best = (candidate){.index = index, .size = extent->size, .at = extent->at};
    }
}

uint32_t crmm_priv_extents_find_thrifty(const crmm_priv_extents *extents, uint32_t size,
                                        uint32_t most, const crmm_priv_extent_source *sources,
                                        size_t source_count,
                                        bool (*has_one_block)(const void *chunks, uint64_t at),
                                        const void *chunks)
{
    const candidate none = {.index = NONE, .size = UINT32_MAX};
    thrifty found = {.part = none,
                     .whole = none,
                     .most = most,
                     .has_one_block = has_one_block,
                     .chunks = chunks};

    for_each_fit(extents, size, sources, source_count, keep_thrifty, &found);
    return found.part.index != NONE ? found.part.index : found.whole.index;
}

/* What is free before a block becomes an extent of its own, with the same owner. */
static void cut_front(crmm_priv_extents *extents, uint32_t index, uint32_t size, uint16_t owner,
                      uint64_t epoch)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t front = new_extent(extents);

    get(extents, front)->at = extent->at;
    get(extents, front)->size = size;
    insert_before(extents, front, index);
    extent->at += size;
    extent->size -= size;
    make_free(extents, front, owner, epoch);
}

/* What is left after `size` granules becomes an extent of its own, which is returned. */
static uint32_t cut_back(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t back = new_extent(extents);

    get(extents, back)->at = extent->at + size;
    get(extents, back)->size = extent->size - size;
    insert_after(extents, back, index);
    extent->size = size;
    return back;
}

/* The common case: the block is the front of the extent. What is left keeps the entry, and with it
 * its place among the owner's by age. */
static uint32_t take_front(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[extent->owner];
    uint32_t taken = new_extent(extents);

    unlink_bin(extents, set, index);
    get(extents, taken)->at = extent->at;
    get(extents, taken)->size = size;
    insert_before(extents, taken, index);
    extent->at += size;
    extent->size -= size;
    link_bin(extents, set, index);
    extents->free_granules -= size;
    make(extents, taken, CRMM_PRIV_POOL_USED);
    return taken;
}

uint32_t crmm_priv_extents_take(crmm_priv_extents *extents, uint32_t index, uint32_t size,
                                uint32_t alignment)
{
    const crmm_priv_extent *extent = get(extents, index);
    uint32_t skip = padding(extent, alignment);
    uint16_t owner = extent->owner;
    uint64_t epoch = extent->epoch;

    if (skip == 0 && extent->size > size) {
        return take_front(extents, index, size);
    }
    unmake_free(extents, index);
    if (skip > 0) {
        cut_front(extents, index, skip, owner, epoch);
    }
    if (get(extents, index)->size > size) {
        make_free(extents, cut_back(extents, index, size), owner, epoch);
    }
    make(extents, index, CRMM_PRIV_POOL_USED);
    return index;
}

uint32_t crmm_priv_extents_divide(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    extents->used_granules -= get(extents, index)->size;
    uint32_t second = cut_back(extents, index, size);

    extents->used_granules += size;
    make(extents, second, CRMM_PRIV_POOL_USED);
    return second;
}

uint32_t crmm_priv_extents_take_run(crmm_priv_extents *extents, uint32_t first, uint32_t size,
                                    uint32_t alignment)
{
    uint32_t skip = padding(get(extents, first), alignment);

    while (skip >= get(extents, first)->size) {
        skip -= get(extents, first)->size;
        first = get(extents, first)->after;
    }
    uint16_t owner = get(extents, first)->owner;
    uint64_t epoch = get(extents, first)->epoch;
    unmake_free(extents, first);
    if (skip > 0) {
        cut_front(extents, first, skip, owner, epoch);
    }
    while (get(extents, first)->size < size) {
        uint32_t next = get(extents, first)->after;
        owner = get(extents, next)->owner;
        epoch = get(extents, next)->epoch;
        unmake_free(extents, next);
        swallow_next(extents, first);
    }
    if (get(extents, first)->size > size) {
        /* What is left is a part of the last one that was swallowed. */
        make_free(extents, cut_back(extents, first, size), owner, epoch);
    }
    make(extents, first, CRMM_PRIV_POOL_USED);
    return first;
}

/* ---- giving back ---- */

uint32_t crmm_priv_extents_lookup(const crmm_priv_extents *extents, uint64_t at)
{
    uint32_t slot = table_find(extents, at);
    return slot == UINT32_MAX ? NONE : extents->table[slot].index;
}

void crmm_priv_extents_release(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                               uint64_t epoch)
{
    unmake(extents, index);
    free_and_join(extents, index, owner, epoch);
}

void crmm_priv_extents_promote(crmm_priv_extents *extents, uint16_t owner, uint64_t epoch)
{
    crmm_priv_extent_set *set = crmm_priv_extents_set(extents, owner);

    while (set != NULL && set->oldest != NONE && get(extents, set->oldest)->epoch <= epoch) {
        uint32_t index = set->oldest;
        unmake_free(extents, index);
        free_and_join(extents, index, CRMM_PRIV_POOL_CLEAN, 0);
    }
}

/* ---- memory behind address space ---- */

uint32_t crmm_priv_extents_carve(crmm_priv_extents *extents, uint32_t index, uint64_t at,
                                 uint32_t size, crmm_priv_pool_state state)
{
    const crmm_priv_extent whole = *get(extents, index);
    uint32_t skip = (uint32_t)(at - whole.at);

    unmake(extents, index);
    if (skip > 0) {
        uint32_t front = new_extent(extents);
        get(extents, front)->at = whole.at;
        get(extents, front)->size = skip;
        insert_before(extents, front, index);
        get(extents, index)->at += skip;
        get(extents, index)->size -= skip;
        if (whole.state == CRMM_PRIV_POOL_FREE) {
            make_free(extents, front, whole.owner, whole.epoch);
        } else {
            make(extents, front, (crmm_priv_pool_state)whole.state);
        }
    }
    if (get(extents, index)->size > size) {
        uint32_t back = cut_back(extents, index, size);
        if (whole.state == CRMM_PRIV_POOL_FREE) {
            make_free(extents, back, whole.owner, whole.epoch);
        } else {
            make(extents, back, (crmm_priv_pool_state)whole.state);
        }
    }
    get(extents, index)->owner = whole.owner;
    get(extents, index)->epoch = whole.epoch;
    make(extents, index, state);
    return index;
}

void crmm_priv_extents_set_hole(crmm_priv_extents *extents, uint32_t index)
{
    unmake(extents, index);
    uint32_t after = get(extents, index)->after;
    if (after != NONE && get(extents, after)->state == CRMM_PRIV_POOL_HOLE) {
        unmake(extents, after);
        swallow_next(extents, index);
    }
    uint32_t before = get(extents, index)->before;
    if (before != NONE && get(extents, before)->state == CRMM_PRIV_POOL_HOLE) {
        unmake(extents, before);
        swallow_next(extents, before);
        index = before;
    }
    make(extents, index, CRMM_PRIV_POOL_HOLE);
}

void crmm_priv_extents_set_free(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                                uint64_t epoch)
{
    unmake(extents, index);
    free_and_join(extents, index, owner, epoch);
}

/* ---- looking ---- */

/* false: that was enough. */
static bool visit_bin(const crmm_priv_extents *extents, uint32_t index,
                      bool (*visit)(const crmm_priv_extent *extent, uint32_t index, void *data),
                      void *data)
{
    while (index != NONE) {
        const crmm_priv_extent *extent = get(extents, index);
        if (!visit(extent, index, data)) {
            return false;
        }
        index = extent->bin_after;
    }
    return true;
}

void crmm_priv_extents_for_each_free(const crmm_priv_extents *extents,
                                     bool (*visit)(const crmm_priv_extent *extent, uint32_t index,
                                                   void *data),
                                     void *data)
{
    for (uint32_t owner = 0; owner < extents->set_count; owner++) {
        const crmm_priv_extent_set *set = extents->sets[owner];
        for (uint32_t rows = set == NULL ? 0 : set->rows; rows != 0; rows &= rows - 1) {
            uint32_t row = (uint32_t)__builtin_ctz(rows);
            for (uint32_t columns = set->columns[row]; columns != 0; columns &= columns - 1) {
                uint32_t bin = set->bins[row][__builtin_ctz(columns)];
                if (!visit_bin(extents, bin, visit, data)) {
                    return;
                }
            }
        }
    }
}

uint32_t crmm_priv_extents_largest(const crmm_priv_extents *extents)
{
    uint32_t largest = 0;

    for (uint32_t owner = 0; owner < extents->set_count; owner++) {
        const crmm_priv_extent_set *set = extents->sets[owner];
        if (set == NULL || set->rows == 0) {
            continue;
        }
        uint32_t row = 31u - (uint32_t)__builtin_clz(set->rows);
        uint32_t column = 31u - (uint32_t)__builtin_clz(set->columns[row]);
        for (uint32_t index = set->bins[row][column]; index != NONE;
             index = get(extents, index)->bin_after) {
            largest = get(extents, index)->size > largest ? get(extents, index)->size : largest;
        }
    }
    return largest;
}
