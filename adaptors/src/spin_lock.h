/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_SPIN_LOCK_H
#define CRMM_ADAPTORS_SRC_SPIN_LOCK_H

#include <stdbool.h>

/*
 * A lock for what is done in a handful of instructions and hardly ever contended: a mutex would
 * cost more than the rest of such a call. Who waits long yields, and then sleeps. 1: taken.
 */
typedef unsigned crmm_priv_spin_lock;

/* Wait until the lock looks free. */
void crmm_priv_spin_wait(const crmm_priv_spin_lock *lock);

static inline bool crmm_priv_spin_try(crmm_priv_spin_lock *lock)
{
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static inline void crmm_priv_spin_acquire(crmm_priv_spin_lock *lock)
{
    while (!crmm_priv_spin_try(lock)) {
        crmm_priv_spin_wait(lock);
    }
}

static inline void crmm_priv_spin_release(crmm_priv_spin_lock *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
