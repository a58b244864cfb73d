/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_BINNING_MEMORY_RESOURCE_H
#define CRMM_DEVICE_BINNING_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Options of crmm_binning_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_binning_memory_resource_options {
    size_t struct_size;             /**< sizeof the struct */
    uint64_t min_size_exponent;     /**< there is a bin of 2^i bytes for each i from this one */
    uint64_t max_size_exponent;     /**< to this one, at most 62; both 0: no bins */
    uint64_t blocks_to_preallocate; /**< as crmm_fixed_size_memory_resource_options has it, for each
                                       bin that this resource makes, also by
                                       crmm_binning_memory_resource_add_bin(); 0: 128 blocks, or
                                       what 16 MiB have, if that is less, but one at least */
} crmm_binning_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_binning_memory_resource_options_init(
    crmm_binning_memory_resource_options *options);

/**
 * Create a resource that sends each request to the smallest bin that is large enough, and what is
 * larger than all bins to its upstream. A bin of its own making is a resource of blocks of one size
 * (crmm_fixed_size_memory_resource_create()) over the upstream. The properties are those of the
 * upstream, and the device that of the upstream, else the current one.
 *
 * A block goes back to the resource that it came from, whatever bins were added meanwhile: bins of
 * its own making know their addresses, and blocks of any other resource are kept in a table. So a
 * pointer that is not from here, a wrong size and a block given back twice are found too. (Of a
 * block in such a bin, the size is wrong if it is more than the block has.)
 *
 * crmm_resource_info() adds up its bins of its own making and what is alive of other resources'; so
 * a peak is the sum of theirs, which may have been at different times.
 *
 * Bins of its own making give alignments of up to CRMM_DEVICE_ALIGNMENT; a request for more goes
 * past them. A bin that has no memory makes the request fail: another one is not asked.
 *
 * @param upstream retained
 * @param options  NULL for all defaults
 * @param out      [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `upstream` or `out` is NULL; the least exponent is more than
 * the greatest, or that more than 62; a wrong struct_size
 * @retval CRMM_ERROR_OUT_OF_MEMORY    upstream does not give the blocks to preallocate; no host
 * memory; the blocks are more than can exist
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_binning_memory_resource_create(
    crmm_resource *upstream, const crmm_binning_memory_resource_options *options,
    crmm_resource **out);

/**
 * Add a bin: requests of up to its size that are too large for the next smaller bin are its from
 * now on. Blocks that are alive are not touched.
 *
 * @param mr              a binning resource
 * @param allocation_size most bytes of a request, rounded up to CRMM_DEVICE_ALIGNMENT
 * @param bin_resource    retained; any resource with the properties of `mr`, of the same device or
 * none. NULL: a new resource of blocks of this size over the upstream
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `mr` is NULL or no binning resource; the size is 0; there is
 * a bin of this size; `bin_resource` belongs to another device, or stands on `mr`
 * @retval CRMM_ERROR_PROPERTY         `bin_resource` lacks a property of `mr`
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no memory for the bin; the size is more than can exist
 *
 * A new resource fails as crmm_fixed_size_memory_resource_create() does.
 *
 * Thread-safety: safe, also while others allocate and deallocate.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_binning_memory_resource_add_bin(
    crmm_resource *mr, size_t allocation_size, crmm_resource *bin_resource);

CRMM_END_DECLS

#endif
