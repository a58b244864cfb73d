/* SPDX-License-Identifier: Apache-2.0 */
#include "extents_states.h"

#include "extents_free.h"
#include "extents_table.h"

/* ---- lists ---- */

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

void crmm_priv_extents_make(crmm_priv_extents *extents, uint32_t index, crmm_priv_pool_state state)
{
    crmm_priv_extent *extent = get(extents, index);

    extent->state = (uint8_t)state;
    switch (state) {
    case CRMM_PRIV_POOL_USED:
        crmm_priv_extents_make_used(extents, index);
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

void crmm_priv_extents_unmake(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    switch ((crmm_priv_pool_state)extent->state) {
    case CRMM_PRIV_POOL_USED:
        crmm_priv_extents_unmake_used(extents, index);
        break;
    case CRMM_PRIV_POOL_FREE:
        crmm_priv_extents_unmake_free(extents, index);
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
