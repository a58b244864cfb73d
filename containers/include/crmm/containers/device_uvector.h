/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_DEVICE_UVECTOR_H
#define CRMM_CONTAINERS_DEVICE_UVECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/containers/device_buffer.h>

CRMM_BEGIN_DECLS

/**
 * An array of uninitialised elements in device memory. Embedded by value; frozen. Read the
 * members, change them only through the functions.
 *
 * The element type is known by its size. CRMM_DEVICE_UVECTOR_DEFINE() in crmm/containers/typed.h
 * makes a type and functions that know the C type as well, so that a wrong one does not compile.
 *
 * It is built on a crmm_device_buffer, and what is said there about the stored stream, the device,
 * moving and threads holds here. A zeroed or finished vector is a valid empty one, but its element
 * size is not known, so that growing it is an error until it is initialised. A vector that was
 * moved from, or whose memory was released, keeps its element size and may grow again, on the
 * current device's resource.
 *
 * Elements: the functions that read or write one queue their work on the stream they are given and
 * do not change the stored stream. Ordering it after work on other streams is the caller's.
 */
typedef struct crmm_device_uvector {
    crmm_device_buffer buffer; /**< the memory; sizes in bytes */
    size_t element_size;       /**< in bytes; 0 in a zeroed or finished vector */
} crmm_device_uvector;

/**
 * A vector of `count` uninitialised elements, aligned to CRMM_DEVICE_ALIGNMENT.
 *
 * @param vector       [out] to be ended with crmm_device_uvector_finish(); what it held before is
 *                     not read; untouched on failure
 * @param count        elements; 0 allocates nothing
 * @param element_size bytes each, not 0
 * @param stream       allocates now, and gives back later unless it is changed; must be alive
 * @param mr           where the memory comes from; retained; NULL is the current device's resource
 *
 * Fails as crmm_device_buffer_init() does, and with
 * @retval CRMM_ERROR_INVALID_ARGUMENT `vector` is NULL, `element_size` is 0, or `count` elements
 *                                     are more bytes than size_t can say
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_init(crmm_device_uvector *vector,
                                                             size_t count, size_t element_size,
                                                             crmm_stream stream, crmm_resource *mr);

/**
 * As crmm_device_uvector_init(), with an alignment of the caller's.
 *
 * @param alignment in bytes, a power of two; what the resource does not give is
 *                  CRMM_ERROR_UNSUPPORTED, except for 0 elements
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_device_uvector_init_aligned(crmm_device_uvector *vector, size_t count, size_t element_size,
                                 size_t alignment, crmm_stream stream, crmm_resource *mr);

/**
 * A deep copy of another vector's elements, with its element size and alignment; the capacity is
 * the other's size, and the resource is `mr`, not the other's. Only queues the copy.
 *
 * @param vector [out] as for crmm_device_uvector_init()
 * @param other  must stay as it is until `stream` has passed the copy; ordering `stream` after the
 *               other's stream is the caller's
 * @param stream as for crmm_device_uvector_init()
 * @param mr     as for crmm_device_uvector_init()
 *
 * Fails as crmm_device_buffer_init_clone() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_init_clone(crmm_device_uvector *vector,
                                                                   const crmm_device_uvector *other,
                                                                   crmm_stream stream,
                                                                   crmm_resource *mr);

/**
 * Move what a vector holds to another one. No memory is copied.
 *
 * @param destination an initialised, empty or zeroed vector; its memory is given back on its own
 *                    stream first. The same as `source`: nothing happens
 * @param source      left empty; keeps its element size
 *
 * Never fails; a NULL argument is misuse.
 */
CRMM_API void crmm_device_uvector_move(crmm_device_uvector *destination,
                                       crmm_device_uvector *source);

/**
 * Move the memory out as a buffer, which keeps stream, device and resource.
 *
 * @param vector left empty; keeps its element size
 * @param buffer [out] to be ended with crmm_device_buffer_finish(); what it held before is not read
 *
 * Never fails; a NULL argument is misuse, and changes nothing.
 */
CRMM_API void crmm_device_uvector_release(crmm_device_uvector *vector, crmm_device_buffer *buffer);

/**
 * Make sure of a capacity, exactly, as crmm_device_buffer_reserve() does. Elements that a vector is
 * going to have are best reserved at once: no function grows it by more than it is asked.
 *
 * @param vector       any valid vector; unchanged on failure
 * @param new_capacity in elements
 * @param stream       becomes the stored stream, and is ordered after the old one
 *
 * Fails as crmm_device_buffer_reserve() does, and with
 * @retval CRMM_ERROR_INVALID_ARGUMENT the bytes do not fit size_t, or the element size is not known
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_reserve(crmm_device_uvector *vector,
                                                                size_t new_capacity,
                                                                crmm_stream stream);

/**
 * Change the number of elements; past the capacity the vector grows to exactly `new_count`. New
 * elements are uninitialised.
 *
 * @param vector    any valid vector; unchanged on failure
 * @param new_count in elements
 * @param stream    becomes the stored stream, and is ordered after the old one
 *
 * Fails as crmm_device_uvector_reserve() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_resize(crmm_device_uvector *vector,
                                                               size_t new_count,
                                                               crmm_stream stream);

/**
 * Reduce the capacity to the size, as crmm_device_buffer_shrink_to_fit() does.
 *
 * @param vector any valid vector; unchanged on failure
 * @param stream becomes the stored stream, and is ordered after the old one
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_shrink_to_fit(crmm_device_uvector *vector,
                                                                      crmm_stream stream);

/**
 * Change the stored stream, and order the new one after the old one.
 *
 * @param vector any valid vector; unchanged on failure
 * @param stream the new stream
 *
 * Fails as crmm_device_buffer_set_stream() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_set_stream(crmm_device_uvector *vector,
                                                                   crmm_stream stream);

/**
 * Change the stored stream without touching the old one; see
 * crmm_device_buffer_set_stream_unordered().
 *
 * @param vector any valid vector; NULL is misuse
 * @param stream the new stream
 */
CRMM_API void crmm_device_uvector_set_stream_unordered(crmm_device_uvector *vector,
                                                       crmm_stream stream);

/**
 * Give the memory back on the stored stream, drop the resource, and leave an empty vector.
 *
 * @param vector any valid vector; NULL and an empty vector do nothing
 *
 * Never fails; what cannot be done is reported as misuse, and the memory is left alone.
 */
CRMM_API void crmm_device_uvector_finish(crmm_device_uvector *vector);

/*
 * Elements. These functions share the parameters
 *
 *  - vector: an initialised vector
 *  - index:  the element, less than the size
 *  - value:  element_size bytes, in host memory or where the device may read or write them
 *  - stream: does the work; must be alive
 *
 * act with the vector's device current, and fail with
 *  - CRMM_ERROR_INVALID_ARGUMENT: NULL `vector` or `value`
 *  - CRMM_ERROR_OUT_OF_RANGE:     `index` is not less than the size
 *  - CRMM_ERROR_UNSUPPORTED:      a capture forbids it; for those that wait: `stream` is being
 *                                 captured, and the capture stays valid
 *  - CRMM_ERROR_CUDA:             a CUDA call failed, for those that wait also an earlier one
 *  - CRMM_ERROR_FORKED:           in a forked child
 */

/**
 * Write an element. Only queues the copy: `value` must stay valid and unchanged until `stream` has
 * passed it.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_set_element_async(
    crmm_device_uvector *vector, size_t index, const void *value, crmm_stream stream);

/** Write an element and wait for `stream`: `value` is free on return. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_set_element(crmm_device_uvector *vector,
                                                                    size_t index, const void *value,
                                                                    crmm_stream stream);

/** Set all bytes of an element to 0. Only queues it. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_set_element_to_zero_async(
    crmm_device_uvector *vector, size_t index, crmm_stream stream);

/**
 * Read an element; waits for `stream`.
 *
 * @param value [out] written on success only, except that where the wait itself fails an element of
 *              more than 256 bytes may have been written
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_element(const crmm_device_uvector *vector,
                                                                size_t index, crmm_stream stream,
                                                                void *value);

/** Read the first element, as crmm_device_uvector_element() does. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_front_element(
    const crmm_device_uvector *vector, crmm_stream stream, void *value);

/** Read the last element, as crmm_device_uvector_element() does. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_uvector_back_element(
    const crmm_device_uvector *vector, crmm_stream stream, void *value);

/*
 * Accessors. A NULL vector is misuse and gives what an empty one would.
 */

/** Device pointer to an element; an index that is not less than the size is misuse: NULL. */
CRMM_API void *crmm_device_uvector_element_ptr(const crmm_device_uvector *vector, size_t index);
/** Device pointer to the elements; NULL where there is no memory. */
CRMM_API void *crmm_device_uvector_data(const crmm_device_uvector *vector);
/** Device pointer to the first element. From it to the end forwards, or backwards. */
CRMM_API void *crmm_device_uvector_begin(const crmm_device_uvector *vector);
/** Device pointer past the last element. */
CRMM_API void *crmm_device_uvector_end(const crmm_device_uvector *vector);
/** Number of elements. */
CRMM_API size_t crmm_device_uvector_size(const crmm_device_uvector *vector);
/** Number of elements, signed. */
CRMM_API int64_t crmm_device_uvector_ssize(const crmm_device_uvector *vector);
/** Number of elements that there is memory for. */
CRMM_API size_t crmm_device_uvector_capacity(const crmm_device_uvector *vector);
/** Bytes of an element; 0 for a zeroed or finished vector. */
CRMM_API size_t crmm_device_uvector_element_size(const crmm_device_uvector *vector);
/** Alignment in bytes of the first element. */
CRMM_API size_t crmm_device_uvector_alignment(const crmm_device_uvector *vector);
/** Whether there are no elements; there may be capacity all the same. */
CRMM_API bool crmm_device_uvector_is_empty(const crmm_device_uvector *vector);
/** The stored stream. */
CRMM_API crmm_stream crmm_device_uvector_stream(const crmm_device_uvector *vector);
/** The resource, lent: the vector holds it. NULL inside for an empty vector. */
CRMM_API crmm_device_async_resource_ref
crmm_device_uvector_memory_resource(const crmm_device_uvector *vector);

CRMM_END_DECLS

#endif
