/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_WAIT_H
#define CRMM_DEVICE_POOL_WAIT_H

/*
 * Waiting on the CPU, when nothing else is left, and as little as will do: the fence that was
 * recorded first is waited for, since it is the one most likely to be reached first.
 */

#include "request.h"

/* Wait for a fenced block that is all that is needed, whichever streams go on. false: there is
 * none. */
bool crmm_priv_pool_wait_for_block(const crmm_priv_pool_request *request);

/* Wait for the oldest fenced memory that is not clean yet. false: there is none. */
bool crmm_priv_pool_wait_for_oldest(crmm_priv_pool *pool);

/* Wait for all work on the device: everything given back so far is clean then. A CUDA error code.
 */
int crmm_priv_pool_wait_for_all(crmm_priv_pool *pool);

#endif
