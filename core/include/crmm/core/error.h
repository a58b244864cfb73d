/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_ERROR_H
#define CRMM_CORE_ERROR_H

#include <stddef.h>

#include <crmm/core/status.h>

CRMM_BEGIN_DECLS

/**
 * What went wrong in the calling thread's latest failing call. Frozen: members are never added.
 */
typedef struct crmm_error {
    crmm_status status;        /**< what the call returned; CRMM_SUCCESS before the first failure */
    int native_code;           /**< the cudaError_t or errno behind it; 0 where there is none */
    size_t requested_bytes;    /**< bytes asked for, where an allocation failed; else 0 */
    size_t live_bytes;         /**< bytes the resource had handed out; 0 where not known */
    size_t cached_bytes;       /**< bytes the resource held free; 0 where not known */
    size_t pending_bytes;      /**< of these, bytes that wait for a stream; 0 where not known */
    size_t largest_free_bytes; /**< the longest free run; 0 where not known */
    char message[256];         /**< one English sentence, NUL-terminated, cut if it is longer */
} crmm_error;

/**
 * The record of the calling thread's latest failure.
 *
 * Read it after a call that returned something other than CRMM_SUCCESS; a success does not clear
 * it. In a forked child the calling thread has a copy of its parent's record.
 *
 * @return never NULL and never fails; owned by the library, valid until the thread ends, rewritten
 *         by the thread's next failure
 *
 * Thread-safety: safe; each thread has a record of its own.
 */
CRMM_API const crmm_error *crmm_last_error(void);

/**
 * Record a failure as the calling thread's latest: for resources and callbacks written outside the
 * library, so that their callers read a reason.
 *
 * @param status      what the caller is going to return
 * @param native_code a cudaError_t or errno, or 0
 * @param message     one English sentence; copied, cut after 255 bytes; NULL records the status'
 *                    own text
 * @return `status`, so that `return crmm_set_last_error(...)` is one statement
 *
 * Thread-safety: safe. Does not allocate.
 */
CRMM_API crmm_status crmm_set_last_error(crmm_status status, int native_code, const char *message);

CRMM_END_DECLS

#endif
