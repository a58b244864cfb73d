/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CONTAINERS_REQUIRE_WAITABLE_H
#define CRMM_CONTAINERS_REQUIRE_WAITABLE_H

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>

/*
 * CRMM_ERROR_UNSUPPORTED where a stream is being captured: waiting for it would fail, and kill the
 * capture. Asking does not. The device is current on which the stream is used.
 */
static inline crmm_status require_waitable(const char *who, crmm_stream stream)
{
    bool capturing = false;

    int code = crmm_priv_cuda_capturing(stream, &capturing);
    if (code != 0) {
        return crmm_priv_cuda_stream_failed(who, stream, code);
    }
    return !capturing ? CRMM_SUCCESS
                      : FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                             "%s: stream %p is being captured, and cannot be waited for", who,
                             (void *)stream);
}

#endif
