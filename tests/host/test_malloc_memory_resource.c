/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/malloc_memory_resource.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>

#include "expect.h"
#include "misuse_recorder.h"

Test(malloc_memory_resource, is_one_immortal_host_resource)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    crmm_resource *again = mr;

    cr_assert(mr == crmm_malloc_memory_resource());
    expect_text(crmm_resource_name(mr), "malloc_memory_resource");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), -1);
    cr_assert(!crmm_resource_is_adaptor(mr));
    for (int i = 0; i < 3; i++) {
        crmm_resource_release(&again);
        cr_assert(again == NULL);
        again = mr;
    }
    cr_assert(crmm_resource_retain(mr) == mr);
    cr_assert(crmm_resource_is_equal(mr, mr));
}

Test(malloc_memory_resource, serves_every_size_and_alignment)
{
    static const size_t sizes[] = {1, 2, 255, 256, 257, 4097, (2 << 20) + 1};
    crmm_resource *mr = crmm_malloc_memory_resource();
    crmm_memory_info info = {.struct_size = sizeof(info)};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t alignment = 1; alignment <= 65536; alignment *= 2) {
            unsigned char *ptr = NULL;
            expect_success(crmm_allocate_sync(mr, sizes[i], alignment, (void **)&ptr));
            cr_assert(crmm_is_pointer_aligned(ptr, alignment));
            ptr[0] = 1;
            ptr[sizes[i] - 1] = 2;
            crmm_deallocate_sync(mr, ptr, sizes[i], alignment);
        }
    }
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 0);
    expect_equal(info.peak_live, (2 << 20) + 1);
    expect_equal(info.allocations, 0);
}

Test(malloc_memory_resource, tells_when_the_heap_is_exhausted)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    void *ptr = &mr;

    expect_failure(crmm_allocate_sync(mr, PTRDIFF_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "malloc_memory_resource: 9223372036854775807 bytes with alignment 16");
    expect_equal(crmm_last_error()->requested_bytes, PTRDIFF_MAX);
    expect_equal(crmm_last_error()->native_code, 12);
    expect_status(crmm_allocate_sync(mr, 1, (size_t)1 << 63, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate_sync(mr, (size_t)1 << 62, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate_sync(mr, PTRDIFF_MAX, 4096, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(ptr == &mr);
}

Test(malloc_memory_resource, has_no_streams)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    void *ptr = &mr;

    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "malloc_memory_resource is not stream-ordered");
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 8, 8), CRMM_MISUSE_PROPERTY,
                  "malloc_memory_resource is not stream-ordered");
}

/* Only validation finds a wrong size; without it the figures are wrong, but not absurd. */
Test(malloc_memory_resource, figures_do_not_fall_below_0)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *ptr = NULL;

    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    expect_success(crmm_allocate_sync(mr, 100, 8, &ptr));
    crmm_deallocate_sync(mr, ptr, 5000, 8);
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 0);
    expect_success(crmm_allocate_sync(mr, 100, 8, &ptr));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 100);
    expect_equal(info.peak_live, 100);
    crmm_deallocate_sync(mr, ptr, 100, 8);
}

Test(malloc_memory_resource, keeps_figures)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    crmm_memory_info info = {.struct_size = sizeof(info)};
    crmm_memory_info shorter = {.struct_size = 2 * sizeof(size_t), .held = 77};
    void *a = NULL;
    void *b = NULL;
    size_t released = 5;

    expect_success(crmm_allocate_sync(mr, 100, 8, &a));
    expect_success(crmm_allocate_sync(mr, 50, 8, &b));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.struct_size, sizeof(info));
    expect_equal(info.live, 150);
    expect_equal(info.held, 150);
    expect_equal(info.cached + info.pending + info.largest_free, 0);
    expect_equal(info.allocations, 2);
    expect_success(crmm_resource_info(mr, &shorter));
    expect_equal(shorter.live, 150);
    expect_equal(shorter.held, 77); /* filled no further than struct_size */
    crmm_deallocate_sync(mr, a, 100, 8);
    crmm_deallocate_sync(mr, b, 50, 8);
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 0);
    expect_equal(info.peak_live, 150);
    expect_equal(info.peak_held, 150);
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_equal(released, 0);
}
