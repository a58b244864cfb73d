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

#endif
