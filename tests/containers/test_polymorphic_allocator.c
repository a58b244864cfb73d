/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/polymorphic_allocator.h>

#include <stdint.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

Test(polymorphic_allocator, init_uses_the_current_resource_or_the_one_given)
{
    mock_resource mock;
    crmm_polymorphic_allocator allocator;

    need_devices(1);
    expect_success(crmm_polymorphic_allocator_init(&allocator, 4, NULL));
    cr_assert(crmm_resource_is_equal(crmm_polymorphic_allocator_upstream(&allocator),
                                     crmm_cuda_memory_resource()));
    expect_equal(crmm_polymorphic_allocator_element_size(&allocator), 4);
    crmm_polymorphic_allocator_finish(&allocator);

    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_set_current_device_resource(&mock.base, NULL));
    expect_success(crmm_polymorphic_allocator_init(&allocator, 4, NULL));
    expect_success(crmm_reset_current_device_resource(NULL));
    cr_assert(crmm_polymorphic_allocator_upstream(&allocator) == &mock.base);
    crmm_polymorphic_allocator_finish(&allocator);

    expect_success(crmm_polymorphic_allocator_init(&allocator, 4, crmm_managed_memory_resource()));
    cr_assert(crmm_polymorphic_allocator_upstream(&allocator) == crmm_managed_memory_resource());
    crmm_polymorphic_allocator_finish(&allocator);
}

Test(polymorphic_allocator, init_refuses_bad_arguments_and_touches_nothing)
{
    mock_resource sync_only;
    crmm_polymorphic_allocator allocator = {77, NULL};

    need_devices(1);
    mock_resource_init(&sync_only, CRMM_DEVICE_ACCESSIBLE);
    expect_failure(crmm_polymorphic_allocator_init(NULL, 4, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_polymorphic_allocator_init: allocator is NULL");
    expect_failure(crmm_polymorphic_allocator_init(&allocator, 0, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "element_size is 0");
    expect_failure(crmm_polymorphic_allocator_init(&allocator, 4, crmm_malloc_memory_resource()),
                   CRMM_ERROR_PROPERTY, "polymorphic_allocator: malloc_memory_resource is not");
    expect_failure(crmm_polymorphic_allocator_init(&allocator, 4, &sync_only.base),
                   CRMM_ERROR_PROPERTY, "is not stream-ordered");
    expect_equal(allocator.element_size, 77);
}

Test(polymorphic_allocator, allocates_elements_and_takes_them_back)
{
    crmm_resource *given[] = {NULL, crmm_managed_memory_resource()};

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (int i = 0; i < 2; i++) {
        crmm_polymorphic_allocator allocator;
        void *ptr = NULL;
        expect_success(crmm_polymorphic_allocator_init(&allocator, sizeof(int), given[i]));
        expect_success(crmm_polymorphic_allocator_allocate(&allocator, 1000, stream, &ptr));
        cr_assert(ptr != NULL && (uintptr_t)ptr % 256 == 0);
        device_fill(ptr, 1, 1000 * sizeof(int));
        crmm_polymorphic_allocator_deallocate(&allocator, ptr, 1000, stream);
        crmm_polymorphic_allocator_finish(&allocator);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(polymorphic_allocator, passes_size_alignment_and_stream_on)
{
    mock_resource mock;
    crmm_polymorphic_allocator allocator;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_polymorphic_allocator_init(&allocator, 12, &mock.base));
    expect_success(crmm_polymorphic_allocator_allocate(&allocator, 10, stream, &ptr));
    expect_equal(mock.last_allocate.bytes, 120);
    expect_equal(mock.last_allocate.alignment, 256);
    cr_assert(mock.last_allocate.stream == stream && !mock.last_allocate.sync);
    crmm_polymorphic_allocator_deallocate(&allocator, ptr, 10, stream);
    expect_equal(mock.last_deallocate.bytes, 120);
    expect_equal(mock.last_deallocate.alignment, 256);
    cr_assert(mock.last_deallocate.stream == stream && mock.last_deallocate.ptr == ptr);
    expect_success(crmm_polymorphic_allocator_allocate(&allocator, 0, stream, &ptr));
    cr_assert(ptr == NULL);
    crmm_polymorphic_allocator_deallocate(&allocator, NULL, 0, stream);
    crmm_polymorphic_allocator_finish(&allocator);
    expect_equal(mock.allocations, 1);
    expect_equal(mock.deallocations, 1);
    cuda(cudaStreamDestroy(stream));
}

Test(polymorphic_allocator, count_times_size_that_overflows_is_refused_and_nobody_asked)
{
    mock_resource mock;
    crmm_polymorphic_allocator allocator;
    void *ptr = &mock;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    misuse_recorder_start();
    expect_success(crmm_polymorphic_allocator_init(&allocator, 8, &mock.base));
    expect_failure(crmm_polymorphic_allocator_allocate(&allocator, SIZE_MAX / 8 + 1, NULL, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "2305843009213693952 elements of 8 bytes");
    cr_assert(ptr == &mock);
    expect_status(crmm_polymorphic_allocator_allocate(&allocator, SIZE_MAX / 8, NULL, &ptr),
                  CRMM_ERROR_OUT_OF_MEMORY);
    expect_misuse(crmm_polymorphic_allocator_deallocate(&allocator, &mock, SIZE_MAX / 8 + 1, NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT,
                  "is given back as 2305843009213693952 elements of 8 bytes");
    expect_equal(mock.allocations + mock.deallocations, 0);
    crmm_polymorphic_allocator_finish(&allocator);
}

Test(polymorphic_allocator, failures_of_the_resource_are_passed_on)
{
    mock_resource mock;
    crmm_polymorphic_allocator allocator;
    void *ptr = &mock;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_polymorphic_allocator_init(&allocator, 8, &mock.base));
    mock.fail_with = CRMM_ERROR_LIMIT_EXCEEDED;
    expect_status(crmm_polymorphic_allocator_allocate(&allocator, 1, NULL, &ptr),
                  CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(ptr == &mock);
    mock.fail_with = CRMM_SUCCESS;
    expect_status(crmm_polymorphic_allocator_allocate(&allocator, 1, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(mock.live, 0);
    crmm_polymorphic_allocator_finish(&allocator);
}

Test(polymorphic_allocator, is_equal_where_the_resources_are)
{
    crmm_polymorphic_allocator cuda_one;
    crmm_polymorphic_allocator cuda_two;
    crmm_polymorphic_allocator managed;

    need_devices(1);
    expect_success(crmm_polymorphic_allocator_init(&cuda_one, 4, crmm_cuda_memory_resource()));
    expect_success(crmm_polymorphic_allocator_init(&cuda_two, 8, NULL));
    expect_success(crmm_polymorphic_allocator_init(&managed, 4, crmm_managed_memory_resource()));
    cr_assert(crmm_polymorphic_allocator_is_equal(&cuda_one, &cuda_one));
    cr_assert(crmm_polymorphic_allocator_is_equal(&cuda_one, &cuda_two)); /* across sizes */
    cr_assert(!crmm_polymorphic_allocator_is_equal(&cuda_one, &managed));
    crmm_polymorphic_allocator_finish(&cuda_one);
    crmm_polymorphic_allocator_finish(&cuda_two);
    crmm_polymorphic_allocator_finish(&managed);
}

Test(polymorphic_allocator, rebind_copies_for_the_same_or_another_element_size)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_polymorphic_allocator allocator;
    crmm_polymorphic_allocator same;
    crmm_polymorphic_allocator other;
    void *ptr = NULL;
    crmm_resource *own = &mock.base;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    mock.destroyed = &destroyed;
    expect_success(crmm_polymorphic_allocator_init(&allocator, 4, &mock.base));
    crmm_resource_release(&own);
    expect_success(crmm_polymorphic_allocator_rebind(&allocator, 4, &same));
    expect_success(crmm_polymorphic_allocator_rebind(&allocator, 1000, &other));
    cr_assert(crmm_polymorphic_allocator_is_equal(&allocator, &same));
    cr_assert(crmm_polymorphic_allocator_is_equal(&allocator, &other));
    crmm_polymorphic_allocator_finish(&allocator); /* each holds the resource */
    crmm_polymorphic_allocator_finish(&same);
    cr_assert(!destroyed);
    expect_success(crmm_polymorphic_allocator_allocate(&other, 3, NULL, &ptr));
    expect_equal(mock.last_allocate.bytes, 3000);
    crmm_polymorphic_allocator_deallocate(&other, ptr, 3, NULL);
    crmm_polymorphic_allocator_finish(&other);
    cr_assert(destroyed);
}

Test(polymorphic_allocator, rebind_refuses_bad_arguments)
{
    crmm_polymorphic_allocator empty = {0};
    crmm_polymorphic_allocator out = {77, NULL};

    expect_failure(crmm_polymorphic_allocator_rebind(NULL, 4, &out), CRMM_ERROR_INVALID_ARGUMENT,
                   "other is NULL");
    expect_failure(crmm_polymorphic_allocator_rebind(&empty, 4, &out), CRMM_ERROR_INVALID_ARGUMENT,
                   "other is empty");
    expect_failure(crmm_polymorphic_allocator_rebind(&empty, 0, &out), CRMM_ERROR_INVALID_ARGUMENT,
                   "element_size is 0");
    expect_status(crmm_polymorphic_allocator_rebind(&empty, 4, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(out.element_size, 77);
}

Test(polymorphic_allocator, an_empty_or_null_one_can_do_nothing)
{
    crmm_polymorphic_allocator empty = {0};
    void *ptr = &empty;

    misuse_recorder_start();
    crmm_polymorphic_allocator_finish(&empty);
    crmm_polymorphic_allocator_finish(NULL);
    expect_failure(crmm_polymorphic_allocator_allocate(&empty, 1, NULL, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "allocator is empty");
    expect_failure(crmm_polymorphic_allocator_allocate(NULL, 1, NULL, &ptr),
                   CRMM_ERROR_INVALID_ARGUMENT, "allocator is NULL");
    expect_misuse(crmm_polymorphic_allocator_deallocate(&empty, ptr, 1, NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "is given to an allocator that is empty");
    expect_misuse(crmm_polymorphic_allocator_deallocate(NULL, ptr, 1, NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "is given to an allocator that is NULL");
    expect_misuse(cr_assert(crmm_polymorphic_allocator_upstream(NULL) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_polymorphic_allocator_upstream");
    expect_misuse(cr_assert(crmm_polymorphic_allocator_element_size(NULL) == 0),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_polymorphic_allocator_element_size");
    expect_misuse(cr_assert(!crmm_polymorphic_allocator_is_equal(NULL, &empty)),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_polymorphic_allocator_is_equal: a is NULL");
    expect_misuse(cr_assert(!crmm_polymorphic_allocator_is_equal(&empty, NULL)),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_polymorphic_allocator_is_equal: b is NULL");
    cr_assert(crmm_polymorphic_allocator_is_equal(&empty, &empty));
    cr_assert(crmm_polymorphic_allocator_upstream(&empty) == NULL);
}
