/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda.h"

#include <cuda_runtime_api.h>

static bool check(const char *call, cudaError_t error, problem *why)
{
    return error == cudaSuccess || problem_set(why, "%s failed: %s (%s)", call,
                                               cudaGetErrorName(error), cudaGetErrorString(error));
}

bool cuda_has_device(problem *why)
{
    int count = 0;

    return check("cudaGetDeviceCount", cudaGetDeviceCount(&count), why) &&
           (count > 0 || problem_set(why, "there is no CUDA device"));
}

bool cuda_create_stream(crmm_stream *out, problem *why)
{
    return check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(out, cudaStreamNonBlocking),
                 why);
}

bool cuda_destroy_stream(crmm_stream stream, problem *why)
{
    return check("cudaStreamDestroy", cudaStreamDestroy(stream), why);
}

bool cuda_synchronize(problem *why)
{
    return check("cudaDeviceSynchronize", cudaDeviceSynchronize(), why);
}
