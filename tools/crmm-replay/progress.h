/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_REPLAY_PROGRESS_H
#define CRMM_REPLAY_PROGRESS_H

#include <stddef.h>

/* A bar on standard error, drawn only where that is a terminal. */
typedef struct progress {
    const char *trace;
    const char *resource;
    size_t total;
    size_t next; /* where it is drawn again; never, where it is not drawn at all */
} progress;

void progress_begin(progress *bar, const char *trace, const char *resource, size_t total);
void progress_draw(progress *bar, size_t done);
void progress_end(const progress *bar);

/* Cheap enough for every row. */
static inline void progress_step(progress *bar, size_t done)
{
    if (done >= bar->next) {
        progress_draw(bar, done);
    }
}

#endif
