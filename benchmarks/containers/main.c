/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crmm-bench-containers: what a device_buffer adds to an allocation and its deallocation from a
 * pool, in nanoseconds, where the caller names the resource and its device is current.
 *
 * The pool stands on the null floor and on an upstream without memory, so that its own part is
 * small and steady; the buffer asks the runtime that the program is built with for the current
 * device. Both ways take turns, and each pair of rounds gives a difference, of which the median
 * counts.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/core/alignment.h>
#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/core/options.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/internal/floor.h>

#include "null_upstream.h"

enum { ATTEMPTS = 4, SKIPPED = 77 };
enum { BYTES = 1024, MOST_ROUNDS = 10001 };

/* What the documents promise. */
static const double LIMIT = 40;

static const char usage[] =
    "usage: crmm-bench-containers [--check] [--only WAY] [--rounds N] [--steps N]\n"
    "  --check   fail if a buffer adds more than 40 ns; a miss is measured again, three times\n"
    "  --only    hand or buffer: do this alone and measure nothing, for callgrind\n"
    "  --rounds  of which the median counts, 2001 by default\n"
    "  --steps   pairs of a round, 500 by default\n";

static void fail(const char *what)
{
    (void)fprintf(stderr, "crmm-bench-containers: %s\n", what);
    exit(1);
}

/* ---- arguments ---- */

typedef struct settings {
    size_t rounds;
    size_t steps;
    const char *only;
    bool check;
} settings;

static void bad_usage(void)
{
    (void)fputs(usage, stderr);
    exit(2);
}

static size_t read_number(const char *text, size_t most)
{
    char *rest = NULL;
    unsigned long value = strtoul(text, &rest, 10);

    if (rest == text || *rest != '\0' || value < 1 || value > most) {
        bad_usage();
    }
    return value;
}

static settings read_arguments(int argc, char **argv)
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},        {"only", required_argument, NULL, 'o'},
        {"rounds", required_argument, NULL, 'r'}, {"steps", required_argument, NULL, 's'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    settings given = {.rounds = 2001, .steps = 500};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            given.check = true;
            break;
        case 'o':
            given.only = optarg;
            break;
        case 'r':
            given.rounds = read_number(optarg, MOST_ROUNDS);
            break;
        case 's':
            given.steps = read_number(optarg, 1000000000);
            break;
        case 'h':
            (void)fputs(usage, stdout);
            exit(0);
        default:
            bad_usage();
        }
    }
    if (optind != argc || (given.only != NULL && strcmp(given.only, "hand") != 0 &&
                           strcmp(given.only, "buffer") != 0)) {
        bad_usage();
    }
    return given;
}

/* ---- the two ways ---- */

static void by_hand(crmm_resource *pool, crmm_stream stream, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        void *ptr = NULL;
        if (crmm_allocate(pool, stream, BYTES, CRMM_DEVICE_ALIGNMENT, &ptr) != CRMM_SUCCESS) {
            fail(crmm_last_error()->message);
        }
        crmm_deallocate(pool, stream, ptr, BYTES, CRMM_DEVICE_ALIGNMENT);
    }
}

static void by_buffer(crmm_resource *pool, crmm_stream stream, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        crmm_device_buffer buffer;
        if (crmm_device_buffer_init(&buffer, BYTES, stream, pool) != CRMM_SUCCESS) {
            fail(crmm_last_error()->message);
        }
        crmm_device_buffer_finish(&buffer);
    }
}

typedef void (*way)(crmm_resource *pool, crmm_stream stream, size_t steps);

/* Nanoseconds a step. */
static double measure(way go, crmm_resource *pool, crmm_stream stream, size_t steps)
{
    struct timespec begin;
    struct timespec end;

    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    go(pool, stream, steps);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           (double)steps;
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

/* Nanoseconds that a buffer adds. */
static double measure_both(const settings *as, crmm_resource *pool, crmm_stream stream)
{
    static double hand[MOST_ROUNDS];
    static double buffer[MOST_ROUNDS];
    static double added[MOST_ROUNDS];

    by_hand(pool, stream, as->steps);
    by_buffer(pool, stream, as->steps);
    for (size_t i = 0; i < as->rounds; i++) {
        hand[i] = measure(by_hand, pool, stream, as->steps);
        buffer[i] = measure(by_buffer, pool, stream, as->steps);
        added[i] = buffer[i] - hand[i];
    }
    double difference = median(added, as->rounds);
    printf("%-36s %8.1f\n", "allocate + deallocate, ns", median(hand, as->rounds));
    printf("%-36s %8.1f\n", "device_buffer init + finish, ns", median(buffer, as->rounds));
    printf("%-36s %8.1f\n", "added, ns", difference);
    (void)fflush(stdout);
    return difference;
}

/* ---- the program ---- */

static crmm_resource *make_pool(void)
{
    crmm_resource *upstream = null_upstream_create((size_t)1 << 30, true);
    crmm_resource *pool = NULL;

    if (upstream == NULL) {
        fail("no host memory");
    }
    /* Valgrind has less address space than a pool takes by default. */
    if (crmm_pool_memory_resource_create(
            upstream, CRMM_OPTIONS(crmm_pool_memory_resource, .maximum_pool_size = (size_t)1 << 28),
            &pool) != CRMM_SUCCESS) {
        fail(crmm_last_error()->message);
    }
    crmm_resource_release(&upstream);
    return pool;
}

int main(int argc, char **argv)
{
    const settings as = read_arguments(argc, argv);
    /* The null floor takes any handle but those of the default streams. */
    const crmm_stream stream = (crmm_stream)(uintptr_t)0x10400;

    /* Any program that uses the device has a context on it; without one, questions take longer. */
    if (crmm_priv_cuda_set_device(0) != CRMM_SUCCESS) {
        (void)fprintf(stderr, "crmm-bench-containers: there is no device 0\n");
        return SKIPPED;
    }
    crmm_resource *pool = make_pool();
    double added = 0;
    if (as.only != NULL) {
        way go = strcmp(as.only, "hand") == 0 ? by_hand : by_buffer;
        go(pool, stream, as.rounds * as.steps);
    } else {
        added = measure_both(&as, pool, stream);
    }
    for (int attempt = 1; as.check && added > LIMIT && attempt < ATTEMPTS; attempt++) {
        double again = measure_both(&as, pool, stream);
        added = again < added ? again : added;
    }
    crmm_resource_release(&pool);
    if (crmm_misuse_count() != 0) {
        fail("misuse was found: these are not the times of good calls");
    }
    if (as.check) {
        printf("%-7s %-28s %8.1f  <= %.0f\n", added <= LIMIT ? "good" : "MISSED", "added, ns",
               added, LIMIT);
    }
    return as.check && added > LIMIT ? 1 : 0;
}
