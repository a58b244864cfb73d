/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CALLBACK_MEMORY_RESOURCE_H
#define CRMM_DEVICE_CALLBACK_MEMORY_RESOURCE_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * The functions behind a callback_memory_resource. They may be called by several threads at a time,
 * on the thread of the call they serve, with no lock of the library held.
 */
typedef struct crmm_callbacks {
    size_t struct_size;         /**< sizeof(crmm_callbacks) */
    crmm_properties properties; /**< what the memory can be used for; with CRMM_STREAM_ORDERED the
                                     functions honour their stream, without it they get NULL */

    /**
     * Allocate. Required.
     *
     * @param stream    as for crmm_allocate(); NULL (the legacy stream) for a call that names none
     * @param bytes     1 to PTRDIFF_MAX
     * @param alignment a power of two, to be given or refused (CRMM_ERROR_UNSUPPORTED)
     * @param ptr       [out] the memory; success with NULL becomes CRMM_ERROR_BAD_ALLOC
     * @param user_data what was given at creation
     * @return a status; describe a failure with crmm_set_last_error(), else it is told only by its
     *         status
     */
    crmm_status (*allocate)(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                            void *user_data);

    /**
     * Give back; cannot fail. Required. Report what is wrong with crmm_report_misuse().
     *
     * @param stream    as for crmm_deallocate(); NULL for a call that names none
     * @param ptr       the memory, never NULL
     * @param bytes     as allocated
     * @param alignment as allocated
     * @param user_data what was given at creation
     */
    void (*deallocate)(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                       void *user_data);

    /** Called with the last release of the resource; may be NULL. */
    void (*destroy)(void *user_data);
} crmm_callbacks;

/**
 * Create a resource that calls the program's own functions. It belongs to no device.
 *
 * A crmm_allocate_sync() on a stream-ordered one allocates on the legacy stream and waits for it,
 * so that what it returns has no work pending.
 *
 * @param callbacks the functions, copied
 * @param user_data handed to each of them; it is the resource's until `destroy` is called
 * @param out       [out] the resource, one reference, the caller's; untouched on failure, and then
 *                  `destroy` is not called
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `callbacks`, `out`, `allocate` or `deallocate`; an
 *                                     unknown property; a wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      a member of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the resource
 *
 * Thread-safety: safe; the resource is as safe as its functions.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_callback_memory_resource_create(
    const crmm_callbacks *callbacks, void *user_data, crmm_resource **out);

CRMM_END_DECLS

#endif
