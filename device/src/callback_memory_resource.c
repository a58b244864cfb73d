/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/callback_memory_resource.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/options.h>
#include <crmm/internal/resource.h>

static const char class_name[] = "callback_memory_resource";

#define ALL_PROPERTIES \
    ((crmm_properties)(CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED))

typedef struct callback_resource {
    struct crmm_resource base;
    crmm_callbacks calls;
    void *user_data;
} callback_resource;

/* ---- operations ---- */

static crmm_status callback_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    callback_resource *own = (callback_resource *)resource;

    crmm_status status = own->calls.allocate(stream, bytes, alignment, ptr, own->user_data);
    if (status != CRMM_SUCCESS && crmm_last_error()->status != status) {
        return FAIL_BYTES(status, 0, bytes, "%s: the program's function gave no %zu bytes: %s",
                          class_name, bytes, crmm_status_string(status));
    }
    return status;
}

static void callback_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    callback_resource *own = (callback_resource *)resource;
    own->calls.deallocate(stream, ptr, bytes, alignment, own->user_data);
}

static crmm_status callback_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    void *memory = NULL;

    crmm_status status = callback_allocate(resource, NULL, bytes, alignment, &memory);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (memory != NULL && crmm_resource_has(resource, CRMM_STREAM_ORDERED)) {
        status = crmm_priv_cuda_stream_synchronize(NULL);
    }
    if (status != CRMM_SUCCESS) {
        const crmm_error failure = *crmm_last_error();
        callback_deallocate(resource, NULL, memory, bytes, alignment);
        crmm_priv_restore_error(&failure);
        return status;
    }
    *ptr = memory;
    return CRMM_SUCCESS;
}

static void callback_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    callback_deallocate(resource, NULL, ptr, bytes, alignment);
}

static void callback_destroy(crmm_resource *resource)
{
    callback_resource *own = (callback_resource *)resource;

    if (own->calls.destroy != NULL) {
        own->calls.destroy(own->user_data);
    }
    crmm_resource_storage_free(resource);
}

static const crmm_resource_ops callback_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = callback_allocate_sync,
    .deallocate_sync = callback_deallocate_sync,
    .destroy = callback_destroy,
    .allocate = callback_allocate,
    .deallocate = callback_deallocate,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_callbacks) == 5 * sizeof(size_t), "options structs have no padding");

static crmm_status check(const crmm_callbacks *calls)
{
    if (calls->allocate == NULL || calls->deallocate == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: callbacks->%s is NULL", class_name,
                    calls->allocate == NULL ? "allocate" : "deallocate");
    }
    if ((calls->properties & ~ALL_PROPERTIES) != 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: callbacks->properties %#llx has unknown bits", class_name,
                    (unsigned long long)calls->properties);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_callback_memory_resource_create(const crmm_callbacks *callbacks, void *user_data,
                                                 crmm_resource **out)
{
    crmm_callbacks known;

    if (callbacks == NULL || out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", class_name,
                    callbacks == NULL ? "callbacks" : "out");
    }
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), callbacks);
    if (status == CRMM_SUCCESS) {
        status = check(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    callback_resource *created = crmm_resource_storage_allocate(sizeof(*created));
    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    crmm_resource_init(&created->base, &callback_ops, class_name, known.properties);
    created->calls = known;
    created->user_data = user_data;
    *out = &created->base;
    return CRMM_SUCCESS;
}
