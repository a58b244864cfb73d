/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SPIN_H
#define CRMM_DEVICE_POOL_SPIN_H

/*
 * Locks that are nearly always free, never held across a call of CUDA's: one atomic instruction,
 * where a mutex has two. A thread that does not get one soon lets others run, since its holder may
 * have been stopped, and sleeps in the end, since the holder may have a lower priority.
 */

#include <stdbool.h>
#include <stdint.h>

#include <crmm/internal/let_others_run.h>

typedef struct crmm_priv_spin {
    uint32_t taken;
} crmm_priv_spin;

static inline bool crmm_priv_spin_try(crmm_priv_spin *lock)
{
    return __atomic_exchange_n(&lock->taken, 1u, __ATOMIC_ACQUIRE) == 0;
}

/* One turn of a wait for what another thread is about to do; `turns` counts them from 0. */
__attribute__((noinline, cold, unused)) static void crmm_priv_spin_turn(uint32_t *turns)
{
    enum { PATIENCE = 200 };
    uint32_t turn = (*turns)++;

    if (turn >= PATIENCE) {
        crmm_priv_let_others_run(turn - PATIENCE);
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

__attribute__((noinline, cold, unused)) static void crmm_priv_spin_wait(crmm_priv_spin *lock)
{
    uint32_t turns = 0;

    do {
        while (__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) != 0) {
            crmm_priv_spin_turn(&turns);
        }
    } while (!crmm_priv_spin_try(lock));
}

static inline void crmm_priv_spin_lock(crmm_priv_spin *lock)
{
    if (__builtin_expect(!crmm_priv_spin_try(lock), 0)) {
        crmm_priv_spin_wait(lock);
    }
}

static inline void crmm_priv_spin_unlock(crmm_priv_spin *lock)
{
    __atomic_store_n(&lock->taken, 0u, __ATOMIC_RELEASE);
}

#endif
