/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_STREAM_ALLOCATOR_ADAPTOR_H
#define CRMM_CONTAINERS_STREAM_ALLOCATOR_ADAPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/containers/polymorphic_allocator.h>

CRMM_BEGIN_DECLS

/**
 * An allocator with its stream, for code that allocates and gives back without naming one. Embedded
 * by value; frozen. Read the members, change them only through the functions.
 *
 * The stream must be alive at every call. A zeroed or finished adaptor is a valid empty one, which
 * can do nothing until it is initialised. One is copied with
 * crmm_stream_allocator_adaptor_rebind(), never by assignment.
 *
 * Thread-safety: allocate and deallocate as the resource; the others one thread at a time.
 */
typedef struct crmm_stream_allocator_adaptor {
    crmm_polymorphic_allocator allocator; /**< holds the resource */
    crmm_stream stream;                   /**< where everything is done */
} crmm_stream_allocator_adaptor;

/**
 * Initialise an adaptor.
 *
 * @param adaptor   [out] to be ended with crmm_stream_allocator_adaptor_finish(); what it held
 *                  before is not read; untouched on failure
 * @param allocator an initialised allocator; copied, so that it may end first
 * @param stream    the stream
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT a NULL argument, or an empty `allocator`
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_stream_allocator_adaptor_init(crmm_stream_allocator_adaptor *adaptor,
                                   const crmm_polymorphic_allocator *allocator, crmm_stream stream);

/**
 * Make an adaptor for elements of another size, or of the same, on the same resource and stream.
 *
 * @param other        an initialised adaptor
 * @param element_size bytes of an element, not 0
 * @param adaptor      [out] as for crmm_stream_allocator_adaptor_init()
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT a NULL argument, an empty `other`, or `element_size` is 0
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_stream_allocator_adaptor_rebind(const crmm_stream_allocator_adaptor *other,
                                     size_t element_size, crmm_stream_allocator_adaptor *adaptor);

/**
 * Allocate memory for elements, as crmm_polymorphic_allocator_allocate() does on the stored stream.
 *
 * @param adaptor an initialised adaptor
 * @param count   elements; 0 succeeds with NULL
 * @param ptr     [out] the memory; untouched on failure
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_stream_allocator_adaptor_allocate(
    const crmm_stream_allocator_adaptor *adaptor, size_t count, void **ptr);

/**
 * Give memory back, as crmm_polymorphic_allocator_deallocate() does on the stored stream.
 *
 * @param adaptor the adaptor it came from, or one that is equal and has elements of that size
 * @param ptr     the memory; NULL is a no-op
 * @param count   as allocated
 */
CRMM_API void crmm_stream_allocator_adaptor_deallocate(const crmm_stream_allocator_adaptor *adaptor,
                                                       void *ptr, size_t count);

/**
 * Whether memory from one adaptor may be given back to the other: whether their resources are
 * equal. Streams and element sizes are not compared.
 *
 * @param a any adaptor; NULL is misuse, and equals nothing
 * @param b any adaptor; NULL is misuse, and equals nothing
 */
CRMM_API bool crmm_stream_allocator_adaptor_is_equal(const crmm_stream_allocator_adaptor *a,
                                                     const crmm_stream_allocator_adaptor *b);

/**
 * The stored stream.
 *
 * @param adaptor any adaptor; NULL is misuse, and gives NULL
 */
CRMM_API crmm_stream
crmm_stream_allocator_adaptor_stream(const crmm_stream_allocator_adaptor *adaptor);

/**
 * The allocator inside.
 *
 * @param adaptor any adaptor; NULL is misuse
 * @return borrowed: part of the adaptor; NULL for NULL
 */
CRMM_API const crmm_polymorphic_allocator *crmm_stream_allocator_adaptor_underlying_allocator(
    const crmm_stream_allocator_adaptor *adaptor);

/**
 * Drop the resource, and leave an empty adaptor. What was allocated stays.
 *
 * @param adaptor any adaptor; NULL and an empty one do nothing
 */
CRMM_API void crmm_stream_allocator_adaptor_finish(crmm_stream_allocator_adaptor *adaptor);

CRMM_END_DECLS

#endif
