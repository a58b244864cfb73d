/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATED_ARENA_H
#define EMULATED_ARENA_H

#include "emulated.h"

/* Freed host memory of at least this size is given back to the system. */
#define ARENA_DROP_BYTES ((size_t)64 << 10)

#endif
