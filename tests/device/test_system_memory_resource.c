/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/system_memory_resource.h>

#include <crmm/core/alignment.h>
#include <crmm/device/sam_headroom_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

Test(system_memory_resource, is_one_immortal_resource)
{
    crmm_resource *mr = crmm_system_memory_resource();
    crmm_resource *again = mr;

    expect_text(crmm_resource_name(mr), "system_memory_resource");
    expect_equal(crmm_resource_properties(mr), ALL);
    expect_equal(crmm_resource_device(mr), -1);
    crmm_resource_release(&again);
    cr_assert(crmm_resource_retain(mr) == mr && mr == crmm_system_memory_resource());
}

/* On devices that can reach pageable memory, and on those that cannot. */
Test(system_memory_resource, serves_what_the_device_can_reach)
{
    crmm_resource *mr = crmm_system_memory_resource();
    crmm_resource *sam = NULL;
    unsigned char *ptr = (unsigned char *)&mr;
    int pageable = 0;

    need_devices(1);
    cuda(cudaDeviceGetAttribute(&pageable, cudaDevAttrPageableMemoryAccess, 0));
    if (pageable == 0) {
        expect_failure(crmm_allocate(mr, NULL, 100, 16, (void **)&ptr), CRMM_ERROR_UNSUPPORTED,
                       "device 0 cannot reach pageable memory, so not 100 bytes of it");
        cr_assert(ptr == (unsigned char *)&mr);
        expect_failure(crmm_sam_headroom_memory_resource_create(0, &sam), CRMM_ERROR_UNSUPPORTED,
                       "device 0 cannot reach pageable memory");
        cr_assert(sam == NULL);
        return;
    }
    expect_success(crmm_allocate(mr, NULL, 5000, 4096, (void **)&ptr));
    memset(ptr, 1, 5000);
    device_fill(ptr, 2, 5000);
    expect_equal(ptr[4999], 2);
    crmm_deallocate(mr, NULL, ptr, 5000, 4096);
}
