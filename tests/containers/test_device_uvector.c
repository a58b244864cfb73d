/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_uvector.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include <crmm/containers/typed.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"
#include "same_container.h"

#define DEVICE_ASYNC (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

enum { COUNT = 12345 };

typedef struct wide {
    _Alignas(512) unsigned char bytes[512];
} wide;

CRMM_DEVICE_UVECTOR_DEFINE(int8s, int8_t)
CRMM_DEVICE_UVECTOR_DEFINE(int32s, int32_t)
CRMM_DEVICE_UVECTOR_DEFINE(uint64s, uint64_t)
CRMM_DEVICE_UVECTOR_DEFINE(floats, float)
CRMM_DEVICE_UVECTOR_DEFINE(doubles, double)
CRMM_DEVICE_UVECTOR_DEFINE(wides, wide)

static const size_t element_sizes[] = {1, 4, 8, 16, 3, 300};

#define FOR_EACH_ELEMENT_SIZE(element_size) \
    for (size_t i_ = 0, element_size; i_ < 6 && (element_size = element_sizes[i_], true); i_++)

static void expect_holds(const crmm_device_uvector *vector, size_t size, size_t capacity)
{
    cr_assert((crmm_device_uvector_data(vector) != NULL) == (capacity != 0));
    expect_equal(crmm_device_uvector_size(vector), size);
    expect_equal(crmm_device_uvector_ssize(vector), size);
    expect_equal(crmm_device_uvector_capacity(vector), capacity);
    expect_equal(crmm_device_uvector_is_empty(vector), size == 0);
}

static void expect_empty(const crmm_device_uvector *vector)
{
    expect_holds(vector, 0, 0);
    cr_assert(crmm_device_uvector_begin(vector) == NULL);
    cr_assert(crmm_device_uvector_end(vector) == NULL);
    cr_assert(crmm_device_uvector_stream(vector) == NULL);
    cr_assert(crmm_device_uvector_memory_resource(vector).resource == NULL);
}

/* ---- init ---- */

Test(device_uvector, zeroed_and_finished_vectors_are_empty)
{
    crmm_device_uvector vector = {0};

    expect_empty(&vector);
    expect_equal(crmm_device_uvector_element_size(&vector), 0);
    expect_equal(crmm_device_uvector_alignment(&vector), 256);
    crmm_device_uvector_finish(&vector);
    crmm_device_uvector_finish(&vector);
    crmm_device_uvector_finish(NULL);
    expect_empty(&vector);
    expect_success(crmm_device_uvector_resize(&vector, 0, NULL));
    expect_success(crmm_device_uvector_shrink_to_fit(&vector, NULL));
    expect_failure(crmm_device_uvector_resize(&vector, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_resize: the vector was never initialised");
    expect_failure(crmm_device_uvector_reserve(&vector, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "element size is not known");
}

Test(device_uvector, init_uses_the_current_resource_or_the_one_given)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_resource *given[] = {NULL, crmm_cuda_memory_resource(), crmm_managed_memory_resource()};
    for (int i = 0; i < 3; i++) {
        FOR_EACH_ELEMENT_SIZE(element_size)
        {
            crmm_device_uvector vector;
            expect_success(
                crmm_device_uvector_init(&vector, COUNT, element_size, stream, given[i]));
            expect_holds(&vector, COUNT, COUNT);
            expect_equal(crmm_device_uvector_element_size(&vector), element_size);
            cr_assert(crmm_device_uvector_stream(&vector) == stream);
            crmm_resource *used = crmm_device_uvector_memory_resource(&vector).resource;
            cr_assert(given[i] != NULL ? used == given[i]
                                       : crmm_resource_is_equal(used, crmm_cuda_memory_resource()));
            device_fill(vector.buffer.data, 3, COUNT * element_size);
            crmm_device_uvector_finish(&vector);
            expect_empty(&vector);
        }
    }
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, init_of_0_elements_allocates_nothing)
{
    mock_resource mock;
    crmm_device_uvector vector;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_uvector_init(&vector, 0, 4, NULL, &mock.base));
    expect_holds(&vector, 0, 0);
    expect_equal(mock.allocations, 0);
    expect_success(crmm_device_uvector_resize(&vector, 3, NULL)); /* and grows */
    expect_holds(&vector, 3, 3);
    expect_equal(mock.last_allocate.bytes, 12);
    crmm_device_uvector_finish(&vector);
    expect_equal(mock.live, 0);
}

Test(device_uvector, init_passes_size_alignment_and_stream_on)
{
    mock_resource mock;
    crmm_device_uvector vector;
    doubles typed;
    wides over_aligned;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_uvector_init_aligned(&vector, 10, 12, 4096, stream, &mock.base));
    expect_equal(mock.last_allocate.bytes, 120);
    expect_equal(mock.last_allocate.alignment, 4096);
    cr_assert(mock.last_allocate.stream == stream);
    expect_equal(crmm_device_uvector_alignment(&vector), 4096);
    crmm_device_uvector_finish(&vector);
    expect_equal(mock.last_deallocate.bytes, 120);
    expect_equal(mock.last_deallocate.alignment, 4096);
    cr_assert(mock.last_deallocate.stream == stream);
    expect_success(doubles_init(&typed, 10, stream, &mock.base));
    expect_equal(mock.last_allocate.alignment, 256);
    expect_equal(mock.last_allocate.bytes, 80);
    doubles_finish(&typed);
    expect_success(wides_init(&over_aligned, 10, stream, &mock.base));
    expect_equal(mock.last_allocate.alignment, 512);
    wides_finish(&over_aligned);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, an_over_aligned_type_is_refused_unless_there_are_0_elements)
{
    wides vector;

    need_devices(1);
    expect_failure(wides_init(&vector, 1, NULL, crmm_cuda_memory_resource()),
                   CRMM_ERROR_UNSUPPORTED, "alignment 512");
    expect_success(wides_init(&vector, 0, NULL, crmm_cuda_memory_resource()));
    wides_finish(&vector);
}

Test(device_uvector, init_refuses_bad_arguments_and_touches_nothing)
{
    mock_resource mock;
    crmm_device_uvector vector = {.element_size = 77};
    crmm_device_uvector before = vector;
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_failure(crmm_device_uvector_init(NULL, 1, 4, NULL, cuda_mr), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_init: vector is NULL");
    expect_failure(crmm_device_uvector_init(&vector, 1, 0, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "element_size is 0");
    expect_failure(crmm_device_uvector_init_aligned(&vector, 0, 4, 48, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "alignment 48 is not a power of two");
    expect_failure(crmm_device_uvector_init(&vector, 1, 4, NULL, crmm_malloc_memory_resource()),
                   CRMM_ERROR_PROPERTY, "is not device accessible");
    expect_failure(crmm_device_uvector_init_clone(&vector, NULL, NULL, cuda_mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "other is NULL");
    expect_status(crmm_device_uvector_init_clone(NULL, &vector, NULL, cuda_mr),
                  CRMM_ERROR_INVALID_ARGUMENT);
    mock.fail_with = CRMM_ERROR_LIMIT_EXCEEDED;
    expect_status(crmm_device_uvector_init(&vector, 1, 4, NULL, &mock.base),
                  CRMM_ERROR_LIMIT_EXCEEDED);
    cr_assert(same_uvector(&before, &vector));
}

Test(device_uvector, count_times_size_that_overflows_is_refused_and_nobody_asked)
{
    mock_resource mock;
    crmm_device_uvector vector;
    const size_t too_many = SIZE_MAX / 8 + 1;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_failure(crmm_device_uvector_init(&vector, too_many, 8, NULL, &mock.base),
                   CRMM_ERROR_INVALID_ARGUMENT, "2305843009213693952 elements of 8 bytes");
    expect_equal(mock.allocations, 0);
    expect_success(crmm_device_uvector_init(&vector, 5, 8, NULL, &mock.base));
    crmm_device_uvector before = vector;
    expect_failure(crmm_device_uvector_resize(&vector, too_many, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_resize: 2305843009213693952 elements");
    expect_failure(crmm_device_uvector_reserve(&vector, too_many, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "crmm_device_uvector_reserve");
    /* what size_t can say but memory cannot be */
    expect_status(crmm_device_uvector_resize(&vector, SIZE_MAX / 8, NULL),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(same_uvector(&before, &vector));
    expect_equal(mock.allocations, 1);
    crmm_device_uvector_finish(&vector);
}

Test(device_uvector, init_clone_copies_elements_not_the_capacity_or_the_resource)
{
    crmm_device_uvector other;
    crmm_device_uvector clone;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_uvector_init_aligned(&other, COUNT, 8, 128, stream,
                                                    crmm_managed_memory_resource()));
    device_fill(other.buffer.data, 0x17, (size_t)COUNT * 8);
    expect_success(crmm_device_uvector_resize(&other, 100, stream));
    expect_success(crmm_device_uvector_init_clone(&clone, &other, stream, NULL));
    cuda(cudaStreamSynchronize(stream));
    expect_holds(&clone, 100, 100);
    expect_equal(crmm_device_uvector_element_size(&clone), 8);
    expect_equal(crmm_device_uvector_alignment(&clone), 128);
    cr_assert(clone.buffer.data != other.buffer.data);
    cr_assert(device_has(clone.buffer.data, 0x17, 800));
    expect_text(crmm_resource_name(clone.buffer.resource), "cuda_memory_resource");
    crmm_device_uvector_finish(&clone);
    crmm_device_uvector_finish(&other);
    cuda(cudaStreamDestroy(stream));
}

/* ---- growing and shrinking ---- */

Test(device_uvector, resize_smaller_keeps_the_memory_until_it_is_shrunk)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    FOR_EACH_ELEMENT_SIZE(element_size)
    {
        crmm_device_uvector vector;
        expect_success(crmm_device_uvector_init(&vector, COUNT, element_size, stream, NULL));
        device_fill(vector.buffer.data, 0x31, COUNT * element_size);
        void *data = vector.buffer.data;
        expect_success(crmm_device_uvector_resize(&vector, COUNT - 1, stream));
        expect_holds(&vector, COUNT - 1, COUNT);
        cr_assert(vector.buffer.data == data);
        expect_success(crmm_device_uvector_shrink_to_fit(&vector, stream));
        expect_holds(&vector, COUNT - 1, COUNT - 1);
        cuda(cudaStreamSynchronize(stream));
        cr_assert(device_has(vector.buffer.data, 0x31, (COUNT - 1) * element_size));
        crmm_device_uvector_finish(&vector);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, resize_larger_grows_exactly_and_keeps_the_elements)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    FOR_EACH_ELEMENT_SIZE(element_size)
    {
        crmm_device_uvector vector;
        expect_success(crmm_device_uvector_init(&vector, COUNT, element_size, stream, NULL));
        device_fill(vector.buffer.data, 0x32, COUNT * element_size);
        void *data = vector.buffer.data;
        expect_success(crmm_device_uvector_resize(&vector, COUNT + 1, stream));
        expect_holds(&vector, COUNT + 1, COUNT + 1);
        cr_assert(vector.buffer.data != data);
        cuda(cudaStreamSynchronize(stream));
        cr_assert(device_has(vector.buffer.data, 0x32, COUNT * element_size));
        data = vector.buffer.data;
        expect_success(crmm_device_uvector_shrink_to_fit(&vector, stream)); /* nothing to do */
        cr_assert(vector.buffer.data == data);
        crmm_device_uvector_finish(&vector);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, resize_to_zero_keeps_the_capacity_until_it_is_shrunk)
{
    crmm_device_uvector vector;

    need_devices(1);
    expect_success(crmm_device_uvector_init(&vector, COUNT, 4, NULL, NULL));
    expect_success(crmm_device_uvector_resize(&vector, 0, NULL));
    expect_holds(&vector, 0, COUNT);
    expect_success(crmm_device_uvector_shrink_to_fit(&vector, NULL));
    expect_holds(&vector, 0, 0);
    crmm_device_uvector_finish(&vector);
}

Test(device_uvector, reserve_keeps_size_and_elements)
{
    int32s vector;
    int32_t read = 0;
    const int32_t written = 42;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(int32s_init(&vector, COUNT, stream, NULL));
    expect_success(int32s_set_element(&vector, 0, &written, stream));
    const int32_t *data = int32s_cdata(&vector);
    expect_success(int32s_reserve(&vector, (size_t)COUNT + 7, stream));
    expect_equal(int32s_size(&vector), COUNT);
    expect_equal(int32s_capacity(&vector), COUNT + 7);
    cr_assert(int32s_cdata(&vector) != data);
    expect_success(int32s_element(&vector, 0, stream, &read));
    expect_equal(read, 42);
    data = int32s_cdata(&vector);
    expect_success(int32s_reserve(&vector, 1, stream)); /* never less */
    cr_assert(int32s_cdata(&vector) == data);
    int32s_finish(&vector);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, reserved_capacity_makes_growing_amortised)
{
    mock_resource mock;
    crmm_device_uvector vector;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_uvector_init(&vector, 0, 4, NULL, &mock.base));
    expect_success(crmm_device_uvector_reserve(&vector, 1000, NULL));
    for (size_t count = 1; count <= 1000; count++) {
        expect_success(crmm_device_uvector_resize(&vector, count, NULL));
    }
    expect_equal(mock.allocations, 1);
    crmm_device_uvector_finish(&vector);
}

/* ---- moving ---- */

Test(device_uvector, release_hands_the_buffer_out_and_leaves_an_empty_vector)
{
    crmm_device_uvector vector;
    crmm_device_buffer buffer;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(crmm_device_uvector_init(&vector, COUNT, 8, stream, NULL));
    void *data = vector.buffer.data;
    crmm_device_uvector_release(&vector, &buffer);
    expect_empty(&vector);
    expect_equal(crmm_device_uvector_element_size(&vector), 8);
    cr_assert(buffer.data == data && buffer.stream == stream);
    expect_equal(buffer.size, COUNT * 8);
    expect_equal(buffer.capacity, COUNT * 8);
    crmm_device_buffer_finish(&buffer);
    expect_success(crmm_device_uvector_resize(&vector, 10, stream)); /* it may grow again */
    expect_holds(&vector, 10, 10);
    crmm_device_uvector_finish(&vector);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, move_frees_the_destination_on_its_own_stream)
{
    mock_resource mock;
    crmm_device_uvector destination;
    crmm_device_uvector source;

    need_devices(1);
    cudaStream_t streams[] = {make_stream(), make_stream()};
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_uvector_init(&destination, 64, 2, streams[0], &mock.base));
    expect_success(crmm_device_uvector_init(&source, 10, 8, streams[1], &mock.base));
    void *old = destination.buffer.data;
    void *data = source.buffer.data;
    crmm_device_uvector_move(&destination, &source);
    cr_assert(mock.last_deallocate.ptr == old && mock.last_deallocate.stream == streams[0]);
    cr_assert(destination.buffer.data == data);
    expect_equal(crmm_device_uvector_element_size(&destination), 8);
    expect_holds(&destination, 10, 10);
    expect_empty(&source);
    crmm_device_uvector_move(&destination, &destination); /* to itself */
    expect_holds(&destination, 10, 10);
    expect_success(crmm_device_uvector_resize(&source, 3, NULL)); /* moved from: may grow */
    expect_text(crmm_resource_name(source.buffer.resource), "cuda_memory_resource");
    expect_holds(&source, 3, 3);
    crmm_device_uvector_finish(&source);
    crmm_device_uvector_finish(&destination);
    expect_equal(mock.live, 0);
}

/* ---- elements ---- */

Test(device_uvector, element_ptr_points_into_the_memory)
{
    floats vector;

    need_devices(1);
    expect_success(floats_init(&vector, COUNT, NULL, NULL));
    for (size_t i = 0; i < COUNT; i++) {
        cr_assert(floats_element_ptr(&vector, i) == floats_data(&vector) + i);
    }
    misuse_recorder_start();
    expect_misuse(cr_assert(floats_element_ptr(&vector, COUNT) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_uvector_element_ptr: index 12345 in a vector of 12345 elements");
    floats_finish(&vector);
}

Test(device_uvector, an_index_past_the_end_is_out_of_range)
{
    int32s vector;
    int32_t value = 5;
    const size_t indexes[] = {COUNT, COUNT + 1, SIZE_MAX};

    need_devices(1);
    expect_success(int32s_init(&vector, COUNT, NULL, NULL));
    expect_success(int32s_reserve(&vector, (size_t)COUNT * 2, NULL)); /* capacity is no size */
    for (int i = 0; i < 3; i++) {
        expect_failure(int32s_set_element(&vector, indexes[i], &value, NULL),
                       CRMM_ERROR_OUT_OF_RANGE, "in a vector of 12345 elements");
        expect_failure(int32s_set_element_async(&vector, indexes[i], &value, NULL),
                       CRMM_ERROR_OUT_OF_RANGE, "crmm_device_uvector_set_element_async: index");
        expect_failure(int32s_set_element_to_zero_async(&vector, indexes[i], NULL),
                       CRMM_ERROR_OUT_OF_RANGE, "set_element_to_zero_async");
        expect_failure(int32s_element(&vector, indexes[i], NULL, &value), CRMM_ERROR_OUT_OF_RANGE,
                       "crmm_device_uvector_element: index");
    }
    expect_equal(value, 5);
    int32s_finish(&vector);
}

Test(device_uvector, element_functions_refuse_null)
{
    int32s vector;
    int32_t value = 5;

    need_devices(1);
    expect_success(int32s_init(&vector, 1, NULL, NULL));
    expect_failure(int32s_set_element(&vector, 0, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_set_element: value is NULL");
    expect_failure(int32s_set_element_async(&vector, 0, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "value is NULL");
    expect_failure(int32s_element(&vector, 0, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_element: value is NULL");
    expect_failure(int32s_element(NULL, 0, NULL, &value), CRMM_ERROR_INVALID_ARGUMENT,
                   "vector is NULL");
    expect_status(int32s_front_element(NULL, NULL, &value), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(int32s_back_element(NULL, NULL, &value), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(int32s_set_element(NULL, 0, &value, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(int32s_set_element_async(NULL, 0, &value, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(int32s_set_element_to_zero_async(NULL, 0, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(int32s_init(NULL, 1, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    int32s_finish(&vector);
}

/* Writes and reads a hundred elements of a type, waiting or not. */
#define EXPECT_ELEMENTS(name, type, set)                                      \
    do {                                                                      \
        name vector_;                                                         \
        type values_[100];                                                    \
        expect_success(name##_init(&vector_, COUNT, stream, NULL));           \
        for (size_t i_ = 0; i_ < 100; i_++) {                                 \
            values_[i_] = (type)i_;                                           \
            expect_success(name##_##set(&vector_, i_, &values_[i_], stream)); \
        }                                                                     \
        for (size_t i_ = 0; i_ < 100; i_++) {                                 \
            type read_ = 0;                                                   \
            expect_success(name##_element(&vector_, i_, stream, &read_));     \
            cr_assert(read_ == values_[i_], #name " %zu", i_);                \
        }                                                                     \
        name##_finish(&vector_);                                              \
    } while (0)

Test(device_uvector, elements_of_every_type_come_back_as_set)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    EXPECT_ELEMENTS(int8s, int8_t, set_element);
    EXPECT_ELEMENTS(int32s, int32_t, set_element);
    EXPECT_ELEMENTS(uint64s, uint64_t, set_element);
    EXPECT_ELEMENTS(floats, float, set_element);
    EXPECT_ELEMENTS(doubles, double, set_element);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, elements_of_every_type_come_back_as_set_without_waiting)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    EXPECT_ELEMENTS(int8s, int8_t, set_element_async);
    EXPECT_ELEMENTS(int32s, int32_t, set_element_async);
    EXPECT_ELEMENTS(uint64s, uint64_t, set_element_async);
    EXPECT_ELEMENTS(floats, float, set_element_async);
    EXPECT_ELEMENTS(doubles, double, set_element_async);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, elements_larger_than_a_small_copy_come_back_as_set)
{
    crmm_device_uvector vector;
    unsigned char written[300];
    unsigned char read[300] = {0};

    need_devices(1);
    memset(written, 0x5A, sizeof(written));
    expect_success(crmm_device_uvector_init(&vector, 3, sizeof(written), NULL, NULL));
    expect_success(crmm_device_uvector_set_element(&vector, 2, written, NULL));
    expect_success(crmm_device_uvector_back_element(&vector, NULL, read));
    cr_assert(memcmp(written, read, sizeof(read)) == 0);
    crmm_device_uvector_finish(&vector);
}

Test(device_uvector, set_element_to_zero_clears_just_that_element)
{
    uint64s vector;
    const uint64_t ones = UINT64_MAX;
    uint64_t read = 1;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(uint64s_init(&vector, 3, stream, NULL));
    for (size_t i = 0; i < 3; i++) {
        expect_success(uint64s_set_element(&vector, i, &ones, stream));
    }
    expect_success(uint64s_set_element_to_zero_async(&vector, 1, stream));
    expect_success(uint64s_element(&vector, 1, stream, &read));
    expect_equal(read, 0);
    expect_success(uint64s_front_element(&vector, stream, &read));
    expect_equal(read, ones);
    expect_success(uint64s_back_element(&vector, stream, &read));
    expect_equal(read, ones);
    uint64s_finish(&vector);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, negative_zero_is_kept)
{
    floats single_ones;
    doubles double_ones;
    const float single_zero = -0.0F;
    const double double_zero = -0.0;
    float single_read = 1;
    double double_read = 1;

    need_devices(1);
    expect_success(floats_init(&single_ones, 1, NULL, NULL));
    expect_success(doubles_init(&double_ones, 1, NULL, NULL));
    for (int wait = 0; wait < 2; wait++) {
        expect_success(wait ? floats_set_element(&single_ones, 0, &single_zero, NULL)
                            : floats_set_element_async(&single_ones, 0, &single_zero, NULL));
        expect_success(floats_element(&single_ones, 0, NULL, &single_read));
        cr_assert(single_read == 0 && signbit(single_read));
        expect_success(wait ? doubles_set_element(&double_ones, 0, &double_zero, NULL)
                            : doubles_set_element_async(&double_ones, 0, &double_zero, NULL));
        expect_success(doubles_element(&double_ones, 0, NULL, &double_read));
        cr_assert(double_read == 0 && signbit(double_read));
    }
    floats_finish(&single_ones);
    doubles_finish(&double_ones);
}

Test(device_uvector, front_and_back_are_the_first_and_last_element)
{
    int32s vector;
    const int32_t first = 42;
    const int32_t last = 13;
    int32_t read = 0;

    need_devices(1);
    expect_success(int32s_init(&vector, COUNT, NULL, NULL));
    expect_success(int32s_set_element(&vector, 0, &first, NULL));
    expect_success(int32s_set_element(&vector, COUNT - 1, &last, NULL));
    expect_success(int32s_front_element(&vector, NULL, &read));
    expect_equal(read, 42);
    expect_success(int32s_back_element(&vector, NULL, &read));
    expect_equal(read, 13);
    expect_success(int32s_resize(&vector, 0, NULL));
    expect_failure(int32s_front_element(&vector, NULL, &read), CRMM_ERROR_OUT_OF_RANGE,
                   "crmm_device_uvector_front_element: index 0 in a vector of 0 elements");
    expect_failure(int32s_back_element(&vector, NULL, &read), CRMM_ERROR_OUT_OF_RANGE,
                   "crmm_device_uvector_back_element: index 0 in a vector of 0 elements");
    expect_equal(read, 13);
    int32s_finish(&vector);
}

/* User report 35: a copy from pageable memory may be made after the call has returned. */
Test(device_uvector, set_element_waits_and_set_element_async_only_queues)
{
    gate held;
    int32s vector;
    int32_t *pinned = NULL;
    int32_t read = 0;

    need_devices(1);
    cudaStream_t stream = make_stream();
    cuda(cudaMallocHost((void **)&pinned, sizeof(*pinned)));
    expect_success(int32s_init(&vector, 2, stream, NULL));

    *pinned = 1;
    gate_close(&held, stream);
    expect_success(int32s_set_element_async(&vector, 0, pinned, stream));
    *pinned = 2; /* it is read when the stream gets there */
    gate_open(&held);
    expect_success(int32s_element(&vector, 0, stream, &read));
    expect_equal(read, 2);

    gate_close(&held, stream);
    pthread_t opener = gate_open_later(&held);
    int32_t on_the_stack = 7;
    expect_success(int32s_set_element(&vector, 1, &on_the_stack, stream));
    cr_assert(gate_is_open(&held), "set_element did not wait");
    on_the_stack = 8;
    expect_success(int32s_element(&vector, 1, stream, &read));
    expect_equal(read, 7);
    cr_assert(pthread_join(opener, NULL) == 0);
    int32s_finish(&vector);
    cuda(cudaFreeHost(pinned));
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, element_sees_what_its_stream_has_queued)
{
    gate held;
    uint64s vector;
    uint64_t read = 0;
    const uint64_t zero = 0;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(uint64s_init(&vector, 1, stream, NULL));
    expect_success(uint64s_set_element(&vector, 0, &zero, stream));
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(uint64s_data(&vector), 0xFF, 8, stream));
    pthread_t opener = gate_open_later(&held);
    expect_success(uint64s_element(&vector, 0, stream, &read));
    expect_equal(read, UINT64_MAX);
    cr_assert(pthread_join(opener, NULL) == 0);
    uint64s_finish(&vector);
    cuda(cudaStreamDestroy(stream));
}

Test(device_uvector, waiting_for_a_captured_stream_is_refused_and_the_capture_kept)
{
    int32s vector;
    const int32_t value = 5;
    int32_t read = 7;
    cudaGraph_t graph = NULL;
    enum cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    crmm_device_buffer buffer = {.size = 77};

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(int32s_init(&vector, 1, NULL, NULL));
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    expect_failure(int32s_set_element(&vector, 0, &value, stream), CRMM_ERROR_UNSUPPORTED,
                   "is being captured, and cannot be waited for");
    expect_status(int32s_element(&vector, 0, stream, &read), CRMM_ERROR_UNSUPPORTED);
    expect_failure(crmm_device_buffer_init_copy_sync(&buffer, &value, 4, stream, NULL),
                   CRMM_ERROR_UNSUPPORTED, "is being captured");
    expect_equal(read, 7);
    expect_equal(buffer.size, 77);
    cuda(cudaStreamIsCapturing(stream, &state));
    expect_equal(state, cudaStreamCaptureStatusActive);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphDestroy(graph));
    int32s_finish(&vector);
    cuda(cudaStreamDestroy(stream));
}

/* ---- pointers ---- */

Test(device_uvector, begin_and_end_enclose_the_elements)
{
    int32s vector;
    size_t forwards = 0;
    size_t backwards = 0;

    need_devices(1);
    expect_success(int32s_init(&vector, COUNT, NULL, NULL));
    cr_assert(int32s_begin(&vector) == int32s_data(&vector));
    cr_assert(int32s_end(&vector) == int32s_data(&vector) + COUNT);
    cr_assert(int32s_cbegin(&vector) == int32s_begin(&vector));
    cr_assert(int32s_cend(&vector) == int32s_end(&vector));
    for (const int32_t *at = int32s_cbegin(&vector); at != int32s_cend(&vector); at++) {
        forwards++;
    }
    for (const int32_t *at = int32s_cend(&vector); at != int32s_cbegin(&vector); at--) {
        backwards++;
    }
    expect_equal(forwards, COUNT);
    expect_equal(backwards, COUNT);
    cr_assert(crmm_device_uvector_begin(&vector.untyped) == int32s_begin(&vector));
    cr_assert(crmm_device_uvector_end(&vector.untyped) == int32s_end(&vector));
    int32s_finish(&vector);
}

/* ---- streams ---- */

static crmm_status change(crmm_device_uvector *vector, int way, crmm_stream stream)
{
    switch (way) {
    case 0:
        return crmm_device_uvector_set_stream(vector, stream);
    case 1:
        return crmm_device_uvector_reserve(vector, 1, stream);
    case 2:
        return crmm_device_uvector_resize(vector, 50, stream);
    default:
        return crmm_device_uvector_shrink_to_fit(vector, stream);
    }
}

/* User report 36: a change on another stream races with what the old one still has to do. */
Test(device_uvector, another_stream_is_ordered_after_the_stored_one)
{
    need_devices(1);
    for (int way = 0; way < 4; way++) {
        gate held;
        crmm_device_uvector vector;
        cudaStream_t old_stream = make_stream();
        cudaStream_t new_stream = make_stream();
        expect_success(crmm_device_uvector_init(&vector, 100, 4, old_stream, NULL));
        gate_close(&held, old_stream);
        expect_success(change(&vector, way, new_stream));
        cr_assert(crmm_device_uvector_stream(&vector) == new_stream);
        expect_equal(cudaStreamQuery(new_stream), cudaErrorNotReady);
        gate_open(&held);
        cuda(cudaStreamSynchronize(new_stream));
        crmm_device_uvector_finish(&vector);
        cuda(cudaStreamDestroy(old_stream));
        cuda(cudaStreamDestroy(new_stream));
    }
}

/* User report 36: the content is complete, and resource and stream are as documented. */
Test(device_uvector, growing_on_another_stream_keeps_what_the_old_one_writes)
{
    gate held;
    crmm_device_uvector vector;
    crmm_resource *mr = crmm_managed_memory_resource();

    need_devices(1);
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_uvector_init(&vector, COUNT, 4, old_stream, mr));
    gate_close(&held, old_stream);
    cuda(cudaMemsetAsync(vector.buffer.data, 0x66, (size_t)COUNT * 4, old_stream));
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_device_uvector_resize(&vector, (size_t)COUNT * 2, new_stream));
    expect_success(crmm_device_uvector_resize(&vector, COUNT, new_stream));
    expect_success(crmm_device_uvector_shrink_to_fit(&vector, new_stream));
    cuda(cudaStreamSynchronize(new_stream));
    cr_assert(pthread_join(opener, NULL) == 0);
    cr_assert(device_has(vector.buffer.data, 0x66, (size_t)COUNT * 4));
    cr_assert(crmm_device_uvector_memory_resource(&vector).resource == mr);
    cr_assert(crmm_device_uvector_stream(&vector) == new_stream);
    crmm_device_uvector_finish(&vector);
    cuda(cudaStreamDestroy(old_stream));
    cuda(cudaStreamDestroy(new_stream));
}

Test(device_uvector, set_stream_unordered_leaves_the_old_stream_alone)
{
    crmm_device_uvector vector;

    need_devices(1);
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_uvector_init(&vector, 100, 4, old_stream, NULL));
    cuda(cudaStreamDestroy(old_stream));
    crmm_device_uvector_set_stream_unordered(&vector, new_stream);
    cr_assert(crmm_device_uvector_stream(&vector) == new_stream);
    crmm_device_uvector_finish(&vector);
    cuda(cudaStreamDestroy(new_stream));
}

/* ---- misuse ---- */

#define EXPECT_NULL_VECTOR(condition, call) \
    expect_misuse(cr_assert(condition), CRMM_MISUSE_INVALID_ARGUMENT, call ": vector is NULL")

Test(device_uvector, accessors_and_void_functions_report_null)
{
    crmm_device_uvector vector = {0};
    crmm_device_buffer buffer = {.size = 77};

    misuse_recorder_start();
    expect_misuse(crmm_device_uvector_move(NULL, &vector), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_uvector_move: destination is NULL");
    expect_misuse(crmm_device_uvector_move(&vector, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_uvector_move: source is NULL");
    expect_misuse(crmm_device_uvector_release(NULL, &buffer), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_uvector_release: vector is NULL");
    expect_misuse(crmm_device_uvector_release(&vector, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_uvector_release: buffer is NULL");
    expect_equal(buffer.size, 77);
    expect_misuse(crmm_device_uvector_set_stream_unordered(NULL, NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "crmm_device_uvector_set_stream_unordered");
    EXPECT_NULL_VECTOR(crmm_device_uvector_data(NULL) == NULL, "crmm_device_uvector_data");
    EXPECT_NULL_VECTOR(crmm_device_uvector_begin(NULL) == NULL, "crmm_device_uvector_begin");
    EXPECT_NULL_VECTOR(crmm_device_uvector_end(NULL) == NULL, "crmm_device_uvector_end");
    EXPECT_NULL_VECTOR(crmm_device_uvector_size(NULL) == 0, "crmm_device_uvector_size");
    EXPECT_NULL_VECTOR(crmm_device_uvector_ssize(NULL) == 0, "crmm_device_uvector_ssize");
    EXPECT_NULL_VECTOR(crmm_device_uvector_capacity(NULL) == 0, "crmm_device_uvector_capacity");
    EXPECT_NULL_VECTOR(crmm_device_uvector_element_size(NULL) == 0,
                       "crmm_device_uvector_element_size");
    EXPECT_NULL_VECTOR(crmm_device_uvector_alignment(NULL) == 256, "crmm_device_uvector_alignment");
    EXPECT_NULL_VECTOR(crmm_device_uvector_is_empty(NULL), "crmm_device_uvector_is_empty");
    EXPECT_NULL_VECTOR(crmm_device_uvector_stream(NULL) == NULL, "crmm_device_uvector_stream");
    EXPECT_NULL_VECTOR(crmm_device_uvector_memory_resource(NULL).resource == NULL,
                       "crmm_device_uvector_memory_resource");
    EXPECT_NULL_VECTOR(crmm_device_uvector_element_ptr(NULL, 0) == NULL,
                       "crmm_device_uvector_element_ptr");
    expect_failure(crmm_device_uvector_reserve(NULL, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_reserve: vector is NULL");
    expect_failure(crmm_device_uvector_resize(NULL, 1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_resize: vector is NULL");
    expect_failure(crmm_device_uvector_shrink_to_fit(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_shrink_to_fit: vector is NULL");
    expect_failure(crmm_device_uvector_set_stream(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_uvector_set_stream: vector is NULL");
}
