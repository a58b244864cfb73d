/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/per_device_resource.h>

#include <limits.h>
#include <stdio.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/internal/log.h>

#include "cuda_support.h"
#include "expect.h"
#include "mock_resource.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *current(void)
{
    crmm_resource *mr = NULL;
    expect_success(crmm_get_current_device_resource(&mr));
    return mr;
}

Test(per_device_resource, starts_with_a_cuda_resource_of_the_device)
{
    crmm_device_async_resource_ref ref = {NULL};
    crmm_resource *by_device = NULL;

    need_devices(1);
    crmm_resource *mr = current();
    expect_text(crmm_resource_name(mr), "cuda_memory_resource");
    expect_equal(crmm_resource_device(mr), 0);
    cr_assert(crmm_resource_is_equal(mr, crmm_cuda_memory_resource()));
    expect_success(crmm_get_per_device_resource(0, &by_device));
    cr_assert(by_device == mr);
    expect_success(crmm_get_current_device_resource_ref(&ref));
    cr_assert(ref.resource == mr);
    expect_success(crmm_get_per_device_resource_ref(0, &ref));
    cr_assert(ref.resource == mr);
}

Test(per_device_resource, set_replaces_and_hands_out_the_previous_one)
{
    crmm_resource *previous = NULL;
    mock_resource first;
    mock_resource second;

    need_devices(1);
    crmm_resource *initial = current();
    mock_resource_init(&first, DEVICE_ASYNC);
    mock_resource_init(&second, DEVICE_ASYNC);
    expect_success(crmm_set_current_device_resource(&first.base, &previous));
    cr_assert(previous == initial);
    crmm_resource_release(&previous);
    crmm_resource *got = current();
    cr_assert(got == &first.base);
    crmm_resource_release(&got);
    expect_success(crmm_set_per_device_resource(0, &second.base, &previous));
    cr_assert(previous == &first.base);
    crmm_resource_release(&previous);
    expect_success(crmm_reset_per_device_resource(0, &previous));
    cr_assert(previous == &second.base);
    crmm_resource_release(&previous);
    cr_assert(current() == initial);
}

/* User report 41: setting NULL, or resetting, made the next allocation crash, and two getters
 * disagreed. */
Test(per_device_resource, null_and_reset_restore_the_initial_resource)
{
    mock_resource mock;
    const crmm_device_async_resource_ref null_ref = {NULL};

    need_devices(1);
    crmm_resource *initial = current();
    mock_resource_init(&mock, DEVICE_ASYNC);
    for (int way = 0; way < 8; way++) {
        expect_success(crmm_set_current_device_resource(&mock.base, NULL));
        switch (way) {
        case 0:
            expect_success(crmm_set_current_device_resource(NULL, NULL));
            break;
        case 1:
            expect_success(crmm_set_per_device_resource(0, NULL, NULL));
            break;
        case 2:
            expect_success(crmm_reset_current_device_resource(NULL));
            break;
        case 3:
            expect_success(crmm_reset_per_device_resource(0, NULL));
            break;
        case 4:
            expect_success(crmm_set_current_device_resource_ref(null_ref, NULL));
            break;
        case 5:
            expect_success(crmm_set_per_device_resource_ref(0, null_ref, NULL));
            break;
        case 6:
            expect_success(crmm_reset_current_device_resource_ref(NULL));
            break;
        default:
            expect_success(crmm_reset_per_device_resource_ref(0, NULL));
            break;
        }
        crmm_resource *by_device = NULL;
        crmm_device_async_resource_ref ref = {NULL};
        cr_assert(current() == initial, "way %d", way);
        expect_success(crmm_get_per_device_resource(0, &by_device));
        cr_assert(by_device == initial);
        expect_success(crmm_get_current_device_resource_ref(&ref));
        cr_assert(ref.resource == initial);

        void *ptr = NULL;
        expect_success(crmm_allocate(current(), NULL, 1024, 256, &ptr));
        crmm_deallocate(current(), NULL, ptr, 1024, 256);
    }
}

/* User report 42: the "previous resource" that set returned was a reference to the slot that had
 * just been overwritten. */
Test(per_device_resource, previous_stays_valid_after_further_sets)
{
    enum { COUNT = 4 };
    mock_resource mocks[COUNT];
    bool destroyed[COUNT] = {false};
    crmm_resource *previous[COUNT] = {NULL};

    need_devices(1);
    for (int i = 0; i < COUNT; i++) {
        mock_resource_init(&mocks[i], DEVICE_ASYNC);
        mocks[i].destroyed = &destroyed[i];
        expect_success(crmm_set_current_device_resource(&mocks[i].base, &previous[i]));
        crmm_resource *own = &mocks[i].base;
        crmm_resource_release(&own); /* only the table holds it now */
    }
    for (int i = 1; i < COUNT; i++) {
        void *ptr = NULL;
        cr_assert(previous[i] == &mocks[i - 1].base);
        cr_assert(!destroyed[i - 1]);
        expect_success(crmm_allocate(previous[i], NULL, 64, 64, &ptr));
        crmm_deallocate(previous[i], NULL, ptr, 64, 64);
        crmm_resource_release(&previous[i]);
        cr_assert(destroyed[i - 1]);
    }
    cr_assert(!destroyed[COUNT - 1]);
    expect_success(crmm_reset_current_device_resource(NULL));
    cr_assert(destroyed[COUNT - 1]);
}

Test(per_device_resource, typed_references_are_retained)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_device_async_resource_ref ref = {NULL};
    crmm_device_async_resource_ref new_ref = {NULL};
    crmm_device_async_resource_ref previous = {NULL};

    need_devices(1);
    crmm_resource *initial = current();
    mock_resource_init(&mock, DEVICE_ASYNC);
    mock.destroyed = &destroyed;
    expect_success(crmm_to_device_async_resource_ref(&mock.base, &new_ref));
    expect_success(crmm_set_current_device_resource_ref(new_ref, &previous));
    cr_assert(previous.resource == initial);
    expect_success(crmm_get_current_device_resource_ref(&ref));
    crmm_resource *own = &mock.base;
    crmm_resource_release(&own);
    expect_success(crmm_reset_current_device_resource_ref(&previous));
    cr_assert(previous.resource == &mock.base);
    crmm_resource_release(&previous.resource);
    cr_assert(!destroyed);
    crmm_resource_release(&ref.resource);
    cr_assert(destroyed);
}

Test(per_device_resource, typed_references_by_device_are_retained)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_device_async_resource_ref ref = {NULL};
    crmm_device_async_resource_ref new_ref = {NULL};
    crmm_device_async_resource_ref previous = {NULL};

    need_devices(1);
    crmm_resource *initial = current();
    mock_resource_init(&mock, DEVICE_ASYNC);
    mock.destroyed = &destroyed;
    expect_success(crmm_to_device_async_resource_ref(&mock.base, &new_ref));
    expect_success(crmm_set_per_device_resource_ref(0, new_ref, &previous));
    cr_assert(previous.resource == initial);
    expect_success(crmm_get_per_device_resource_ref(0, &ref));
    cr_assert(ref.resource == &mock.base);
    crmm_resource *own = &mock.base;
    crmm_resource_release(&own);
    expect_success(crmm_reset_per_device_resource_ref(0, &previous));
    cr_assert(previous.resource == &mock.base);
    crmm_resource_release(&previous.resource);
    cr_assert(!destroyed);
    crmm_resource_release(&ref.resource);
    cr_assert(destroyed);
}

Test(per_device_resource, needs_device_access_and_stream_order)
{
    static const crmm_properties lacking[] = {0, CRMM_DEVICE_ACCESSIBLE, CRMM_STREAM_ORDERED,
                                              CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED};
    crmm_resource *previous = NULL;

    need_devices(1);
    crmm_resource *initial = current();
    for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
        mock_resource mock;
        mock_resource_init(&mock, lacking[i]);
        expect_failure(crmm_set_current_device_resource(&mock.base, &previous), CRMM_ERROR_PROPERTY,
                       "mock_resource is not");
    }
    expect_failure(crmm_set_per_device_resource(0, crmm_malloc_memory_resource(), &previous),
                   CRMM_ERROR_PROPERTY,
                   "malloc_memory_resource is not device accessible, stream-ordered");
    cr_assert(previous == NULL);
    cr_assert(current() == initial);
    expect_success(crmm_set_current_device_resource(crmm_managed_memory_resource(), NULL));
    cr_assert(current() == crmm_managed_memory_resource());
}

Test(per_device_resource, refuses_devices_that_are_not_there)
{
    int count = 0;
    crmm_device_async_resource_ref ref = {NULL};

    need_devices(1);
    cuda(cudaGetDeviceCount(&count));
    const int bad[] = {-1, count, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        crmm_resource *mr = NULL;
        expect_failure(crmm_get_per_device_resource(bad[i], &mr), CRMM_ERROR_INVALID_ARGUMENT,
                       "crmm_get_per_device_resource: device is");
        expect_status(crmm_set_per_device_resource(bad[i], crmm_cuda_memory_resource(), &mr),
                      CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_reset_per_device_resource(bad[i], &mr), CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_get_per_device_resource_ref(bad[i], &ref), CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_set_per_device_resource_ref(bad[i], ref, &ref),
                      CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_reset_per_device_resource_ref(bad[i], &ref),
                      CRMM_ERROR_INVALID_ARGUMENT);
        cr_assert(mr == NULL && ref.resource == NULL);
    }
}

Test(per_device_resource, refuses_a_resource_of_another_device)
{
    mock_resource mock;
    crmm_resource *previous = NULL;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    crmm_resource_bind_device(&mock.base, 7);
    expect_failure(crmm_set_per_device_resource(0, &mock.base, &previous),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "new_mr (mock_resource) belongs to device 7, not 0");
    cr_assert(previous == NULL);
    crmm_resource_bind_device(&mock.base, 0);
    expect_success(crmm_set_per_device_resource(0, &mock.base, NULL));
}

Test(per_device_resource, refuses_null_outputs_where_there_is_nothing_else)
{
    need_devices(1);
    expect_failure(crmm_get_current_device_resource(NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_get_current_device_resource: the output is NULL");
    expect_failure(crmm_get_per_device_resource_ref(0, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_get_per_device_resource_ref: the output is NULL");
    expect_status(crmm_get_per_device_resource(0, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_get_current_device_resource_ref(NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_get_per_device_resource_ref(0, NULL), CRMM_ERROR_INVALID_ARGUMENT);
}

static void keep_latest(crmm_log_level level, const char *message, void *user_data)
{
    (void)snprintf(user_data, 256, "%d: %s", (int)level, message);
}

Test(per_device_resource, changes_are_logged_for_those_who_look)
{
    char latest[256] = "";

    need_devices(1);
    expect_success(crmm_log_set_callback(keep_latest, latest));
    expect_success(crmm_set_current_device_resource(crmm_managed_memory_resource(), NULL));
    expect_text(latest, "");
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_DEBUG));
    expect_success(crmm_reset_current_device_resource(NULL));
    if (CRMM_LOG_ACTIVE_LEVEL > CRMM_LOG_LEVEL_DEBUG) {
        expect_text(latest, ""); /* not compiled in */
        return;
    }
    expect_text(latest, "1: device 0: the current resource is cuda_memory_resource now, and was "
                        "managed_memory_resource");
}
