/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   conformance [-j N] [-v] [-s IDS] EXPECTED [DEVIATIONS] [ID...]
 *
 * Runs the checks named in EXPECTED, each in a process of its own, and compares the verdicts.
 * A line of DEVIATIONS (id, verdict) replaces what is expected, for an emulation that differs on
 * purpose. The exit status is 0 if every check that ran agreed. With -s, only the checks named in
 * IDS, separated by commas, may have been skipped or be missing: a GPU may lack what a check needs,
 * but an emulation lacks only what is known.
 */
#include "conformance.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#define VERDICT 2048
#define MAX_ROWS 512
#define LIMIT_SECONDS 60

static const struct check *const groups[] = {
    order_checks, event_checks,   stream_checks, sync_checks,    async_checks,  pool_checks,
    error_checks, capture_checks, vmm_checks,    process_checks, device_checks, other_checks,
};

struct row {
    char id[16];
    char class;
    char verdict[VERDICT];
    bool deviates;
    bool unwanted;
    const struct check *check;
    pid_t pid;
    int pipe;
    char got[VERDICT];
    bool done;
};

static struct row rows[MAX_ROWS];
static size_t row_count;
static char text[VERDICT];
static int out_fd = 1;

void add(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

void put(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    if (used != 0 && used + 1 < sizeof text) {
        text[used++] = ',';
        text[used] = '\0';
    }
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

void verdict_print(void)
{
    size_t length = strlen(text);
    if (write(out_fd, text, length) != (ssize_t)length) {
        _exit(1);
    }
    text[0] = '\0';
}

void verdict_exit(void)
{
    verdict_print();
    _exit(0);
}

static const struct check *find_check(const char *id)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (const struct check *c = groups[g]; c->id != NULL; c++) {
            if (strcmp(c->id, id) == 0) {
                return c;
            }
        }
    }
    return NULL;
}

static struct row *find_row(const char *id)
{
    for (size_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].id, id) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static void read_expected(const char *path)
{
    char line[VERDICT];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    while (fgets(line, sizeof line, file) != NULL && row_count < MAX_ROWS) {
        struct row *row = &rows[row_count];
        if (line[0] != '#' &&
            sscanf(line, "%15s %c %2047[^\n]", row->id, &row->class, row->verdict) == 3) {
            row->check = find_check(row->id);
            row_count++;
        }
    }
    fclose(file);
}

static void read_deviations(const char *path)
{
    char line[VERDICT], id[16], verdict[VERDICT];
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        struct row *row;
        if (line[0] != '#' && sscanf(line, "%15s %2047[^\n]", id, verdict) == 2 &&
            (row = find_row(id)) != NULL) {
            memcpy(row->verdict, verdict, sizeof verdict);
            row->deviates = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void start(struct row *row, char *self)
{
    int ends[2];
    if (pipe(ends) != 0) {
        exit(2);
    }
    row->pid = fork();
    if (row->pid == 0) {
        dup2(ends[1], 3);
        char *args[] = {self, (char[]){"--check"}, row->id, NULL};
        alarm(LIMIT_SECONDS);
        execv("/proc/self/exe", args);
        _exit(127);
    }
    close(ends[1]);
    row->pipe = ends[0];
}

static void finish(struct row *row, int status)
{
    ssize_t length = read(row->pipe, row->got, sizeof row->got - 1);
    close(row->pipe);
    row->got[length < 0 ? 0 : length] = '\0';
    row->done = true;
    if (WIFSIGNALED(status)) {
        size_t used = strlen(row->got);
        snprintf(row->got + used, sizeof row->got - used, "%sCRASH(signal_%d)", used ? "," : "",
                 WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        size_t used = strlen(row->got);
        snprintf(row->got + used, sizeof row->got - used, "%sEXIT(%d)", used ? "," : "",
                 WEXITSTATUS(status));
    }
}

static bool listed(const char *ids, const char *id)
{
    const size_t length = strlen(id);
    for (const char *at = ids; (at = strstr(at, id)) != NULL; at += length) {
        if ((at == ids || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* may_skip: NULL where any check may. */
static bool left_out(const struct row *row, const char *may_skip)
{
    bool ran = row->done && strncmp(row->got, "SKIP", 4) != 0;
    if (ran || row->unwanted || may_skip == NULL || listed(may_skip, row->id)) {
        return false;
    }
    printf("NOT RUN %s %c %s\n", row->id, row->class, row->done ? row->got : "there is no check");
    return true;
}

static int report(bool verbose, const char *may_skip)
{
    int agreed = 0, differed = 0, missing = 0, wrongly_missing = 0;
    for (size_t i = 0; i < row_count; i++) {
        const struct row *row = &rows[i];
        wrongly_missing += left_out(row, may_skip);
        if (!row->done) {
            missing += row->check == NULL;
            continue;
        }
        bool skipped = strncmp(row->got, "SKIP", 4) == 0;
        bool same = strcmp(row->got, row->verdict) == 0;
        agreed += same;
        differed += !same && !skipped;
        if (skipped) {
            missing++;
        }
        if (verbose || (!same && !skipped)) {
            printf("%s %s %c %s\n",
                   same      ? "agrees "
                   : skipped ? "skipped"
                             : "DIFFERS",
                   row->id, row->class, row->got);
            if (!same && !skipped) {
                printf("        expected  %s\n", row->verdict);
            }
        }
    }
    printf("%d checks agreed, %d differed, %d not run\n", agreed, differed, missing);
    return differed == 0 && wrongly_missing == 0 && agreed != 0 ? 0 : 1;
}

/* These fill a device or measure what is free on it, so nothing else may run beside them. */
static bool alone(const struct row *row)
{
    static const char *const ids[] = {"ERR21", "POL38", "SYN69", "POL12",
                                      "POL39", "ERR23", "VMM08"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (strcmp(ids[i], row->id) == 0) {
            return true;
        }
    }
    return false;
}

static void run_some(char *self, int jobs, bool those_alone)
{
    size_t next = 0;
    int running = 0;
    for (;;) {
        while (running < jobs && next < row_count) {
            if (rows[next].check != NULL && alone(&rows[next]) == those_alone) {
                start(&rows[next], self);
                running++;
            }
            next++;
        }
        if (running == 0) {
            return;
        }
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        for (size_t i = 0; i < row_count; i++) {
            if (rows[i].pid == pid && !rows[i].done) {
                finish(&rows[i], status);
                running--;
            }
        }
    }
}

/* The child's side: the verdict goes to descriptor 3. */
static int run_one(const char *id)
{
    const struct check *check = find_check(id);
    if (check == NULL) {
        return 127;
    }
    out_fd = 3;
    check->run();
    verdict_exit();
}

int main(int argc, char **argv)
{
    int jobs = 2;
    bool verbose = false;
    const char *may_skip = NULL;
    int option;
    if (argc == 3 && strcmp(argv[1], "--check") == 0) {
        return run_one(argv[2]);
    }
    while ((option = getopt(argc, argv, "j:vs:")) != -1) {
        if (option == 'j') {
            jobs = atoi(optarg);
        } else if (option == 's') {
            may_skip = optarg;
        } else {
            verbose = true;
        }
    }
    if (optind >= argc) {
        fprintf(stderr, "usage: conformance [-j N] [-v] [-s IDS] EXPECTED [DEVIATIONS] [ID...]\n");
        return 2;
    }
    read_expected(argv[optind++]);
    if (optind < argc && find_row(argv[optind]) == NULL) {
        read_deviations(argv[optind++]);
    }
    for (size_t i = 0; i < row_count && optind < argc; i++) {
        bool wanted = false;
        for (int a = optind; a < argc; a++) {
            wanted |= strncmp(argv[a], rows[i].id, strlen(argv[a])) == 0;
        }
        if (!wanted) {
            rows[i].check = NULL;
            rows[i].unwanted = true;
        }
    }
    run_some(argv[0], jobs < 1 ? 1 : jobs, false);
    run_some(argv[0], 1, true);
    return report(verbose, may_skip);
}
