/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_CUDA_STREAM_H
#define CRMM_DEVICE_CUDA_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include <crmm/core/status.h>
#include <crmm/core/stream.h>

CRMM_BEGIN_DECLS

/** A stream that is ordered with the legacy default stream (cudaStreamDefault). */
#define CRMM_CUDA_STREAM_SYNC_DEFAULT 0
/** A stream that is not (cudaStreamNonBlocking). */
#define CRMM_CUDA_STREAM_NON_BLOCKING 1

/**
 * A CUDA stream with an owner. Embedded by value; frozen. A zeroed, finished or moved-from one is
 * empty: it stands for no stream, not for the default stream, and using it is misuse. It is moved
 * by crmm_cuda_stream_move(), never copied by assignment.
 *
 * Thread-safety: the stream may be used by any thread; the struct by one at a time.
 */
typedef struct crmm_cuda_stream {
    crmm_stream stream; /**< NULL in an empty one */
} crmm_cuda_stream;

/**
 * Create a stream on the current device.
 *
 * @param stream [out] the stream, to be ended with crmm_cuda_stream_finish(); what it held before
 *               is not read; untouched on failure
 * @param flags  CRMM_CUDA_STREAM_SYNC_DEFAULT or CRMM_CUDA_STREAM_NON_BLOCKING
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `stream` is NULL, or `flags` is neither
 * @retval CRMM_ERROR_CUDA             CUDA made none
 * @retval CRMM_ERROR_FORKED           in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_cuda_stream_init(crmm_cuda_stream *stream, uint64_t flags);

/**
 * Destroy the stream and leave an empty one. CUDA finishes the work that is queued; memory that was
 * given back on the stream, and containers that store it, must not name it any more.
 *
 * @param stream NULL and an empty one do nothing
 *
 * Never fails; what CUDA refuses is misuse. While the program ends nothing is done.
 */
CRMM_API void crmm_cuda_stream_finish(crmm_cuda_stream *stream);

/**
 * Move a stream to another variable.
 *
 * @param destination what it holds is destroyed first; the same as `source`: nothing happens
 * @param source      left empty
 *
 * Never fails; a NULL argument is misuse.
 */
CRMM_API void crmm_cuda_stream_move(crmm_cuda_stream *destination, crmm_cuda_stream *source);

/** Whether there is a stream; false for NULL. */
CRMM_API bool crmm_cuda_stream_is_valid(const crmm_cuda_stream *stream);

/**
 * The stream itself, lent.
 *
 * @param stream NULL and an empty one are misuse, and give NULL
 */
CRMM_API crmm_stream crmm_cuda_stream_value(const crmm_cuda_stream *stream);

/**
 * Wait for all work queued on the stream.
 *
 * @param stream a stream
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL, or an empty one
 * @retval CRMM_ERROR_UNSUPPORTED      the stream is being captured
 * @retval CRMM_ERROR_CUDA             the wait failed, or earlier work did
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_cuda_stream_synchronize(const crmm_cuda_stream *stream);

/*
 * Any stream, by its handle.
 */

/**
 * Whether a handle names the legacy default stream: NULL or CRMM_STREAM_LEGACY.
 *
 * @param stream any handle; it is not looked at
 */
CRMM_API bool crmm_stream_is_default(crmm_stream stream);

/**
 * Whether a handle names the calling thread's per-thread default stream.
 *
 * @param stream any handle; it is not looked at
 */
CRMM_API bool crmm_stream_is_per_thread_default(crmm_stream stream);

/**
 * Wait for all work queued on a stream.
 *
 * @param stream must be alive
 *
 * @retval CRMM_ERROR_UNSUPPORTED the stream is being captured
 * @retval CRMM_ERROR_CUDA        the wait failed, or earlier work did
 * @retval CRMM_ERROR_FORKED      in a forked child
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_stream_synchronize(crmm_stream stream);

CRMM_END_DECLS

#endif
