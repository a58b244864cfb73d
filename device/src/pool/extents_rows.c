/* SPDX-License-Identifier: Apache-2.0 */

/* Rows: free neighbours of several owners, which are an extent each and one piece of memory. */

#include "extents_bins.h"

enum {
    FEW_SEEDS = 8,    /* extents of a source that suffice, whose rows are looked at */
    MOST_SEEDS = 64,  /* the same where none suffices by itself */
    LEAST_SHARE = 4,  /* of the size: what one of those has at least */
    EQUAL_SHARE = 32, /* extents that differ by less fit equally well */
    MOST_VISITS = 64  /* neighbours looked at on either side */
};

typedef struct row_search {
    const crmm_priv_extents *extents;
    const crmm_priv_extent_source *sources;
    size_t source_count;
    uint32_t size, alignment;
    uint32_t least, most; /* sizes of extents whose rows are looked at */
    bool is_lowest_first; /* else `most` falls to those that fit as well as the tightest one */
    int seeds;            /* of this source, to be looked at still */
    uint32_t best;        /* the first extent of the lowest row */
} row_search;

static bool is_of_source(const row_search *search, uint32_t index)
{
    const crmm_priv_extent *extent = get(search->extents, index);

    for (size_t i = 0; i < search->source_count && extent->state == CRMM_PRIV_POOL_FREE; i++) {
        if (extent->owner == search->sources[i].owner) {
            return extent->epoch <= search->sources[i].epoch;
        }
    }
    return false;
}

/* Whether the row that begins at an extent of the sources is long enough. */
static bool has_room(const row_search *search, uint32_t first)
{
    uint64_t need =
        (uint64_t)search->size + padding(get(search->extents, first), search->alignment);
    uint64_t size = get(search->extents, first)->size;
    uint32_t next = get(search->extents, first)->after;

    for (int i = 0; size < need && i < 2 * MOST_VISITS && next != NONE; i++) {
        if (!is_of_source(search, next)) {
            return false;
        }
        size += get(search->extents, next)->size;
        next = get(search->extents, next)->after;
    }
    return size >= need;
}

static void look_around(row_search *search, uint32_t seed)
{
    uint32_t first = seed;
    uint32_t before = get(search->extents, seed)->before;

    for (int i = 0; i < MOST_VISITS && before != NONE && is_of_source(search, before); i++) {
        first = before;
        before = get(search->extents, before)->before;
    }
    if ((search->best == NONE ||
         get(search->extents, first)->at < get(search->extents, search->best)->at) &&
        has_room(search, first)) {
        search->best = first;
    }
}

static void look_in_bin(row_search *search, uint32_t index, uint64_t epoch)
{
    for (; index != NONE && search->seeds > 0; index = get(search->extents, index)->bin_after) {
        const crmm_priv_extent *extent = get(search->extents, index);
        if (extent->size < search->least || extent->size > search->most || extent->epoch > epoch) {
            continue;
        }
        search->seeds--;
        if (!search->is_lowest_first) {
            uint32_t equal = extent->size + extent->size / EQUAL_SHARE;
            search->most = equal < search->most ? equal : search->most;
        }
        look_around(search, index);
    }
}

static void look_in_set(row_search *search, const crmm_priv_extent_set *set, uint64_t epoch)
{
    const place at = place_of(search->least);

    for (uint32_t rows = set->rows & (~0u << at.row); rows != 0; rows &= rows - 1) {
        uint32_t row = (uint32_t)__builtin_ctz(rows);
        uint32_t columns = set->columns[row] & (row == at.row ? ~0u << at.column : ~0u);
        for (; columns != 0; columns &= columns - 1) {
            uint32_t column = (uint32_t)__builtin_ctz(columns);
            if (search->seeds == 0 || smallest_in(row, column) > search->most) {
                return;
            }
            look_in_bin(search, set->bins[row][column], epoch);
        }
    }
}

/* Look around the smallest extents of each source that have a size at least. */
static uint32_t find_around(row_search search, uint32_t least, int seeds)
{
    search.least = least;
    for (size_t i = 0; i < search.source_count; i++) {
        const crmm_priv_extent_set *set =
            crmm_priv_extents_set(search.extents, search.sources[i].owner);
        if (set != NULL) {
            search.seeds = seeds;
            look_in_set(&search, set, search.sources[i].epoch);
        }
    }
    return search.best;
}

uint32_t crmm_priv_extents_find_row(const crmm_priv_extents *extents, uint32_t size,
                                    uint32_t alignment, const crmm_priv_extent_source *sources,
                                    size_t source_count, bool is_lowest_first)
{
    row_search search = {.extents = extents,
                         .sources = sources,
                         .source_count = source_count,
                         .size = size,
                         .alignment = alignment,
                         .most = UINT32_MAX,
                         .is_lowest_first = is_lowest_first};
    uint32_t first = find_around(search, size, FEW_SEEDS);

    search.is_lowest_first = true;
    return first != NONE ? first : find_around(search, size / LEAST_SHARE, MOST_SEEDS);
}
