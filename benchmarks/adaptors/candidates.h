/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_ADAPTORS_CANDIDATES_H
#define CRMM_BENCHMARKS_ADAPTORS_CANDIDATES_H

#include <crmm/core/resource.h>

/* What is measured: a way to stack something on the null resource. */
typedef struct candidate {
    const char *name;
    crmm_status (*create)(crmm_resource *upstream, crmm_resource **out);
} candidate;

/* The first one is the bare resource, with which all others are compared. */
extern const candidate candidates[];
extern const size_t candidate_count;

#endif
