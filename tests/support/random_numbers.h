/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_RANDOM_NUMBERS_H
#define CRMM_TESTS_SUPPORT_RANDOM_NUMBERS_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea and Flood, 2014): the same state gives the same numbers. */
static inline uint64_t random_next(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9E3779B97F4A7C15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ (mixed >> 31);
}

/* One of 0 to `count` - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t count)
{
    return random_next(state) % count;
}

#endif
