/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every CUDA call of every container function fails once: the container is as it was, or the call
 * has done all that it should, and no memory is lost.
 */
#include <crmm/containers/device_buffer.h>
#include <crmm/containers/device_scalar.h>
#include <crmm/containers/device_uvector.h>
#include <crmm/containers/polymorphic_allocator.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "same_container.h"

/* What one attempt has to work with, new for each. */
typedef struct fixture {
    crmm_device_uvector vector; /* 10 elements of 8 bytes, capacity 20, all bytes 0x11 */
    crmm_device_scalar scalar;  /* 8 bytes 0x11 */
    crmm_device_buffer made_buffer;
    crmm_device_uvector made_vector;
    crmm_device_scalar made_scalar;
    uint64_t value;
    crmm_stream other_stream;   /* of device 0 */
    crmm_stream current_stream; /* of the current device */
} fixture;

typedef crmm_status (*attempt)(fixture *f);

static const uint64_t ones = 0x1111111111111111;
static const uint64_t twos = 0x2222222222222222;

static void set_up(fixture *f, const crmm_stream streams[2], int current)
{
    memset(f, 0, sizeof(*f));
    f->other_stream = streams[0];
    f->current_stream = streams[current];
    expect_success(crmm_device_uvector_init(&f->vector, 20, 8, NULL, NULL));
    device_fill(f->vector.buffer.data, 0x11, 160);
    expect_success(crmm_device_uvector_resize(&f->vector, 10, NULL));
    expect_success(crmm_device_scalar_init(&f->scalar, 8, &ones, NULL, NULL));
    cuda(cudaDeviceSynchronize());
}

static bool same_fixture(const fixture *a, const fixture *b)
{
    return same_uvector(&a->vector, &b->vector) && same_scalar(&a->scalar, &b->scalar) &&
           same_buffer(&a->made_buffer, &b->made_buffer) &&
           same_uvector(&a->made_vector, &b->made_vector) &&
           same_scalar(&a->made_scalar, &b->made_scalar) && a->value == b->value &&
           a->other_stream == b->other_stream && a->current_stream == b->current_stream;
}

static void tear_down(fixture *f)
{
    crmm_device_uvector_finish(&f->vector);
    crmm_device_uvector_finish(&f->made_vector);
    crmm_device_scalar_finish(&f->scalar);
    crmm_device_scalar_finish(&f->made_scalar);
    crmm_device_buffer_finish(&f->made_buffer);
}

/* ---- what is attempted ---- */

static crmm_status buffer_init(fixture *f)
{
    return crmm_device_buffer_init(&f->made_buffer, 100, NULL, NULL);
}

static crmm_status buffer_init_copy(fixture *f)
{
    return crmm_device_buffer_init_copy(&f->made_buffer, &ones, 8, NULL, NULL);
}

static crmm_status buffer_init_copy_sync(fixture *f)
{
    return crmm_device_buffer_init_copy_sync(&f->made_buffer, &ones, 8, NULL, NULL);
}

static crmm_status buffer_init_clone(fixture *f)
{
    return crmm_device_buffer_init_clone(&f->made_buffer, &f->vector.buffer, NULL, NULL);
}

static crmm_status buffer_grow_empty(fixture *f)
{
    return crmm_device_buffer_resize(&f->made_buffer, 100, f->current_stream);
}

static crmm_status vector_init(fixture *f)
{
    return crmm_device_uvector_init(&f->made_vector, 10, 8, f->current_stream, NULL);
}

static crmm_status vector_init_clone(fixture *f)
{
    return crmm_device_uvector_init_clone(&f->made_vector, &f->vector, NULL, NULL);
}

static crmm_status vector_resize(fixture *f)
{
    return crmm_device_uvector_resize(&f->vector, 30, f->other_stream);
}

static crmm_status vector_reserve(fixture *f)
{
    return crmm_device_uvector_reserve(&f->vector, 30, f->other_stream);
}

static crmm_status vector_shrink_to_fit(fixture *f)
{
    return crmm_device_uvector_shrink_to_fit(&f->vector, f->other_stream);
}

static crmm_status vector_set_stream(fixture *f)
{
    return crmm_device_uvector_set_stream(&f->vector, f->other_stream);
}

static crmm_status vector_set_element(fixture *f)
{
    return crmm_device_uvector_set_element(&f->vector, 3, &ones, NULL);
}

static crmm_status vector_set_element_async(fixture *f)
{
    return crmm_device_uvector_set_element_async(&f->vector, 3, &ones, NULL);
}

static crmm_status vector_set_element_to_zero(fixture *f)
{
    /* Past the size, so that the bytes are as they were whether or not it works. */
    crmm_status status = crmm_device_uvector_resize(&f->vector, 11, NULL);
    if (status == CRMM_SUCCESS) {
        status = crmm_device_uvector_set_element_to_zero_async(&f->vector, 10, NULL);
        f->vector.buffer.size = 80;
    }
    return status;
}

static crmm_status vector_element(fixture *f)
{
    return crmm_device_uvector_element(&f->vector, 3, NULL, &f->value);
}

static crmm_status vector_back_element(fixture *f)
{
    return crmm_device_uvector_back_element(&f->vector, NULL, &f->value);
}

static crmm_status scalar_init(fixture *f)
{
    return crmm_device_scalar_init(&f->made_scalar, 8, &ones, f->current_stream, NULL);
}

static crmm_status scalar_init_async(fixture *f)
{
    return crmm_device_scalar_init_async(&f->made_scalar, 8, &ones, f->current_stream, NULL);
}

static crmm_status scalar_init_uninitialized(fixture *f)
{
    return crmm_device_scalar_init_uninitialized(&f->made_scalar, 8, 8, NULL, NULL);
}

static crmm_status scalar_init_clone(fixture *f)
{
    return crmm_device_scalar_init_clone(&f->made_scalar, &f->scalar, NULL, NULL);
}

static crmm_status scalar_value(fixture *f)
{
    return crmm_device_scalar_value(&f->scalar, NULL, &f->value);
}

static crmm_status scalar_set_value(fixture *f)
{
    return crmm_device_scalar_set_value(&f->scalar, &ones, NULL);
}

static crmm_status scalar_set_stream(fixture *f)
{
    return crmm_device_scalar_set_stream(&f->scalar, f->other_stream);
}

static crmm_status allocator_allocate(fixture *f)
{
    crmm_polymorphic_allocator allocator = {0};
    void *ptr = NULL;

    (void)f;
    crmm_status status = crmm_polymorphic_allocator_init(&allocator, 8, NULL);
    if (status == CRMM_SUCCESS) {
        status = crmm_polymorphic_allocator_allocate(&allocator, 10, NULL, &ptr);
    }
    if (status == CRMM_SUCCESS) {
        /* What a free that fails leaves is reported, and tested elsewhere. */
        cudart_emulated_clear_faults();
        crmm_polymorphic_allocator_deallocate(&allocator, ptr, 10, NULL);
    }
    crmm_polymorphic_allocator_finish(&allocator);
    return status;
}

static const struct {
    const char *name;
    attempt attempt;
} attempts[] = {
    {"buffer_init", buffer_init},
    {"buffer_init_copy", buffer_init_copy},
    {"buffer_init_copy_sync", buffer_init_copy_sync},
    {"buffer_init_clone", buffer_init_clone},
    {"buffer_grow_empty", buffer_grow_empty},
    {"vector_init", vector_init},
    {"vector_init_clone", vector_init_clone},
    {"vector_resize", vector_resize},
    {"vector_reserve", vector_reserve},
    {"vector_shrink_to_fit", vector_shrink_to_fit},
    {"vector_set_stream", vector_set_stream},
    {"vector_set_element", vector_set_element},
    {"vector_set_element_async", vector_set_element_async},
    {"vector_set_element_to_zero", vector_set_element_to_zero},
    {"vector_element", vector_element},
    {"vector_back_element", vector_back_element},
    {"scalar_init", scalar_init},
    {"scalar_init_async", scalar_init_async},
    {"scalar_init_uninitialized", scalar_init_uninitialized},
    {"scalar_init_clone", scalar_init_clone},
    {"scalar_value", scalar_value},
    {"scalar_set_value", scalar_set_value},
    {"scalar_set_stream", scalar_set_stream},
    {"allocator_allocate", allocator_allocate},
};

/* On both devices. */
static size_t allocated(void)
{
    size_t sum = 0;

    for (int device = 0; device < 2; device++) {
        struct cudart_emulated_usage usage;
        cr_assert(cudart_emulated_usage(device, &usage) == 0);
        sum += usage.allocated;
    }
    return sum;
}

/* ---- every position ---- */

/* Leaves device 0 current, which may not be so: switching back may be the call that failed. */
static void synchronise_both(void)
{
    for (int device = 1; device >= 0; device--) {
        cuda(cudaSetDevice(device));
        cuda(cudaDeviceSynchronize());
    }
}

/* One attempt in which the call number `position` fails; false where there was no such call. */
static bool fail_at(size_t which, unsigned long long position, cudaError_t error, int current,
                    const crmm_stream streams[2])
{
    const char *name = attempts[which].name;
    fixture f;
    set_up(&f, streams, current);
    fixture before = f;
    size_t held = allocated();
    size_t findings = misuse_recorded()->count;

    cuda(cudaSetDevice(current)); /* the containers are on device 0 */
    unsigned long long calls = cudart_emulated_calls(NULL);
    cudart_emulated_fail(NULL, position, 1, error);
    crmm_status status = attempts[which].attempt(&f);
    calls = cudart_emulated_calls(NULL) - calls;
    cudart_emulated_clear_faults();
    synchronise_both();
    if (status != CRMM_SUCCESS) {
        cr_assert(crmm_last_error()->status == status, "%s at %llu", name, position);
        cr_assert(crmm_last_error()->native_code == (int)error, "%s at %llu", name, position);
        cr_assert(same_fixture(&before, &f), "%s at %llu changed something: %s", name, position,
                  crmm_last_error()->message);
        cr_assert(allocated() == held, "%s at %llu lost memory: %s", name, position,
                  crmm_last_error()->message);
    }
    cr_assert(cudaGetLastError() == cudaSuccess, "%s at %llu left an error", name, position);
    /* The elements are there either way. A free that failed is a finding, and its memory is left.
     */
    cr_assert(device_has(f.vector.buffer.data, 0x11, 80), "%s at %llu", name, position);
    cr_assert(device_has(crmm_device_scalar_data(&f.scalar), 0x11, 8), "%s at %llu", name,
              position);
    cr_assert(f.value == 0 || f.value == ones, "%s at %llu read something else", name, position);
    bool has_left_memory = misuse_recorded()->count > findings;
    tear_down(&f);
    if (!has_left_memory) {
        cr_assert(allocated() == 0, "%s at %llu leaks %zu bytes", name, position, allocated());
    }
    cr_assert(cudart_emulated_violations() == 0, "%s at %llu: %s", name, position,
              cudart_emulated_violation(0));
    return calls >= position;
}

/* A new process with two devices, a stream on each, and device 0 current. */
static void start_anew(crmm_stream streams[2])
{
    cudart_emulated_reset();
    cr_assert(cudart_emulated_set_devices(2) == 0);
    cuda(cudaSetDevice(1));
    streams[1] = make_stream();
    cuda(cudaSetDevice(0));
    streams[0] = make_stream();
}

static void fail_everywhere(size_t which, cudaError_t error, int current)
{
    unsigned long long position = 1;
    crmm_stream streams[2];

    start_anew(streams);
    while (fail_at(which, position, error, current, streams)) {
        position++;
        if (allocated() != 0) { /* left by a free that failed */
            start_anew(streams);
        }
    }
    cr_assert(position > 1, "%s makes no call", attempts[which].name);
}

Test(emulation_containers, a_failing_call_at_any_position_changes_and_loses_nothing)
{
    misuse_recorder_start();
    for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
        for (int current = 0; current < 2; current++) {
            fail_everywhere(i, cudaErrorIllegalAddress, current);
            fail_everywhere(i, cudaErrorMemoryAllocation, current);
        }
    }
}

Test(emulation_containers, a_wait_that_fails_leaves_the_variable_alone)
{
    crmm_device_uvector vector;
    uint64_t value = twos;

    expect_success(crmm_device_uvector_init(&vector, 1, 8, NULL, NULL));
    expect_success(crmm_device_uvector_set_element(&vector, 0, &ones, NULL));
    cudart_emulated_fail("cudaStreamSynchronize", 1, 1, cudaErrorIllegalAddress);
    expect_failure(crmm_device_uvector_element(&vector, 0, NULL, &value), CRMM_ERROR_CUDA,
                   "cudaStreamSynchronize failed: cudaErrorIllegalAddress");
    expect_equal(value, twos);
    expect_success(crmm_device_uvector_element(&vector, 0, NULL, &value));
    expect_equal(value, ones);
    crmm_device_uvector_finish(&vector);
    expect_equal(cudart_emulated_violations(), 0);
}

Test(emulation_containers, element_accesses_that_fail_say_which_call)
{
    crmm_device_uvector vector;

    expect_success(crmm_device_uvector_init(&vector, 1, 8, NULL, NULL));
    cudart_emulated_fail("cudaMemcpyAsync", 1, 0, cudaErrorIllegalAddress);
    cudart_emulated_fail("cudaMemsetAsync", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_device_uvector_set_element(&vector, 0, &ones, NULL), CRMM_ERROR_CUDA,
                   "cudaMemcpyAsync failed");
    expect_failure(crmm_device_uvector_set_element_to_zero_async(&vector, 0, NULL), CRMM_ERROR_CUDA,
                   "cudaMemsetAsync failed");
    cudart_emulated_clear_faults();
    crmm_device_uvector_finish(&vector);
}

/* User report 35: the emulation reads pageable memory at the call and writes late, or the other way
 * round, as the seed says; the form that waits never sees what is written to the source later. */
Test(emulation_containers, what_waits_for_its_copy_never_sees_the_source_again)
{
    for (unsigned long long seed = 0; seed < 20; seed++) {
        crmm_device_scalar scalar;
        crmm_device_buffer buffer;
        uint64_t read = 0;
        uint64_t source = ones;
        cudart_emulated_reset();
        cudart_emulated_set_seed(seed);
        expect_success(crmm_device_scalar_init(&scalar, 8, &source, NULL, NULL));
        expect_success(crmm_device_buffer_init_copy_sync(&buffer, &source, 8, NULL, NULL));
        source = twos;
        expect_success(crmm_device_scalar_value(&scalar, NULL, &read));
        expect_equal(read, ones);
        cr_assert(device_has(buffer.data, 0x11, 8));
        expect_success(crmm_device_scalar_set_value(&scalar, &source, NULL));
        source = 0;
        expect_success(crmm_device_scalar_value(&scalar, NULL, &read));
        expect_equal(read, twos);
        crmm_device_scalar_finish(&scalar);
        crmm_device_buffer_finish(&buffer);
        expect_equal(cudart_emulated_violations(), 0);
    }
}

Test(emulation_containers, what_needs_no_memory_makes_no_call_that_could_fail)
{
    crmm_device_uvector vector = {0};
    crmm_device_scalar scalar = {0};
    crmm_polymorphic_allocator allocator = {0};
    uint64_t value = 0;

    crmm_device_uvector_finish(&vector);
    crmm_device_scalar_finish(&scalar);
    crmm_polymorphic_allocator_finish(&allocator);
    expect_success(crmm_device_uvector_set_stream(&vector, CRMM_STREAM_PER_THREAD));
    expect_success(crmm_device_uvector_resize(&vector, 0, NULL));
    expect_status(crmm_device_uvector_element(&vector, 0, NULL, &value), CRMM_ERROR_OUT_OF_RANGE);
    expect_equal(cudart_emulated_calls(NULL), 0);
}
