/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_FLOOR_EVENT_H
#define CRMM_INTERNAL_FLOOR_EVENT_H

/*
 * The part of the floor for telling streams apart and for ordering them: what a stream-ordered
 * suballocator asks of CUDA, and all that it asks. Its rules are those of floor.h. A file of its
 * own in the library too, so that benchmarks and tests can link another implementation in its
 * place.
 *
 * Every function returns a CUDA error code, or 0, and records nothing. None of them disturbs a
 * capture, its own thread's or another's.
 */

#include <stdbool.h>
#include <stdint.h>

#include <crmm/core/stream.h>

typedef struct CUevent_st *crmm_priv_event;

enum {
    CRMM_PRIV_CAPTURING = -1, /* the stream is being captured, or a capture forbids to use it */
    CRMM_PRIV_NOT_READY = 600 /* cudaErrorNotReady */
};

/*
 * The identity of a created stream, or of this thread's per-thread stream on the current device:
 * CUDA's id, never used twice. The capture state is asked first, since the question for the id
 * would kill a capture. What is no id is told apart by crmm_priv_is_stream_id().
 */
uint64_t crmm_priv_stream_id_of(crmm_stream stream);

/* CRMM_PRIV_CAPTURING or a CUDA error code as what crmm_priv_stream_id_of() returns: the highest
 * numbers there are. CUDA counts its ids from the lowest. */
static inline uint64_t crmm_priv_no_stream_id(int code)
{
    return UINT64_MAX - (uint64_t)(int64_t)(code - CRMM_PRIV_CAPTURING);
}

static inline bool crmm_priv_is_stream_id(uint64_t id)
{
    return id < (uint64_t)1 << 63;
}

static inline int crmm_priv_stream_id_code(uint64_t id)
{
    return (int)(UINT64_MAX - id) + CRMM_PRIV_CAPTURING;
}

/* The capture state alone: CRMM_PRIV_CAPTURING, 0, or an error. For the legacy stream too. */
int crmm_priv_stream_check_capture(crmm_stream stream);

/* An event without timing that can be recorded on `stream`; the default streams are the current
 * device's. */
int crmm_priv_event_create(crmm_stream stream, crmm_priv_event *event);
int crmm_priv_event_destroy(crmm_priv_event event);

/* On a default stream the current device must be the event's. */
int crmm_priv_event_record(crmm_priv_event event, crmm_stream stream);

/* 0: what it recorded last is complete; CRMM_PRIV_NOT_READY. */
int crmm_priv_event_query(crmm_priv_event event);

/* The calling thread waits until what was recorded last is complete. */
int crmm_priv_event_synchronize(crmm_priv_event event);

/* Work queued on `stream` from now on waits for what the event recorded last. */
int crmm_priv_stream_wait_event(crmm_stream stream, crmm_priv_event event);

/* The calling thread waits for all work queued on all streams of the current device. */
int crmm_priv_device_wait(void);

#endif
