/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_buffer.h>

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

static int current_device(void)
{
    int device = -1;
    cuda(cudaGetDevice(&device));
    return device;
}

Test(two_devices_device_buffer, acts_on_its_own_device_whatever_is_current)
{
    crmm_device_buffer buffer;

    need_devices(2);
    misuse_recorder_start();
    cuda(cudaSetDevice(1));
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, 100, stream, NULL));
    expect_equal(buffer.device, 1);
    device_fill(buffer.data, 0x11, 100);
    cuda(cudaSetDevice(0));

    expect_success(crmm_device_buffer_resize(&buffer, 4096, stream));
    expect_equal(device_of(buffer.data), 1);
    expect_equal(current_device(), 0);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(buffer.data, 0x11, 100));
    expect_success(crmm_device_buffer_resize(&buffer, 10, stream));
    expect_success(crmm_device_buffer_shrink_to_fit(&buffer, stream));
    expect_equal(device_of(buffer.data), 1);
    expect_equal(current_device(), 0);
    crmm_device_buffer_finish(&buffer);
    expect_equal(current_device(), 0);
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_device_buffer, default_resource_is_that_of_the_current_device)
{
    need_devices(2);
    for (int device = 0; device < 2; device++) {
        crmm_device_buffer buffer;
        crmm_device_buffer grown = {0};
        cuda(cudaSetDevice(device));
        expect_success(crmm_device_buffer_init(&buffer, 100, NULL, NULL));
        expect_equal(crmm_resource_device(buffer.resource), device);
        expect_success(crmm_device_buffer_resize(&grown, 100, NULL));
        expect_equal(grown.device, device);
        expect_equal(device_of(grown.data), device);
        cuda(cudaSetDevice(1 - device));
        crmm_device_buffer_finish(&buffer);
        crmm_device_buffer_finish(&grown);
    }
}

Test(two_devices_device_buffer, streams_of_its_device_are_ordered_while_another_is_current)
{
    gate held;
    crmm_device_buffer buffer;

    need_devices(2);
    cuda(cudaSetDevice(1));
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_buffer_init(&buffer, 100, old_stream, NULL));
    gate_close(&held, old_stream);
    cuda(cudaSetDevice(0));
    expect_success(crmm_device_buffer_set_stream(&buffer, new_stream));
    expect_equal(cudaStreamQuery(new_stream), cudaErrorNotReady);
    gate_open(&held);
    cuda(cudaStreamSynchronize(new_stream));
    crmm_device_buffer_finish(&buffer);
}

Test(two_devices_device_buffer, move_frees_and_keeps_the_device_of_each)
{
    crmm_device_buffer destination;
    crmm_device_buffer source;

    need_devices(2);
    misuse_recorder_start();
    expect_success(crmm_device_buffer_init(&destination, 100, NULL, NULL));
    cuda(cudaSetDevice(1));
    expect_success(crmm_device_buffer_init(&source, 200, NULL, NULL));
    cuda(cudaSetDevice(0));
    crmm_device_buffer_move(&destination, &source);
    expect_equal(destination.device, 1);
    expect_equal(device_of(destination.data), 1);
    crmm_device_buffer_finish(&destination);
    expect_equal(current_device(), 0);
    expect_equal(misuse_recorded()->count, 0);
}
