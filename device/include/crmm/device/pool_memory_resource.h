/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_MEMORY_RESOURCE_H
#define CRMM_DEVICE_POOL_MEMORY_RESOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** As stream_cache_size: no caches, every call goes to the heap. */
#define CRMM_STREAM_CACHE_NONE 18446744073709551615u

/**
 * What happens to the chunks of memory that a pool takes from its upstream. Called on the thread
 * whose call made the pool grow or shrink, with no lock held; it must not use the pool.
 *
 * @param base      address of the chunk
 * @param bytes     its size
 * @param added     true: the chunk is there, and nobody has got memory of it yet; false: it is
 * about to go, and nobody has memory of it any more
 * @param user_data as given
 */
typedef void (*crmm_pool_chunk_callback)(void *base, size_t bytes, bool added, void *user_data);

/** Options of crmm_pool_memory_resource_create(); see crmm/core/options.h. */
typedef struct crmm_pool_memory_resource_options {
    size_t struct_size;       /**< sizeof the struct */
    size_t initial_pool_size; /**< bytes to take from upstream at once; rounded up to what upstream
                                   gives, but never beyond the maximum */
    size_t maximum_pool_size; /**< bytes that are never exceeded; 0: what upstream gives */
    uint64_t release_threshold; /**< give idle memory back to upstream while the pool holds more
                                   bytes than this; 0: keep all; CRMM_RELEASE_ALL: keep none */
    uint64_t tight;           /**< 1: hold as little as can be: idle memory is moved, or given back
                                   and taken anew, before the pool grows. Costs driver calls; over
                                   an upstream of chunks the CPU waits for work that is pending on
                                   free memory before the pool grows beyond its peak and a
                                   hundredth, or the target */
    size_t target_pool_size;  /**< the expected peak in bytes: below it the pool grows freely, above
                                   it idle memory is moved first; 0: not known */
    size_t handle_size;       /**< bytes that the pool grows by at least, and over vmm the size of
                                   each physical handle; rounded up to 2 MiB; 0: the library's
                                   choice */
    uint64_t validate;        /**< 1: every block lies between guard bytes, 256 before it and 256 to
                                   511 behind it, that are looked at when it is given back, which
                                   waits for the stream; without one for the device, if the block
                                   came on a stream: what was written there is
                                   CRMM_MISUSE_OVERRUN. Every leak is listed. A
                                   figure or a snapshot of blocks counts the guards. Built with
                                   AddressSanitizer, memory that the host can touch is poisoned
                                   wherever it is not handed out */
    size_t stream_cache_size; /**< bytes that each thread may keep at hand for each stream; 0: about
                                 a share of what the pool holds, some blocks of each size, and
                                 where one thread uses the pool up to two large blocks for each
                                 stream; CRMM_STREAM_CACHE_NONE: none */
    size_t heap_count;        /**< most heaps that threads may spread over when they get into each
                                   other's way; 0: as many as help, and one if `tight` */
    crmm_pool_chunk_callback on_chunk; /**< told of every chunk; NULL: nobody */
    void *on_chunk_user_data;          /**< passed to it */
} crmm_pool_memory_resource_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_pool_memory_resource_options_init(crmm_pool_memory_resource_options *options);

/**
 * Create a pool: it takes memory from `upstream` in large pieces and hands it out in small ones.
 * Its properties are those of its upstream, and its device that of its upstream, else the current
 * one. Any power-of-two alignment; sizes are rounded up to CRMM_DEVICE_ALIGNMENT, and those of up
 * to 1 MiB by at most an eighth.
 *
 * A block given back on a stream is handed out again to the same stream at once, and to another one
 * only after it has been made to wait, or the work is known to be complete. The pool makes no CUDA
 * call on an allocation or deallocation but for the stream's capture state and id, until its own
 * caches run out, or enough was given back on a stream to mark it by an event.
 *
 * A stream that is being captured gets nothing: an allocation on it is CRMM_ERROR_UNSUPPORTED, a
 * deallocation misuse (CRMM_MISUSE_UNSUPPORTED) that leaves the block alone. Captures stay valid.
 *
 * What was given back on a stream and not yet marked by an event, when the stream is destroyed, is
 * found again only when memory runs out, or by a trim. crmm_pool_memory_resource_retire_stream()
 * avoids that.
 *
 * When memory is short the pool tries, in this order: memory of other streams whose work is done;
 * other streams' memory, with a wait on the GPU; the threads' caches; neighbouring free blocks
 * joined; growing; giving idle chunks back; waiting for work on the CPU; failing.
 *
 * The last release waits for pending work and gives everything back. Memory that stays all the
 * same, because CUDA calls fail again and again, is reported as misuse (CRMM_MISUSE_CUDA). From
 * crmm_resource_trim() such calls hold some back, which it does not count as released; the next one
 * tries again.
 *
 * @param upstream retained; one that can grow a block in place (vmm_memory_resource) gives the
 * least fragmentation. NULL: vmm_memory_resource on the current device, or cuda where the device
 * has no virtual memory management
 * @param options  NULL for all defaults
 * @param out      [out] the resource, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `out` is NULL; the initial, or the target, size is more than
 *                                     the maximum; a wrong struct_size
 * @retval CRMM_ERROR_OUT_OF_MEMORY    upstream does not give the initial size; no host memory; a
 * size is more than can exist
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_create(
    crmm_resource *upstream, const crmm_pool_memory_resource_options *options, crmm_resource **out);

/**
 * How much memory a pool has taken from upstream.
 *
 * @param pool a pool; anything else is reported as misuse
 * @return bytes; 0 for anything else
 *
 * Thread-safety: safe.
 */
CRMM_API size_t crmm_pool_memory_resource_pool_size(const crmm_resource *pool);

/**
 * Say that a stream is about to be destroyed. What was given back on it is marked by an event, so
 * that other streams can use it.
 *
 * @param pool   a pool
 * @param stream alive, not being captured
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool
 * @retval CRMM_ERROR_UNSUPPORTED      the stream is being captured
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe. Later calls on the stream are allowed; what they give back wants another.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_retire_stream(crmm_resource *pool,
                                                                            crmm_stream stream);

/** A block of a pool's memory, as crmm_pool_memory_resource_snapshot() tells of it. */
typedef struct crmm_pool_block {
    size_t struct_size;  /**< the library's own */
    void *ptr;           /**< its address */
    size_t bytes;        /**< its size, after rounding */
    uint64_t is_live;    /**< 1: handed out; 0: free */
    uint64_t is_pending; /**< 1: free, and work on it may not be complete */
    uint64_t stream_id;  /**< CUDA's id of the stream that it was given back on; 0 if it is live, or
                              complete, or that was the legacy stream, or is not known any
                              more */
} crmm_pool_block;

/**
 * Visit every block of a pool, free ones too, in address order within each chunk. Blocks that
 * threads keep at hand are free ones.
 *
 * @param pool      a pool
 * @param visitor   called for each block on the calling thread; the block is valid during the call.
 * It must not use the pool
 * @param user_data passed to it
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool; `visitor` is NULL
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the list
 *
 * Thread-safety: safe; while others use the pool each chunk is seen as it was at one moment.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_snapshot(
    const crmm_resource *pool, void (*visitor)(const crmm_pool_block *block, void *user_data),
    void *user_data);

/**
 * The chunk that a block lies in, for whoever registers memory or shares it with another process.
 *
 * @param pool  a pool
 * @param ptr   a live block of the pool, or an address within one
 * @param base  [out] address of the chunk; may be NULL. Over vmm a chunk is one physical handle,
 * unless the vmm resource was told to make smaller ones
 * @param bytes [out] its size; may be NULL
 *
 * From the base to `ptr` is the address's offset in the chunk. Where a block begins is found at
 * once; what lies within one is looked for among all blocks.
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool; the address is in no live block of
 * it
 * @retval CRMM_ERROR_FORKED           in a forked child of the process that made the pool
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_chunk(const crmm_resource *pool,
                                                                    const void *ptr, void **base,
                                                                    size_t *bytes);

/** Handle types of crmm_pool_memory_resource_export(), which are CUDA's. */
#define CRMM_EXPORT_FILE_DESCRIPTOR 1u /**< a POSIX file descriptor */
#define CRMM_EXPORT_FABRIC 8u          /**< a fabric handle, for processes of other nodes too */

/** An exported handle of physical memory. Set struct_size before the call. */
typedef struct crmm_pool_export {
    size_t struct_size;       /**< set by the caller to sizeof(crmm_pool_export) */
    void *base;               /**< where in the pool the handle's memory begins */
    size_t offset;            /**< bytes from there to the address that was asked about */
    size_t bytes;             /**< size of the handle; who imports it maps all of it */
    int64_t file_descriptor;  /**< of CRMM_EXPORT_FILE_DESCRIPTOR: the caller's, who closes it;
                                   otherwise -1 */
    unsigned char fabric[64]; /**< of CRMM_EXPORT_FABRIC: a CUmemFabricHandle; otherwise 0 */
} crmm_pool_export;

/**
 * Export the physical handle that a block lies in, for another process to import with
 * cuMemImportFromShareableHandle() and to map with cuMemMap().
 *
 * Only memory of a vmm_memory_resource that was created for such handles (export_handle_type) can
 * be exported, directly below the pool. Handles are those of crmm_pool_memory_resource_chunk(), or
 * smaller where the vmm resource's own handle_size is. A block may begin in the midst of one, and
 * lie in several: if `bytes - offset` is less than the block's size, the next one is that of the
 * address `base + bytes`. A block of at most the pool's handle_size, a power of two, lies in one
 * handle if it was allocated with that alignment.
 *
 * The whole handle is shared, and with it other blocks. The memory is the importer's as well until
 * it has unmapped and released its handle, and a descriptor that is open holds it too; but the pool
 * hands a block's memory out anew when the block is given back, and does not wait for another
 * process. Every call makes a handle anew; none of them needs to be kept for the next.
 *
 * @param pool        a pool
 * @param ptr         a live block of the pool, or an address within one
 * @param handle_type CRMM_EXPORT_FILE_DESCRIPTOR or CRMM_EXPORT_FABRIC
 * @param out         [out] the handle; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool; the address is in no live block of
 *                                     it; no such handle type; `out` is NULL or its struct_size
 *                                     wrong
 * @retval CRMM_ERROR_UNSUPPORTED      the pool's memory is of another kind of resource, or of a vmm
 *                                     resource that was not created for such handles
 * @retval CRMM_ERROR_CUDA             a CUDA call failed
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_export(const crmm_resource *pool,
                                                                     const void *ptr,
                                                                     uint64_t handle_type,
                                                                     crmm_pool_export *out);

/** Figures of a pool beside those of crmm_resource_info(). Set struct_size before the call. */
typedef struct crmm_pool_statistics {
    size_t struct_size;      /**< set by the caller to sizeof(crmm_pool_statistics) */
    uint64_t holes;          /**< bytes of address space without memory within the pool's ranges */
    uint64_t at_hand;        /**< bytes that threads keep in their caches, or pass to each other */
    uint64_t streams;        /**< streams that the pool knows */
    uint64_t heaps;          /**< heaps that threads are spread over */
    uint64_t growths;        /**< times that memory was taken from upstream */
    uint64_t moves;          /**< handles moved instead of taken anew */
    uint64_t releases;       /**< times that memory was given back to upstream */
    uint64_t records;        /**< events recorded */
    uint64_t queries;        /**< events asked whether they are complete */
    uint64_t waits;          /**< times that a stream was made to wait for another */
    uint64_t synchronizes;   /**< times that a thread waited for work */
    uint64_t events;         /**< events made, which are recorded again and again */
    uint64_t upstream_calls; /**< calls of upstream, for memory and address space: taken, given back
                                  or moved, also in vain. A trim that is passed on is not counted */
} crmm_pool_statistics;

/**
 * Tell how a pool works.
 *
 * @param pool       a pool
 * @param statistics [out] filled as far as its struct_size says
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool; `statistics` is NULL or its
 *                                     struct_size wrong
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_pool_memory_resource_statistics(const crmm_resource *pool, crmm_pool_statistics *statistics);

/** What was given back on one stream, as crmm_pool_memory_resource_streams() tells of it. */
typedef struct crmm_pool_stream {
    size_t struct_size; /**< the library's own */
    uint64_t stream_id; /**< CUDA's id of the stream; 0: the legacy stream */
    uint64_t pending;   /**< bytes that others can get when they have waited, or the work is known
                             to be complete */
    uint64_t at_hand;   /**< further bytes, that threads keep in their caches, or pass to each other
                         */
} crmm_pool_stream;

/**
 * Visit the streams on which something was given back that is not known to be complete. Together
 * their bytes are what crmm_resource_info() says is pending, but for those of streams that there
 * was no host memory to know of. The cost does not depend on the number of blocks.
 *
 * @param pool      a pool
 * @param visitor   called for each stream on the calling thread; `stream` is valid during the call.
 * It must not use the pool
 * @param user_data passed to it
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL or no pool; `visitor` is NULL
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the list
 *
 * Thread-safety: safe; while others use the pool each stream is seen as it was at some moment.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_pool_memory_resource_streams(
    const crmm_resource *pool, void (*visitor)(const crmm_pool_stream *stream, void *user_data),
    void *user_data);

CRMM_END_DECLS

#endif
