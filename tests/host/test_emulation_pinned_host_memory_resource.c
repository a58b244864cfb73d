/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/pinned_host_memory_resource.h>

#include <cudart_emulated.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(emulation_pinned_host_memory_resource, a_stream_that_cannot_be_waited_for_keeps_the_block)
{
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    unsigned char *ptr = NULL;

    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&ptr));
    cudart_emulated_fail("cudaStreamSynchronize", 1, 1, cudaErrorIllegalAddress);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, stream, ptr, 4096, 256), CRMM_MISUSE_CUDA,
                  "waiting for the stream before freeing");
    expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
    memset(ptr, 1, 4096);
    crmm_deallocate(mr, stream, ptr, 4096, 256);
    expect_equal(misuse_recorded()->count, 1);
    expect_equal(cudart_emulated_pinned(NULL), 0);
    expect_equal(cudart_emulated_violations(), 0);
}

/* The emulation does not wait in cudaFreeHost and reports work that is pending on the memory. */
Test(emulation_pinned_host_memory_resource, no_work_is_pending_on_what_is_freed)
{
    crmm_resource *mr = crmm_pinned_host_memory_resource();

    for (unsigned long long seed = 0; seed < 20; seed++) {
        void *ptr = NULL;
        cudart_emulated_set_seed(seed);
        cudaStream_t stream = make_stream();
        expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
        cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
        crmm_deallocate(mr, stream, ptr, 4096, 256);
        cuda(cudaStreamDestroy(stream));
    }
    expect_equal(cudart_emulated_violations(), 0);
}
