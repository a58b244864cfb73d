/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_stream_pool.h>

#include <crmm/device/cuda_stream.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(cuda_stream_pool, hands_streams_out_in_turn)
{
    crmm_cuda_stream_pool pool;
    crmm_stream streams[CRMM_CUDA_STREAM_POOL_DEFAULT_SIZE];

    need_devices(1);
    expect_success(crmm_cuda_stream_pool_init(&pool, CRMM_CUDA_STREAM_POOL_DEFAULT_SIZE,
                                              CRMM_CUDA_STREAM_NON_BLOCKING));
    expect_equal(crmm_cuda_stream_pool_size(&pool), 16);
    for (size_t i = 0; i < 16; i++) {
        streams[i] = crmm_cuda_stream_pool_get_stream(&pool);
        cr_assert(streams[i] != NULL);
        cr_assert(streams[i] == crmm_cuda_stream_pool_get_stream_by_id(&pool, i));
        cr_assert(streams[i] == crmm_cuda_stream_pool_get_stream_by_id(&pool, i + 16 * 1000));
        for (size_t j = 0; j < i; j++) {
            cr_assert(streams[i] != streams[j]);
        }
        cuda(cudaStreamQuery(streams[i]));
    }
    cr_assert(crmm_cuda_stream_pool_get_stream(&pool) == streams[0]);
    cr_assert(crmm_cuda_stream_pool_get_stream_by_id(&pool, SIZE_MAX) == streams[SIZE_MAX % 16]);
    crmm_cuda_stream_pool_finish(&pool);
    cr_assert(pool.streams == NULL && pool.size == 0);
    crmm_cuda_stream_pool_finish(&pool);
    crmm_cuda_stream_pool_finish(NULL);
}

Test(cuda_stream_pool, streams_have_the_flags_asked_for)
{
    crmm_cuda_stream_pool pool;

    need_devices(1);
    for (uint64_t flags = 0; flags < 2; flags++) {
        unsigned int found = 99;
        expect_success(crmm_cuda_stream_pool_init(&pool, 1, flags));
        cuda(cudaStreamGetFlags(crmm_cuda_stream_pool_get_stream(&pool), &found));
        expect_equal(found, flags);
        cr_assert(crmm_cuda_stream_pool_get_stream(&pool) ==
                  crmm_cuda_stream_pool_get_stream(&pool));
        crmm_cuda_stream_pool_finish(&pool);
    }
}

Test(cuda_stream_pool, refuses_bad_arguments)
{
    crmm_cuda_stream_pool pool = {.size = 77};

    need_devices(1);
    expect_failure(crmm_cuda_stream_pool_init(NULL, 1, 0), CRMM_ERROR_INVALID_ARGUMENT,
                   "pool is NULL");
    expect_failure(crmm_cuda_stream_pool_init(&pool, 0, 0), CRMM_ERROR_INVALID_ARGUMENT,
                   "pool_size is 0");
    expect_failure(crmm_cuda_stream_pool_init(&pool, 1, 2), CRMM_ERROR_INVALID_ARGUMENT,
                   "flags is 2");
    expect_failure(crmm_cuda_stream_pool_init(&pool, SIZE_MAX / 8 + 2, 0), CRMM_ERROR_OUT_OF_MEMORY,
                   "streams");
    expect_equal(pool.size, 77);
}

Test(cuda_stream_pool, using_an_empty_one_is_misuse)
{
    crmm_cuda_stream_pool empty = {0};

    misuse_recorder_start();
    expect_misuse(cr_assert(crmm_cuda_stream_pool_get_stream(&empty) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "pool is empty");
    expect_misuse(cr_assert(crmm_cuda_stream_pool_get_stream_by_id(NULL, 3) == NULL),
                  CRMM_MISUSE_INVALID_ARGUMENT, "pool is NULL");
    expect_misuse(expect_equal(crmm_cuda_stream_pool_size(NULL), 0), CRMM_MISUSE_INVALID_ARGUMENT,
                  "crmm_cuda_stream_pool_size: pool is NULL");
    expect_equal(crmm_cuda_stream_pool_size(&empty), 0);
    expect_equal(misuse_recorded()->count, 3);
}
