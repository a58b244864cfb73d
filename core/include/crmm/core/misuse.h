/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_MISUSE_H
#define CRMM_CORE_MISUSE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/attributes.h>

CRMM_BEGIN_DECLS

/**
 * What was wrong in a call that cannot return an error. Values are part of the ABI.
 */
typedef enum crmm_misuse_kind {
    CRMM_MISUSE_INVALID_ARGUMENT = 1,   /**< NULL object, 0 bytes with a pointer, bad alignment */
    CRMM_MISUSE_FOREIGN_POINTER = 2,    /**< memory that this resource did not hand out */
    CRMM_MISUSE_SIZE_MISMATCH = 3,      /**< given back with another size than allocated */
    CRMM_MISUSE_ALIGNMENT_MISMATCH = 4, /**< given back with another alignment than allocated */
    CRMM_MISUSE_DOUBLE_FREE = 5,        /**< given back twice */
    CRMM_MISUSE_USE_AFTER_RELEASE = 6,  /**< a resource used after its last release */
    CRMM_MISUSE_LEAK = 7,               /**< allocations alive at the last release */
    CRMM_MISUSE_PROPERTY = 8,           /**< the resource lacks what the call needs */
    CRMM_MISUSE_WRONG_CLASS = 9,        /**< a function of one class given an object of another */
    CRMM_MISUSE_UNSUPPORTED = 10,       /**< the resource or a stream capture does not allow it */
    CRMM_MISUSE_CUDA = 11,              /**< a CUDA call failed where no error can be returned */
    CRMM_MISUSE_FORKED = 12,            /**< CUDA memory touched in a forked child */
    CRMM_MISUSE_OVERRUN = 13            /**< memory before or behind a block was written to */
} crmm_misuse_kind;

/** One finding, as the handler gets it. */
typedef struct crmm_misuse {
    size_t struct_size;        /**< sizeof(crmm_misuse) in the library that reports */
    crmm_misuse_kind kind;     /**< what was wrong */
    int native_code;           /**< the cudaError_t behind it, or 0 */
    const char *resource_name; /**< class of the resource or object, or NULL */
    const void *ptr;           /**< the block in question, or NULL */
    size_t bytes;              /**< size given with it, or bytes leaked, or 0 */
    size_t alignment;          /**< alignment given with it, or 0 */
    const char *message;       /**< one English sentence; lives until the handler returns */
} crmm_misuse;

/**
 * Receives a finding, on the thread that made the offending call, with no lock of the library held.
 * It may call the library; a finding made meanwhile by the same thread is counted, not delivered.
 *
 * @param misuse    the finding; valid until the handler returns
 * @param user_data what was given to crmm_set_misuse_handler()
 */
typedef void (*crmm_misuse_handler)(const crmm_misuse *misuse, void *user_data);

/**
 * Replace the process' misuse handler and its data, both in one step.
 *
 * @param handler   called for every finding from now on; NULL restores the default, which prints
 *                  one line on standard error
 * @param user_data handed to `handler`; not owned
 *
 * Thread-safety: safe. A call of the old handler that is under way on another thread may end after
 * this function has returned.
 */
CRMM_API void crmm_set_misuse_handler(crmm_misuse_handler handler, void *user_data);

/**
 * How many findings this process has had, delivered or not.
 *
 * Thread-safety: safe.
 */
CRMM_API uint64_t crmm_misuse_count(void);

/**
 * Report a finding: for resources written outside the library.
 *
 * @param misuse the finding, copied; `struct_size` set by the caller; NULL is ignored
 *
 * Thread-safety: safe; call it with no lock held that a handler might need. Does not allocate.
 */
CRMM_API void crmm_report_misuse(const crmm_misuse *misuse);

CRMM_END_DECLS

#endif
