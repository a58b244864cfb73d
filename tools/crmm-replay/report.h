/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_REPORT_H
#define CRMM_REPLAY_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "replay.h"

/* One line of the report; the texts are the caller's. */
typedef struct report_line {
    const char *trace;
    const char *resource;
    replay_result result;
} report_line;

/* One JSON object and a newline. False: no host memory. What `out` cannot take, ferror() tells. */
bool report_json(FILE *out, const report_line *line);

void report_table(FILE *out, const report_line *rows, size_t count);

/* Which row failed, why, and what the resource said of itself. */
void report_failure(FILE *out, const report_line *line);

/* The classes of this build with their parameters and options. */
void report_classes(FILE *out);

#endif
