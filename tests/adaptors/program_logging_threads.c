/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A log under contention: each row is whole, those of a thread are in its order, none is missing,
 * and no address is handed out twice without its free in between.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <crmm/adaptors/logging_resource_adaptor.h>
#include <crmm/core/misuse.h>
#include <crmm/interfaces/resource.h>

enum { THREADS = 8, ROUNDS = 6000 };

static crmm_resource *logged;

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_logging_threads: %s\n", what);
        exit(1);
    }
}

/* ---- an upstream whose addresses go from thread to thread ---- */

static char memory[THREADS][64];
static void *free_blocks[THREADS];
static int free_count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static crmm_status take_block(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    pthread_mutex_lock(&mutex);
    *ptr = free_blocks[--free_count];
    pthread_mutex_unlock(&mutex);
    return CRMM_SUCCESS;
}

static void return_block(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    pthread_mutex_lock(&mutex);
    free_blocks[free_count++] = ptr;
    pthread_mutex_unlock(&mutex);
    (void)sched_yield(); /* now another thread takes it */
}

static void destroy(crmm_resource *resource)
{
    (void)resource;
}

static const crmm_resource_ops ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = take_block,
    .deallocate_sync = return_block,
    .destroy = destroy,
};

static struct crmm_resource upstream;

static void make_upstream(void)
{
    for (free_count = 0; free_count < THREADS; free_count++) {
        free_blocks[free_count] = memory[free_count];
    }
    crmm_resource_init(&upstream, &ops, "exchange", CRMM_HOST_ACCESSIBLE);
}

/* ---- the threads ---- */

/* Thread n asks for multiples of 8 that tell it and the round. */
static size_t size_of(int thread, int round)
{
    return (size_t)(round * THREADS + thread) % 4096 * 8 + 8;
}

static void *work(void *number)
{
    int thread = (int)(intptr_t)number;

    for (int i = 0; i < ROUNDS; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(logged, size_of(thread, i), 8, &ptr) == CRMM_SUCCESS, "allocate");
        crmm_deallocate_sync(logged, ptr, size_of(thread, i), 8);
        if (i % 1000 == 0) {
            check(crmm_logging_resource_adaptor_flush(logged) == CRMM_SUCCESS, "flush");
        }
    }
    return NULL;
}

static void run_threads(const char *path, size_t auto_flush)
{
    pthread_t threads[THREADS];

    check(crmm_logging_resource_adaptor_create(&upstream,
                                               CRMM_OPTIONS(crmm_logging_resource_adaptor,
                                                            .file_name = path,
                                                            .auto_flush = auto_flush),
                                               &logged) == CRMM_SUCCESS,
          "create");
    for (int i = 0; i < THREADS; i++) {
        check(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0, "thread");
    }
    for (int i = 0; i < THREADS; i++) {
        check(pthread_join(threads[i], NULL) == 0, "join");
    }
    crmm_resource_release(&logged);
}

/* ---- what was written ---- */

typedef struct seen {
    long thread; /* the system's */
    int number;  /* ours, known by its first row */
    int rows;
} seen;

static seen *find(seen *all, long thread, size_t bytes)
{
    for (int i = 0; i < THREADS; i++) {
        if (all[i].rows == 0) {
            all[i] = (seen){.thread = thread, .number = (int)(bytes / 8 - 1)};
        }
        if (all[i].thread == thread) {
            return &all[i];
        }
    }
    check(0, "more threads than there were");
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uintptr_t left = *(const uintptr_t *)a;
    uintptr_t right = *(const uintptr_t *)b;
    return left < right ? -1 : left > right;
}

static void check_live(void **live, uintptr_t address, int is_free)
{
    uintptr_t **found = tfind(&address, live, compare);

    if (is_free) {
        check(found != NULL, "a free of what is not live");
        uintptr_t *key = *found;
        (void)tdelete(&address, live, compare);
        free(key);
        return;
    }
    check(found == NULL, "an address that is live is handed out");
    uintptr_t *key = malloc(sizeof(*key));
    check(key != NULL, "memory");
    *key = address;
    check(tsearch(key, live, compare) != NULL, "memory");
}

static void check_row(const char *line, seen *all, void **live)
{
    long thread = 0;
    char action[32];
    char rebuilt[256];
    char clock[32];
    uintptr_t address = 0;
    size_t bytes = 0;

    check(sscanf(line, "%ld,%31[^,],%31[^,],0x%" SCNxPTR ",%zu,0", &thread, clock, action, &address,
                 &bytes) == 5,
          line);
    (void)snprintf(rebuilt, sizeof(rebuilt), "%ld,%s,%s,0x%" PRIxPTR ",%zu,0\n", thread, clock,
                   action, address, bytes);
    check(strcmp(line, rebuilt) == 0, line);
    seen *of = find(all, thread, bytes);
    int is_free = of->rows % 2;
    check(strcmp(action, is_free ? "free" : "allocate") == 0, "an action out of order");
    check(bytes == size_of(of->number, of->rows / 2), "a size out of order");
    check_live(live, address, is_free);
    of->rows++;
}

static void check_file(const char *path)
{
    char line[256];
    seen all[THREADS] = {{0}};
    void *live = NULL;
    FILE *file = fopen(path, "r");

    check(file != NULL, "file");
    check(fgets(line, sizeof(line), file) != NULL &&
              strcmp(line, "Thread,Time,Action,Pointer,Size,Stream\n") == 0,
          "header");
    while (fgets(line, sizeof(line), file) != NULL) {
        check_row(line, all, &live);
    }
    for (int i = 0; i < THREADS; i++) {
        check(all[i].rows == 2 * ROUNDS, "rows are missing");
    }
    check(live == NULL, "what is live at the end");
    (void)fclose(file);
    (void)unlink(path);
}

int main(void)
{
    static const size_t auto_flushes[] = {0, 1, 100};
    char folder[] = "/tmp/crmm-logging-XXXXXX";
    char path[64];

    make_upstream();
    check(mkdtemp(folder) != NULL, "folder");
    (void)snprintf(path, sizeof(path), "%s/log.csv", folder);
    for (size_t i = 0; i < sizeof(auto_flushes) / sizeof(*auto_flushes); i++) {
        run_threads(path, auto_flushes[i]);
        check_file(path);
    }
    (void)rmdir(folder);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
