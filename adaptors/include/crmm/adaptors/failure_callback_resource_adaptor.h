/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_FAILURE_CALLBACK_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_FAILURE_CALLBACK_RESOURCE_ADAPTOR_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** An allocation that has failed, as the callback gets it. */
typedef struct crmm_failure {
    size_t struct_size; /**< sizeof(crmm_failure) in the library that calls */
    size_t bytes;       /**< what was asked for */
    size_t alignment;   /**< with this alignment */
    crmm_stream stream; /**< and on this stream; NULL for crmm_allocate_sync() */
    crmm_status status; /**< how it failed */
    int attempt;        /**< how often it has failed: 1 the first time; stops at INT_MAX */
} crmm_failure;

/**
 * Decides what becomes of an allocation that has failed. It may free memory, allocate, wait, or use
 * the library in any other way.
 *
 * @param failure   what failed; valid until the callback returns. crmm_last_error() has the rest
 *                  until the callback makes calls of its own that fail
 * @param user_data what was given with the callback
 * @return true to try again, false to let the allocation fail
 *
 * Called on the thread that allocates, with no lock of the library held (but see
 * crmm_thread_safe_resource_adaptor_create()); several threads may be in it at a time. It must
 * return: neither longjmp() nor an exception may leave it.
 */
typedef bool (*crmm_failure_callback)(const crmm_failure *failure, void *user_data);

/**
 * Create an adaptor that asks a callback each time an allocation fails for want of memory, and
 * tries again for as long as the callback says so. It has the upstream's properties and device.
 *
 * The callback is asked about CRMM_ERROR_BAD_ALLOC, CRMM_ERROR_OUT_OF_MEMORY and
 * CRMM_ERROR_LIMIT_EXCEEDED (crmm_status_is_allocation_failure()); other failures are returned at
 * once, and so are requests that no resource could serve, which are refused before they get here.
 * An allocation that the callback makes through this same adaptor does not ask it again. The number
 * of attempts has no bound but the callback: look at crmm_failure::attempt.
 *
 * When the callback gives up, the allocation returns its last failure, and crmm_last_error() is the
 * record of that one, whatever the callback has done meanwhile.
 *
 * @param upstream  where memory comes from; retained
 * @param callback  asked after each failure
 * @param user_data given to `callback` and `destroy`; the adaptor owns it from success on
 * @param destroy   called with `user_data` when the adaptor's last reference is gone, before the
 *                  upstream is released, on the thread that released it; NULL: nothing is
 * @param out       [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream`, `callback` or `out`
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * On failure `destroy` is not called. Thread-safety: as safe as the callback; no lock of its own.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_failure_callback_resource_adaptor_create(
    crmm_resource *upstream, crmm_failure_callback callback, void *user_data,
    void (*destroy)(void *user_data), crmm_resource **out);

CRMM_END_DECLS

#endif
