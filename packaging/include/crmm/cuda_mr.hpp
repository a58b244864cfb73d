// SPDX-License-Identifier: Apache-2.0
#ifndef CRMM_CUDA_MR_HPP
#define CRMM_CUDA_MR_HPP

/*
 * crmm for C++ programs that use CCCL: a resource that satisfies the concepts of cuda::mr, and with
 * a CUDA compiler an allocator and execution policies for Thrust. The one header of crmm that
 * includes CUDA's; the toolkit's include folders are the program's to name. (Since toolkit 13.0
 * CCCL is in a folder of its own, include/cccl, which nvcc finds by itself.)
 */

// CCCL before 3.1 keeps cuda::mr behind this. Include this header before <cuda/memory_resource>, or
// define it for the whole program.
#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif

#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <crmm/core/misuse.h>
#include <crmm/crmm.hpp>
#include <crmm/device/cuda_device.h>

namespace crmm
{

/// A resource with the properties of cuda::mr that it was checked for. It has the functions of
/// every form of the concepts so far: `allocate(bytes, alignment)` and `allocate_async(bytes,
/// alignment, stream)` of CCCL 3.0, `allocate_sync(bytes, alignment)` and `allocate(stream, bytes,
/// alignment)` of later ones. Copies share the resource. A reference to one, such as
/// cuda::mr::resource_ref, must not outlive it.
///
/// Where a stream is not named the memory has no work pending on it, as with crmm_allocate_sync().
template <class... Properties> class basic_cuda_resource
{
  public:
    /// Throws crmm::error where the resource lacks a property, or stream order, and
    /// crmm::invalid_argument for none.
    explicit basic_cuda_resource(crmm::resource mr) : mr_(std::move(mr))
    {
        if (!mr_) {
            check(crmm_set_last_error(CRMM_ERROR_INVALID_ARGUMENT, 0,
                                      "crmm::basic_cuda_resource: there is no resource"));
        }
        if (!mr_.has(required())) {
            check(crmm_set_last_error(CRMM_ERROR_PROPERTY, 0,
                                      "crmm::basic_cuda_resource: the resource lacks a property "
                                      "that was asked for, or stream order"));
        }
    }

    // CCCL 3.0

    [[nodiscard]] void *allocate(std::size_t bytes,
                                 std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const
    {
        return mr_.allocate_sync(bytes, alignment);
    }
    void deallocate(void *ptr, std::size_t bytes,
                    std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const noexcept
    {
        mr_.deallocate_sync(ptr, bytes, alignment);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, std::size_t alignment,
                                       ::cuda::stream_ref stream) const
    {
        return mr_.allocate(stream.get(), bytes, alignment);
    }
    [[nodiscard]] void *allocate_async(std::size_t bytes, ::cuda::stream_ref stream) const
    {
        return mr_.allocate(stream.get(), bytes);
    }
    void deallocate_async(void *ptr, std::size_t bytes, std::size_t alignment,
                          ::cuda::stream_ref stream) const noexcept
    {
        mr_.deallocate(stream.get(), ptr, bytes, alignment);
    }
    void deallocate_async(void *ptr, std::size_t bytes, ::cuda::stream_ref stream) const noexcept
    {
        mr_.deallocate(stream.get(), ptr, bytes);
    }

    // later ones: the stream comes first

    [[nodiscard]] void *allocate(::cuda::stream_ref stream, std::size_t bytes,
                                 std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const
    {
        return mr_.allocate(stream.get(), bytes, alignment);
    }
    void deallocate(::cuda::stream_ref stream, void *ptr, std::size_t bytes,
                    std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const noexcept
    {
        mr_.deallocate(stream.get(), ptr, bytes, alignment);
    }
    [[nodiscard]] void *allocate_sync(std::size_t bytes,
                                      std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const
    {
        return mr_.allocate_sync(bytes, alignment);
    }
    void deallocate_sync(void *ptr, std::size_t bytes,
                         std::size_t alignment = CRMM_DEVICE_ALIGNMENT) const noexcept
    {
        mr_.deallocate_sync(ptr, bytes, alignment);
    }

    /// The resource underneath.
    const crmm::resource &get() const noexcept
    {
        return mr_;
    }

    friend bool operator==(const basic_cuda_resource &a, const basic_cuda_resource &b) noexcept
    {
        return a.mr_ == b.mr_;
    }
    friend bool operator!=(const basic_cuda_resource &a, const basic_cuda_resource &b) noexcept
    {
        return !(a == b);
    }
    template <class Property,
              std::enable_if_t<(std::is_same_v<Property, Properties> || ...), int> = 0>
    friend constexpr void get_property(const basic_cuda_resource &, Property) noexcept
    {
    }

  private:
    static constexpr crmm_properties required() noexcept
    {
        return CRMM_STREAM_ORDERED | (bit_of<Properties>() | ... | 0);
    }
    template <class Property> static constexpr crmm_properties bit_of() noexcept
    {
        static_assert(std::is_same_v<Property, ::cuda::mr::device_accessible> ||
                          std::is_same_v<Property, ::cuda::mr::host_accessible>,
                      "crmm knows device_accessible and host_accessible");
        return std::is_same_v<Property, ::cuda::mr::device_accessible> ? CRMM_DEVICE_ACCESSIBLE
                                                                       : CRMM_HOST_ACCESSIBLE;
    }

    crmm::resource mr_;
};

/// Memory that devices may touch.
using device_cuda_resource = basic_cuda_resource<::cuda::mr::device_accessible>;
/// Memory that the host may touch.
using host_cuda_resource = basic_cuda_resource<::cuda::mr::host_accessible>;
/// Memory that the host and devices may touch.
using host_device_cuda_resource =
    basic_cuda_resource<::cuda::mr::host_accessible, ::cuda::mr::device_accessible>;

} // namespace crmm

#if defined(__CUDACC__)

#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/system/cuda/execution_policy.h>

namespace crmm
{

/// An allocator for Thrust's containers, such as thrust::device_vector<T,
/// crmm::thrust_allocator<T>>: allocates on its stream, with the device that was current when it
/// was made. The stream must outlive it.
template <class T> class thrust_allocator
{
  public:
    using value_type = T;
    using pointer = thrust::device_ptr<T>;
    using const_pointer = thrust::device_ptr<const T>;
    using reference = thrust::device_reference<T>;
    using const_reference = thrust::device_reference<const T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    template <class U> struct rebind {
        using other = thrust_allocator<U>;
    };

    /// No resource stands for the current device's.
    explicit thrust_allocator(crmm_stream stream = CRMM_STREAM_DEFAULT, const resource &mr = {})
        : allocator_(mr), stream_(stream)
    {
        check(crmm_get_current_cuda_device(&device_));
    }
    template <class U>
    thrust_allocator(const thrust_allocator<U> &other) // as allocators convert
        : allocator_(other.underlying_allocator()), stream_(other.stream()), device_(other.device())
    {
    }

    pointer allocate(size_type count)
    {
        const device_scope scope(device_);
        return pointer(allocator_.allocate(count, stream_));
    }
    void deallocate(pointer ptr, size_type count) noexcept
    {
        try {
            const device_scope scope(device_);
            allocator_.deallocate(ptr.get(), count, stream_);
        } catch (const failure &failed) {
            crmm_misuse found = {};
            found.struct_size = sizeof(found);
            found.kind = CRMM_MISUSE_CUDA;
            found.native_code = failed.native_code();
            found.resource_name = "thrust_allocator";
            found.ptr = ptr.get();
            found.bytes = count * sizeof(T);
            found.alignment = CRMM_DEVICE_ALIGNMENT;
            found.message = "thrust_allocator: memory is not given back: its device cannot be made "
                            "current";
            crmm_report_misuse(&found);
        }
    }

    crmm_stream stream() const noexcept
    {
        return stream_;
    }
    int device() const noexcept
    {
        return device_;
    }
    resource upstream() const noexcept
    {
        return allocator_.upstream();
    }
    const polymorphic_allocator<T> &underlying_allocator() const noexcept
    {
        return allocator_;
    }

    friend bool operator==(const thrust_allocator &a, const thrust_allocator &b) noexcept
    {
        return a.allocator_ == b.allocator_;
    }
    friend bool operator!=(const thrust_allocator &a, const thrust_allocator &b) noexcept
    {
        return !(a == b);
    }

  private:
    struct device_scope {
        explicit device_scope(int device)
        {
            check(crmm_cuda_set_device_init(&previous, device));
        }
        device_scope(const device_scope &) = delete;
        device_scope &operator=(const device_scope &) = delete;
        ~device_scope()
        {
            crmm_cuda_set_device_finish(&previous);
        }
        crmm_cuda_set_device previous = {};
    };

    polymorphic_allocator<T> allocator_;
    crmm_stream stream_;
    int device_ = 0;
};

/// An execution policy that runs a Thrust algorithm on a stream, with temporary memory from a
/// resource; none stands for the current device's.
inline auto exec_policy(crmm_stream stream = CRMM_STREAM_DEFAULT, const resource &mr = {})
{
    return thrust::cuda::par(thrust_allocator<char>(stream, mr)).on(stream);
}

/// The same, but Thrust may return before the stream has passed what needs no waiting for.
inline auto exec_policy_nosync(crmm_stream stream = CRMM_STREAM_DEFAULT, const resource &mr = {})
{
    return thrust::cuda::par_nosync(thrust_allocator<char>(stream, mr)).on(stream);
}

} // namespace crmm

#endif

#endif
