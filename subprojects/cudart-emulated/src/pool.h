/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools: chunks of reserved memory, cut into blocks that are live or free. */
#ifndef EMULATED_POOL_H
#define EMULATED_POOL_H

#include "emulated.h"

#define POOL_STEP (32 * MIB)
#define POOL_BINS 48

#if CUDART_EMULATED_API_VERSION >= 13000
#define TYPE_MANAGED cudaMemAllocationTypeManaged
#else
#define TYPE_MANAGED ((enum cudaMemAllocationType)2)
#endif
#define LOCATION_HOST 2
#define LOCATION_HOST_NUMA 3
#define READ_WRITE 3

struct block {
    uintptr_t va;
    size_t size;
    struct chunk *chunk;
    struct block *left, *right; /* by address, in the chunk */
    struct block *bin_next, *bin_prev;
    bool live;
    struct range *range; /* while live */
    struct op *freed;    /* the free that must run before others may have it; NULL: settled */
    uint64_t freed_stream;
    struct device *freed_device;
    struct block *pending_next, *pending_prev;
};

struct chunk {
    struct chunk *next, *prev;
    struct pool *pool;
    struct range *range;
    struct block *first;
    size_t free_bytes;
};

struct pool {
    struct CUmemPool_slot *handle; /* NULL once destroyed */
    struct pool *next, *prev;
    struct device *device; /* NULL: host memory */
    enum cudaMemAllocationType type;
    enum cudaMemAllocationHandleType handle_types;
    bool is_default;
    unsigned char access[MAX_DEVICES];
    size_t max_size;
    uint64_t threshold;
    int follow, opportunistic, internal;
    size_t used, used_high, reserved, reserved_high;
    size_t live;
    struct block *pending; /* freed, not settled */
    struct chunk *chunks;
    struct block *bins[POOL_BINS];
};

struct CUmemPool_slot {
    uint32_t magic;
    struct pool *pool;
};

extern struct pool *pools;

struct pool *pool_find(cudaMemPool_t handle);
bool pool_on_host(const struct pool *pool);
cudaError_t pool_allocate(struct pool *pool, size_t size, struct stream *stream, void **ptr,
                          enum fn fn);
cudaError_t pool_free(struct range *range, struct stream *stream, enum fn fn);
void pool_trim(struct pool *pool, size_t keep);
void pool_settle(struct pool *pool, bool (*settled)(const struct block *, void *), void *user_data);
void pool_drop_chunks(struct pool *pool);
void pool_destroy_if_unused(struct pool *pool);

#endif
