/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_PREFETCH_H
#define CRMM_DEVICE_PREFETCH_H

#include <stddef.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>
#include <crmm/core/stream.h>

CRMM_BEGIN_DECLS

/** The number that stands for the host where a device is asked for. */
#define CRMM_HOST_DEVICE_ID (-1)

/**
 * Have managed memory moved to where it will be used next.
 *
 * A hint: where it does not apply the call succeeds and queues nothing. That is so for 0 bytes, for
 * memory that is not managed, and where the device (for the host: the current one) has no
 * concurrent managed access, as on Windows and under WSL.
 *
 * @param ptr    start of the range; may be NULL with 0 bytes
 * @param bytes  its size
 * @param device ordinal of the device the memory is to move to, or CRMM_HOST_DEVICE_ID
 * @param stream what is queued on it before happens before the move. It must be alive
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `ptr` with bytes; there is no such device
 * @retval CRMM_ERROR_UNSUPPORTED      `stream` is being captured; the capture stays valid
 * @retval CRMM_ERROR_CUDA             CUDA refused for another reason
 * @retval CRMM_ERROR_FORKED           in a forked child
 *
 * Does not wait. Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_prefetch(const void *ptr, size_t bytes, int device,
                                                  crmm_stream stream);

CRMM_END_DECLS

#endif
