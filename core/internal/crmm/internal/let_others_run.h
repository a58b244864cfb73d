/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_LET_OTHERS_RUN_H
#define CRMM_INTERNAL_LET_OTHERS_RUN_H

#include <sched.h>
#include <time.h>

/*
 * Let another thread run, which is in the middle of a few instructions and probably has no
 * processor. `turn` counts the calls of one wait: a thread of real-time priority that only yields
 * never lets one of lower priority run, so the later turns sleep.
 */
static inline void crmm_priv_let_others_run(unsigned turn)
{
    enum { YIELDS = 100, SLEEP_NS = 50000 };
    const struct timespec pause = {.tv_nsec = SLEEP_NS};

    if (turn < YIELDS) {
        (void)sched_yield();
    } else {
        (void)nanosleep(&pause, NULL);
    }
}

#endif
