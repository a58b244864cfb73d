/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_RANDOM_H
#define CRMM_BENCHMARKS_POOL_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* xorshift64 (Marsaglia, 2003): a handful of instructions, as it runs inside of what is timed. The
 * state is never 0. */
static inline uint64_t draw(uint64_t *state)
{
    uint64_t value = *state;

    value ^= value << 13;
    value ^= value >> 7;
    value ^= value << 17;
    *state = value;
    return value;
}

static inline uint64_t draw_seed(size_t number)
{
    uint64_t state = (uint64_t)(number + 1) * UINT64_C(0x9E3779B97F4A7C15);

    for (int i = 0; i < 8; i++) {
        (void)draw(&state);
    }
    return state;
}

/* One of 0 to `count` - 1, of the upper half of a number drawn. */
static inline size_t draw_index(uint64_t drawn, size_t count)
{
    return (size_t)(((drawn >> 32) * (uint64_t)count) >> 32);
}

enum { SIZE_FRACTIONS = 1024, SIZE_SMALLEST = 8, SIZE_DOUBLINGS = 12 };

/* 2^(i / SIZE_FRACTIONS), times 2^16. Filled by sizes_prepare(). */
extern uint32_t size_fractions[SIZE_FRACTIONS];
void sizes_prepare(void);

/* A log-uniform size from 256 B to 1 MiB, of the lower half of a number drawn. A table and a shift,
 * in place of a power. */
static inline size_t draw_size(uint64_t drawn)
{
    unsigned doubling = (unsigned)(((drawn & 0xFFFF) * SIZE_DOUBLINGS) >> 16);
    size_t fraction = size_fractions[(drawn >> 16) % SIZE_FRACTIONS];

    return (fraction << (doubling + SIZE_SMALLEST)) >> 16;
}

#endif
