/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of several threads at a time, which take and give back through the adaptor itself. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/adaptors/failure_callback_resource_adaptor.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>

#include "recording_resource.h"

enum { THREADS = 8, ROUNDS = 5000, TRIES = 4 };

static recording_resource bottom;
static crmm_resource *mr;
static size_t calls; /* atomic */

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_failure_callback_threads: %s\n", what);
        exit(1);
    }
}

/* An allocation made here fails as often as any, and must not come back here. */
static bool on_failure(const crmm_failure *failure, void *user_data)
{
    static _Thread_local int inside;
    void *ptr = NULL;

    check(user_data == &bottom, "user data");
    check(inside++ == 0, "called from itself");
    (void)__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (crmm_allocate_sync(mr, 100, 16, &ptr) == CRMM_SUCCESS) {
        crmm_deallocate_sync(mr, ptr, 100, 16);
    }
    inside--;
    return failure->attempt < TRIES;
}

static void *allocate(void *unused)
{
    (void)unused;
    recording_expect(true, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        crmm_status status = crmm_allocate_sync(mr, 200, 32, &ptr);
        if (status == CRMM_SUCCESS) {
            crmm_deallocate_sync(mr, ptr, 200, 32);
        } else {
            check(crmm_last_error()->status == status, "record");
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    recording_resource_init(&bottom, CRMM_HOST_ACCESSIBLE);
    bottom.fail_per_thousand = 300;
    check(crmm_failure_callback_resource_adaptor_create(&bottom.base, on_failure, &bottom, NULL,
                                                        &mr) == CRMM_SUCCESS,
          "create");
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, allocate, NULL) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(calls > 0, "no call");
    check(bottom.live_blocks == 0, "leak");
    check(bottom.wrong == 0, bottom.first_wrong);
    crmm_resource_release(&mr);
    recording_resource_finish(&bottom);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
