/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/prefetch_resource_adaptor.h>

#include <stdio.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/prefetch.h>

#include "adaptor.h"

static const char class_name[] = "prefetch_resource_adaptor";

typedef struct prefetching {
    crmm_priv_adaptor adaptor;
    size_t refused; /* atomic; prefetches that CUDA did not make */
} prefetching;

/* ---- the hint ---- */

static crmm_status prefetch(const prefetching *adaptor, const void *ptr, size_t bytes,
                            crmm_stream stream, bool *queued)
{
    int device = crmm_resource_device(&adaptor->adaptor.base);
    crmm_status status = CRMM_SUCCESS;

    if (device < 0) {
        status = crmm_priv_cuda_current_device(&device);
    }
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_prefetch(class_name, ptr, bytes, device, stream, queued);
}

/* What a synchronous allocation needs: nothing may be pending on the memory afterwards. The
 * per-thread stream waits for the fewest others, and no capture of another thread forbids it. */
static crmm_status prefetch_and_wait(const prefetching *adaptor, const void *ptr, size_t bytes)
{
    int previous = -1;
    bool queued = false;

    crmm_status status =
        crmm_priv_cuda_enter_device(crmm_resource_device(&adaptor->adaptor.base), &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = prefetch(adaptor, ptr, bytes, CRMM_STREAM_PER_THREAD, &queued);
    if (status == CRMM_SUCCESS && queued) {
        status = crmm_priv_cuda_stream_synchronize(CRMM_STREAM_PER_THREAD);
    }
    crmm_priv_cuda_leave_device(previous);
    return status;
}

/* Host memory is nothing for CUDA to move, and must work where CUDA does not. */
static bool may_move(const prefetching *adaptor)
{
    return crmm_resource_has(&adaptor->adaptor.base, CRMM_DEVICE_ACCESSIBLE);
}

/* A refused hint is no failure of the call, which must not show in the record. */
static void note(prefetching *adaptor, crmm_status status, const crmm_error *before)
{
    if (status != CRMM_SUCCESS) {
        crmm_priv_restore_error(before);
        (void)__atomic_fetch_add(&adaptor->refused, 1, __ATOMIC_RELAXED);
    }
}

/* ---- operations ---- */

static crmm_status prefetch_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    prefetching *adaptor = (prefetching *)resource;

    crmm_status status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);
    if (status == CRMM_SUCCESS && may_move(adaptor)) {
        crmm_error before = *crmm_last_error();
        note(adaptor, prefetch_and_wait(adaptor, *ptr, bytes), &before);
    }
    return status;
}

static crmm_status prefetch_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    prefetching *adaptor = (prefetching *)resource;
    bool queued = false;

    crmm_status status = crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);
    if (status == CRMM_SUCCESS && may_move(adaptor)) {
        crmm_error before = *crmm_last_error();
        note(adaptor, prefetch(adaptor, *ptr, bytes, stream, &queued), &before);
    }
    return status;
}

static size_t prefetch_describe(const crmm_resource *resource, char *text, size_t size)
{
    const prefetching *adaptor = (const prefetching *)resource;
    int length = snprintf(text, size, "%s (refused %zu)", class_name,
                          __atomic_load_n(&adaptor->refused, __ATOMIC_RELAXED));
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, (size_t)length);
}

static const crmm_resource_ops prefetch_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = prefetch_allocate_sync,
    .deallocate_sync = crmm_priv_adaptor_deallocate_sync,
    .destroy = crmm_priv_adaptor_destroy,
    .allocate = prefetch_allocate,
    .deallocate = crmm_priv_adaptor_deallocate,
    .deallocate_ptr = crmm_priv_adaptor_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = prefetch_describe,
};

/* ---- public interface ---- */

crmm_status crmm_prefetch_resource_adaptor_create(crmm_resource *upstream, crmm_resource **out)
{
    crmm_status status = CRMM_SUCCESS;
    prefetching *created = crmm_priv_adaptor_create(class_name, &prefetch_ops, sizeof(*created),
                                                    upstream, out, &status);
    if (created != NULL) {
        *out = &created->adaptor.base;
    }
    return status;
}
