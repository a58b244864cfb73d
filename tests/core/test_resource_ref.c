/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/resource_ref.h>

#include "expect.h"
#include "mock_resource.h"

#define H CRMM_HOST_ACCESSIBLE
#define D CRMM_DEVICE_ACCESSIBLE
#define S CRMM_STREAM_ORDERED

/* Every constructor, called through one signature. */
typedef crmm_status (*constructor)(crmm_resource *resource, crmm_resource **inside);

#define CONSTRUCTOR(type)                                                               \
    static crmm_status make_##type(crmm_resource *resource, crmm_resource **inside)     \
    {                                                                                   \
        crmm_##type##_resource_ref ref = {(crmm_resource *)inside};                     \
        crmm_status status =                                                            \
            crmm_to_##type##_resource_ref(resource, inside == NULL ? NULL : &ref);      \
        if (inside != NULL) {                                                           \
            *inside = ref.resource == (crmm_resource *)inside ? *inside : ref.resource; \
        }                                                                               \
        return status;                                                                  \
    }

CONSTRUCTOR(device)
CONSTRUCTOR(device_async)
CONSTRUCTOR(host)
CONSTRUCTOR(host_async)
CONSTRUCTOR(host_device)
CONSTRUCTOR(host_device_async)

static const struct {
    const char *name;
    constructor make;
    crmm_properties required;
} types[] = {
    {"device_resource_ref", make_device, D},
    {"device_async_resource_ref", make_device_async, D | S},
    {"host_resource_ref", make_host, H},
    {"host_async_resource_ref", make_host_async, H | S},
    {"host_device_resource_ref", make_host_device, H | D},
    {"host_device_async_resource_ref", make_host_device_async, H | D | S},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

Test(resource_ref, constructors_demand_just_their_properties)
{
    for (int type = 0; type < TYPES; type++) {
        for (crmm_properties has = 0; has < 8; has++) {
            mock_resource mock;
            mock_resource untouched;
            crmm_resource *inside = &untouched.base;

            mock_resource_init(&mock, has);
            crmm_status status = types[type].make(&mock.base, &inside);
            if ((has & types[type].required) == types[type].required) {
                cr_assert(status == CRMM_SUCCESS && inside == &mock.base, "%s from %d",
                          types[type].name, (int)has);
            } else {
                cr_assert(status == CRMM_ERROR_PROPERTY && inside == &untouched.base, "%s from %d",
                          types[type].name, (int)has);
                expect_message(types[type].name);
                expect_message("mock_resource is not");
            }
        }
    }
}

Test(resource_ref, null_resources_are_a_logic_error)
{
    for (int type = 0; type < TYPES; type++) {
        crmm_resource *inside = NULL;
        expect_failure(types[type].make(NULL, &inside), CRMM_ERROR_LOGIC, "resource is NULL");
        expect_message(types[type].name);
    }
}

Test(resource_ref, null_outputs_are_an_invalid_argument)
{
    mock_resource mock;

    mock_resource_init(&mock, H | D | S);
    for (int type = 0; type < TYPES; type++) {
        expect_failure(types[type].make(&mock.base, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                       "ref is NULL");
        expect_failure(types[type].make(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT, "ref is NULL");
    }
}

Test(resource_ref, message_names_what_is_missing)
{
    mock_resource mock;
    crmm_host_device_async_resource_ref ref;

    mock_resource_init(&mock, D);
    expect_failure(crmm_to_host_device_async_resource_ref(&mock.base, &ref), CRMM_ERROR_PROPERTY,
                   "mock_resource is not host accessible, stream-ordered");
}

Test(resource_ref, widening_keeps_the_resource)
{
    mock_resource mock;
    crmm_host_device_async_resource_ref all;

    mock_resource_init(&mock, H | D | S);
    expect_success(crmm_to_host_device_async_resource_ref(&mock.base, &all));
    cr_assert(crmm_host_device_async_to_host_device(all).resource == &mock.base);
    cr_assert(crmm_host_device_async_to_device_async(all).resource == &mock.base);
    cr_assert(crmm_host_device_async_to_host_async(all).resource == &mock.base);
    cr_assert(crmm_host_device_async_to_device(all).resource == &mock.base);
    cr_assert(crmm_host_device_async_to_host(all).resource == &mock.base);

    crmm_host_device_resource_ref sync = crmm_host_device_async_to_host_device(all);
    cr_assert(crmm_host_device_to_device(sync).resource == &mock.base);
    cr_assert(crmm_host_device_to_host(sync).resource == &mock.base);

    crmm_device_async_resource_ref device = crmm_host_device_async_to_device_async(all);
    cr_assert(crmm_device_async_to_device(device).resource == &mock.base);
    crmm_host_async_resource_ref host = crmm_host_device_async_to_host_async(all);
    crmm_host_resource_ref narrow = crmm_host_async_to_host(host);
    cr_assert(narrow.resource == &mock.base);
}

Test(resource_ref, does_not_own)
{
    mock_resource mock;
    bool destroyed = false;
    crmm_device_resource_ref ref;

    mock_resource_init(&mock, D);
    mock.destroyed = &destroyed;
    expect_success(crmm_to_device_resource_ref(&mock.base, &ref));
    crmm_resource *resource = &mock.base;
    crmm_resource_release(&resource);
    cr_assert(destroyed);
}
