/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics under contention: the sums are right, and the peak is neither below what callers held
 * nor above that by more than what was in flight. Blocks change hands between the threads, while
 * counters are pushed and popped. (User report 38 is the kind: books below a lock that is not
 * there.)
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/adaptors/statistics_resource_adaptor.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>

enum { THREADS = 8, ROUNDS = 20000, SLOTS = 64, ALIGNMENT = 16 };

static crmm_resource *counted;
static void *slots[SLOTS]; /* blocks that any thread may give back; the size is in the block */

/* Two bounds of the live bytes, kept outside the adaptor. */
typedef struct watched {
    int64_t now;
    int64_t highest;
} watched;

static watched held;     /* from the end of an allocation to the start of the free */
static watched reserved; /* from the start of an allocation to the end of the free */
static int64_t allocated_in_total;
static bool stop;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_statistics_threads: %s\n", what);
        exit(1);
    }
}

static void change(watched *of, int64_t amount)
{
    int64_t now = __atomic_add_fetch(&of->now, amount, __ATOMIC_SEQ_CST);
    int64_t highest = __atomic_load_n(&of->highest, __ATOMIC_SEQ_CST);
    while (now > highest && !__atomic_compare_exchange_n(&of->highest, &highest, now, false,
                                                         __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

static void *allocate(size_t bytes)
{
    void *ptr = NULL;

    change(&reserved, (int64_t)bytes);
    check(crmm_allocate_sync(counted, bytes, ALIGNMENT, &ptr) == CRMM_SUCCESS, "allocate");
    change(&held, (int64_t)bytes);
    (void)__atomic_fetch_add(&allocated_in_total, (int64_t)bytes, __ATOMIC_RELAXED);
    *(size_t *)ptr = bytes;
    return ptr;
}

static void deallocate(void *ptr)
{
    if (ptr == NULL) {
        return;
    }
    size_t bytes = *(size_t *)ptr;
    change(&held, -(int64_t)bytes);
    crmm_deallocate_sync(counted, ptr, bytes, ALIGNMENT);
    change(&reserved, -(int64_t)bytes);
}

static void *churn(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number + 1;
    int64_t own = 0;

    check(crmm_statistics_resource_adaptor_scope_begin(counted, "churn") == CRMM_SUCCESS, "begin");
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = (unsigned)rand_r(&seed) % 500 + sizeof(size_t);
        own += (int64_t)bytes;
        void **slot = &slots[(unsigned)rand_r(&seed) % SLOTS];
        deallocate(__atomic_exchange_n(slot, allocate(bytes), __ATOMIC_ACQ_REL));
    }
    crmm_statistics_counter scope;
    check(crmm_statistics_resource_adaptor_scope_end(counted, &scope, NULL) == CRMM_SUCCESS, "end");
    check(scope.total == own, "the scope's total");
    return NULL;
}

/* Whether anything pushes or pops is no matter to the sums. */
static void *push_and_pop(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        crmm_statistics_counter bytes;
        check(crmm_statistics_resource_adaptor_push_counters(counted, &bytes, NULL) == CRMM_SUCCESS,
              "push");
        check(bytes.value <= bytes.peak && bytes.peak <= bytes.total, "an impossible counter");
        char text[512];
        check(crmm_statistics_resource_adaptor_report_text(counted, text, sizeof(text)) != 0,
              "report");
        check(crmm_statistics_resource_adaptor_pop_counters(counted, NULL, NULL) == CRMM_SUCCESS,
              "pop");
    }
    return NULL;
}

static void run(bool with_pushes)
{
    pthread_t threads[THREADS];
    pthread_t pushing;
    crmm_statistics_counter bytes;
    crmm_statistics_counter allocations;

    held = reserved = (watched){0};
    allocated_in_total = 0;
    stop = false;
    check(crmm_statistics_resource_adaptor_create(crmm_malloc_memory_resource(), &counted) ==
              CRMM_SUCCESS,
          "create");
    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, churn, (void *)i) == 0, "thread");
    }
    if (with_pushes) {
        check(pthread_create(&pushing, NULL, push_and_pop, NULL) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    if (with_pushes) {
        check(pthread_join(pushing, NULL) == 0, "join");
    }
    for (int i = 0; i < SLOTS; i++) {
        deallocate(slots[i]);
        slots[i] = NULL;
    }

    check(crmm_statistics_resource_adaptor_counters(counted, &bytes, &allocations) == CRMM_SUCCESS,
          "counters");
    check(bytes.value == 0 && allocations.value == 0, "something is left");
    check(bytes.total == allocated_in_total, "total bytes");
    check(allocations.total == (int64_t)THREADS * ROUNDS, "total allocations");
    check(bytes.peak >= held.highest, "the peak is below what was held");
    check(bytes.peak <= reserved.highest, "the peak is above what was held and in flight");
    crmm_resource_release(&counted);
}

int main(void)
{
    run(false);
    run(true);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
