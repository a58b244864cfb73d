/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory a pool hands out, and to whom it may hand it again. */
#include "pool.h"

#include "graph.h"

#include <stdlib.h>

static struct block *spare;

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static unsigned bin_of(size_t size)
{
    return 63u - (unsigned)__builtin_clzll((unsigned long long)size);
}

static struct block *block_new(struct chunk *chunk, uintptr_t va, size_t size)
{
    struct block *block = spare;
    if (block != NULL) {
        spare = block->bin_next;
    } else {
        block = malloc(sizeof *block);
        if (block == NULL) {
            abort();
        }
    }
    *block = (struct block){.chunk = chunk, .va = va, .size = size};
    return block;
}

static void block_drop(struct block *block)
{
    block->bin_next = spare;
    spare = block;
}

static void bin_add(struct block *block)
{
    struct pool *pool = block->chunk->pool;
    struct block **bin = &pool->bins[bin_of(block->size)];
    block->bin_prev = NULL;
    block->bin_next = *bin;
    if (*bin != NULL) {
        (*bin)->bin_prev = block;
    }
    *bin = block;
    block->chunk->free_bytes += block->size;
}

static void bin_remove(struct block *block)
{
    struct pool *pool = block->chunk->pool;
    if (block->bin_prev != NULL) {
        block->bin_prev->bin_next = block->bin_next;
    } else {
        pool->bins[bin_of(block->size)] = block->bin_next;
    }
    if (block->bin_next != NULL) {
        block->bin_next->bin_prev = block->bin_prev;
    }
    block->chunk->free_bytes -= block->size;
}

static void set_freed(struct block *block, struct op *op, uint64_t stream, struct device *device)
{
    struct pool *pool = block->chunk->pool;
    block->freed = op_retain(op);
    block->freed_stream = stream;
    block->freed_device = device;
    block->pending_prev = NULL;
    block->pending_next = pool->pending;
    if (pool->pending != NULL) {
        pool->pending->pending_prev = block;
    }
    pool->pending = block;
}

static void clear_freed(struct block *block)
{
    struct pool *pool = block->chunk->pool;
    if (block->freed == NULL) {
        return;
    }
    if (block->pending_prev != NULL) {
        block->pending_prev->pending_next = block->pending_next;
    } else {
        pool->pending = block->pending_next;
    }
    if (block->pending_next != NULL) {
        block->pending_next->pending_prev = block->pending_prev;
    }
    op_release(block->freed);
    block->freed = NULL;
}

/* Free neighbours that the same stream, or anyone, may have. */
static bool mergeable(const struct block *a, const struct block *b)
{
    if (a == NULL || b == NULL || a->live || b->live) {
        return false;
    }
    if (a->freed == NULL || b->freed == NULL) {
        return a->freed == b->freed;
    }
    return a->freed_stream == b->freed_stream;
}

/* Both out of their bins. */
static struct block *merge(struct block *left, struct block *right)
{
    if (right->freed != NULL && right->freed->seq > left->freed->seq) {
        struct op *later = right->freed;
        right->freed = left->freed;
        left->freed = later;
    }
    left->size += right->size;
    left->right = right->right;
    if (left->right != NULL) {
        left->right->left = left;
    }
    clear_freed(right);
    block_drop(right);
    return left;
}

static void make_free(struct block *block)
{
    if (mergeable(block->left, block)) {
        bin_remove(block->left);
        block = merge(block->left, block);
    }
    if (mergeable(block, block->right)) {
        bin_remove(block->right);
        block = merge(block, block->right);
    }
    bin_add(block);
}

static void drop_chunk(struct chunk *chunk)
{
    struct pool *pool = chunk->pool;
    for (struct block *block = chunk->first, *next; block != NULL; block = next) {
        next = block->right;
        if (!block->live) {
            bin_remove(block);
        }
        clear_freed(block);
        block_drop(block);
    }
    pool->reserved -= chunk->range->size;
    if (pool->device != NULL) {
        device_refund(pool->device, chunk->range->size);
        if (pool->type != cudaMemAllocationTypePinned) {
            pool->device->managed -= chunk->range->size;
        }
    }
    if (chunk->prev != NULL) {
        chunk->prev->next = chunk->next;
    } else {
        pool->chunks = chunk->next;
    }
    if (chunk->next != NULL) {
        chunk->next->prev = chunk->prev;
    }
    checker_forget(chunk->range->va, chunk->range->size);
    chunk_remove(chunk->range);
    physical_release(chunk->range->physical);
    arena_free(chunk->range->host, chunk->range->segment);
    range_free(chunk->range);
    free(chunk);
}

static bool idle(const struct chunk *chunk)
{
    return chunk->first->right == NULL && !chunk->first->live && chunk->first->freed == NULL;
}

/* Gives back chunks that nobody has, as long as at least so many bytes stay. */
void pool_trim(struct pool *pool, size_t keep)
{
    for (struct chunk *chunk = pool->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (idle(chunk) && pool->reserved - chunk->range->size >= keep) {
            drop_chunk(chunk);
        }
    }
}

void pool_drop_chunks(struct pool *pool)
{
    while (pool->chunks != NULL) {
        for (struct block *b = pool->chunks->first; b != NULL; b = b->right) {
            if (b->live) {
                range_remove(b->range);
                range_free(b->range);
                b->live = false;
                bin_add(b);
            }
        }
        drop_chunk(pool->chunks);
    }
}

static void settle(struct block *block)
{
    bin_remove(block);
    clear_freed(block);
    make_free(block);
}

/* From now on anyone may have those blocks whose free the host knows to be done. */
void pool_settle(struct pool *pool, bool (*settled)(const struct block *, void *), void *user_data)
{
    for (struct block *block = pool->pending, *next; block != NULL; block = next) {
        next = block->pending_next;
        if (op_done(block->freed) && settled(block, user_data)) {
            settle(block); /* merges only with settled blocks, which are not in this list */
        }
    }
}

/* ---- reuse ---- */

enum reuse { REUSE_NO, REUSE_FREELY, REUSE_ORDERED, REUSE_DONE, REUSE_WAIT };

static enum reuse may_reuse(struct pool *pool, struct block *block, struct stream *stream)
{
    if (block->freed == NULL || block->freed_stream == stream->id) {
        return REUSE_FREELY;
    }
    if (!op_done(block->freed) && pool->follow && engine_reaches(stream, block->freed)) {
        return REUSE_ORDERED;
    }
    if (pool->opportunistic) {
        if (!op_done(block->freed)) { /* a GPU would have run it by now, if it can run */
            engine_need(block->freed->stream, block->freed->seq);
            engine_pump_locked();
        }
        if (op_done(block->freed)) {
            return REUSE_DONE;
        }
    }
    return REUSE_NO;
}

static struct block *find_block(struct pool *pool, size_t size, struct stream *stream,
                                enum reuse *how)
{
    for (unsigned bin = bin_of(size); bin < POOL_BINS; bin++) {
        for (struct block *b = pool->bins[bin]; b != NULL; b = b->bin_next) {
            if (b->size < size) {
                continue;
            }
            *how = may_reuse(pool, b, stream);
            if (*how != REUSE_NO && !(config.seed != 0 && *how != REUSE_FREELY && choice(4) == 0)) {
                return b;
            }
        }
    }
    return NULL;
}

static struct block *find_pending(struct pool *pool, size_t size, enum reuse *how)
{
    *how = REUSE_WAIT;
    for (unsigned bin = bin_of(size); pool->internal && bin < POOL_BINS; bin++) {
        for (struct block *b = pool->bins[bin]; b != NULL; b = b->bin_next) {
            if (b->size >= size) {
                return b;
            }
        }
    }
    return NULL;
}

static bool can_reserve(const struct pool *pool, size_t size)
{
    if (pool->max_size != 0 && (size > pool->max_size || pool->reserved > pool->max_size - size)) {
        return false;
    }
    return pool->device == NULL || pool->type != cudaMemAllocationTypePinned ||
           device_has_room(pool->device, size);
}

static void charge(struct pool *pool, size_t size)
{
    pool->reserved += size;
    pool->reserved_high =
        pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
    if (pool->device != NULL) {
        if (pool->type != cudaMemAllocationTypePinned) {
            pool->device->managed += size;
        }
        device_charge(pool->device, size);
    }
}

static struct block *last_block(const struct chunk *chunk)
{
    struct block *block = chunk->first;
    while (block->right != NULL) {
        block = block->right;
    }
    return block;
}

/* The free end of a chunk, made large enough by memory behind it. */
static struct block *extend(struct chunk *chunk, size_t size, const struct stream *stream)
{
    struct block *end = last_block(chunk);
    struct range *range = chunk->range;
    if (end->live || (end->freed != NULL && end->freed_stream != stream->id)) {
        return NULL;
    }
    size_t more = round_up(size - end->size, POOL_STEP);
    if (!can_reserve(chunk->pool, more) || !arena_extend(range->host, range->segment, more)) {
        return NULL;
    }
    if (range->physical != NULL) {
        physical_grow(range->physical, range->size + more);
    }
    range->size += more;
    bin_remove(end);
    end->size += more;
    bin_add(end);
    charge(chunk->pool, more);
    return end;
}

static struct block *grow(struct pool *pool, size_t size, const struct stream *stream)
{
    const bool host = pool_on_host(pool) || pool->type != cudaMemAllocationTypePinned;
    if (pool->chunks != NULL && pool->chunks->first != NULL && !idle(pool->chunks)) {
        struct block *extended = extend(pool->chunks, size, stream);
        if (extended != NULL) {
            return extended;
        }
    }
    const size_t least = round_up(size, 2 * MIB);
    size = round_up(size, POOL_STEP);
    pool_trim(pool, 0); /* what is idle and too small moves to where it fits */
    if (!can_reserve(pool, size) && pool->device != NULL) {
        pools_give_back(pool->device);
    }
    if (!can_reserve(pool, size)) {
        size = least; /* the last memory of a device goes in smaller steps */
    }
    struct segment *segment = can_reserve(pool, size) ? arena_alloc(host, size, 2 * MIB) : NULL;
    struct chunk *chunk = segment == NULL ? NULL : calloc(1, sizeof *chunk);
    if (chunk == NULL) {
        if (segment != NULL) {
            arena_free(host, segment);
        }
        return NULL;
    }
    chunk->range = range_new(segment_va(segment), size, RANGE_POOL,
                             pool->device != NULL ? pool->device : &devices[0]);
    if (chunk->range == NULL) {
        abort();
    }
    chunk->range->segment = segment;
    chunk->range->host = host;
    chunk->range->pool = pool;
    chunk->pool = pool;
    chunk->next = pool->chunks;
    if (chunk->next != NULL) {
        chunk->next->prev = chunk;
    }
    pool->chunks = chunk;
    chunk_insert(chunk->range);
    chunk->first = block_new(chunk, chunk->range->va, size);
    bin_add(chunk->first);
    pool->reserved += size;
    pool->reserved_high =
        pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
    if (pool->device != NULL) {
        if (pool->type != cudaMemAllocationTypePinned) {
            pool->device->managed += size;
        }
        device_charge(pool->device, size);
    }
    return chunk->first;
}

static void split(struct block *block, size_t size)
{
    if (block->size == size) {
        return;
    }
    struct block *rest = block_new(block->chunk, block->va + size, block->size - size);
    rest->left = block;
    rest->right = block->right;
    if (rest->right != NULL) {
        rest->right->left = rest;
    }
    block->right = rest;
    block->size = size;
    if (block->freed != NULL) {
        set_freed(rest, block->freed, block->freed_stream, block->freed_device);
    }
    bin_add(rest);
}

static cudaError_t make_live(struct pool *pool, struct block *block, size_t size, void **ptr)
{
    struct range *range =
        range_new(block->va, block->size, RANGE_POOL, block->chunk->range->device);
    if (range == NULL) {
        return cudaErrorMemoryAllocation;
    }
    range->requested = size;
    range->pool = pool;
    range->block = block;
    range->chunk = block->chunk->range;
    range->host = block->chunk->range->host;
    range_insert(range);
    block->live = true;
    block->range = range;
    pool->live++;
    pool->used += size;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    *ptr = (void *)block->va;
    return cudaSuccess;
}

cudaError_t pool_allocate(struct pool *pool, size_t size, struct stream *stream, void **ptr,
                          enum fn fn)
{
    *ptr = NULL;
    if (size > (size_t)1 << 46 || (config.pool_largest != 0 && size > config.pool_largest)) {
        return cudaErrorMemoryAllocation;
    }
    const size_t rounded = round_up(size, config.alignment);
    enum reuse how = REUSE_FREELY;
    struct block *block = NULL;
    if (!config.pool_never_reuses) {
        block = find_block(pool, rounded, stream, &how);
    }
    if (block == NULL) {
        how = REUSE_FREELY;
        block = grow(pool, rounded, stream);
    }
    if (block == NULL && config.pool_never_reuses) {
        block = find_block(pool, rounded, stream, &how);
    }
    if (block == NULL) {
        block = find_pending(pool, rounded, &how);
    }
    if (block == NULL) {
        return cudaErrorMemoryAllocation;
    }
    bin_remove(block);
    split(block, rounded);
    cudaError_t err = make_live(pool, block, size, ptr);
    if (err != cudaSuccess) {
        make_free(block);
        return err;
    }
    const struct work work = {.kind = WORK_ALLOC, .dst = block->va, .size = size};
    struct op *op = engine_enqueue(stream, &work, fn);
    if (how != REUSE_FREELY && block->freed != NULL) {
        op_add_pred(op, block->freed);
    }
    clear_freed(block);
    return cudaSuccess;
}

/* The block is free at once for the stream, and for others when the free has run. */
cudaError_t pool_free(struct range *range, struct stream *stream, enum fn fn)
{
    struct block *block = range->block;
    struct pool *pool = range->pool;
    pool->used -= range->requested;
    pool->live--;
    const struct work work = {
        .kind = WORK_FREE, .dst = range->va, .size = range->requested, .keep_clock = true};
    set_freed(block, engine_enqueue(stream, &work, fn), stream->id, stream->device);
    block->live = false;
    block->range = NULL;
    range_remove(range);
    range_free(range);
    make_free(block);
    return cudaSuccess;
}

/* cudaFree of a block: at once, for everyone, without waiting; the used counter stays. */
cudaError_t pool_free_now(struct range *range, uintptr_t va, enum fn fn)
{
    struct block *block = range->block;
    struct pool *pool = range->pool;
    if (range->va != va) {
        return cudaErrorInvalidValue;
    }
    if (range->graph_block != NULL) {
        return graph_free_block(range, NULL, fn);
    }
    memory_retire(range->va, range->size, fn);
    pool->live--;
    block->live = false;
    block->range = NULL;
    range_remove(range);
    range_free(range);
    make_free(block);
    if (pool->reserved > pool->threshold) {
        pool_trim(pool, (size_t)pool->threshold);
    }
    pool_destroy_if_unused(pool);
    return cudaSuccess;
}
