/* SPDX-License-Identifier: Apache-2.0 */
/* On a device that can reach pageable memory, which few can. */
#include <crmm/device/system_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/core/alignment.h>
#include <crmm/device/sam_headroom_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static void reach_pageable(void)
{
    cudart_emulated_set_attribute(-1, cudaDevAttrPageableMemoryAccess, 1);
}

Test(emulation_system_memory_resource, gives_heap_memory_that_the_device_may_use)
{
    crmm_resource *mr = crmm_system_memory_resource();

    reach_pageable();
    cudaStream_t stream = make_stream();
    for (size_t alignment = 1; alignment <= 65536; alignment *= 16) {
        unsigned char *ptr = NULL;
        expect_success(crmm_allocate(mr, stream, 5000, alignment, (void **)&ptr));
        cr_assert(crmm_is_pointer_aligned(ptr, alignment));
        cuda(cudaMemsetAsync(ptr, 3, 5000, stream));
        cuda(cudaStreamSynchronize(stream));
        expect_equal(ptr[4999], 3);
        crmm_deallocate(mr, stream, ptr, 5000, alignment);
        expect_success(crmm_allocate_sync(mr, 5000, alignment, (void **)&ptr));
        crmm_deallocate_sync(mr, ptr, 5000, alignment);
    }
}

/* User report 33: the memory was freed while kernels still used it, since free() waits for
 * nothing. */
Test(emulation_system_memory_resource, a_free_waits_its_turn_on_the_stream)
{
    crmm_resource *mr = crmm_system_memory_resource();
    gate held;
    void *ptr = NULL;

    reach_pageable();
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
    pthread_t opener = gate_open_later(&held);
    crmm_deallocate(mr, stream, ptr, 4096, 256);
    cr_assert(gate_is_open(&held), "freed under pending work");
    cr_assert(pthread_join(opener, NULL) == 0);
}

static crmm_resource *make_sam(size_t headroom)
{
    crmm_resource *made = NULL;
    expect_success(crmm_sam_headroom_memory_resource_create(headroom, &made));
    return made;
}

/* The emulation keeps no advice for pageable memory, so what is seen is how often it was given:
 * once where the whole block goes to one place, twice where it is parted. */
Test(emulation_system_memory_resource, headroom_parts_a_block)
{
    enum { BYTES = 1 << 20 };
    size_t free_bytes = 0;
    size_t total_bytes = 0;

    reach_pageable();
    cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
    const struct {
        size_t headroom;
        unsigned long long times;
    } rows[] = {
        {0, 1},                        /* all on the device */
        {free_bytes - BYTES, 1},       /* just so */
        {free_bytes - BYTES + 256, 2}, /* the last 256 bytes do not fit */
        {free_bytes - BYTES / 2, 2},   /* half and half */
        {free_bytes - 255, 1},         /* less than a granule fits: all on the host */
        {free_bytes, 1},               /* nothing fits */
        {SIZE_MAX, 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        void *ptr = NULL;
        crmm_resource *mr = make_sam(rows[i].headroom);
        unsigned long long before = cudart_emulated_calls("cudaMemAdvise");
        expect_success(crmm_allocate(mr, NULL, BYTES, 4096, &ptr));
        cr_assert(cudart_emulated_calls("cudaMemAdvise") - before == rows[i].times, "row %zu", i);
        crmm_deallocate(mr, NULL, ptr, BYTES, 4096);
        crmm_resource_release(&mr);
    }
}

Test(emulation_system_memory_resource, headroom_resources_describe_and_compare)
{
    char text[160];

    reach_pageable();
    crmm_resource *a = make_sam(1000);
    crmm_resource *b = make_sam(1000);
    crmm_resource *c = make_sam(1001);
    expect_text(crmm_resource_name(a), "sam_headroom_memory_resource");
    expect_equal(crmm_resource_properties(a),
                 CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    (void)crmm_resource_describe(a, text, sizeof(text));
    expect_text(text, "sam_headroom_memory_resource (device 0, headroom 1000) over "
                      "system_memory_resource");
    cr_assert(crmm_resource_is_equal(a, b));
    cr_assert(!crmm_resource_is_equal(a, c));
    expect_failure(crmm_sam_headroom_memory_resource_create(1, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "out is NULL");
    crmm_resource_release(&a);
    crmm_resource_release(&b);
    crmm_resource_release(&c);
}

Test(emulation_system_memory_resource, advice_that_cannot_be_given_loses_nothing)
{
    static const char *const calls[] = {"cudaMemGetInfo", "cudaMemAdvise"};
    crmm_memory_info info = {.struct_size = sizeof(info)};

    reach_pageable();
    crmm_resource *mr = make_sam(0);
    for (int i = 0; i < 2; i++) {
        void *ptr = &mr;
        cudart_emulated_clear_faults();
        cudart_emulated_fail(calls[i], 1, 0, cudaErrorIllegalAddress);
        expect_failure(crmm_allocate(mr, NULL, 5000, 256, &ptr), CRMM_ERROR_CUDA, calls[i]);
        cr_assert(ptr == &mr);
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
    }
    crmm_resource_release(&mr);
}

Test(emulation_system_memory_resource, failures_of_the_heap_and_of_cuda_are_told)
{
    crmm_resource *mr = crmm_system_memory_resource();
    void *ptr = &mr;

    reach_pageable();
    expect_failure(crmm_allocate(mr, NULL, (size_t)1 << 62, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "system_memory_resource: 4611686018427387904 bytes with alignment 16");
    cudart_emulated_fail("cudaGetDevice", 1, 0, cudaErrorIllegalAddress);
    expect_failure(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_CUDA, "cudaGetDevice failed");
    cr_assert(ptr == &mr);
}
