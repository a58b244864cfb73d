/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User report 38: a resource that knows nothing of threads, behind the adaptor, under eight of
 * them, with figures and descriptions asked meanwhile. ThreadSanitizer sees what is not covered.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/adaptors/thread_safe_resource_adaptor.h>
#include <crmm/core/misuse.h>

#include "mock_resource.h"

enum { THREADS = 8, ROUNDS = 100000 / THREADS };

static crmm_resource *mr;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_thread_safe_threads: %s\n", what);
        exit(1);
    }
}

static void *use(void *unused)
{
    char text[128];

    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        size_t bytes = 1 + (size_t)i % 1000;
        check(crmm_allocate(mr, NULL, bytes, 16, &ptr) == CRMM_SUCCESS, "allocate");
        if (i % 100 == 0) {
            check(crmm_resource_trim(mr, 0, NULL) == CRMM_SUCCESS, "trim");
            check(crmm_resource_describe(mr, text, sizeof(text)) != 0, "describe");
        }
        if (i % 2 == 0) {
            crmm_deallocate(mr, NULL, ptr, bytes, 16);
        } else {
            crmm_deallocate_sync(mr, ptr, bytes, 16);
        }
    }
    return NULL;
}

int main(void)
{
    static mock_resource bottom; /* one thread at a time */
    pthread_t threads[THREADS];

    mock_resource_init(&bottom, CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED);
    check(crmm_thread_safe_resource_adaptor_create(&bottom.base, &mr) == CRMM_SUCCESS, "create");
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, use, NULL) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(bottom.live == 0, "leak");
    check(bottom.allocations == (size_t)THREADS * ROUNDS, "a call was lost");
    check(bottom.deallocations == bottom.allocations, "a call was lost");
    crmm_resource_release(&mr);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
