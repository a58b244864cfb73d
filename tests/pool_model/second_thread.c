/* SPDX-License-Identifier: Apache-2.0 */
#include "second_thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>

static struct {
    pthread_t thread;
    bool is_there;
    sem_t given, done;
    void (*what)(void *data); /* NULL: end */
    void *data;
} second;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) {
    }
}

static void *serve(void *unused)
{
    (void)unused;
    for (;;) {
        await(&second.given);
        if (second.what == NULL) {
            return NULL;
        }
        second.what(second.data);
        (void)sem_post(&second.done);
    }
}

void second_thread_run(void (*what)(void *data), void *data)
{
    if (!second.is_there) {
        (void)sem_init(&second.given, 0, 0);
        (void)sem_init(&second.done, 0, 0);
        if (pthread_create(&second.thread, NULL, serve, NULL) != 0) {
            abort();
        }
        second.is_there = true;
    }
    second.what = what;
    second.data = data;
    (void)sem_post(&second.given);
    await(&second.done);
}

void second_thread_end(void)
{
    if (!second.is_there) {
        return;
    }
    second.what = NULL;
    (void)sem_post(&second.given);
    (void)pthread_join(second.thread, NULL);
    (void)sem_destroy(&second.given);
    (void)sem_destroy(&second.done);
    second.is_there = false;
}
