/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_REPLAY_H
#define CRMM_REPLAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/error.h>
#include <crmm/core/resource.h>

#include "problem.h"
#include "spec.h"
#include "trace.h"

typedef enum replay_outcome {
    REPLAY_DONE,
    REPLAY_ALLOCATION_FAILED, /* result.failure has the rest */
    REPLAY_REFUSED,           /* the stack could not be built, result.status says why */
    REPLAY_BROKEN,            /* the replay itself could not be carried out */
} replay_outcome;

/* An allocation that failed, and what the resource had to say at that moment. */
typedef struct replay_failure {
    uint32_t line; /* in the trace's file; 0: none failed */
    size_t bytes;
    uint64_t stream; /* as the file has it */
    crmm_error error;
    char description[1024];
    bool has_info;
    crmm_memory_info info;
} replay_failure;

typedef struct replay_result {
    crmm_status status; /* of what failed */
    size_t calls;       /* allocations and frees, the failed one included */
    double ns_per_call; /* inside the library */
    size_t peak_live;   /* requested bytes */
    size_t peak_held;   /* taken from CUDA and the heap */
    replay_failure failure;
} replay_result;

/*
 * Replay a trace through a new stack.
 *
 * Each stream of the trace is a stream of its own, each thread a thread of its own; the rows are
 * executed one after the other, in their order, on the thread they belong to. A row of an
 * allocation that failed when it was recorded is an attempt again: what it gets is given back at
 * once. A resource without stream order is used by its _sync functions, and no stream is made.
 *
 * The clock is read before and after each call, and what reading it takes is subtracted.
 *
 * Counts what is held, so no other replay may run at the same time. `why` is filled for
 * REPLAY_REFUSED and REPLAY_BROKEN.
 */
replay_outcome replay_run(const trace *what, const spec *through, replay_result *result,
                          problem *why);

#endif
