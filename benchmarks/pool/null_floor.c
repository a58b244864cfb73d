/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A floor without CUDA below it, in place of the library's own: every function returns at once, a
 * handle is its own id, and all work is complete, or is so after some time. What is measured over
 * it is the host's code alone.
 *
 * It must define everything that floor_event.h declares. A name that is missing here would be taken
 * from the library, and the rest of that file would then be defined twice.
 */
#include "null_floor.h"

#include <time.h>

#include <crmm/internal/floor_event.h>

enum { MOST_EVENTS = 1 << 16 };

static uint64_t lag;                   /* ns */
static uint64_t recorded[MOST_EVENTS]; /* by event: when it was */

void null_floor_set_lag(uint64_t ns)
{
    lag = ns;
}

static uint64_t now(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t *recorded_of(crmm_priv_event event)
{
    return &recorded[(uintptr_t)event % MOST_EVENTS];
}

uint64_t crmm_priv_stream_id_of(crmm_stream stream)
{
    return (uint64_t)(uintptr_t)stream;
}

int crmm_priv_stream_check_capture(crmm_stream stream)
{
    (void)stream;
    return 0;
}

/* Events differ, which is all that can be seen of them. */
int crmm_priv_event_create(crmm_stream stream, crmm_priv_event *event)
{
    static uintptr_t count;

    (void)stream;
    *event = (crmm_priv_event)__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
    return 0;
}

int crmm_priv_event_destroy(crmm_priv_event event)
{
    (void)event;
    return 0;
}

int crmm_priv_event_record(crmm_priv_event event, crmm_stream stream)
{
    (void)stream;
    if (lag != 0) {
        __atomic_store_n(recorded_of(event), now(), __ATOMIC_RELAXED);
    }
    return 0;
}

int crmm_priv_event_query(crmm_priv_event event)
{
    if (lag == 0 || now() - __atomic_load_n(recorded_of(event), __ATOMIC_RELAXED) >= lag) {
        return 0;
    }
    return CRMM_PRIV_NOT_READY;
}

int crmm_priv_event_synchronize(crmm_priv_event event)
{
    (void)event;
    return 0;
}

int crmm_priv_stream_wait_event(crmm_stream stream, crmm_priv_event event)
{
    (void)stream;
    (void)event;
    return 0;
}

int crmm_priv_device_wait(void)
{
    return 0;
}
