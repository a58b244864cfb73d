// SPDX-License-Identifier: Apache-2.0
// Compiled with NVIDIA's headers, whatever runtime the library is linked to.
#include <crmm/cuda_mr.hpp>

#include <string>

#include <crmm/core/misuse.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "expect.hpp"

namespace mr = cuda::mr;
using crmm::device_cuda_resource;
using crmm::host_cuda_resource;
using crmm::host_device_cuda_resource;

// Later forms of CCCL have renamed the concepts: `resource` there is stream-ordered, with the
// stream first, and what has no stream is `synchronous_resource`.
#if CCCL_VERSION < 3001000
static_assert(mr::resource<device_cuda_resource>);
static_assert(mr::async_resource<device_cuda_resource>);
static_assert(mr::async_resource_with<device_cuda_resource, mr::device_accessible>);
static_assert(!mr::async_resource_with<device_cuda_resource, mr::host_accessible>);
static_assert(mr::async_resource_with<host_cuda_resource, mr::host_accessible>);
static_assert(!mr::async_resource_with<host_cuda_resource, mr::device_accessible>);
static_assert(
    mr::async_resource_with<host_device_cuda_resource, mr::host_accessible, mr::device_accessible>);
#else
static_assert(mr::synchronous_resource<device_cuda_resource>);
static_assert(mr::resource<device_cuda_resource>);
static_assert(mr::resource_with<device_cuda_resource, mr::device_accessible>);
static_assert(!mr::resource_with<device_cuda_resource, mr::host_accessible>);
#endif

namespace
{

// What the stream-first concept of later CCCL asks, spelt out, so that it holds with any.
template <class Resource>
auto stream_first(Resource &resource, void *ptr, std::size_t n, cuda::stream_ref stream)
    -> decltype(resource.deallocate(stream, ptr, n, n), resource.deallocate_sync(ptr, n, n),
                std::is_same<decltype(resource.allocate(stream, n, n)), void *>(),
                std::is_same<decltype(resource.allocate_sync(n, n)), void *>());
static_assert(decltype(stream_first(std::declval<device_cuda_resource &>(), nullptr, 0,
                                    cuda::stream_ref(cudaStream_t{nullptr})))::value);

crmm::resource managed()
{
    return crmm::resource::share(crmm_managed_memory_resource());
}

void properties_are_checked_when_one_is_made()
{
    expect_throw(device_cuda_resource(crmm::resource()), crmm::invalid_argument,
                 CRMM_ERROR_INVALID_ARGUMENT, "there is no resource");
    expect_throw(host_cuda_resource(crmm::resource::share(crmm_cuda_memory_resource())),
                 crmm::error, CRMM_ERROR_PROPERTY, "lacks a property");
    expect_throw(host_cuda_resource(crmm::resource::share(crmm_malloc_memory_resource())),
                 crmm::error, CRMM_ERROR_PROPERTY, "stream order");
    const host_device_cuda_resource both(managed());
    expect(both.get() == managed());
}

void every_form_allocates()
{
    const cuda::stream_ref stream{cudaStream_t{nullptr}};
    const device_cuda_resource resource(crmm::current_device_resource());
    void *ptr = resource.allocate(100, 256);
    expect(ptr != nullptr);
    resource.deallocate(ptr, 100, 256);
    ptr = resource.allocate_async(100, 256, stream);
    resource.deallocate_async(ptr, 100, 256, stream);
    ptr = resource.allocate_async(100, stream);
    resource.deallocate_async(ptr, 100, stream);
    ptr = resource.allocate(stream, 100, 64);
    resource.deallocate(stream, ptr, 100, 64);
    ptr = resource.allocate(stream, 100);
    resource.deallocate(stream, ptr, 100);
    ptr = resource.allocate_sync(100, 64);
    resource.deallocate_sync(ptr, 100, 64);
    expect_throw(resource.allocate(stream, 1, 512), crmm::error, CRMM_ERROR_UNSUPPORTED, "512");
}

#if CCCL_VERSION < 3001000
void references_to_one_work()
{
    const cuda::stream_ref stream{cudaStream_t{nullptr}};
    host_device_cuda_resource resource(managed());
    mr::async_resource_ref<mr::device_accessible> async_ref{resource};
    void *ptr = async_ref.allocate_async(100, 256, stream);
    expect(ptr != nullptr);
    async_ref.deallocate_async(ptr, 100, 256, stream);
    mr::resource_ref<mr::host_accessible> ref{resource};
    ptr = ref.allocate(100, 256);
    expect(ptr != nullptr);
    ref.deallocate(ptr, 100, 256);
    host_device_cuda_resource other(managed());
    mr::async_resource_ref<mr::device_accessible> other_ref{other};
    expect(async_ref == other_ref);
}
#else
void references_to_one_work()
{
    const cuda::stream_ref stream{cudaStream_t{nullptr}};
    host_device_cuda_resource resource(managed());
    mr::resource_ref<mr::device_accessible> ref{resource};
    void *ptr = ref.allocate(stream, 100, 256);
    expect(ptr != nullptr);
    ref.deallocate(stream, ptr, 100, 256);
    mr::synchronous_resource_ref<mr::host_accessible> sync_ref{resource};
    ptr = sync_ref.allocate_sync(100, 256);
    expect(ptr != nullptr);
    sync_ref.deallocate_sync(ptr, 100, 256);
    mr::any_resource<mr::device_accessible> owner{resource};
    ptr = owner.allocate(stream, 100, 256);
    expect(ptr != nullptr);
    owner.deallocate(stream, ptr, 100, 256);
}
#endif

void copies_share_and_compare()
{
    const device_cuda_resource one(crmm::current_device_resource());
    const device_cuda_resource copy = one;
    const device_cuda_resource other(managed());
    expect(one == copy && one != other);
}

} // namespace

int main()
{
    need_device();
    properties_are_checked_when_one_is_made();
    every_form_allocates();
    references_to_one_work();
    copies_share_and_compare();
    expect(crmm_misuse_count() == 0);
    return 0;
}
