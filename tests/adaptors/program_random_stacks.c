/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random stacks of up to five adaptors under eight threads, with an upstream that fails now and
 * then. An argument is a seed; without one several are run, 100 000 operations in all.
 */
#include <stdio.h>
#include <stdlib.h>

#include "random_numbers.h"
#include "random_stack.h"

enum { STACKS = 40, THREADS = 8, OPERATIONS = 100000 / STACKS / THREADS + 1 };

static size_t run(uint64_t seed)
{
    static random_stack stack;
    uint64_t random = seed;
    char description[512];

    bool built = random_stack_init(&stack, &random, random_below(&random, RANDOM_STACK_LAYERS + 1));
    stack.bottom.fail_per_thousand = (unsigned)random_below(&random, 100);
    (void)crmm_resource_describe(random_stack_top(&stack), description, sizeof(description));
    size_t succeeded = built ? random_stack_exercise(&stack, seed, THREADS, OPERATIONS) : 0;
    if (!random_stack_finish(&stack)) {
        (void)fprintf(stderr, "program_random_stacks: seed %llu: %s\n  stack: %s\n",
                      (unsigned long long)seed, stack.why, description);
        exit(1);
    }
    return succeeded;
}

int main(int argc, char **argv)
{
    size_t succeeded = 0;

    if (argc > 1) {
        (void)run(strtoull(argv[1], NULL, 10));
        return 0;
    }
    for (uint64_t seed = 1; seed <= STACKS; seed++) {
        succeeded += run(seed);
    }
    /* Of the operations about half are allocations. */
    if (succeeded < (size_t)STACKS * THREADS * OPERATIONS / 10) {
        (void)fprintf(stderr, "program_random_stacks: only %zu allocations succeeded\n", succeeded);
        return 1;
    }
    return 0;
}
