/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_CONVERT_H
#define CRMM_REPLAY_CONVERT_H

#include <stdbool.h>

#include "problem.h"

typedef enum convert_outcome {
    CONVERT_DONE,
    CONVERT_MALFORMED,   /* the log; what comes before is converted */
    CONVERT_NOT_WRITTEN, /* the file */
} convert_outcome;

/* Write the text of a binary log. "-" is standard input, and output. */
convert_outcome convert_log(const char *from, const char *to, problem *why);

#endif
