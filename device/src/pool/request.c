/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

static const crmm_priv_pool_stream *owner_of(const crmm_priv_pool_request *request,
                                             const crmm_priv_extent *extent)
{
    return crmm_priv_pool_stream_of(&request->pool->streams, extent->owner);
}

bool crmm_priv_pool_may_use_from(const crmm_priv_pool_request *request,
                                 crmm_priv_extent_source from)
{
    if (from.owner == CRMM_PRIV_POOL_CLEAN || from.owner == crmm_priv_pool_owner(request)) {
        return true;
    }
    return request->stream != NULL && from.owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
           from.epoch <=
               crmm_priv_pool_stream_seen(
                   request->stream, crmm_priv_pool_stream_of(&request->pool->streams, from.owner));
}

bool crmm_priv_pool_may_use(const crmm_priv_pool_request *request, const crmm_priv_extent *extent)
{
    const crmm_priv_extent_source from = {.owner = extent->owner, .epoch = extent->epoch};

    return extent->state == CRMM_PRIV_POOL_FREE && crmm_priv_pool_may_use_from(request, from);
}

bool crmm_priv_pool_could_use(const crmm_priv_pool_request *request, const crmm_priv_extent *extent)
{
    if (crmm_priv_pool_may_use(request, extent)) {
        return true;
    }
    return extent->state == CRMM_PRIV_POOL_FREE && request->stream != NULL &&
           extent->owner >= CRMM_PRIV_POOL_FIRST_STREAM &&
           crmm_priv_pool_stream_is_fenced(owner_of(request, extent), extent->epoch);
}

bool crmm_priv_pool_add_wait(const crmm_priv_pool_request *request, crmm_priv_pool_waits *waits,
                             const crmm_priv_extent *extent)
{
    if (crmm_priv_pool_may_use(request, extent)) {
        return true;
    }
    for (uint32_t i = 0; i < waits->count; i++) {
        crmm_priv_extent_source *wait = &waits->list[i];
        if (wait->owner == extent->owner) {
            wait->epoch = wait->epoch > extent->epoch ? wait->epoch : extent->epoch;
            return true;
        }
    }
    if (waits->count == CRMM_PRIV_POOL_MOST_WAITS) {
        return false;
    }
    waits->list[waits->count++] =
        (crmm_priv_extent_source){.owner = extent->owner, .epoch = extent->epoch};
    return true;
}

bool crmm_priv_pool_wait_for(const crmm_priv_pool_request *request,
                             const crmm_priv_pool_waits *waits)
{
    crmm_priv_pool_streams *streams = &request->pool->streams;

    for (uint32_t i = 0; i < waits->count; i++) {
        crmm_priv_pool_stream *other = crmm_priv_pool_stream_of(streams, waits->list[i].owner);
        if (crmm_priv_pool_stream_wait(streams, request->stream, request->handle, other,
                                       waits->list[i].epoch) != 0) {
            return false;
        }
    }
    return true;
}
