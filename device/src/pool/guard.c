/* SPDX-License-Identifier: Apache-2.0 */
#include "guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/report.h>

#include "kind.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, bytes) ASAN_POISON_MEMORY_REGION((ptr), (bytes))
#define UNPOISON(ptr, bytes) ASAN_UNPOISON_MEMORY_REGION((ptr), (bytes))
enum { CAN_POISON = 1 };
#else
#define POISON(ptr, bytes) ((void)(ptr), (void)(bytes))
#define UNPOISON(ptr, bytes) ((void)(ptr), (void)(bytes))
enum { CAN_POISON = 0 };
#endif

enum {
    GUARD = CRMM_PRIV_POOL_GRANULE, /* bytes before a block, and at least after it */
    MOST_AFTER = 2 * GUARD,         /* and fewer than this: the rest of the last granule */
    PATTERN = 0xA7                  /* neither 0 nor all ones, nor a common letter */
};

static const char class_name[] = "pool_memory_resource";

/* A block as the program knows it. */
typedef struct guarded {
    char *ptr; /* NULL: the slot is empty */
    size_t bytes;
    size_t alignment;
    uint64_t stream_id; /* CRMM_PRIV_POOL_NO_STREAM: it was allocated without one */
    uint64_t number;    /* of all allocations */
} guarded;

struct crmm_priv_pool_guard {
    const crmm_resource_ops *plain;
    bool uses_cuda;     /* devices reach the memory: its bytes are set and read by CUDA */
    bool poisons;       /* what is not handed out is poisoned */
    crmm_stream stream; /* for calls without one, where CUDA is used */
    crmm_pool_chunk_callback on_chunk; /* the program's */
    void *on_chunk_user_data;

    crmm_priv_lock lock; /* guards what follows */
    guarded *table;      /* by address: open addressing, linear probing */
    size_t capacity;     /* a power of two, or 0 */
    size_t used;
    uint64_t numbers;
};

typedef struct crmm_priv_pool_guard guard;

/* ---- layout ---- */

/* The pool's block around one of the program's. */
typedef struct layout {
    size_t before; /* bytes */
    size_t after;
    size_t total;
} layout;

/* false: it is more than can exist. */
static bool lay_out(size_t bytes, size_t alignment, layout *out)
{
    size_t rest = (0 - bytes) % CRMM_PRIV_POOL_GRANULE;

    out->before = alignment > GUARD ? alignment : GUARD;
    out->after = rest + GUARD;
    return !__builtin_add_overflow(bytes, out->after, &out->total) &&
           !__builtin_add_overflow(out->total, out->before, &out->total) &&
           out->total <= PTRDIFF_MAX;
}

static layout layout_of(const guarded *block)
{
    layout made;

    (void)lay_out(block->bytes, block->alignment, &made);
    return made;
}

/* ---- the table ---- */

/* Where an address belongs if no other is in its way; the multiplier is 2^64 divided by the golden
 * ratio (Knuth, The Art of Computer Programming 3, section 6.4). */
static size_t home_of(const guard *self, const void *ptr)
{
    return (size_t)((uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (self->capacity - 1);
}

/* Where a block is, or the empty slot where it belongs; the table has an empty slot. */
static size_t slot_of(const guard *self, const void *ptr)
{
    size_t slot = home_of(self, ptr);

    while (self->table[slot].ptr != NULL && self->table[slot].ptr != ptr) {
        slot = (slot + 1) & (self->capacity - 1);
    }
    return slot;
}

/* Make sure that one more block leaves a quarter of the slots empty. */
static bool make_room(guard *self)
{
    guard larger = {.capacity = self->capacity == 0 ? 64 : self->capacity * 2};

    if (self->used < self->capacity / 4 * 3) {
        return true;
    }
    larger.table = calloc(larger.capacity, sizeof(*larger.table));
    if (larger.table == NULL) {
        return false;
    }
    for (size_t i = 0; i < self->capacity; i++) {
        if (self->table[i].ptr != NULL) {
            larger.table[slot_of(&larger, self->table[i].ptr)] = self->table[i];
        }
    }
    free(self->table);
    self->table = larger.table;
    self->capacity = larger.capacity;
    return true;
}

static bool add(guard *self, const guarded *block)
{
    crmm_priv_lock_acquire(&self->lock);
    bool added = make_room(self);
    if (added) {
        guarded *entry = &self->table[slot_of(self, block->ptr)];
        *entry = *block;
        entry->number = ++self->numbers;
        self->used++;
    }
    crmm_priv_lock_release(&self->lock);
    return added;
}

/* Empty a slot, and move up what is no longer found behind it. */
static void empty(guard *self, size_t slot)
{
    const size_t mask = self->capacity - 1;

    for (size_t i = (slot + 1) & mask; self->table[i].ptr != NULL; i = (i + 1) & mask) {
        size_t home = home_of(self, self->table[i].ptr);
        if (((i - home) & mask) >= ((i - slot) & mask)) {
            self->table[slot] = self->table[i];
            slot = i;
        }
    }
    self->table[slot] = (guarded){0};
    self->used--;
}

/* What is known of a block; false: nothing. */
static bool look_up(guard *self, const void *ptr, guarded *found)
{
    crmm_priv_lock_acquire(&self->lock);
    memset(found, 0, sizeof(*found));
    if (self->capacity != 0) {
        *found = self->table[slot_of(self, ptr)];
    }
    crmm_priv_lock_release(&self->lock);
    return found->ptr != NULL;
}

/* The same, and the table forgets it if it is `bytes` and `alignment`. */
static bool take(guard *self, const void *ptr, size_t bytes, size_t alignment, guarded *found)
{
    crmm_priv_lock_acquire(&self->lock);
    size_t slot = self->capacity == 0 ? 0 : slot_of(self, ptr);
    memset(found, 0, sizeof(*found));
    if (self->capacity != 0) {
        *found = self->table[slot];
    }
    bool right = found->ptr != NULL && found->bytes == bytes && found->alignment == alignment;
    if (right) {
        empty(self, slot);
    }
    crmm_priv_lock_release(&self->lock);
    return right;
}

/* ---- filling ---- */

/* Fill a block's guards. `stream` is NULL in a call without one, which waits. */
static crmm_status fill_by_cuda(const crmm_priv_pool *pool, const crmm_stream *stream,
                                const guarded *block)
{
    const guard *self = pool->guard;
    crmm_stream on = stream != NULL ? *stream : self->stream;
    int previous = -1;

    crmm_status status = crmm_priv_cuda_enter_device(pool->device, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_priv_cuda_memset_async(block->ptr - GUARD, PATTERN, GUARD, on);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_memset_async(block->ptr + block->bytes, PATTERN,
                                             layout_of(block).after, on);
    }
    /* What is about to be poisoned must not be written to later. After a failure, half of it may be
     * on its way. */
    if (stream == NULL || self->poisons) {
        int code = crmm_priv_cuda_wait(on);
        if (code != 0) {
            (void)crmm_priv_device_wait();
        }
        status =
            status != CRMM_SUCCESS ? status : crmm_priv_cuda_check("cudaStreamSynchronize", code);
    }
    crmm_priv_cuda_leave_device(previous);
    return status;
}

static crmm_status fill(const crmm_priv_pool *pool, const crmm_stream *stream, const guarded *block)
{
    if (pool->guard->uses_cuda) {
        return fill_by_cuda(pool, stream, block);
    }
    if (stream != NULL) {
        crmm_status status =
            crmm_priv_cuda_check("cudaStreamSynchronize", crmm_priv_cuda_wait(*stream));
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    memset(block->ptr - GUARD, PATTERN, GUARD);
    memset(block->ptr + block->bytes, PATTERN, layout_of(block).after);
    return CRMM_SUCCESS;
}

/* ---- looking ---- */

typedef struct guards {
    unsigned char before[GUARD];
    unsigned char after[MOST_AFTER];
} guards;

/*
 * Fetch a block's guards when the work on it is complete. A block that came on a stream and goes
 * without one waits for the whole device: no work of the program's is pending on it, but the
 * filling may be. A CUDA error code, or 0.
 */
static int fetch_by_cuda(const crmm_priv_pool *pool, const crmm_stream *stream,
                         const guarded *block, guards *out)
{
    crmm_stream on = stream != NULL ? *stream : pool->guard->stream;
    crmm_error before = *crmm_last_error();
    int previous = -1;

    int code = crmm_priv_cuda_try_enter_device(pool->device, &previous);
    if (code != 0) {
        return code;
    }
    if (stream == NULL && block->stream_id != CRMM_PRIV_POOL_NO_STREAM) {
        code = crmm_priv_device_wait();
    }
    if (code == 0 &&
        (crmm_priv_cuda_copy_async(out->before, block->ptr - GUARD, GUARD, on) != CRMM_SUCCESS ||
         crmm_priv_cuda_copy_async(out->after, block->ptr + block->bytes, layout_of(block).after,
                                   on) != CRMM_SUCCESS)) {
        code = crmm_last_error()->native_code;
        crmm_priv_restore_error(&before);
    }
    /* Also after a failure: the first copy may be on its way. */
    int waited = crmm_priv_cuda_wait(on);
    crmm_priv_cuda_leave_device(previous);
    return code != 0 ? code : waited;
}

static int fetch(const crmm_priv_pool *pool, const crmm_stream *stream, const guarded *block,
                 guards *out)
{
    if (pool->guard->uses_cuda) {
        return fetch_by_cuda(pool, stream, block, out);
    }
    int code = stream != NULL ? crmm_priv_cuda_wait(*stream) : 0;
    if (code == 0) {
        memcpy(out->before, block->ptr - GUARD, GUARD);
        memcpy(out->after, block->ptr + block->bytes, layout_of(block).after);
    }
    return code;
}

/* Where a block came from, for a message. */
static void name_origin(const guarded *block, char *text, size_t size)
{
    if (block->stream_id == CRMM_PRIV_POOL_NO_STREAM) {
        (void)snprintf(text, size, "allocation %" PRIu64 ", without a stream", block->number);
    } else if (block->stream_id == CRMM_PRIV_POOL_LEGACY_STREAM) {
        (void)snprintf(text, size, "allocation %" PRIu64 ", on the default stream", block->number);
    } else {
        (void)snprintf(text, size, "allocation %" PRIu64 ", on the stream with id %" PRIu64,
                       block->number, block->stream_id);
    }
}

static crmm_misuse finding(crmm_misuse_kind kind, const guarded *block)
{
    return (crmm_misuse){.kind = kind,
                         .resource_name = class_name,
                         .ptr = block->ptr,
                         .bytes = block->bytes,
                         .alignment = block->alignment};
}

/* Report what is wrong with the guard whose first byte is `offset` bytes from the block's start. */
static void check_side(const guarded *block, const char *side, const unsigned char *bytes,
                       size_t count, ptrdiff_t offset)
{
    char origin[96];
    size_t first = count;
    size_t wrong = 0;

    for (size_t i = count; i > 0; i--) {
        if (bytes[i - 1] != PATTERN) {
            first = i - 1;
            wrong++;
        }
    }
    if (wrong == 0) {
        return;
    }
    name_origin(block, origin, sizeof(origin));
    crmm_priv_report(finding(CRMM_MISUSE_OVERRUN, block),
                     "%s: %p of %zu bytes (%s) was overrun %s: the first wrong byte is at offset "
                     "%td, and %zu of %zu guard bytes are wrong",
                     class_name, (void *)block->ptr, block->bytes, origin, side,
                     offset + (ptrdiff_t)first, wrong, count);
}

static void look(const crmm_priv_pool *pool, const crmm_stream *stream, const guarded *block)
{
    crmm_error before = *crmm_last_error();
    guards found;

    if (pool->device >= 0 && crmm_priv_cuda_ready(class_name) != CRMM_SUCCESS) {
        crmm_priv_restore_error(&before);
        return; /* the program is ending */
    }
    int code = fetch(pool, stream, block, &found);
    if (code != 0) {
        crmm_misuse failed = finding(CRMM_MISUSE_CUDA, block);
        failed.native_code = code;
        crmm_priv_report(failed, "%s: the guards of %p cannot be looked at: %s (%s)", class_name,
                         (void *)block->ptr, crmm_priv_cuda_error_name(code),
                         crmm_priv_cuda_error_text(code));
        return;
    }
    check_side(block, "before its start", found.before, GUARD, -(ptrdiff_t)GUARD);
    check_side(block, "past its end", found.after, layout_of(block).after, (ptrdiff_t)block->bytes);
}

/* ---- allocation ---- */

static crmm_status plain_allocate(crmm_priv_pool *pool, const crmm_stream *stream, size_t bytes,
                                  size_t alignment, void **ptr)
{
    const crmm_resource_ops *plain = pool->guard->plain;

    return stream != NULL ? plain->allocate(&pool->base, *stream, bytes, alignment, ptr)
                          : plain->allocate_sync(&pool->base, bytes, alignment, ptr);
}

/* Give the pool's own block back; all of it is poisoned from here on. The table does not have it
 * any more, so no further question about the stream may hinder it. */
static void plain_deallocate(crmm_priv_pool *pool, const crmm_stream *stream, uint64_t id,
                             const guarded *block)
{
    const layout around = layout_of(block);
    char *start = block->ptr - around.before;

    if (pool->guard->poisons) {
        POISON(start, around.total);
    }
    crmm_priv_pool_deallocate_known(pool, stream != NULL ? *stream : NULL, id, start, around.total,
                                    block->alignment);
}

static crmm_status guard_new(crmm_priv_pool *pool, const crmm_stream *stream, const guarded *block)
{
    guard *self = pool->guard;
    const layout around = layout_of(block);
    char *start = block->ptr - around.before;

    if (self->poisons) {
        UNPOISON(start, around.total);
    }
    crmm_status status = fill(pool, stream, block);
    if (status == CRMM_SUCCESS && !add(self, block)) {
        status = FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, block->bytes,
                            "%s: no host memory to remember a block in", class_name);
    }
    if (status == CRMM_SUCCESS && self->poisons) {
        POISON(start, around.total);
        UNPOISON(block->ptr, block->bytes);
    }
    return status;
}

static crmm_status allocate(crmm_priv_pool *pool, const crmm_stream *stream, size_t bytes,
                            size_t alignment, void **ptr)
{
    guarded block = {.bytes = bytes, .alignment = alignment};
    layout around;
    void *start = NULL;

    if (!lay_out(bytes, alignment, &around)) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: %zu bytes with alignment %zu and guards are more than can exist",
                          class_name, bytes, alignment);
    }
    crmm_status status = crmm_priv_pool_may_allocate(pool, stream, bytes, &block.stream_id);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = plain_allocate(pool, stream, around.total, alignment, &start);
    if (status != CRMM_SUCCESS) {
        crmm_priv_fail_for(bytes, "no %zu bytes with guards: ", bytes);
        return status;
    }
    block.ptr = (char *)start + around.before;
    status = guard_new(pool, stream, &block);
    if (status != CRMM_SUCCESS) {
        crmm_error why = *crmm_last_error();
        plain_deallocate(pool, stream, block.stream_id, &block);
        crmm_priv_restore_error(&why);
        crmm_priv_fail_for(bytes, "no %zu bytes with guards: ", bytes);
        return status;
    }
    *ptr = block.ptr;
    return CRMM_SUCCESS;
}

crmm_status crmm_priv_pool_guard_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                          size_t alignment, void **ptr)
{
    return allocate((crmm_priv_pool *)resource, &stream, bytes, alignment, ptr);
}

crmm_status crmm_priv_pool_guard_allocate_sync(crmm_resource *resource, size_t bytes,
                                               size_t alignment, void **ptr)
{
    return allocate((crmm_priv_pool *)resource, NULL, bytes, alignment, ptr);
}

/* ---- deallocation ---- */

static void report_unknown(crmm_priv_pool *pool, void *ptr, size_t bytes, size_t alignment)
{
    const guarded given = {.ptr = ptr, .bytes = bytes, .alignment = alignment};
    const char *start = (char *)ptr - (alignment > GUARD ? alignment : GUARD);
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, start);

    if (chunk != NULL && crmm_priv_pool_is_block_start(pool, chunk, start)) {
        crmm_priv_report(finding(CRMM_MISUSE_DOUBLE_FREE, &given),
                         "%s: %p of %zu bytes was given back before", class_name, ptr, bytes);
        return;
    }
    crmm_priv_report(finding(CRMM_MISUSE_FOREIGN_POINTER, &given),
                     "%s: no block of this pool begins at %p, given back with %zu bytes",
                     class_name, ptr, bytes);
}

static void report_mismatch(const guarded *known, size_t bytes, size_t alignment)
{
    crmm_misuse found = finding(CRMM_MISUSE_SIZE_MISMATCH, known);

    found.bytes = bytes;
    found.alignment = alignment;
    if (known->bytes == bytes) {
        found.kind = CRMM_MISUSE_ALIGNMENT_MISMATCH;
    }
    crmm_priv_report(found,
                     "%s: %p given back with %zu bytes and alignment %zu is a block of %zu bytes "
                     "with alignment %zu",
                     class_name, (void *)known->ptr, bytes, alignment, known->bytes,
                     known->alignment);
}

static void deallocate(crmm_priv_pool *pool, const crmm_stream *stream, void *ptr, size_t bytes,
                       size_t alignment)
{
    guarded block;
    uint64_t id = 0;

    if (!crmm_priv_pool_may_deallocate(pool, stream, ptr, bytes, &id)) {
        return;
    }
    if (!take(pool->guard, ptr, bytes, alignment, &block)) {
        if (block.ptr == NULL) {
            report_unknown(pool, ptr, bytes, alignment);
        } else {
            report_mismatch(&block, bytes, alignment);
        }
        return;
    }
    if (pool->guard->poisons) {
        const layout around = layout_of(&block);
        UNPOISON(block.ptr - around.before, around.total);
    }
    look(pool, stream, &block);
    plain_deallocate(pool, stream, id, &block);
}

void crmm_priv_pool_guard_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                     size_t bytes, size_t alignment)
{
    deallocate((crmm_priv_pool *)resource, &stream, ptr, bytes, alignment);
}

void crmm_priv_pool_guard_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                          size_t alignment)
{
    deallocate((crmm_priv_pool *)resource, NULL, ptr, bytes, alignment);
}

void crmm_priv_pool_guard_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    crmm_priv_pool *pool = (crmm_priv_pool *)resource;
    guarded block;

    if (!look_up(pool->guard, ptr, &block)) {
        block = (guarded){.alignment = CRMM_PRIV_POOL_GRANULE};
    }
    deallocate(pool, pool->is_stream_ordered ? &stream : NULL, ptr, block.bytes, block.alignment);
}

/* ---- the end ---- */

static int by_number(const void *one, const void *other)
{
    uint64_t a = (*(const guarded *const *)one)->number;
    uint64_t b = (*(const guarded *const *)other)->number;
    return (a > b) - (a < b);
}

static void report_leak(const guarded *block)
{
    char origin[96];

    name_origin(block, origin, sizeof(origin));
    crmm_priv_report(finding(CRMM_MISUSE_LEAK, block),
                     "%s: %p of %zu bytes (%s) is alive at the last release", class_name,
                     (void *)block->ptr, block->bytes, origin);
}

void crmm_priv_pool_guard_report_leaks(const crmm_priv_pool *pool)
{
    const guard *self = pool->guard;
    /* In the order of the allocations; without host memory, in any. */
    const guarded **sorted = malloc((self->used > 0 ? self->used : 1) * sizeof(guarded *));
    size_t count = 0;

    for (size_t i = 0; i < self->capacity; i++) {
        if (self->table[i].ptr == NULL) {
            continue;
        }
        if (sorted == NULL) {
            report_leak(&self->table[i]);
        } else {
            sorted[count++] = &self->table[i];
        }
    }
    if (sorted != NULL) {
        qsort(sorted, count, sizeof(guarded *), by_number);
    }
    for (size_t i = 0; i < count; i++) {
        report_leak(sorted[i]);
    }
    free(sorted);
}

void crmm_priv_pool_guard_finish(crmm_priv_pool *pool, bool usable)
{
    guard *self = pool->guard;

    if (self == NULL) {
        return;
    }
    if (usable && self->stream != NULL) {
        (void)crmm_priv_cuda_stream_destroy(self->stream); /* whichever device is current */
    }
    crmm_priv_lock_forget(&self->lock);
    free(self->table);
    free(self);
    pool->guard = NULL;
}

/* ---- the beginning ---- */

/* What is fresh from upstream is nobody's yet; what goes back must be as it was. */
static void on_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    const guard *self = user_data;

    if (!added) {
        UNPOISON(base, bytes);
    }
    if (self->on_chunk != NULL) {
        self->on_chunk(base, bytes, added, self->on_chunk_user_data);
    }
    if (added) {
        POISON(base, bytes);
    }
}

crmm_status crmm_priv_pool_guard_create(crmm_priv_pool *pool, const crmm_resource_ops *plain)
{
    int previous = -1;
    guard *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the guards", class_name);
    }
    *self = (guard){.plain = plain,
                    .uses_cuda = crmm_resource_has(pool->upstream, CRMM_DEVICE_ACCESSIBLE),
                    .poisons =
                        CAN_POISON != 0 && crmm_resource_has(pool->upstream, CRMM_HOST_ACCESSIBLE),
                    .on_chunk = pool->on_chunk,
                    .on_chunk_user_data = pool->on_chunk_user_data,
                    .lock = CRMM_PRIV_LOCK_INITIALIZER};
    if (self->uses_cuda) {
        crmm_status status = crmm_priv_cuda_enter_device(pool->device, &previous);
        if (status == CRMM_SUCCESS) {
            status = crmm_priv_cuda_stream_create(true, &self->stream);
            crmm_priv_cuda_leave_device(previous);
        }
        if (status != CRMM_SUCCESS) {
            free(self);
            return status;
        }
    }
    if (self->poisons) {
        pool->on_chunk = on_chunk;
        pool->on_chunk_user_data = self;
    }
    pool->guard = self;
    return CRMM_SUCCESS;
}
