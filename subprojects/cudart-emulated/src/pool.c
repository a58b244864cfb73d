/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools as objects: making, attributes, access, and what synchronisation means for them. */
#include "pool.h"

#include "graph.h"

#include <stdlib.h>

struct pool *pools;
static struct pool *host_default;

bool pool_on_host(const struct pool *pool)
{
    return pool->device == NULL;
}

bool pool_accessible(const struct pool *pool, const struct device *from)
{
    if (pool == NULL || pool->type == TYPE_MANAGED || from == NULL) {
        return true;
    }
    return pool->access[from->id] == READ_WRITE;
}

enum cudaMemoryType pool_memory_type(const struct pool *pool)
{
    if (pool == NULL) {
        return cudaMemoryTypeDevice;
    }
    return pool->type == TYPE_MANAGED ? cudaMemoryTypeManaged
           : pool_on_host(pool)       ? cudaMemoryTypeHost
                                      : cudaMemoryTypeDevice;
}

cudaError_t pool_check(const struct range *range, uintptr_t va, size_t size,
                       const struct device *from)
{
    size_t offset = va - range->va;
    if (offset >= range->requested || size > range->requested - offset) {
        return cudaErrorInvalidValue;
    }
    bool reachable = range->pool != NULL ? pool_accessible(range->pool, from)
                                         : from == NULL || from == range->device;
    return reachable ? cudaSuccess : cudaErrorInvalidValue;
}

static struct pool *pool_new(struct device *device, enum cudaMemAllocationType type)
{
    struct CUmemPool_slot *handle = handle_new(HANDLE_POOL);
    struct pool *pool = calloc(1, sizeof *pool);
    if (handle == NULL || pool == NULL) {
        if (handle != NULL) {
            handle_free(HANDLE_POOL, handle);
        }
        free(pool);
        return NULL;
    }
    handle->pool = pool;
    pool->handle = handle;
    pool->device = device;
    pool->type = type;
    pool->follow = pool->opportunistic = pool->internal = 1;
    if (device != NULL) {
        pool->access[device->id] = READ_WRITE;
    }
    pool->next = pools;
    if (pools != NULL) {
        pools->prev = pool;
    }
    pools = pool;
    return pool;
}

static struct pool *default_pool(struct pool **slot, struct device *device,
                                 enum cudaMemAllocationType type)
{
    if (*slot == NULL) {
        *slot = pool_new(device, type);
        if (*slot != NULL) {
            (*slot)->is_default = true;
        }
    }
    return *slot;
}

static struct pool *device_default(struct device *device)
{
    return default_pool(&device->default_pool, device, cudaMemAllocationTypePinned);
}

static struct pool *device_current(struct device *device)
{
    return device->current_pool != NULL ? device->current_pool : device_default(device);
}

static cudaMemPool_t handle_of(const struct pool *pool)
{
    return (cudaMemPool_t)(void *)pool->handle;
}

struct pool *pool_find(cudaMemPool_t handle)
{
    struct CUmemPool_slot *found = handle_check(HANDLE_POOL, handle);
    return found == NULL ? NULL : found->pool;
}

static bool pools_supported(int device)
{
    bool known;
    return device_attribute(device, cudaDevAttrMemoryPoolsSupported, &known) != 0;
}

static void unlink_pool(struct pool *pool)
{
    if (pool->prev != NULL) {
        pool->prev->next = pool->next;
    } else {
        pools = pool->next;
    }
    if (pool->next != NULL) {
        pool->next->prev = pool->prev;
    }
    free(pool);
}

/* Blocks may outlive the handle; the memory goes with the last of them. */
void pool_destroy_if_unused(struct pool *pool)
{
    if (pool->handle != NULL || pool->live != 0) {
        return;
    }
    for (const struct block *b = pool->pending; b != NULL; b = b->pending_next) {
        if (!op_done(b->freed)) {
            return; /* looked at again when something has been waited for */
        }
    }
    pool_drop_chunks(pool);
    unlink_pool(pool);
}

void pools_give_back(struct device *device)
{
    for (struct pool *pool = pools; pool != NULL; pool = pool->next) {
        if (pool->device == device) {
            pool_trim(pool, 0);
        }
    }
}

/* ---- synchronisation ---- */

static void settle_all(bool (*settled)(const struct block *, void *), void *user_data)
{
    for (struct pool *pool = pools, *next; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->pending != NULL) {
            pool_settle(pool, settled, user_data);
        }
        if (pool->reserved > pool->threshold) {
            pool_trim(pool, (size_t)pool->threshold);
        }
        pool_destroy_if_unused(pool);
    }
}

static bool of_stream(const struct block *block, void *user_data)
{
    const struct stream *stream = user_data;
    if (block->freed_stream == stream->id) {
        return true;
    }
    for (const struct stream *s = stream->device->streams; stream->legacy && s != NULL;
         s = s->next) {
        if (s->blocking && s->id == block->freed_stream) {
            return true;
        }
    }
    return false;
}

void pool_stream_synchronized(struct stream *stream)
{
    settle_all(of_stream, stream);
}

static bool of_device(const struct block *block, void *device)
{
    return block->freed_device == device;
}

void pool_device_synchronized(struct device *device)
{
    settle_all(of_device, device);
}

static bool before_op(const struct block *block, void *user_data)
{
    const struct op *op = user_data;
    return block->freed_stream == op->stream_id && block->freed->seq <= op->seq;
}

void pool_op_synchronized(struct op *op)
{
    settle_all(before_op, op);
}

static bool any_done(const struct block *block, void *unused)
{
    (void)block, (void)unused;
    return true;
}

/* ---- calls ---- */

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    BEGIN(cudaDeviceGetDefaultMemPool, 0);
    if (memPool == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (!device_valid(device)) {
        END(cudaErrorInvalidDevice);
    }
    if (!pools_supported(device)) {
        END(cudaErrorNotSupported);
    }
    const struct pool *pool = device_default(&devices[device]);
    if (pool == NULL) {
        END(cudaErrorMemoryAllocation);
    }
    *memPool = handle_of(pool);
    END(cudaSuccess);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    BEGIN(cudaDeviceGetMemPool, 0);
    if (memPool == NULL || !device_valid(device)) {
        END(cudaErrorInvalidValue);
    }
    if (!pools_supported(device)) {
        END(cudaErrorNotSupported);
    }
    const struct pool *pool = device_current(&devices[device]);
    if (pool == NULL) {
        END(cudaErrorMemoryAllocation);
    }
    *memPool = handle_of(pool);
    END(cudaSuccess);
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    BEGIN(cudaDeviceSetMemPool, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = pool_find(memPool);
    if (!device_valid(device) || pool == NULL || pool->device != &devices[device] ||
        pool->type != cudaMemAllocationTypePinned) {
        END(cudaErrorInvalidValue);
    }
    devices[device].current_pool = pool->is_default ? NULL : pool;
    END(cudaSuccess);
}

/* The device of a location, NULL for the host; false if there is no such place. */
static bool locate(const struct cudaMemLocation *location, enum cudaMemAllocationType type,
                   struct device **device)
{
    *device = NULL;
    switch ((int)location->type) {
    case cudaMemLocationTypeDevice:
        if (!device_valid(location->id)) {
            return false;
        }
        *device = &devices[location->id];
        return true;
    case LOCATION_HOST:
        return true;
    case LOCATION_HOST_NUMA:
        return location->id == 0;
    case 0:
        return type == TYPE_MANAGED;
    default:
        return false;
    }
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    BEGIN(cudaMemPoolCreate, 0);
    struct device *device;
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    if (memPool == NULL || poolProps == NULL) {
        END(cudaErrorInvalidValue);
    }
    const unsigned handles = (unsigned)poolProps->handleTypes;
    if ((poolProps->allocType != cudaMemAllocationTypePinned &&
         poolProps->allocType != TYPE_MANAGED) ||
        (handles != 0 && handles != 1 && handles != 8) ||
        !locate(&poolProps->location, poolProps->allocType, &device)) {
        END(cudaErrorInvalidValue);
    }
    if (!pools_supported(device == NULL ? current_device()->id : device->id)) {
        END(cudaErrorNotSupported);
    }
    bool known;
    if (handles != 0 && (device_attribute(device == NULL ? 0 : device->id,
                                          cudaDevAttrMemoryPoolSupportedHandleTypes, &known) &
                         (int)handles) == 0) {
        END(cudaErrorNotSupported);
    }
    if (poolProps->allocType == TYPE_MANAGED && device == NULL) {
        device = current_device();
    }
    struct pool *pool = pool_new(device, poolProps->allocType);
    if (pool == NULL) {
        END(cudaErrorMemoryAllocation);
    }
    pool->handle_types = poolProps->handleTypes;
    pool->max_size = (poolProps->maxSize + POOL_STEP - 1) / POOL_STEP * POOL_STEP;
    *memPool = handle_of(pool);
    END(cudaSuccess);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    BEGIN(cudaMemPoolDestroy, CALL_STICKY_OK);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = pool_find(memPool);
    if (pool == NULL || pool->is_default) {
        END(cudaErrorInvalidValue);
    }
    handle_free(HANDLE_POOL, pool->handle);
    pool->handle = NULL;
    for (int d = 0; d < MAX_DEVICES; d++) {
        if (devices[d].current_pool == pool) {
            devices[d].current_pool = NULL;
        }
    }
    pool_destroy_if_unused(pool);
    END(cudaSuccess);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    BEGIN(cudaMemPoolTrimTo, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = pool_find(memPool);
    if (pool == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (pool->opportunistic) { /* what a GPU has done by now without being asked */
        for (const struct block *b = pool->pending; b != NULL; b = b->pending_next) {
            if (!op_done(b->freed)) {
                engine_need(b->freed->stream, b->freed->seq);
            }
        }
        engine_pump_locked();
    }
    for (struct block *b = pool->pending; b != NULL; b = b->pending_next) {
        if (op_done(b->freed) && CHECKER_ON) {
            checker_join_host_op(b->freed); /* the memory itself goes; the driver has looked */
        }
    }
    pool_settle(pool, any_done, NULL);
    pool_trim(pool, minBytesToKeep);
    END(cudaSuccess);
}

#if CUDART_EMULATED_API_VERSION >= 13000
static cudaError_t default_of(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              struct pool **pool)
{
    struct device *device;
    if (location == NULL ||
        (type != cudaMemAllocationTypePinned && type != cudaMemAllocationTypeManaged) ||
        !locate(location, type, &device)) {
        return cudaErrorInvalidValue;
    }
    if (type == cudaMemAllocationTypeManaged) {
        device = device == NULL ? current_device() : device;
        *pool = default_pool(&device->managed_pool, device, type);
    } else {
        *pool = device != NULL ? device_default(device) : default_pool(&host_default, NULL, type);
    }
    return *pool == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    BEGIN(cudaMemGetDefaultMemPool, 0);
    struct pool *pool;
    err = memPool == NULL ? cudaErrorInvalidValue : default_of(location, type, &pool);
    if (err == cudaSuccess) {
        *memPool = handle_of(pool);
    }
    END(err);
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    BEGIN(cudaMemGetMemPool, 0);
    struct pool *pool;
    err = memPool == NULL ? cudaErrorInvalidValue : default_of(location, type, &pool);
    if (err == cudaSuccess && pool->device != NULL && type == cudaMemAllocationTypePinned) {
        pool = device_current(pool->device);
    }
    if (err == cudaSuccess) {
        *memPool = handle_of(pool);
    }
    END(err);
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t memPool)
{
    BEGIN(cudaMemSetMemPool, 0);
    struct pool *wanted;
    err = default_of(location, type, &wanted);
    const struct pool *pool = err == cudaSuccess ? pool_find(memPool) : NULL;
    if (err != cudaSuccess || pool == NULL || pool->device != wanted->device ||
        pool->type != type) {
        END(cudaErrorInvalidValue);
    }
    if (type != cudaMemAllocationTypePinned || pool->device == NULL) {
        END(pool == wanted ? cudaSuccess : cudaErrorNotSupported);
    }
    pool->device->current_pool = pool->is_default ? NULL : pool_find(memPool);
    END(cudaSuccess);
}
#endif

static cudaError_t malloc_async(void **ptr, size_t size, struct pool *pool, cudaStream_t handle,
                                enum fn fn)
{
    struct stream *stream;
    if (ptr == NULL) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = stream_find(handle, &stream);
    if (err != cudaSuccess) {
        return err;
    }
    if (!pools_supported(stream->device->id)) {
        return cudaErrorNotSupported;
    }
    *ptr = NULL;
    if (size == 0) {
        return cudaSuccess;
    }
    pool = pool != NULL ? pool : device_current(stream->device);
    if (pool == NULL) {
        return cudaErrorMemoryAllocation;
    }
    if (stream->capture != NULL) {
        return graph_capture_alloc(stream, pool, size, ptr);
    }
    err = capture_guard();
    if (err == cudaSuccess) {
        err = capture_guard_legacy(stream);
    }
    return err != cudaSuccess ? err : pool_allocate(pool, size, stream, ptr, fn);
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    BEGIN(cudaMallocAsync, 0);
    engine_mischief();
    END(malloc_async(devPtr, size, NULL, hStream, this_fn));
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream)
{
    BEGIN(cudaMallocFromPoolAsync, 0);
    engine_mischief();
    struct pool *pool = pool_find(memPool);
    END(pool == NULL ? cudaErrorInvalidValue : malloc_async(ptr, size, pool, stream, this_fn));
}

/* A block of cudaMalloc goes in stream order too. */
static cudaError_t free_block_async(struct range *range, struct stream *stream, enum fn fn)
{
    if (range->freeing) {
        return cudaErrorInvalidValue;
    }
    range->freeing = true;
    const struct work work = {
        .kind = WORK_FREE, .dst = range->va, .size = range->requested, .dst_serial = range->serial};
    return stream_submit(stream, &work, fn);
}

static cudaError_t free_async(void *ptr, cudaStream_t handle, enum fn fn)
{
    struct stream *stream;
    if (ptr == NULL) {
        return cudaSuccess;
    }
    cudaError_t err = stream_find(handle, &stream);
    if (err != cudaSuccess) {
        return err;
    }
    struct range *range = range_find((uintptr_t)ptr);
    bool start = range != NULL && range->va == (uintptr_t)ptr;
    if (stream->capture != NULL) {
        return !start || range->graph_block == NULL ? cudaErrorInvalidValue
                                                    : graph_capture_free(stream, range);
    }
    err = capture_guard();
    if (err == cudaSuccess) {
        err = capture_guard_legacy(stream);
    }
    if (err != cudaSuccess || !start) {
        return err != cudaSuccess ? err : cudaErrorInvalidValue;
    }
    switch (range->kind) {
    case RANGE_POOL: {
        struct pool *pool = range->pool;
        if (range->graph_block != NULL) {
            return graph_free_block(range, stream, fn);
        }
        err = pool_free(range, stream, fn);
        pool_destroy_if_unused(pool);
        return err;
    }
    case RANGE_DEVICE:
        return free_block_async(range, stream, fn);
    case RANGE_MANAGED:
        return cudaErrorNotSupported;
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    BEGIN(cudaFreeAsync, 0);
    engine_mischief();
    END(free_async(devPtr, hStream, this_fn));
}

/* As in a new process: no pool at all. */
void pools_reset(void)
{
    while (pools != NULL) {
        struct pool *pool = pools;
        pool_drop_chunks(pool);
        if (pool->handle != NULL) {
            handle_free(HANDLE_POOL, pool->handle);
        }
        unlink_pool(pool);
    }
    host_default = NULL;
    for (int d = 0; d < MAX_DEVICES; d++) {
        devices[d].default_pool = NULL;
        devices[d].managed_pool = NULL;
        devices[d].current_pool = NULL;
    }
}
