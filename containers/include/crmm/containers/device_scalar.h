/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_DEVICE_SCALAR_H
#define CRMM_CONTAINERS_DEVICE_SCALAR_H

#include <stddef.h>

#include <crmm/containers/device_uvector.h>

CRMM_BEGIN_DECLS

/**
 * One value in device memory. Embedded by value; frozen. Read the members, change them only through
 * the functions.
 *
 * It is a vector of one element, and what is said there about streams, devices, moving and threads
 * holds here. CRMM_DEVICE_SCALAR_DEFINE() in crmm/containers/typed.h makes a type and functions
 * that know the C type, so that a wrong one does not compile. A zeroed, finished or moved-from
 * scalar is a valid empty one: it has no value, and reading or setting one is
 * CRMM_ERROR_OUT_OF_RANGE until it is initialised.
 */
typedef struct crmm_device_scalar {
    crmm_device_uvector vector; /**< one element, or none */
} crmm_device_scalar;

/*
 * The functions that initialise a scalar. What the struct held before is not read, and on failure
 * it is untouched. They share these parameters:
 *
 *  - scalar:       [out] to be ended with crmm_device_scalar_finish()
 *  - element_size: bytes of the value, not 0
 *  - alignment:    in bytes, a power of two that the resource gives; CRMM_DEVICE_ALIGNMENT where
 *                  the function does not ask
 *  - value:        element_size bytes, in host memory or where the device may read them
 *  - stream:       allocates now, and gives back later unless it is changed; must be alive
 *  - mr:           where the memory comes from; retained; NULL is the current device's resource
 *
 * and fail as crmm_device_buffer_init() does, and with
 *  - CRMM_ERROR_INVALID_ARGUMENT: NULL `scalar`, `value` or `other`, or `element_size` is 0
 *  - CRMM_ERROR_CUDA:             the copy could not be queued, or the wait failed
 */

/** A scalar with a value; waits for `stream`, so that `value` is free on return. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_init(crmm_device_scalar *scalar,
                                                            size_t element_size, const void *value,
                                                            crmm_stream stream, crmm_resource *mr);

/** As crmm_device_scalar_init(), with an alignment of the caller's. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_device_scalar_init_aligned(crmm_device_scalar *scalar, size_t element_size, size_t alignment,
                                const void *value, crmm_stream stream, crmm_resource *mr);

/**
 * As crmm_device_scalar_init(), but only queues the copy: `value` must stay valid and unchanged
 * until `stream` has passed it.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_init_async(crmm_device_scalar *scalar,
                                                                  size_t element_size,
                                                                  const void *value,
                                                                  crmm_stream stream,
                                                                  crmm_resource *mr);

/** A scalar whose value is not set yet. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_device_scalar_init_uninitialized(crmm_device_scalar *scalar, size_t element_size,
                                      size_t alignment, crmm_stream stream, crmm_resource *mr);

/**
 * A deep copy of another scalar, with its element size and alignment. Only queues the copy.
 *
 * @param scalar [out] as above
 * @param other  must stay as it is until `stream` has passed the copy; ordering `stream` after the
 *               other's stream is the caller's
 * @param stream as above
 * @param mr     as above
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_init_clone(crmm_device_scalar *scalar,
                                                                  const crmm_device_scalar *other,
                                                                  crmm_stream stream,
                                                                  crmm_resource *mr);

/**
 * Move what a scalar holds to another one. No memory is copied.
 *
 * @param destination an initialised, empty or zeroed scalar; its memory is given back on its own
 *                    stream first. The same as `source`: nothing happens
 * @param source      left empty
 *
 * Never fails; a NULL argument is misuse.
 */
CRMM_API void crmm_device_scalar_move(crmm_device_scalar *destination, crmm_device_scalar *source);

/*
 * The value. These functions share the parameters
 *
 *  - scalar: an initialised scalar
 *  - value:  element_size bytes, in host memory or where the device may read or write them
 *  - stream: does the work; must be alive. It does not become the stored stream, and ordering it
 *            after work on other streams is the caller's
 *
 * act with the scalar's device current, and fail with
 *  - CRMM_ERROR_INVALID_ARGUMENT: NULL `scalar` or `value`
 *  - CRMM_ERROR_OUT_OF_RANGE:     the scalar is empty
 *  - CRMM_ERROR_UNSUPPORTED:      a capture forbids it; for those that wait: `stream` is being
 *                                 captured, and the capture stays valid
 *  - CRMM_ERROR_CUDA:             a CUDA call failed, for those that wait also an earlier one
 *  - CRMM_ERROR_FORKED:           in a forked child
 */

/** Read the value; waits for `stream`. As to what is written: crmm_device_uvector_element(). */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_value(const crmm_device_scalar *scalar,
                                                             crmm_stream stream, void *value);

/** Write the value and wait for `stream`: `value` is free on return. */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_set_value(crmm_device_scalar *scalar,
                                                                 const void *value,
                                                                 crmm_stream stream);

/**
 * Write the value. Only queues the copy: `value` must stay valid and unchanged until `stream` has
 * passed it.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_set_value_async(crmm_device_scalar *scalar,
                                                                       const void *value,
                                                                       crmm_stream stream);

/** Set all bytes of the value to 0. Only queues it. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_device_scalar_set_value_to_zero_async(crmm_device_scalar *scalar, crmm_stream stream);

/**
 * Change the stored stream, and order the new one after the old one.
 *
 * @param scalar any valid scalar; unchanged on failure
 * @param stream the new stream
 *
 * Fails as crmm_device_buffer_set_stream() does.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_device_scalar_set_stream(crmm_device_scalar *scalar,
                                                                  crmm_stream stream);

/**
 * Change the stored stream without touching the old one; see
 * crmm_device_buffer_set_stream_unordered().
 *
 * @param scalar any valid scalar; NULL is misuse
 * @param stream the new stream
 */
CRMM_API void crmm_device_scalar_set_stream_unordered(crmm_device_scalar *scalar,
                                                      crmm_stream stream);

/**
 * Give the memory back on the stored stream, drop the resource, and leave an empty scalar.
 *
 * @param scalar any valid scalar; NULL and an empty scalar do nothing
 *
 * Never fails; what cannot be done is reported as misuse, and the memory is left alone.
 */
CRMM_API void crmm_device_scalar_finish(crmm_device_scalar *scalar);

/*
 * Accessors. A NULL scalar is misuse and gives what an empty one would.
 */

/** Device pointer to the value; NULL for an empty scalar. */
CRMM_API void *crmm_device_scalar_data(const crmm_device_scalar *scalar);
/** 1, or 0 for an empty scalar. */
CRMM_API size_t crmm_device_scalar_size(const crmm_device_scalar *scalar);
/** Bytes of the value; 0 for a zeroed or finished scalar. */
CRMM_API size_t crmm_device_scalar_element_size(const crmm_device_scalar *scalar);
/** The stored stream. */
CRMM_API crmm_stream crmm_device_scalar_stream(const crmm_device_scalar *scalar);
/** The resource, lent: the scalar holds it. NULL inside for an empty scalar. */
CRMM_API crmm_device_async_resource_ref
crmm_device_scalar_memory_resource(const crmm_device_scalar *scalar);

CRMM_END_DECLS

#endif
