/* SPDX-License-Identifier: Apache-2.0 */

/* Rows: free neighbours of several owners, which are an extent each and one piece of memory. */

#include "extents_bins.h"

enum {
    FEW_SEEDS = 2,    /* extents of a source that suffice, whose rows are looked at */
    MOST_SEEDS = 64,  /* the same where none suffices by itself */
    LEAST_SHARE = 4,  /* of the size: what one of those has at least */
    FEW_VISITS = 64,  /* extents looked at in all, so that no call takes long */
    MOST_VISITS = 512 /* the same where none suffices by itself */
};

typedef struct row_search {
    const crmm_priv_extents *extents;
    const crmm_priv_extent_source *sources;
    size_t source_count;
    uint32_t size;
    uint32_t least;    /* size of a seed */
    int seeds, visits; /* that are left */
    uint32_t best;     /* the first extent of the lowest row */
} row_search;

static bool is_of_source(row_search *search, uint32_t index)
{
    const crmm_priv_extent *extent = get(search->extents, index);

    if (extent->state != CRMM_PRIV_POOL_FREE || search->visits <= 0) {
        return false;
    }
    search->visits--;
    for (size_t i = 0; i < search->source_count; i++) {
        if (extent->owner == search->sources[i].owner) {
            return extent->epoch <= search->sources[i].epoch;
        }
    }
    return false;
}

static uint32_t first_of_row(row_search *search, uint32_t index)
{
    uint32_t before = get(search->extents, index)->before;

    while (before != NONE && is_of_source(search, before)) {
        index = before;
        before = get(search->extents, index)->before;
    }
    return index;
}

/* Whether the row that begins at an extent of the sources is long enough. */
static bool has_room(row_search *search, uint32_t first)
{
    uint64_t size = get(search->extents, first)->size;
    uint32_t next = get(search->extents, first)->after;

    while (size < search->size && next != NONE && is_of_source(search, next)) {
        size += get(search->extents, next)->size;
        next = get(search->extents, next)->after;
    }
    return size >= search->size;
}

/* A row that an extent above the best row lies in begins no lower: it is the same, or above too. */
static bool is_below_best(const row_search *search, uint32_t index)
{
    return search->best == NONE ||
           get(search->extents, index)->at < get(search->extents, search->best)->at;
}

static void look_around(row_search *search, uint32_t seed)
{
    if (!is_below_best(search, seed)) {
        return;
    }
    uint32_t first = first_of_row(search, seed);
    if (has_room(search, first)) {
        search->best = first;
    }
}

static void look_in_bin(row_search *search, uint32_t index, uint64_t epoch)
{
    for (; index != NONE && search->seeds > 0 && search->visits > 0;
         index = get(search->extents, index)->bin_after) {
        const crmm_priv_extent *extent = get(search->extents, index);
        search->visits--;
        if (extent->size >= search->least && extent->epoch <= epoch) {
            search->seeds--;
            look_around(search, index);
        }
    }
}

static void look_in_set(row_search *search, const crmm_priv_extent_set *set, uint64_t epoch)
{
    const uint32_t least = bin_of(search->least);

    for (uint32_t rows = set->rows & (~0u << row_of(least)); rows != 0; rows &= rows - 1) {
        uint32_t row = (uint32_t)__builtin_ctz(rows);
        uint32_t columns =
            set->columns[row] & (row == row_of(least) ? ~0u << column_of(least) : ~0u);
        for (; columns != 0; columns &= columns - 1) {
            uint32_t column = (uint32_t)__builtin_ctz(columns);
            if (search->seeds == 0 || search->visits <= 0) {
                return;
            }
            look_in_bin(search, set->bins[bin_at(row, column)], epoch);
        }
    }
}

/* Look around extents of at least a size, the smallest ones of each source first. */
static uint32_t find_around(row_search *search, uint32_t least, int seeds, int visits)
{
    search->least = least;
    search->visits = visits;
    for (size_t i = 0; i < search->source_count; i++) {
        const crmm_priv_extent_set *set =
            crmm_priv_extents_set(search->extents, search->sources[i].owner);
        search->seeds = seeds;
        if (set != NULL) {
            look_in_set(search, set, search->sources[i].epoch);
        }
    }
    return search->best;
}

/* The same where an extent suffices: around few of its bin, which fit about as well, and of each
 * source the ones that came into it last. */
static uint32_t find_equal(row_search *search, uint32_t tightest)
{
    search->least = get(search->extents, tightest)->size;
    search->visits = FEW_VISITS;
    const uint32_t bin = bin_of(search->least);
    for (size_t i = 0; i < search->source_count; i++) {
        const crmm_priv_extent_set *set =
            crmm_priv_extents_set(search->extents, search->sources[i].owner);
        search->seeds = FEW_SEEDS;
        if (set != NULL && set->bins[bin] != NONE) {
            look_in_bin(search, set->bins[bin], search->sources[i].epoch);
        }
    }
    return search->best != NONE ? search->best : tightest;
}

/* Whether a block fills an extent that nothing free lies before. */
static bool fills_all(const crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    const crmm_priv_extent *extent = get(extents, index);

    return extent->size == size &&
           (extent->before == NONE || get(extents, extent->before)->state != CRMM_PRIV_POOL_FREE);
}

uint32_t crmm_priv_extents_find_row(const crmm_priv_extents *extents, uint32_t size,
                                    const crmm_priv_extent_source *sources, size_t source_count,
                                    bool is_lowest_first)
{
    uint32_t tightest = crmm_priv_extents_find_tightest(extents, size, sources, source_count);

    if (tightest != NONE && !is_lowest_first && fills_all(extents, tightest, size)) {
        return tightest;
    }
    row_search search = {
        .extents = extents, .sources = sources, .source_count = source_count, .size = size};
    if (tightest == NONE) {
        return find_around(&search, size / LEAST_SHARE, MOST_SEEDS, MOST_VISITS);
    }
    if (!is_lowest_first) {
        return find_equal(&search, tightest);
    }
    uint32_t first = find_around(&search, size, FEW_SEEDS, FEW_VISITS);
    return first != NONE ? first : tightest;
}
