/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetch and advice: accepted, remembered, and told again when asked. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>

/* Kept for each block as a whole. */
struct advice {
    bool read_mostly;
    struct cudaMemLocation preferred, prefetched;
    bool accessed_by[MAX_DEVICES + 1]; /* the last one is the host */
};

#if CUDART_EMULATED_API_VERSION >= 12020
#define HOST_LOCATION cudaMemLocationTypeHost
#else
#define HOST_LOCATION ((enum cudaMemLocationType)2)
#endif
#define HOST_NUMA 3
#define HOST_NUMA_CURRENT 4

/* The managed block that holds the range, or none where pageable memory will do. */
static cudaError_t find(uintptr_t va, size_t size, struct range **range)
{
    if (size == 0 || va == 0) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = memory_check(va, size, false, NULL, range);
    if (err != cudaSuccess) {
        return cudaErrorInvalidValue;
    }
    if (*range == NULL) {
        return pageable_access(current_device()) ? cudaSuccess : cudaErrorInvalidValue;
    }
    bool managed =
        (*range)->kind == RANGE_MANAGED ||
        ((*range)->kind == RANGE_POOL && pool_memory_type((*range)->pool) == cudaMemoryTypeManaged);
    return managed ? cudaSuccess : cudaErrorInvalidValue;
}

static struct advice *advice_of(struct range *range)
{
    if (range->advice == NULL) {
        range->advice = calloc(1, sizeof *range->advice);
        if (range->advice != NULL) {
            range->advice->preferred = (struct cudaMemLocation){0, cudaInvalidDeviceId};
            range->advice->prefetched = (struct cudaMemLocation){0, cudaInvalidDeviceId};
        }
    }
    return range->advice;
}

void managed_prefetched(const struct work *work)
{
    struct range *range = range_find(work->dst);
    if (range != NULL && range_backing(range)->serial == work->dst_serial &&
        advice_of(range) != NULL) {
        range->advice->prefetched =
            (struct cudaMemLocation){(enum cudaMemLocationType)work->src, work->value};
    }
}

static cudaError_t check_location(struct cudaMemLocation location, cudaError_t bad_device)
{
    switch ((int)location.type) {
    case cudaMemLocationTypeDevice:
        return device_valid(location.id) ? cudaSuccess : bad_device;
    case HOST_LOCATION:
    case HOST_NUMA_CURRENT:
        return cudaSuccess;
    case HOST_NUMA:
        return location.id == 0 ? cudaSuccess : cudaErrorInvalidValue;
    default:
        return cudaErrorInvalidValue;
    }
}

static cudaError_t prefetch(uintptr_t va, size_t size, struct cudaMemLocation location,
                            unsigned flags, cudaStream_t handle, enum fn fn)
{
    struct range *range;
    struct stream *stream;
    bool known;
    if (flags != 0) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = check_location(location, cudaErrorInvalidDevice);
    if (err == cudaSuccess) {
        err = find(va, size, &range);
    }
    if (err == cudaSuccess) {
        err = stream_find(handle, &stream);
    }
    if (err != cudaSuccess) {
        return err;
    }
    int target = location.type == cudaMemLocationTypeDevice ? location.id : stream->device->id;
    if (device_attribute(target, cudaDevAttrConcurrentManagedAccess, &known) == 0) {
        return cudaErrorInvalidDevice;
    }
    if (stream->capture != NULL) {
        return capture_refuse(stream);
    }
    struct work work = {.kind = WORK_PREFETCH,
                        .dst = va,
                        .size = size,
                        .src = (uintptr_t)location.type,
                        .value = location.type == cudaMemLocationTypeDevice ? location.id
                                                                            : cudaCpuDeviceId,
                        .dst_serial = range == NULL ? 0 : range_backing(range)->serial};
    return stream_submit(stream, &work, fn);
}

static cudaError_t advise(uintptr_t va, size_t size, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    struct range *range;
    cudaError_t err = capture_guard();
    if (err != cudaSuccess) {
        return err;
    }
    if ((int)advice < cudaMemAdviseSetReadMostly || (int)advice > cudaMemAdviseUnsetAccessedBy) {
        return cudaErrorInvalidValue;
    }
    bool located = advice == cudaMemAdviseSetPreferredLocation ||
                   advice == cudaMemAdviseSetAccessedBy || advice == cudaMemAdviseUnsetAccessedBy;
    err = located ? check_location(location, cudaErrorInvalidValue) : cudaSuccess;
    if (err == cudaSuccess) {
        err = find(va, size, &range);
    }
    if (err != cudaSuccess || range == NULL) {
        return err;
    }
    struct advice *known = advice_of(range);
    if (known == NULL) {
        return cudaErrorMemoryAllocation;
    }
    size_t who = location.type == cudaMemLocationTypeDevice ? (size_t)location.id : MAX_DEVICES;
    switch (advice) {
    case cudaMemAdviseSetReadMostly:
    case cudaMemAdviseUnsetReadMostly:
        known->read_mostly = advice == cudaMemAdviseSetReadMostly;
        break;
    case cudaMemAdviseSetPreferredLocation:
        known->preferred = location;
        if (location.type != cudaMemLocationTypeDevice) {
            known->preferred.id = cudaCpuDeviceId;
        }
        break;
    case cudaMemAdviseUnsetPreferredLocation:
        known->preferred = (struct cudaMemLocation){0, cudaInvalidDeviceId};
        break;
    default:
        known->accessed_by[who] = advice == cudaMemAdviseSetAccessedBy;
    }
    return cudaSuccess;
}

#if CUDART_EMULATED_API_VERSION >= 13000
cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    BEGIN(cudaMemPrefetchAsync, 0);
    END(prefetch((uintptr_t)devPtr, count, location, flags, stream, this_fn));
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    BEGIN(cudaMemAdvise, 0);
    END(advise((uintptr_t)devPtr, count, advice, location));
}
#else
static struct cudaMemLocation location_of(int device)
{
    return device == cudaCpuDeviceId ? (struct cudaMemLocation){HOST_LOCATION, 0}
                                     : (struct cudaMemLocation){cudaMemLocationTypeDevice, device};
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, int dstDevice,
                                 cudaStream_t stream)
{
    BEGIN(cudaMemPrefetchAsync, 0);
    END(prefetch((uintptr_t)devPtr, count, location_of(dstDevice), 0, stream, this_fn));
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          int device)
{
    BEGIN(cudaMemAdvise, 0);
    END(advise((uintptr_t)devPtr, count, advice, location_of(device)));
}
#endif

static cudaError_t accessed_by(const struct advice *advice, int *list, size_t count)
{
    size_t used = 0;
    for (int d = 0; advice != NULL && d <= MAX_DEVICES && used < count; d++) {
        if (advice->accessed_by[d]) {
            list[used++] = d == MAX_DEVICES ? cudaCpuDeviceId : d;
        }
    }
    for (; used < count; used++) {
        list[used] = cudaInvalidDeviceId;
    }
    return cudaSuccess;
}

static cudaError_t get_attribute(void *data, size_t bytes, enum cudaMemRangeAttribute attribute,
                                 uintptr_t va, size_t count)
{
    struct range *range;
    if (data == NULL || bytes == 0 || bytes % sizeof(int) != 0) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = find(va, count, &range);
    if (err != cudaSuccess) {
        return err;
    }
    const struct advice *advice = range == NULL ? NULL : range->advice;
    if (attribute == cudaMemRangeAttributeAccessedBy) {
        return accessed_by(advice, data, bytes / sizeof(int));
    }
    int value;
    switch (attribute) {
    case cudaMemRangeAttributeReadMostly:
        value = advice != NULL && advice->read_mostly;
        break;
    case cudaMemRangeAttributePreferredLocation:
    case cudaMemRangeAttributePreferredLocationId:
        value = advice == NULL ? cudaInvalidDeviceId : advice->preferred.id;
        break;
    case cudaMemRangeAttributeLastPrefetchLocation:
    case cudaMemRangeAttributeLastPrefetchLocationId:
        value = advice == NULL ? cudaInvalidDeviceId : advice->prefetched.id;
        break;
    case cudaMemRangeAttributePreferredLocationType:
        value = advice == NULL ? 0 : (int)advice->preferred.type;
        break;
    case cudaMemRangeAttributeLastPrefetchLocationType:
        value = advice == NULL ? 0 : (int)advice->prefetched.type;
        break;
    default:
        return cudaErrorInvalidValue;
    }
    if (bytes != sizeof value) {
        return cudaErrorInvalidValue;
    }
    memcpy(data, &value, sizeof value);
    return cudaSuccess;
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
                                     enum cudaMemRangeAttribute attribute, const void *devPtr,
                                     size_t count)
{
    BEGIN(cudaMemRangeGetAttribute, 0);
    END(get_attribute(data, dataSize, attribute, (uintptr_t)devPtr, count));
}
