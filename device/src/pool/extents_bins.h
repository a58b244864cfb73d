/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_BINS_H
#define CRMM_DEVICE_POOL_EXTENTS_BINS_H

/*
 * What the files of the heap share and nobody else includes, hence the short names: how an extent
 * is reached by its index, and which bin its size belongs into.
 */

#include "extents.h"

enum { NONE = 0 };

static inline crmm_priv_extent *get(const crmm_priv_extents *extents, uint32_t index)
{
    return &extents->all[index];
}

typedef struct place {
    uint32_t row, column;
} place;

/* Sizes below 32 have a bin each; above, each doubling has 32. */
static inline place place_of(uint32_t size)
{
    if (size < CRMM_PRIV_POOL_COLUMNS) {
        return (place){.row = 0, .column = size};
    }
    uint32_t highest = 31u - (uint32_t)__builtin_clz(size);
    return (place){.row = highest - 4,
                   .column = (size >> (highest - 5)) & (CRMM_PRIV_POOL_COLUMNS - 1)};
}

/* A bin by its number, in the order of sizes. */
static inline uint32_t number_of(place at)
{
    return at.row * CRMM_PRIV_POOL_COLUMNS + at.column;
}

/* The smallest size that belongs into a bin. */
static inline uint32_t smallest_in(uint32_t row, uint32_t column)
{
    return row == 0 ? column : (CRMM_PRIV_POOL_COLUMNS + column) << (row - 1);
}

/* Granules to skip in an extent so that a block in it is aligned. */
static inline uint32_t padding(const crmm_priv_extent *extent, uint32_t alignment)
{
    return (uint32_t)(-extent->at & (uint64_t)(alignment - 1));
}

#endif
