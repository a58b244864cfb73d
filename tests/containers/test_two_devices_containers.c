/* SPDX-License-Identifier: Apache-2.0 */
/* User reports 31 and 32: every container acts on its own device, whatever is current. */
#include <crmm/containers/device_buffer.h>
#include <crmm/containers/device_scalar.h>
#include <crmm/containers/device_uvector.h>
#include <crmm/containers/polymorphic_allocator.h>

#include <crmm/device/per_device_resource.h>
#include <crmm/interfaces/resource.h>

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

/* ---- a resource that looks at the device at every call ---- */

typedef struct device_checking_resource {
    struct crmm_resource base;
    crmm_resource *upstream;
    int device;
    size_t calls;
} device_checking_resource;

static device_checking_resource *checking(crmm_resource *resource)
{
    device_checking_resource *self = (device_checking_resource *)resource;
    expect_equal(current_device(), self->device);
    self->calls++;
    return self;
}

static crmm_status checking_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    return crmm_allocate_sync(checking(resource)->upstream, bytes, alignment, ptr);
}

static void checking_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    crmm_deallocate_sync(checking(resource)->upstream, ptr, bytes, alignment);
}

static crmm_status checking_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    return crmm_allocate(checking(resource)->upstream, stream, bytes, alignment, ptr);
}

static void checking_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    crmm_deallocate(checking(resource)->upstream, stream, ptr, bytes, alignment);
}

static void checking_destroy(crmm_resource *resource)
{
    crmm_resource_release(&((device_checking_resource *)resource)->upstream);
}

static const crmm_resource_ops checking_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = checking_allocate_sync,
    .deallocate_sync = checking_deallocate_sync,
    .destroy = checking_destroy,
    .allocate = checking_allocate,
    .deallocate = checking_deallocate,
};

/* Two of them, on devices 0 and 1; the current device is 0. */
static void make_checking(device_checking_resource made[2])
{
    memset(made, 0, 2 * sizeof(made[0]));
    for (int device = 0; device < 2; device++) {
        crmm_resource_init(&made[device].base, &checking_ops, "device_checking_resource",
                           CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
        made[device].device = device;
        expect_success(crmm_get_per_device_resource(device, &made[device].upstream));
    }
}

/* ---- user report 31, for every container ---- */

Test(two_devices_containers, buffers_on_two_devices_end_in_reverse_with_the_first_current)
{
    device_checking_resource mr[2];
    crmm_device_buffer buffers[2];

    need_devices(2);
    misuse_recorder_start();
    make_checking(mr);
    for (int device = 0; device < 2; device++) {
        cuda(cudaSetDevice(device));
        expect_success(crmm_device_buffer_init(&buffers[device], 100, NULL, &mr[device].base));
        expect_equal(device_of(buffers[device].data), device);
        expect_equal(mr[device].calls, 1);
    }
    cuda(cudaSetDevice(0));
    crmm_device_buffer_finish(&buffers[1]);
    crmm_device_buffer_finish(&buffers[0]);
    expect_equal(current_device(), 0);
    expect_equal(mr[0].calls, 2);
    expect_equal(mr[1].calls, 2);
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_containers, vectors_on_two_devices_end_in_reverse_with_the_first_current)
{
    device_checking_resource mr[2];
    crmm_device_uvector vectors[2];

    need_devices(2);
    misuse_recorder_start();
    make_checking(mr);
    for (int device = 0; device < 2; device++) {
        cuda(cudaSetDevice(device));
        expect_success(crmm_device_uvector_init(&vectors[device], 25, 4, NULL, &mr[device].base));
        expect_equal(device_of(vectors[device].buffer.data), device);
        expect_equal(mr[device].calls, 1);
    }
    cuda(cudaSetDevice(0));
    crmm_device_uvector_finish(&vectors[1]);
    crmm_device_uvector_finish(&vectors[0]);
    expect_equal(current_device(), 0);
    expect_equal(mr[0].calls, 2);
    expect_equal(mr[1].calls, 2);
    expect_equal(misuse_recorded()->count, 0);
}

Test(two_devices_containers, scalars_on_two_devices_end_in_reverse_with_the_first_current)
{
    device_checking_resource mr[2];
    crmm_device_scalar scalars[2];
    int value = 42;

    need_devices(2);
    misuse_recorder_start();
    make_checking(mr);
    for (int device = 0; device < 2; device++) {
        cuda(cudaSetDevice(device));
        expect_success(
            crmm_device_scalar_init(&scalars[device], 4, &value, NULL, &mr[device].base));
        expect_equal(device_of(crmm_device_scalar_data(&scalars[device])), device);
    }
    cuda(cudaSetDevice(0));
    crmm_device_scalar_finish(&scalars[1]);
    crmm_device_scalar_finish(&scalars[0]);
    expect_equal(current_device(), 0);
    expect_equal(mr[0].calls, 2);
    expect_equal(mr[1].calls, 2);
    expect_equal(misuse_recorded()->count, 0);
}

/* ---- changes with another device current ---- */

Test(two_devices_containers, a_vector_grows_and_shrinks_on_its_own_device)
{
    device_checking_resource mr[2];
    crmm_device_uvector vector;

    need_devices(2);
    make_checking(mr);
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_uvector_init(&vector, 128, 1, stream, &mr[0].base));
    device_fill(vector.buffer.data, 0x44, 128);
    cuda(cudaSetDevice(1));
    expect_success(crmm_device_uvector_resize(&vector, 1024, stream));
    expect_equal(device_of(vector.buffer.data), 0);
    expect_success(crmm_device_uvector_resize(&vector, 64, stream));
    expect_success(crmm_device_uvector_shrink_to_fit(&vector, stream));
    expect_equal(crmm_device_uvector_capacity(&vector), 64);
    expect_equal(device_of(vector.buffer.data), 0);
    expect_equal(current_device(), 1);
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(vector.buffer.data, 0x44, 64));
    crmm_device_uvector_finish(&vector);
    expect_equal(current_device(), 1);
    expect_equal(mr[0].calls, 6);
    cuda(cudaStreamDestroy(stream));
}

Test(two_devices_containers, move_frees_and_keeps_the_device_of_each)
{
    device_checking_resource mr[2];
    crmm_device_uvector destination;
    crmm_device_uvector source;

    need_devices(2);
    make_checking(mr);
    expect_success(crmm_device_uvector_init(&destination, 128, 1, NULL, &mr[0].base));
    cuda(cudaSetDevice(1));
    expect_success(crmm_device_uvector_init(&source, 64, 1, NULL, &mr[1].base));
    crmm_device_uvector_move(&destination, &source); /* frees on device 0 */
    expect_equal(mr[0].calls, 2);
    expect_equal(destination.buffer.device, 1);
    cuda(cudaSetDevice(0));
    crmm_device_uvector_finish(&destination);
    expect_equal(mr[1].calls, 2);
    expect_equal(current_device(), 0);
}

Test(two_devices_containers, elements_are_read_and_written_on_the_own_device)
{
    crmm_device_uvector vector;
    crmm_device_scalar scalar;
    uint64_t value = 42;
    uint64_t read = 0;

    need_devices(2);
    cuda(cudaSetDevice(1));
    cudaStream_t streams[] = {make_stream(), NULL}; /* NULL is that of the current device */
    for (int i = 0; i < 2; i++) {
        cuda(cudaSetDevice(1));
        expect_success(crmm_device_uvector_init(&vector, 3, 8, streams[i], NULL));
        expect_success(crmm_device_scalar_init(&scalar, 8, &value, streams[i], NULL));
        cuda(cudaSetDevice(0));
        expect_success(crmm_device_uvector_set_element(&vector, 1, &value, streams[i]));
        expect_success(crmm_device_uvector_element(&vector, 1, streams[i], &read));
        expect_equal(read, 42);
        expect_success(crmm_device_uvector_set_element_to_zero_async(&vector, 1, streams[i]));
        expect_success(crmm_device_uvector_element(&vector, 1, streams[i], &read));
        expect_equal(read, 0);
        expect_success(crmm_device_scalar_value(&scalar, streams[i], &read));
        expect_equal(read, 42);
        expect_equal(current_device(), 0);
        crmm_device_uvector_finish(&vector);
        crmm_device_scalar_finish(&scalar);
        expect_equal(current_device(), 0);
    }
    cuda(cudaStreamDestroy(streams[0]));
}

Test(two_devices_containers, the_default_resource_of_an_allocator_is_bound_to_its_device)
{
    crmm_polymorphic_allocator allocator;
    void *ptr = NULL;

    need_devices(2);
    cuda(cudaSetDevice(1));
    cudaStream_t stream = make_stream();
    expect_success(crmm_polymorphic_allocator_init(&allocator, 8, NULL));
    cuda(cudaSetDevice(0));
    expect_success(crmm_polymorphic_allocator_allocate(&allocator, 10, stream, &ptr));
    expect_equal(device_of(ptr), 1);
    crmm_polymorphic_allocator_deallocate(&allocator, ptr, 10, stream);
    crmm_polymorphic_allocator_finish(&allocator);
    expect_equal(current_device(), 0);
    cuda(cudaStreamDestroy(stream));
}
