/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a pool: everything goes back to upstream, and what stays is reported. */

#include <stdlib.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>

#include "guard.h"
#include "kind.h"
#include "memory.h"
#include "registry.h"
#include "settle.h"
#include "wait.h"

static void free_parts(crmm_priv_pool *pool)
{
    crmm_priv_pool_delete_caches(pool);
    free(pool->open);
    crmm_priv_pool_chunks_finish(&pool->chunks);
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        crmm_priv_extents_finish(&pool->heaps[i]->extents);
        free(pool->heaps[i]);
    }
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->grown);
}

static void report_leak(const crmm_priv_pool *pool, size_t live, size_t left)
{
    if (live > 0) {
        crmm_priv_report(
            (crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                          .resource_name = crmm_priv_pool_name(pool),
                          .bytes = live},
            "%s: released with %zu bytes alive; the memory that holds them, %zu bytes, is lost",
            crmm_priv_pool_name(pool), live, left);
    }
}

/* Nobody has it, and a CUDA call has failed that would have given it back. */
static void report_lost(const crmm_priv_pool *pool, size_t left, size_t addresses)
{
    if (left + addresses > 0) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_CUDA,
                                       .native_code = crmm_last_error()->native_code,
                                       .resource_name = crmm_priv_pool_name(pool),
                                       .bytes = left},
                         "%s: released, and %zu bytes of memory and %zu of addresses are lost: %s",
                         crmm_priv_pool_name(pool), left, addresses, crmm_last_error()->message);
    }
}

/* A call that failed once is made again: there is no next time. A CUDA error code. */
static int settle(crmm_priv_pool *pool)
{
    crmm_priv_pool_settle_streams(pool);
    if (crmm_priv_pool_is_settled(pool)) {
        return 0;
    }
    int code = crmm_priv_pool_wait_for_all(pool);
    return code == 0 ? 0 : crmm_priv_pool_wait_for_all(pool);
}

/* Give everything back and say what stays, and why. */
static void give_back(crmm_priv_pool *pool)
{
    size_t addresses = 0;

    (void)crmm_priv_pool_flush_all(pool);
    size_t live = crmm_priv_pool_live(pool);
    crmm_priv_pool_pause_solo(pool); /* for good */
    /* Without the wait only what is known to be complete goes. */
    (void)crmm_priv_cuda_check("a wait for the device", settle(pool));
    size_t left = crmm_priv_pool_give_back(pool, &addresses);
    if (pool->guard != NULL) {
        crmm_priv_pool_guard_report_leaks(pool);
    } else {
        report_leak(pool, live, left);
    }
    if (live == 0) {
        report_lost(pool, left, addresses);
    }
}

void crmm_priv_pool_destroy(crmm_resource *resource)
{
    crmm_priv_pool *pool = (crmm_priv_pool *)resource;
    const crmm_error before = *crmm_last_error();
    /* At exit CUDA takes everything back; in a forked child nothing here is the child's. */
    bool usable =
        !crmm_priv_pool_is_forked(pool) &&
        (pool->device < 0 || crmm_priv_cuda_ready(crmm_priv_pool_name(pool)) == CRMM_SUCCESS);

    if (usable) {
        give_back(pool);
    }
    crmm_priv_pool_streams_finish(&pool->streams); /* where CUDA is gone, so are the events */
    crmm_resource *upstream = pool->upstream;
    crmm_priv_pool_guard_finish(pool, usable);
    free_parts(pool);
    crmm_resource_storage_free(resource);
    crmm_resource_release(&upstream);
    crmm_priv_restore_error(&before);
}
