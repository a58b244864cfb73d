/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crmm-bench-adaptors: what each adaptor adds to a call, in nanoseconds, over a resource that does
 * nothing, by one thread and by several at once.
 *
 * Each thread allocates NULL_RESOURCE_BLOCKS blocks and gives them back, over and over, below the
 * peak that all of them reach together before the clock starts. All candidates take turns in every
 * round, and the figures are medians over the rounds. Where there are more threads than processors,
 * the times have the waiting for a processor in them.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>

#include "candidates.h"
#include "null_resource.h"

enum { MOST_THREADS = 256, MOST_THREAD_COUNTS = 16, MOST_ROUNDS = 101, MOST_CANDIDATES = 32 };
enum { BYTES = 1024, ALIGNMENT = 256, WARM_UP = 16 };

static const char usage[] =
    "usage: crmm-bench-adaptors [--threads N[,N]...] [--rounds N] [--calls N] [--json]\n"
    "  --threads  numbers of threads, 1,8 by default\n"
    "  --rounds   measurements of which the median counts, 51 by default\n"
    "  --calls    allocations a thread and round, 20000 by default\n"
    "  --json     JSON instead of a table\n";

static void fail(const char *what)
{
    (void)fprintf(stderr, "crmm-bench-adaptors: %s\n", what);
    exit(1);
}

/* ---- arguments ---- */

typedef struct settings {
    size_t threads[MOST_THREAD_COUNTS];
    size_t thread_counts;
    size_t rounds;
    size_t calls;
    bool json;
} settings;

static void bad_usage(void)
{
    (void)fputs(usage, stderr);
    exit(2);
}

/* A number from 1 to `most`, up to the end of the text or one of `ends`. */
static size_t read_number(const char **text, size_t most, char end)
{
    char *rest = NULL;
    unsigned long value = strtoul(*text, &rest, 10);

    if (rest == *text || value < 1 || value > most || (*rest != '\0' && *rest != end)) {
        bad_usage();
    }
    *text = *rest == '\0' ? rest : rest + 1;
    return value;
}

static void read_threads(settings *to, const char *text)
{
    to->thread_counts = 0;
    do {
        if (to->thread_counts == MOST_THREAD_COUNTS) {
            bad_usage();
        }
        to->threads[to->thread_counts++] = read_number(&text, MOST_THREADS, ',');
    } while (*text != '\0');
}

static settings read_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", required_argument, NULL, 't'}, {"rounds", required_argument, NULL, 'r'},
        {"calls", required_argument, NULL, 'c'},   {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    settings given = {.threads = {1, 8}, .thread_counts = 2, .rounds = 51, .calls = 20000};
    const char *text;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        text = optarg;
        switch (option) {
        case 't':
            read_threads(&given, text);
            break;
        case 'r':
            given.rounds = read_number(&text, MOST_ROUNDS, '\0');
            break;
        case 'c':
            given.calls = read_number(&text, 1000000000, '\0');
            break;
        case 'j':
            given.json = true;
            break;
        case 'h':
            (void)fputs(usage, stdout);
            exit(0);
        default:
            bad_usage();
        }
    }
    if (optind != argc) {
        bad_usage();
    }
    return given;
}

/* ---- measuring ---- */

/* Nanoseconds a call. */
typedef struct cost {
    double allocate;
    double deallocate;
} cost;

typedef struct worker {
    crmm_resource *resource;
    pthread_barrier_t *start;
    size_t turns; /* of NULL_RESOURCE_BLOCKS allocations each */
    cost result;
} worker;

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void allocate_all(crmm_resource *resource, void **blocks)
{
    for (int i = 0; i < NULL_RESOURCE_BLOCKS; i++) {
        if (crmm_allocate(resource, NULL, BYTES, ALIGNMENT, &blocks[i]) != CRMM_SUCCESS) {
            fail(crmm_last_error()->message);
        }
    }
}

static void deallocate_all(crmm_resource *resource, void *const *blocks)
{
    for (int i = 0; i < NULL_RESOURCE_BLOCKS; i++) {
        crmm_deallocate(resource, NULL, blocks[i], BYTES, ALIGNMENT);
    }
}

/* Allocate all blocks and give them back. */
static void turn(crmm_resource *resource, cost *spent)
{
    void *blocks[NULL_RESOURCE_BLOCKS];

    double begin = now();
    allocate_all(resource, blocks);
    double middle = now();
    deallocate_all(resource, blocks);
    spent->deallocate += now() - middle;
    spent->allocate += middle - begin;
}

/* All threads have all their blocks at once, so that the measured turns reach no new peak. */
static void warm_up(const worker *own)
{
    void *blocks[NULL_RESOURCE_BLOCKS];
    cost unused = {0};

    allocate_all(own->resource, blocks);
    (void)pthread_barrier_wait(own->start);
    deallocate_all(own->resource, blocks);
    for (int i = 0; i < WARM_UP; i++) {
        turn(own->resource, &unused);
    }
    (void)pthread_barrier_wait(own->start);
}

static void *work(void *user_data)
{
    worker *own = user_data;
    cost spent = {0};

    warm_up(own);
    for (size_t i = 0; i < own->turns; i++) {
        turn(own->resource, &spent);
    }
    double calls = (double)(own->turns * NULL_RESOURCE_BLOCKS);
    own->result = (cost){spent.allocate / calls, spent.deallocate / calls};
    return NULL;
}

/* The mean over the threads. */
static cost measure(const candidate *of, size_t threads, size_t calls)
{
    static worker workers[MOST_THREADS];
    static pthread_t handles[MOST_THREADS];
    pthread_barrier_t start;
    crmm_resource *resource = NULL;
    cost mean = {0};

    if (of->create(null_resource(), &resource) != CRMM_SUCCESS) {
        fail(crmm_last_error()->message);
    }
    (void)pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (worker){.resource = resource,
                              .start = &start,
                              .turns = (calls + NULL_RESOURCE_BLOCKS - 1) / NULL_RESOURCE_BLOCKS};
        if (pthread_create(&handles[i], NULL, work, &workers[i]) != 0) {
            fail("no more threads");
        }
    }
    for (size_t i = 0; i < threads; i++) {
        (void)pthread_join(handles[i], NULL);
        mean.allocate += workers[i].result.allocate / (double)threads;
        mean.deallocate += workers[i].result.deallocate / (double)threads;
    }
    (void)pthread_barrier_destroy(&start);
    crmm_resource_release(&resource);
    return mean;
}

static int compare(const void *a, const void *b)
{
    double first = *(const double *)a;
    double second = *(const double *)b;
    return (first > second) - (first < second);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

/* Measure all candidates with a number of threads. */
static void measure_all(const settings *as, size_t threads, cost *results)
{
    static double allocate[MOST_CANDIDATES][MOST_ROUNDS];
    static double deallocate[MOST_CANDIDATES][MOST_ROUNDS];

    for (size_t round = 0; round < as->rounds; round++) {
        for (size_t i = 0; i < candidate_count; i++) {
            cost now_ = measure(&candidates[i], threads, as->calls);
            allocate[i][round] = now_.allocate;
            deallocate[i][round] = now_.deallocate;
        }
    }
    for (size_t i = 0; i < candidate_count; i++) {
        results[i].allocate = median(allocate[i], as->rounds);
        results[i].deallocate = median(deallocate[i], as->rounds);
    }
}

/* ---- reporting ---- */

static double call_of(const cost *of)
{
    return (of->allocate + of->deallocate) / 2;
}

static void print_table(size_t threads, const cost *results)
{
    for (size_t i = 0; i < candidate_count; i++) {
        printf("%-20s %7zu %9.1f %11.1f %9.1f", candidates[i].name, threads, results[i].allocate,
               results[i].deallocate, call_of(&results[i]));
        if (i != 0) {
            printf(" %9.1f", call_of(&results[i]) - call_of(&results[0]));
        }
        printf("\n");
    }
}

static void print_json(size_t threads, const cost *results, bool is_first)
{
    for (size_t i = 0; i < candidate_count; i++) {
        printf("%s\n    {\"adaptor\": \"%s\", \"threads\": %zu, \"allocate_ns\": %.2f, "
               "\"deallocate_ns\": %.2f, \"call_ns\": %.2f, \"added_ns\": %.2f}",
               is_first && i == 0 ? "" : ",", candidates[i].name, threads, results[i].allocate,
               results[i].deallocate, call_of(&results[i]),
               call_of(&results[i]) - call_of(&results[0]));
    }
}

int main(int argc, char **argv)
{
    settings as = read_arguments(argc, argv);
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    cost results[MOST_CANDIDATES];

    if (candidate_count > MOST_CANDIDATES) {
        fail("more candidates than room");
    }
    if (as.json) {
        printf("{\"processors\": %ld, \"rounds\": %zu, \"calls\": %zu, \"results\": [", processors,
               as.rounds, as.calls);
    } else {
        printf("%ld processors; nanoseconds, median of %zu rounds\n", processors, as.rounds);
        printf("%-20s %7s %9s %11s %9s %9s\n", "adaptor", "threads", "allocate", "deallocate",
               "a call", "added");
    }
    for (size_t i = 0; i < as.thread_counts; i++) {
        measure_all(&as, as.threads[i], results);
        if (as.json) {
            print_json(as.threads[i], results, i == 0);
        } else {
            print_table(as.threads[i], results);
        }
        (void)fflush(stdout);
    }
    if (as.json) {
        printf("\n]}\n");
    }
    if (crmm_misuse_count() != 0) {
        fail("misuse was found: these are not the times of good calls");
    }
    return 0;
}
