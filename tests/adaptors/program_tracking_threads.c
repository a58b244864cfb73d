/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracking under contention: threads allocate and give back each other's blocks while others list
 * what is outstanding, take checkpoints and sum up. No entry is lost and none is found that is not
 * there. Misuse by many threads at once is found each time. (User report 38: 8 threads, 100 000
 * operations and more.)
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/adaptors/tracking_resource_adaptor.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/interfaces/resource.h>

enum { THREADS = 8, ROUNDS = 12500, SLOTS = 256, ALIGNMENT = 16, MOST_BYTES = 500 };

static crmm_resource *tracked;
static void *slots[SLOTS]; /* blocks that any thread may give back; the size is in the block */
static bool stop;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_tracking_threads: %s\n", what);
        exit(1);
    }
}

static void *allocate(size_t bytes)
{
    void *ptr = NULL;

    check(crmm_allocate_sync(tracked, bytes, ALIGNMENT, &ptr) == CRMM_SUCCESS, "allocate");
    *(size_t *)ptr = bytes;
    return ptr;
}

static void deallocate(void *ptr)
{
    if (ptr != NULL) {
        crmm_deallocate_sync(tracked, ptr, *(size_t *)ptr, ALIGNMENT);
    }
}

static void *churn(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number + 1;
    char label[32];

    (void)snprintf(label, sizeof(label), "thread %u", seed);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 64 == 0) {
            check(crmm_tracking_resource_adaptor_set_label(i % 128 == 0 ? label : NULL, NULL) ==
                      CRMM_SUCCESS,
                  "label");
        }
        size_t bytes = (unsigned)rand_r(&seed) % (MOST_BYTES - sizeof(size_t)) + sizeof(size_t);
        void **slot = &slots[(unsigned)rand_r(&seed) % SLOTS];
        deallocate(__atomic_exchange_n(slot, allocate(bytes), __ATOMIC_ACQ_REL));
    }
    return NULL;
}

typedef struct walk {
    size_t count;
    const void *latest;
} walk;

static void visit(const crmm_tracked_allocation *allocation, void *user_data)
{
    walk *on = user_data;

    check(allocation->ptr > on->latest, "an address twice, or out of order");
    check(allocation->bytes <= MOST_BYTES && allocation->alignment == ALIGNMENT, "an entry");
    for (size_t i = 0; i < allocation->stack_length; i++) {
        check(allocation->stack[i] != NULL, "a stack");
    }
    on->latest = allocation->ptr;
    on->count++;
}

static void *look(void *unused)
{
    uint64_t before = 0;

    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t checkpoint = 0;
        walk on = {0};
        check(crmm_tracking_resource_adaptor_visit(tracked, visit, &on) == CRMM_SUCCESS, "visit");
        check(on.count <= SLOTS + THREADS, "more than can be outstanding");
        check(crmm_tracking_resource_adaptor_outstanding_count(tracked) <= SLOTS + THREADS,
              "count");
        check(crmm_tracking_resource_adaptor_allocated_bytes(tracked) <=
                  (size_t)(SLOTS + THREADS) * MOST_BYTES,
              "bytes");
        check(crmm_tracking_resource_adaptor_checkpoint(tracked, &checkpoint) == CRMM_SUCCESS &&
                  checkpoint > before,
              "checkpoint");
        on = (walk){0};
        check(crmm_tracking_resource_adaptor_visit_between(tracked, before, checkpoint, visit,
                                                           &on) == CRMM_SUCCESS,
              "visit between");
        before = checkpoint;
    }
    return NULL;
}

static void run(size_t capture_stacks)
{
    pthread_t threads[THREADS];
    pthread_t looking;

    stop = false;
    check(crmm_tracking_resource_adaptor_create(
              crmm_malloc_memory_resource(),
              CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = capture_stacks),
              &tracked) == CRMM_SUCCESS,
          "create");
    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, churn, (void *)i) == 0, "thread");
    }
    check(pthread_create(&looking, NULL, look, NULL) == 0, "thread");
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    check(pthread_join(looking, NULL) == 0, "join");

    size_t outstanding = 0;
    size_t bytes = 0;
    for (int i = 0; i < SLOTS; i++) {
        outstanding += slots[i] != NULL;
        bytes += slots[i] != NULL ? *(size_t *)slots[i] : 0;
    }
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == outstanding, "final count");
    check(crmm_tracking_resource_adaptor_allocated_bytes(tracked) == bytes, "final bytes");
    for (int i = 0; i < SLOTS; i++) {
        deallocate(slots[i]);
        slots[i] = NULL;
    }
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == 0, "something is left");
    check(crmm_tracking_resource_adaptor_allocated_bytes(tracked) == 0, "bytes are left");
    crmm_resource_release(&tracked);
}

/* ---- an upstream that hands out addresses and no memory ---- */

enum { BLOCK = 64 };

static char *const first = (char *)0x100000000;
static bool always_the_same;
static size_t given;
static size_t given_back;

static crmm_status give(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    size_t number = __atomic_fetch_add(&given, 1, __ATOMIC_RELAXED);

    (void)resource;
    (void)bytes;
    (void)alignment;
    *ptr = always_the_same ? first : first + number * BLOCK;
    return CRMM_SUCCESS;
}

static void take_back(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    check(bytes == BLOCK && alignment == ALIGNMENT, "given back otherwise than taken");
    (void)__atomic_fetch_add(&given_back, 1, __ATOMIC_RELAXED);
}

static void stay(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops address_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = give,
    .deallocate_sync = take_back,
    .destroy = stay,
};

static void run_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
}

static void create_over_addresses(struct crmm_resource *upstream, bool same)
{
    always_the_same = same;
    given = given_back = 0;
    crmm_resource_init(upstream, &address_ops, "addresses", CRMM_HOST_ACCESSIBLE);
    check(crmm_tracking_resource_adaptor_create(upstream, NULL, &tracked) == CRMM_SUCCESS,
          "create");
}

/* ---- addresses that are always new: others are forgotten for them, under the other threads ----
 */

static void *pass_new_addresses_on(void *number)
{
    unsigned seed = (unsigned)(uintptr_t)number + 1;

    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(tracked, BLOCK, ALIGNMENT, &ptr) == CRMM_SUCCESS, "allocate");
        void **slot = &slots[(unsigned)rand_r(&seed) % SLOTS];
        ptr = __atomic_exchange_n(slot, ptr, __ATOMIC_ACQ_REL);
        crmm_deallocate_sync(tracked, ptr, BLOCK, ALIGNMENT);
    }
    return NULL;
}

static void run_new_addresses(void)
{
    struct crmm_resource upstream;
    pthread_t looking;

    create_over_addresses(&upstream, false);
    stop = false;
    check(pthread_create(&looking, NULL, look, NULL) == 0, "thread");
    run_threads(pass_new_addresses_on);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    check(pthread_join(looking, NULL) == 0, "join");
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == given - given_back,
          "final count of new addresses");
    for (int i = 0; i < SLOTS; i++) {
        crmm_deallocate_sync(tracked, slots[i], BLOCK, ALIGNMENT);
        slots[i] = NULL;
    }
    check(given == given_back, "not all went back");
    check(crmm_misuse_count() == 0, "misuse");
    crmm_resource_release(&tracked);
}

/* ---- one address, misused by all threads at once: each misuse is found, and nothing else ---- */

static size_t handed_out_again;
static size_t given_back_twice;

static void count_misuse(const crmm_misuse *misuse, void *user_data)
{
    (void)user_data;
    (void)__atomic_fetch_add(misuse->kind == CRMM_MISUSE_FOREIGN_POINTER ? &handed_out_again
                                                                         : &given_back_twice,
                             1, __ATOMIC_RELAXED);
}

static void *allocate_over_and_over(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(tracked, BLOCK, ALIGNMENT, &ptr) == CRMM_SUCCESS, "allocate");
    }
    return NULL;
}

static void *give_back_over_and_over(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        crmm_deallocate_sync(tracked, first, BLOCK, ALIGNMENT);
    }
    return NULL;
}

static void run_misuse(void)
{
    struct crmm_resource upstream;

    create_over_addresses(&upstream, true);
    crmm_set_misuse_handler(count_misuse, NULL);
    run_threads(allocate_over_and_over);
    check(handed_out_again == (size_t)THREADS * ROUNDS - 1, "handed out again");
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == 1, "more than one");
    run_threads(give_back_over_and_over);
    check(given_back_twice == (size_t)THREADS * ROUNDS - 1, "given back twice");
    check(given_back == 1, "it did not go back once");
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == 0, "something is left");
    crmm_set_misuse_handler(NULL, NULL);
    crmm_resource_release(&tracked);
}

int main(void)
{
    run(0);
    run(1);
    run_new_addresses();
    run_misuse();
    return 0;
}
