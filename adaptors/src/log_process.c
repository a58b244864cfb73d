/* SPDX-License-Identifier: Apache-2.0 */
#include "log_process.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static crmm_priv_log_link *first; /* with the mutex; all of this process */
static bool exiting;              /* with the mutex */
static void (*at_exit_of_each)(crmm_priv_log_link *);

static size_t process;
static _Thread_local uint32_t thread;

/* ---- handlers ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The parent's logs are the parent's to write. */
static void after_fork_in_child(void)
{
    first = NULL;
    (void)__atomic_fetch_add(&process, 1, __ATOMIC_RELAXED);
    thread = 0;
    pthread_mutex_unlock(&mutex);
}

static void at_exit(void)
{
    pthread_mutex_lock(&mutex);
    exiting = true;
    for (crmm_priv_log_link *link = first; link != NULL; link = link->next) {
        at_exit_of_each(link);
    }
    pthread_mutex_unlock(&mutex);
}

static void set_up(void)
{
    (void)atexit(at_exit);
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- what the logs use ---- */

size_t crmm_priv_log_process(void)
{
    return __atomic_load_n(&process, __ATOMIC_RELAXED);
}

uint32_t crmm_priv_log_thread(void)
{
    if (thread == 0) {
        thread = (uint32_t)gettid();
    }
    return thread;
}

bool crmm_priv_log_enter(crmm_priv_log_link *link, void (*at_exit_of_it)(crmm_priv_log_link *))
{
    (void)pthread_once(&once, set_up);
    pthread_mutex_lock(&mutex);
    bool entered = !exiting;
    if (entered) {
        at_exit_of_each = at_exit_of_it;
        link->next = first;
        link->here = &first;
        if (first != NULL) {
            first->here = &link->next;
        }
        first = link;
    }
    pthread_mutex_unlock(&mutex);
    return entered;
}

void crmm_priv_log_leave(crmm_priv_log_link *link)
{
    pthread_mutex_lock(&mutex);
    if (link->here != NULL && link->process == crmm_priv_log_process()) {
        *link->here = link->next;
        if (link->next != NULL) {
            link->next->here = link->here;
        }
        link->here = NULL;
    }
    pthread_mutex_unlock(&mutex);
}
