/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_LIMITING_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_LIMITING_RESOURCE_ADAPTOR_H

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Options of crmm_limiting_resource_adaptor_create(); see crmm/core/options.h. */
typedef struct crmm_limiting_resource_adaptor_options {
    size_t struct_size; /**< sizeof the struct */
    size_t alignment;   /**< bytes to whose multiple each request is rounded up where it is counted,
                             a power of two; 0: CRMM_DEVICE_ALIGNMENT */
} crmm_limiting_resource_adaptor_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_limiting_resource_adaptor_options_init(
    crmm_limiting_resource_adaptor_options *options);

/**
 * Create an adaptor that passes requests on until the bytes outstanding would exceed a limit. Then
 * an allocation fails with CRMM_ERROR_LIMIT_EXCEEDED and the upstream is not asked. Reaching the
 * limit exactly is allowed. It has the upstream's properties and device.
 *
 * @param upstream         where memory comes from; retained
 * @param allocation_limit most bytes outstanding at any time, as they are counted
 * @param options          NULL for all defaults
 * @param out              [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; `alignment` is no power of two; a
 *                                     wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * crmm_deallocate_ptr() is CRMM_MISUSE_UNSUPPORTED: a block counts for its size, which no upstream
 * can be asked for.
 *
 * Thread-safety: safe; threads count apart from each other while the limit is far, and a request is
 * never refused because of another one that is itself about to be refused.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_limiting_resource_adaptor_create(
    crmm_resource *upstream, size_t allocation_limit,
    const crmm_limiting_resource_adaptor_options *options, crmm_resource **out);

/**
 * Bytes outstanding now, as they are counted: exact when no other call is in flight, and never more
 * than the limit.
 *
 * @param adaptor a limiting_resource_adaptor; anything else is misuse and gives 0
 */
CRMM_API size_t crmm_limiting_resource_adaptor_allocated_bytes(const crmm_resource *adaptor);

/**
 * The limit.
 *
 * @param adaptor a limiting_resource_adaptor; anything else is misuse and gives 0
 */
CRMM_API size_t crmm_limiting_resource_adaptor_allocation_limit(const crmm_resource *adaptor);

CRMM_END_DECLS

#endif
