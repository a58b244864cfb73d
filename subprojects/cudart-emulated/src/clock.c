/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector clocks: one component for each stream, by slot, and one for the host. A snapshot is
 * shared and never changes; a stream's own clock has one reference and does.
 */
#include "clock.h"

#include <stdlib.h>
#include <string.h>

struct clock *clock_new(unsigned count)
{
    struct clock *clock = calloc(1, sizeof *clock + count * sizeof *clock->time);
    if (clock == NULL) {
        abort();
    }
    clock->refs = 1;
    clock->count = count;
    return clock;
}

struct clock *clock_retain(struct clock *clock)
{
    if (clock != NULL) {
        clock->refs++;
    }
    return clock;
}

void clock_release(struct clock *clock)
{
    if (clock != NULL && --clock->refs == 0) {
        free(clock);
    }
}

struct clock *clock_copy(const struct clock *from)
{
    struct clock *clock = clock_new(from->count);
    clock->host_epoch = from->host_epoch;
    memcpy(clock->time, from->time, from->count * sizeof *clock->time);
    return clock;
}

uint64_t clock_time(const struct clock *clock, unsigned slot)
{
    return slot < clock->count ? clock->time[slot] : 0;
}

static struct clock *grow(struct clock *clock, unsigned count)
{
    if (count <= clock->count) {
        return clock;
    }
    count = (count + 7) / 8 * 8; /* the same for all, or two clocks drive each other up */
    struct clock *grown = realloc(clock, sizeof *clock + count * sizeof *clock->time);
    if (grown == NULL) {
        abort();
    }
    memset(grown->time + grown->count, 0, (count - grown->count) * sizeof *grown->time);
    grown->count = count;
    return grown;
}

void clock_set(struct clock **clock, unsigned slot, uint64_t time)
{
    *clock = grow(*clock, slot + 1);
    (*clock)->time[slot] = time;
}

void clock_join(struct clock **clock, const struct clock *other)
{
    if (other == NULL || other == *clock) {
        return;
    }
    *clock = grow(*clock, other->count);
    struct clock *to = *clock;
    for (unsigned i = 0; i < other->count; i++) {
        if (other->time[i] > to->time[i]) {
            to->time[i] = other->time[i];
        }
    }
    if (other->host_epoch > to->host_epoch) {
        to->host_epoch = other->host_epoch;
    }
}
