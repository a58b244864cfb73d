/* SPDX-License-Identifier: Apache-2.0 */
/* References, books, errors and misuse reports from many threads at once. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/error.h>
#include <crmm/core/log.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/interfaces/resource.h>

enum { THREADS = 8, ROUNDS = 2000 };

static int destroyed;
static uint64_t handled;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_threads: %s\n", what);
        exit(1);
    }
}

static crmm_status give_nothing(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    (void)ptr;
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "nothing");
}

static void take_nothing(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static void note_destroy(crmm_resource *resource)
{
    destroyed++; /* not atomic: the last release comes after all the others */
    crmm_resource_storage_free(resource);
}

static const crmm_resource_ops ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = give_nothing,
    .deallocate_sync = take_nothing,
    .destroy = note_destroy,
};

static void count_misuse(const crmm_misuse *misuse, void *user_data)
{
    (void)misuse;
    (void)__atomic_fetch_add((uint64_t *)user_data, 1, __ATOMIC_RELAXED);
}

static void *work(void *shared)
{
    crmm_resource *own = shared;

    for (size_t i = 0; i < ROUNDS; i++) {
        crmm_resource *more = crmm_resource_retain(own);
        void *ptr = NULL;
        size_t bytes = 1 + i % 500;
        check(crmm_allocate_sync(crmm_malloc_memory_resource(), bytes, 16, &ptr) == CRMM_SUCCESS,
              "heap");
        *(char *)ptr = 1;
        crmm_deallocate_sync(crmm_malloc_memory_resource(), ptr, bytes, 16);
        check(crmm_allocate_sync(more, bytes, 16, &ptr) == CRMM_ERROR_OUT_OF_MEMORY, "refusal");
        check(crmm_last_error()->status == CRMM_ERROR_OUT_OF_MEMORY, "record");
        crmm_deallocate_sync(NULL, ptr, bytes, 16); /* misuse */
        crmm_set_misuse_handler(count_misuse, &handled);
        crmm_log_message(CRMM_LOG_LEVEL_TRACE, "dropped");
        crmm_resource_release(&more);
    }
    crmm_resource_release(&own);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_resource *shared = crmm_resource_storage_allocate(sizeof(struct crmm_resource));

    check(shared != NULL, "storage");
    crmm_resource_init(shared, &ops, "shared", CRMM_HOST_ACCESSIBLE);
    crmm_set_misuse_handler(count_misuse, &handled);
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, crmm_resource_retain(shared)) == 0, "thread");
    }
    crmm_resource_release(&shared);
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    check(destroyed == 1, "destroyed other than once");
    check(handled == (uint64_t)THREADS * ROUNDS, "lost a misuse report");
    check(crmm_misuse_count() == handled, "miscounted misuse");
    check(crmm_resource_info(crmm_malloc_memory_resource(), &info) == CRMM_SUCCESS, "info");
    check(info.live == 0 && info.allocations == 0, "books do not balance");
    check(info.peak_live >= 500 && info.peak_live <= (size_t)THREADS * 500, "peak");
    return 0;
}
