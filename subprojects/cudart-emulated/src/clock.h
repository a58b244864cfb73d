/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EMULATED_CLOCK_H
#define EMULATED_CLOCK_H

#include "emulated.h"

struct clock *clock_new(unsigned count);
struct clock *clock_retain(struct clock *clock);
void clock_release(struct clock *clock);
struct clock *clock_copy(const struct clock *from);
uint64_t clock_time(const struct clock *clock, unsigned slot);
/* These change a clock that has one reference. */
void clock_set(struct clock **clock, unsigned slot, uint64_t time);
void clock_join(struct clock **clock, const struct clock *other);

#endif
