/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools. */
#include "emulated.h"

bool pool_accessible(const struct pool *pool, const struct device *from)
{
    (void)pool, (void)from;
    return false;
}
cudaError_t pool_check(const struct range *range, uintptr_t va, size_t size,
                       const struct device *from)
{
    (void)range, (void)va, (void)size, (void)from;
    return cudaErrorInvalidValue;
}
enum cudaMemoryType pool_memory_type(const struct pool *pool)
{
    (void)pool;
    return cudaMemoryTypeDevice;
}
cudaError_t pool_free_now(struct range *range, uintptr_t va, enum fn fn)
{
    (void)range, (void)va, (void)fn;
    return cudaErrorInvalidValue;
}
void pools_give_back(struct device *device)
{
    (void)device;
}
void pool_forget_stream(struct stream *stream)
{
    (void)stream;
}
void pool_stream_synchronized(struct stream *stream)
{
    (void)stream;
}
void pool_device_synchronized(struct device *device)
{
    (void)device;
}
void pool_op_synchronized(struct op *op)
{
    (void)op;
}
void pools_reset_device(struct device *device)
{
    (void)device;
}

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    BEGIN(cudaMallocAsync, 0);
    (void)devPtr, (void)size, (void)hStream;
    END(cudaErrorNotSupported);
}
cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    BEGIN(cudaFreeAsync, 0);
    (void)devPtr, (void)hStream;
    END(cudaErrorNotSupported);
}
cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream)
{
    BEGIN(cudaMallocFromPoolAsync, 0);
    (void)ptr, (void)size, (void)memPool, (void)stream;
    END(cudaErrorNotSupported);
}
