/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_LOCK_H
#define CRMM_INTERNAL_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/*
 * A mutex that a forked child finds free, whatever other threads of its parent did: all of them are
 * taken before a fork and let go after it, on both sides. So a thread never holds two, and does not
 * fork while it holds one.
 */
typedef struct crmm_priv_lock {
    pthread_mutex_t mutex;
    struct crmm_priv_lock *next; /* among those that were ever taken, or that guard others */
    bool known;
    /* NULL, or what takes the locks that this one guards, and lets them go */
    void (*take_guarded)(struct crmm_priv_lock *lock);
    void (*let_go_guarded)(struct crmm_priv_lock *lock);
} crmm_priv_lock;

#define CRMM_PRIV_LOCK_INITIALIZER         \
    {                                      \
        .mutex = PTHREAD_MUTEX_INITIALIZER \
    }

/*
 * Set up a lock that guards others, of any kind: who wants more than one of them takes this one
 * first, and so does a fork, which then takes them all. A thread that holds one of them alone waits
 * for no lock of the library, and does not fork.
 */
void crmm_priv_lock_init_guard(crmm_priv_lock *lock, void (*take_guarded)(crmm_priv_lock *lock),
                               void (*let_go_guarded)(crmm_priv_lock *lock));

void crmm_priv_lock_acquire(crmm_priv_lock *lock);
void crmm_priv_lock_release(crmm_priv_lock *lock);

/* The lock's storage is about to go. Nobody holds it or waits for it. */
void crmm_priv_lock_forget(crmm_priv_lock *lock);

#endif
