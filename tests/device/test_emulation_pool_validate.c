/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <cudart_emulated.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static crmm_resource *make(void)
{
    crmm_resource *made = NULL;

    expect_success(crmm_pool_memory_resource_create(
        NULL, CRMM_OPTIONS(crmm_pool_memory_resource, .validate = 1), &made));
    misuse_recorder_start();
    return made;
}

Test(emulation_pool_validate, an_allocation_whose_guards_cannot_be_filled_leaves_nothing)
{
    static const struct {
        const char *call;
        unsigned long long positions;
    } calls[] = {{"cudaMemsetAsync", 2}, {"cudaStreamSynchronize", 1}};
    crmm_resource *mr = make();
    crmm_memory_info info = {.struct_size = sizeof(info)};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned long long position = 1; position <= calls[i].positions; position++) {
            void *ptr = &ptr;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i].call, position, 1, cudaErrorInvalidValue);
            expect_failure(crmm_allocate_sync(mr, 1000, 256, &ptr), CRMM_ERROR_CUDA, calls[i].call);
            cr_assert(ptr == &ptr);
            expect_success(crmm_resource_info(mr, &info));
            expect_equal(info.allocations, 0);
        }
    }
    cudart_emulated_clear_faults();
    crmm_resource_release(&mr);
    expect_equal(misuse_recorded()->count, 0);
    cudart_emulated_fail("cudaStreamCreateWithFlags", 1, 1, cudaErrorInvalidValue);
    expect_failure(crmm_pool_memory_resource_create(
                       NULL, CRMM_OPTIONS(crmm_pool_memory_resource, .validate = 1), &mr),
                   CRMM_ERROR_CUDA, "cudaStreamCreateWithFlags");
    cr_assert(mr == NULL);
}

Test(emulation_pool_validate, guards_that_cannot_be_read_are_told_of_and_the_block_is_taken_back)
{
    static const struct {
        const char *call;
        unsigned long long positions;
    } calls[] = {{"cudaMemcpyAsync", 2}, {"cudaStreamSynchronize", 1}};
    crmm_resource *mr = make();
    crmm_memory_info info = {.struct_size = sizeof(info)};
    cudaStream_t stream = make_stream();

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (unsigned long long position = 1; position <= calls[i].positions; position++) {
            void *ptr = NULL;
            expect_success(crmm_allocate(mr, stream, 1000, 256, &ptr));
            crmm_status before = crmm_last_error()->status;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(calls[i].call, position, 1, cudaErrorInvalidValue);
            expect_misuse(crmm_deallocate(mr, stream, ptr, 1000, 256), CRMM_MISUSE_CUDA,
                          "cannot be looked at: cudaErrorInvalidValue");
            expect_equal(misuse_recorded()->latest.native_code, cudaErrorInvalidValue);
            expect_equal(crmm_last_error()->status, before);
            expect_success(crmm_resource_info(mr, &info));
            expect_equal(info.allocations, 0);
        }
    }
    cudart_emulated_clear_faults();
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&mr);
}
