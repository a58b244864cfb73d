/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/thread_safe_resource_adaptor.h>

#include <pthread.h>
#include <stdio.h>

#include <crmm/internal/fail.h>

#include "adaptor.h"

static const char class_name[] = "thread_safe_resource_adaptor";

/* The mutex is recursive: what runs below may call the program, and the program the adaptor. */
typedef struct thread_safe {
    crmm_priv_adaptor adaptor;
    pthread_mutex_t mutex;
} thread_safe;

/* Take the lock; the upstream, to be used until leave(). */
static crmm_resource *enter(const crmm_resource *resource)
{
    thread_safe *adaptor = (thread_safe *)resource;
    (void)pthread_mutex_lock(&adaptor->mutex);
    return adaptor->adaptor.upstream;
}

static void leave(const crmm_resource *resource)
{
    (void)pthread_mutex_unlock(&((thread_safe *)resource)->mutex);
}

/* ---- operations ---- */

static crmm_status thread_safe_allocate_sync(crmm_resource *resource, size_t bytes,
                                             size_t alignment, void **ptr)
{
    crmm_status status = crmm_allocate_sync(enter(resource), bytes, alignment, ptr);
    leave(resource);
    return status;
}

static crmm_status thread_safe_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                        size_t alignment, void **ptr)
{
    crmm_status status = crmm_allocate(enter(resource), stream, bytes, alignment, ptr);
    leave(resource);
    return status;
}

static void thread_safe_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                        size_t alignment)
{
    crmm_deallocate_sync(enter(resource), ptr, bytes, alignment);
    leave(resource);
}

static void thread_safe_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                   size_t bytes, size_t alignment)
{
    crmm_deallocate(enter(resource), stream, ptr, bytes, alignment);
    leave(resource);
}

static void thread_safe_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    crmm_deallocate_ptr(enter(resource), stream, ptr);
    leave(resource);
}

static crmm_status thread_safe_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    crmm_status status = crmm_resource_trim(enter(resource), bytes_to_keep, released);
    leave(resource);
    return status;
}

static crmm_status thread_safe_info(const crmm_resource *resource, crmm_memory_info *info)
{
    info->struct_size = sizeof(*info);
    crmm_status status = crmm_resource_info(enter(resource), info);
    leave(resource);
    return status;
}

static size_t thread_safe_describe(const crmm_resource *resource, char *text, size_t size)
{
    size_t length = sizeof(class_name) - 1;

    if (size != 0) {
        (void)snprintf(text, size, "%s", class_name);
    }
    length = crmm_priv_describe_over(enter(resource), text, size, length);
    leave(resource);
    return length;
}

static void thread_safe_destroy(crmm_resource *resource)
{
    (void)pthread_mutex_destroy(&((thread_safe *)resource)->mutex);
    crmm_priv_adaptor_destroy(resource);
}

static const crmm_resource_ops thread_safe_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = thread_safe_allocate_sync,
    .deallocate_sync = thread_safe_deallocate_sync,
    .destroy = thread_safe_destroy,
    .allocate = thread_safe_allocate,
    .deallocate = thread_safe_deallocate,
    .deallocate_ptr = thread_safe_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
    .trim = thread_safe_trim,
    .info = thread_safe_info,
    .describe = thread_safe_describe,
};

/* ---- public interface ---- */

static bool make_recursive(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;

    if (pthread_mutexattr_init(&attributes) != 0) {
        return false;
    }
    bool made = pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE) == 0 &&
                pthread_mutex_init(mutex, &attributes) == 0;
    (void)pthread_mutexattr_destroy(&attributes);
    return made;
}

crmm_status crmm_thread_safe_resource_adaptor_create(crmm_resource *upstream, crmm_resource **out)
{
    crmm_status status = CRMM_SUCCESS;
    thread_safe *created = crmm_priv_adaptor_create(class_name, &thread_safe_ops, sizeof(*created),
                                                    upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    if (!make_recursive(&created->mutex)) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no memory for its lock", class_name);
    }
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}
