/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"

static int current(void)
{
    int device = -1;
    cuda(cudaGetDevice(&device));
    return device;
}

static int device_of(const void *ptr)
{
    struct cudaPointerAttributes attributes;
    cuda(cudaPointerGetAttributes(&attributes, ptr));
    return attributes.device;
}

/* All that a pool does while another device is current. */
static void use(crmm_resource *pool, int device, cudaStream_t stream)
{
    void *ptr = take(pool, stream, 20 * MIB);
    void *small = take(pool, stream, 100);
    void *sync = NULL;

    expect_equal(device_of(ptr), device);
    expect_equal(device_of(small), device);
    crmm_deallocate(pool, stream, ptr, 20 * MIB, 256);
    expect_success(crmm_allocate_sync(pool, 30 * MIB, 256, &sync));
    expect_equal(device_of(sync), device);
    crmm_deallocate_sync(pool, sync, 30 * MIB, 256);
    crmm_deallocate_ptr(pool, stream, small);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
    expect_success(crmm_resource_trim(pool, 0, NULL));
    expect_equal(current(), 1 - device);
    expect_sound_books(pool);
}

Test(two_devices_pool_memory_resource, works_on_its_own_device_whatever_is_current)
{
    need_devices(2);
    misuse_recorder_start();
    for (int device = 0; device < 2; device++) {
        cuda(cudaSetDevice(device));
        crmm_resource *vmm = make_vmm();
        crmm_resource *pools[] = {make_pool(vmm, .tight = 0), make_pool(NULL, .tight = 1),
                                  make_pool(crmm_cuda_memory_resource(), .tight = 0)};
        cudaStream_t stream = make_stream();
        cuda(cudaSetDevice(1 - device));
        for (size_t i = 0; i < 3; i++) {
            expect_equal(crmm_resource_device(pools[i]), device);
            use(pools[i], device, stream);
            /* The default streams are those of the pool's device. */
            void *ptr = take(pools[i], CRMM_STREAM_PER_THREAD, 3 * MIB);
            expect_equal(device_of(ptr), device);
            crmm_deallocate(pools[i], CRMM_STREAM_PER_THREAD, ptr, 3 * MIB, 256);
            ptr = take(pools[i], NULL, 3 * MIB);
            crmm_deallocate(pools[i], NULL, ptr, 3 * MIB, 256);
            crmm_resource_release(&pools[i]);
            expect_equal(current(), 1 - device);
        }
        expect_equal(info_of(vmm).held, 0);
        crmm_resource_release(&vmm);
        cuda(cudaStreamDestroy(stream));
    }
    expect_equal(misuse_recorded()->count, 0);
}

/* A wait on the legacy stream would spoil the capture on the pool's device, which is not current.
 */
Test(two_devices_pool_memory_resource, leaves_a_capture_on_its_own_device_alone, .timeout = 20)
{
    cudaStream_t captured = NULL;
    cudaGraph_t graph = NULL;
    void *ptr = NULL;
    gate held;

    need_devices(2);
    cuda(cudaSetDevice(0));
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 8 * MIB,
                                    .maximum_pool_size = 8 * MIB);
    cudaStream_t busy = make_stream();
    void *block = take(pool, busy, 8 * MIB);
    gate_close(&held, busy);
    crmm_deallocate(pool, busy, block, 8 * MIB, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, busy));
    cuda(cudaStreamCreate(&captured));
    cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed));
    cuda(cudaSetDevice(1));
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_allocate(pool, NULL, 8 * MIB, 256, &ptr));
    cr_assert(ptr == block);
    cr_assert(pthread_join(opener, NULL) == 0);
    cuda(cudaSetDevice(0));
    cuda(cudaStreamEndCapture(captured, &graph));
    cr_assert(graph != NULL);
    cuda(cudaGraphDestroy(graph));
    crmm_deallocate(pool, NULL, ptr, 8 * MIB, 256);
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(busy));
    crmm_resource_release(&pool);
}
