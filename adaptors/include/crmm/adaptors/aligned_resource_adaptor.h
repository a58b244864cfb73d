/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_ALIGNED_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_ALIGNED_RESOURCE_ADAPTOR_H

#include <stddef.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Options of crmm_aligned_resource_adaptor_create(); see crmm/core/options.h. */
typedef struct crmm_aligned_resource_adaptor_options {
    size_t struct_size;         /**< sizeof the struct */
    size_t alignment;           /**< bytes to which every block of `alignment_threshold` bytes or
                                     more is aligned, a power of two; less than
                                     CRMM_DEVICE_ALIGNMENT, and 0, stand for that */
    size_t alignment_threshold; /**< bytes; smaller requests get the alignment they ask for and no
                                     more; 0: there are none */
} crmm_aligned_resource_adaptor_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_aligned_resource_adaptor_options_init(
    crmm_aligned_resource_adaptor_options *options);

/**
 * Create an adaptor that gives any alignment that is a power of two, over a resource that gives no
 * more than CRMM_DEVICE_ALIGNMENT. It has the upstream's properties and device.
 *
 * A request gets the larger of the alignment it asks for and, from `alignment_threshold` bytes on,
 * that of the options. Up to CRMM_DEVICE_ALIGNMENT it is passed on with its size and that
 * alignment. For more, the upstream is asked for CRMM_DEVICE_ALIGNMENT and for the size rounded up
 * to a multiple of the alignment, plus the alignment less CRMM_DEVICE_ALIGNMENT; the block begins
 * at the first multiple of the alignment, and the memory up to its next one behind the end belongs
 * to the block as well. Which part of the upstream's block was handed out is kept in host memory
 * that is reserved at allocation; giving back allocates nothing, and the upstream gets back exactly
 * what it gave.
 *
 * @param upstream where memory comes from; retained. It must give CRMM_DEVICE_ALIGNMENT, as every
 *                 resource of this library does; one that refuses it makes allocations fail
 * @param options  NULL for all defaults
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; `alignment` is no power of two; a
 *                                     wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * An allocation also fails with CRMM_ERROR_OUT_OF_MEMORY where the padded size is more than can
 * exist (the upstream is not asked) or where host memory for the books is exhausted. Of padded
 * blocks these are found and left alone: CRMM_MISUSE_FOREIGN_POINTER (a second free too),
 * CRMM_MISUSE_SIZE_MISMATCH, CRMM_MISUSE_ALIGNMENT_MISMATCH and, at the last release,
 * CRMM_MISUSE_LEAK. crmm_deallocate_ptr() works for them over any upstream.
 *
 * Thread-safety: safe; a lock that few threads share is held for the books alone, never across a
 * call of the upstream.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_aligned_resource_adaptor_create(
    crmm_resource *upstream, const crmm_aligned_resource_adaptor_options *options,
    crmm_resource **out);

CRMM_END_DECLS

#endif
