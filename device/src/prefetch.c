/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/prefetch.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/prefetch.h>

_Static_assert(CRMM_HOST_DEVICE_ID == CRMM_PRIV_HOST_DEVICE, "one number for the host");

crmm_status crmm_prefetch(const void *ptr, size_t bytes, int device, crmm_stream stream)
{
    bool queued = false;

    if (device < CRMM_HOST_DEVICE_ID) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_prefetch: there is no device %d", device);
    }
    if (bytes == 0) {
        return CRMM_SUCCESS;
    }
    if (ptr == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_prefetch: ptr is NULL, with %zu bytes",
                    bytes);
    }
    return crmm_priv_prefetch("crmm_prefetch", ptr, bytes, device, stream, &queued);
}
