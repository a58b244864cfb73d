/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_STATUS_H
#define CRMM_CORE_STATUS_H

#include <stdbool.h>

#include <crmm/core/attributes.h>

CRMM_BEGIN_DECLS

/**
 * Result of every fallible function.
 *
 * The values are part of the ABI: new ones are appended, none is ever renumbered.
 */
typedef enum crmm_status {
    CRMM_SUCCESS = 0,                /**< it worked */
    CRMM_ERROR_INVALID_ARGUMENT = 1, /**< an argument no call may be given */
    CRMM_ERROR_LOGIC = 2,            /**< a NULL resource made into a typed reference */
    CRMM_ERROR_OUT_OF_RANGE = 3,     /**< an index at or past the end */
    CRMM_ERROR_BAD_ALLOC = 4,        /**< allocation failed for another reason than exhaustion */
    CRMM_ERROR_OUT_OF_MEMORY = 5,    /**< memory is exhausted, or more was asked than can exist */
    CRMM_ERROR_LIMIT_EXCEEDED = 6,   /**< a limiting adaptor's limit would be exceeded */
    CRMM_ERROR_PROPERTY = 7,         /**< the resource lacks a required property */
    CRMM_ERROR_UNSUPPORTED = 8,      /**< the device, the resource or a capture does not allow it */
    CRMM_ERROR_CUDA = 9,             /**< a CUDA call other than an allocation failed */
    CRMM_ERROR_FORKED = 10,          /**< CUDA used in a forked child */
    CRMM_ERROR_IO = 11               /**< reading, writing or parsing a file failed */
} crmm_status;

/**
 * The name of a status as it is spelt in C, such as "CRMM_ERROR_OUT_OF_MEMORY".
 *
 * @param status any value
 * @return static text, never NULL; "CRMM_ERROR_UNKNOWN" for a value that is none
 *
 * Thread-safety: safe.
 */
CRMM_API const char *crmm_status_name(crmm_status status);

/**
 * A short English description of a status, such as "out of memory".
 *
 * @param status any value
 * @return static text, never NULL; "unknown status" for a value that is none
 *
 * Thread-safety: safe.
 */
CRMM_API const char *crmm_status_string(crmm_status status);

/**
 * Whether a status says that memory could not be had: CRMM_ERROR_BAD_ALLOC,
 * CRMM_ERROR_OUT_OF_MEMORY or CRMM_ERROR_LIMIT_EXCEEDED.
 *
 * @param status any value
 * @return true for those three
 *
 * Thread-safety: safe.
 */
CRMM_API bool crmm_status_is_allocation_failure(crmm_status status);

CRMM_END_DECLS

#endif
