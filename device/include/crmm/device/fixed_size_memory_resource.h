/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_FIXED_SIZE_MEMORY_RESOURCE_H
#define CRMM_DEVICE_FIXED_SIZE_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** As blocks_to_preallocate: none, memory is taken from upstream when it is needed. */
#define CRMM_PREALLOCATE_NONE 18446744073709551615u

/** Options of crmm_fixed_size_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_fixed_size_memory_resource_options {
    size_t struct_size;             /**< sizeof the struct */
    size_t block_size;              /**< bytes of a block, rounded up to CRMM_DEVICE_ALIGNMENT; 0:
                                       1 MiB */
    uint64_t blocks_to_preallocate; /**< blocks to take from upstream at once, when the resource is
                                       created and whenever all are in use; 0: 128;
                                       CRMM_PREALLOCATE_NONE: none at first, and some MiB whenever
                                       all are in use */
} crmm_fixed_size_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_fixed_size_memory_resource_options_init(
    crmm_fixed_size_memory_resource_options *options);

/**
 * Create a resource that hands out blocks of one size: any request of up to that size takes a whole
 * block, a larger one is refused. Its properties are those of its upstream, and its device that of
 * its upstream, else the current one. Alignments of up to CRMM_DEVICE_ALIGNMENT.
 *
 * It is a pool (crmm_pool_memory_resource_create()) of such blocks, so what is said there of
 * streams, captures, threads and shortage of memory holds. What a block takes of upstream's memory
 * is what a pool's block does: up to 1 MiB, a size that is not a power of two can take an eighth
 * more. Memory goes back to upstream by crmm_resource_trim(), and in the end.
 *
 * Found in every build: a pointer that is not a block, a block given back twice, more bytes than a
 * block has. Which of the sizes that fit a block was asked for is not kept.
 *
 * @param upstream retained
 * @param options  NULL for all defaults
 * @param out      [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `upstream` or `out` is NULL; a wrong struct_size
 * @retval CRMM_ERROR_OUT_OF_MEMORY    upstream does not give the blocks to preallocate; no host
 * memory; the blocks are more than can exist
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * An allocation of more bytes than a block has is CRMM_ERROR_OUT_OF_MEMORY and upstream is not
 * asked; a larger alignment is CRMM_ERROR_UNSUPPORTED.
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_fixed_size_memory_resource_create(
    crmm_resource *upstream, const crmm_fixed_size_memory_resource_options *options,
    crmm_resource **out);

/**
 * The size of a block.
 *
 * @param mr a fixed_size resource; anything else is reported as misuse
 * @return bytes, a multiple of CRMM_DEVICE_ALIGNMENT; 0 for anything else
 *
 * Thread-safety: safe.
 */
CRMM_API size_t crmm_fixed_size_memory_resource_block_size(const crmm_resource *mr);

CRMM_END_DECLS

#endif
