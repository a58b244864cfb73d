/* SPDX-License-Identifier: Apache-2.0 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include <crmm/core/stream.h>

#include "expect.h"

Test(stream_per_thread, default_is_the_per_thread_stream_with_the_macro)
{
    cr_assert(CRMM_STREAM_DEFAULT == CRMM_STREAM_PER_THREAD);
}
