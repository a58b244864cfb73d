/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a resource: set-up, references, destruction and what is found out about a resource
 * that is used after it.
 */
#include <stdlib.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/report.h>
#include <crmm/internal/resource.h>
#include <crmm/internal/validate.h>

/* ---- a class for resources that must not be used ----
 * Storage given back while validation is on keeps this table, and a resource that was set up with
 * a bad one gets it. */

static crmm_status refuse_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                        void **ptr);
static void refuse_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                   size_t alignment);
static void refuse_destroy(crmm_resource *resource);
static crmm_status refuse_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                   size_t alignment, void **ptr);
static void refuse_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                              size_t alignment);
static void refuse_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr);
static crmm_status refuse_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released);
static crmm_status refuse_info(const crmm_resource *resource, crmm_memory_info *info);

static const crmm_resource_ops unusable_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = refuse_allocate_sync,
    .deallocate_sync = refuse_deallocate_sync,
    .destroy = refuse_destroy,
    .allocate = refuse_allocate,
    .deallocate = refuse_deallocate,
    .deallocate_ptr = refuse_deallocate_ptr,
    .trim = refuse_trim,
    .info = refuse_info,
};

/* A resource in quarantine has no references; one that was never set up well has. */
static bool is_released(const crmm_resource *resource)
{
    return resource->ops == &unusable_ops && resource->reserved[CRMM_PRIV_COUNT] == 0;
}

static void report_use(const crmm_resource *resource, const void *ptr, size_t bytes)
{
    bool released = is_released(resource);

    crmm_priv_report((crmm_misuse){.kind = released ? CRMM_MISUSE_USE_AFTER_RELEASE
                                                    : CRMM_MISUSE_INVALID_ARGUMENT,
                                   .resource_name = crmm_resource_name(resource),
                                   .ptr = ptr,
                                   .bytes = bytes},
                     released ? "%s used after its last release"
                              : "%s used although its class is incomplete",
                     crmm_resource_name(resource));
}

static crmm_status refuse(const crmm_resource *resource, size_t bytes)
{
    report_use(resource, NULL, bytes);
    return FAIL_BYTES(CRMM_ERROR_INVALID_ARGUMENT, 0, bytes, "%s %s", crmm_resource_name(resource),
                      is_released(resource) ? "was released" : "has an incomplete class");
}

static crmm_status refuse_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                        void **ptr)
{
    (void)alignment;
    (void)ptr;
    return refuse(resource, bytes);
}

static crmm_status refuse_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                   size_t alignment, void **ptr)
{
    (void)stream;
    return refuse_allocate_sync(resource, bytes, alignment, ptr);
}

static void refuse_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                   size_t alignment)
{
    (void)alignment;
    report_use(resource, ptr, bytes);
}

static void refuse_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                              size_t alignment)
{
    (void)stream;
    refuse_deallocate_sync(resource, ptr, bytes, alignment);
}

static void refuse_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    (void)stream;
    report_use(resource, ptr, 0);
}

static crmm_status refuse_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    (void)bytes_to_keep;
    (void)released;
    return refuse(resource, 0);
}

static crmm_status refuse_info(const crmm_resource *resource, crmm_memory_info *info)
{
    (void)info;
    return refuse(resource, 0);
}

static void refuse_destroy(crmm_resource *resource)
{
    (void)resource; /* its storage is of unknown origin, so it is left alone */
}

/* ---- storage ---- */

/* What was given back while validation is on; reachable, so that leak checkers are silent. */
static crmm_resource *quarantine;

void *crmm_resource_storage_allocate(size_t size)
{
    return size < sizeof(struct crmm_resource) ? NULL : calloc(1, size);
}

void crmm_resource_storage_free(crmm_resource *resource)
{
    if (resource == NULL) {
        return;
    }
    if (!crmm_priv_validate()) {
        free(resource);
        return;
    }
    resource->ops = &unusable_ops;
    resource->reserved[CRMM_PRIV_COUNT] = 0;

    crmm_resource *first = __atomic_load_n(&quarantine, __ATOMIC_RELAXED);
    do {
        resource->reserved[CRMM_PRIV_NEXT] = (uintptr_t)first;
    } while (!__atomic_compare_exchange_n(&quarantine, &first, resource, true, __ATOMIC_RELEASE,
                                          __ATOMIC_RELAXED));
}

/* ---- set-up ---- */

/* What is wrong with a class; NULL: nothing. */
static const char *find_fault(const crmm_resource_ops *ops, crmm_properties properties)
{
    if (ops == NULL) {
        return "ops is NULL";
    }
    if (ops->struct_size < offsetof(crmm_resource_ops, deallocate_ptr)) {
        return "ops->struct_size is too small";
    }
    if (ops->allocate_sync == NULL || ops->deallocate_sync == NULL || ops->destroy == NULL) {
        return "ops lacks allocate_sync, deallocate_sync or destroy";
    }
    if ((properties & CRMM_STREAM_ORDERED) != 0 &&
        (ops->allocate == NULL || ops->deallocate == NULL)) {
        return "ops lacks allocate or deallocate, which CRMM_STREAM_ORDERED needs";
    }
    return NULL;
}

void crmm_resource_init(crmm_resource *resource, const crmm_resource_ops *ops, const char *name,
                        crmm_properties properties)
{
    const char *fault = name == NULL ? "name is NULL" : find_fault(ops, properties);

    if (resource == NULL) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = name},
                         "crmm_resource_init: resource is NULL");
        return;
    }
    *resource = (struct crmm_resource){.ops = fault == NULL ? ops : &unusable_ops};
    resource->reserved[CRMM_PRIV_COUNT] = 1;
    resource->reserved[CRMM_PRIV_PROPERTIES] = (uintptr_t)properties & ~CRMM_PRIV_FLAGS;
    resource->reserved[CRMM_PRIV_NAME] = (uintptr_t)(name != NULL ? name : "(unnamed)");
    if (fault != NULL) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = name},
                         "crmm_resource_init: %s: %s", crmm_resource_name(resource), fault);
    }
}

void crmm_resource_bind_device(crmm_resource *resource, int device)
{
    if (resource != NULL) {
        resource->reserved[CRMM_PRIV_DEVICE] = device < 0 ? 0 : (uintptr_t)device + 1;
    }
}

/* ---- references ---- */

static bool is_immortal(const crmm_resource *resource)
{
    return (resource->reserved[CRMM_PRIV_PROPERTIES] & CRMM_PRIV_IMMORTAL) != 0;
}

crmm_resource *crmm_resource_retain(crmm_resource *resource)
{
    if (resource == NULL || is_immortal(resource)) {
        return resource;
    }
    if (is_released(resource)) {
        report_use(resource, NULL, 0);
        return resource;
    }
    (void)__atomic_fetch_add(&resource->reserved[CRMM_PRIV_COUNT], 1, __ATOMIC_RELAXED);
    return resource;
}

void crmm_resource_release(crmm_resource **resource)
{
    crmm_resource *dropped = resource == NULL ? NULL : *resource;

    if (dropped == NULL) {
        return;
    }
    *resource = NULL;
    if (is_immortal(dropped)) {
        return;
    }
    if (is_released(dropped)) {
        report_use(dropped, NULL, 0);
        return;
    }
    /* The last one to let go must see what every other one did to the resource. */
    if (__atomic_fetch_sub(&dropped->reserved[CRMM_PRIV_COUNT], 1, __ATOMIC_ACQ_REL) == 1) {
        dropped->ops->destroy(dropped);
    }
}
