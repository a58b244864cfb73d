/* SPDX-License-Identifier: Apache-2.0 */
/* Linked against a toolkit's shared runtime, run with the emulation's in its place. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    static struct cudaDeviceProp prop;
    unsigned char byte = 0;
    void *p = NULL;
    cudaStream_t s;
    if (cudaGetDeviceProperties(&prop, 0) != cudaSuccess ||
        strncmp(prop.name, "cudart-emulated", 15) != 0) {
        fprintf(stderr, "another runtime: %s\n", prop.name);
        return 1;
    }
    if (cudaStreamCreate(&s) != cudaSuccess || cudaMalloc(&p, 64) != cudaSuccess ||
        cudaMemsetAsync(p, 7, 64, s) != cudaSuccess || cudaStreamSynchronize(s) != cudaSuccess ||
        cudaMemcpy(&byte, p, 1, cudaMemcpyDeviceToHost) != cudaSuccess) {
        return 1;
    }
    return byte == 7 ? 0 : 1;
}
