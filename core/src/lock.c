/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/lock.h>

#include <stddef.h>

/* Guards the list. It is taken before any lock in it, and by nobody who holds one. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static crmm_priv_lock *first;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&list_mutex);
    for (crmm_priv_lock *lock = first; lock != NULL; lock = lock->next) {
        pthread_mutex_lock(&lock->mutex);
        if (lock->take_guarded != NULL) {
            lock->take_guarded(lock);
        }
    }
}

static void after_fork(void)
{
    for (crmm_priv_lock *lock = first; lock != NULL; lock = lock->next) {
        if (lock->let_go_guarded != NULL) {
            lock->let_go_guarded(lock);
        }
        pthread_mutex_unlock(&lock->mutex);
    }
    pthread_mutex_unlock(&list_mutex);
}

static void handle_forks(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

/* Enter a lock in the list: when it is taken for the first time, or guards others. */
static void make_known(crmm_priv_lock *lock)
{
    (void)pthread_once(&once, handle_forks);
    pthread_mutex_lock(&list_mutex);
    if (!lock->known) {
        lock->next = first;
        first = lock;
        __atomic_store_n(&lock->known, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&list_mutex);
}

void crmm_priv_lock_init_guard(crmm_priv_lock *lock, void (*take_guarded)(crmm_priv_lock *lock),
                               void (*let_go_guarded)(crmm_priv_lock *lock))
{
    *lock = (crmm_priv_lock)CRMM_PRIV_LOCK_INITIALIZER;
    lock->take_guarded = take_guarded;
    lock->let_go_guarded = let_go_guarded;
    make_known(lock);
}

void crmm_priv_lock_acquire(crmm_priv_lock *lock)
{
    if (!__atomic_load_n(&lock->known, __ATOMIC_ACQUIRE)) {
        make_known(lock);
    }
    pthread_mutex_lock(&lock->mutex);
}

void crmm_priv_lock_release(crmm_priv_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
}

void crmm_priv_lock_forget(crmm_priv_lock *lock)
{
    pthread_mutex_lock(&list_mutex);
    for (crmm_priv_lock **link = &first; *link != NULL; link = &(*link)->next) {
        if (*link == lock) {
            *link = lock->next;
            break;
        }
    }
    lock->known = false;
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_destroy(&lock->mutex);
}
