/* SPDX-License-Identifier: Apache-2.0 */
/* What only pinned memory does; the rest is in tests/device/test_cuda_memory_resource.c. */
#include <crmm/host/pinned_host_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(pinned_host_memory_resource, memory_is_the_hosts_and_the_devices)
{
    struct cudaPointerAttributes attributes;
    unsigned char *ptr = NULL;

    need_devices(1);
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    expect_success(crmm_allocate_sync(mr, 4096, 256, (void **)&ptr));
    cuda(cudaPointerGetAttributes(&attributes, ptr));
    expect_equal(attributes.type, cudaMemoryTypeHost);
    memset(ptr, 7, 4096);
    device_fill(ptr, 9, 4096);
    expect_equal(ptr[0], 9);
    expect_equal(ptr[4095], 9);
    crmm_deallocate_sync(mr, ptr, 4096, 256);
}

/* User report 34: a pinned staging buffer was freed, and used again, while a copy from it was still
 * under way. */
Test(pinned_host_memory_resource, a_free_waits_its_turn_on_the_stream)
{
    gate held;
    unsigned char *staging = NULL;
    void *device = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    misuse_recorder_start();
    cuda(cudaMalloc(&device, 4096));
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&staging));
    memset(staging, 1, 4096);
    gate_close(&held, stream);
    cuda(cudaMemcpyAsync(device, staging, 4096, cudaMemcpyHostToDevice, stream));
    pthread_t opener = gate_open_later(&held);
    crmm_deallocate(mr, stream, staging, 4096, 256);
    cr_assert(gate_is_open(&held), "freed under a copy");
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&staging));
    memset(staging, 2, 4096);
    cr_assert(device_has(device, 1, 4096));
    crmm_deallocate(mr, stream, staging, 4096, 256);
    cr_assert(pthread_join(opener, NULL) == 0);
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaFree(device));
    cuda(cudaStreamDestroy(stream));
}
