/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_DEVICE_BUFFER_H
#define CRMM_CONTAINERS_DEVICE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/resource.h>
#include <crmm/core/resource_ref.h>

CRMM_BEGIN_DECLS

/**
 * Untyped, uninitialised device memory, with the resource, the device and the stream it goes back
 * to. Embedded by value; frozen. Read the members, change them only through the functions.
 *
 * A zeroed, finished or moved-from buffer is a valid empty one: it has no resource, and takes the
 * resource of the current device when it first grows. A buffer is moved by
 * crmm_device_buffer_move(), never copied by assignment.
 *
 * Streams: the stored stream is the one on which the memory will be given back. It counts as named
 * by every call that changes it or frees the memory, so it must be alive until then. A call with
 * another stream than the stored one orders the two with an event: what is queued on the new
 * stream afterwards comes after what is queued on the old one now. Nothing here waits for the
 * device, except crmm_device_buffer_init_copy_sync(). (CRMM_STREAM_PER_THREAD names the calling
 * thread's stream: a buffer stored with it belongs to the thread that stored it.)
 *
 * Devices: every call acts with the buffer's own device current and restores the caller's; only a
 * pool, to which that makes no difference, may take the memory back with another one current.
 *
 * Thread-safety: one thread at a time per buffer.
 */
typedef struct crmm_device_buffer {
    void *data;              /**< device pointer; NULL when capacity is 0 */
    size_t size;             /**< bytes in use, at most `capacity` */
    size_t capacity;         /**< bytes allocated */
    size_t alignment;        /**< in bytes; 0 in an empty buffer stands for CRMM_DEVICE_ALIGNMENT */
    crmm_stream stream;      /**< where the memory will be given back */
    crmm_resource *resource; /**< retained; NULL in an empty buffer */
    int device;              /**< the device current at `init`, or at the first growth */
} crmm_device_buffer;

/*
 * The functions that initialise a buffer. What the struct held before is not read, and on failure
 * it is untouched. They share these parameters:
 *
 *  - buffer:    [out] the buffer, to be ended with crmm_device_buffer_finish()
 *  - size:      in bytes; 0 allocates nothing
 *  - alignment: in bytes, a power of two that the resource gives; CRMM_DEVICE_ALIGNMENT where the
 *               function does not ask
 *  - stream:    allocates now, and gives back later unless it is changed; must be alive
 *  - mr:        where the memory comes from; retained; NULL is the current device's resource
 *
 * and fail as crmm_allocate() does, and with
 *  - CRMM_ERROR_INVALID_ARGUMENT: NULL `buffer`, `other`, or source with bytes; a bad alignment,
 *    for 0 bytes too
 *  - CRMM_ERROR_PROPERTY: `mr` is not device accessible, or not stream-ordered
 *  - CRMM_ERROR_CUDA: the copy could not be queued
 */

/** A buffer of `size` uninitialised bytes. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_init(crmm_device_buffer *buffer, size_t size,
                                                            crmm_stream stream, crmm_resource *mr);

/** A buffer of `size` uninitialised bytes with an alignment of the caller's. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_init_aligned(crmm_device_buffer *buffer,
                                                                    size_t size, size_t alignment,
                                                                    crmm_stream stream,
                                                                    crmm_resource *mr);

/**
 * A buffer with a copy of `size` bytes. Only queues the copy.
 *
 * @param source host or device memory; must stay valid and unchanged until `stream` has passed the
 *               copy
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_init_copy(crmm_device_buffer *buffer,
                                                                 const void *source, size_t size,
                                                                 crmm_stream stream,
                                                                 crmm_resource *mr);

/** As crmm_device_buffer_init_copy(), with an alignment of the caller's. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_device_buffer_init_copy_aligned(crmm_device_buffer *buffer, const void *source, size_t size,
                                     size_t alignment, crmm_stream stream, crmm_resource *mr);

/**
 * As crmm_device_buffer_init_copy(), and waits for `stream`: the source is free on return. A stream
 * that is being captured is CRMM_ERROR_UNSUPPORTED, and the capture stays valid.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_init_copy_sync(crmm_device_buffer *buffer,
                                                                      const void *source,
                                                                      size_t size,
                                                                      crmm_stream stream,
                                                                      crmm_resource *mr);

/**
 * A deep copy of another buffer's bytes, with its alignment; the capacity is the other's size, and
 * the resource is `mr`, not the other's. Only queues the copy.
 *
 * @param other must stay as it is until `stream` has passed the copy; ordering `stream` after the
 *              other's stream is the caller's
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_init_clone(crmm_device_buffer *buffer,
                                                                  const crmm_device_buffer *other,
                                                                  crmm_stream stream,
                                                                  crmm_resource *mr);

/**
 * Move what a buffer holds to another one. No memory is copied.
 *
 * @param destination an initialised, empty or zeroed buffer; its memory is given back on its own
 *                    stream first. The same as `source`: nothing happens
 * @param source      left empty
 *
 * Never fails; a NULL argument is misuse.
 */
CRMM_API void crmm_device_buffer_move(crmm_device_buffer *destination, crmm_device_buffer *source);

/**
 * Make sure of a capacity. Where it is less, new memory of exactly `new_capacity` bytes is
 * allocated on `stream` from the same resource, `size` bytes are copied, and the old memory is
 * given back on `stream`.
 *
 * @param buffer       any valid buffer; unchanged on failure
 * @param new_capacity in bytes
 * @param stream       becomes the stored stream, also where nothing is allocated
 *
 * Fails as crmm_allocate() does, and with CRMM_ERROR_CUDA where ordering or copying cannot be
 * queued.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_reserve(crmm_device_buffer *buffer,
                                                               size_t new_capacity,
                                                               crmm_stream stream);

/**
 * Change the size. Within the capacity only the number changes; past it the buffer grows to exactly
 * `new_size`, as crmm_device_buffer_reserve() does. New bytes are uninitialised.
 *
 * @param buffer   any valid buffer; unchanged on failure
 * @param new_size in bytes
 * @param stream   becomes the stored stream, also where nothing is allocated
 *
 * Fails as crmm_device_buffer_reserve() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_resize(crmm_device_buffer *buffer,
                                                              size_t new_size, crmm_stream stream);

/**
 * Reduce the capacity to the size, by a copy to new memory; a buffer of size 0 gives all of its
 * memory back. Does nothing where the two are equal.
 *
 * @param buffer any valid buffer; unchanged on failure
 * @param stream becomes the stored stream, also where nothing is allocated
 *
 * Fails as crmm_device_buffer_reserve() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_shrink_to_fit(crmm_device_buffer *buffer,
                                                                     crmm_stream stream);

/**
 * Change the stored stream, and order the new one after the old one.
 *
 * @param buffer any valid buffer; unchanged on failure
 * @param stream the new stream
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `buffer` is NULL
 * @retval CRMM_ERROR_CUDA             the ordering cannot be queued
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_buffer_set_stream(crmm_device_buffer *buffer,
                                                                  crmm_stream stream);

/**
 * Change the stored stream without touching the old one: for a program that has synchronised the
 * old stream, and may have destroyed it, or has ordered the two itself.
 *
 * @param buffer any valid buffer; NULL is misuse
 * @param stream the new stream
 */
CRMM_API void crmm_device_buffer_set_stream_unordered(crmm_device_buffer *buffer,
                                                      crmm_stream stream);

/**
 * Give the memory back on the stored stream, drop the resource, and leave an empty buffer.
 *
 * @param buffer any valid buffer; NULL and an empty buffer do nothing
 *
 * Never fails; what cannot be done is reported as misuse, and the memory is left alone.
 */
CRMM_API void crmm_device_buffer_finish(crmm_device_buffer *buffer);

/*
 * Accessors. A NULL buffer is misuse and gives what an empty one would.
 */

/** Device pointer to the memory; NULL where there is none. */
CRMM_API void *crmm_device_buffer_data(const crmm_device_buffer *buffer);
/** Bytes in use. */
CRMM_API size_t crmm_device_buffer_size(const crmm_device_buffer *buffer);
/** Bytes in use, signed. */
CRMM_API int64_t crmm_device_buffer_ssize(const crmm_device_buffer *buffer);
/** Bytes allocated. */
CRMM_API size_t crmm_device_buffer_capacity(const crmm_device_buffer *buffer);
/** Alignment in bytes; CRMM_DEVICE_ALIGNMENT for an empty buffer. */
CRMM_API size_t crmm_device_buffer_alignment(const crmm_device_buffer *buffer);
/** Whether the size is 0; there may be capacity all the same. */
CRMM_API bool crmm_device_buffer_is_empty(const crmm_device_buffer *buffer);
/** The stored stream. */
CRMM_API crmm_stream crmm_device_buffer_stream(const crmm_device_buffer *buffer);
/** The resource, lent: the buffer holds it. NULL inside for an empty buffer. */
CRMM_API crmm_device_async_resource_ref
crmm_device_buffer_memory_resource(const crmm_device_buffer *buffer);

CRMM_END_DECLS

#endif
