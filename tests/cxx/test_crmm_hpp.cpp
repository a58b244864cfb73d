// SPDX-License-Identifier: Apache-2.0
#include <crmm/crmm.hpp>

#include <cstring>
#include <string>
#include <vector>

#include <crmm/core/misuse.h>
#include <crmm/device/cuda_device.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "expect.hpp"

namespace
{

struct point {
    point() = delete; // elements need no default constructor
    point(float x_, float y_) : x(x_), y(y_)
    {
    }
    float x;
    float y;
};

struct alignas(512) wide {
    char bytes[512];
};

crmm_status fail(crmm_status status)
{
    return crmm_set_last_error(status, 7, "told to fail");
}

void statuses_are_thrown_as_their_exceptions()
{
    crmm::check(CRMM_SUCCESS);
    expect_throw(crmm::check(fail(CRMM_ERROR_INVALID_ARGUMENT)), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "told to fail");
    expect_throw(crmm::check(fail(CRMM_ERROR_LOGIC)), crmm::logic_error, CRMM_ERROR_LOGIC, "told");
    expect_throw(crmm::check(fail(CRMM_ERROR_OUT_OF_RANGE)), crmm::out_of_range,
                 CRMM_ERROR_OUT_OF_RANGE, "told");
    expect_throw(crmm::check(fail(CRMM_ERROR_BAD_ALLOC)), crmm::bad_alloc, CRMM_ERROR_BAD_ALLOC,
                 "told");
    expect_throw(crmm::check(fail(CRMM_ERROR_OUT_OF_MEMORY)), crmm::out_of_memory,
                 CRMM_ERROR_OUT_OF_MEMORY, "told");
    expect_throw(crmm::check(fail(CRMM_ERROR_LIMIT_EXCEEDED)), crmm::limit_exceeded,
                 CRMM_ERROR_LIMIT_EXCEEDED, "told");
    expect_throw(crmm::check(fail(CRMM_ERROR_CUDA)), crmm::cuda_error, CRMM_ERROR_CUDA, "told");
    const crmm_status others[] = {CRMM_ERROR_PROPERTY, CRMM_ERROR_UNSUPPORTED, CRMM_ERROR_FORKED,
                                  CRMM_ERROR_IO};
    for (crmm_status status : others) {
        expect_throw(crmm::check(fail(status)), crmm::error, status, "told");
    }
    // A status that left no record is thrown all the same.
    expect_throw(crmm::check(CRMM_ERROR_IO), crmm::error, CRMM_ERROR_IO, "");
}

void exceptions_are_standard_ones_too()
{
    bool caught = false;
    try {
        crmm::check(fail(CRMM_ERROR_LIMIT_EXCEEDED));
    } catch (const std::bad_alloc &e) {
        caught = std::strcmp(e.what(), "told to fail") == 0;
    }
    expect(caught);
    caught = false;
    try {
        crmm::check(fail(CRMM_ERROR_CUDA));
    } catch (const crmm::failure &e) {
        caught = e.native_code() == 7 && e.requested_bytes() == 0;
    }
    expect(caught);
    static_assert(std::is_base_of_v<std::out_of_range, crmm::out_of_range>);
    static_assert(std::is_base_of_v<std::invalid_argument, crmm::invalid_argument>);
    static_assert(std::is_base_of_v<std::logic_error, crmm::logic_error>);
    static_assert(std::is_base_of_v<std::runtime_error, crmm::cuda_error>);
    static_assert(std::is_nothrow_copy_constructible_v<crmm::bad_alloc>);
}

void resources_are_shared_and_compared()
{
    const crmm::resource none;
    expect(!none && none.get() == nullptr && none == crmm::resource());
    crmm::resource heap = crmm::resource::share(crmm_malloc_memory_resource());
    expect(heap && heap.has(CRMM_HOST_ACCESSIBLE) && !heap.is_adaptor() && !heap.upstream());
    expect(heap.device() == -1 && std::string(heap.name()) == "malloc_memory_resource");
    expect(heap.describe().find("malloc") != std::string::npos);
    void *block = heap.allocate_sync(100);
    heap.deallocate_sync(block, 100);
    expect_throw(heap.allocate(nullptr, 1), crmm::error, CRMM_ERROR_PROPERTY, "stream");
    crmm::resource copy = heap;
    expect(copy == heap && copy != crmm::resource::share(crmm_managed_memory_resource()));
    const crmm::resource moved = std::move(copy);
    expect(moved == heap && moved.properties() == heap.properties());
    const crmm::resource &itself = heap;
    heap = itself;
    expect(heap == moved);
    expect(heap.trim() == 0);
}

void the_table_hands_out_references()
{
    const crmm::resource managed = crmm::resource::share(crmm_managed_memory_resource());
    const crmm::resource before = crmm::set_current_device_resource(managed);
    expect(crmm::current_device_resource() == managed);
    expect(crmm::set_current_device_resource({}) == managed);
    expect(crmm::current_device_resource() == before && crmm::per_device_resource(0) == before);
    expect_throw(crmm::per_device_resource(4711), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "4711");
    expect(crmm::set_per_device_resource(0, {}) == before);
}

void buffers_move_grow_and_end()
{
    const char text[] = "hello";
    crmm::device_buffer empty;
    expect(empty.is_empty() && empty.data() == nullptr && empty.alignment() == 256);
    crmm::device_buffer buffer(10, nullptr);
    expect(buffer.size() == 10 && buffer.ssize() == 10 && buffer.capacity() == 10);
    buffer.resize(20, nullptr);
    buffer.reserve(30, nullptr);
    expect(buffer.size() == 20 && buffer.capacity() == 30);
    buffer.shrink_to_fit(nullptr);
    buffer.set_stream(CRMM_STREAM_PER_THREAD);
    buffer.set_stream_unordered(nullptr);
    expect(buffer.capacity() == 20 && buffer.stream() == nullptr);
    const void *data = buffer.data();
    empty = std::move(buffer);
    expect(empty.data() == data && buffer.is_empty()); // NOLINT: a moved-from one is empty
    crmm::device_buffer constructed(std::move(empty));
    expect(constructed.data() == data);
    crmm::device_buffer copied = crmm::device_buffer::copy_sync(text, sizeof(text), nullptr);
    const crmm::device_buffer clone = copied.clone(nullptr);
    expect(clone.size() == sizeof(text) && clone.data() != copied.data());
    expect(clone.memory_resource() == crmm::current_device_resource());
    const crmm::device_buffer queued(text, sizeof(text), nullptr,
                                     crmm::resource::share(crmm_managed_memory_resource()), 64);
    expect(queued.alignment() == 64 && queued.get()->size == sizeof(text));
    expect_throw(crmm::device_buffer(nullptr, 1, nullptr), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "source is NULL");
    expect_throw(crmm::device_buffer(SIZE_MAX, nullptr), crmm::out_of_memory,
                 CRMM_ERROR_OUT_OF_MEMORY, "more than can exist");
}

void vectors_hold_elements()
{
    crmm::device_uvector<point> points(3, nullptr);
    const point written(1.5F, -0.0F);
    points.set_element(1, written, nullptr);
    const point read = points.element(1, nullptr);
    expect(read.x == 1.5F && std::memcmp(&read.y, &written.y, sizeof(float)) == 0);
    points.set_element_async(0, written, nullptr);
    expect(points.front_element(nullptr).x == 1.5F);
    points.set_element_to_zero_async(2, nullptr);
    expect(points.back_element(nullptr).x == 0.0F);
    expect(points.end() - points.begin() == 3 && points.cend() - points.cbegin() == 3);
    expect(points.element_ptr(2) == points.data() + 2);
    expect_throw(points.element(3, nullptr), crmm::out_of_range, CRMM_ERROR_OUT_OF_RANGE,
                 "index 3 in a vector of 3 elements");
    points.resize(5, nullptr);
    points.reserve(9, nullptr);
    expect(points.size() == 5 && points.ssize() == 5 && points.capacity() == 9);
    points.shrink_to_fit(nullptr);
    expect(points.capacity() == 5 && !points.is_empty());
    points.set_stream(CRMM_STREAM_PER_THREAD);
    points.set_stream_unordered(nullptr);
    const crmm::device_uvector<point> clone = points.clone(nullptr);
    expect(clone.element(1, nullptr).x == 1.5F && clone.data() != points.data());
    crmm::device_uvector<point> moved(std::move(points));
    expect(moved.size() == 5 && points.is_empty()); // NOLINT: a moved-from one is empty
    points.resize(1, nullptr);                      // and may grow
    points = std::move(moved);
    expect(points.size() == 5 && points.stream() == nullptr);
    const crmm::device_buffer released = points.release();
    expect(released.size() == 5 * sizeof(point) && points.is_empty());
    expect(points.get()->element_size == sizeof(point));
    expect_throw(crmm::device_uvector<wide>(1, nullptr), crmm::error, CRMM_ERROR_UNSUPPORTED,
                 "alignment 512");
    expect_throw(crmm::device_uvector<int>(SIZE_MAX, nullptr), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "elements of 4 bytes");
}

void scalars_hold_a_value()
{
    crmm::device_scalar<double> number(1.25, nullptr);
    expect(number.value(nullptr) == 1.25 && number.size() == 1 && number.data() != nullptr);
    number.set_value(2.5, nullptr);
    const crmm::device_scalar<double> clone = number.clone(nullptr);
    expect(clone.value(nullptr) == 2.5);
    const double value = 5;
    number.set_value_async(value, nullptr);
    expect(number.value(nullptr) == 5);
    number.set_value_to_zero_async(nullptr);
    expect(number.value(nullptr) == 0);
    crmm::device_scalar<double> moved(std::move(number));
    expect_throw(number.value(nullptr), crmm::out_of_range, CRMM_ERROR_OUT_OF_RANGE, "is empty");
    number = std::move(moved);
    number.set_stream(CRMM_STREAM_PER_THREAD);
    number.set_stream_unordered(nullptr);
    expect(number.stream() == nullptr && number.get()->vector.element_size == sizeof(double));
    expect(number.memory_resource() == crmm::current_device_resource());
    const crmm::device_scalar<point> uninitialised(nullptr);
    expect(uninitialised.data() != nullptr);
}

void allocators_share_their_resource()
{
    const crmm::polymorphic_allocator<int> ints;
    int *block = ints.allocate(1000, nullptr);
    expect(block != nullptr);
    ints.deallocate(block, 1000, nullptr);
    crmm::polymorphic_allocator<double> doubles(ints);
    expect(doubles == ints && doubles.upstream() == crmm::current_device_resource());
    doubles =
        crmm::polymorphic_allocator<double>(crmm::resource::share(crmm_managed_memory_resource()));
    expect(doubles != ints);
    const crmm::polymorphic_allocator<double> &itself = doubles;
    doubles = itself;
    expect(doubles.upstream() == crmm::resource::share(crmm_managed_memory_resource()));
    expect_throw(ints.allocate(SIZE_MAX, nullptr), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "elements of 4 bytes");

    // Managed memory, so that a container of the host's may use it.
    const crmm::stream_allocator_adaptor<double> adaptor(doubles, nullptr);
    std::vector<double, crmm::stream_allocator_adaptor<double>> numbers(adaptor);
    numbers.push_back(1);
    numbers.push_back(2);
    expect(numbers[1] == 2 && numbers.get_allocator() == adaptor);
    const crmm::stream_allocator_adaptor<char> rebound(adaptor);
    expect(rebound == adaptor && rebound.stream() == adaptor.stream());
    expect(!(rebound != adaptor) && rebound.underlying_allocator() == doubles);
}

} // namespace

int main()
{
    need_device();
    statuses_are_thrown_as_their_exceptions();
    exceptions_are_standard_ones_too();
    resources_are_shared_and_compared();
    the_table_hands_out_references();
    buffers_move_grow_and_end();
    vectors_hold_elements();
    scalars_hold_a_value();
    allocators_share_their_resource();
    expect(crmm_misuse_count() == 0);
    return 0;
}
