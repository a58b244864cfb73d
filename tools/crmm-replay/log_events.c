/* SPDX-License-Identifier: Apache-2.0 */
#include "log_events.h"

#include <search.h>
#include <stdlib.h>

typedef struct live_block {
    uint64_t address; /* first: the key */
    size_t bytes;
    uint32_t number;
    uint32_t line;
} live_block;

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const live_block *)a)->address;
    uint64_t right = ((const live_block *)b)->address;

    return left < right ? -1 : left > right;
}

/* Handles 0 and 1 are both the legacy default stream and 2 is the per-thread one, as in CUDA. */
static bool find_stream(log_events *to, uint64_t handle, uint32_t *index)
{
    trace_stream stream = {.name = handle, .kind = TRACE_STREAM_OWN};

    if (handle <= 1) {
        stream = (trace_stream){.name = 0, .kind = TRACE_STREAM_LEGACY};
    } else if (handle == 2) {
        stream.kind = TRACE_STREAM_PER_THREAD;
    }
    return trace_find_stream(to->out, to->in, stream, index, to->why);
}

static bool add_live(log_events *to, uint64_t address, trace_row *row)
{
    if (to->out->block_count == TRACE_NO_BLOCK) {
        return lines_malformed(to->in, to->why, "more allocations than can be replayed");
    }
    live_block *added = malloc(sizeof(*added));
    if (added == NULL) {
        return problem_no_memory(to->why);
    }
    *added = (live_block){.address = address,
                          .bytes = row->bytes,
                          .number = (uint32_t)to->out->block_count,
                          .line = to->in->number};
    live_block **found = tsearch(added, &to->live, by_address);
    if (found == NULL) {
        free(added);
        return problem_no_memory(to->why);
    }
    if (*found != added) {
        free(added);
        return lines_malformed(to->in, to->why,
                               "allocate of Pointer 0x%llx, which is live since line %u",
                               (unsigned long long)address, (*found)->line);
    }
    row->block = added->number;
    to->out->block_count++;
    return true;
}

static bool take_live(log_events *to, uint64_t address, trace_row *row)
{
    live_block key = {.address = address};
    live_block **found = tfind(&key, &to->live, by_address);

    if (found == NULL) {
        return lines_malformed(to->in, to->why, "free of Pointer 0x%llx, which is not live",
                               (unsigned long long)address);
    }
    live_block *taken = *found;
    if (taken->bytes != row->bytes) {
        return lines_malformed(to->in, to->why,
                               "free of Pointer 0x%llx with Size %zu, which line %u gave %zu",
                               (unsigned long long)address, row->bytes, taken->line, taken->bytes);
    }
    row->block = taken->number;
    (void)tdelete(&key, &to->live, by_address);
    free(taken);
    return true;
}

/* Give the row its block. What has no bytes or no address has none: it is asked for and given back
 * as nothing. */
static bool find_block(log_events *to, uint64_t address, trace_row *row)
{
    row->block = TRACE_NO_BLOCK;
    switch (row->action) {
    case TRACE_ALLOCATE:
        if (address == 0 && row->bytes > 0) {
            return lines_malformed(to->in, to->why, "allocate of %zu bytes without a Pointer",
                                   row->bytes);
        }
        return row->bytes == 0 || add_live(to, address, row);
    case TRACE_FREE:
        return row->bytes == 0 || address == 0 || take_live(to, address, row);
    case TRACE_FAILED_ALLOCATE:
        return address == 0 ||
               lines_malformed(to->in, to->why, "allocate failure with Pointer 0x%llx",
                               (unsigned long long)address);
    }
    return false;
}

bool log_events_add(log_events *to, const log_event *event)
{
    trace_row row = {.action = event->action, .bytes = event->bytes};

    return find_stream(to, event->stream, &row.stream) &&
           trace_find_thread(to->out, to->in, event->thread, &row.thread, to->why) &&
           find_block(to, event->address, &row) && trace_add_row(to->out, to->in, row, to->why);
}

void log_events_finish(log_events *to)
{
    tdestroy(to->live, free);
}
