/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on a pool over a simulated device: no two blocks overlap, no memory is handed out
 * before the work on it, and the pool's figures and structure agree with what it did.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "program.h"
#include "shadow.h"

typedef struct request {
    const subject *pool;
    const char *configuration; /* a name, or how names begin */
    uint64_t first_seed;
    uint64_t seeds;
    uint64_t operations;
    uint64_t check_every;
    bool is_verbose;
    bool must_fail; /* every configuration must find something */
} request;

static int usage(void)
{
    (void)fprintf(stderr, "usage: pool-model [--seeds N] [--operations M] [--check-every K]\n"
                          "           [--configuration NAME] [--seed S] [--pool NAME] [--verbose]\n"
                          "           [--must-fail]\n"
                          "configurations:");
    for (const configuration *of = configurations; of->name != NULL; of++) {
        (void)fprintf(stderr, " %s", of->name);
    }
    (void)fprintf(stderr, "\npools:");
    for (const subject *pool = subjects; pool->name != NULL; pool++) {
        (void)fprintf(stderr, " %s", pool->name);
    }
    (void)fprintf(stderr, "\n");
    return 2;
}

static bool parse(request *into, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--verbose") == 0) {
            into->is_verbose = true;
            continue;
        }
        if (strcmp(name, "--must-fail") == 0) {
            into->must_fail = true;
            continue;
        }
        const char *value = i + 1 < argc ? argv[++i] : NULL;
        uint64_t number = value != NULL ? strtoull(value, NULL, 10) : 0;
        if (value == NULL) {
            return false;
        }
        if (strcmp(name, "--seeds") == 0) {
            into->seeds = number;
        } else if (strcmp(name, "--operations") == 0) {
            into->operations = number;
        } else if (strcmp(name, "--check-every") == 0) {
            into->check_every = number;
        } else if (strcmp(name, "--configuration") == 0) {
            into->configuration = value;
        } else if (strcmp(name, "--seed") == 0) {
            into->first_seed = number;
            into->seeds = 1;
        } else if (strcmp(name, "--pool") == 0) {
            into->pool = subject_find(value);
        } else {
            return false;
        }
    }
    return into->pool != NULL && into->check_every != 0;
}

static double seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void tell_failure(const request *what, const program_run *run)
{
    (void)printf("  seed %llu, operation %llu: %s\n    pool-model --pool %s --configuration %s "
                 "--operations %llu --check-every %llu --seed %llu\n",
                 (unsigned long long)run->seed, (unsigned long long)run->done, run->why,
                 what->pool->name, run->of->name, (unsigned long long)what->operations,
                 (unsigned long long)what->check_every, (unsigned long long)run->seed);
}

static void tell_run(const program_run *run)
{
    const style *like = &run->like;
    const subject_options *options = &like->options;

    (void)printf("  seed %llu: %llu operations, %llu allocations, %llu refused, %llu faults, "
                 "%llu records, %llu queries, %llu waits, %llu synchronizes, %llu device waits\n",
                 (unsigned long long)run->seed, (unsigned long long)run->done,
                 (unsigned long long)run->allocations, (unsigned long long)run->refusals,
                 (unsigned long long)run->counts.faults, (unsigned long long)run->counts.records,
                 (unsigned long long)run->counts.queries, (unsigned long long)run->counts.waits,
                 (unsigned long long)run->counts.synchronizes,
                 (unsigned long long)run->counts.device_waits);
    (void)printf("    upstream's limit %zu, initial %zu, maximum %zu, release threshold %llu, "
                 "tight %llu, target %zu, handle %zu, heaps %zu\n",
                 like->limit, options->initial_pool_size, options->maximum_pool_size,
                 (unsigned long long)options->release_threshold, (unsigned long long)options->tight,
                 options->target_pool_size, options->handle_size, options->heap_count);
    (void)printf("    %u streams%s%s, %u blocks, %zu bytes; of 1024: %u cross, %u sync; of 65536: "
                 "%u orders, %u waits, %u deaths, %u captures; progress %u\n",
                 like->streams, like->has_legacy ? " with legacy" : "",
                 like->has_per_thread ? " with per-thread" : "", like->most_live, like->most_bytes,
                 like->cross, like->sync, like->orders, like->waits, like->deaths, like->captures,
                 like->manner.progress);
}

/* The number of seeds that failed. */
static uint64_t run_configuration(const request *what, const configuration *of)
{
    uint64_t failures = 0;
    uint64_t operations = 0;
    double begin = seconds();

    for (uint64_t i = 0; i < what->seeds; i++) {
        program_run run = {.pool = what->pool,
                           .of = of,
                           .seed = what->first_seed + i,
                           .operations = what->operations,
                           .check_every = what->check_every};
        if (!program_run_all(&run)) {
            failures++;
            tell_failure(what, &run);
        }
        if (what->is_verbose) {
            tell_run(&run);
        }
        operations += run.done;
    }
    (void)printf("%s: %llu seeds, %llu operations, %.0f ns each, %llu failures\n", of->name,
                 (unsigned long long)what->seeds, (unsigned long long)operations,
                 (seconds() - begin) / (double)(operations != 0 ? operations : 1) * 1e9,
                 (unsigned long long)failures);
    (void)fflush(stdout);
    return failures;
}

int main(int argc, char **argv)
{
    request what = {.pool = subjects,
                    .configuration = "",
                    .first_seed = 1,
                    .seeds = 20,
                    .operations = 2000,
                    .check_every = 256};
    bool is_wrong = false;
    bool is_any = false;

    /* What was found before a crash is told. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);

    if (!parse(&what, argc, argv)) {
        return usage();
    }
    for (const configuration *of = configurations; of->name != NULL; of++) {
        if (strncmp(of->name, what.configuration, strlen(what.configuration)) == 0) {
            uint64_t failures = run_configuration(&what, of);
            /* Most mistakes take several streams. */
            bool may_be_either = of->kind == PROGRAM_LONE && what.must_fail;
            is_wrong = is_wrong || (!may_be_either && (failures != 0) != what.must_fail);
            is_any = true;
        }
    }
    shadow_finish();
    if (!is_any) {
        return usage();
    }
    return is_wrong ? 1 : 0;
}
