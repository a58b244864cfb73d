/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <crmm/internal/fail.h>

#include "accounts.h"

static crmm_memory_info info_of(const crmm_priv_pool *pool)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    (void)crmm_priv_pool_info(&pool->base, &info);
    return info;
}

static void note(const crmm_memory_info *info)
{
    crmm_priv_note_memory(info->live, info->cached, info->pending, info->largest_free);
}

/* Whether what is free, and what may still come from upstream, are enough together. */
static bool is_enough(const crmm_priv_pool *pool, const crmm_memory_info *info, size_t need)
{
    size_t unit = pool->is_in_place ? pool->page : CRMM_PRIV_POOL_GRANULE;
    size_t most = pool->maximum / unit * unit;

    return info->live <= most && need <= most - info->live;
}

/* Why what is left below the maximum did not do. */
static const char *reason(const crmm_priv_pool *pool, const crmm_memory_info *info, size_t need)
{
    if (!is_enough(pool, info, need)) {
        return "";
    }
    return info->pending == 0 ? "; enough is left, but no piece fits"
                              : "; enough is left, but no piece fits, or it is pending";
}

static crmm_status fail_below(const crmm_priv_pool *pool, size_t bytes,
                              const crmm_memory_info *info, const crmm_error *before)
{
    crmm_status status = crmm_status_is_allocation_failure(before->status)
                             ? CRMM_ERROR_OUT_OF_MEMORY
                             : before->status;

    crmm_priv_fail(status, before->native_code, bytes,
                   "%s: no %zu bytes: %zu live, %zu free, of which %zu pending, longest run %zu; "
                   "upstream refused: %s",
                   crmm_priv_pool_name(pool), bytes, info->live, info->cached, info->pending,
                   info->largest_free, before->message);
    note(info);
    return status;
}

crmm_status crmm_priv_pool_fail(crmm_priv_pool *pool, size_t bytes, uint32_t size,
                                crmm_priv_pool_growth growth)
{
    const crmm_error before = *crmm_last_error();
    const crmm_memory_info info = info_of(pool);

    if (growth == CRMM_PRIV_POOL_REFUSED && before.status != CRMM_SUCCESS) {
        return fail_below(pool, bytes, &info, &before);
    }
    crmm_priv_fail(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                   "%s: no %zu bytes: %zu live, %zu free, of which %zu pending, longest run %zu, "
                   "of at most %zu%s",
                   crmm_priv_pool_name(pool), bytes, info.live, info.cached, info.pending,
                   info.largest_free, pool->maximum,
                   growth == CRMM_PRIV_POOL_AT_MAXIMUM
                       ? reason(pool, &info, crmm_priv_pool_bytes_of(size))
                       : "");
    note(&info);
    return CRMM_ERROR_OUT_OF_MEMORY;
}

crmm_status crmm_priv_pool_fail_too_large(crmm_priv_pool *pool, size_t bytes, size_t alignment,
                                          size_t most)
{
    const crmm_memory_info info = info_of(pool);

    crmm_priv_fail(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                   "%s: %zu bytes with alignment %zu are more than it may hold, %zu",
                   crmm_priv_pool_name(pool), bytes, alignment, most);
    note(&info);
    return CRMM_ERROR_OUT_OF_MEMORY;
}
