/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_STREAM_H
#define CRMM_CORE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/attributes.h>

CRMM_BEGIN_DECLS

/* The types behind cudaStream_t / CUstream and cudaMemPool_t / CUmemoryPool, named here so that
 * these headers need no CUDA header. */
struct CUstream_st;
struct CUmemPoolHandle_st;

/** A CUDA stream, the same type as cudaStream_t. Never owned. NULL is the legacy default stream. */
typedef struct CUstream_st *crmm_stream;

/** A CUDA memory pool, the same type as cudaMemPool_t. */
typedef struct CUmemPoolHandle_st *crmm_mem_pool;

/** The legacy default stream by its explicit handle (cudaStreamLegacy). */
#define CRMM_STREAM_LEGACY ((crmm_stream)(uintptr_t)1)

/** The calling thread's per-thread default stream (cudaStreamPerThread). */
#define CRMM_STREAM_PER_THREAD ((crmm_stream)(uintptr_t)2)

/**
 * The default stream of the including program: NULL, or the per-thread stream where the program is
 * compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM. The library itself never looks at that macro.
 */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CRMM_STREAM_DEFAULT CRMM_STREAM_PER_THREAD
#else
#define CRMM_STREAM_DEFAULT ((crmm_stream)0)
#endif

CRMM_END_DECLS

#endif
