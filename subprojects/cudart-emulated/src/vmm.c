/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management. Addresses are reserved in the arena that the host cannot touch;
 * physical memory is counted from its creation until neither a handle nor a mapping is left.
 */
#include "vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ATTRIBUTE_VMM 102
#define ATTRIBUTE_FABRIC 128

struct vmm_handle {
    uint32_t magic;
    unsigned refs; /* held by the program */
    unsigned maps;
    bool charged;
    struct physical *physical;
    uint64_t exported; /* its number among all that were exported; 0: it never was */
    CUmemAllocationProp prop;
};

_Static_assert(sizeof(struct vmm_handle) <= HANDLE_SLOT, "slot");

struct reservation {
    struct reservation *next;
    uintptr_t va;
    size_t size;
    struct segment *segment;
};

static struct reservation *reservations;

static bool aligned(uint64_t value)
{
    return value % VMM_GRANULARITY == 0;
}

static struct reservation *reservation_of(uintptr_t va, size_t size)
{
    for (struct reservation *r = reservations; r != NULL; r = r->next) {
        if (va >= r->va && va - r->va < r->size && size <= r->size - (va - r->va)) {
            return r;
        }
    }
    return NULL;
}

static bool supported(int device)
{
    bool known;
    return device_attribute(device, ATTRIBUTE_VMM, &known) != 0;
}

CUresult vmm_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    BEGIN_DRIVER(cuMemGetAllocationGranularity, 0);
    if (granularity == NULL || prop == NULL || (unsigned)option > 1) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *granularity = VMM_GRANULARITY;
    END_DRIVER(cudaSuccess);
}

static struct segment *reserve(uintptr_t hint, size_t size, size_t alignment)
{
    struct segment *segment = NULL;
    if (hint != 0 && hint % alignment == 0) {
        segment = arena_alloc_at(false, hint, size);
    }
    return segment != NULL ? segment : arena_alloc(false, size, alignment);
}

CUresult vmm_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags)
{
    BEGIN_DRIVER(cuMemAddressReserve, 0);
    if (ptr == NULL || size == 0 || !aligned(size) || (alignment & (alignment - 1)) != 0 ||
        flags != 0) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (!supported(thread_state()->device)) {
        END_DRIVER(cudaErrorNotSupported);
    }
    struct reservation *reservation = malloc(sizeof *reservation);
    if (reservation == NULL) {
        END_DRIVER(cudaErrorMemoryAllocation);
    }
    reservation->segment =
        reserve((uintptr_t)addr, size, alignment < VMM_GRANULARITY ? VMM_GRANULARITY : alignment);
    if (reservation->segment == NULL) {
        free(reservation);
        END_DRIVER(cudaErrorMemoryAllocation);
    }
    reservation->va = segment_va(reservation->segment);
    reservation->size = size;
    reservation->next = reservations;
    reservations = reservation;
    totals.ranges++;
    *ptr = reservation->va;
    END_DRIVER(cudaSuccess);
}

static bool holds_mapping(const struct reservation *reservation)
{
    const struct range *range = range_next(reservation->va);
    return range != NULL && range->va < reservation->va + reservation->size;
}

static void drop_reservation(struct reservation *reservation)
{
    struct reservation **at = &reservations;
    while (*at != reservation) {
        at = &(*at)->next;
    }
    *at = reservation->next;
    totals.ranges--;
    arena_free(false, reservation->segment);
    free(reservation);
}

CUresult vmm_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    BEGIN_DRIVER(cuMemAddressFree, 0);
    struct reservation *reservation = reservation_of((uintptr_t)ptr, size);
    if (reservation == NULL || reservation->va != ptr || reservation->size != size ||
        holds_mapping(reservation)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    drop_reservation(reservation);
    END_DRIVER(cudaSuccess);
}

static cudaError_t check_prop(const CUmemAllocationProp *prop)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
        return cudaErrorInvalidValue;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return cudaErrorNotSupported;
    }
    if (!device_valid(prop->location.id)) {
        return cudaErrorInvalidDevice;
    }
    const unsigned fabric = CU_MEM_HANDLE_TYPE_FABRIC;
    const unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | fabric;
    bool unused;
    if (((unsigned)prop->requestedHandleTypes & ~known) != 0 ||
        (((unsigned)prop->requestedHandleTypes & fabric) != 0 &&
         device_attribute(prop->location.id, ATTRIBUTE_FABRIC, &unused) == 0)) {
        return cudaErrorNotSupported;
    }
    return supported(prop->location.id) ? cudaSuccess : cudaErrorNotSupported;
}

CUresult vmm_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    BEGIN_DRIVER(cuMemCreate, 0);
    if (handle == NULL || size == 0 || !aligned(size) || flags != 0) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    err = check_prop(prop);
    if (err != cudaSuccess) {
        END_DRIVER(err);
    }
    struct device *device = &devices[prop->location.id];
    if (!device_has_room(device, size)) {
        pools_give_back(device);
    }
    if (!device_has_room(device, size)) {
        END_DRIVER(cudaErrorMemoryAllocation);
    }
    struct vmm_handle *made = handle_new(HANDLE_VMM);
    struct physical *physical = physical_new(size, device);
    if (made == NULL || physical == NULL) {
        physical_release(physical);
        if (made != NULL) {
            handle_free(HANDLE_VMM, made);
        }
        END_DRIVER(cudaErrorMemoryAllocation);
    }
    made->refs = 1;
    made->physical = physical;
    made->prop = *prop;
    device_charge(device, size);
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)made;
    END_DRIVER(cudaSuccess);
}

static struct vmm_handle *find_handle(CUmemGenericAllocationHandle handle)
{
    struct vmm_handle *found = handle_check(HANDLE_VMM, (void *)(uintptr_t)handle);
    return found != NULL && found->refs != 0 ? found : NULL;
}

static void drop_if_unused(struct vmm_handle *handle)
{
    if (handle->refs == 0 && handle->maps == 0) {
        device_refund(handle->physical->device, handle->physical->size);
        physical_release(handle->physical);
        handle_free(HANDLE_VMM, handle);
    }
}

CUresult vmm_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    BEGIN_DRIVER(cuMemRelease, 0);
    struct vmm_handle *found = find_handle(handle);
    if (found == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    found->refs--;
    drop_if_unused(found);
    END_DRIVER(cudaSuccess);
}

CUresult vmm_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    BEGIN_DRIVER(cuMemMap, 0);
    uintptr_t va = (uintptr_t)ptr;
    struct vmm_handle *found = find_handle(handle);
    if (found == NULL || flags != 0 || !aligned(va)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (offset != 0 || size != found->physical->size) {
        END_DRIVER(cudaErrorNotSupported); /* whole handles only */
    }
    const struct range *next = range_next(va);
    if (reservation_of(va, size) == NULL || (next != NULL && next->va < va + size)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    struct range *range = range_new(va, size, RANGE_MAPPED, found->physical->device);
    if (range == NULL) {
        END_DRIVER(cudaErrorMemoryAllocation);
    }
    range->physical = found->physical;
    range->physical->refs++;
    range->handle = found;
    found->maps++;
    range_insert(range);
    END_DRIVER(cudaSuccess);
}

static void unmap(struct range *range)
{
    struct vmm_handle *handle = range->handle;
    range_remove(range);
    physical_release(range->physical);
    range_free(range);
    handle->maps--;
    drop_if_unused(handle);
}

/* Whole mappings and holes, nothing cut. */
static bool covers_whole_mappings(uintptr_t va, size_t size)
{
    for (uintptr_t at = va; at < va + size;) {
        const struct range *range = range_next(at);
        if (range == NULL || range->va >= va + size) {
            return true;
        }
        if (range->va < va || range->va + range->size > va + size) {
            return false;
        }
        at = range->va + range->size;
    }
    return true;
}

CUresult vmm_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    BEGIN_DRIVER(cuMemUnmap, 0);
    uintptr_t va = (uintptr_t)ptr;
    if (!aligned(va) || !aligned(size) || size == 0 || reservation_of(va, size) == NULL ||
        !covers_whole_mappings(va, size)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    struct range *range;
    while ((range = range_next(va)) != NULL && range->va < (uintptr_t)ptr + size) {
        memory_retire(range->va, range->size, this_fn);
        unmap(range);
    }
    END_DRIVER(cudaSuccess);
}

static bool fully_mapped(uintptr_t va, size_t size)
{
    for (uintptr_t at = va; at < va + size;) {
        const struct range *range = range_find(at);
        if (range == NULL || range->kind != RANGE_MAPPED || range->va != at) {
            return false;
        }
        at += range->size;
        if (at > va + size) {
            return false;
        }
    }
    return true;
}

static bool access_valid(const CUmemAccessDesc *desc)
{
    return desc->location.type == CU_MEM_LOCATION_TYPE_DEVICE && device_valid(desc->location.id) &&
           (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
            desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
            desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

CUresult vmm_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    BEGIN_DRIVER(cuMemSetAccess, 0);
    uintptr_t va = (uintptr_t)ptr;
    if (desc == NULL || count == 0 || !aligned(va) || !aligned(size) || size == 0 ||
        !fully_mapped(va, size)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    for (size_t i = 0; i < count; i++) {
        if (!access_valid(&desc[i])) {
            END_DRIVER(cudaErrorInvalidValue);
        }
    }
    for (uintptr_t at = va; at < va + size;) {
        struct range *range = range_find(at);
        for (size_t i = 0; i < count; i++) {
            range->access[desc[i].location.id] = (unsigned char)desc[i].flags;
        }
        at += range->size;
    }
    END_DRIVER(cudaSuccess);
}

CUresult vmm_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                            CUdeviceptr ptr)
{
    BEGIN_DRIVER(cuMemGetAccess, 0);
    const struct range *range = range_find((uintptr_t)ptr);
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !device_valid(location->id) || range == NULL || range->kind != RANGE_MAPPED) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *flags = range->access[location->id];
    END_DRIVER(cudaSuccess);
}

CUresult vmm_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    BEGIN_DRIVER(cuMemRetainAllocationHandle, 0);
    const struct range *range = range_find((uintptr_t)addr);
    if (handle == NULL || range == NULL || range->kind != RANGE_MAPPED) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    range->handle->refs++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)range->handle;
    END_DRIVER(cudaSuccess);
}

CUresult vmm_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle handle)
{
    BEGIN_DRIVER(cuMemGetAllocationPropertiesFromHandle, 0);
    const struct vmm_handle *found = find_handle(handle);
    if (prop == NULL || found == NULL) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    *prop = found->prop;
    END_DRIVER(cudaSuccess);
}

/* What stands for the memory: in a file, or in a fabric handle. Only the process that made it can
 * turn it back into a handle. */
struct export_tag {
    char magic[16];
    uint64_t process, number;
};

static const char export_magic[16] = "cudart-emulated";

static int file_with(const struct export_tag *tag)
{
    int fd = memfd_create("cudart-emulated", MFD_CLOEXEC);
    if (fd != -1 && pwrite(fd, tag, sizeof *tag, 0) != (ssize_t)sizeof *tag) {
        close(fd);
        fd = -1;
    }
    return fd;
}

CUresult vmm_cuMemExportToShareableHandle(void *shareableHandle,
                                          CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    BEGIN_DRIVER(cuMemExportToShareableHandle, 0);
    static uint64_t exports;
    struct vmm_handle *found = find_handle(handle);
    struct export_tag tag = {.process = (uint64_t)getpid()};
    if (shareableHandle == NULL || found == NULL || flags != 0 ||
        (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
         handleType != CU_MEM_HANDLE_TYPE_FABRIC) ||
        ((unsigned)found->prop.requestedHandleTypes & (unsigned)handleType) == 0) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    if (found->exported == 0) {
        found->exported = ++exports;
    }
    memcpy(tag.magic, export_magic, sizeof tag.magic);
    tag.number = found->exported;
    if (handleType == CU_MEM_HANDLE_TYPE_FABRIC) {
        CUmemFabricHandle fabric = {{0}};
        memcpy(fabric.data, &tag, sizeof tag);
        memcpy(shareableHandle, &fabric, sizeof fabric);
        END_DRIVER(cudaSuccess);
    }
    int fd = file_with(&tag);
    if (fd == -1) {
        END_DRIVER(cudaErrorOperatingSystem);
    }
    memcpy(shareableHandle, &fd, sizeof fd);
    END_DRIVER(cudaSuccess);
}

/* false: it is none of this emulation's. */
static bool read_export(void *osHandle, CUmemAllocationHandleType type, struct export_tag *tag)
{
    if (type == CU_MEM_HANDLE_TYPE_FABRIC && osHandle != NULL) {
        memcpy(tag, osHandle, sizeof *tag);
    } else if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
               pread((int)(intptr_t)osHandle, tag, sizeof *tag, 0) != (ssize_t)sizeof *tag) {
        return false;
    }
    return memcmp(tag->magic, export_magic, sizeof tag->magic) == 0;
}

struct import {
    uint64_t number;
    struct vmm_handle *found;
};

static void match_number(void *slot, void *user_data)
{
    struct import *import = user_data;
    struct vmm_handle *handle = slot;
    if (handle->exported == import->number) {
        import->found = handle;
    }
}

CUresult vmm_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType)
{
    BEGIN_DRIVER(cuMemImportFromShareableHandle, 0);
    struct export_tag tag;
    if (handle == NULL || !read_export(osHandle, shHandleType, &tag)) {
        END_DRIVER(cudaErrorInvalidValue);
    }
    struct import import = {.number = tag.number};
    if (tag.process == (uint64_t)getpid()) {
        handle_visit(HANDLE_VMM, match_number, &import);
    }
    if (import.found == NULL) {
        END_DRIVER(cudaErrorNotSupported); /* of another process, or gone */
    }
    import.found->refs++;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)import.found;
    END_DRIVER(cudaSuccess);
}

static void drop_handle(void *slot, void *device)
{
    struct vmm_handle *handle = slot;
    if (device == NULL || handle->physical->device == device) {
        handle->refs = 0;
        drop_if_unused(handle);
    }
}

/* Mappings and handles of a device, and every reservation that is empty then. */
void vmm_reset_device(struct device *device)
{
    uintptr_t va = 0;
    struct range *range;
    while ((range = range_next(va)) != NULL) {
        va = range->va + range->size;
        if (range->kind == RANGE_MAPPED && range->device == device) {
            checker_forget(range->va, range->size);
            unmap(range);
        }
    }
    handle_visit(HANDLE_VMM, drop_handle, device);
    for (struct reservation *r = reservations, *next; r != NULL; r = next) {
        next = r->next;
        if (!holds_mapping(r)) {
            drop_reservation(r);
        }
    }
}
