/* SPDX-License-Identifier: Apache-2.0 */
#include "subject.h"

#include <string.h>

#include "pool_model_config.h"

#if HAVE_POOL
#include "check.h"

static crmm_status pool_create(crmm_resource *upstream, const subject_options *options,
                               crmm_resource **out)
{
    return crmm_pool_memory_resource_create(
        upstream,
        CRMM_OPTIONS(
            crmm_pool_memory_resource, .initial_pool_size = options->initial_pool_size,
            .maximum_pool_size = options->maximum_pool_size,
            .release_threshold = options->release_threshold, .tight = options->tight,
            .target_pool_size = options->target_pool_size, .handle_size = options->handle_size,
            .stream_cache_size = options->stream_cache_size, .heap_count = options->heap_count,
            .on_chunk = options->on_chunk, .on_chunk_user_data = options->on_chunk_user_data),
        out);
}
#endif

static crmm_status no_retire(crmm_resource *pool, crmm_stream stream)
{
    (void)pool;
    (void)stream;
    return CRMM_SUCCESS;
}

static bool no_check(const crmm_resource *pool, char *why, size_t size)
{
    (void)pool;
    (void)why;
    (void)size;
    return true;
}

static const char *no_lock(crmm_resource *pool)
{
    (void)pool;
    return NULL;
}

#define TOY(name_, flaws_)                                                                  \
    static crmm_status toy_##name_(crmm_resource *upstream, const subject_options *options, \
                                   crmm_resource **out)                                     \
    {                                                                                       \
        return toy_pool_create(upstream, options, flaws_, out);                             \
    }

TOY(right, 0)
TOY(no_wait, TOY_NO_WAIT)
TOY(late_record, TOY_LATE_RECORD)
TOY(short_step, TOY_SHORT_STEP)
TOY(sync_pending, TOY_SYNC_PENDING)
TOY(early_release, TOY_EARLY_RELEASE)
TOY(stale_mark, TOY_STALE_MARK)

const subject subjects[] = {
#if HAVE_POOL
    {"pool", pool_create, crmm_pool_memory_resource_retire_stream, crmm_priv_pool_check,
     crmm_priv_pool_held_lock, true, true, true, crmm_pool_memory_resource_snapshot,
     crmm_pool_memory_resource_chunk, crmm_pool_memory_resource_statistics},
#endif
    {"toy", toy_right, no_retire, no_check, no_lock, false, false, false, NULL, NULL, NULL},
    {"toy-no-wait", toy_no_wait, no_retire, no_check, no_lock, false, false, false, NULL, NULL,
     NULL},
    {"toy-late-record", toy_late_record, no_retire, no_check, no_lock, false, false, false, NULL,
     NULL, NULL},
    {"toy-short-step", toy_short_step, no_retire, no_check, no_lock, false, false, false, NULL,
     NULL, NULL},
    {"toy-sync-pending", toy_sync_pending, no_retire, no_check, no_lock, false, false, false, NULL,
     NULL, NULL},
    {"toy-early-release", toy_early_release, no_retire, no_check, no_lock, false, false, false,
     NULL, NULL, NULL},
    {"toy-stale-mark", toy_stale_mark, no_retire, no_check, no_lock, false, false, false, NULL,
     NULL, NULL},
    {0},
};

const subject *subject_find(const char *name)
{
    for (const subject *found = subjects; found->name != NULL; found++) {
        if (strcmp(found->name, name) == 0) {
            return found;
        }
    }
    return NULL;
}
