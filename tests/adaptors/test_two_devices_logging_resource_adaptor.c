/* SPDX-License-Identifier: Apache-2.0 */
/* User report 72: a log said device 0 although another GPU was in use. */
#include <crmm/adaptors/logging_resource_adaptor.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/per_device_resource.h>

#include "cuda_support.h"
#include "expect.h"

typedef struct header {
    char bytes[64];
} header;

static bool take(const char *data, size_t size, void *user_data)
{
    if (size == sizeof(header)) {
        memcpy(user_data, data, size);
    }
    return true;
}

static void expect_device(crmm_resource *upstream, int device)
{
    crmm_resource *mr = NULL;
    header got = {{0}};
    struct cudaDeviceProp properties;

    cuda(cudaGetDeviceProperties(&properties, device));
    expect_success(crmm_logging_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = take, .user_data = &got, .binary = 1),
        &mr));
    expect_equal(got.bytes[32], device);
    cr_assert(memcmp(got.bytes + 40, properties.uuid.bytes, 16) == 0);
    crmm_resource_release(&mr);
}

Test(two_devices_logging_resource_adaptor, the_header_is_of_the_device_that_is_used)
{
    crmm_resource *of_first = NULL;

    need_devices(2);
    cuda(cudaSetDevice(1));
    expect_device(crmm_cuda_memory_resource(), 1); /* acts on the current device */
    expect_success(crmm_get_per_device_resource(0, &of_first));
    expect_device(of_first, 0);
    int current = -1;
    cuda(cudaGetDevice(&current));
    expect_equal(current, 1);
    crmm_resource_release(&of_first);
}
