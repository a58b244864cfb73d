/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/cleanup.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/containers/stream_allocator_adaptor.h>
#include <crmm/containers/typed.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

CRMM_DEVICE_UVECTOR_DEFINE(floats, float)
CRMM_DEVICE_SCALAR_DEFINE(number, double)

/* Makes one of everything and leaves at a place of the caller's choice. */
static crmm_status use_everything(crmm_resource *mr, int leave_at, crmm_resource **out)
{
    CRMM_AUTO_RESOURCE own = crmm_resource_retain(mr);
    CRMM_AUTO(crmm_device_buffer) buffer = {0};
    CRMM_AUTO(floats) vector = {0};
    CRMM_AUTO(number) scalar = {0};
    CRMM_AUTO(crmm_polymorphic_allocator) allocator = {0};
    CRMM_AUTO(crmm_stream_allocator_adaptor) adaptor = {0};

    if (leave_at == 0) {
        return CRMM_ERROR_IO;
    }
    expect_success(crmm_device_buffer_init(&buffer, 100, NULL, own));
    if (leave_at == 1) {
        return CRMM_ERROR_IO;
    }
    expect_success(floats_init(&vector, 10, NULL, own));
    expect_success(number_init_uninitialized(&scalar, NULL, own));
    expect_success(crmm_polymorphic_allocator_init(&allocator, 4, own));
    expect_success(crmm_stream_allocator_adaptor_init(&adaptor, &allocator, NULL));
    if (leave_at == 2) {
        return CRMM_ERROR_IO;
    }
    *out = CRMM_TAKE_RESOURCE(own);
    return own == NULL ? CRMM_SUCCESS : CRMM_ERROR_LOGIC;
}

Test(cleanup, variables_end_with_their_scope_wherever_it_is_left)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_resource *taken = NULL;
    crmm_resource *own = &mock.base;

    need_devices(1);
    misuse_recorder_start();
    mock_resource_init(&mock, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    mock.destroyed = &destroyed;
    for (int leave_at = 0; leave_at < 4; leave_at++) {
        crmm_status status = use_everything(&mock.base, leave_at, &taken);
        expect_equal(status, leave_at < 3 ? CRMM_ERROR_IO : CRMM_SUCCESS);
        expect_equal(mock.live, 0);
    }
    expect_equal(mock.allocations, 1 + 3 + 3);
    cr_assert(taken == &mock.base);
    crmm_resource_release(&taken);
    cr_assert(!destroyed);
    crmm_resource_release(&own);
    cr_assert(destroyed); /* no reference was lost */
    expect_equal(misuse_recorded()->count, 0);
}
