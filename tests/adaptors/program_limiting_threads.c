/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit under contention: never exceeded, and a request that fits is never refused because of
 * another one that is itself about to be refused. (User report 61: threads racing for a limit.)
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- threads that pass blocks on, near the limit ---- */

enum { CROWD = 8, SLOTS = 16, CROWD_LIMIT = 32 * BLOCK };

static void *slots[SLOTS]; /* blocks that any thread may give back; the size is in the block */
static size_t held;        /* bytes, from the end of an allocation to the start of the free */

static void give_back(void *ptr)
{
    if (ptr != NULL) {
        size_t bytes = *(size_t *)ptr;
        (void)__atomic_fetch_sub(&held, bytes, __ATOMIC_SEQ_CST);
        crmm_deallocate_sync(limited, ptr, bytes, 16);
    }
}

static void *crowd(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number + 1;

    for (int i = 0; i < ROUNDS; i++) {
        void **slot = &slots[(unsigned)rand_r(&seed) % SLOTS];
        size_t bytes = ((unsigned)rand_r(&seed) % 4 + 1) * BLOCK;
        void *ptr = NULL;
        crmm_status status = crmm_allocate_sync(limited, bytes, 16, &ptr);
        check(status == CRMM_SUCCESS || status == CRMM_ERROR_LIMIT_EXCEEDED, "another failure");
        if (ptr != NULL) {
            *(size_t *)ptr = bytes;
            check(__atomic_add_fetch(&held, bytes, __ATOMIC_SEQ_CST) <= CROWD_LIMIT, "exceeded");
        }
        give_back(__atomic_exchange_n(slot, ptr, __ATOMIC_ACQ_REL));
    }
    return NULL;
}

/* ---- threads that pass blocks on, and always fit ---- */

enum { PASSING = 4, PLACES = 4, PASSING_LIMIT = (PASSING + PLACES) * BLOCK };

/* A thread has one block in hand at most, so that there is room for the next whenever it asks. */
static void *pass_on(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number + 1;

    for (int i = 0; i < 10 * ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(limited, BLOCK, 16, &ptr) == CRMM_SUCCESS,
              "a request that fits beside blocks that others pass on");
        ptr = __atomic_exchange_n(&slots[(unsigned)rand_r(&seed) % PLACES], ptr, __ATOMIC_ACQ_REL);
        crmm_deallocate_sync(limited, ptr, ptr != NULL ? BLOCK : 0, 16);
    }
    return NULL;
}

static void run_passing(void)
{
    pthread_t threads[PASSING];

    memset(slots, 0, sizeof(slots));
    check(crmm_limiting_resource_adaptor_create(crmm_malloc_memory_resource(), PASSING_LIMIT, NULL,
                                                &limited) == CRMM_SUCCESS,
          "create");
    for (uintptr_t i = 0; i < PASSING; i++) {
        check(pthread_create(&threads[i], NULL, pass_on, (void *)i) == 0, "thread");
    }
    for (int i = 0; i < PASSING; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    for (int i = 0; i < PLACES; i++) {
        crmm_deallocate_sync(limited, slots[i], slots[i] != NULL ? BLOCK : 0, 16);
    }
    check(crmm_limiting_resource_adaptor_allocated_bytes(limited) == 0, "counter of the passing");
    crmm_resource_release(&limited);
}

static void run_crowd(void)
{
    pthread_t threads[CROWD];
    void *all = NULL;
    void *more = NULL;

    check(crmm_limiting_resource_adaptor_create(crmm_malloc_memory_resource(), CROWD_LIMIT, NULL,
                                                &limited) == CRMM_SUCCESS,
          "create");
    for (uintptr_t i = 0; i < CROWD; i++) {
        check(pthread_create(&threads[i], NULL, crowd, (void *)i) == 0, "thread");
    }
    for (int i = 0; i < CROWD; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    for (int i = 0; i < SLOTS; i++) {
        give_back(slots[i]);
    }
    check(crmm_limiting_resource_adaptor_allocated_bytes(limited) == 0, "counter of the crowd");
    check(crmm_allocate_sync(limited, CROWD_LIMIT, 16, &all) == CRMM_SUCCESS, "all of the limit");
    check(crmm_allocate_sync(limited, 1, 16, &more) == CRMM_ERROR_LIMIT_EXCEEDED,
          "more is left than the limit");
    crmm_deallocate_sync(limited, all, CROWD_LIMIT, 16);
    crmm_resource_release(&limited);
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
    run_crowd();
    run_passing();
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
