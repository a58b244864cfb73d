/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_id.h"

/* The per-thread stream of the pool's device, whichever is current. */
static uint64_t per_thread_id(const crmm_priv_pool *pool)
{
    int previous = -1;
    int code = crmm_priv_cuda_try_enter_device(pool->device, &previous);

    if (code != 0) {
        return crmm_priv_no_stream_id(code);
    }
    uint64_t id = crmm_priv_stream_id_of(CRMM_STREAM_PER_THREAD);
    crmm_priv_cuda_leave_device(previous);
    return id;
}

uint64_t crmm_priv_pool_default_id(const crmm_priv_pool *pool, crmm_stream stream)
{
    return stream == CRMM_STREAM_PER_THREAD ? per_thread_id(pool) : CRMM_PRIV_POOL_LEGACY_STREAM;
}
