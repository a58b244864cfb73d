/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracking where host memory is exhausted: an allocation that cannot be remembered fails and its
 * memory goes back as it came; one whose stack cannot be is remembered without; frees need nothing.
 * Blocks that are gone, and threads that are, need nothing either in the long run.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <crmm/adaptors/tracking_resource_adaptor.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/interfaces/resource.h>

enum { SKIPPED = 77, SPARE = 4 << 20, BYTES = 48, ALIGNMENT = 16, MOST = 10000000 };

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_tracking_memory: %s (%s)\n", what,
                      crmm_last_error()->message);
        exit(1);
    }
}

/* ---- an upstream that hands out addresses and no memory ---- */

static char *const first = (char *)0x100000000;
static size_t given;      /* addresses that have been handed out */
static size_t given_back; /* and were given back */
static void *latest_back;

static crmm_status give(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    *ptr = first + given++ * 64;
    return CRMM_SUCCESS;
}

static void take_back(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    check(bytes == BYTES && alignment == ALIGNMENT, "given back otherwise than taken");
    given_back++;
    latest_back = ptr;
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

/* ---- a limit of the process ---- */

static rlim_t used_now(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    check(file != NULL && fscanf(file, "%lu", &pages) == 1, "statm");
    (void)fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit_memory(rlim_t bytes)
{
    struct rlimit limit;

    check(getrlimit(RLIMIT_AS, &limit) == 0, "getrlimit");
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    check(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
}

/* ---- the test ---- */

static bool is_watched(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
#endif
}

static void count_without_stack(const crmm_tracked_allocation *allocation, void *user_data)
{
    *(size_t *)user_data += allocation->stack == NULL;
}

static void run(size_t capture_stacks)
{
    struct crmm_resource upstream;
    crmm_resource *tracked = NULL;
    crmm_status status = CRMM_SUCCESS;
    void *ptr = NULL;
    size_t done = 0;

    given = given_back = 0;
    crmm_resource_init(&upstream, &address_ops, "addresses", CRMM_HOST_ACCESSIBLE);
    check(crmm_tracking_resource_adaptor_create(
              &upstream,
              CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = capture_stacks),
              &tracked) == CRMM_SUCCESS,
          "create");

    limit_memory(used_now() + SPARE);
    while (done < MOST) {
        ptr = tracked;
        status = crmm_allocate_sync(tracked, BYTES, ALIGNMENT, &ptr);
        if (status != CRMM_SUCCESS) {
            break;
        }
        done++;
    }
    check(status == CRMM_ERROR_OUT_OF_MEMORY, "no failure for lack of memory");
    check(strcmp(crmm_last_error()->message,
                 "tracking_resource_adaptor: no host memory to remember an allocation of 48 "
                 "bytes") == 0,
          "another message");
    check(crmm_last_error()->requested_bytes == BYTES, "requested_bytes");
    check(ptr == tracked, "the output was touched");
    check(given == done + 1 && given_back == 1, "the memory did not go back");
    check(latest_back == first + done * 64, "other memory went back");
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == done, "count");
    check(crmm_tracking_resource_adaptor_allocated_bytes(tracked) == done * BYTES, "bytes");
    for (size_t i = 0; i < done / 2; i++) {
        crmm_deallocate_sync(tracked, first + i * 64, BYTES, ALIGNMENT);
    }
    limit_memory(RLIM_INFINITY);

    size_t without_stack = 0;
    check(crmm_tracking_resource_adaptor_visit(tracked, count_without_stack, &without_stack) ==
              CRMM_SUCCESS,
          "visit");
    check(capture_stacks == 1 || without_stack == done - done / 2, "stacks");
    for (size_t i = done / 2; i < done; i++) {
        crmm_deallocate_sync(tracked, first + i * 64, BYTES, ALIGNMENT);
    }
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == 0, "something is left");
    check(given_back == given, "something was not given back");
    crmm_resource_release(&tracked);
}

/* ---- what is kept of blocks and threads that are gone ---- */

static void *use_new_addresses(void *tracked)
{
    enum { TIMES = 100 };

    for (int i = 0; i < TIMES; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(tracked, BYTES, ALIGNMENT, &ptr) == CRMM_SUCCESS, "allocate");
        crmm_deallocate_sync(tracked, ptr, BYTES, ALIGNMENT);
    }
    return NULL;
}

static void run_in_bounds(void)
{
    enum { THREADS = 5000, TURNS = 10000 };
    struct crmm_resource upstream;
    crmm_resource *tracked = NULL;
    pthread_t thread;

    given = given_back = 0;
    crmm_resource_init(&upstream, &address_ops, "addresses", CRMM_HOST_ACCESSIBLE);
    check(crmm_tracking_resource_adaptor_create(&upstream, NULL, &tracked) == CRMM_SUCCESS,
          "create");
    /* The C library keeps what its threads need, so one is started before the limit is set. */
    check(pthread_create(&thread, NULL, use_new_addresses, tracked) == 0 &&
              pthread_join(thread, NULL) == 0,
          "thread");
    limit_memory(used_now() + SPARE);
    for (int i = 0; i < TURNS; i++) {
        (void)use_new_addresses(tracked);
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&thread, NULL, use_new_addresses, tracked) == 0 &&
                  pthread_join(thread, NULL) == 0,
              "thread");
    }
    limit_memory(RLIM_INFINITY);
    check(crmm_tracking_resource_adaptor_outstanding_count(tracked) == 0, "something is left");
    check(given_back == given, "something was not given back");
    crmm_resource_release(&tracked);
}

int main(void)
{
    if (is_watched()) {
        (void)fprintf(stderr,
                      "skipped: a sanitizer or valgrind needs the memory that is limited\n");
        return SKIPPED;
    }
    run_in_bounds();
    run(0);
    run(1);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
