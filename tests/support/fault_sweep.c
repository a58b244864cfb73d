/* SPDX-License-Identifier: Apache-2.0 */
#include "fault_sweep.h"

#include <string.h>

#include <criterion/criterion.h>
#include <cudart_emulated.h>

/* They tell of what failed before them, and have no failure of their own. */
static const fault_call reports[] = {{.name = "cudaPeekAtLastError"},
                                     {.name = "cudaGetLastError"},
                                     {.name = "cudaGetErrorName"},
                                     {.name = "cudaGetErrorString"}};

static const fault_call *listed; /* NULL: any call may be made */
static size_t listed_count;
static unsigned long long unlisted_before;
static unsigned long long failing_before;

/* ---- one fault ---- */

static unsigned long long sum_of(const fault_call *calls, size_t count)
{
    unsigned long long sum = 0;

    for (size_t i = 0; i < count; i++) {
        sum += cudart_emulated_calls(calls[i].name);
    }
    return sum;
}

static unsigned long long unlisted(void)
{
    return cudart_emulated_calls(NULL) - sum_of(listed, listed_count) -
           sum_of(reports, sizeof(reports) / sizeof(reports[0]));
}

void fault_begin(const fault *one)
{
    unlisted_before = unlisted();
    if (one->position == 0) {
        return;
    }
    failing_before = cudart_emulated_calls(one->call);
    cr_assert(cudart_emulated_fail(one->call, one->position, one->lasts ? 0 : 1,
                                   cudaErrorIllegalAddress) == 0,
              "the emulation has no %s", one->call);
}

bool fault_end(const fault *one)
{
    unsigned long long others = listed != NULL ? unlisted() - unlisted_before : 0;

    cudart_emulated_clear_faults();
    cr_assert(others == 0, "%s, call %llu: %llu calls are not in the list", one->call,
              one->position, others);
    return one->position > 0 && cudart_emulated_calls(one->call) - failing_before >= one->position;
}

bool fault_is_of(const fault *one, const char *call)
{
    return strcmp(one->call, call) == 0;
}

/* ---- what is held ---- */

static unsigned long long left_of(const char *give, const char *take)
{
    return cudart_emulated_calls(give) - cudart_emulated_calls(take);
}

void note_holdings(holdings *out)
{
    struct cudart_emulated_usage usage;

    cr_assert(cudart_emulated_usage(0, &usage) == 0);
    *out = (holdings){.physical = usage.physical,
                      .allocated = usage.allocated,
                      .ranges = cudart_emulated_reserved(),
                      .events = left_of("cudaEventCreateWithFlags", "cudaEventDestroy"),
                      .streams = left_of("cudaStreamCreateWithFlags", "cudaStreamDestroy")};
}

bool are_holdings_back(const holdings *before, const fault *one, bool is_met)
{
    holdings now;

    note_holdings(&now);
    now.events -= is_met && fault_is_of(one, "cudaEventCreateWithFlags");
    now.streams -= is_met && fault_is_of(one, "cudaStreamCreateWithFlags");
    return now.physical == before->physical && now.allocated == before->allocated &&
           now.ranges == before->ranges && now.events == before->events &&
           now.streams == before->streams;
}

/* ---- all faults ---- */

static void run_without(size_t variants, fault_program *run)
{
    const fault none = {.call = "no fault"};

    for (size_t variant = 0; variant < variants; variant++) {
        (void)run(variant, &none);
    }
}

static unsigned long long sweep_call(const char *call, size_t variants, fault_program *run)
{
    unsigned long long met = 0;

    for (size_t variant = 0; variant < variants; variant++) {
        fault one = {.call = call, .position = 1};
        for (; run(variant, &one); one.position++) {
            met++;
        }
    }
    return met;
}

void sweep_faults(const fault_call *calls, size_t count, int part, size_t variants,
                  fault_program *run)
{
    listed = NULL;
    listed_count = 0;
    run_without(variants, run); /* entry points are looked up once, by the first that needs them */
    listed = calls;
    listed_count = count;
    run_without(variants, run);
    for (size_t i = 0; i < count; i++) {
        if (calls[i].part == part) {
            unsigned long long met = sweep_call(calls[i].name, variants, run);
            cr_assert(met > 0, "%s was never called", calls[i].name);
            cr_log_info("%s: %llu positions", calls[i].name, met);
        }
    }
}
