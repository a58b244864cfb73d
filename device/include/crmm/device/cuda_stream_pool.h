/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_STREAM_POOL_H
#define CRMM_DEVICE_CUDA_STREAM_POOL_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/status.h>
#include <crmm/core/stream.h>

CRMM_BEGIN_DECLS

/** A good number of streams where the program has no reason for another. */
#define CRMM_CUDA_STREAM_POOL_DEFAULT_SIZE 16

/**
 * A fixed number of CUDA streams, handed out in turn. Embedded by value; frozen. A zeroed or
 * finished one is empty; using it is misuse.
 *
 * Thread-safety: getting streams is safe and lock-free; init and finish are for one thread, with no
 * other call under way. A pool is not copied or moved.
 */
typedef struct crmm_cuda_stream_pool {
    crmm_stream *streams; /**< owned; NULL in an empty pool */
    size_t size;          /**< number of streams */
    size_t next;          /**< how many were handed out in turn */
} crmm_cuda_stream_pool;

/**
 * Create all streams of a pool on the current device.
 *
 * @param pool      [out] the pool, to be ended with crmm_cuda_stream_pool_finish(); what it held
 *                  before is not read; untouched on failure
 * @param pool_size number of streams, at least 1
 * @param flags     CRMM_CUDA_STREAM_SYNC_DEFAULT or CRMM_CUDA_STREAM_NON_BLOCKING
 *                  (crmm/device/cuda_stream.h)
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `pool` is NULL, `pool_size` is 0, or `flags` is neither
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for so many
 * @retval CRMM_ERROR_CUDA             CUDA made fewer; none is left
 * @retval CRMM_ERROR_FORKED           in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_cuda_stream_pool_init(crmm_cuda_stream_pool *pool,
                                                               size_t pool_size, uint64_t flags);

/**
 * Destroy all streams and leave an empty pool.
 *
 * @param pool NULL and an empty one do nothing
 *
 * Never fails; what CUDA refuses is misuse. While the program ends nothing is done to the streams.
 */
CRMM_API void crmm_cuda_stream_pool_finish(crmm_cuda_stream_pool *pool);

/**
 * The next stream in turn, lent; the first call gives the first one.
 *
 * @param pool NULL and an empty one are misuse, and give NULL
 */
CRMM_API crmm_stream crmm_cuda_stream_pool_get_stream(crmm_cuda_stream_pool *pool);

/**
 * The stream of a number, lent: stream `id` modulo the size of the pool.
 *
 * @param pool NULL and an empty one are misuse, and give NULL
 * @param id   any number
 */
CRMM_API crmm_stream crmm_cuda_stream_pool_get_stream_by_id(const crmm_cuda_stream_pool *pool,
                                                            size_t id);

/** How many streams there are; NULL is misuse and gives 0. */
CRMM_API size_t crmm_cuda_stream_pool_size(const crmm_cuda_stream_pool *pool);

CRMM_END_DECLS

#endif
