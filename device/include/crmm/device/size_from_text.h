/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SIZE_FROM_TEXT_H
#define CRMM_DEVICE_SIZE_FROM_TEXT_H

#include <stddef.h>

#include <crmm/core/attributes.h>
#include <crmm/core/status.h>

CRMM_BEGIN_DECLS

/**
 * A number of bytes from a text that a person wrote, in a configuration file or the environment:
 *
 *  - "5368709120": bytes;
 *  - "5GiB", "512 MiB", "1.5GiB": KiB, MiB, GiB, TiB are powers of 1024;
 *  - "5GB": kB, MB, GB, TB are powers of 1000; B is one byte;
 *  - "80%", "12.5%": more than 0 and up to 100 percent of the memory that is free now on the
 *    current device;
 *  - "leave=2GiB": what is free now on the current device, less that much.
 *
 * A fraction is written with a point, whatever the locale. Blanks may stand around a number and its
 * unit. The last two forms are rounded down to CRMM_DEVICE_ALIGNMENT; they ask
 * crmm_available_device_memory(). The others make no CUDA call, and 0 is 0.
 *
 * @param text  the text; it ends where the size does
 * @param bytes [out] the bytes; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT `text` or `bytes` is NULL; the text is no size: the message
 *                                     names the character at which that shows
 * @retval CRMM_ERROR_OUT_OF_MEMORY    more bytes than can exist; percent or leave of so little that
 *                                     nothing is left
 * @retval CRMM_ERROR_CUDA             CUDA cannot tell how much is free
 * @retval CRMM_ERROR_FORKED           the same, in a forked child
 *
 * Thread-safety: safe; the current device is the calling thread's.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_size_from_text(const char *text, size_t *bytes);

CRMM_END_DECLS

#endif
