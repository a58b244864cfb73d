/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floor_event.h over the simulated device. An executable that has this file takes it in place of
 * the archive's.
 */
#include <crmm/internal/floor_event.h>

#include "simulation_state.h"

enum { FAULT = 999 }; /* cudaErrorUnknown */

/* The stream behind a handle, where a captured one must not be touched. */
static struct CUstream_st *touchable(const char *call, crmm_stream stream)
{
    struct CUstream_st *found = sim_usable(call, stream);

    if (found != NULL && sim_is_capturing(found)) {
        sim_fail("%s of a stream that is being captured", call);
        return NULL;
    }
    return found;
}

static bool is_event(const char *call, crmm_priv_event event)
{
    if (event == NULL || !event->alive) {
        sim_fail("%s of an event that was destroyed", call);
        return false;
    }
    return true;
}

/* Without the lock where nothing can fail: a lock would order the threads, and hide their races. */
static bool question_fails(void)
{
    return !sim_now.threads && sim_call_fails();
}

uint64_t crmm_priv_stream_id_of(crmm_stream stream)
{
    const struct CUstream_st *found = sim_usable("identify", stream);

    if (found == NULL || question_fails()) {
        return crmm_priv_no_stream_id(FAULT);
    }
    return sim_is_capturing(found) ? crmm_priv_no_stream_id(CRMM_PRIV_CAPTURING) : found->id;
}

int crmm_priv_stream_check_capture(crmm_stream stream)
{
    const struct CUstream_st *found = sim_usable("check_capture", stream);

    if (found == NULL || question_fails()) {
        return FAULT;
    }
    return sim_is_capturing(found) ? CRMM_PRIV_CAPTURING : 0;
}

int crmm_priv_event_create(crmm_stream stream, crmm_priv_event *event)
{
    sim_lock();
    bool works = sim_usable("event_create", stream) != NULL && !sim_call_fails();
    if (works) {
        *event = sim_event_create();
        sim_counts_now.events++;
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}

int crmm_priv_event_destroy(crmm_priv_event event)
{
    sim_lock();
    bool works = is_event("event_destroy", event);
    if (works) {
        /* An error would be one of earlier work: the event is gone all the same. */
        works = !sim_call_fails();
        sim_event_destroy(event);
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}

int crmm_priv_event_record(crmm_priv_event event, crmm_stream stream)
{
    sim_lock();
    const struct CUstream_st *on = touchable("event_record", stream);
    bool works = on != NULL && is_event("event_record", event) && !sim_call_fails();
    if (works) {
        event->recorded = true;
        event->order = on->order;
        sim_counts_now.records++;
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}

static int query(crmm_priv_event event)
{
    if (!is_event("event_query", event) || sim_call_fails()) {
        return FAULT;
    }
    sim_counts_now.queries++;
    sim_progress();
    if (!event->recorded) {
        return 0;
    }
    if (!sim_is_complete(&event->order)) {
        return CRMM_PRIV_NOT_READY;
    }
    sim_observe(&event->order);
    return 0;
}

int crmm_priv_event_query(crmm_priv_event event)
{
    sim_lock();
    int code = query(event);
    sim_unlock();
    sim_end_of_call();
    return code;
}

int crmm_priv_event_synchronize(crmm_priv_event event)
{
    sim_lock();
    bool works = is_event("event_synchronize", event) && !sim_call_fails();
    if (works) {
        sim_counts_now.synchronizes++;
        if (event->recorded) {
            sim_observe(&event->order);
        }
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}

int crmm_priv_stream_wait_event(crmm_stream stream, crmm_priv_event event)
{
    sim_lock();
    bool works = touchable("stream_wait_event", stream) != NULL &&
                 is_event("stream_wait_event", event) && !sim_call_fails();
    if (works) {
        sim_counts_now.waits++;
        if (event->recorded) {
            sim_stream_follow(stream, &event->order);
        }
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}

int crmm_priv_device_wait(void)
{
    sim_lock();
    bool works = !sim_call_fails();
    if (works) {
        sim_counts_now.device_waits++;
        sim_observe_all();
    }
    sim_unlock();
    sim_end_of_call();
    return works ? 0 : FAULT;
}
