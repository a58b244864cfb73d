/* SPDX-License-Identifier: Apache-2.0 */

/* Free extents, found by how well they fit, or visited. */

#include "extents_bins.h"

enum { MOST_PROBES = 8 /* extents looked at within one bin */ };

/* ---- taking ---- */

static bool fits(const crmm_priv_extent *extent, uint32_t size, uint32_t alignment)
{
    return extent->size >= size && extent->size - size >= padding(extent, alignment);
}

/* What is looked for. */
typedef struct wanted {
    uint32_t size, alignment;
    uint32_t most; /* of a chunk for one block at a time */
} wanted;

static bool serves(const crmm_priv_extent *extent, const wanted *what)
{
    return fits(extent, what->size, what->alignment) &&
           crmm_priv_extent_may_serve(extent, what->most);
}

typedef struct candidate {
    uint32_t index, size;
    uint64_t at;
} candidate;

/* The tightest, then the one at the lowest address. */
static bool is_better(const crmm_priv_extent *extent, const candidate *best)
{
    return extent->size < best->size || (extent->size == best->size && extent->at < best->at);
}

/* The tightest fit among the first extents of a bin, then the one at the lowest address. */
static inline void search_bin(const crmm_priv_extents *extents, uint32_t index, const wanted *what,
                              uint64_t epoch, candidate *best)
{
    for (int i = 0; i < MOST_PROBES && index != NONE; i++) {
        const crmm_priv_extent *extent = get(extents, index);
        if (is_better(extent, best) && extent->epoch <= epoch && serves(extent, what)) {
            *best = (candidate){.index = index, .size = extent->size, .at = extent->at};
        }
        index = extent->bin_after;
    }
}

static inline void search_set(const crmm_priv_extents *extents, const crmm_priv_extent_set *set,
                              const wanted *what, uint32_t bin, uint64_t epoch, candidate *best)
{
    uint32_t before = best->index;

    search_bin(extents, set->bins[bin], what, epoch, best);
    if (best->index != before) {
        return;
    }
    /* The bins above hold larger extents only; the first one with a fit has the tightest. */
    uint32_t row = row_of(bin);
    uint32_t columns = set->columns[row] & (uint32_t)(~(uint64_t)0 << (column_of(bin) + 1));
    uint32_t rows = set->rows & (~0u << (row + 1));

    for (;;) {
        for (; columns != 0; columns &= columns - 1) {
            uint32_t column = (uint32_t)__builtin_ctz(columns);
            if (smallest_in(row, column) >= best->size) {
                return;
            }
            search_bin(extents, set->bins[bin_at(row, column)], what, epoch, best);
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

__attribute__((always_inline)) static inline uint32_t find_best(
    const crmm_priv_extents *extents, const wanted what, const crmm_priv_extent_source *sources,
    size_t source_count)
{
    const uint32_t bin = bin_of(what.size);
    candidate best = {.index = NONE, .size = UINT32_MAX, .at = UINT64_MAX};

    for (size_t i = 0; i < source_count; i++) {
        const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, sources[i].owner);
        if (has_any(extents, set, sources[i].epoch)) {
            search_set(extents, set, &what, bin, sources[i].epoch, &best);
        }
    }
    return best.index;
}

uint32_t crmm_priv_extents_find(const crmm_priv_extents *extents, uint32_t size, uint32_t alignment,
                                uint32_t most, const crmm_priv_extent_source *sources,
                                size_t source_count)
{
    const wanted what = {.size = size, .alignment = alignment, .most = most};

    return find_best(extents, what, sources, source_count);
}

uint32_t crmm_priv_extents_find_tightest(const crmm_priv_extents *extents, uint32_t size,
                                         const crmm_priv_extent_source *sources,
                                         size_t source_count)
{
    const wanted what = {.size = size, .alignment = 1, .most = CRMM_PRIV_POOL_ANY};

    return find_best(extents, what, sources, source_count);
}

/* Visit every free extent of some sources that is at least so large, until `visit` has seen all. */
static void for_each_fit(const crmm_priv_extents *extents, uint32_t size,
                         const crmm_priv_extent_source *sources, size_t source_count,
                         void (*visit)(const crmm_priv_extent *extent, uint32_t index, void *data),
                         void *data)
{
    const uint32_t first = row_of(bin_of(size));
    const uint32_t columns_of_first = ~0u << column_of(bin_of(size));

    for (size_t i = 0; i < source_count; i++) {
        const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, sources[i].owner);
        for (uint32_t row = first; set != NULL && row < CRMM_PRIV_POOL_ROWS; row++) {
            uint32_t columns = set->columns[row] & (row == first ? columns_of_first : ~0u);
            for (; columns != 0; columns &= columns - 1) {
                uint32_t index = set->bins[bin_at(row, (uint32_t)__builtin_ctz(columns))];
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

typedef struct tightest {
    wanted what;
    candidate best;
} tightest;

static void keep_tightest(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    tightest *found = data;

    if (is_better(extent, &found->best) && serves(extent, &found->what)) {
        found->best = (candidate){.index = index, .size = extent->size, .at = extent->at};
    }
}

uint32_t crmm_priv_extents_find_any(const crmm_priv_extents *extents, uint32_t size,
                                    uint32_t alignment, uint32_t most,
                                    const crmm_priv_extent_source *sources, size_t source_count)
{
    tightest found = {.what = {.size = size, .alignment = alignment, .most = most},
                      .best = {.index = NONE, .size = UINT32_MAX, .at = UINT64_MAX}};

    for_each_fit(extents, size, sources, source_count, keep_tightest, &found);
    return found.best.index;
}

uint32_t crmm_priv_extents_find_oldest(const crmm_priv_extents *extents, uint32_t size,
                                       uint32_t alignment, crmm_priv_extent_source source)
{
    enum { MOST_VISITS = 4096 };
    const crmm_priv_extent_set *set = crmm_priv_extents_set(extents, source.owner);
    uint32_t index = set == NULL ? NONE : set->oldest;

    for (int i = 0; i < MOST_VISITS && index != NONE; i++) {
        const crmm_priv_extent *extent = get(extents, index);
        if (extent->epoch <= source.epoch && fits(extent, size, alignment)) {
            return index;
        }
        index = extent->age_after;
    }
    return index == NONE ? NONE
                         : crmm_priv_extents_find_any(extents, size, alignment, CRMM_PRIV_POOL_ANY,
                                                      &source, 1);
}

typedef struct thrifty {
    candidate part, whole; /* of a chunk */
    uint32_t most;
} thrifty;

static void keep_thrifty(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    thrifty *found = data;
    bool is_whole = extent->before == NONE && extent->after == NONE;
    candidate *best = is_whole ? &found->whole : &found->part;

    if (is_better(extent, best) && crmm_priv_extent_may_serve(extent, found->most)) {
        *best = (candidate){.index = index, .size = extent->size, .at = extent->at};
    }
}

uint32_t crmm_priv_extents_find_thrifty(const crmm_priv_extents *extents, uint32_t size,
                                        uint32_t most, const crmm_priv_extent_source *sources,
                                        size_t source_count)
{
    const candidate none = {.index = NONE, .size = UINT32_MAX, .at = UINT64_MAX};
    thrifty found = {.part = none, .whole = none, .most = most};

    for_each_fit(extents, size, sources, source_count, keep_thrifty, &found);
    return found.part.index != NONE ? found.part.index : found.whole.index;
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
                uint32_t bin = set->bins[bin_at(row, (uint32_t)__builtin_ctz(columns))];
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
        for (uint32_t index = set->bins[bin_at(row, column)]; index != NONE;
             index = get(extents, index)->bin_after) {
            largest = get(extents, index)->size > largest ? get(extents, index)->size : largest;
        }
    }
    return largest;
}
