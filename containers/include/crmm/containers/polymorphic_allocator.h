/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_POLYMORPHIC_ALLOCATOR_H
#define CRMM_CONTAINERS_POLYMORPHIC_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Allocates memory for a number of elements, in stream order, from a resource chosen at run time.
 * Embedded by value; frozen. Read the members, change them only through the functions.
 *
 * A zeroed or finished allocator is a valid empty one, which can do nothing until it is
 * initialised. One is copied with crmm_polymorphic_allocator_rebind(), never by assignment. Which
 * device the memory is on is the resource's.
 *
 * Thread-safety: allocate and deallocate as the resource; the others one thread at a time.
 */
typedef struct crmm_polymorphic_allocator {
    size_t element_size;     /**< in bytes; 0 in an empty allocator */
    crmm_resource *resource; /**< retained; NULL in an empty allocator */
} crmm_polymorphic_allocator;

/**
 * Initialise an allocator.
 *
 * @param allocator    [out] to be ended with crmm_polymorphic_allocator_finish(); what it held
 *                     before is not read; untouched on failure
 * @param element_size bytes of an element, not 0
 * @param mr           where the memory comes from; retained; NULL is the current device's resource
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `allocator` is NULL or `element_size` is 0
 * @retval CRMM_ERROR_PROPERTY         `mr` is not device accessible, or not stream-ordered
 * @retval CRMM_ERROR_CUDA             `mr` is NULL and CUDA does not tell the current device
 * @retval CRMM_ERROR_FORKED           the same in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_polymorphic_allocator_init(
    crmm_polymorphic_allocator *allocator, size_t element_size, crmm_resource *mr);

/**
 * Make an allocator for elements of another size, or of the same, on the same resource.
 *
 * @param other        an initialised allocator
 * @param element_size bytes of an element, not 0
 * @param allocator    [out] as for crmm_polymorphic_allocator_init()
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT a NULL argument, an empty `other`, or `element_size` is 0
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_polymorphic_allocator_rebind(const crmm_polymorphic_allocator *other, size_t element_size,
                                  crmm_polymorphic_allocator *allocator);

/**
 * Allocate memory for elements, aligned to CRMM_DEVICE_ALIGNMENT.
 *
 * @param allocator an initialised allocator
 * @param count     elements; 0 succeeds with NULL
 * @param stream    as for crmm_allocate()
 * @param ptr       [out] the memory; untouched on failure
 *
 * Fails as crmm_allocate() does, and with
 * @retval CRMM_ERROR_INVALID_ARGUMENT a NULL argument, an empty allocator, or `count` elements are
 *                                     more bytes than size_t can say
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_polymorphic_allocator_allocate(
    const crmm_polymorphic_allocator *allocator, size_t count, crmm_stream stream, void **ptr);

/**
 * Give memory back in stream order.
 *
 * @param allocator the allocator it came from, or one that is equal and has elements of that size
 * @param ptr       the memory; NULL is a no-op
 * @param count     as allocated
 * @param stream    as for crmm_deallocate()
 *
 * Never fails; misuse is reported and leaves the block alone: a NULL or empty allocator, a count
 * that overflows, and what crmm_deallocate() finds.
 */
CRMM_API void crmm_polymorphic_allocator_deallocate(const crmm_polymorphic_allocator *allocator,
                                                    void *ptr, size_t count, crmm_stream stream);

/**
 * Whether memory from one allocator may be given back to the other: whether their resources are
 * equal. Element sizes are not compared.
 *
 * @param a any allocator; NULL is misuse, and equals nothing
 * @param b any allocator; NULL is misuse, and equals nothing
 */
CRMM_API bool crmm_polymorphic_allocator_is_equal(const crmm_polymorphic_allocator *a,
                                                  const crmm_polymorphic_allocator *b);

/**
 * The resource.
 *
 * @param allocator any allocator; NULL is misuse
 * @return borrowed: the allocator holds it; NULL for an empty allocator
 */
CRMM_API crmm_resource *crmm_polymorphic_allocator_upstream(
    const crmm_polymorphic_allocator *allocator);

/**
 * Bytes of an element.
 *
 * @param allocator any allocator; NULL is misuse
 * @return the size; 0 for an empty allocator
 */
CRMM_API size_t
crmm_polymorphic_allocator_element_size(const crmm_polymorphic_allocator *allocator);

/**
 * Drop the resource, and leave an empty allocator. What was allocated stays.
 *
 * @param allocator any allocator; NULL and an empty one do nothing
 */
CRMM_API void crmm_polymorphic_allocator_finish(crmm_polymorphic_allocator *allocator);

CRMM_END_DECLS

#endif
