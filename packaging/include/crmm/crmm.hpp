// SPDX-License-Identifier: Apache-2.0
#ifndef CRMM_CRMM_HPP
#define CRMM_CRMM_HPP

/*
 * crmm for C++17: owning handles and exceptions over the C interface. Header only; includes no CUDA
 * header.
 *
 * What the functions do, their arguments, streams and threads are described in the C headers, under
 * the same names; a failure that C returns is thrown here. What a function throws leaves everything
 * as it was. Destructors and the functions declared noexcept never throw: what they cannot do is
 * reported as misuse.
 */

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <crmm/containers/device_buffer.h>
#include <crmm/containers/device_scalar.h>
#include <crmm/containers/device_uvector.h>
#include <crmm/containers/polymorphic_allocator.h>
#include <crmm/containers/stream_allocator_adaptor.h>
#include <crmm/core/alignment.h>
#include <crmm/core/error.h>
#include <crmm/core/resource.h>
#include <crmm/core/stream.h>
#include <crmm/device/per_device_resource.h>

namespace crmm
{

// ---- exceptions ----

/// What every exception of this header knows about the failure. No exception itself: the classes
/// below have a standard exception as their other base.
class failure
{
  public:
    explicit failure(const crmm_error &record) noexcept : record_(record)
    {
    }
    failure(const failure &) noexcept = default;
    failure &operator=(const failure &) noexcept = default;
    virtual ~failure() = default;

    /// What the C function returned.
    crmm_status status() const noexcept
    {
        return record_.status;
    }
    /// The cudaError_t or errno behind it, or 0.
    int native_code() const noexcept
    {
        return record_.native_code;
    }
    /// Bytes asked for, where an allocation failed.
    std::size_t requested_bytes() const noexcept
    {
        return record_.requested_bytes;
    }
    /// The whole record.
    const crmm_error &record() const noexcept
    {
        return record_;
    }

  private:
    crmm_error record_;
};

/// CRMM_ERROR_PROPERTY, UNSUPPORTED, FORKED, IO, and base of cuda_error.
class error : public std::runtime_error, public failure
{
  public:
    explicit error(const crmm_error &record) : std::runtime_error(record.message), failure(record)
    {
    }
};

/// CRMM_ERROR_CUDA
class cuda_error : public error
{
  public:
    using error::error;
};

/// CRMM_ERROR_INVALID_ARGUMENT
class invalid_argument : public std::invalid_argument, public failure
{
  public:
    explicit invalid_argument(const crmm_error &record)
        : std::invalid_argument(record.message), failure(record)
    {
    }
};

/// CRMM_ERROR_LOGIC
class logic_error : public std::logic_error, public failure
{
  public:
    explicit logic_error(const crmm_error &record)
        : std::logic_error(record.message), failure(record)
    {
    }
};

/// CRMM_ERROR_OUT_OF_RANGE
class out_of_range : public std::out_of_range, public failure
{
  public:
    explicit out_of_range(const crmm_error &record)
        : std::out_of_range(record.message), failure(record)
    {
    }
};

/// CRMM_ERROR_BAD_ALLOC, and base of the other two that say that memory could not be had
class bad_alloc : public std::bad_alloc, public failure
{
  public:
    explicit bad_alloc(const crmm_error &record) noexcept : failure(record)
    {
    }
    const char *what() const noexcept override
    {
        return record().message;
    }
};

/// CRMM_ERROR_OUT_OF_MEMORY
class out_of_memory : public bad_alloc
{
  public:
    using bad_alloc::bad_alloc;
};

/// CRMM_ERROR_LIMIT_EXCEEDED
class limit_exceeded : public out_of_memory
{
  public:
    using out_of_memory::out_of_memory;
};

namespace detail
{

/// The thread's record, or one of the status alone where a resource of the program's left none.
inline crmm_error record_of(crmm_status status)
{
    crmm_error record = *crmm_last_error();
    if (record.status != status) {
        (void)crmm_set_last_error(status, 0, nullptr);
        record = *crmm_last_error();
    }
    return record;
}

[[noreturn]] inline void throw_failure(crmm_status status)
{
    const crmm_error record = record_of(status);
    switch (status) {
    case CRMM_ERROR_INVALID_ARGUMENT:
        throw invalid_argument(record);
    case CRMM_ERROR_LOGIC:
        throw logic_error(record);
    case CRMM_ERROR_OUT_OF_RANGE:
        throw out_of_range(record);
    case CRMM_ERROR_BAD_ALLOC:
        throw bad_alloc(record);
    case CRMM_ERROR_OUT_OF_MEMORY:
        throw out_of_memory(record);
    case CRMM_ERROR_LIMIT_EXCEEDED:
        throw limit_exceeded(record);
    case CRMM_ERROR_CUDA:
        throw cuda_error(record);
    case CRMM_SUCCESS:
    case CRMM_ERROR_PROPERTY:
    case CRMM_ERROR_UNSUPPORTED:
    case CRMM_ERROR_FORKED:
    case CRMM_ERROR_IO:
        break;
    }
    throw error(record);
}

} // namespace detail

/// Throw what a status stands for, with the record of the call that returned it; success is
/// nothing.
inline void check(crmm_status status)
{
    if (status != CRMM_SUCCESS) {
        detail::throw_failure(status);
    }
}

// ---- resources ----

/// A reference to a resource, or none. Copies share the resource.
class resource
{
  public:
    resource() noexcept = default;
    /// Takes over a reference that the caller owns, such as one from a create function or a getter.
    static resource adopt(crmm_resource *owned) noexcept
    {
        resource made;
        made.handle_ = owned;
        return made;
    }
    /// Takes a reference of its own.
    static resource share(crmm_resource *borrowed) noexcept
    {
        return adopt(crmm_resource_retain(borrowed));
    }

    resource(const resource &other) noexcept : handle_(crmm_resource_retain(other.handle_))
    {
    }
    resource(resource &&other) noexcept : handle_(std::exchange(other.handle_, nullptr))
    {
    }
    resource &operator=(resource other) noexcept
    {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~resource()
    {
        crmm_resource_release(&handle_);
    }

    /// The C object, borrowed: for C functions.
    crmm_resource *get() const noexcept
    {
        return handle_;
    }
    /// The reference itself, which the caller owns from here on; leaves none.
    [[nodiscard]] crmm_resource *release() noexcept
    {
        return std::exchange(handle_, nullptr);
    }
    explicit operator bool() const noexcept
    {
        return handle_ != nullptr;
    }

    [[nodiscard]] void *allocate(crmm_stream stream, std::size_t bytes,
                                 std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const
    {
        void *ptr = nullptr;
        check(crmm_allocate(handle_, stream, bytes, alignment, &ptr));
        return ptr;
    }
    void deallocate(crmm_stream stream, void *ptr, std::size_t bytes,
                    std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const noexcept
    {
        crmm_deallocate(handle_, stream, ptr, bytes, alignment);
    }
    [[nodiscard]] void *allocate_sync(std::size_t bytes,
                                      std::size_t alignment = CRMM_HOST_ALIGNMENT) const
    {
        void *ptr = nullptr;
        check(crmm_allocate_sync(handle_, bytes, alignment, &ptr));
        return ptr;
    }
    void deallocate_sync(void *ptr, std::size_t bytes,
                         std::size_t alignment = CRMM_HOST_ALIGNMENT) const noexcept
    {
        crmm_deallocate_sync(handle_, ptr, bytes, alignment);
    }

    crmm_properties properties() const noexcept
    {
        return crmm_resource_properties(handle_);
    }
    bool has(crmm_properties required) const noexcept
    {
        return crmm_resource_has(handle_, required);
    }
    bool is_adaptor() const noexcept
    {
        return crmm_resource_is_adaptor(handle_);
    }
    int device() const noexcept
    {
        return crmm_resource_device(handle_);
    }
    const char *name() const noexcept
    {
        return crmm_resource_name(handle_);
    }
    /// What it takes its memory from, or none.
    resource upstream() const noexcept
    {
        return share(crmm_resource_upstream(handle_));
    }
    std::string describe() const
    {
        std::string text(crmm_resource_describe(handle_, nullptr, 0) + 1, '\0');
        const std::size_t length = crmm_resource_describe(handle_, &text[0], text.size());
        text.resize(length < text.size() ? length : text.size() - 1);
        return text;
    }
    /// Returns the bytes given back.
    std::size_t trim(std::size_t bytes_to_keep = 0) const
    {
        std::size_t released = 0;
        check(crmm_resource_trim(handle_, bytes_to_keep, &released));
        return released;
    }
    crmm_memory_info info() const
    {
        crmm_memory_info info = {};
        info.struct_size = sizeof(info);
        check(crmm_resource_info(handle_, &info));
        return info;
    }

    /// Whether memory from one may be given back to the other.
    friend bool operator==(const resource &a, const resource &b) noexcept
    {
        return crmm_resource_is_equal(a.handle_, b.handle_);
    }
    friend bool operator!=(const resource &a, const resource &b) noexcept
    {
        return !(a == b);
    }

  private:
    crmm_resource *handle_ = nullptr;
};

/// Call a C function whose last parameter is a resource that it makes or hands out:
/// `crmm::create(crmm_limiting_resource_adaptor_create, upstream.get(), limit, nullptr)`.
template <class... Parameters, class... Arguments>
[[nodiscard]] resource create(crmm_status (*function)(Parameters...), Arguments &&...arguments)
{
    crmm_resource *made = nullptr;
    check(function(std::forward<Arguments>(arguments)..., &made));
    return resource::adopt(made);
}

/// The resource of the current device.
[[nodiscard]] inline resource current_device_resource()
{
    return create(crmm_get_current_device_resource);
}

/// The resource of a device.
[[nodiscard]] inline resource per_device_resource(int device)
{
    return create(crmm_get_per_device_resource, device);
}

/// Replace the current device's resource, none for the initial one; returns the one before.
inline resource set_current_device_resource(const resource &mr)
{
    return create(crmm_set_current_device_resource, mr.get());
}

/// Replace a device's resource, none for the initial one; returns the one before.
inline resource set_per_device_resource(int device, const resource &mr)
{
    return create(crmm_set_per_device_resource, device, mr.get());
}

// ---- containers ----

/// A crmm_device_buffer that ends itself. Moved, not copied; clone() copies.
class device_buffer
{
  public:
    device_buffer() noexcept = default;
    /// Uninitialised bytes; no resource stands for the current device's.
    explicit device_buffer(std::size_t size, crmm_stream stream, const resource &mr = {},
                           std::size_t alignment = CRMM_DEVICE_ALIGNMENT)
    {
        check(crmm_device_buffer_init_aligned(&buffer_, size, alignment, stream, mr.get()));
    }
    /// A copy of bytes, which must stay valid until the stream has passed it.
    device_buffer(const void *source, std::size_t size, crmm_stream stream, const resource &mr = {},
                  std::size_t alignment = CRMM_DEVICE_ALIGNMENT)
    {
        check(crmm_device_buffer_init_copy_aligned(&buffer_, source, size, alignment, stream,
                                                   mr.get()));
    }
    /// A copy of bytes, which are free when this returns.
    [[nodiscard]] static device_buffer copy_sync(const void *source, std::size_t size,
                                                 crmm_stream stream, const resource &mr = {})
    {
        device_buffer made;
        check(crmm_device_buffer_init_copy_sync(&made.buffer_, source, size, stream, mr.get()));
        return made;
    }
    /// Takes over what a C buffer holds, and leaves it empty.
    static device_buffer adopt(crmm_device_buffer &source) noexcept
    {
        device_buffer made;
        crmm_device_buffer_move(&made.buffer_, &source);
        return made;
    }

    device_buffer(const device_buffer &) = delete;
    device_buffer &operator=(const device_buffer &) = delete;
    device_buffer(device_buffer &&other) noexcept
    {
        crmm_device_buffer_move(&buffer_, &other.buffer_);
    }
    device_buffer &operator=(device_buffer &&other) noexcept
    {
        crmm_device_buffer_move(&buffer_, &other.buffer_);
        return *this;
    }
    ~device_buffer()
    {
        crmm_device_buffer_finish(&buffer_);
    }

    [[nodiscard]] device_buffer clone(crmm_stream stream, const resource &mr = {}) const
    {
        device_buffer made;
        check(crmm_device_buffer_init_clone(&made.buffer_, &buffer_, stream, mr.get()));
        return made;
    }

    void reserve(std::size_t new_capacity, crmm_stream stream)
    {
        check(crmm_device_buffer_reserve(&buffer_, new_capacity, stream));
    }
    void resize(std::size_t new_size, crmm_stream stream)
    {
        check(crmm_device_buffer_resize(&buffer_, new_size, stream));
    }
    void shrink_to_fit(crmm_stream stream)
    {
        check(crmm_device_buffer_shrink_to_fit(&buffer_, stream));
    }
    void set_stream(crmm_stream stream)
    {
        check(crmm_device_buffer_set_stream(&buffer_, stream));
    }
    void set_stream_unordered(crmm_stream stream) noexcept
    {
        crmm_device_buffer_set_stream_unordered(&buffer_, stream);
    }

    void *data() noexcept
    {
        return buffer_.data;
    }
    const void *data() const noexcept
    {
        return buffer_.data;
    }
    std::size_t size() const noexcept
    {
        return buffer_.size;
    }
    std::int64_t ssize() const noexcept
    {
        return static_cast<std::int64_t>(buffer_.size);
    }
    std::size_t capacity() const noexcept
    {
        return buffer_.capacity;
    }
    std::size_t alignment() const noexcept
    {
        return crmm_device_buffer_alignment(&buffer_);
    }
    bool is_empty() const noexcept
    {
        return buffer_.size == 0;
    }
    crmm_stream stream() const noexcept
    {
        return buffer_.stream;
    }
    resource memory_resource() const noexcept
    {
        return resource::share(buffer_.resource);
    }

    /// The C object, lent: for C functions.
    crmm_device_buffer *get() noexcept
    {
        return &buffer_;
    }
    const crmm_device_buffer *get() const noexcept
    {
        return &buffer_;
    }

  private:
    crmm_device_buffer buffer_ = {};
};

namespace detail
{

template <class T>
inline constexpr std::size_t alignment_of = alignof(T) > CRMM_DEVICE_ALIGNMENT
                                                ? alignof(T)
                                                : CRMM_DEVICE_ALIGNMENT;

/// Room for an element that has no default constructor.
template <class T> union room {
    room()
    {
    }
    T value;
};

} // namespace detail

/// A crmm_device_uvector of T that ends itself. Moved, not copied; clone() copies.
template <class T> class device_uvector
{
    static_assert(std::is_trivially_copyable_v<T>, "elements are copied byte by byte");

  public:
    using value_type = T;
    using size_type = std::size_t;
    using pointer = T *;
    using const_pointer = const T *;
    using iterator = T *;             // into device memory
    using const_iterator = const T *; // into device memory

    /// Uninitialised elements; no resource stands for the current device's.
    explicit device_uvector(std::size_t count, crmm_stream stream, const resource &mr = {})
    {
        check(crmm_device_uvector_init_aligned(&vector_, count, sizeof(T), detail::alignment_of<T>,
                                               stream, mr.get()));
    }

    device_uvector(const device_uvector &) = delete;
    device_uvector &operator=(const device_uvector &) = delete;
    device_uvector(device_uvector &&other) noexcept
    {
        crmm_device_uvector_move(&vector_, &other.vector_);
    }
    device_uvector &operator=(device_uvector &&other) noexcept
    {
        crmm_device_uvector_move(&vector_, &other.vector_);
        return *this;
    }
    ~device_uvector()
    {
        crmm_device_uvector_finish(&vector_);
    }

    [[nodiscard]] device_uvector clone(crmm_stream stream, const resource &mr = {}) const
    {
        crmm_device_uvector made;
        check(crmm_device_uvector_init_clone(&made, &vector_, stream, mr.get()));
        return device_uvector(made);
    }
    /// Moves the memory out.
    [[nodiscard]] device_buffer release() noexcept
    {
        return device_buffer::adopt(vector_.buffer);
    }

    void reserve(std::size_t new_capacity, crmm_stream stream)
    {
        check(crmm_device_uvector_reserve(&vector_, new_capacity, stream));
    }
    void resize(std::size_t new_count, crmm_stream stream)
    {
        check(crmm_device_uvector_resize(&vector_, new_count, stream));
    }
    void shrink_to_fit(crmm_stream stream)
    {
        check(crmm_device_uvector_shrink_to_fit(&vector_, stream));
    }
    void set_stream(crmm_stream stream)
    {
        check(crmm_device_uvector_set_stream(&vector_, stream));
    }
    void set_stream_unordered(crmm_stream stream) noexcept
    {
        crmm_device_uvector_set_stream_unordered(&vector_, stream);
    }

    /// Only queues the copy: the value must live until the stream has passed it.
    void set_element_async(std::size_t index, const T &value, crmm_stream stream)
    {
        check(crmm_device_uvector_set_element_async(&vector_, index, &value, stream));
    }
    void set_element_async(std::size_t, const T &&, crmm_stream) = delete; // it would not live
    void set_element(std::size_t index, const T &value, crmm_stream stream)
    {
        check(crmm_device_uvector_set_element(&vector_, index, &value, stream));
    }
    void set_element_to_zero_async(std::size_t index, crmm_stream stream)
    {
        check(crmm_device_uvector_set_element_to_zero_async(&vector_, index, stream));
    }
    T element(std::size_t index, crmm_stream stream) const
    {
        detail::room<T> room;
        check(crmm_device_uvector_element(&vector_, index, stream, &room));
        return room.value;
    }
    T front_element(crmm_stream stream) const
    {
        detail::room<T> room;
        check(crmm_device_uvector_front_element(&vector_, stream, &room));
        return room.value;
    }
    T back_element(crmm_stream stream) const
    {
        detail::room<T> room;
        check(crmm_device_uvector_back_element(&vector_, stream, &room));
        return room.value;
    }
    T *element_ptr(std::size_t index) noexcept
    {
        return static_cast<T *>(crmm_device_uvector_element_ptr(&vector_, index));
    }
    const T *element_ptr(std::size_t index) const noexcept
    {
        return static_cast<const T *>(crmm_device_uvector_element_ptr(&vector_, index));
    }

    T *data() noexcept
    {
        return static_cast<T *>(vector_.buffer.data);
    }
    const T *data() const noexcept
    {
        return static_cast<const T *>(vector_.buffer.data);
    }
    iterator begin() noexcept
    {
        return data();
    }
    iterator end() noexcept
    {
        return data() + size();
    }
    const_iterator begin() const noexcept
    {
        return data();
    }
    const_iterator end() const noexcept
    {
        return data() + size();
    }
    const_iterator cbegin() const noexcept
    {
        return data();
    }
    const_iterator cend() const noexcept
    {
        return data() + size();
    }
    std::size_t size() const noexcept
    {
        return vector_.buffer.size / sizeof(T);
    }
    std::int64_t ssize() const noexcept
    {
        return static_cast<std::int64_t>(size());
    }
    std::size_t capacity() const noexcept
    {
        return vector_.buffer.capacity / sizeof(T);
    }
    bool is_empty() const noexcept
    {
        return vector_.buffer.size == 0;
    }
    crmm_stream stream() const noexcept
    {
        return vector_.buffer.stream;
    }
    resource memory_resource() const noexcept
    {
        return resource::share(vector_.buffer.resource);
    }

    /// The C object, lent: for C functions.
    crmm_device_uvector *get() noexcept
    {
        return &vector_;
    }
    const crmm_device_uvector *get() const noexcept
    {
        return &vector_;
    }

  private:
    explicit device_uvector(const crmm_device_uvector &made) noexcept : vector_(made)
    {
    }

    crmm_device_uvector vector_ = {};
};

/// A crmm_device_scalar of T that ends itself. Moved, not copied; clone() copies.
template <class T> class device_scalar
{
    static_assert(std::is_trivially_copyable_v<T>, "values are copied byte by byte");

  public:
    using value_type = T;

    /// A value not set yet; no resource stands for the current device's.
    explicit device_scalar(crmm_stream stream, const resource &mr = {})
    {
        check(crmm_device_scalar_init_uninitialized(&scalar_, sizeof(T), detail::alignment_of<T>,
                                                    stream, mr.get()));
    }
    /// A value; waits for the stream.
    device_scalar(const T &value, crmm_stream stream, const resource &mr = {})
    {
        check(crmm_device_scalar_init_aligned(&scalar_, sizeof(T), detail::alignment_of<T>, &value,
                                              stream, mr.get()));
    }

    device_scalar(const device_scalar &) = delete;
    device_scalar &operator=(const device_scalar &) = delete;
    device_scalar(device_scalar &&other) noexcept
    {
        crmm_device_scalar_move(&scalar_, &other.scalar_);
    }
    device_scalar &operator=(device_scalar &&other) noexcept
    {
        crmm_device_scalar_move(&scalar_, &other.scalar_);
        return *this;
    }
    ~device_scalar()
    {
        crmm_device_scalar_finish(&scalar_);
    }

    [[nodiscard]] device_scalar clone(crmm_stream stream, const resource &mr = {}) const
    {
        crmm_device_scalar made;
        check(crmm_device_scalar_init_clone(&made, &scalar_, stream, mr.get()));
        return device_scalar(made);
    }

    T value(crmm_stream stream) const
    {
        detail::room<T> room;
        check(crmm_device_scalar_value(&scalar_, stream, &room));
        return room.value;
    }
    void set_value(const T &value, crmm_stream stream)
    {
        check(crmm_device_scalar_set_value(&scalar_, &value, stream));
    }
    /// Only queues the copy: the value must live until the stream has passed it.
    void set_value_async(const T &value, crmm_stream stream)
    {
        check(crmm_device_scalar_set_value_async(&scalar_, &value, stream));
    }
    void set_value_async(const T &&, crmm_stream) = delete; // it would not live
    void set_value_to_zero_async(crmm_stream stream)
    {
        check(crmm_device_scalar_set_value_to_zero_async(&scalar_, stream));
    }
    void set_stream(crmm_stream stream)
    {
        check(crmm_device_scalar_set_stream(&scalar_, stream));
    }
    void set_stream_unordered(crmm_stream stream) noexcept
    {
        crmm_device_scalar_set_stream_unordered(&scalar_, stream);
    }

    T *data() noexcept
    {
        return static_cast<T *>(scalar_.vector.buffer.data);
    }
    const T *data() const noexcept
    {
        return static_cast<const T *>(scalar_.vector.buffer.data);
    }
    std::size_t size() const noexcept
    {
        return crmm_device_scalar_size(&scalar_);
    }
    crmm_stream stream() const noexcept
    {
        return scalar_.vector.buffer.stream;
    }
    resource memory_resource() const noexcept
    {
        return resource::share(scalar_.vector.buffer.resource);
    }

    /// The C object, lent: for C functions.
    crmm_device_scalar *get() noexcept
    {
        return &scalar_;
    }
    const crmm_device_scalar *get() const noexcept
    {
        return &scalar_;
    }

  private:
    explicit device_scalar(const crmm_device_scalar &made) noexcept : scalar_(made)
    {
    }

    crmm_device_scalar scalar_ = {};
};

// ---- allocators ----

template <class T> class stream_allocator_adaptor;

/// Allocates elements of T in stream order. Copies share the resource; moving one copies it.
template <class T> class polymorphic_allocator
{
  public:
    using value_type = T;

    /// No resource stands for the current device's.
    explicit polymorphic_allocator(const resource &mr = {})
    {
        check(crmm_polymorphic_allocator_init(&allocator_, sizeof(T), mr.get()));
    }
    polymorphic_allocator(const polymorphic_allocator &other) noexcept
    {
        bind(other);
    }
    template <class U>
    polymorphic_allocator(const polymorphic_allocator<U> &other) noexcept // as allocators convert
    {
        bind(other);
    }
    polymorphic_allocator &operator=(const polymorphic_allocator &other) noexcept
    {
        if (this != &other) {
            crmm_polymorphic_allocator_finish(&allocator_);
            bind(other);
        }
        return *this;
    }
    ~polymorphic_allocator()
    {
        crmm_polymorphic_allocator_finish(&allocator_);
    }

    [[nodiscard]] T *allocate(std::size_t count, crmm_stream stream) const
    {
        void *ptr = nullptr;
        check(crmm_polymorphic_allocator_allocate(&allocator_, count, stream, &ptr));
        return static_cast<T *>(ptr);
    }
    void deallocate(T *ptr, std::size_t count, crmm_stream stream) const noexcept
    {
        crmm_polymorphic_allocator_deallocate(&allocator_, ptr, count, stream);
    }
    resource upstream() const noexcept
    {
        return resource::share(allocator_.resource);
    }

    /// The C object, lent: for C functions.
    const crmm_polymorphic_allocator *get() const noexcept
    {
        return &allocator_;
    }

  private:
    template <class U> void bind(const polymorphic_allocator<U> &other) noexcept
    {
        /* What is initialised can be bound; otherwise ours stays empty, and says so when used. */
        (void)!crmm_polymorphic_allocator_rebind(other.get(), sizeof(T), &allocator_);
    }

    crmm_polymorphic_allocator allocator_ = {};
};

template <class T, class U>
bool operator==(const polymorphic_allocator<T> &a, const polymorphic_allocator<U> &b) noexcept
{
    return crmm_polymorphic_allocator_is_equal(a.get(), b.get());
}

template <class T, class U>
bool operator!=(const polymorphic_allocator<T> &a, const polymorphic_allocator<U> &b) noexcept
{
    return !(a == b);
}

/// A standard allocator: a polymorphic_allocator with its stream. The stream must outlive it.
template <class T> class stream_allocator_adaptor
{
  public:
    using value_type = T;

    stream_allocator_adaptor(const polymorphic_allocator<T> &allocator, crmm_stream stream) noexcept
        : allocator_(allocator), stream_(stream)
    {
    }
    template <class U>
    stream_allocator_adaptor(const stream_allocator_adaptor<U> &other) noexcept // as they convert
        : allocator_(other.underlying_allocator()), stream_(other.stream())
    {
    }

    [[nodiscard]] T *allocate(std::size_t count) const
    {
        return allocator_.allocate(count, stream_);
    }
    void deallocate(T *ptr, std::size_t count) const noexcept
    {
        allocator_.deallocate(ptr, count, stream_);
    }
    crmm_stream stream() const noexcept
    {
        return stream_;
    }
    const polymorphic_allocator<T> &underlying_allocator() const noexcept
    {
        return allocator_;
    }

  private:
    polymorphic_allocator<T> allocator_;
    crmm_stream stream_;
};

template <class T, class U>
bool operator==(const stream_allocator_adaptor<T> &a, const stream_allocator_adaptor<U> &b) noexcept
{
    return a.underlying_allocator() == b.underlying_allocator();
}

template <class T, class U>
bool operator!=(const stream_allocator_adaptor<T> &a, const stream_allocator_adaptor<U> &b) noexcept
{
    return !(a == b);
}

} // namespace crmm

#endif
