/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_TABLE_H
#define CRMM_DEVICE_POOL_EXTENTS_TABLE_H

/*
 * The extents in use, by the address where they begin: a hash table, in which also
 * crmm_priv_extents_lookup() looks.
 */

#include "extents.h"

/* An extent that is in no list is in use, after crmm_priv_extents_reserve(). */
void crmm_priv_extents_make_used(crmm_priv_extents *extents, uint32_t index);

/* The reverse. */
void crmm_priv_extents_unmake_used(crmm_priv_extents *extents, uint32_t index);

/* Make the table twice as large. false: no host memory. */
bool crmm_priv_extents_table_grow(crmm_priv_extents *extents);

#endif
