/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/stream.h>

#include <cuda_runtime_api.h>

#include "expect.h"

/* Assignments without a cast: the types are CUDA's own. */
Test(stream, types_are_those_of_cuda)
{
    cudaStream_t cuda_stream = CRMM_STREAM_LEGACY;
    crmm_stream stream = cudaStreamPerThread;
    cudaMemPool_t cuda_pool = (crmm_mem_pool)NULL;

    cr_assert(cuda_stream == cudaStreamLegacy);
    cr_assert(stream == CRMM_STREAM_PER_THREAD);
    cr_assert(cuda_pool == NULL);
}

Test(stream, default_is_null_without_the_per_thread_macro)
{
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "this file tests the program without the macro"
#endif
    cr_assert(CRMM_STREAM_DEFAULT == NULL);
}
