/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/prefetch.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

/* Whether managed memory moves to `device` in advance. For the host it is the current device that
 * must be able to, since that is where the memory comes from. */
static crmm_status ask_device(const char *who, int device, bool *able)
{
    crmm_status status = CRMM_SUCCESS;

    if (device == CRMM_PRIV_HOST_DEVICE) {
        status = crmm_priv_cuda_current_device(&device);
    }
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_cuda_device_can(who, device, CRMM_PRIV_CUDA_CONCURRENT_MANAGED_ACCESS,
                                           able);
}

crmm_status crmm_priv_prefetch(const char *who, const void *ptr, size_t bytes, int device,
                               crmm_stream stream, bool *queued)
{
    bool able = false;
    bool capturing = false;

    *queued = false;
    crmm_status status = ask_device(who, device, &able);
    if (status != CRMM_SUCCESS || !able) {
        return status;
    }
    /* Asked first: the prefetch itself would kill the capture. */
    int code = crmm_priv_cuda_capturing(stream, &capturing);
    if (code != 0) {
        return crmm_priv_cuda_stream_failed(who, stream, code);
    }
    if (capturing) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: stream %p is being captured, which forbids a prefetch", who,
                    (void *)stream);
    }
    return crmm_priv_cuda_prefetch_if_managed(ptr, bytes, device, stream, queued);
}
