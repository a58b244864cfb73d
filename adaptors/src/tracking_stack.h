/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_TRACKING_STACK_H
#define CRMM_ADAPTORS_SRC_TRACKING_STACK_H

#include <stdbool.h>
#include <stddef.h>

/* The most calls that are remembered of one stack. */
enum { CRMM_PRIV_STACK_DEPTH = 32 };

/* The calls that led to a point of the program; shared and never changed. */
typedef struct crmm_priv_stack {
    size_t references; /* atomic */
    size_t length;
    void *addresses[]; /* return addresses, innermost first */
} crmm_priv_stack;

/* Whether this C library can; loads on the way what it needs for it. */
bool crmm_priv_stack_prepare(void);

/* The caller's stack, one reference; NULL: no memory. */
crmm_priv_stack *crmm_priv_stack_capture(void);

/* NULL is ignored. */
void crmm_priv_stack_retain(crmm_priv_stack *stack);
void crmm_priv_stack_release(crmm_priv_stack *stack);

/* One text for each address, all of them for one free(); NULL: no memory. */
char **crmm_priv_stack_symbols(const crmm_priv_stack *stack);

#endif
