/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_REPORT_H
#define CRMM_BENCHMARKS_POOL_REPORT_H

#include <stdio.h>

#include "bench.h"

/* The table, a row as soon as there is one. `reference` is the same case's result of what all are
 * compared with; NULL: none. */
void report_heading(FILE *to);
void report_row(FILE *to, const result *of, const result *reference);

void report_json_begin(FILE *to);
void report_json_row(FILE *to, const result *of, const result *reference, bool is_first);
void report_json_end(FILE *to);

#endif
