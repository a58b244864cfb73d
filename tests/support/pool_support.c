/* SPDX-License-Identifier: Apache-2.0 */
#include "pool_support.h"

#include <crmm/core/alignment.h>
#include <crmm/device/vmm_memory_resource.h>

#include "../../device/src/pool/check.h"

crmm_resource *pool_made(crmm_resource *upstream, const crmm_pool_memory_resource_options *options)
{
    crmm_resource *pool = NULL;

    need_devices(1);
    expect_success(crmm_pool_memory_resource_create(upstream, options, &pool));
    return pool;
}

crmm_resource *make_vmm(void)
{
    crmm_resource *vmm = NULL;

    need_devices(1);
    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .require = 1), &vmm));
    return vmm;
}

crmm_memory_info info_of(const crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    expect_success(crmm_resource_info(mr, &info));
    return info;
}

crmm_pool_statistics statistics_of(const crmm_resource *pool)
{
    crmm_pool_statistics statistics = {.struct_size = sizeof(statistics)};

    expect_success(crmm_pool_memory_resource_statistics(pool, &statistics));
    return statistics;
}

typedef struct sums {
    size_t live, live_count, free, pending;
    uintptr_t end;
} sums;

static void add(const crmm_pool_block *block, void *user_data)
{
    sums *all = user_data;

    cr_assert((uintptr_t)block->ptr >= all->end, "block %p lies in the one before", block->ptr);
    cr_assert(block->bytes > 0 && block->bytes % CRMM_DEVICE_ALIGNMENT == 0);
    cr_assert(block->is_live == 0 || (block->is_pending == 0 && block->stream_id == 0));
    all->end = (uintptr_t)block->ptr + block->bytes;
    all->live += block->is_live != 0 ? block->bytes : 0;
    all->live_count += block->is_live != 0;
    all->free += block->is_live != 0 ? 0 : block->bytes;
    all->pending += block->is_pending != 0 ? block->bytes : 0;
}

void expect_sound_books(const crmm_resource *pool)
{
    crmm_memory_info info = info_of(pool);
    sums all = {0};
    char why[200] = "";

    expect_equal(info.live + info.cached, info.held);
    expect_equal(info.held, crmm_pool_memory_resource_pool_size(pool));
    cr_assert(info.pending <= info.cached && info.largest_free <= info.cached);
    cr_assert(info.peak_live >= info.live && info.peak_held >= info.held);
    expect_success(crmm_pool_memory_resource_snapshot(pool, add, &all));
    expect_equal(all.live, info.live);
    expect_equal(all.live_count, info.allocations);
    expect_equal(all.free, info.cached);
    expect_equal(all.pending, info.pending);
    cr_assert(crmm_priv_pool_check(pool, why, sizeof(why)), "%s", why);
}

void *take(crmm_resource *pool, cudaStream_t stream, size_t bytes)
{
    void *ptr = NULL;

    expect_success(crmm_allocate(pool, stream, bytes, CRMM_DEVICE_ALIGNMENT, &ptr));
    cr_assert(ptr != NULL);
    return ptr;
}
