/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_memory_resource.h>

#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/per_device_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static int device_of(const void *ptr)
{
    struct cudaPointerAttributes attributes;
    cuda(cudaPointerGetAttributes(&attributes, ptr));
    return attributes.device;
}

Test(two_devices_cuda_memory_resource, allocates_on_the_current_device_and_frees_from_any)
{
    need_devices(2);
    misuse_recorder_start();
    for (int device = 0; device < 2; device++) {
        crmm_resource *mr = crmm_cuda_memory_resource();
        void *ptr = NULL;
        cuda(cudaSetDevice(device));
        expect_success(crmm_allocate(mr, NULL, 4096, 256, &ptr));
        expect_equal(device_of(ptr), device);
        cuda(cudaSetDevice(1 - device));
        crmm_deallocate(mr, NULL, ptr, 4096, 256);
    }
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_cuda_memory_resource, initial_entries_are_bound_and_restore_the_device)
{
    need_devices(2);
    misuse_recorder_start();
    for (int device = 0; device < 2; device++) {
        crmm_resource *mr = NULL;
        void *ptr = NULL;
        int current = -1;
        cuda(cudaSetDevice(1 - device));
        expect_success(crmm_get_per_device_resource(device, &mr));
        expect_equal(crmm_resource_device(mr), device);
        expect_success(crmm_allocate_sync(mr, 4096, 256, &ptr));
        expect_equal(device_of(ptr), device);
        cuda(cudaGetDevice(&current));
        expect_equal(current, 1 - device);
        crmm_deallocate(mr, NULL, ptr, 4096, 256);
        /* Memory of one cuda resource may be given back to any other. */
        expect_success(crmm_allocate_sync(mr, 4096, 256, &ptr));
        crmm_deallocate_sync(crmm_cuda_memory_resource(), ptr, 4096, 256);
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_cuda_memory_resource, free_waits_for_the_owner_whatever_is_current)
{
    gate held;
    void *ptr = NULL;

    need_devices(2);
    cuda(cudaSetDevice(1));
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(crmm_cuda_memory_resource(), stream, 4096, 256, &ptr));
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
    cuda(cudaSetDevice(0));
    pthread_t opener = gate_open_later(&held);
    crmm_deallocate(crmm_cuda_memory_resource(), stream, ptr, 4096, 256);
    cr_assert(gate_is_open(&held));
    cr_assert(pthread_join(opener, NULL) == 0);
}
