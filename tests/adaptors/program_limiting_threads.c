/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit under contention: never exceeded, and a request that fits is never refused because of
 * another one that is itself about to be refused.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/adaptors/limiting_resource_adaptor.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>

enum { FITTING = 4, DOOMED = 4, ROUNDS = 20000, BLOCK = 256, LIMIT = FITTING * BLOCK };

static crmm_resource *limited;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_limiting_threads: %s\n", what);
        exit(1);
    }
}

/* One block at a time: all of these fit together. */
static void *fit(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(limited, BLOCK, 16, &ptr) == CRMM_SUCCESS, "a fitting request");
        check(crmm_limiting_resource_adaptor_allocated_bytes(limited) <= LIMIT, "over the limit");
        crmm_deallocate_sync(limited, ptr, BLOCK, 16);
    }
    return NULL;
}

static void *ask_too_much(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(limited, LIMIT + 1, 16, &ptr) == CRMM_ERROR_LIMIT_EXCEEDED,
              "a doomed request");
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[FITTING + DOOMED];

    check(crmm_limiting_resource_adaptor_create(crmm_malloc_memory_resource(), LIMIT, NULL,
                                                &limited) == CRMM_SUCCESS,
          "create");
    for (int i = 0; i < FITTING + DOOMED; i++) {
        check(pthread_create(&threads[i], NULL, i < FITTING ? fit : ask_too_much, NULL) == 0,
              "thread");
    }
    for (int i = 0; i < FITTING + DOOMED; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(crmm_limiting_resource_adaptor_allocated_bytes(limited) == 0, "counter");
    crmm_resource_release(&limited);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
