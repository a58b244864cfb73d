/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crmm-bench-pool and crmm-bench-pool-cuda: what an allocation and its deallocation take in a pool,
 * beside a pool of another shape in the same run. The first stands on a floor without CUDA, so that
 * the library's own code is what is timed; the second on CUDA. docs/benchmarks.md has the
 * workloads.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/misuse.h>

#include "arguments.h"
#include "candidates.h"
#include "cases.h"
#include "check.h"
#include "measure.h"
#include "random.h"
#include "report.h"
#include "streams.h"
#include "tasks.h"

static const char *program = "crmm-bench-pool";

void bench_fail(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    (void)fprintf(stderr, "%s: ", program);
    (void)vfprintf(stderr, format, values);
    (void)fputc('\n', stderr);
    va_end(values);
    exit(1);
}

static size_t find_candidates(const arguments *as, candidate *out)
{
    bool is_default = as->allocator_count == 0;
    const char *const *names = is_default ? default_candidates : as->allocators;
    size_t count = is_default ? default_candidate_count : as->allocator_count;

    for (size_t i = 0; i < count; i++) {
        if (!candidate_find(names[i], &out[i])) {
            bench_fail("there is no allocator %s", names[i]);
        }
    }
    return count;
}

static void measure_case(const bench_case *of, const candidate *on, size_t count, FILE *json,
                         bool *is_first)
{
    entry entries[MOST_CANDIDATES] = {{0}};
    result results[MOST_CANDIDATES];
    const result *reference = NULL;

    for (size_t i = 0; i < count; i++) {
        entries[i] = (entry){of, &on[i]};
    }
    measure(entries, count, results);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(results[i].allocator, reference_name) == 0) {
            reference = &results[i];
        }
    }
    for (size_t i = 0; i < count; i++) {
        report_row(stdout, &results[i], reference);
        if (json != NULL) {
            report_json_row(json, &results[i], reference, *is_first);
            *is_first = false;
        }
    }
    (void)fflush(stdout);
}

static void measure_all(const arguments *as)
{
    candidate on[MOST_CANDIDATES];
    size_t count = find_candidates(as, on);
    FILE *json = NULL;
    bool is_first = true;
    case_list all;

    if (as->json != NULL) {
        json = fopen(as->json, "w");
        if (json == NULL) {
            bench_fail("%s cannot be written", as->json);
        }
        report_json_begin(json);
    }
    cases_make(&all, as);
    report_heading(stdout);
    for (size_t i = 0; i < all.count; i++) {
        measure_case(&all.cases[i], on, count, json, &is_first);
    }
    cases_free(&all);
    if (json != NULL) {
        report_json_end(json);
        if (ferror(json) != 0 || fclose(json) != 0) {
            bench_fail("%s cannot be written", as->json);
        }
    }
}

int main(int argc, char **argv)
{
    arguments as = arguments_read(argc, argv);
    int status = 0;

    program = as.program;
    sizes_prepare();
    if (as.lag != 0) {
        streams_set_lag(as.lag);
    }
    if (as.trace != NULL) {
        trace_task_load(as.trace);
    }
    if (as.check) {
        status = check_pool(as.allocator_count > 0 ? as.allocators[0] : "pool");
    } else {
        measure_all(&as);
    }
    trace_task_unload();
    if (crmm_misuse_count() != 0) {
        bench_fail("misuse was found: these are not the times of good calls");
    }
    return status;
}
