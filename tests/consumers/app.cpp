// SPDX-License-Identifier: Apache-2.0
// A C++ program outside the project.
#include <crmm/crmm.h>

#include <cstdio>

int main()
{
    crmm_resource *heap = crmm_malloc_memory_resource();
    void *block = nullptr;
    if (crmm_allocate_sync(heap, 1000, 64, &block) != CRMM_SUCCESS) {
        std::fprintf(stderr, "app: %s\n", crmm_last_error()->message);
        return 1;
    }
    crmm_deallocate_sync(heap, block, 1000, 64);
    return crmm_is_pow2(64) ? 0 : 1;
}
