/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATED_SHADOW_H
#define EMULATED_SHADOW_H

#include "emulated.h"

/* Who touches memory, and what it comes after. */
struct actor {
    const struct clock *clock;
    bool host;
    unsigned slot;
    uint64_t epoch;
    uint64_t stream;
    uint64_t seq;
    const char *what;
};

void shadow_access(const struct actor *actor, uintptr_t va, size_t size, bool write);

#endif
