/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "candidates.h"

static const char usage[] =
    "usage: %s [--workload W[,W]...] [--case TEXT] [--allocator NAME]... [--threads N[,N]...]\n"
    "       [--rounds N] [--steps N] [--seconds S] [--maximum GIB] [--lag NS] [--trace FILE]\n"
    "       [--json FILE]\n"
    "       %s --check [--allocator NAME]\n"
    "  --workload   W1 to W9; all by default\n"
    "  --case       only cases in whose name TEXT occurs\n"
    "  --allocator  what to measure, once or more:\n"
    "%s"
    "  --threads    numbers of threads; by default 1, 2, 4 and so on to the number of processors\n"
    "  --rounds     measurements of which the median and the least are told\n"
    "  --steps      steps of a round of one thread\n"
    "  --seconds    length of a round of several threads, and the most that one thread's round or\n"
    "               warm-up takes; 0: no limit\n"
    "  --maximum    GiB that a growing pool never exceeds, and so how much address space it takes\n"
    "  --lag        without CUDA: ns after which a recorded event is complete; 0 by default\n"
    "  --trace      W7's program, in a format of crmm-replay\n"
    "  --json       a file for the results, in JSON\n"
    "  --check      fail where the pool is not as fast as it has to be\n";

static void bad_usage(const char *program)
{
    (void)fprintf(stderr, usage, program, program, candidates_help);
    exit(2);
}

/* A number from 1 to `most`, up to the end of the text or a comma. */
static uint64_t read_number(const char *program, const char **text, uint64_t most)
{
    char *rest = NULL;
    unsigned long long value = strtoull(*text, &rest, 10);

    if (rest == *text || value < 1 || value > most || (*rest != '\0' && *rest != ',')) {
        bad_usage(program);
    }
    *text = *rest == '\0' ? rest : rest + 1;
    return value;
}

static uint64_t read_one_number(const char *program, const char *text, uint64_t most)
{
    uint64_t value = read_number(program, &text, most);

    if (*text != '\0') {
        bad_usage(program);
    }
    return value;
}

static double read_seconds(const char *program, const char *text)
{
    char *rest = NULL;
    double value = strtod(text, &rest);

    if (rest == text || *rest != '\0' || !(value >= 0 && value <= 3600)) {
        bad_usage(program);
    }
    return value;
}

static void add_threads(arguments *to, size_t threads)
{
    if (to->thread_counts == MOST_THREAD_COUNTS) {
        bad_usage(to->program);
    }
    to->threads[to->thread_counts++] = threads;
}

static void set_default_threads(arguments *to)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = online < 1 ? 1 : (size_t)online;

    most = most > MOST_THREADS ? MOST_THREADS : most;
    for (size_t threads = 1; threads < most; threads *= 2) {
        add_threads(to, threads);
    }
    add_threads(to, most);
}

static void add_allocator(arguments *to, const char *name)
{
    candidate unused;

    if (to->allocator_count == MOST_CANDIDATES || !candidate_find(name, &unused)) {
        (void)fprintf(stderr, "%s: no allocator %s, or too many\n", to->program, name);
        bad_usage(to->program);
    }
    to->allocators[to->allocator_count++] = name;
}

static void take_option(arguments *to, int option, const char *text)
{
    switch (option) {
    case 'w':
        to->workloads = text;
        break;
    case 'n':
        to->name = text;
        break;
    case 'a':
        add_allocator(to, text);
        break;
    case 't':
        do {
            add_threads(to, read_number(to->program, &text, MOST_THREADS));
        } while (*text != '\0');
        break;
    case 'r':
        to->rounds = read_one_number(to->program, text, 1000000);
        break;
    case 's':
        to->steps = read_one_number(to->program, text, UINT64_C(1) << 40);
        break;
    case 'l':
        to->seconds = read_seconds(to->program, text);
        to->has_seconds = true;
        break;
    case 'm':
        to->most_bytes = read_one_number(to->program, text, 1 << 20) << 30;
        break;
    case 'g':
        to->lag = read_one_number(to->program, text, 1000000000);
        break;
    case 'f':
        to->trace = text;
        break;
    case 'j':
        to->json = text;
        break;
    case 'c':
        to->check = true;
        break;
    case 'h':
        (void)printf(usage, to->program, to->program, candidates_help);
        exit(0);
    default:
        bad_usage(to->program);
    }
}

arguments arguments_read(int argc, char **argv)
{
    static const struct option options[] = {
        {"workload", required_argument, NULL, 'w'},
        {"case", required_argument, NULL, 'n'},
        {"allocator", required_argument, NULL, 'a'},
        {"threads", required_argument, NULL, 't'},
        {"rounds", required_argument, NULL, 'r'},
        {"steps", required_argument, NULL, 's'},
        {"seconds", required_argument, NULL, 'l'},
        {"maximum", required_argument, NULL, 'm'},
        {"lag", required_argument, NULL, 'g'},
        {"trace", required_argument, NULL, 'f'},
        {"json", required_argument, NULL, 'j'},
        {"check", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *slash = strrchr(argv[0], '/');
    arguments given = {.program = slash != NULL ? slash + 1 : argv[0]};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        take_option(&given, option, optarg);
    }
    if (optind != argc) {
        bad_usage(given.program);
    }
    if (given.thread_counts == 0) {
        set_default_threads(&given);
    }
    return given;
}

bool arguments_want(const arguments *as, const char *workload, const char *name)
{
    bool wants = as->workloads == NULL;

    for (const char *at = as->workloads; !wants && at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        size_t length = strcspn(at, ",");
        wants = length == strlen(workload) && strncmp(at, workload, length) == 0;
    }
    return wants && (as->name == NULL || name == NULL || strstr(name, as->name) != NULL);
}
