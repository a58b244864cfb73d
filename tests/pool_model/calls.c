/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/alignment.h>
#include <crmm/core/error.h>

#include "program_state.h"
#include "shadow.h"

#define MIB ((size_t)1 << 20)

enum { LARGE = 32, LARGEST_ALIGNMENT_LOG2 = 16 };

/* ---- allocation ---- */

static const sim_clock *export_order(program *own, const program_stream *stream)
{
    for (unsigned i = 0; i < PROGRAM_EXPORTS; i++) {
        if ((own->exports_used >> i & 1) == 0) {
            own->exports_used |= 1U << i;
            own->exports[i] = *sim_stream_order(stream->handle);
            return &own->exports[i];
        }
    }
    return NULL;
}

/* A block that came from a stream, or from none: then any stream may use it at once. */
static void add_block(program *own, program_block block, bool is_sync)
{
    block.stream->blocks++;
    if (!crmm_is_pointer_aligned(block.ptr, block.alignment)) {
        sim_fail("allocation: %p is not aligned to %zu", block.ptr, block.alignment);
    }
    sim_lock();
    shadow_take(block.ptr, block.bytes, is_sync ? NULL : sim_stream_order(block.stream->handle));
    if (program_chance(own, own->like.cross) && program_chance(own, own->like.exported)) {
        block.order = export_order(own, block.stream);
    }
    if (!block.stream->is_capturing && !block.stream->is_barred) {
        (void)sim_stream_work(block.stream->handle);
    }
    sim_progress();
    sim_unlock();
    own->blocks[own->block_count++] = block;
    own->asked += block.bytes;
    own->allocations++;
}

/* Whether a pool may refuse a request, and leaves everything as it was. */
static void check_refusal(program *own, const program_stream *stream, size_t bytes,
                          crmm_status status, bool had_faults)
{
    crmm_status expected =
        stream != NULL && stream->is_capturing ? CRMM_ERROR_UNSUPPORTED : CRMM_ERROR_OUT_OF_MEMORY;

    own->refusals++;
    program_check_figures(own);
    if (had_faults) {
        return;
    }
    /* Memory is no use on a stream that is barred, and may be had or not. */
    if (stream != NULL && stream->is_barred && status == CRMM_ERROR_UNSUPPORTED) {
        expected = status;
    }
    if (status != expected) {
        sim_fail("allocation of %zu bytes: %s: %s", bytes, crmm_status_name(status),
                 crmm_last_error()->message);
    }
    if (crmm_last_error()->status != status) {
        sim_fail("allocation of %zu bytes: %s is not on record", bytes, crmm_status_name(status));
    }
}

bool program_allocate_bytes(program *own, program_stream *stream, size_t bytes, size_t alignment)
{
    bool is_sync = program_chance(own, own->like.sync);
    void *const untouched = own;
    void *ptr = untouched;
    uint64_t faults = sim_counted()->faults;
    crmm_status status;

    if (is_sync) {
        sim_call_begin_sync();
        status = crmm_allocate_sync(own->pool, bytes, alignment, &ptr);
    } else {
        sim_call_begin(stream->handle);
        status = crmm_allocate(own->pool, stream->handle, bytes, alignment, &ptr);
    }
    sim_call_end();
    if (status != CRMM_SUCCESS) {
        check_refusal(own, is_sync ? NULL : stream, bytes, status, sim_counted()->faults != faults);
        if (ptr != untouched) {
            sim_fail("allocation of %zu bytes failed and wrote the pointer", bytes);
        }
        return false;
    }
    if (!is_sync && stream->is_capturing) {
        sim_fail("allocation on a stream that is being captured");
    }
    add_block(own, (program_block){ptr, bytes, alignment, stream, NULL}, is_sync);
    return true;
}

static size_t draw_large(program *own)
{
    if (own->like.large_sizes != 0) {
        return (2 + (size_t)program_below(own, own->like.large_sizes) * 5) * MIB + SHADOW_GRANULE;
    }
    return MIB + program_below(own, (LARGE - 1) * MIB);
}

static size_t draw_bytes(program *own)
{
    if (program_chance(own, own->like.large)) {
        return draw_large(own);
    }
    unsigned logs = own->like.most_log2 - own->like.least_log2;
    size_t least = (size_t)1 << (own->like.least_log2 + program_below(own, logs));
    return least + program_below(own, least);
}

void program_allocate(program *own)
{
    program_stream *stream = program_pick_stream(own);
    size_t bytes = draw_bytes(own);
    size_t alignment = SHADOW_GRANULE;

    if (program_chance(own, own->like.aligned)) {
        alignment = (size_t)1 << program_below(own, LARGEST_ALIGNMENT_LOG2 + 1);
    }
    if (own->block_count == PROGRAM_BLOCKS ||
        program_allocate_bytes(own, stream, bytes, alignment)) {
        return;
    }
    for (uint64_t i = program_below(own, 8); i > 0 && own->block_count != 0; i--) {
        program_deallocate(own);
    }
}

/* ---- deallocation ---- */

static program_stream *pick_cross(program *own, program_stream *stream)
{
    unsigned first = own->like.is_one_way ? own->alive_count / 2 : 0;

    for (int i = 0; i < PROGRAM_ALIVE; i++) {
        program_stream *other = own->alive[first + program_below(own, own->alive_count - first)];
        if (other != stream && !other->is_capturing && !other->is_barred) {
            return other;
        }
    }
    return NULL;
}

/* Where a block is given back: mostly on its own stream. NULL: nowhere now. */
static program_stream *pick_target(program *own, const program_block *block)
{
    program_stream *stream = block->stream;

    if (stream->is_alive && block->order == NULL && !program_chance(own, own->like.cross)) {
        return stream;
    }
    program_stream *other = pick_cross(own, stream);
    return other == NULL && stream->is_alive ? stream : other;
}

/* Order the use of a block before the deallocation, as a program must. */
static void order_before(const program_block *block, const program_stream *target)
{
    if (target != block->stream) {
        sim_stream_follow(target->handle, block->order != NULL
                                              ? block->order
                                              : program_stream_order(block->stream));
    }
}

/* The last use of a block, on the stream where it is given back. */
static sim_point use_last(const program_block *block, const program_stream *target)
{
    if (target->is_capturing || target->is_barred) {
        return sim_stream_latest(target->handle);
    }
    order_before(block, target);
    return sim_stream_work(target->handle);
}

static void call_deallocate(program *own, const program_block *block, const program_stream *target,
                            bool is_sync)
{
    if (is_sync) {
        sim_call_begin_sync();
        crmm_deallocate_sync(own->pool, block->ptr, block->bytes, block->alignment);
        return;
    }
    sim_call_begin(target->handle);
    if (own->pool_class->has_deallocate_ptr && program_chance(own, own->like.by_address)) {
        crmm_deallocate_ptr(own->pool, target->handle, block->ptr);
    } else {
        crmm_deallocate(own->pool, target->handle, block->ptr, block->bytes, block->alignment);
    }
}

/* Whether the pool still has the block among the live ones, after a call that reported something.
 */
static bool is_kept(program *own)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    return crmm_resource_info(own->pool, &info) == CRMM_SUCCESS &&
           info.allocations == own->block_count;
}

static void remove_block(program *own, unsigned index)
{
    const program_block *block = &own->blocks[index];

    if (block->order != NULL) {
        own->exports_used &= ~(1U << (block->order - own->exports));
    }
    block->stream->blocks--;
    own->asked -= block->bytes;
    /* In order, so that the last one is the latest. */
    own->blocks[index] = own->blocks[--own->block_count];
}

/* A deallocation that reported something has left the block alone, or taken it all the same. */
static void check_report(program *own, const program_stream *target, bool is_sync, bool had_faults)
{
    bool is_captured = !is_sync && target->is_capturing;
    bool is_allowed = is_captured || (!is_sync && target->is_barred);

    if (!had_faults && (!is_allowed || own->misuse != CRMM_MISUSE_UNSUPPORTED)) {
        sim_fail("deallocation: misuse of kind %d was reported", (int)own->misuse);
    }
    if (is_captured && !is_kept(own)) {
        sim_fail("deallocation on a captured stream took the block");
    }
}

static void deallocate(program *own, unsigned index, program_stream *target, bool is_sync)
{
    program_block block = own->blocks[index];
    uint64_t misuses = own->misuses;
    uint64_t faults = sim_counted()->faults;
    sim_point pending = {0};

    sim_lock();
    if (is_sync) {
        sim_observe(program_stream_order(block.stream));
    } else {
        pending = use_last(&block, target);
    }
    shadow_give(block.ptr, block.bytes, pending);
    sim_progress();
    sim_unlock();
    call_deallocate(own, &block, target, is_sync);
    sim_call_end();
    if (own->misuses != misuses) {
        check_report(own, target, is_sync, sim_counted()->faults != faults);
        if (is_kept(own)) {
            shadow_keep(block.ptr, block.bytes);
            return;
        }
    } else if (!is_sync && target->is_capturing) {
        sim_fail("deallocation on a captured stream was not reported");
    }
    remove_block(own, index);
}

void program_deallocate(program *own)
{
    unsigned index = own->block_count - 1;

    if (!program_chance(own, own->like.latest)) {
        index = (unsigned)program_below(own, own->block_count);
    }
    program_stream *target = pick_target(own, &own->blocks[index]);
    bool is_sync = program_chance(own, own->like.sync);
    if (target != NULL || is_sync) {
        deallocate(own, index, target, is_sync);
    }
}

void program_deallocate_all(program *own)
{
    uint64_t attempts = (uint64_t)own->block_count * 16;

    program_end_captures(own);
    while (own->block_count != 0 && attempts-- > 0 && !sim_has_failed()) {
        program_deallocate(own);
    }
    if (own->block_count != 0 && own->like.manner.faults == 0) {
        sim_fail("%u blocks cannot be given back", own->block_count);
    }
}

/* Whether the pool could do it; it must unless calls were made to fail. */
static bool trim(program *own, size_t bytes_to_keep)
{
    size_t before = own->upstream->held;
    size_t released = 0;
    uint64_t faults = sim_counted()->faults;

    sim_call_begin_sync();
    crmm_status status = crmm_resource_trim(own->pool, bytes_to_keep, &released);
    sim_call_end();
    bool had_faults = sim_counted()->faults != faults;
    if (status != CRMM_SUCCESS && !had_faults) {
        sim_fail("trim: %s", crmm_status_name(status));
    }
    if (status == CRMM_SUCCESS && released != before - own->upstream->held) {
        sim_fail("trim: %zu bytes are said to be released of %zu", released,
                 before - own->upstream->held);
    }
    program_check_figures(own);
    return !had_faults;
}

void program_trim(program *own)
{
    (void)trim(own, program_below(own, 2) == 0 ? 0 : program_below(own, own->upstream->held + 1));
}

void program_trim_all(program *own)
{
    if (trim(own, 0) && own->upstream->held != 0) {
        sim_fail("trim: %zu bytes are held where nothing is live", own->upstream->held);
    }
}
