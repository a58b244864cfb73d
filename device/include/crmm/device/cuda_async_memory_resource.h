/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_ASYNC_MEMORY_RESOURCE_H
#define CRMM_DEVICE_CUDA_ASYNC_MEMORY_RESOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/*
 * Kinds of handles by which a pool's memory can be shared with other processes; or'ed together. The
 * values are CUDA's.
 */
/** Memory that is not shared. */
#define CRMM_HANDLE_TYPE_NONE 0
/** A file descriptor, for processes of one machine. */
#define CRMM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR 1
/** A fabric handle, for machines joined by NVLink; since CUDA 12.3. */
#define CRMM_HANDLE_TYPE_FABRIC 8

/** Options of crmm_cuda_async_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_cuda_async_memory_resource_options {
    size_t struct_size;          /**< sizeof the struct */
    size_t initial_pool_size;    /**< bytes to have ready from the start; 0: none */
    uint64_t release_threshold;  /**< bytes to keep when memory could go back to the device; 0: keep
                                      all; CRMM_RELEASE_ALL: none */
    uint64_t export_handle_type; /**< CRMM_HANDLE_TYPE_*; 0: memory cannot be shared */
    const int *peer_devices;  /**< devices that may use the memory as well; read during the call */
    size_t peer_device_count; /**< their number */
    uint64_t require;         /**< 1: fail where the device has no memory pools; 0: fall back to
                                   cudaMalloc, which crmm_resource_describe() then says */
} crmm_cuda_async_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_cuda_async_memory_resource_options_init(
    crmm_cuda_async_memory_resource_options *options);

/**
 * Create a resource over a cudaMemPool of its own on the current device: device accessible,
 * stream-ordered, alignment up to CRMM_DEVICE_ALIGNMENT. It keeps all memory it has taken, unless
 * told otherwise; crmm_resource_trim() gives it back.
 *
 * A stream that is being captured is handed on to CUDA, which makes the allocation part of the
 * graph. An allocation that finds no memory waits for its stream, trims the pool and tries once
 * more; describe tells how often. crmm_allocate_sync() allocates on the legacy stream and waits.
 *
 * @param options NULL for all defaults
 * @param out     [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL; peers without an array; no such peer device; a
 *                                     wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      with `require`: the device has no memory pools; a handle type
 *                                     it cannot export, a peer that cannot reach it; an initial
 * size while a blocking stream is being captured; an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    the initial size, or no host memory
 * @retval CRMM_ERROR_CUDA             another CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_cuda_async_memory_resource_create(
    const crmm_cuda_async_memory_resource_options *options, crmm_resource **out);

/**
 * The cudaMemPool behind a resource.
 *
 * @param resource a cuda_async_memory_resource, its view or its managed form; anything else is
 *                 misuse and gives NULL
 * @return lent: the resource's, or the view's owner's; NULL where it has fallen back to cudaMalloc
 */
CRMM_API crmm_mem_pool crmm_cuda_async_memory_resource_pool_handle(const crmm_resource *resource);

CRMM_END_DECLS

#endif
