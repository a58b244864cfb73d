/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/containers/device_scalar.h>

#include <math.h>
#include <stdint.h>

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

typedef struct wide {
    _Alignas(512) unsigned char bytes[512];
} wide;

CRMM_DEVICE_SCALAR_DEFINE(boolean, bool)
CRMM_DEVICE_SCALAR_DEFINE(small, int8_t)
CRMM_DEVICE_SCALAR_DEFINE(short_one, int16_t)
CRMM_DEVICE_SCALAR_DEFINE(number, int32_t)
CRMM_DEVICE_SCALAR_DEFINE(large, int64_t)
CRMM_DEVICE_SCALAR_DEFINE(single, float)
CRMM_DEVICE_SCALAR_DEFINE(real, double)
CRMM_DEVICE_SCALAR_DEFINE(wide_one, wide)

static void expect_empty(const crmm_device_scalar *scalar)
{
    cr_assert(crmm_device_scalar_data(scalar) == NULL);
    expect_equal(crmm_device_scalar_size(scalar), 0);
    cr_assert(crmm_device_scalar_stream(scalar) == NULL);
    cr_assert(crmm_device_scalar_memory_resource(scalar).resource == NULL);
}

/* ---- init ---- */

Test(device_scalar, zeroed_and_finished_scalars_are_empty_and_have_no_value)
{
    crmm_device_scalar scalar = {0};
    int value = 5;

    expect_empty(&scalar);
    expect_equal(crmm_device_scalar_element_size(&scalar), 0);
    crmm_device_scalar_finish(&scalar);
    crmm_device_scalar_finish(NULL);
    expect_failure(crmm_device_scalar_value(&scalar, NULL, &value), CRMM_ERROR_OUT_OF_RANGE,
                   "crmm_device_scalar_value: the scalar is empty");
    expect_status(crmm_device_scalar_set_value(&scalar, &value, NULL), CRMM_ERROR_OUT_OF_RANGE);
    expect_status(crmm_device_scalar_set_value_async(&scalar, &value, NULL),
                  CRMM_ERROR_OUT_OF_RANGE);
    expect_status(crmm_device_scalar_set_value_to_zero_async(&scalar, NULL),
                  CRMM_ERROR_OUT_OF_RANGE);
    expect_equal(value, 5);
}

Test(device_scalar, an_uninitialised_scalar_has_memory_and_no_copy)
{
    real scalar;
    crmm_device_scalar untyped;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(real_init_uninitialized(&scalar, stream, NULL));
    cr_assert(real_data(&scalar) != NULL);
    expect_equal(real_size(&scalar), 1);
    cr_assert(real_stream(&scalar) == stream);
    real_finish(&scalar);
    expect_empty(&scalar.untyped);
    expect_success(crmm_device_scalar_init_uninitialized(&untyped, 8, 64, stream, NULL));
    expect_equal(crmm_device_scalar_element_size(&untyped), 8);
    crmm_device_scalar_finish(&untyped);
    cuda(cudaStreamDestroy(stream));
}

/* Initial value, another one, 0, for a type. */
#define EXPECT_VALUES(name, type)                                          \
    do {                                                                   \
        name scalar_;                                                      \
        type value_ = (type)1;                                             \
        type read_ = (type)0;                                              \
        expect_success(name##_init(&scalar_, &value_, stream, NULL));      \
        cr_assert(name##_data(&scalar_) != NULL);                          \
        cr_assert(name##_cdata(&scalar_) == name##_data(&scalar_));        \
        expect_equal(name##_size(&scalar_), 1);                            \
        expect_success(name##_value(&scalar_, stream, &read_));            \
        cr_assert(read_ == (type)1, #name);                                \
        value_ = (type)77;                                                 \
        expect_success(name##_set_value(&scalar_, &value_, stream));       \
        expect_success(name##_value(&scalar_, stream, &read_));            \
        cr_assert(read_ == (type)77, #name);                               \
        expect_success(name##_set_value_to_zero_async(&scalar_, stream));  \
        expect_success(name##_value(&scalar_, stream, &read_));            \
        cr_assert(read_ == (type)0, #name);                                \
        value_ = (type)12;                                                 \
        expect_success(name##_set_value_async(&scalar_, &value_, stream)); \
        expect_success(name##_value(&scalar_, stream, &read_));            \
        cr_assert(read_ == (type)12, #name);                               \
        name##_finish(&scalar_);                                           \
    } while (0)

Test(device_scalar, values_of_every_type_come_back_as_set)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    EXPECT_VALUES(boolean, bool);
    EXPECT_VALUES(small, int8_t);
    EXPECT_VALUES(short_one, int16_t);
    EXPECT_VALUES(number, int32_t);
    EXPECT_VALUES(large, int64_t);
    EXPECT_VALUES(single, float);
    EXPECT_VALUES(real, double);
    cuda(cudaStreamDestroy(stream));
}

Test(device_scalar, negative_zero_is_kept)
{
    real scalar;
    const double zero = -0.0;
    double read = 1;

    need_devices(1);
    expect_success(real_init(&scalar, &zero, NULL, NULL));
    expect_success(real_value(&scalar, NULL, &read));
    cr_assert(read == 0 && signbit(read));
    real_finish(&scalar);
}

/* User report 35. */
Test(device_scalar, init_waits_and_init_async_only_queues)
{
    gate held;
    crmm_device_scalar scalar;
    int32_t *pinned = NULL;
    int32_t read = 0;

    need_devices(1);
    cudaStream_t stream = make_stream();
    cuda(cudaMallocHost((void **)&pinned, sizeof(*pinned)));
    *pinned = 1;
    gate_close(&held, stream);
    expect_success(crmm_device_scalar_init_async(&scalar, 4, pinned, stream, NULL));
    *pinned = 2; /* it is read when the stream gets there */
    gate_open(&held);
    expect_success(crmm_device_scalar_value(&scalar, stream, &read));
    expect_equal(read, 2);
    crmm_device_scalar_finish(&scalar);

    gate_close(&held, stream);
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_device_scalar_init(&scalar, 4, pinned, stream, NULL));
    cr_assert(gate_is_open(&held), "init did not wait");
    *pinned = 3;
    expect_success(crmm_device_scalar_value(&scalar, stream, &read));
    expect_equal(read, 2);
    cr_assert(pthread_join(opener, NULL) == 0);

    gate_close(&held, stream);
    opener = gate_open_later(&held);
    expect_success(crmm_device_scalar_set_value(&scalar, pinned, stream));
    cr_assert(gate_is_open(&held), "set_value did not wait");
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_device_scalar_finish(&scalar);
    cuda(cudaFreeHost(pinned));
    cuda(cudaStreamDestroy(stream));
}

Test(device_scalar, init_clone_is_a_deep_copy)
{
    number other;
    number clone;
    const int32_t value = 42;
    int32_t read = 0;

    need_devices(1);
    cudaStream_t stream = make_stream();
    expect_success(number_init(&other, &value, stream, crmm_managed_memory_resource()));
    expect_success(number_init_clone(&clone, &other, stream, NULL));
    cr_assert(number_data(&clone) != number_data(&other));
    expect_text(crmm_resource_name(number_memory_resource(&clone).resource),
                "cuda_memory_resource");
    number_finish(&other);
    expect_success(number_value(&clone, stream, &read));
    expect_equal(read, 42);
    number_finish(&clone);
    cuda(cudaStreamDestroy(stream));
}

Test(device_scalar, move_leaves_the_source_empty)
{
    mock_resource mock;
    crmm_device_scalar source;
    crmm_device_scalar destination;
    int value = 5;

    need_devices(1);
    cudaStream_t stream = make_stream();
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_success(crmm_device_scalar_init(&source, 4, &value, NULL, &mock.base));
    expect_success(crmm_device_scalar_init(&destination, 4, &value, stream, &mock.base));
    void *data = crmm_device_scalar_data(&source);
    crmm_device_scalar_move(&destination, &source);
    cr_assert(mock.last_deallocate.stream == stream);
    cr_assert(crmm_device_scalar_data(&destination) == data);
    expect_empty(&source);
    expect_status(crmm_device_scalar_value(&source, NULL, &value), CRMM_ERROR_OUT_OF_RANGE);
    crmm_device_scalar_move(&destination, &destination);
    expect_equal(crmm_device_scalar_size(&destination), 1);
    crmm_device_scalar_finish(&source);
    crmm_device_scalar_finish(&destination);
    expect_equal(mock.live, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(device_scalar, an_over_aligned_type_is_refused)
{
    wide_one scalar;
    crmm_device_scalar untyped;
    int value = 1;

    need_devices(1);
    expect_failure(wide_one_init_uninitialized(&scalar, NULL, crmm_cuda_memory_resource()),
                   CRMM_ERROR_UNSUPPORTED, "alignment 512");
    expect_failure(crmm_device_scalar_init_aligned(&untyped, 4, 512, &value, NULL,
                                                   crmm_cuda_memory_resource()),
                   CRMM_ERROR_UNSUPPORTED, "alignment 512");
    expect_success(
        crmm_device_scalar_init_aligned(&untyped, 4, 4, &value, NULL, crmm_cuda_memory_resource()));
    crmm_device_scalar_finish(&untyped);
}

Test(device_scalar, init_refuses_bad_arguments_and_touches_nothing)
{
    mock_resource mock;
    crmm_device_scalar scalar = {.vector = {.element_size = 77}};
    crmm_device_scalar before = scalar;
    int value = 1;

    need_devices(1);
    mock_resource_init(&mock, DEVICE_ASYNC);
    expect_failure(crmm_device_scalar_init(NULL, 4, &value, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "crmm_device_scalar_init: scalar is NULL");
    expect_failure(crmm_device_scalar_init(&scalar, 4, NULL, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "crmm_device_scalar_init: value is NULL");
    expect_failure(crmm_device_scalar_init_async(&scalar, 4, NULL, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "crmm_device_scalar_init_async: value is NULL");
    expect_failure(crmm_device_scalar_init(&scalar, 0, &value, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "element_size is 0");
    expect_failure(crmm_device_scalar_init_aligned(&scalar, 4, 3, &value, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "alignment 3 is not a power of two");
    expect_failure(crmm_device_scalar_init_uninitialized(NULL, 4, 4, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "scalar is NULL");
    expect_failure(crmm_device_scalar_init_clone(&scalar, NULL, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "other is NULL");
    expect_status(crmm_device_scalar_init_clone(NULL, &scalar, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_device_scalar_init(&scalar, 4, &value, NULL, crmm_malloc_memory_resource()),
                  CRMM_ERROR_PROPERTY);
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_status(crmm_device_scalar_init(&scalar, 4, &value, NULL, &mock.base),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(same_scalar(&before, &scalar));
    expect_equal(mock.live, 0);
}

/* ---- the value ---- */

Test(device_scalar, value_functions_refuse_null)
{
    crmm_device_scalar scalar;
    int value = 1;

    need_devices(1);
    expect_success(crmm_device_scalar_init(&scalar, 4, &value, NULL, NULL));
    expect_failure(crmm_device_scalar_value(&scalar, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_scalar_value: value is NULL");
    expect_failure(crmm_device_scalar_set_value(&scalar, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_scalar_set_value: value is NULL");
    expect_failure(crmm_device_scalar_set_value_async(&scalar, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "value is NULL");
    expect_failure(crmm_device_scalar_value(NULL, NULL, &value), CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_device_scalar_value: scalar is NULL");
    expect_status(crmm_device_scalar_set_value(NULL, &value, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_device_scalar_set_value_async(NULL, &value, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_device_scalar_set_value_to_zero_async(NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_device_scalar_set_stream(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    crmm_device_scalar_finish(&scalar);
}

/* ---- streams ---- */

/* User report 36. */
Test(device_scalar, set_stream_orders_the_new_stream_after_the_old_one)
{
    gate held;
    crmm_device_scalar scalar;
    int value = 1;

    need_devices(1);
    cudaStream_t old_stream = make_stream();
    cudaStream_t new_stream = make_stream();
    expect_success(crmm_device_scalar_init(&scalar, 4, &value, old_stream, NULL));
    gate_close(&held, old_stream);
    expect_success(crmm_device_scalar_set_stream(&scalar, new_stream));
    cr_assert(crmm_device_scalar_stream(&scalar) == new_stream);
    expect_equal(cudaStreamQuery(new_stream), cudaErrorNotReady);
    gate_open(&held);
    cuda(cudaStreamSynchronize(new_stream));
    cuda(cudaStreamDestroy(old_stream));
    crmm_device_scalar_set_stream_unordered(&scalar, NULL);
    cr_assert(crmm_device_scalar_stream(&scalar) == NULL);
    crmm_device_scalar_finish(&scalar);
    cuda(cudaStreamDestroy(new_stream));
}

/* ---- misuse ---- */

#define EXPECT_NULL_SCALAR(condition, call) \
    expect_misuse(cr_assert(condition), CRMM_MISUSE_INVALID_ARGUMENT, call ": scalar is NULL")

Test(device_scalar, accessors_and_void_functions_report_null)
{
    crmm_device_scalar scalar = {0};

    misuse_recorder_start();
    expect_misuse(crmm_device_scalar_move(NULL, &scalar), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_scalar_move: destination is NULL");
    expect_misuse(crmm_device_scalar_move(&scalar, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_scalar_move: source is NULL");
    expect_misuse(crmm_device_scalar_set_stream_unordered(NULL, NULL), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_device_scalar_set_stream_unordered: scalar is NULL");
    EXPECT_NULL_SCALAR(crmm_device_scalar_data(NULL) == NULL, "crmm_device_scalar_data");
    EXPECT_NULL_SCALAR(crmm_device_scalar_size(NULL) == 0, "crmm_device_scalar_size");
    EXPECT_NULL_SCALAR(crmm_device_scalar_element_size(NULL) == 0,
                       "crmm_device_scalar_element_size");
    EXPECT_NULL_SCALAR(crmm_device_scalar_stream(NULL) == NULL, "crmm_device_scalar_stream");
    EXPECT_NULL_SCALAR(crmm_device_scalar_memory_resource(NULL).resource == NULL,
                       "crmm_device_scalar_memory_resource");
}
