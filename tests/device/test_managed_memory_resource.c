/* SPDX-License-Identifier: Apache-2.0 */
/* What only managed memory does; the rest is in test_cuda_memory_resource.c, over both. */
#include <crmm/device/managed_memory_resource.h>

#include <crmm/core/resource_ref.h>

#include "cuda_support.h"
#include "expect.h"

Test(managed_memory_resource, memory_is_the_hosts_too)
{
    unsigned char *ptr = NULL;

    need_devices(1);
    crmm_resource *mr = crmm_managed_memory_resource();
    expect_success(crmm_allocate_sync(mr, 4096, 256, (void **)&ptr));
    memset(ptr, 7, 4096);
    cr_assert(device_has(ptr, 7, 4096));
    device_fill(ptr, 9, 4096);
    expect_equal(ptr[0], 9);
    expect_equal(ptr[4095], 9);
    crmm_deallocate_sync(mr, ptr, 4096, 256);
}

Test(managed_memory_resource, makes_every_typed_reference)
{
    crmm_host_device_async_resource_ref ref;

    expect_success(crmm_to_host_device_async_resource_ref(crmm_managed_memory_resource(), &ref));
    cr_assert(crmm_host_device_async_to_host(ref).resource == crmm_managed_memory_resource());
}
