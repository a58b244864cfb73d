/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_STATES_H
#define CRMM_DEVICE_POOL_EXTENTS_STATES_H

/*
 * An extent is entered in what its state demands: the table, its owner's bins and ages, or a list
 * of its state, and the sum of granules. Its neighbours in address space are no matter here.
 */

#include "extents.h"

/* Enter an extent that is nowhere yet in what its state demands; free ones by their own function,
 * since they have an owner besides. */
void crmm_priv_extents_make(crmm_priv_extents *extents, uint32_t index, crmm_priv_pool_state state);

/* The reverse, whatever the state. */
void crmm_priv_extents_unmake(crmm_priv_extents *extents, uint32_t index);

/* The same for a free extent, of an owner for whom there is a set. */
void crmm_priv_extents_make_free(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                                 uint64_t epoch);

/* The same for a part of what was one extent before, which stood behind `older` by age: so that it
 * is as old as that was. */
void crmm_priv_extents_make_part(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                                 uint64_t epoch, uint32_t older);
void crmm_priv_extents_unmake_free(crmm_priv_extents *extents, uint32_t index);

/* A free extent loses `size` granules at its front, and is not all that. It keeps its place among
 * the owner's by age. */
void crmm_priv_extents_shorten_free(crmm_priv_extents *extents, uint32_t index, uint32_t size);

#endif
