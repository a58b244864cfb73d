/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/callback_memory_resource.h>

#include <stdlib.h>

#include <crmm/core/error.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

#define HOST CRMM_HOST_ACCESSIBLE
#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

/* What the functions were given last, and how often they were called. */
typedef struct record {
    int allocations, deallocations, destructions;
    crmm_stream stream;
    void *ptr;
    size_t bytes, alignment;
    crmm_status fail_with;
} record;

static crmm_status take(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                        void *user_data)
{
    record *own = user_data;

    own->allocations++;
    own->stream = stream;
    own->bytes = bytes;
    own->alignment = alignment;
    if (own->fail_with == CRMM_ERROR_IO) {
        return CRMM_ERROR_IO; /* and not a word about it */
    }
    if (own->fail_with != CRMM_SUCCESS) {
        return crmm_set_last_error(own->fail_with, 17, "told to fail");
    }
    *ptr = malloc(bytes);
    own->ptr = *ptr;
    return CRMM_SUCCESS;
}

static void give(crmm_stream stream, void *ptr, size_t bytes, size_t alignment, void *user_data)
{
    record *own = user_data;

    own->deallocations++;
    own->stream = stream;
    own->ptr = ptr;
    own->bytes = bytes;
    own->alignment = alignment;
    free(ptr);
}

static void destroy(void *user_data)
{
    ((record *)user_data)->destructions++;
}

static crmm_callbacks calls_with(crmm_properties properties)
{
    return (crmm_callbacks){.struct_size = sizeof(crmm_callbacks),
                            .properties = properties,
                            .allocate = take,
                            .deallocate = give,
                            .destroy = destroy};
}

static crmm_resource *make(record *own, crmm_properties properties)
{
    crmm_callbacks calls = calls_with(properties);
    crmm_resource *made = NULL;
    expect_success(crmm_callback_memory_resource_create(&calls, own, &made));
    return made;
}

Test(callback_memory_resource, has_the_properties_it_declares)
{
    record own = {0};
    crmm_resource *mr = make(&own, ALL);

    expect_text(crmm_resource_name(mr), "callback_memory_resource");
    expect_equal(crmm_resource_properties(mr), ALL);
    expect_equal(crmm_resource_device(mr), -1);
    cr_assert(crmm_resource_upstream(mr) == NULL);
    crmm_resource_release(&mr);
    expect_equal(own.destructions, 1);
}

Test(callback_memory_resource, passes_everything_on)
{
    record own = {0};
    crmm_resource *mr = make(&own, ALL);
    void *ptr = NULL;
    crmm_stream stream = CRMM_STREAM_PER_THREAD;

    expect_success(crmm_allocate(mr, stream, 100, 64, &ptr));
    cr_assert(ptr == own.ptr && own.stream == stream && own.bytes == 100 && own.alignment == 64);
    crmm_deallocate(mr, NULL, ptr, 100, 64);
    cr_assert(own.ptr == ptr && own.stream == NULL && own.bytes == 100 && own.alignment == 64);
    expect_success(crmm_allocate(mr, stream, 0, 64, &ptr));
    crmm_deallocate(mr, stream, NULL, 0, 64);
    expect_equal(own.allocations, 1);
    expect_equal(own.deallocations, 1);
    crmm_resource_release(&mr);
}

Test(callback_memory_resource, without_stream_order_is_sync_only)
{
    record own = {.stream = CRMM_STREAM_PER_THREAD};
    crmm_resource *mr = make(&own, HOST);
    void *ptr = &own;

    expect_status(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY);
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    cr_assert(own.stream == NULL);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    expect_equal(own.deallocations, 1);
    crmm_resource_release(&mr);
}

/* A function that queues work on its stream, as a stream-ordered allocator may. */
static gate queued;
static pthread_t opener;

static crmm_status take_and_queue(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                                  void *user_data)
{
    (void)alignment;
    (void)user_data;
    cuda(cudaMalloc(ptr, bytes));
    gate_close(&queued, stream);
    cuda(cudaMemsetAsync(*ptr, 1, bytes, stream));
    opener = gate_open_later(&queued);
    return CRMM_SUCCESS;
}

static void give_device(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                        void *user_data)
{
    (void)stream;
    (void)bytes;
    (void)alignment;
    (void)user_data;
    cuda(cudaFree(ptr));
}

Test(callback_memory_resource, sync_allocation_leaves_no_work_pending)
{
    crmm_callbacks calls = {.struct_size = sizeof(calls),
                            .properties = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED,
                            .allocate = take_and_queue,
                            .deallocate = give_device};
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    need_devices(1);
    expect_success(crmm_callback_memory_resource_create(&calls, NULL, &mr));
    expect_success(crmm_allocate_sync(mr, 1 << 20, 256, &ptr));
    cr_assert(gate_is_open(&queued), "it has not waited");
    expect_equal(cudaStreamQuery(NULL), cudaSuccess);
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_deallocate_sync(mr, ptr, 1 << 20, 256);
    crmm_resource_release(&mr);
}

Test(callback_memory_resource, failures_pass_through)
{
    record own = {.fail_with = CRMM_ERROR_LIMIT_EXCEEDED};
    crmm_resource *mr = make(&own, ALL);
    void *ptr = &own;

    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_LIMIT_EXCEEDED, "told to fail");
    expect_equal(crmm_last_error()->native_code, 17);
    expect_status(crmm_allocate_sync(mr, 8, 8, &ptr), CRMM_ERROR_LIMIT_EXCEEDED);
    /* The record is not that of an earlier failure. */
    own.fail_with = CRMM_ERROR_IO;
    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_IO, "gave no 8 bytes");
    expect_equal(crmm_last_error()->native_code, 0);
    expect_equal(crmm_last_error()->requested_bytes, 8);
    cr_assert(ptr == &own);
    crmm_resource_release(&mr);
}

Test(callback_memory_resource, create_refuses_bad_arguments)
{
    record own = {0};
    crmm_resource *mr = NULL;
    crmm_callbacks calls = calls_with(HOST);

    expect_failure(crmm_callback_memory_resource_create(NULL, &own, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "callbacks is NULL");
    expect_failure(crmm_callback_memory_resource_create(&calls, &own, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    calls.allocate = NULL;
    expect_failure(crmm_callback_memory_resource_create(&calls, &own, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "callbacks->allocate is NULL");
    calls = calls_with(HOST);
    calls.deallocate = NULL;
    expect_failure(crmm_callback_memory_resource_create(&calls, &own, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "callbacks->deallocate is NULL");
    calls = calls_with(8);
    expect_failure(crmm_callback_memory_resource_create(&calls, &own, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "callbacks->properties 0x8 has unknown bits");
    calls = calls_with(HOST);
    calls.struct_size = 4;
    expect_failure(crmm_callback_memory_resource_create(&calls, &own, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size");
    cr_assert(mr == NULL);
    expect_equal(own.destructions, 0);
    calls = calls_with(HOST);
    calls.destroy = NULL;
    expect_success(crmm_callback_memory_resource_create(&calls, NULL, &mr));
    crmm_resource_release(&mr);
}
