/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/stream_allocator_adaptor.h>

#include <stdint.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_polymorphic_allocator make_allocator(size_t element_size, crmm_resource *mr)
{
    crmm_polymorphic_allocator allocator;
    expect_success(crmm_polymorphic_allocator_init(&allocator, element_size, mr));
    return allocator;
}

Test(stream_allocator_adaptor, keeps_the_allocator_and_the_stream)
{
    mock_resource mock;
    crmm_stream_allocator_adaptor adaptor;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    crmm_polymorphic_allocator allocator = make_allocator(12, &mock.base);
    expect_success(crmm_stream_allocator_adaptor_init(&adaptor, &allocator, stream));
    cr_assert(crmm_stream_allocator_adaptor_stream(&adaptor) == stream);
    cr_assert(crmm_polymorphic_allocator_is_equal(
        crmm_stream_allocator_adaptor_underlying_allocator(&adaptor), &allocator));
    crmm_polymorphic_allocator_finish(&allocator); /* it was copied */

    expect_success(crmm_stream_allocator_adaptor_allocate(&adaptor, 10, &ptr));
    expect_equal(mock.last_allocate.bytes, 120);
    expect_equal(mock.last_allocate.alignment, 256);
    cr_assert(mock.last_allocate.stream == stream);
    crmm_stream_allocator_adaptor_deallocate(&adaptor, ptr, 10);
    expect_equal(mock.last_deallocate.bytes, 120);
    cr_assert(mock.last_deallocate.stream == stream && mock.last_deallocate.ptr == ptr);
    crmm_stream_allocator_adaptor_finish(&adaptor);
    cr_assert(crmm_stream_allocator_adaptor_stream(&adaptor) == NULL);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(stream_allocator_adaptor, allocates_elements_and_takes_them_back)
{
    crmm_stream_allocator_adaptor adaptor;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_polymorphic_allocator allocator = make_allocator(sizeof(int), NULL);
    expect_success(crmm_stream_allocator_adaptor_init(&adaptor, &allocator, stream));
    expect_success(crmm_stream_allocator_adaptor_allocate(&adaptor, 1000, &ptr));
    device_fill(ptr, 1, 1000 * sizeof(int));
    crmm_stream_allocator_adaptor_deallocate(&adaptor, ptr, 1000);
    expect_success(crmm_stream_allocator_adaptor_allocate(&adaptor, 0, &ptr));
    cr_assert(ptr == NULL);
    crmm_stream_allocator_adaptor_deallocate(&adaptor, NULL, 0);
    crmm_stream_allocator_adaptor_finish(&adaptor);
    crmm_polymorphic_allocator_finish(&allocator);
    cuda(cudaStreamDestroy(stream));
}

Test(stream_allocator_adaptor, is_equal_where_the_resources_are_whatever_the_streams)
{
    crmm_stream_allocator_adaptor one;
    crmm_stream_allocator_adaptor two;
    crmm_stream_allocator_adaptor other;

    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_polymorphic_allocator cuda_one = make_allocator(4, crmm_cuda_memory_resource());
    crmm_polymorphic_allocator managed = make_allocator(4, crmm_managed_memory_resource());
    expect_success(crmm_stream_allocator_adaptor_init(&one, &cuda_one, NULL));
    expect_success(crmm_stream_allocator_adaptor_init(&two, &cuda_one, stream));
    expect_success(crmm_stream_allocator_adaptor_init(&other, &managed, NULL));
    cr_assert(crmm_stream_allocator_adaptor_is_equal(&one, &two));
    cr_assert(!crmm_stream_allocator_adaptor_is_equal(&one, &other));
    crmm_stream_allocator_adaptor_finish(&one);
    crmm_stream_allocator_adaptor_finish(&two);
    crmm_stream_allocator_adaptor_finish(&other);
    crmm_polymorphic_allocator_finish(&cuda_one);
    crmm_polymorphic_allocator_finish(&managed);
    cuda(cudaStreamDestroy(stream));
}

Test(stream_allocator_adaptor, rebind_keeps_resource_and_stream)
{
    mock_resource mock;
    crmm_stream_allocator_adaptor adaptor;
    crmm_stream_allocator_adaptor other;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    crmm_polymorphic_allocator allocator = make_allocator(4, &mock.base);
    expect_success(crmm_stream_allocator_adaptor_init(&adaptor, &allocator, stream));
    expect_success(crmm_stream_allocator_adaptor_rebind(&adaptor, 100, &other));
    cr_assert(crmm_stream_allocator_adaptor_is_equal(&adaptor, &other));
    cr_assert(crmm_stream_allocator_adaptor_stream(&other) == stream);
    crmm_stream_allocator_adaptor_finish(&adaptor);
    expect_success(crmm_stream_allocator_adaptor_allocate(&other, 3, &ptr));
    expect_equal(mock.last_allocate.bytes, 300);
    crmm_stream_allocator_adaptor_deallocate(&other, ptr, 3);
    crmm_stream_allocator_adaptor_finish(&other);
    crmm_polymorphic_allocator_finish(&allocator);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(stream_allocator_adaptor, refuses_bad_arguments_and_touches_nothing)
{
    mock_resource mock;
    crmm_polymorphic_allocator empty = {0};
    crmm_stream_allocator_adaptor adaptor = {.stream = CRMM_STREAM_LEGACY};
    crmm_stream_allocator_adaptor empty_adaptor = {0};
    void *ptr = &mock;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    crmm_polymorphic_allocator allocator = make_allocator(8, &mock.base);
    expect_failure(crmm_stream_allocator_adaptor_init(NULL, &allocator, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "adaptor is NULL");
    expect_failure(crmm_stream_allocator_adaptor_init(&adaptor, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "allocator is NULL");
    expect_failure(crmm_stream_allocator_adaptor_init(&adaptor, &empty, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "allocator is empty");
    expect_failure(crmm_stream_allocator_adaptor_rebind(NULL, 4, &adaptor),
                   CRMM_ERROR_INVALID_ARGUMENT, "other is NULL");
    expect_failure(crmm_stream_allocator_adaptor_rebind(&adaptor, 4, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "adaptor is NULL");
    expect_failure(crmm_stream_allocator_adaptor_rebind(&empty_adaptor, 4, &adaptor),
                   CRMM_ERROR_INVALID_ARGUMENT, "other is empty");
    expect_failure(crmm_stream_allocator_adaptor_allocate(NULL, 1, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "adaptor is NULL");
    expect_failure(crmm_stream_allocator_adaptor_allocate(&empty_adaptor, 1, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "allocator is empty");
    cr_assert(adaptor.stream == CRMM_STREAM_LEGACY && ptr == &mock);

    expect_success(crmm_stream_allocator_adaptor_init(&adaptor, &allocator, NULL));
    expect_failure(crmm_stream_allocator_adaptor_allocate(&adaptor, SIZE_MAX / 8 + 1, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "elements of 8 bytes");
    expect_equal(mock.allocations, 0);
    crmm_stream_allocator_adaptor_finish(&adaptor);
    crmm_polymorphic_allocator_finish(&allocator);
}

Test(stream_allocator_adaptor, accessors_and_void_functions_report_null)
{
    crmm_stream_allocator_adaptor adaptor = {0};

    misuse_recorder_start();
    crmm_stream_allocator_adaptor_finish(NULL);
    crmm_stream_allocator_adaptor_finish(&adaptor);
    expect_misuse(crmm_stream_allocator_adaptor_deallocate(NULL, &adaptor, 1),
                  CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_stream_allocator_adaptor_deallocate: adaptor is NULL");
    expect_misuse(crmm_stream_allocator_adaptor_deallocate(&adaptor, &adaptor, 1),
                  CRMM_MISUSE_INVALID_ARGUMENT, "is given to an allocator that is empty");
    expect_misuse(cr_assert(crmm_stream_allocator_adaptor_stream(NULL) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_stream_allocator_adaptor_stream");
    expect_misuse(cr_assert(crmm_stream_allocator_adaptor_underlying_allocator(NULL) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "underlying_allocator");
    expect_misuse(cr_assert(!crmm_stream_allocator_adaptor_is_equal(NULL, &adaptor)),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_stream_allocator_adaptor_is_equal: a");
    expect_misuse(cr_assert(!crmm_stream_allocator_adaptor_is_equal(&adaptor, NULL)),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_stream_allocator_adaptor_is_equal: b");
}
