/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_RESOURCE_H
#define CRMM_CORE_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>
#include <crmm/core/stream.h>

CRMM_BEGIN_DECLS

/**
 * A memory resource: an object that hands out and takes back memory.
 *
 * Opaque and reference-counted. Whoever creates one, or gets one from a getter, owns a reference
 * and drops it with crmm_resource_release(). Whatever stores a resource (an adaptor, a container,
 * the per-device table) retains it, so that nothing outlives what it needs. Some resources are
 * immortal objects shared by the whole process: retaining and releasing them does nothing.
 *
 * Thread-safety: every function below may be called from any thread at any time on any resource
 * that comes with this library, unless the resource's own documentation says otherwise.
 */
typedef struct crmm_resource crmm_resource;

/** What a resource's memory can be used for, and how it is handed out; bits or'ed together. */
typedef uint64_t crmm_properties;

/** The host may touch the memory. */
#define CRMM_HOST_ACCESSIBLE 1
/** Devices may touch the memory. */
#define CRMM_DEVICE_ACCESSIBLE 2
/** crmm_allocate() and crmm_deallocate() work; without it only the _sync functions do. */
#define CRMM_STREAM_ORDERED 4

/** What crmm_resource_info() tells about a resource. All sizes are in bytes. */
typedef struct crmm_memory_info {
    size_t struct_size;  /**< set by the caller to sizeof(crmm_memory_info); filled no further */
    size_t live;         /**< asked for by callers and not yet given back */
    size_t held;         /**< taken from upstream, or from CUDA, and not yet given back */
    size_t cached;       /**< of `held`, free to be handed out */
    size_t pending;      /**< of `cached`, given back on a stream that may not have passed yet */
    size_t largest_free; /**< the longest run of free bytes within `cached` */
    size_t peak_live;    /**< the highest `live` so far; of pools and their kin the highest that
                            was looked at: whenever they take more memory, and by each question */
    size_t peak_held;    /**< the highest `held` so far */
    size_t allocations;  /**< number of allocations behind `live` */
} crmm_memory_info;

/**
 * Take a reference.
 *
 * @param resource any resource; NULL gives NULL
 * @return `resource`
 */
CRMM_API crmm_resource *crmm_resource_retain(crmm_resource *resource);

/**
 * Drop a reference and set the variable to NULL. The last one destroys the resource: it gives its
 * memory back, except what holds allocations that are still alive, which is reported as a leak.
 *
 * @param resource address of the variable; NULL, and NULL inside, do nothing
 */
CRMM_API void crmm_resource_release(crmm_resource **resource);

/**
 * The properties of a resource, constant over its life.
 *
 * @param resource any resource; NULL has none
 * @return CRMM_HOST_ACCESSIBLE, CRMM_DEVICE_ACCESSIBLE, CRMM_STREAM_ORDERED, or'ed
 */
CRMM_API crmm_properties crmm_resource_properties(const crmm_resource *resource);

/**
 * Whether a resource has all of some properties.
 *
 * @param resource any resource; NULL has none
 * @param required properties, or'ed
 */
CRMM_API bool crmm_resource_has(const crmm_resource *resource, crmm_properties required);

/**
 * Whether memory from one resource may be given back to the other.
 *
 * @param a any resource, or NULL
 * @param b any resource, or NULL; NULL equals only NULL
 */
CRMM_API bool crmm_resource_is_equal(const crmm_resource *a, const crmm_resource *b);

/**
 * Whether a resource takes its memory from another one. Suballocators count as well.
 *
 * @param resource any resource, or NULL
 */
CRMM_API bool crmm_resource_is_adaptor(const crmm_resource *resource);

/**
 * The resource that this one takes its memory from.
 *
 * @param resource any resource, or NULL
 * @return borrowed: `resource` holds it; NULL where there is none
 */
CRMM_API crmm_resource *crmm_resource_upstream(const crmm_resource *resource);

/**
 * The class of a resource, such as "pool_memory_resource".
 *
 * @param resource any resource, or NULL
 * @return static text, never NULL; "(null)" for NULL
 */
CRMM_API const char *crmm_resource_name(const crmm_resource *resource);

/**
 * The device a resource belongs to.
 *
 * @param resource any resource, or NULL
 * @return the CUDA device ordinal; -1 for a resource that belongs to no device
 */
CRMM_API int crmm_resource_device(const crmm_resource *resource);

/**
 * A one-line description of a resource and of what it stands on.
 *
 * @param resource any resource; NULL gives "(null)"
 * @param text     [out] where the text goes, always NUL-terminated if `size` is not 0; may be NULL
 *                 with `size` 0
 * @param size     bytes at `text`
 * @return length of the whole text without the NUL, as snprintf() does; at least `size` if it was
 *         cut
 */
CRMM_API size_t crmm_resource_describe(const crmm_resource *resource, char *text, size_t size);

/**
 * Give cached memory back to CUDA or the heap, through the whole stack below a resource.
 *
 * @param resource      any resource
 * @param bytes_to_keep bytes each layer may go on holding
 * @param released      [out] bytes given back; may be NULL
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `resource` is NULL
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_resource_trim(crmm_resource *resource,
                                                       size_t bytes_to_keep, size_t *released);

/**
 * Figures about a resource's memory. A resource without books of its own gives its upstream's.
 * Resources that are equal, since memory from one may be given back to the other, share theirs.
 *
 * Exact when no other call is in flight; otherwise each figure is one it had during the call.
 *
 * @param resource any resource
 * @param info     [out] `info->struct_size` is set by the caller; filled no further than that
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL argument, or `struct_size` smaller than a size_t
 * @retval CRMM_ERROR_UNSUPPORTED      neither the resource nor what it stands on keeps books
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_resource_info(const crmm_resource *resource,
                                                       crmm_memory_info *info);

/**
 * Allocate in stream order.
 *
 * @param resource  where from; must have CRMM_STREAM_ORDERED
 * @param stream    work queued on it after this call may use the memory at once; another stream
 *                  must first be ordered after this point of `stream`. It must be alive
 * @param bytes     size; 0 succeeds with NULL and asks nobody
 * @param alignment in bytes, a power of two, at most what the resource gives
 * @param ptr       [out] the memory; untouched on failure; NULL means that `bytes` is 0
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `resource` or `ptr`; `alignment` 0 or no power of two,
 *                                     for 0 bytes too
 * @retval CRMM_ERROR_PROPERTY         the resource lacks CRMM_STREAM_ORDERED
 * @retval CRMM_ERROR_UNSUPPORTED      `alignment` is more than the resource gives; the device
 *                                     cannot do it; a stream capture forbids it
 * @retval CRMM_ERROR_OUT_OF_MEMORY    exhausted, or more bytes than can exist
 * @retval CRMM_ERROR_LIMIT_EXCEEDED   a limit within the stack
 * @retval CRMM_ERROR_BAD_ALLOC        CUDA refused for another reason
 * @retval CRMM_ERROR_FORKED           CUDA memory in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_allocate(crmm_resource *resource, crmm_stream stream,
                                                  size_t bytes, size_t alignment, void **ptr);

/**
 * Give memory back in stream order: work already queued on `stream` may still use it.
 *
 * @param resource  where it came from, or one that is equal
 * @param stream    nothing reuses the memory before this point of it. It must be alive
 * @param ptr       the memory; NULL is a no-op
 * @param bytes     as allocated
 * @param alignment as allocated
 *
 * Never fails. Misuse is reported (crmm/core/misuse.h) and leaves the block alone: NULL resource,
 * 0 bytes with a pointer, a bad alignment, a resource without CRMM_STREAM_ORDERED, and whatever
 * the resource itself finds.
 */
CRMM_API void crmm_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                              size_t alignment);

/**
 * Allocate memory that no work is pending on: any stream, and the host where it has access, may
 * use it at once.
 *
 * @param resource  where from
 * @param bytes     size; 0 succeeds with NULL and asks nobody
 * @param alignment in bytes, a power of two, at most what the resource gives
 * @param ptr       [out] the memory; untouched on failure; NULL means that `bytes` is 0
 *
 * Fails as crmm_allocate() does, but never for lack of CRMM_STREAM_ORDERED.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_allocate_sync(crmm_resource *resource, size_t bytes,
                                                       size_t alignment, void **ptr);

/**
 * Give back memory that no work is pending on.
 *
 * @param resource  where it came from, or one that is equal
 * @param ptr       the memory; NULL is a no-op
 * @param bytes     as allocated
 * @param alignment as allocated
 *
 * Never fails; misuse is reported as by crmm_deallocate().
 */
CRMM_API void crmm_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                   size_t alignment);

/**
 * Give memory back in stream order by its address alone, where the resource keeps books.
 *
 * @param resource where it came from
 * @param stream   as for crmm_deallocate()
 * @param ptr      the memory; NULL is a no-op
 *
 * Never fails; a resource that keeps no books reports CRMM_MISUSE_UNSUPPORTED and leaves the block
 * alone. So do adaptors that need the size themselves (limiting, statistics, logging), even where
 * their upstream knows it, since no resource can be asked for it; a tracking adaptor over them
 * gives the block back with its size.
 */
CRMM_API void crmm_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr);

CRMM_END_DECLS

#endif
