/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions run on one thread, made when first needed, or each on one of its own if the
 * configuration says so. The lock is not held while they run.
 */
#include "emulated.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_cond_t work_ready = PTHREAD_COND_INITIALIZER;
static struct op *first, *last; /* linked by queue_next */
static bool started;

static void run_host_function(struct op *op)
{
    cudaHostFn_t fn = op->work.fn;
    void *user_data = op->work.user_data;
    if (CHECKER_ON) {
        checker_host_function_begin(op);
    }
    op->host_tid = syscall(SYS_gettid);
    engine_unlock();
    thread_state()->in_host_function = true;
    fn(user_data);
    thread_state()->in_host_function = false;
    engine_lock();
    if (CHECKER_ON) {
        checker_host_function_end(op);
    }
    engine.running--;
    op_complete(op);
    pthread_cond_broadcast(&engine.changed);
}

static void *one_thread(void *unused)
{
    (void)unused;
    engine_lock();
    for (;;) {
        while (first == NULL) {
            pthread_cond_wait(&work_ready, &engine.lock);
        }
        struct op *op = first;
        first = op->queue_next;
        run_host_function(op);
    }
    return NULL;
}

static void *own_thread(void *op)
{
    engine_lock();
    run_host_function(op);
    engine_unlock();
    return NULL;
}

/* The program's signals are none of this thread's business. */
static void start_thread(void *(*body)(void *), void *arg)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, body, arg) != 0) {
        abort();
    }
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void worker_push(struct op *op)
{
    engine.running++;
    if (config.host_thread_per_stream) {
        start_thread(own_thread, op);
        return;
    }
    op->queue_next = NULL;
    if (first == NULL) {
        first = op;
    } else {
        last->queue_next = op;
    }
    last = op;
    if (!started) {
        started = true;
        start_thread(one_thread, NULL);
    }
    pthread_cond_signal(&work_ready);
}
