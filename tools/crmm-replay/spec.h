/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_SPEC_H
#define CRMM_REPLAY_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "classes.h"
#include "problem.h"

enum { SPEC_MOST_PARTS = 16 };

typedef struct spec_part {
    const resource_class *of;
    uint64_t values[CLASS_MOST_PARAMETERS];
} spec_part;

/* A stack of resources as the user wrote it: PART[+PART]..., outermost first. */
typedef struct spec {
    const char *text; /* the caller's */
    spec_part parts[SPEC_MOST_PARTS];
    size_t part_count;
} spec;

/* Parse a SPEC. `why` names the part, the option and the value. */
bool spec_parse(const char *text, spec *out, problem *why);

/*
 * Build the stack. One reference, the caller's. A failure has been described by
 * crmm_last_error().
 */
crmm_status spec_create(const spec *of, crmm_resource **out);

#endif
