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
    return crmm_priv_extent_at(extents, index);
}

/* Bins by their number, in the order of sizes: those below 32 have one each; above, each doubling
 * has 32. */
static inline uint32_t bin_of(uint32_t size)
{
    uint32_t shift = 26u - (uint32_t)__builtin_clz(size | CRMM_PRIV_POOL_COLUMNS);

    return shift * CRMM_PRIV_POOL_COLUMNS + (size >> shift);
}

static inline uint32_t row_of(uint32_t bin)
{
    return bin / CRMM_PRIV_POOL_COLUMNS;
}

static inline uint32_t column_of(uint32_t bin)
{
    return bin % CRMM_PRIV_POOL_COLUMNS;
}

static inline uint32_t bin_at(uint32_t row, uint32_t column)
{
    return row * CRMM_PRIV_POOL_COLUMNS + column;
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
