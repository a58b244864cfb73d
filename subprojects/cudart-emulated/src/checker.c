/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The happens-before checker: who knows of what. Streams learn from their own operations, from
 * events, from stream 0, and from what the host knew when it queued an operation; the host learns
 * by waiting and by queries that say "done". The host counts as one, since the program may order
 * its threads by means that cannot be seen from here: a report is never false on that account.
 * A host function may talk to the host in both directions, so it joins both.
 */
#include "clock.h"
#include "shadow.h"

#include <stdlib.h>

static struct clock *host;      /* what the host knows; a snapshot */
static uint64_t host_epoch = 1; /* the host's own time */
static uint64_t *slot_epochs;   /* the last operation of each slot */
static unsigned slot_count, slot_capacity;
static unsigned *retired; /* slots of streams that are gone */
static unsigned retired_count, retired_capacity;

static struct clock *host_clock(void)
{
    if (host == NULL) {
        host = clock_new(0);
    }
    return host;
}

static void host_join(const struct clock *clock)
{
    if (clock == NULL) {
        return;
    }
    struct clock *joined = clock_copy(host_clock());
    clock_join(&joined, clock);
    clock_release(host);
    host = joined;
}

/* ---- slots ---- */

static void *grown(void *array, unsigned *capacity, unsigned count, size_t size)
{
    if (count < *capacity) {
        return array;
    }
    *capacity = *capacity == 0 ? 16 : *capacity * 2;
    void *bigger = realloc(array, *capacity * size);
    if (bigger == NULL) {
        abort();
    }
    return bigger;
}

/* A slot can have a new stream once the host knows all of the old one's work to be done. */
static unsigned take_slot(void)
{
    for (unsigned i = 0; i < retired_count; i++) {
        unsigned slot = retired[i];
        if (clock_time(host_clock(), slot) >= slot_epochs[slot]) {
            retired[i] = retired[--retired_count];
            return slot;
        }
    }
    slot_epochs = grown(slot_epochs, &slot_capacity, slot_count, sizeof *slot_epochs);
    slot_epochs[slot_count] = 0;
    return slot_count++;
}

void checker_stream_new(struct stream *stream)
{
    stream->slot = take_slot();
    stream->epoch = slot_epochs[stream->slot];
    stream->clock = clock_new(stream->slot + 1);
}

void checker_stream_free(struct stream *stream)
{
    struct device *device = stream->device;
    if (stream->blocking) { /* stream 0 still comes after it */
        if (device->retired == NULL) {
            device->retired = clock_new(0);
        }
        clock_join(&device->retired, stream->clock);
    }
    retired = grown(retired, &retired_capacity, retired_count, sizeof *retired);
    retired[retired_count++] = stream->slot;
    clock_release(stream->clock);
    clock_release(stream->joined_host);
}

/* ---- operations ---- */

void checker_enqueue(struct op *op)
{
    op->host = clock_retain(host_clock());
    op->host_epoch = host_epoch;
}

void checker_op_free(struct op *op)
{
    clock_release(op->host);
    clock_release(op->clock);
}

static void join_legacy(struct stream *stream)
{
    struct device *device = stream->device;
    if (stream->legacy) {
        for (const struct stream *s = device->streams; s != NULL; s = s->next) {
            if (s->blocking) {
                clock_join(&stream->clock, s->clock);
            }
        }
        clock_join(&stream->clock, device->retired);
    } else if (stream->blocking && device->legacy != NULL) {
        clock_join(&stream->clock, device->legacy->clock);
    }
}

static void accesses(const struct op *op)
{
    const struct actor actor = {.clock = op->stream->clock,
                                .slot = op->stream->slot,
                                .epoch = op->epoch,
                                .stream = op->stream_id,
                                .seq = op->seq,
                                .what = function_name(op->fn)};
    const struct work *work = &op->work;
    switch (work->kind) {
    case WORK_COPY:
        if (work->src_serial != 0 && work->staged == NULL) {
            shadow_access(&actor, work->src, work->size, false);
        }
        if (work->dst_serial != 0) {
            shadow_access(&actor, work->dst, work->size, true);
        }
        break;
    case WORK_MEMSET:
        if (work->dst_serial != 0) {
            shadow_access(&actor, work->dst, work->size, true);
        }
        break;
    case WORK_ALLOC:
    case WORK_FREE:
        shadow_access(&actor, work->dst, work->size, true);
        break;
    case WORK_KERNEL:
        for (size_t i = 0; i < work->kernel->count; i++) {
            const struct kernel_range *range = &work->kernel->ranges[i];
            if (range->serial != 0) {
                shadow_access(&actor, range->va, range->size, range->write);
            }
        }
        break;
    default:
        break;
    }
}

/* An operation starts: what it comes after is known now. */
void checker_execute(struct op *op)
{
    struct stream *stream = op->stream;
    if (op->host != NULL && stream->joined_host != op->host) {
        clock_join(&stream->clock, op->host);
        clock_release(stream->joined_host);
        stream->joined_host = clock_retain(op->host);
    }
    if (op->host_epoch > stream->clock->host_epoch) {
        stream->clock->host_epoch = op->host_epoch;
    }
    join_legacy(stream);
    for (unsigned i = 0; i < op->pred_count; i++) {
        clock_join(&stream->clock, op->preds[i]->clock);
    }
    stream->epoch++;
    slot_epochs[stream->slot] = stream->epoch;
    clock_set(&stream->clock, stream->slot, stream->epoch);
    op->epoch = stream->epoch;
    op->slot = stream->slot;
    accesses(op);
    if (op->work.kind == WORK_RECORD || op->work.keep_clock) {
        op->clock = clock_copy(stream->clock);
    }
}

void checker_host_function_begin(struct op *op)
{
    host_join(op->stream->clock);
}

void checker_host_function_end(struct op *op)
{
    struct stream *stream = op->stream;
    clock_join(&stream->clock, host_clock());
    if (host_epoch > stream->clock->host_epoch) {
        stream->clock->host_epoch = host_epoch;
    }
    if (op->work.keep_clock) { /* a node of a graph */
        clock_release(op->clock);
        op->clock = clock_copy(stream->clock);
    }
}

/* ---- the host ---- */

void checker_join_host_op(struct op *op)
{
    if (op->clock != NULL && clock_time(host_clock(), op->slot) < op->epoch) {
        host_join(op->clock);
    }
}

static void join_stream(const struct stream *stream)
{
    if (clock_time(host_clock(), stream->slot) < stream->epoch) {
        host_join(stream->clock);
    }
}

void checker_join_host_after(struct op *op, struct stream *stream)
{
    (void)op;
    join_stream(stream);
}

void checker_join_host_stream(struct stream *stream)
{
    join_stream(stream);
    if (!stream->legacy) {
        return;
    }
    for (const struct stream *s = stream->device->streams; s != NULL; s = s->next) {
        if (s->blocking) {
            join_stream(s);
        }
    }
    host_join(stream->device->retired);
}

/* Streams that drained and went are known too: nothing of the device is left undone. */
void checker_join_host_device(struct device *device)
{
    for (const struct stream *s = device->streams; s != NULL; s = s->next) {
        join_stream(s);
    }
    for (unsigned i = 0; i < retired_count; i++) {
        unsigned slot = retired[i];
        if (clock_time(host_clock(), slot) < slot_epochs[slot]) {
            struct clock *one = clock_new(slot + 1);
            one->time[slot] = slot_epochs[slot];
            host_join(one);
            clock_release(one);
        }
    }
}

void checker_host_access(uintptr_t va, size_t size, bool write, const char *what)
{
    host_epoch++;
    const struct actor actor = {
        .clock = host_clock(), .host = true, .epoch = host_epoch, .what = what};
    shadow_access(&actor, va, size, write);
    host_epoch++;
}
