/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/failure_callback_resource_adaptor.h>

#include <limits.h>

#include <crmm/internal/fail.h>

#include "adaptor.h"

static const char class_name[] = "failure_callback_resource_adaptor";

typedef struct failure_callback {
    crmm_priv_adaptor adaptor;
    crmm_failure_callback callback;
    void *user_data;
    void (*destroy)(void *user_data); /* or NULL */
} failure_callback;

/* ---- callbacks under way ---- */

/* One for each callback this thread is inside of; they live on its stack. */
typedef struct callback_frame {
    const failure_callback *adaptor;
    struct callback_frame *outer;
} callback_frame;

static _Thread_local callback_frame *innermost;

static bool is_inside_callback(const failure_callback *adaptor)
{
    const callback_frame *frame = innermost;

    while (frame != NULL && frame->adaptor != adaptor) {
        frame = frame->outer;
    }
    return frame != NULL;
}

static bool call_back(const failure_callback *adaptor, const crmm_failure *failure)
{
    callback_frame frame = {.adaptor = adaptor, .outer = innermost};

    innermost = &frame;
    bool again = adaptor->callback(failure, adaptor->user_data);
    innermost = frame.outer;
    return again;
}

/*
 * Whether an allocation that has failed as `failure` says is to be tried again; counts the attempt.
 * If not, the thread's record is that of this failure. The callback gets a copy, since it is the
 * program's.
 */
static bool is_to_try_again(const failure_callback *adaptor, crmm_failure *failure)
{
    if (!crmm_status_is_allocation_failure(failure->status) || is_inside_callback(adaptor)) {
        return false;
    }
    if (failure->attempt < INT_MAX) {
        failure->attempt++;
    }
    const crmm_failure shown = *failure;
    const crmm_error record = *crmm_last_error();
    if (call_back(adaptor, &shown)) {
        return true;
    }
    crmm_priv_restore_error(&record);
    return false;
}

/* ---- operations ---- */

static crmm_status failure_callback_allocate_sync(crmm_resource *resource, size_t bytes,
                                                  size_t alignment, void **ptr)
{
    const failure_callback *adaptor = (const failure_callback *)resource;
    crmm_failure failure = {.struct_size = sizeof(failure), .bytes = bytes, .alignment = alignment};

    do {
        failure.status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);
    } while (failure.status != CRMM_SUCCESS && is_to_try_again(adaptor, &failure));
    return failure.status;
}

static crmm_status failure_callback_allocate(crmm_resource *resource, crmm_stream stream,
                                             size_t bytes, size_t alignment, void **ptr)
{
    const failure_callback *adaptor = (const failure_callback *)resource;
    crmm_failure failure = {
        .struct_size = sizeof(failure), .bytes = bytes, .alignment = alignment, .stream = stream};

    do {
        failure.status = crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);
    } while (failure.status != CRMM_SUCCESS && is_to_try_again(adaptor, &failure));
    return failure.status;
}

static void failure_callback_destroy(crmm_resource *resource)
{
    const failure_callback *adaptor = (const failure_callback *)resource;

    /* The upstream is still there: the data may hold memory from it. */
    if (adaptor->destroy != NULL) {
        adaptor->destroy(adaptor->user_data);
    }
    crmm_priv_adaptor_destroy(resource);
}

static const crmm_resource_ops failure_callback_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = failure_callback_allocate_sync,
    .deallocate_sync = crmm_priv_adaptor_deallocate_sync,
    .destroy = failure_callback_destroy,
    .allocate = failure_callback_allocate,
    .deallocate = crmm_priv_adaptor_deallocate,
    .deallocate_ptr = crmm_priv_adaptor_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
};

/* ---- public interface ---- */

crmm_status crmm_failure_callback_resource_adaptor_create(crmm_resource *upstream,
                                                          crmm_failure_callback callback,
                                                          void *user_data,
                                                          void (*destroy)(void *user_data),
                                                          crmm_resource **out)
{
    crmm_status status = CRMM_SUCCESS;

    if (callback == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: callback is NULL", class_name);
    }
    failure_callback *created = crmm_priv_adaptor_create(class_name, &failure_callback_ops,
                                                         sizeof(*created), upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    created->callback = callback;
    created->user_data = user_data;
    created->destroy = destroy;
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}
