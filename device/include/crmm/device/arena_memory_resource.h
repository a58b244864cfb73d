/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_ARENA_MEMORY_RESOURCE_H
#define CRMM_DEVICE_ARENA_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Options of crmm_arena_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_arena_memory_resource_options {
    size_t struct_size;           /**< sizeof the struct */
    size_t arena_size;            /**< bytes, rounded down to CRMM_DEVICE_ALIGNMENT, at least 1 MiB;
                                     0: half of the device memory that is free */
    uint64_t dump_log_on_failure; /**< 1: an allocation for which there is no memory writes what the
                                     arena holds to the library's log (crmm/core/log.h), at level
                                     error */
} crmm_arena_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_arena_memory_resource_options_init(crmm_arena_memory_resource_options *options);

/**
 * Create an arena: it takes one chunk of a given size from its upstream, keeps it to the end, and
 * hands out parts of it; upstream is never asked again. Its properties are those of its upstream,
 * and its device that of its upstream, else the current one. Any power-of-two alignment.
 *
 * Each thread has an arena of its own for each stream that it uses, told apart by CUDA's stream id:
 * up to a sixteenth of the chunk, all together, is kept there and handed out again without a lock
 * that others wait for. The rest is the global arena, which all of them take from and give to: so a
 * block may be given back by another thread and on another stream than it was allocated by, and
 * what a thread has when it ends goes there. Memory passes from one stream to another in the order
 * of events; the device is waited for only before an allocation would fail.
 *
 * It is a pool (crmm_pool_memory_resource_create()) whose size cannot change, so what is said there
 * of streams, captures, misuse and shortage of memory holds; crmm_resource_trim() gives nothing of
 * it back.
 *
 * @param upstream retained
 * @param options  NULL for all defaults
 * @param out      [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `upstream` or `out` is NULL; the arena's size is less than
 * 1 MiB, or not given and the upstream's memory is not the device's; a wrong struct_size
 * @retval CRMM_ERROR_OUT_OF_MEMORY    upstream does not give the chunk; no size was given, and less
 * than 2 MiB of the device's memory are free; no host memory; the size is more than can exist
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_arena_memory_resource_create(
    crmm_resource *upstream, const crmm_arena_memory_resource_options *options,
    crmm_resource **out);

/**
 * The size of an arena.
 *
 * @param mr an arena; anything else is reported as misuse
 * @return bytes; 0 for anything else
 *
 * Thread-safety: safe.
 */
CRMM_API size_t crmm_arena_memory_resource_arena_size(const crmm_resource *mr);

CRMM_END_DECLS

#endif
