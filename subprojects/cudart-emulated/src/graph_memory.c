/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation nodes: an address fixed at the capture, memory from the first launch on. */
#include "graph.h"
#include "pool.h"

#include <stdlib.h>
#include <string.h>

static struct graph_memory memory_of[MAX_DEVICES];

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t steps(size_t size)
{
    return (size + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
}

static struct graph_block *block_new(struct graph *graph, size_t size)
{
    size_t rounded = (size + config.alignment - 1) / config.alignment * config.alignment;
    struct segment *segment = arena_alloc(false, rounded, config.alignment);
    struct graph_block *block = segment == NULL ? NULL : calloc(1, sizeof *block);
    if (block == NULL) {
        if (segment != NULL) {
            arena_free(false, segment);
        }
        return NULL;
    }
    block->graph = graph;
    block->size = size;
    block->chunk = range_new(segment_va(segment), rounded, RANGE_POOL, graph->device);
    block->range = range_new(segment_va(segment), rounded, RANGE_POOL, graph->device);
    if (block->chunk == NULL || block->range == NULL) {
        abort();
    }
    block->chunk->segment = segment;
    block->range->requested = size;
    block->range->chunk = block->chunk;
    block->range->graph_block = block;
    chunk_insert(block->chunk);
    range_insert(block->range);
    block->next = graph->blocks;
    graph->blocks = block;
    return block;
}

cudaError_t graph_capture_alloc(struct stream *stream, const struct pool *pool, size_t size,
                                void **ptr)
{
    struct graph *graph = stream->capture->graph;
    if (stream->capture->invalidated) {
        return cudaErrorStreamCaptureInvalidated;
    }
    if (pool->device == NULL || size > pool->device->memory) {
        return pool->device == NULL ? cudaErrorNotSupported : cudaErrorMemoryAllocation;
    }
    struct graph_block *block = block_new(graph, size);
    if (block == NULL) {
        return cudaErrorMemoryAllocation;
    }
    *ptr = (void *)block->range->va;
    const struct work work = {.kind = WORK_ALLOC, .dst = block->range->va, .size = size};
    return capture_work(stream, &work, NULL);
}

static void forget_range(struct graph_block *block)
{
    if (block->range != NULL) {
        range_remove(block->range);
        range_free(block->range);
        block->range = NULL;
    }
}

cudaError_t graph_capture_free(struct stream *stream, struct range *range)
{
    struct graph_block *block = range->graph_block;
    if (block->graph != stream->capture->graph) {
        return cudaErrorInvalidValue;
    }
    const struct work work = {.kind = WORK_FREE, .dst = range->va, .size = range->requested};
    cudaError_t err = capture_work(stream, &work, NULL);
    if (err == cudaSuccess) {
        block->freed_inside = true;
        forget_range(block);
    }
    return err;
}

/* What a launch allocated may be freed by cudaFreeAsync, or by cudaFree without a stream. */
cudaError_t graph_free_block(struct range *range, struct stream *stream, enum fn fn)
{
    struct graph_block *block = range->graph_block;
    if (!block->live) {
        return cudaErrorInvalidValue;
    }
    if (stream == NULL) {
        memory_retire(range->va, range->size, fn);
    } else {
        const struct work work = {.kind = WORK_FREE, .dst = range->va, .size = range->requested};
        engine_enqueue(stream, &work, fn);
    }
    block->live = false;
    forget_range(block);
    return cudaSuccess;
}

static void block_release(struct graph_block *block)
{
    forget_range(block);
    checker_forget(block->chunk->va, block->chunk->size);
    chunk_remove(block->chunk);
    physical_release(block->chunk->physical);
    arena_free(false, block->chunk->segment);
    range_free(block->chunk);
    free(block);
}

static void give_back(struct graph *graph)
{
    struct graph_memory *memory = &memory_of[graph->device->id];
    memory->used -= graph->reserved;
    memory->reserved -= graph->reserved;
    device_refund(graph->device, graph->reserved);
    graph->reserved = 0;
}

void graph_memory_release(struct graph *graph)
{
    for (struct graph_block *block = graph->blocks, *next; block != NULL; block = next) {
        next = block->next;
        block_release(block);
    }
    graph->blocks = NULL;
    give_back(graph);
}

static bool any_live(const struct graph *graph)
{
    for (const struct graph_block *b = graph->blocks; b != NULL; b = b->next) {
        if (b->live) {
            return true;
        }
    }
    return false;
}

static cudaError_t reserve(struct graph *graph)
{
    size_t size = 0;
    for (const struct graph_block *b = graph->blocks; b != NULL; b = b->next) {
        size += b->chunk->size;
    }
    size = steps(size);
    if (graph->reserved >= size) {
        return cudaSuccess;
    }
    if (!device_has_room(graph->device, size)) {
        pools_give_back(graph->device);
    }
    if (!device_has_room(graph->device, size)) {
        return cudaErrorMemoryAllocation;
    }
    struct graph_memory *memory = &memory_of[graph->device->id];
    graph->reserved = size;
    memory->used += size;
    memory->reserved += size;
    memory->used_high = max_size(memory->used_high, memory->used);
    memory->reserved_high = max_size(memory->reserved_high, memory->reserved);
    device_charge(graph->device, size);
    return cudaSuccess;
}

/* A block that is not freed inside must be free before the graph runs again. */
cudaError_t graph_memory_launch(struct graph *graph, unsigned long long flags)
{
    bool free_first = (flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0;
    if (any_live(graph) && !free_first) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = graph->blocks == NULL ? cudaSuccess : reserve(graph);
    if (err != cudaSuccess) {
        return err;
    }
    for (struct graph_block *b = graph->blocks; b != NULL; b = b->next) {
        if (b->freed_inside) {
            continue;
        }
        b->live = true;
        if (b->range == NULL) {
            b->range = range_new(b->chunk->va, b->chunk->size, RANGE_POOL, graph->device);
            if (b->range == NULL) {
                abort();
            }
            b->range->requested = b->size;
            b->range->chunk = b->chunk;
            b->range->graph_block = b;
            range_insert(b->range);
        }
    }
    return cudaSuccess;
}

static void trim_graph(void *slot, void *device)
{
    struct CUgraphExec_st *exec = slot;
    if (exec->graph->device == device && !any_live(exec->graph)) {
        give_back(exec->graph);
    }
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    BEGIN(cudaDeviceGraphMemTrim, 0);
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    handle_visit(HANDLE_EXEC, trim_graph, &devices[device]);
    END(cudaSuccess);
}

static size_t *attribute(struct graph_memory *memory, enum cudaGraphMemAttributeType attr)
{
    switch (attr) {
    case cudaGraphMemAttrUsedMemCurrent:
        return &memory->used;
    case cudaGraphMemAttrUsedMemHigh:
        return &memory->used_high;
    case cudaGraphMemAttrReservedMemCurrent:
        return &memory->reserved;
    case cudaGraphMemAttrReservedMemHigh:
        return &memory->reserved_high;
    default:
        return NULL;
    }
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    BEGIN(cudaDeviceGetGraphMemAttribute, 0);
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    const size_t *found = attribute(&memory_of[device], attr);
    if (value == NULL || found == NULL) {
        END(cudaErrorInvalidValue);
    }
    uint64_t number = *found;
    memcpy(value, &number, sizeof number);
    END(cudaSuccess);
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    BEGIN(cudaDeviceSetGraphMemAttribute, 0);
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    struct graph_memory *memory = &memory_of[device];
    uint64_t number = 1;
    if (value != NULL) {
        memcpy(&number, value, sizeof number);
    }
    if (number != 0) {
        END(cudaErrorInvalidValue); /* high marks can only be reset */
    }
    if (attr == cudaGraphMemAttrUsedMemHigh) {
        memory->used_high = memory->used;
    } else if (attr == cudaGraphMemAttrReservedMemHigh) {
        memory->reserved_high = memory->reserved;
    } else {
        END(cudaErrorInvalidValue);
    }
    END(cudaSuccess);
}
