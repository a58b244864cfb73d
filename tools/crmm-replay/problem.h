/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_PROBLEM_H
#define CRMM_REPLAY_PROBLEM_H

#include <stdbool.h>

/* Why something could not be done: one sentence, for the user. */
typedef struct problem {
    char text[1024];
} problem;

/* Write the sentence, as printf does, and evaluate to false: `return problem_set(...)`. */
__attribute__((format(printf, 2, 3))) bool problem_set(problem *out, const char *format, ...);

bool problem_no_memory(problem *out);

#endif
