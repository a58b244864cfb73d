/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while other threads use the library: a child has one thread, and finds every lock free,
 * whatever the others held. A child that hangs is ended by its alarm.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/log.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>

enum { THREADS = 4, FORKS = 100 };

/* AddressSanitizer's allocator keeps its locks as they were when another thread forks. */
#if defined(__SANITIZE_ADDRESS__)
enum { ALLOCATOR_FORKS = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { ALLOCATOR_FORKS = 0 };
#else
enum { ALLOCATOR_FORKS = 1 };
#endif
#else
enum { ALLOCATOR_FORKS = 1 };
#endif

static int stop;

static void ignore(const crmm_misuse *misuse, void *user_data)
{
    (void)misuse;
    (void)user_data;
}

static void ignore_message(crmm_log_level level, const char *message, void *user_data)
{
    (void)level;
    (void)message;
    (void)user_data;
}

/* Takes the locks of a ledger, of the misuse handler and of the log, and no memory. */
static int take_every_lock(void)
{
    int local = 0;

    crmm_deallocate_sync(crmm_malloc_memory_resource(), &local, 64, 16); /* misuse */
    crmm_log_message(CRMM_LOG_LEVEL_INFO, "still here");
    return 1;
}

/* false: it went wrong. */
static int use_everything(void)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    void *ptr = NULL;

    if (crmm_allocate_sync(mr, 64, 16, &ptr) != CRMM_SUCCESS) {
        return 0;
    }
    crmm_deallocate_sync(mr, ptr, 64, 16);
    return take_every_lock();
}

static void *work(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (!use_everything()) {
            abort();
        }
    }
    return NULL;
}

/* A child that is content becomes another program: at its end valgrind would find what the other
 * threads of its parent had allocated, which is lost to it. */
static int fork_once(void)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)alarm(20);
        if (ALLOCATOR_FORKS ? use_everything() : take_every_lock()) {
            (void)execl("/bin/true", "true", (char *)NULL);
        }
        _exit(1);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state) &&
           WEXITSTATUS(state) == 0;
}

int main(void)
{
    pthread_t threads[THREADS];
    int good = setenv("CRMM_VALIDATE", "1", 1) == 0;

    crmm_set_misuse_handler(ignore, NULL);
    good = good && crmm_log_set_callback(ignore_message, NULL) == CRMM_SUCCESS;
    for (int i = 0; i < THREADS; i++) {
        good = good && pthread_create(&threads[i], NULL, work, NULL) == 0;
    }
    for (int i = 0; good && i < FORKS; i++) {
        good = fork_once();
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        good = pthread_join(threads[i], NULL) == 0 && good;
    }
    if (!good) {
        (void)fprintf(stderr, "program_fork_threads: a child hung or failed\n");
    }
    return good ? 0 : 1;
}
