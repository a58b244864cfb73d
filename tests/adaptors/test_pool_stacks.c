/* SPDX-License-Identifier: Apache-2.0 */
/* Adaptors below and above a pool. */
#include <crmm/device/pool_memory_resource.h>

#include "adaptors_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LOGGING
#include <crmm/adaptors/logging_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
#endif
#include <crmm/device/cuda_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"

#if HAVE_ADAPTOR_LIMITING
/* The limit below a pool: it grows by less as it comes near, and gives idle chunks back there. */
Test(pool_stacks, over_a_limit_a_pool_fails_when_that_is_used_up)
{
    crmm_resource *limit = NULL;
    void *refused = &refused;

    need_devices(1);
    expect_success(
        crmm_limiting_resource_adaptor_create(crmm_cuda_memory_resource(), 20 * MIB, NULL, &limit));
    crmm_resource *pool = make_pool(limit, .tight = 0);
    cudaStream_t stream = make_stream();
    void *one = take(pool, stream, 9 * MIB);
    void *two = take(pool, stream, 9 * MIB);
    expect_failure(crmm_allocate(pool, stream, 9 * MIB, 256, &refused), CRMM_ERROR_OUT_OF_MEMORY,
                   "upstream refused: ");
    cr_assert(refused == &refused);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(limit), info_of(pool).held);
    crmm_deallocate(pool, stream, one, 9 * MIB, 256);
    crmm_deallocate(pool, stream, two, 9 * MIB, 256);
    void *whole = take(pool, stream, 20 * MIB);
    crmm_deallocate(pool, stream, whole, 20 * MIB, 256);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    expect_equal(crmm_limiting_resource_adaptor_allocated_bytes(limit), 0);
    crmm_resource_release(&limit);
    cuda(cudaStreamDestroy(stream));
}

/* The limit above a pool counts what is asked for, whatever the pool holds. */
Test(pool_stacks, under_a_limit_idle_memory_does_not_count)
{
    crmm_resource *limited = NULL;
    void *refused = &refused;
    void *ptr = NULL;

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 16 * MIB);
    expect_success(crmm_limiting_resource_adaptor_create(pool, 4 * MIB, NULL, &limited));
    for (int i = 0; i < 3; i++) {
        expect_success(crmm_allocate(limited, NULL, 4 * MIB, 256, &ptr));
        expect_status(crmm_allocate(limited, NULL, 256, 256, &refused), CRMM_ERROR_LIMIT_EXCEEDED);
        crmm_deallocate(limited, NULL, ptr, 4 * MIB, 256);
    }
    crmm_resource_release(&limited);
    crmm_resource_release(&pool);
}
#endif

#if HAVE_ADAPTOR_STATISTICS && HAVE_ADAPTOR_TRACKING && HAVE_ADAPTOR_LOGGING
static bool count_rows(const char *data, size_t size, void *user_data)
{
    for (size_t i = 0; i < size; i++) {
        *(size_t *)user_data += data[i] == '\n';
    }
    return true;
}

/* What is counted above is what was asked for, not what the pool rounds it to. */
Test(pool_stacks, statistics_tracking_and_log_over_a_pool_agree_with_it)
{
    crmm_resource *statistics = NULL;
    crmm_resource *tracking = NULL;
    crmm_resource *top = NULL;
    crmm_statistics_counter bytes;
    crmm_statistics_counter allocations;
    size_t rows = 0;
    void *ptrs[100];

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    expect_success(crmm_statistics_resource_adaptor_create(pool, &statistics));
    expect_success(crmm_tracking_resource_adaptor_create(statistics, NULL, &tracking));
    expect_success(crmm_logging_resource_adaptor_create(
        tracking,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = count_rows, .user_data = &rows,
                     .auto_flush = 1),
        &top));
    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    size_t before = rows;
    size_t asked = 0;
    for (size_t i = 0; i < 100; i++) {
        expect_success(crmm_allocate(top, stream, 1000 + i * 777, 256, &ptrs[i]));
        asked += 1000 + i * 777;
    }
    expect_success(crmm_statistics_resource_adaptor_counters(statistics, &bytes, &allocations));
    expect_equal(bytes.value, asked);
    expect_equal(allocations.value, 100);
    expect_equal(crmm_tracking_resource_adaptor_allocated_bytes(tracking), asked);
    expect_equal(info_of(pool).allocations, 100);
    cr_assert(info_of(pool).live >= asked && info_of(pool).live <= asked + asked / 8 + 100 * 256);
    for (size_t i = 0; i < 100; i++) {
        crmm_deallocate(top, stream, ptrs[i], 1000 + i * 777, 256);
    }
    /* A trim goes through all of them. */
    cuda(cudaStreamSynchronize(stream));
    expect_success(crmm_resource_trim(top, 0, NULL));
    expect_equal(info_of(pool).held, 0);
    expect_equal(rows - before, 200);
    expect_equal(crmm_tracking_resource_adaptor_outstanding_count(tracking), 0);
    crmm_resource_release(&pool);
    crmm_resource_release(&statistics);
    crmm_resource_release(&tracking);
    crmm_resource_release(&top);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
    cuda(cudaStreamDestroy(stream));
}
#endif
