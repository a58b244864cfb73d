/* SPDX-License-Identifier: Apache-2.0 */
#include "mock_resource.h"

#include <stdlib.h>

static crmm_status allocate(mock_resource *mock, mock_call call, void **ptr)
{
    mock->allocations++;
    if (mock->fail_with != CRMM_SUCCESS) {
        return crmm_set_last_error(mock->fail_with, 42, "the mock was told to fail");
    }
    if (mock->give_null) {
        *ptr = NULL;
        return CRMM_SUCCESS;
    }
    call.ptr = aligned_alloc(call.alignment,
                             (call.bytes + call.alignment - 1) / call.alignment * call.alignment);
    if (call.ptr == NULL) {
        return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "the heap is exhausted");
    }
    mock->last_allocate = call;
    mock->live++;
    *ptr = call.ptr;
    return CRMM_SUCCESS;
}

static void deallocate(mock_resource *mock, mock_call call)
{
    mock->deallocations++;
    mock->live--;
    mock->last_deallocate = call;
    free(call.ptr);
}

static crmm_status mock_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    return allocate((mock_resource *)resource,
                    (mock_call){.stream = stream, .bytes = bytes, .alignment = alignment}, ptr);
}

static crmm_status mock_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    return allocate((mock_resource *)resource,
                    (mock_call){.bytes = bytes, .alignment = alignment, .sync = true}, ptr);
}

static void mock_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    deallocate((mock_resource *)resource,
               (mock_call){.stream = stream, .ptr = ptr, .bytes = bytes, .alignment = alignment});
}

static void mock_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    deallocate((mock_resource *)resource,
               (mock_call){.ptr = ptr, .bytes = bytes, .alignment = alignment, .sync = true});
}

static void mock_destroy(crmm_resource *resource)
{
    mock_resource *mock = (mock_resource *)resource;

    if (mock->destroyed != NULL) {
        *mock->destroyed = true;
    }
}

static const crmm_resource_ops mock_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = mock_allocate_sync,
    .deallocate_sync = mock_deallocate_sync,
    .destroy = mock_destroy,
    .allocate = mock_allocate,
    .deallocate = mock_deallocate,
};

void mock_resource_init(mock_resource *mock, crmm_properties properties)
{
    *mock = (mock_resource){0};
    crmm_resource_init(&mock->base, &mock_ops, "mock_resource", properties);
}
