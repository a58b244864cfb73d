/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_HELD_H
#define CRMM_INTERNAL_HELD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * How much memory the library has taken from the CUDA runtime and the C heap for its users, and the
 * most so far: counted where the calls are made, so that no resource has to be trusted with it.
 * Off until crmm_priv_held_watch() is called, and one predictable branch then.
 *
 * Thread-safety: add, subtract and the getters are safe; watch must come before other threads use
 * the library.
 */
void crmm_priv_held_watch(void);

/* Whether somebody watches; for what would cost a call to find out. */
bool crmm_priv_held_is_watched(void);

void crmm_priv_held_add(size_t bytes);
void crmm_priv_held_subtract(size_t bytes);

/* The high-water mark of a pool of the driver's, told when the pool is done with: asking while it
 * is in use would cost a driver call each time. It counts in full, whenever it was reached. */
void crmm_priv_held_add_pool_peak(size_t bytes);

/* Start the peak again from what is held now. */
void crmm_priv_held_reset_peak(void);

size_t crmm_priv_held_now(void);
size_t crmm_priv_held_peak(void);

#endif
