/* SPDX-License-Identifier: Apache-2.0 */
/* Device, managed and pinned memory, and what can be asked about a pointer. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>

#define PITCH 512u
#define LARGEST_HOST_BLOCK ((size_t)1 << 46)
#define SLAB (2 * MIB)

struct totals totals;

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

/* The driver takes small blocks from slabs, which is what cudaMemGetInfo shows. */
static void count_steps(struct device *device, size_t bytes, bool add)
{
    size_t *sum = bytes <= MIB ? &device->small : &device->large;
    size_t amount = bytes <= MIB ? bytes : round_up(bytes, SLAB);
    *sum = add ? *sum + amount : *sum - amount;
}

static cudaError_t allocate(void **ptr, size_t size, enum range_kind kind, unsigned flags)
{
    struct device *device = current_device();
    const bool host = kind != RANGE_DEVICE;
    *ptr = NULL;
    if (host ? size > LARGEST_HOST_BLOCK : size > device->memory) {
        return cudaErrorMemoryAllocation;
    }
    if (kind == RANGE_DEVICE && !device_has_room(device, size)) {
        pools_give_back(device);
        if (!device_has_room(device, size)) {
            return cudaErrorMemoryAllocation;
        }
    }
    size_t rounded = round_up(size, config.alignment);
    struct segment *segment = arena_alloc(host, rounded, config.alignment);
    if (segment == NULL) {
        return cudaErrorMemoryAllocation;
    }
    struct range *range = range_new(segment_va(segment), rounded, kind, device);
    if (range == NULL) {
        arena_free(host, segment);
        return cudaErrorMemoryAllocation;
    }
    range->requested = size;
    range->segment = segment;
    range->flags = flags;
    range_insert(range);
    *ptr = (void *)range->va;
    return cudaSuccess;
}

static void release(struct range *range)
{
    range_remove(range);
    physical_release(range->physical);
    checker_forget(range->va, range->size);
    if (range->segment != NULL) {
        arena_free(range->kind != RANGE_DEVICE, range->segment);
    }
    range_free(range);
}

static void wait_all_devices_if_asked(void)
{
    for (int d = 0; config.malloc_waits && d < config.devices; d++) {
        engine_wait_device(&devices[d]);
    }
}

cudaError_t device_malloc(void **ptr, size_t size)
{
    if (ptr == NULL) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        *ptr = NULL;
        return cudaSuccess;
    }
    cudaError_t err = capture_guard();
    if (err != cudaSuccess) {
        return err;
    }
    wait_all_devices_if_asked();
    err = allocate(ptr, size, RANGE_DEVICE, 0);
    if (err == cudaSuccess) {
        device_charge_block(current_device(), size);
        count_steps(current_device(), size, true);
    }
    return err;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    BEGIN(cudaMalloc, 0);
    engine_mischief();
    END(device_malloc(devPtr, size));
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    BEGIN(cudaMallocPitch, 0);
    if (devPtr == NULL || pitch == NULL) {
        END(cudaErrorInvalidValue);
    }
    *devPtr = NULL;
    if (width > SIZE_MAX - PITCH) {
        END(cudaErrorMemoryAllocation);
    }
    *pitch = round_up(width, PITCH);
    if (height != 0 && *pitch > SIZE_MAX / height) {
        END(cudaErrorMemoryAllocation);
    }
    END(device_malloc(devPtr, *pitch * height));
}

static cudaError_t malloc_managed(void **ptr, size_t size, unsigned flags)
{
    if (ptr == NULL || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) {
        return cudaErrorInvalidValue;
    }
    bool known;
    if (device_attribute(current_device()->id, cudaDevAttrManagedMemory, &known) == 0) {
        return cudaErrorNotSupported;
    }
    if (size == 0) {
        *ptr = NULL;
        return cudaSuccess;
    }
    cudaError_t err = capture_guard();
    if (err != cudaSuccess) {
        return err;
    }
    wait_all_devices_if_asked();
    err = allocate(ptr, size, RANGE_MANAGED, flags);
    if (err == cudaSuccess) {
        device_charge_block(current_device(), size);
        current_device()->managed += size;
    }
    return err;
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    BEGIN(cudaMallocManaged, 0);
    engine_mischief();
    END(malloc_managed(devPtr, size, flags));
}

static void free_block(struct range *range)
{
    device_refund_block(range->device, range->requested);
    if (range->kind == RANGE_MANAGED) {
        range->device->managed -= range->requested;
    } else {
        count_steps(range->device, range->requested, false);
    }
    release(range);
}

static struct range *block_at(uintptr_t va)
{
    struct range *range = range_find(va);
    bool block = range != NULL && range->va == va &&
                 (range->kind == RANGE_DEVICE || range->kind == RANGE_MANAGED);
    return block ? range : NULL;
}

/* Waits for the whole device that owns the memory; documentation promises as much of nothing else.
 */
static cudaError_t free_waiting(struct range *range, enum fn fn)
{
    struct device *device = range->device;
    uint64_t serial = range->serial;
    uintptr_t va = range->va;
    if (config.free_waits) {
        engine_wait_device(device);
        if (CHECKER_ON) {
            checker_join_host_device(device);
        }
        range = block_at(va); /* another thread may have freed it meanwhile */
        if (range == NULL || range->serial != serial) {
            return cudaErrorInvalidValue;
        }
    }
    memory_retire(va, range->size, fn);
    free_block(range);
    return cudaSuccess;
}

cudaError_t device_free(void *ptr, enum fn fn)
{
    cudaError_t err = capture_guard();
    if (err != cudaSuccess || ptr == NULL) {
        return err;
    }
    struct range *range = range_find((uintptr_t)ptr);
    if (range != NULL && range->kind == RANGE_POOL) {
        return pool_free_now(range, (uintptr_t)ptr, fn);
    }
    range = block_at((uintptr_t)ptr);
    return range == NULL ? cudaErrorInvalidValue : free_waiting(range, fn);
}

/* In stream order, for cudaFreeAsync of a block that came from cudaMalloc. */
bool malloc_owns(uintptr_t va, bool *managed)
{
    struct range *range = block_at(va);
    *managed = range != NULL && range->kind == RANGE_MANAGED;
    return range != NULL;
}

void malloc_free_quietly(uintptr_t va)
{
    struct range *range = block_at(va);
    if (range != NULL) {
        free_block(range);
    }
}

cudaError_t cudaFree(void *devPtr)
{
    BEGIN(cudaFree, 0);
    engine_mischief();
    END(device_free(devPtr, this_fn));
}

static cudaError_t malloc_host(void **ptr, size_t size, unsigned flags)
{
    const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
    if (ptr == NULL || (flags & ~known) != 0) {
        return cudaErrorInvalidValue;
    }
    if (size == 0) {
        *ptr = NULL;
        return cudaSuccess;
    }
    cudaError_t err = capture_guard();
    if (err != cudaSuccess) {
        return err;
    }
    wait_all_devices_if_asked();
    err = allocate(ptr, size, RANGE_PINNED, flags);
    if (err == cudaSuccess) {
        totals.pinned += size;
        totals.pinned_peak =
            totals.pinned > totals.pinned_peak ? totals.pinned : totals.pinned_peak;
    }
    return err;
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    BEGIN(cudaMallocHost, 0);
    engine_mischief();
    END(malloc_host(ptr, size, 0));
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    BEGIN(cudaHostAlloc, 0);
    engine_mischief();
    END(malloc_host(pHost, size, flags));
}

static void wait_for_host_memory(void)
{
    for (int d = 0; config.host_free_waits && d < config.devices; d++) {
        engine_wait_device(&devices[d]);
        if (CHECKER_ON) {
            checker_join_host_device(&devices[d]);
        }
    }
}

cudaError_t cudaFreeHost(void *ptr)
{
    BEGIN(cudaFreeHost, 0);
    engine_mischief();
    err = capture_guard();
    if (err != cudaSuccess || ptr == NULL) {
        END(err);
    }
    struct range *range = range_find((uintptr_t)ptr);
    if (range == NULL || range->kind != RANGE_PINNED || range->va != (uintptr_t)ptr) {
        END(cudaErrorInvalidValue);
    }
    wait_for_host_memory();
    range = range_find((uintptr_t)ptr);
    if (range == NULL || range->va != (uintptr_t)ptr) {
        END(cudaErrorInvalidValue);
    }
    memory_retire(range->va, range->size, this_fn);
    totals.pinned -= range->requested;
    release(range);
    END(cudaSuccess);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    BEGIN(cudaHostRegister, 0);
    uintptr_t va = (uintptr_t)ptr;
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    if (ptr == NULL || size == 0 || va + size < va || flags > 15) {
        END(cudaErrorInvalidValue);
    }
    struct range *next = range_next(va);
    if (next != NULL && next->va < va + size) {
        END(cudaErrorHostMemoryAlreadyRegistered);
    }
    struct range *range = range_new(va, size, RANGE_REGISTERED, current_device());
    if (range == NULL) {
        END(cudaErrorMemoryAllocation);
    }
    range->flags = flags;
    range_insert(range);
    END(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *ptr)
{
    BEGIN(cudaHostUnregister, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct range *range = range_find((uintptr_t)ptr);
    if (range == NULL || range->kind != RANGE_REGISTERED) {
        END(ptr == NULL ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered);
    }
    if (range->va != (uintptr_t)ptr) {
        END(cudaErrorInvalidValue);
    }
    wait_for_host_memory(); /* gives the lock up: another thread may have been faster */
    range = range_find((uintptr_t)ptr);
    if (range == NULL || range->kind != RANGE_REGISTERED || range->va != (uintptr_t)ptr) {
        END(cudaErrorHostMemoryNotRegistered);
    }
    memory_retire(range->va, range->size, this_fn);
    release(range);
    END(cudaSuccess);
}

static bool pinned(const struct range *range)
{
    return range != NULL && (range->kind == RANGE_PINNED || range->kind == RANGE_REGISTERED);
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    BEGIN(cudaHostGetDevicePointer, 0);
    if (pDevice == NULL || flags != 0 || !pinned(range_find((uintptr_t)pHost))) {
        END(cudaErrorInvalidValue);
    }
    *pDevice = pHost;
    END(cudaSuccess);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    BEGIN(cudaHostGetFlags, 0);
    const struct range *range = range_find((uintptr_t)pHost);
    if (pFlags == NULL || !pinned(range)) {
        END(cudaErrorInvalidValue);
    }
    /* One address space: always mapped, and portable without being so called. */
    *pFlags = (range->flags & ~(unsigned)cudaHostAllocPortable) | cudaHostAllocMapped;
    END(cudaSuccess);
}

cudaError_t mem_get_info(size_t *free_bytes, size_t *total_bytes)
{
    const struct device *device = current_device();
    size_t blocks = device->small <= SLAB ? SLAB : round_up(device->small, SLAB);
    size_t others = device->physical - device->blocks;
    size_t used = blocks + device->large + others;
    if (free_bytes != NULL) {
        *free_bytes = used > device->memory ? 0 : device->memory - used;
    }
    if (total_bytes != NULL) {
        *total_bytes = device->memory;
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    BEGIN(cudaMemGetInfo, 0);
    END(mem_get_info(free, total));
}

static void describe(struct cudaPointerAttributes *attributes, struct range *range, void *ptr)
{
    attributes->type = cudaMemoryTypeHost;
    attributes->device = range->device->id;
    attributes->devicePointer = ptr;
    attributes->hostPointer = ptr;
    switch (range->kind) {
    case RANGE_MANAGED:
        attributes->type = cudaMemoryTypeManaged;
        break;
    case RANGE_PINNED:
    case RANGE_REGISTERED:
        break;
    case RANGE_POOL:
        attributes->type = pool_memory_type(range->pool);
        if (attributes->type == cudaMemoryTypeDevice) {
            attributes->hostPointer = NULL;
        }
        attributes->devicePointer = range_accessible(range, current_device()) ? ptr : NULL;
        break;
    default:
        attributes->type = cudaMemoryTypeDevice;
        attributes->hostPointer = NULL;
        attributes->devicePointer = range_accessible(range, current_device()) ? ptr : NULL;
    }
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    BEGIN(cudaPointerGetAttributes, 0);
    if (attributes == NULL) {
        END(cudaErrorInvalidValue);
    }
    memset(attributes, 0, sizeof *attributes);
    void *address;
    memcpy(&address, &ptr, sizeof address);
    struct range *range = range_find((uintptr_t)ptr);
    bool past = range != NULL && (uintptr_t)ptr - range->va >= range->requested;
    if (range != NULL && range->kind == RANGE_POOL &&
        pool_check(range, (uintptr_t)ptr, 1, NULL) != cudaSuccess) {
        past = true;
    }
    if (range == NULL || past) {
        attributes->device = cudaInvalidDeviceId;
        attributes->hostPointer = address;
        END(cudaSuccess);
    }
    describe(attributes, range, address);
    END(cudaSuccess);
}

static void reset_range(struct range *range)
{
    if (range->kind == RANGE_DEVICE || range->kind == RANGE_MANAGED) {
        free_block(range);
        return;
    }
    if (range->kind == RANGE_PINNED) {
        totals.pinned -= range->requested;
    }
    release(range);
}

/* Everything that was allocated while the device was current. */
void malloc_reset_device(struct device *device)
{
    uintptr_t va = 0;
    struct range *range;
    while ((range = range_next(va)) != NULL) {
        va = range->va + range->size;
        bool ours = range->kind != RANGE_POOL && range->kind != RANGE_MAPPED;
        if (ours && range->device == device) {
            reset_range(range);
        }
    }
}
