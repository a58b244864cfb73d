/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is in a log when the process that writes it forks, exits with the adaptor alive, or is
 * killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crmm/adaptors/logging_resource_adaptor.h>
#include <crmm/core/misuse.h>
#include <crmm/host/malloc_memory_resource.h>

static char folder[] = "/tmp/crmm-logging-XXXXXX";
static char path[64];

static void check(int condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "program_logging_process: %s\n", what);
        exit(1);
    }
}

static crmm_resource *make(const char *name, size_t auto_flush)
{
    crmm_resource *made = NULL;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    check(crmm_logging_resource_adaptor_create(crmm_malloc_memory_resource(),
                                               CRMM_OPTIONS(crmm_logging_resource_adaptor,
                                                            .file_name = path,
                                                            .auto_flush = auto_flush),
                                               &made) == CRMM_SUCCESS,
          "create");
    return made;
}

static void use(crmm_resource *mr, int times)
{
    for (int i = 0; i < times; i++) {
        void *ptr = NULL;
        check(crmm_allocate_sync(mr, 64, 16, &ptr) == CRMM_SUCCESS, "allocate");
        crmm_deallocate_sync(mr, ptr, 64, 16);
    }
}

static int count_rows(const char *name)
{
    char line[256];
    int rows = -1; /* the header */

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    check(file != NULL, path);
    while (fgets(line, sizeof(line), file) != NULL) {
        check(line[strlen(line) - 1] == '\n', "a part of a row");
        rows++;
    }
    (void)fclose(file);
    (void)unlink(path);
    return rows;
}

static int wait_for(pid_t child)
{
    int state = 0;
    check(child > 0 && waitpid(child, &state, 0) == child, "wait");
    return state;
}

static off_t size_of(const char *name)
{
    struct stat file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    check(stat(path, &file) == 0, path);
    return file.st_size;
}

/*
 * Use until the log's own thread has written something; the rows that are due. A thread that is
 * only starting may hold a lock of AddressSanitizer's, which stays locked in a child: no matter of
 * ours.
 */
static int use_until_written(crmm_resource *mr, const char *name)
{
    off_t before = size_of(name);
    int rows = 0;

    while (size_of(name) == before) {
        use(mr, 1);
        rows += 2;
    }
    return rows;
}

/* The child exits through the handlers, with what the parent had in its buffer. */
static void fork_with_a_log(void)
{
    crmm_resource *mr = make("forked.csv", 0);
    int rows = use_until_written(mr, "forked.csv");
    use(mr, 10);

    pid_t child = fork();
    if (child == 0) {
        use(mr, 100);
        check(crmm_logging_resource_adaptor_flush(mr) == CRMM_SUCCESS, "flush in the child");
        crmm_resource *own = make("own.csv", 0);
        use(own, 5);
        crmm_resource_release(&own);
        crmm_resource_release(&mr);
        exit(0);
    }
    check(wait_for(child) == 0, "the child");
    child = fork();
    if (child == 0) {
        use(mr, 3);
        exit(0); /* with the adaptor alive */
    }
    check(wait_for(child) == 0, "the second child");
    use(mr, 1);
    crmm_resource_release(&mr);
    check(count_rows("forked.csv") == rows + 22, "the parent's rows, once");
    check(count_rows("own.csv") == 10, "the rows of the child's own log");
}

static crmm_resource *kept;

/* Runs after the library's own handler, which was registered later. */
static void use_late(void)
{
    use(kept, 2);
}

/* As a program does that sets a logging adaptor as its device's resource and leaves it there. */
static void exit_with_a_log(size_t auto_flush)
{
    pid_t child = fork();
    if (child == 0) {
        check(atexit(use_late) == 0, "atexit");
        kept = make("exited.csv", auto_flush);
        use(kept, 10);
        exit(0);
    }
    check(wait_for(child) == 0, "the child");
    check(count_rows("exited.csv") == 24, "the rows of a program that exits");
}

static void die_with_a_log(size_t auto_flush, int rows)
{
    pid_t child = fork();
    if (child == 0) {
        kept = make("died.csv", auto_flush);
        use(kept, 10);
        (void)raise(SIGKILL);
    }
    check(WIFSIGNALED(wait_for(child)), "the child");
    check(count_rows("died.csv") == rows, "the rows of a program that dies");
}

int main(void)
{
    check(mkdtemp(folder) != NULL, "folder");
    exit_with_a_log(0); /* before anything else: the handlers are the child's then */
    exit_with_a_log(7);
    die_with_a_log(1, 20);
    die_with_a_log(8, 16);
    fork_with_a_log();
    (void)rmdir(folder);
    check(crmm_misuse_count() == 0, "misuse");
    return 0;
}
