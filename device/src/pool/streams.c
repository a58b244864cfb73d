/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <stdlib.h>

#include <crmm/internal/floor.h>

static void add_one(uint64_t *counter)
{
    (void)__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static void raise_to(uint64_t *value, uint64_t to)
{
    uint64_t now = __atomic_load_n(value, __ATOMIC_RELAXED);

    while (now < to && !__atomic_compare_exchange_n(value, &now, to, true, __ATOMIC_RELEASE,
                                                    __ATOMIC_RELAXED)) {
    }
}

/* ---- which streams there are ---- */

void crmm_priv_pool_streams_init(crmm_priv_pool_streams *streams, int device)
{
    streams->device = device;
}

/* Take an entry's fences away, unless somebody is just using one. The events stay: the next stream
 * replaces them when it needs them, where no lock is held. */
static bool clear_fences(crmm_priv_pool_stream *stream)
{
    bool unused = true;

    crmm_priv_spin_lock(&stream->lock);
    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES; i++) {
        unused = unused && stream->fences[i].users == 0;
    }
    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES && unused; i++) {
        crmm_priv_event event = stream->fences[i].event;
        stream->fences[i] = (crmm_priv_fence){.event = event, .is_old = event != NULL};
    }
    if (unused) {
        stream->spare = 0; /* so the first events are replaced first, and there are few in all */
        stream->full_at = UINT64_MAX;
    }
    crmm_priv_spin_unlock(&stream->lock);
    return unused;
}

static void destroy_events(crmm_priv_pool_stream *stream)
{
    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES; i++) {
        if (stream->fences[i].event != NULL) {
            (void)crmm_priv_event_destroy(stream->fences[i].event);
        }
    }
}

void crmm_priv_pool_streams_finish(crmm_priv_pool_streams *streams)
{
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_MOST_STREAMS; i++) {
        if (streams->all[i] != NULL) {
            destroy_events(streams->all[i]);
            free(streams->all[i]->seen);
            free(streams->all[i]);
            streams->all[i] = NULL;
        }
    }
}

/* Claim an entry that no stream needs any more. That of the legacy stream stays what it is: threads
 * without a cache for it record fences there. */
static crmm_priv_pool_stream *recycle(crmm_priv_pool_streams *streams,
                                      bool (*is_idle)(void *pool, uint16_t owner), void *pool)
{
    uint32_t end = crmm_priv_pool_streams_end(streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        crmm_priv_pool_stream *stream = streams->all[i];
        bool claimed = false;

        crmm_priv_spin_lock(&streams->lock);
        if (stream->users == 0 && stream->id != CRMM_PRIV_POOL_LEGACY_STREAM) {
            stream->users = 1;
            claimed = true;
        }
        crmm_priv_spin_unlock(&streams->lock);
        if (!claimed) {
            continue;
        }
        if (is_idle(pool, (uint16_t)i) && clear_fences(stream)) {
            return stream;
        }
        crmm_priv_pool_streams_put(streams, stream);
    }
    return NULL;
}

/*
 * An entry for another stream, from one that was claimed and cleared. Its time goes on, so whatever
 * is known about the stream that had it before says nothing about this one.
 */
static void renew(crmm_priv_pool_stream *stream)
{
    uint64_t epoch = stream->epoch;

    __atomic_store_n(&stream->done, epoch, __ATOMIC_RELEASE);
    __atomic_store_n(&stream->fenced, epoch, __ATOMIC_RELEASE);
    __atomic_store_n(&stream->epoch, epoch + 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; stream->seen != NULL && i < CRMM_PRIV_POOL_MOST_STREAMS; i++) {
        __atomic_store_n(&stream->seen[i], 0, __ATOMIC_RELEASE);
    }
}

static crmm_priv_pool_stream *find(crmm_priv_pool_streams *streams, uint64_t id)
{
    uint32_t end = crmm_priv_pool_streams_end(streams);

    for (uint32_t i = CRMM_PRIV_POOL_FIRST_STREAM; i < end; i++) {
        if (streams->all[i]->id == id) {
            return streams->all[i];
        }
    }
    return NULL;
}

static crmm_priv_pool_stream *new_stream(void)
{
    crmm_priv_pool_stream *stream = NULL;

    if (posix_memalign((void **)&stream, 64, sizeof(*stream)) != 0) {
        return NULL;
    }
    *stream = (crmm_priv_pool_stream){.epoch = 1, .users = 1, .full_at = UINT64_MAX};
    return stream;
}

crmm_priv_pool_stream *crmm_priv_pool_streams_get(crmm_priv_pool_streams *streams, uint64_t id,
                                                  bool is_default,
                                                  bool (*is_idle)(void *pool, uint16_t owner),
                                                  void *pool)
{
    crmm_priv_pool_stream *spare = NULL;

    crmm_priv_spin_lock(&streams->lock);
    crmm_priv_pool_stream *stream = find(streams, id);
    if (stream != NULL) {
        stream->users++;
    }
    bool many = streams->count >= CRMM_PRIV_POOL_MANY_STREAMS;
    crmm_priv_spin_unlock(&streams->lock);
    if (stream != NULL) {
        return stream;
    }

    if (many) {
        spare = recycle(streams, is_idle, pool);
    }
    bool recycled = spare != NULL;
    if (recycled) {
        renew(spare);
    } else {
        spare = new_stream();
    }
    if (spare == NULL) {
        return NULL;
    }

    /* Another thread may have met the stream meanwhile. */
    crmm_priv_spin_lock(&streams->lock);
    stream = find(streams, id);
    if (stream != NULL) {
        stream->users++;
        spare->users = 0;
    } else if (recycled) {
        __atomic_store_n(&spare->id, id, __ATOMIC_RELAXED); /* others tell it */
        spare->is_default = is_default;
        stream = spare;
        spare = NULL;
    } else if (crmm_priv_pool_streams_end(streams) < CRMM_PRIV_POOL_MOST_STREAMS) {
        spare->id = id;
        spare->is_default = is_default;
        spare->index = (uint16_t)crmm_priv_pool_streams_end(streams);
        __atomic_store_n(&streams->all[spare->index], spare, __ATOMIC_RELEASE);
        __atomic_store_n(&streams->count, streams->count + 1, __ATOMIC_RELEASE);
        stream = spare;
        spare = NULL;
    }
    crmm_priv_spin_unlock(&streams->lock);
    if (spare != NULL && !recycled) {
        free(spare);
    }
    return stream;
}

void crmm_priv_pool_streams_put(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream)
{
    crmm_priv_spin_lock(&streams->lock);
    stream->users--;
    crmm_priv_spin_unlock(&streams->lock);
}

/* ---- fences ---- */

void crmm_priv_pool_stream_set_done(crmm_priv_pool_stream *stream, uint64_t epoch)
{
    raise_to(&stream->done, epoch);
}

static bool is_free(const crmm_priv_pool_stream *stream, const crmm_priv_fence *fence)
{
    return fence->users == 0 && fence->state != CRMM_PRIV_FENCE_RECORDING &&
           (fence->state == CRMM_PRIV_FENCE_IDLE ||
            fence->epoch <= crmm_priv_pool_stream_done(stream));
}

/* The newest fence that was recorded before an epoch, and that nobody uses just now. */
static crmm_priv_fence *newest_before(crmm_priv_pool_stream *stream, uint64_t epoch)
{
    crmm_priv_fence *newest = NULL;

    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES; i++) {
        crmm_priv_fence *fence = &stream->fences[i];
        if (fence->users == 0 && fence->state == CRMM_PRIV_FENCE_RECORDED && fence->epoch < epoch &&
            (newest == NULL || fence->epoch > newest->epoch)) {
            newest = fence;
        }
    }
    return newest;
}

/* Mostly the one that was made free last. If that is not, and nothing was when this was complete,
 * nothing is. */
static crmm_priv_fence *find_free(crmm_priv_pool_stream *stream)
{
    uint64_t done = crmm_priv_pool_stream_done(stream);

    if (is_free(stream, &stream->fences[stream->spare])) {
        return &stream->fences[stream->spare];
    }
    for (uint32_t i = 0; i < CRMM_PRIV_POOL_FENCES && stream->full_at != done; i++) {
        if (is_free(stream, &stream->fences[i])) {
            stream->spare = i;
            return &stream->fences[i];
        }
    }
    stream->full_at = done;
    return NULL;
}

/* One came to be free, other than by more being complete, and maybe not the only one; the lock is
 * held. */
static void note_free(crmm_priv_pool_stream *stream, const crmm_priv_fence *fence)
{
    stream->spare = (uint32_t)(fence - stream->fences);
    stream->full_at = UINT64_MAX;
}

/* A fence to record next: one that nothing depends on. Where other threads are just recording the
 * last of these, the newest, whose epoch the new one covers. NULL: all are busy. The lock is held.
 */
static crmm_priv_fence *choose(crmm_priv_pool_stream *stream)
{
    crmm_priv_fence *fence = find_free(stream);

    return fence != NULL ? fence : newest_before(stream, UINT64_MAX);
}

/* The one before the latest, which nearly always is the newest before it. */
static crmm_priv_fence *previous_to(crmm_priv_pool_stream *stream, const crmm_priv_fence *latest)
{
    crmm_priv_fence *previous = &stream->fences[stream->latest];
    bool is_next = previous->users == 0 && previous->state == CRMM_PRIV_FENCE_RECORDED &&
                   previous->epoch + 1 == latest->epoch;

    return is_next ? previous : newest_before(stream, latest->epoch);
}

/* See that there is a fence for the next time: else the newest one before this, whose epoch this
 * one covers, is given up; the older ones stay, since they are complete first. The lock is held. */
static void keep_a_spare(crmm_priv_pool_stream *stream, const crmm_priv_fence *latest)
{
    crmm_priv_fence *newest = find_free(stream) == NULL ? previous_to(stream, latest) : NULL;

    if (newest != NULL) {
        newest->state = CRMM_PRIV_FENCE_IDLE;
        stream->spare = (uint32_t)(newest - stream->fences); /* the only one */
    }
    stream->latest = (uint32_t)(latest - stream->fences);
}

/* Make the event where there is none of this stream's, close the epoch, record. A CUDA error code,
 * or 0. */
static int record(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream,
                  crmm_stream handle, crmm_priv_fence *fence, uint64_t *epoch)
{
    int code = 0;

    if (fence->is_old) { /* that stream may have been one of another device */
        (void)crmm_priv_event_destroy(fence->event);
        fence->event = NULL;
        fence->is_old = false;
    }
    if (fence->event == NULL) {
        code = crmm_priv_event_create(handle, &fence->event);
        (void)__atomic_fetch_add(&streams->events, code == 0, __ATOMIC_RELAXED);
    }
    if (code == 0) {
        *epoch = __atomic_fetch_add(&stream->epoch, 1, __ATOMIC_ACQ_REL);
        code = crmm_priv_event_record(fence->event, handle);
    }
    return code;
}

/* The legacy stream, unlike others, does not fail every call while a capture forbids it. */
static bool is_forbidden(const crmm_priv_pool_stream *stream, crmm_stream handle)
{
    return stream->is_default != 0 && crmm_priv_stream_check_capture(handle) != 0;
}

int crmm_priv_pool_stream_fence(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream,
                                crmm_stream handle)
{
    int previous = -1;
    uint64_t epoch = 0;

    int code =
        stream->is_default != 0 ? crmm_priv_cuda_try_enter_device(streams->device, &previous) : 0;
    if (code != 0 || is_forbidden(stream, handle)) {
        if (code == 0) {
            crmm_priv_cuda_leave_device(previous);
        }
        return code;
    }
    crmm_priv_spin_lock(&stream->lock);
    crmm_priv_fence *fence = choose(stream);
    if (fence != NULL) {
        fence->state = CRMM_PRIV_FENCE_RECORDING;
    }
    crmm_priv_spin_unlock(&stream->lock);
    if (fence != NULL) {
        code = record(streams, stream, handle, fence, &epoch);
        uint64_t number = __atomic_add_fetch(&streams->records, 1, __ATOMIC_RELAXED);
        crmm_priv_spin_lock(&stream->lock);
        fence->epoch = epoch;
        fence->number = number;
        if (code == 0) {
            fence->state = CRMM_PRIV_FENCE_RECORDED;
            keep_a_spare(stream, fence);
        } else {
            fence->state = CRMM_PRIV_FENCE_IDLE;
            note_free(stream, fence);
        }
        crmm_priv_spin_unlock(&stream->lock);
        if (code == 0) {
            raise_to(&stream->fenced, epoch);
        }
    }
    crmm_priv_cuda_leave_device(previous);
    return code;
}

bool crmm_priv_pool_stream_is_fenced(const crmm_priv_pool_stream *stream, uint64_t epoch)
{
    return epoch <= __atomic_load_n(&stream->fenced, __ATOMIC_ACQUIRE) ||
           epoch <= crmm_priv_pool_stream_done(stream);
}

/* Get hold of a recorded fence: the one with the lowest epoch of at least `lowest`, or, where
 * `newest`, the highest. NULL: there is none. */
static crmm_priv_fence *hold(crmm_priv_pool_stream *stream, uint64_t lowest, bool newest,
                             uint64_t *epoch)
{
    crmm_priv_fence *found = NULL;

    crmm_priv_spin_lock(&stream->lock);
    for (size_t i = 0; i < CRMM_PRIV_POOL_FENCES; i++) {
        crmm_priv_fence *fence = &stream->fences[i];
        if (fence->state == CRMM_PRIV_FENCE_RECORDED && fence->epoch >= lowest &&
            (found == NULL || (fence->epoch < found->epoch) != newest)) {
            found = fence;
        }
    }
    if (found != NULL) {
        found->users++;
        *epoch = found->epoch;
    }
    crmm_priv_spin_unlock(&stream->lock);
    return found;
}

static void let_go(crmm_priv_pool_stream *stream, crmm_priv_fence *fence)
{
    crmm_priv_spin_lock(&stream->lock);
    fence->users--;
    if (is_free(stream, fence)) {
        note_free(stream, fence);
    }
    crmm_priv_spin_unlock(&stream->lock);
}

uint64_t crmm_priv_pool_stream_fence_number(crmm_priv_pool_stream *stream, uint64_t epoch)
{
    uint64_t covered = 0;
    crmm_priv_fence *fence = hold(stream, epoch, false, &covered);

    if (fence == NULL) {
        return UINT64_MAX;
    }
    uint64_t number = fence->number;
    let_go(stream, fence);
    return number;
}

/* Ask about one fence. Whether it is complete. */
static bool ask(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream, uint64_t lowest,
                bool newest)
{
    uint64_t epoch = 0;
    crmm_priv_fence *fence = hold(stream, lowest, newest, &epoch);

    if (fence == NULL) {
        return false;
    }
    bool complete = crmm_priv_event_query(fence->event) == 0;
    add_one(&streams->queries);
    let_go(stream, fence);
    if (complete) {
        crmm_priv_pool_stream_set_done(stream, epoch);
    }
    return complete;
}

/* Of a stream that is behind, ask the oldest fence, and not every time: a question costs more than
 * most of what depends on the answer. */
static bool ask_late(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream)
{
    enum { SELDOM = 4 };
    uint32_t late = __atomic_fetch_add(&stream->late, 1, __ATOMIC_RELAXED);

    return late % SELDOM == 0 &&
           ask(streams, stream, crmm_priv_pool_stream_done(stream) + 1, false);
}

void crmm_priv_pool_stream_poll(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *stream)
{
    if (!crmm_priv_pool_stream_is_unfinished(stream)) {
        return;
    }
    if (__atomic_load_n(&stream->late, __ATOMIC_RELAXED) != 0 && !ask_late(streams, stream)) {
        return;
    }
    /* Most often all is complete. If not, go on from the oldest. */
    if (ask(streams, stream, crmm_priv_pool_stream_done(stream) + 1, true)) {
        __atomic_store_n(&stream->late, 0, __ATOMIC_RELAXED);
        return;
    }
    while (ask(streams, stream, crmm_priv_pool_stream_done(stream) + 1, false)) {
    }
    __atomic_store_n(&stream->late, 1, __ATOMIC_RELAXED);
}

/* ---- waiting ---- */

/* The array is made when a stream waits for the first time. */
static uint64_t *seen_of(crmm_priv_pool_stream *by)
{
    uint64_t *seen = __atomic_load_n(&by->seen, __ATOMIC_ACQUIRE);

    if (seen != NULL) {
        return seen;
    }
    uint64_t *made = calloc(CRMM_PRIV_POOL_MOST_STREAMS, sizeof(*made));
    if (made == NULL) {
        return NULL;
    }
    if (!__atomic_compare_exchange_n(&by->seen, &seen, made, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        free(made);
        return seen;
    }
    return made;
}

/* The same where the device of a default stream is current. */
static int wait_here(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *by, crmm_stream handle,
                     crmm_priv_pool_stream *stream, uint64_t epoch)
{
    uint64_t covered = 0;
    uint64_t *seen = seen_of(by);

    if (seen == NULL || is_forbidden(by, handle)) {
        return CRMM_PRIV_NOT_READY;
    }
    crmm_priv_fence *fence = hold(stream, epoch, false, &covered);
    if (fence == NULL) {
        return CRMM_PRIV_NOT_READY;
    }
    int code = crmm_priv_stream_wait_event(handle, fence->event);
    add_one(&streams->waits);
    let_go(stream, fence);
    if (code == 0) {
        raise_to(&seen[stream->index], covered);
    }
    return code;
}

int crmm_priv_pool_stream_wait(crmm_priv_pool_streams *streams, crmm_priv_pool_stream *by,
                               crmm_stream handle, crmm_priv_pool_stream *stream, uint64_t epoch)
{
    int previous = -1;

    int code =
        by->is_default != 0 ? crmm_priv_cuda_try_enter_device(streams->device, &previous) : 0;
    if (code == 0) {
        code = wait_here(streams, by, handle, stream, epoch);
        crmm_priv_cuda_leave_device(previous);
    }
    return code;
}

int crmm_priv_pool_stream_synchronize(crmm_priv_pool_streams *streams,
                                      crmm_priv_pool_stream *stream, uint64_t epoch)
{
    uint64_t covered = 0;
    crmm_priv_fence *fence = hold(stream, epoch, false, &covered);

    if (fence == NULL) {
        return CRMM_PRIV_NOT_READY;
    }
    int code = crmm_priv_event_synchronize(fence->event);
    add_one(&streams->synchronizes);
    let_go(stream, fence);
    if (code == 0) {
        crmm_priv_pool_stream_set_done(stream, covered);
    }
    return code;
}
