/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_TOOLS_EVERY_RESOURCE_H
#define CRMM_TESTS_TOOLS_EVERY_RESOURCE_H

/*
 * One of every resource of the build, and of what some of them are made of in different ways: the
 * classes of crmm-replay and the few that it has not. No test framework: the programs use this too.
 */

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>

#define ANY_ALIGNMENT (64 * (size_t)1024) /* the largest that is asked for */

typedef struct row {
    const char *name; /* what stands in a table; begins with the class */
    const char *spec; /* for crmm-replay; NULL: `create` */
    crmm_status (*create)(crmm_resource **out);
    size_t most_alignment;
    crmm_status too_much; /* what 1 PiB is answered with; 0: out of memory */
    bool has_its_own;     /* it needs no memory of CUDA's for a few MiB */
    bool falls_back;      /* it has memory of another kind where CUDA gives none */
    bool is_captured;     /* a stream that is captured gets memory: the graph's */
    bool forgets; /* its books drop a block before upstream has it, which may refuse it: then the
                     block is upstream's */
    crmm_resource *(*keeper)(void); /* whose it is then, if not upstream's */
} row;

extern const row rows[];
extern const size_t row_count;

/* Make the emulation's devices, of which there are two then, able to serve every row. */
void every_resource_set_up(void);

/*
 * Make the resource of a row, with one reference, the caller's. With CRMM_SUCCESS and NULL the
 * device has not what it needs, or the build not the class; `why`, of 48 bytes, says which.
 */
crmm_status every_resource_make(const row *of, crmm_resource **out, char why[48]);

#endif
