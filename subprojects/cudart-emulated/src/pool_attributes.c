/* SPDX-License-Identifier: Apache-2.0 */
/* What can be asked of a pool and set on it: attributes, access, handles for others. */
#include "pool.h"

#include <string.h>
#include <sys/mman.h>

static int *switch_of(struct pool *pool, enum cudaMemPoolAttr attr)
{
    switch (attr) {
    case cudaMemPoolReuseFollowEventDependencies:
        return &pool->follow;
    case cudaMemPoolReuseAllowOpportunistic:
        return &pool->opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies:
        return &pool->internal;
    default:
        return NULL;
    }
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    BEGIN(cudaMemPoolGetAttribute, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = value == NULL ? NULL : pool_find(memPool);
    if (pool == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (switch_of(pool, attr) != NULL) {
        memcpy(value, switch_of(pool, attr), sizeof(int));
        END(cudaSuccess);
    }
    uint64_t number;
    switch (attr) {
    case cudaMemPoolAttrReleaseThreshold:
        number = pool->threshold;
        break;
    case cudaMemPoolAttrReservedMemCurrent:
        number = pool->reserved;
        break;
    case cudaMemPoolAttrReservedMemHigh:
        number = pool->reserved_high;
        break;
    case cudaMemPoolAttrUsedMemCurrent:
        number = pool->used;
        break;
    case cudaMemPoolAttrUsedMemHigh:
        number = pool->used_high;
        break;
    default:
        END(cudaErrorInvalidValue);
    }
    memcpy(value, &number, sizeof number);
    END(cudaSuccess);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    BEGIN(cudaMemPoolSetAttribute, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = value == NULL ? NULL : pool_find(memPool);
    uint64_t number;
    if (pool == NULL) {
        END(cudaErrorInvalidValue);
    }
    int *flag = switch_of(pool, attr);
    if (flag != NULL) {
        memcpy(flag, value, sizeof *flag);
        *flag = *flag != 0;
        END(cudaSuccess);
    }
    if (attr == cudaMemPoolAttrReleaseThreshold) {
        memcpy(&pool->threshold, value, sizeof pool->threshold);
        END(cudaSuccess);
    }
    if (attr != cudaMemPoolAttrReservedMemHigh && attr != cudaMemPoolAttrUsedMemHigh) {
        END(cudaErrorInvalidValue);
    }
    memcpy(&number, value, sizeof number);
    if (number != 0) {
        END(cudaErrorInvalidValue);
    }
    if (attr == cudaMemPoolAttrReservedMemHigh) {
        pool->reserved_high = pool->reserved;
    } else {
        pool->used_high = pool->used;
    }
    END(cudaSuccess);
}

static cudaError_t check_access(const struct pool *pool, const struct cudaMemAccessDesc *desc)
{
    const int flags = (int)desc->flags;
    if (desc->location.type != cudaMemLocationTypeDevice) {
        return cudaErrorNotSupported;
    }
    if (!device_valid(desc->location.id)) {
        return cudaErrorInvalidDevice;
    }
    bool owner = pool->device == &devices[desc->location.id];
    if (flags == cudaMemAccessFlagsProtRead) {
        return cudaErrorNotSupported;
    }
    if (flags != cudaMemAccessFlagsProtNone && flags != READ_WRITE) {
        return cudaErrorInvalidValue;
    }
    if (owner && flags == cudaMemAccessFlagsProtNone) {
        return cudaErrorInvalidDevice;
    }
    return !owner && pool->device != NULL && config.no_peers && flags != 0 ? cudaErrorInvalidDevice
                                                                           : cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
                                 size_t count)
{
    BEGIN(cudaMemPoolSetAccess, 0);
    err = capture_guard();
    if (err != cudaSuccess) {
        END(err);
    }
    struct pool *pool = pool_find(memPool);
    if (pool == NULL || (descList == NULL && count != 0)) {
        END(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < count; i++) {
        err = check_access(pool, &descList[i]);
        if (err != cudaSuccess) {
            END(err);
        }
    }
    for (size_t i = 0; i < count; i++) {
        pool->access[descList[i].location.id] = (unsigned char)descList[i].flags;
    }
    END(cudaSuccess);
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    BEGIN(cudaMemPoolGetAccess, 0);
    const struct pool *pool = pool_find(memPool);
    if (pool == NULL || flags == NULL || location == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (location->type == cudaMemLocationTypeDevice) {
        if (!device_valid(location->id)) {
            END(cudaErrorInvalidDevice);
        }
        *flags = (enum cudaMemAccessFlags)pool->access[location->id];
        END(cudaSuccess);
    }
    if ((int)location->type != LOCATION_HOST && (int)location->type != LOCATION_HOST_NUMA) {
        END(cudaErrorInvalidValue);
    }
    *flags = pool_on_host(pool) || pool->type == TYPE_MANAGED ? cudaMemAccessFlagsProtReadWrite
                                                              : cudaMemAccessFlagsProtNone;
    END(cudaSuccess);
}

/* A file that stands for the pool; nothing can be made of it. */
cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType handleType,
                                               unsigned int flags)
{
    BEGIN(cudaMemPoolExportToShareableHandle, 0);
    const struct pool *pool = pool_find(memPool);
    if (pool == NULL || shareableHandle == NULL || flags != 0 || pool->handle_types != handleType ||
        handleType != cudaMemHandleTypePosixFileDescriptor) {
        END(cudaErrorInvalidValue);
    }
    int fd = memfd_create("cudart-emulated-pool", MFD_CLOEXEC);
    if (fd == -1) {
        END(cudaErrorOperatingSystem);
    }
    memcpy(shareableHandle, &fd, sizeof fd);
    END(cudaSuccess);
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                 enum cudaMemAllocationHandleType handleType,
                                                 unsigned int flags)
{
    BEGIN(cudaMemPoolImportFromShareableHandle, 0);
    (void)shareableHandle;
    END(memPool == NULL || flags != 0 || handleType != cudaMemHandleTypePosixFileDescriptor
            ? cudaErrorInvalidValue
            : cudaErrorNotSupported);
}
