/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_BIAS_H
#define CRMM_DEVICE_POOL_BIAS_H

/*
 * A lock for what one thread, its owner, uses millions of times a second and others once in a
 * while. The owner writes one flag and reads another, without an atomic instruction. Somebody else
 * takes the lock proper, raises the second flag, has the kernel put a memory barrier into all
 * running threads of the process (membarrier(2)), and waits until the owner is outside. Raising the
 * flags of many locks takes one barrier.
 *
 * Where the kernel has no such barrier, or a thread checker could not understand it, the owner
 * takes the lock proper every time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "spin.h"

#if defined(__SANITIZE_THREAD__)
#define CRMM_PRIV_BIAS_PLAIN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CRMM_PRIV_BIAS_PLAIN 1
#endif
#endif

typedef struct crmm_priv_bias {
    uint32_t inside;  /* the owner is */
    uint32_t revoked; /* it has to take the lock proper; stays so where there is no barrier */
    crmm_priv_spin lock;
} crmm_priv_bias;

/* Whether the kernel has the barrier, which is found out and asked for at the first call. */
bool crmm_priv_bias_has_barrier(void);

/* Nobody is inside. */
static inline void crmm_priv_bias_init(crmm_priv_bias *bias)
{
#ifdef CRMM_PRIV_BIAS_PLAIN
    *bias = (crmm_priv_bias){.revoked = 1};
#else
    *bias = (crmm_priv_bias){.revoked = crmm_priv_bias_has_barrier() ? 0 : 1};
#endif
}

/* ---- the owner ---- */

/* false: it has to call crmm_priv_bias_lock(). Ended by crmm_priv_bias_leave(). */
static inline bool crmm_priv_bias_enter(crmm_priv_bias *bias)
{
    __atomic_store_n(&bias->inside, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(__atomic_load_n(&bias->revoked, __ATOMIC_ACQUIRE) != 0, 0)) {
        __atomic_store_n(&bias->inside, 0, __ATOMIC_RELEASE);
        return false;
    }
    return true;
}

static inline void crmm_priv_bias_leave(crmm_priv_bias *bias)
{
    __atomic_store_n(&bias->inside, 0, __ATOMIC_RELEASE);
}

/* The slow way, which waits for others. */
static inline void crmm_priv_bias_lock(crmm_priv_bias *bias)
{
    crmm_priv_spin_lock(&bias->lock);
}

static inline void crmm_priv_bias_unlock(crmm_priv_bias *bias)
{
    crmm_priv_spin_unlock(&bias->lock);
}

/* The fast way where it is open, else the slow one. Ended by crmm_priv_bias_release() with the
 * answer. */
static inline bool crmm_priv_bias_acquire(crmm_priv_bias *bias)
{
    bool is_inside = crmm_priv_bias_enter(bias);

    if (!is_inside) {
        crmm_priv_bias_lock(bias);
    }
    return is_inside;
}

static inline void crmm_priv_bias_release(crmm_priv_bias *bias, bool is_inside)
{
    if (is_inside) {
        crmm_priv_bias_leave(bias);
    } else {
        crmm_priv_bias_unlock(bias);
    }
}

/* ---- others ---- */

/* Take the lock proper and raise the flag: the first half. */
void crmm_priv_bias_revoke(crmm_priv_bias *bias);

/* Between the halves, once for all locks that were revoked. */
void crmm_priv_bias_barrier(void);

/* The second half: wait until the owner is outside. */
void crmm_priv_bias_await(crmm_priv_bias *bias);

/* Give it back to the owner. */
void crmm_priv_bias_restore(crmm_priv_bias *bias);

#endif
