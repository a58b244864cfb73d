/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_RANDOM_STACK_H
#define CRMM_TESTS_SUPPORT_RANDOM_STACK_H

#include "recording_resource.h"

/*
 * Stacks of adaptors that a seed chooses, out of all that the build has, over a resource that
 * records. No test framework: the programs use this as well.
 */

enum { RANDOM_STACK_LAYERS = 5, RANDOM_STACK_WHY = 320 };

/* A class of adaptor, as the table in random_stack.c has it. */
typedef struct random_layer_class {
    const char *name;
    /* Over `upstream`, with options that `*random` chooses. */
    crmm_status (*create)(crmm_resource *upstream, uint64_t *random, crmm_resource **out);
    bool gives_any_alignment;
    /* What must hold at any time, and once everything has been given back; NULL: nothing. */
    bool (*is_within_bounds)(const crmm_resource *adaptor);
    bool (*is_idle)(const crmm_resource *adaptor);
    /* Most bytes it may take from upstream; NULL: any number. */
    size_t (*limit)(const crmm_resource *adaptor);
} random_layer_class;

extern const random_layer_class random_layer_classes[]; /* the last one has no name */

typedef struct random_stack {
    recording_resource bottom;
    const random_layer_class *classes[RANDOM_STACK_LAYERS];
    crmm_resource *layers[RANDOM_STACK_LAYERS]; /* lowest first; a reference to each */
    size_t count;
    bool gives_any_alignment;
    char why[RANDOM_STACK_WHY]; /* what went wrong first, or empty */
} random_stack;

/*
 * Build a stack of `count` layers. false: it could not be built, and `why` says so; finish it all
 * the same.
 */
bool random_stack_init(random_stack *stack, uint64_t *random, size_t count);

/* Its highest layer, borrowed. */
crmm_resource *random_stack_top(const random_stack *stack);

/*
 * Allocate and give back, `operations` times in each thread; blocks are shared, so that most go
 * back on another thread than they came from. In the end everything has been given back. Checks
 * what each call returns, the memory, the layers' bounds, and in the end their counters.
 *
 * Returns the number of allocations that succeeded; `why` says what was wrong.
 */
size_t random_stack_exercise(random_stack *stack, uint64_t seed, unsigned threads,
                             size_t operations);

/* Release the layers, highest first, and check that everything is gone. false: `why` says what is
 * wrong, now or earlier. */
bool random_stack_finish(random_stack *stack);

#endif
