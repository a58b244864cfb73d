/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_STREAMS_H
#define CRMM_DEVICE_POOL_STREAMS_H

/*
 * The streams that a pool has met, and what is known of the order of their work.
 *
 * Time on a stream is told in epochs. Memory given back is marked with the stream's epoch. A fence
 * is an event: it first closes the epoch and is then recorded, so everything marked with that epoch
 * or an earlier one was queued before the event. Recording first and closing after would let memory
 * in that was given back between the two.
 *
 * A fence is recorded only inside a call that the program makes on the stream, since at other times
 * the handle may be gone, belong to another thread, or be captured. The legacy stream cannot be
 * gone, and has one when another stream needs what was given back there.
 *
 * When stream B is made to wait for a fence of A, all that A gave back up to the fence's epoch may
 * be used by B: B has seen A up to there. The wait itself is work on B, so what B gives back later
 * is marked with an epoch whose fence comes after the wait.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/stream.h>
#include <crmm/internal/floor_event.h>

#include "extents.h"
#include "spin.h"

/* Streams by the id that CUDA gives them. These are not CUDA's. */
#define CRMM_PRIV_POOL_NO_STREAM ((uint64_t)1 << 62) /* sync calls: memory without pending work */
#define CRMM_PRIV_POOL_LEGACY_STREAM (((uint64_t)1 << 62) + 1) /* neither dies nor is captured */

enum {
    CRMM_PRIV_POOL_FENCES = 16,
    CRMM_PRIV_POOL_MANY_STREAMS = 64, /* from here on entries are used again */
    CRMM_PRIV_POOL_MOST_STREAMS = 4096
};

typedef enum crmm_priv_fence_state {
    CRMM_PRIV_FENCE_IDLE,
    CRMM_PRIV_FENCE_RECORDING,
    CRMM_PRIV_FENCE_RECORDED
} crmm_priv_fence_state;

typedef struct crmm_priv_fence {
    uint64_t epoch;
    uint64_t number;       /* among the fences of all streams, as they were recorded */
    crmm_priv_event event; /* kept for reuse; NULL: not made yet */
    uint32_t users;        /* threads that are just waiting for it or asking about it */
    uint16_t state;
    bool is_old; /* the event is of the stream that had the entry before */
} crmm_priv_fence;

typedef struct crmm_priv_pool_stream {
    uint64_t id;
    uint16_t index;      /* its number as an owner of extents */
    uint16_t is_default; /* its events belong to the pool's device */
    uint32_t users;      /* caches for it; guarded by the lock of all streams */
    uint64_t *seen; /* by stream: the epoch up to which this one has waited for it; NULL: nothing */

    /* Read often, written seldom. */
    _Alignas(64) uint64_t epoch;

    _Alignas(64) uint64_t done; /* all up to this epoch is complete */
    uint64_t fenced;            /* the newest epoch with a fence */
    uint32_t late; /* times in a row that it was not complete when it was asked about */
    crmm_priv_spin lock;
    /* So that most often no fence is looked for; guarded by the lock. */
    uint32_t spare;   /* the one that was free last */
    uint32_t latest;  /* the one that was recorded last */
    uint64_t full_at; /* what was complete when none was free; UINT64_MAX: that was not so */
    crmm_priv_fence fences[CRMM_PRIV_POOL_FENCES];
} crmm_priv_pool_stream;

typedef struct crmm_priv_pool_streams {
    crmm_priv_spin lock;
    int device;
    uint32_t count; /* entries of `all` from CRMM_PRIV_POOL_FIRST_STREAM on that were ever used */
    crmm_priv_pool_stream *all[CRMM_PRIV_POOL_MOST_STREAMS];
    uint64_t events, records, queries, waits, synchronizes; /* calls of the driver */
} crmm_priv_pool_streams;

void crmm_priv_pool_streams_init(crmm_priv_pool_streams *streams, int device);

/* All work is complete, or nobody cares any more. */
void crmm_priv_pool_streams_finish(crmm_priv_pool_streams *streams);

/*
 * The stream with an id, with one more user; it becomes known if it is not. `is_idle` tells whether
 * nothing is left that belongs to a stream without users, whose entry can then serve another. NULL:
 * no host memory, or too many streams.
 */
crmm_priv_pool_stream *crmm_priv_pool_streams_get(crmm_priv_pool_streams *streams, uint64_t id,
                                                  bool is_default,
                                                  bool (*is_idle)(void *pool, uint16_t owner),
                                                  void *pool);
void crmm_priv_pool_streams_put(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream);

/* A stream by its number. */
static inline crmm_priv_pool_stream *crmm_priv_pool_stream_of(crmm_priv_pool_streams *streams,
                                                              uint32_t owner)
{
    return __atomic_load_n(&streams->all[owner], __ATOMIC_ACQUIRE);
}

/* One past the highest number in use. */
static inline uint32_t crmm_priv_pool_streams_end(const crmm_priv_pool_streams *streams)
{
    return CRMM_PRIV_POOL_FIRST_STREAM + __atomic_load_n(&streams->count, __ATOMIC_ACQUIRE);
}

/* Its id, which changes when its entry is used again. */
static inline uint64_t crmm_priv_pool_stream_id(const crmm_priv_pool_stream *stream)
{
    return __atomic_load_n(&stream->id, __ATOMIC_RELAXED);
}

static inline uint64_t crmm_priv_pool_stream_epoch(const crmm_priv_pool_stream *stream)
{
    return __atomic_load_n(&stream->epoch, __ATOMIC_ACQUIRE);
}

static inline uint64_t crmm_priv_pool_stream_done(const crmm_priv_pool_stream *stream)
{
    return __atomic_load_n(&stream->done, __ATOMIC_ACQUIRE);
}

/* The epoch of `stream` that `by` has waited for. */
static inline uint64_t crmm_priv_pool_stream_seen(const crmm_priv_pool_stream *by,
                                                  const crmm_priv_pool_stream *stream)
{
    const uint64_t *seen = __atomic_load_n(&by->seen, __ATOMIC_ACQUIRE);
    return seen == NULL ? 0 : __atomic_load_n(&seen[stream->index], __ATOMIC_ACQUIRE);
}

/* Record a fence, inside a call that the program makes on the stream. A CUDA error code, or 0,
 * where a capture forbids it too. No lock is held. */
int crmm_priv_pool_stream_fence(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream,
                                crmm_stream handle);

/* The number of the fence that an epoch is behind; UINT64_MAX: there is none any more, or not yet.
 */
uint64_t crmm_priv_pool_stream_fence_number(crmm_priv_pool_stream *stream, uint64_t epoch);

/* Learn how far the stream's work has come. */
void crmm_priv_pool_stream_poll(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream);

/* Whether there is a fence for what was given back in an epoch, or the work is complete. */
bool crmm_priv_pool_stream_is_fenced(const crmm_priv_pool_stream *stream, uint64_t epoch);

/* Whether there is a fence that is not known to be complete. */
static inline bool crmm_priv_pool_stream_is_unfinished(const crmm_priv_pool_stream *stream)
{
    return __atomic_load_n(&stream->fenced, __ATOMIC_ACQUIRE) > crmm_priv_pool_stream_done(stream);
}

/* Make `handle`, which is `by`, wait for what `stream` gave back up to an epoch that is fenced. A
 * CUDA error code, or 0. */
int crmm_priv_pool_stream_wait(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *by,
                               crmm_stream handle, crmm_priv_pool_stream *stream, uint64_t epoch);

/* The calling thread waits for it instead. */
int crmm_priv_pool_stream_synchronize(crmm_priv_pool_streams *streams,
                                      crmm_priv_pool_stream *stream, uint64_t epoch);

/* All work on the stream in closed epochs, up to one, is complete. */
void crmm_priv_pool_stream_set_done(crmm_priv_pool_stream *stream, uint64_t epoch);

#endif
