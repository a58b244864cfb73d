// SPDX-License-Identifier: Apache-2.0
#include <crmm/cuda_mr.hpp>

#include <string>

#include <crmm/core/misuse.h>
#include <crmm/device/managed_memory_resource.h>

#include <thrust/device_vector.h>
#include <thrust/fill.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include "expect.hpp"

namespace
{

template <class T> using device_vector = thrust::device_vector<T, crmm::thrust_allocator<T>>;

void a_hundred_ones_are_a_hundred()
{
    const device_vector<int> ones(100, 1, crmm::thrust_allocator<int>());
    expect(thrust::reduce(ones.begin(), ones.end()) == 100);
    const crmm::resource managed = crmm::resource::share(crmm_managed_memory_resource());
    const device_vector<int> more(100, 1, crmm::thrust_allocator<int>(nullptr, managed));
    expect(more.get_allocator().upstream() == managed);
    expect(thrust::reduce(more.begin(), more.end()) == 100);
}

void policies_take_memory_from_the_resource()
{
    device_vector<int> numbers(1000, 1, crmm::thrust_allocator<int>());
    expect(thrust::reduce(crmm::exec_policy(), numbers.begin(), numbers.end()) == 1000);
    thrust::fill(crmm::exec_policy_nosync(), numbers.begin(), numbers.end(), 2);
    thrust::sort(crmm::exec_policy(), numbers.begin(), numbers.end());
    expect(thrust::reduce(crmm::exec_policy(), numbers.begin(), numbers.end()) == 2000);
}

} // namespace

int main()
{
    need_device();
    a_hundred_ones_are_a_hundred();
    policies_take_memory_from_the_resource();
    expect(crmm_misuse_count() == 0);
    return 0;
}
