/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERFACES_RESOURCE_H
#define CRMM_INTERFACES_RESOURCE_H

/*
 * For implementers of memory resources. Users need crmm/core/resource.h only.
 *
 * A resource is a struct whose first member is `struct crmm_resource`, and a constant table of
 * operations, which is its class. The public functions check their arguments and hide the rules
 * that are the same for all resources, so an operation may rely on this:
 *
 *  - `bytes` is between 1 and PTRDIFF_MAX, `alignment` is a power of two, no pointer is NULL;
 *  - `allocate` and `deallocate` are called only if the resource has CRMM_STREAM_ORDERED;
 *  - an allocation that succeeds with NULL is turned into CRMM_ERROR_BAD_ALLOC.
 *
 * An operation that fails returns a status, has recorded why (crmm_set_last_error()) and has
 * changed nothing. Operations may be called by several threads at a time.
 */

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * The operations of a class. Static storage; it must outlive every resource of the class.
 *
 * Slots are appended in later versions, so `struct_size` tells which ones a table has.
 */
typedef struct crmm_resource_ops {
    size_t struct_size; /**< sizeof(crmm_resource_ops) */

    /** As crmm_allocate_sync(). Required. */
    crmm_status (*allocate_sync)(crmm_resource *resource, size_t bytes, size_t alignment,
                                 void **ptr);
    /** As crmm_deallocate_sync(). Required. */
    void (*deallocate_sync)(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment);
    /**
     * The last reference is gone: give everything back, release the upstream, and give the object
     * itself back. Required.
     */
    void (*destroy)(crmm_resource *resource);

    /** As crmm_allocate(). Required with CRMM_STREAM_ORDERED, not used without it. */
    crmm_status (*allocate)(crmm_resource *resource, crmm_stream stream, size_t bytes,
                            size_t alignment, void **ptr);
    /** As crmm_deallocate(). Required with CRMM_STREAM_ORDERED, not used without it. */
    void (*deallocate)(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                       size_t alignment);
    /** As crmm_deallocate_ptr(). Optional: without it the call is misuse. */
    void (*deallocate_ptr)(crmm_resource *resource, crmm_stream stream, void *ptr);
    /** As crmm_resource_is_equal(), for another resource of the same class. Optional: identity. */
    bool (*is_equal)(const crmm_resource *resource, const crmm_resource *other);
    /** As crmm_resource_upstream(). Optional: there is none. */
    crmm_resource *(*upstream)(const crmm_resource *resource);
    /** As crmm_resource_trim(), of the whole stack. Optional: forwarded to the upstream. */
    crmm_status (*trim)(crmm_resource *resource, size_t bytes_to_keep, size_t *released);
    /**
     * As crmm_resource_info(), all members filled as far as `info->struct_size`, which the library
     * has set. Optional: forwarded to the upstream.
     */
    crmm_status (*info)(const crmm_resource *resource, crmm_memory_info *info);
    /** As crmm_resource_describe(). Optional: the class name and the upstream's description. */
    size_t (*describe)(const crmm_resource *resource, char *text, size_t size);

    /**
     * For upstreams that can grow a block in place: reserve `bytes` of address space, aligned to
     * `alignment`, without memory behind it. Optional, with the three that follow.
     */
    crmm_status (*reserve)(crmm_resource *resource, size_t bytes, size_t alignment, void **base);
    /** Put memory behind a part of a reservation. */
    crmm_status (*commit)(crmm_resource *resource, void *ptr, size_t bytes);
    /** Take the memory behind a part of a reservation away; no work may be pending on it. */
    crmm_status (*decommit)(crmm_resource *resource, void *ptr, size_t bytes);
    /** Give a whole reservation back; nothing in it is committed any more. */
    crmm_status (*unreserve)(crmm_resource *resource, void *base, size_t bytes);

    /**
     * For upstreams that can move memory to another address: the memory behind the committed range
     * at `from` is accessible at `to` as well, which lies in a reservation of this resource and has
     * no memory behind it yet. Until `move_end` ends one of the two, nothing else may be done to
     * either range. What the resource holds stays the same. Optional, together with `move_end`.
     */
    crmm_status (*move_begin)(crmm_resource *resource, void *to, const void *from, size_t bytes);
    /**
     * Take the mapping at `from` away; the memory stays at the other address. No work may be
     * pending through `from`. With the address that `move_begin` had as `to`, the move is undone.
     */
    crmm_status (*move_end)(crmm_resource *resource, void *from, size_t bytes);
} crmm_resource_ops;

/** The first member of every resource. Set up by crmm_resource_init(); never touched directly. */
struct crmm_resource {
    const crmm_resource_ops *ops; /**< the class */
    uintptr_t reserved[6];        /**< the library's own */
};

/**
 * Set up the base of a resource, with one reference that belongs to the caller.
 *
 * @param resource   the base, first member of the implementer's struct; what it held is overwritten
 * @param ops        the class; required slots are there
 * @param name       the class name; static storage
 * @param properties CRMM_HOST_ACCESSIBLE, CRMM_DEVICE_ACCESSIBLE, CRMM_STREAM_ORDERED, or'ed
 *
 * A table that lacks what is required, or a NULL argument, is reported as
 * CRMM_MISUSE_INVALID_ARGUMENT; calls on the resource then fail with CRMM_ERROR_INVALID_ARGUMENT.
 */
CRMM_API void crmm_resource_init(crmm_resource *resource, const crmm_resource_ops *ops,
                                 const char *name, crmm_properties properties);

/**
 * Say which device a resource belongs to; without it, it belongs to none. Call it before the
 * resource is shared.
 *
 * @param resource a resource that was set up
 * @param device   CUDA device ordinal, or -1 for none
 */
CRMM_API void crmm_resource_bind_device(crmm_resource *resource, int device);

/**
 * Zeroed storage for a resource's struct. With validation on, storage that was given back is kept,
 * and every later use of the resource in it is found and reported.
 *
 * @param size bytes, at least sizeof(struct crmm_resource)
 * @return the storage, owned by the caller; NULL if there is no memory
 *
 * Thread-safety: safe.
 */
CRMM_API void *crmm_resource_storage_allocate(size_t size);

/**
 * Give storage back: the last thing `destroy` does.
 *
 * @param resource the resource at the start of the storage; NULL is a no-op
 *
 * Thread-safety: safe.
 */
CRMM_API void crmm_resource_storage_free(crmm_resource *resource);

CRMM_END_DECLS

#endif
