/* SPDX-License-Identifier: Apache-2.0 */
#include "program_state.h"

static program_stream *free_place(program *own)
{
    for (int i = 0; i < PROGRAM_STREAMS; i++) {
        program_stream *place = &own->streams[i];
        if (!place->is_alive && place->blocks == 0) {
            return place;
        }
    }
    return NULL;
}

static void add(program *own, crmm_stream handle, bool is_created)
{
    program_stream *place = free_place(own);

    *place = (program_stream){.handle = handle, .is_alive = true, .is_created = is_created};
    own->alive[own->alive_count++] = place;
}

void program_begin_streams(program *own)
{
    if (own->like.has_legacy) {
        add(own, program_below(own, 2) == 0 ? NULL : CRMM_STREAM_LEGACY, false);
    }
    if (own->like.has_per_thread) {
        add(own, CRMM_STREAM_PER_THREAD, false);
    }
    while (own->alive_count < own->like.streams) {
        add(own, sim_stream_create(), true);
    }
    own->latest = own->alive[0];
}

program_stream *program_pick_stream(program *own)
{
    unsigned count = own->like.is_one_way ? (own->alive_count + 1) / 2 : own->alive_count;

    if (!own->latest->is_alive || !program_chance(own, own->like.stays)) {
        own->latest = own->alive[program_below(own, count)];
    }
    return own->latest;
}

const sim_clock *program_stream_order(const program_stream *stream)
{
    return stream->is_alive ? sim_stream_order(stream->handle) : &stream->last;
}

static bool is_usable(const program_stream *stream)
{
    return !stream->is_capturing && !stream->is_barred;
}

void program_order_streams(program *own)
{
    const program_stream *earlier = own->alive[program_below(own, own->alive_count)];
    const program_stream *later = own->alive[program_below(own, own->alive_count)];

    if (is_usable(earlier) && is_usable(later)) {
        sim_stream_follow(later->handle, program_stream_order(earlier));
    }
}

void program_wait_for_stream(program *own)
{
    const program_stream *stream = own->alive[program_below(own, own->alive_count)];

    if (is_usable(stream)) {
        sim_observe(program_stream_order(stream));
    }
}

static void set_capturing(program_stream *stream, bool is_capturing)
{
    stream->is_capturing = is_capturing;
    sim_stream_set_capturing(stream->handle, is_capturing);
}

/* The legacy stream cannot be captured itself, but not be used either while others are. */
static void update_legacy(program *own)
{
    bool any = false;

    for (unsigned i = 0; i < own->alive_count; i++) {
        any = any || (own->alive[i]->is_created && own->alive[i]->is_capturing);
    }
    for (unsigned i = 0; i < own->alive_count; i++) {
        program_stream *stream = own->alive[i];
        if (!stream->is_created && stream->handle != CRMM_STREAM_PER_THREAD) {
            stream->is_barred = any && own->like.manner.captures_legacy;
        }
    }
}

void program_toggle_capture(program *own)
{
    program_stream *stream = own->alive[program_below(own, own->alive_count)];

    if (stream->is_created) {
        set_capturing(stream, !stream->is_capturing);
        update_legacy(own);
    }
}

void program_end_captures(program *own)
{
    for (unsigned i = 0; i < own->alive_count; i++) {
        if (own->alive[i]->is_created && own->alive[i]->is_capturing) {
            set_capturing(own->alive[i], false);
        }
    }
    update_legacy(own);
}

static void retire(program *own, const program_stream *stream)
{
    uint64_t faults = sim_counted()->faults;

    sim_call_begin(stream->handle);
    crmm_status status = own->pool_class->retire_stream(own->pool, stream->handle);
    sim_call_end();
    if (status != CRMM_SUCCESS && sim_counted()->faults == faults) {
        sim_fail("retire_stream: %s", crmm_status_name(status));
    }
}

static void destroy(program *own, unsigned index)
{
    program_stream *stream = own->alive[index];

    if (stream->is_capturing) {
        set_capturing(stream, false);
    }
    if (program_chance(own, own->like.retires)) {
        retire(own, stream);
    }
    stream->last = *sim_stream_order(stream->handle);
    sim_stream_destroy(stream->handle);
    stream->is_alive = false;
    own->alive[index] = own->alive[--own->alive_count];
    update_legacy(own);
}

void program_replace_stream(program *own)
{
    unsigned index = (unsigned)program_below(own, own->alive_count);

    if (own->alive[index]->is_created && own->alive_count > 1) {
        destroy(own, index);
    }
    /* Often at once, so that the handle comes back while the pool still knows the old one. */
    while (own->alive_count < own->like.streams && free_place(own) != NULL &&
           program_below(own, 4) != 0) {
        crmm_stream handle = sim_stream_create();
        if (handle == NULL) {
            break;
        }
        add(own, handle, true);
    }
}
