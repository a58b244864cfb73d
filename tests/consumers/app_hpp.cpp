// SPDX-License-Identifier: Apache-2.0
// A C++ program outside the project, with the C++ header.
#include <crmm/crmm.hpp>
#include <crmm/host/malloc_memory_resource.h>

#include <cstdio>

int main()
{
    const crmm::resource heap = crmm::resource::share(crmm_malloc_memory_resource());
    try {
        heap.deallocate_sync(heap.allocate_sync(1000, 64), 1000, 64);
        heap.deallocate_sync(heap.allocate_sync(1000, 65), 1000, 65);
    } catch (const crmm::invalid_argument &) {
        return crmm::device_buffer().is_empty() ? 0 : 1;
    } catch (const std::exception &e) {
        std::fprintf(stderr, "app: %s\n", e.what());
    }
    return 1;
}
