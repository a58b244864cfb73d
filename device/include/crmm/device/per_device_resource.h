/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_PER_DEVICE_RESOURCE_H
#define CRMM_DEVICE_PER_DEVICE_RESOURCE_H

#include <crmm/core/resource.h>
#include <crmm/core/resource_ref.h>

CRMM_BEGIN_DECLS

/*
 * The per-device resource table: which resource containers, and whoever asks, use on each device.
 *
 * Each device starts with a cuda_memory_resource of its own, equal to the shared one. What is set
 * stays until it is set again or reset; setting NULL resets.
 *
 * Every resource handed out is *retained*: the caller owns a reference and drops it with
 * crmm_resource_release(), in the _ref forms too (release `ref.resource`). So it stays valid
 * whatever another thread sets meanwhile.
 *
 * `current` stands for the calling thread's current device. All functions fail with
 *  - CRMM_ERROR_INVALID_ARGUMENT: an output is NULL (`previous` may be), there is no such device,
 *    or the new resource belongs to another device
 *  - CRMM_ERROR_PROPERTY: the new resource is not device accessible, or not stream-ordered
 *  - CRMM_ERROR_OUT_OF_MEMORY: no host memory for the table
 *  - CRMM_ERROR_CUDA, CRMM_ERROR_FORKED: CUDA cannot say which devices there are
 * and on failure nothing has changed.
 *
 * One table where one libcrmm.so is used, and where the archives are embedded in an executable and
 * in the shared objects it is linked to. A plug-in loaded with RTLD_LOCAL that embeds the archives
 * has a table of its own; link it to the shared library instead.
 *
 * Thread-safety: safe.
 */

/**
 * The resource of the current device.
 *
 * @param mr [out] retained
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_current_device_resource(crmm_resource **mr);

/**
 * The resource of a device.
 *
 * @param device CUDA device ordinal
 * @param mr     [out] retained
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_get_per_device_resource(int device, crmm_resource **mr);

/**
 * Replace the resource of a device.
 *
 * @param device   CUDA device ordinal
 * @param new_mr   retained by the table; NULL restores the initial one
 * @param previous [out] what was there, retained; may be NULL
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_set_per_device_resource(int device, crmm_resource *new_mr,
                                                                 crmm_resource **previous);

/**
 * Replace the resource of the current device.
 *
 * @param new_mr   retained by the table; NULL restores the initial one
 * @param previous [out] what was there, retained; may be NULL
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_set_current_device_resource(crmm_resource *new_mr,
                                                                     crmm_resource **previous);

/**
 * Restore the initial resource of a device.
 *
 * @param device   CUDA device ordinal
 * @param previous [out] what was there, retained; may be NULL
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_reset_per_device_resource(int device,
                                                                   crmm_resource **previous);

/**
 * Restore the initial resource of the current device.
 *
 * @param previous [out] what was there, retained; may be NULL
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_reset_current_device_resource(crmm_resource **previous);

/** As crmm_get_current_device_resource(), as a typed reference; `ref->resource` is retained. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_get_current_device_resource_ref(crmm_device_async_resource_ref *ref);

/** As crmm_get_per_device_resource(), as a typed reference; `ref->resource` is retained. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_get_per_device_resource_ref(int device, crmm_device_async_resource_ref *ref);

/** As crmm_set_per_device_resource(); a NULL resource inside `new_ref` restores the initial one. */
CRMM_API CRMM_NODISCARD crmm_status crmm_set_per_device_resource_ref(
    int device, crmm_device_async_resource_ref new_ref, crmm_device_async_resource_ref *previous);

/** As crmm_set_current_device_resource(); NULL inside `new_ref` restores the initial one. */
CRMM_API CRMM_NODISCARD crmm_status crmm_set_current_device_resource_ref(
    crmm_device_async_resource_ref new_ref, crmm_device_async_resource_ref *previous);

/** As crmm_reset_per_device_resource(), with a typed reference. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_reset_per_device_resource_ref(int device, crmm_device_async_resource_ref *previous);

/** As crmm_reset_current_device_resource(), with a typed reference. */
CRMM_API CRMM_NODISCARD crmm_status
crmm_reset_current_device_resource_ref(crmm_device_async_resource_ref *previous);

CRMM_END_DECLS

#endif
