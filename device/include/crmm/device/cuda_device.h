/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_DEVICE_H
#define CRMM_DEVICE_CUDA_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>

CRMM_BEGIN_DECLS

/*
 * Devices are named by their CUDA ordinal. All functions fail with CRMM_ERROR_CUDA where CUDA does
 * (no driver, no device, a device fault), CRMM_ERROR_FORKED in a forked child, and
 * CRMM_ERROR_INVALID_ARGUMENT where an output is NULL. Outputs are untouched on failure.
 *
 * Thread-safety: safe; the current device is the calling thread's.
 */

/**
 * The calling thread's current device.
 *
 * @param device [out] its ordinal
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_current_cuda_device(int *device);

/**
 * How many devices the process sees.
 *
 * @param count [out] their number
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_num_cuda_devices(int *count);

/**
 * Memory of the current device, as CUDA tells it. On a device that shares the host's memory
 * (cudaDevAttrIntegrated) CUDA counts the pages of files that the system keeps as used; there, what
 * is free is what Linux could give to programs without swapping (MemAvailable in /proc/meminfo), if
 * that is more, up to the total.
 *
 * @param free_bytes  [out] bytes that are free now; other programs may take them at any time
 * @param total_bytes [out] bytes the device has
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_available_device_memory(size_t *free_bytes,
                                                                 size_t *total_bytes);

/**
 * A share of the current device's free memory, rounded down to CRMM_DEVICE_ALIGNMENT.
 *
 * @param percent 0 to 100; anything else is CRMM_ERROR_INVALID_ARGUMENT
 * @param bytes   [out] the share
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_percent_of_free_device_memory(int percent, size_t *bytes);

/**
 * Another device made current for a while. Embedded by value; a zeroed struct is an empty one.
 */
typedef struct crmm_cuda_set_device {
    int previous;  /**< the device that was current */
    bool switched; /**< whether there is one to switch back to */
} crmm_cuda_set_device;

/**
 * Make a device current until crmm_cuda_set_device_finish(), on the same thread.
 *
 * @param scope  [out] what to finish with; untouched on failure
 * @param device its ordinal; a negative one, or the current one, switches nothing
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `scope` is NULL, or there is no such device
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_cuda_set_device_init(crmm_cuda_set_device *scope,
                                                              int device);

/**
 * Switch back. Leaves an empty scope; NULL and an empty scope do nothing.
 *
 * @param scope what crmm_cuda_set_device_init() filled
 */
CRMM_API void crmm_cuda_set_device_finish(crmm_cuda_set_device *scope);

CRMM_END_DECLS

#endif
