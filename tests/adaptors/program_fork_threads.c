/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while other threads use an adaptor: a child has one thread, and finds the adaptor's locks
 * free and its books whole, whatever the others were at. A child that hangs is ended by its alarm.
 * In a child no memory is allocated, since AddressSanitizer's allocator may be locked there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/misuse.h>
#include <crmm/interfaces/resource.h>

#include "adaptors_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LOGGING
#include <crmm/adaptors/logging_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
#endif

enum { THREADS = 4, FORKS = 100, BLOCKS = 4, BYTES = 64, ALIGNMENT = 16 };

static crmm_resource *used;
static bool stop;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_fork_threads: %s\n", what);
        exit(1);
    }
}

/* ---- an upstream that hands out the same few blocks of each thread in turn ---- */

static _Thread_local char blocks[BLOCKS][BYTES];
static _Thread_local size_t next;

static crmm_status give(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    *ptr = blocks[next++ % BLOCKS];
    return CRMM_SUCCESS;
}

static void take_back(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static void stay(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops upstream_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = give,
    .deallocate_sync = take_back,
    .destroy = stay,
};

/* ---- what is forked under ---- */

#if HAVE_ADAPTOR_LIMITING
/* Close to the limit, where threads have to split what is left. */
static crmm_status create_limiting(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(upstream, (size_t)(THREADS + 1) * BLOCKS * 256,
                                                 NULL, out);
}
#endif

#if HAVE_ADAPTOR_LOGGING
static crmm_status create_logging(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_logging_resource_adaptor_create(
        upstream, CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = "/dev/null"), out);
}

static crmm_status create_logging_each_row(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_logging_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = "/dev/null", .auto_flush = 1),
        out);
}
#endif

#if HAVE_ADAPTOR_TRACKING
static crmm_status create_tracking(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_tracking_resource_adaptor_create(upstream, NULL, out);
}
#endif

typedef struct forked {
    const char *name;
    crmm_status (*create)(crmm_resource *upstream, crmm_resource **out);
    const char *empty; /* what is in the description once nothing is outstanding */
} forked;

static const forked all[] = {
#if HAVE_ADAPTOR_LIMITING
    {"limiting", create_limiting, ", allocated 0)"},
#endif
#if HAVE_ADAPTOR_LOGGING
    {"logging", create_logging, "(to /dev/null)"},
    {"logging each row", create_logging_each_row, "(to /dev/null)"},
#endif
#if HAVE_ADAPTOR_STATISTICS
    {"statistics", crmm_statistics_resource_adaptor_create, "(bytes 0, "},
#endif
#if HAVE_ADAPTOR_TRACKING
    {"tracking", create_tracking, "(allocated 0, outstanding 0)"},
#endif
    {NULL, NULL, NULL},
};

/* ---- the test ---- */

static bool use(void)
{
    void *held[BLOCKS];
    char text[256];

    for (int i = 0; i < BLOCKS; i++) {
        if (crmm_allocate_sync(used, BYTES, ALIGNMENT, &held[i]) != CRMM_SUCCESS) {
            return false;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        crmm_deallocate_sync(used, held[i], BYTES, ALIGNMENT);
    }
    return crmm_resource_describe(used, text, sizeof(text)) < sizeof(text);
}

static void *work(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        check(use(), "use");
    }
    return NULL;
}

/* A child that is content becomes another program: at its end a leak checker would find what the
 * other threads of its parent had allocated, which is lost to it. */
static void fork_once(const char *name)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)alarm(20);
        if (use() && crmm_misuse_count() == 0) {
            (void)execl("/bin/true", "true", (char *)NULL);
        }
        _exit(1);
    }
    check(child > 0 && waitpid(child, &state, 0) == child, "wait");
    check(WIFEXITED(state) && WEXITSTATUS(state) == 0, name);
}

static void run(const forked *under)
{
    struct crmm_resource upstream;
    pthread_t threads[THREADS];
    char text[256];

    crmm_resource_init(&upstream, &upstream_ops, "upstream", CRMM_HOST_ACCESSIBLE);
    check(under->create(&upstream, &used) == CRMM_SUCCESS, "create");
    stop = false;
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, NULL) == 0, "thread");
    }
    for (int i = 0; i < FORKS; i++) {
        fork_once(under->name);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    (void)crmm_resource_describe(used, text, sizeof(text));
    check(strstr(text, under->empty) != NULL, text);
    crmm_resource_release(&used);
}

int main(void)
{
    for (const forked *under = all; under->name != NULL; under++) {
        run(under);
    }
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
