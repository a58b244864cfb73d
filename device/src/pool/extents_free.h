/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_FREE_H
#define CRMM_DEVICE_POOL_EXTENTS_FREE_H

/*
 * Free extents are in their owner's bins, by size, and among the owner's by age. For the files of
 * the heap alone, as extents_bins.h; inline, since each large block that comes or goes passes here
 * several times.
 */

#include "extents_bins.h"

/* ---- bins ---- */

static inline void link_bin(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t bin = bin_of(extent->size);
    uint32_t next = set->bins[bin];

    extent->bin_before = NONE;
    extent->bin_after = next;
    if (next != NONE) {
        get(extents, next)->bin_before = index;
    } else {
        set->rows |= 1u << row_of(bin);
        set->columns[row_of(bin)] |= 1u << column_of(bin);
    }
    set->bins[bin] = index;
    set->granules += extent->size;
}

static inline void unlink_bin(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
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
    uint32_t bin = bin_of(extent->size);
    set->bins[bin] = extent->bin_after;
    if (extent->bin_after == NONE) {
        set->columns[row_of(bin)] &= ~(1u << column_of(bin));
        if (set->columns[row_of(bin)] == 0) {
            set->rows &= ~(1u << row_of(bin));
        }
    }
}

/* What an extent of an epoch comes behind. Nearly always that is the newest; a cache may let go of
 * what was given back before others' last fence. Where that is long ago it comes later than it
 * could, and so is found later, which is not worth a long search. */
static inline uint32_t place_of_epoch(const crmm_priv_extents *extents,
                                      const crmm_priv_extent_set *set, uint64_t epoch)
{
    enum { MOST_STEPS = 64 };
    uint32_t older = set->newest;

    for (int i = 0; i < MOST_STEPS && older != NONE && get(extents, older)->epoch > epoch; i++) {
        older = get(extents, older)->age_before;
    }
    return older;
}

/* `older`: what it comes behind; NONE: it is the oldest. */
static inline void link_age(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index,
                            uint32_t older)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->age_before = older;
    extent->age_after = older != NONE ? get(extents, older)->age_after : set->oldest;
    if (older != NONE) {
        get(extents, older)->age_after = index;
    } else {
        set->oldest = index;
    }
    if (extent->age_after != NONE) {
        get(extents, extent->age_after)->age_before = index;
    } else {
        set->newest = index;
    }
}

static inline void unlink_age(crmm_priv_extents *extents, crmm_priv_extent_set *set, uint32_t index)
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

static inline crmm_priv_extent_set *enter_bin(crmm_priv_extents *extents, uint32_t index,
                                              uint16_t owner, uint64_t epoch)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[owner];

    extent->state = CRMM_PRIV_POOL_FREE;
    extent->owner = owner;
    extent->epoch = epoch;
    link_bin(extents, set, index);
    set->count++;
    extents->free_granules += extent->size;
    return set;
}

/* Enter an extent that is nowhere yet as free memory of an owner for whom there is a set. */
static inline void crmm_priv_extents_make_free(crmm_priv_extents *extents, uint32_t index,
                                               uint16_t owner, uint64_t epoch)
{
    crmm_priv_extent_set *set = enter_bin(extents, index, owner, epoch);

    if (owner != CRMM_PRIV_POOL_CLEAN) {
        link_age(extents, set, index, place_of_epoch(extents, set, epoch));
    }
}

/* The same for a part of what was one extent before, which stood behind `older` by age: so that it
 * is as old as that was. */
static inline void crmm_priv_extents_make_part(crmm_priv_extents *extents, uint32_t index,
                                               uint16_t owner, uint64_t epoch, uint32_t older)
{
    crmm_priv_extent_set *set = enter_bin(extents, index, owner, epoch);

    if (owner != CRMM_PRIV_POOL_CLEAN) {
        link_age(extents, set, index, older);
    }
}

/* The reverse. */
static inline void crmm_priv_extents_unmake_free(crmm_priv_extents *extents, uint32_t index)
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

/* A free extent begins elsewhere, or is longer or shorter. It keeps its place among the owner's by
 * age, and in its bin if that is still the right one. */
static inline void crmm_priv_extents_resize_free(crmm_priv_extents *extents, uint32_t index,
                                                 uint64_t at, uint32_t size)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[extent->owner];
    uint64_t more = (uint64_t)size - extent->size;

    extent->at = at;
    extents->free_granules += more;
    if (bin_of(size) == bin_of(extent->size)) {
        set->granules += more;
        extent->size = size;
        return;
    }
    unlink_bin(extents, set, index);
    extent->size = size;
    link_bin(extents, set, index);
}

/* Something was given back to a free extent in an epoch. */
static inline void crmm_priv_extents_renew_free(crmm_priv_extents *extents, uint32_t index,
                                                uint64_t epoch)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent_set *set = extents->sets[extent->owner];

    if (epoch <= extent->epoch) {
        return;
    }
    extent->epoch = epoch;
    if (extent->owner != CRMM_PRIV_POOL_CLEAN && set->newest != index) {
        unlink_age(extents, set, index);
        link_age(extents, set, index, place_of_epoch(extents, set, epoch));
    }
}

#endif
