/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_stream_pool.h>

#include <stdbool.h>
#include <stdlib.h>

#include <crmm/device/cuda_stream.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/report.h>

static const char class_name[] = "cuda_stream_pool";

/* Whether there are streams; reports if not. */
static bool check(const char *call, const crmm_cuda_stream_pool *pool)
{
    if (pool != NULL && pool->size != 0) {
        return true;
    }
    crmm_priv_report(
        (crmm_misuse){.kind = CRMM_MISUSE_INVALID_ARGUMENT, .resource_name = class_name},
        "%s: pool is %s", call, pool == NULL ? "NULL" : "empty");
    return false;
}

/* Destroy the first `count` streams and free the array. */
static void destroy(crmm_stream *streams, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        crmm_cuda_stream owner = {streams[i]};
        crmm_cuda_stream_finish(&owner);
    }
    free(streams);
}

crmm_status crmm_cuda_stream_pool_init(crmm_cuda_stream_pool *pool, size_t pool_size,
                                       uint64_t flags)
{
    if (pool == NULL || pool_size == 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "crmm_cuda_stream_pool_init: %s",
                    pool == NULL ? "pool is NULL" : "pool_size is 0");
    }
    crmm_stream *streams = calloc(pool_size, sizeof(crmm_stream));
    if (streams == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "crmm_cuda_stream_pool_init: no host memory for %zu streams", pool_size);
    }
    for (size_t i = 0; i < pool_size; i++) {
        crmm_cuda_stream created = {0};
        crmm_status status = crmm_cuda_stream_init(&created, flags);
        if (status != CRMM_SUCCESS) {
            destroy(streams, i);
            return status;
        }
        streams[i] = created.stream;
    }
    *pool = (crmm_cuda_stream_pool){.streams = streams, .size = pool_size};
    return CRMM_SUCCESS;
}

void crmm_cuda_stream_pool_finish(crmm_cuda_stream_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    destroy(pool->streams, pool->size);
    *pool = (crmm_cuda_stream_pool){0};
}

crmm_stream crmm_cuda_stream_pool_get_stream(crmm_cuda_stream_pool *pool)
{
    if (!check("crmm_cuda_stream_pool_get_stream", pool)) {
        return NULL;
    }
    return pool->streams[__atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED) % pool->size];
}

crmm_stream crmm_cuda_stream_pool_get_stream_by_id(const crmm_cuda_stream_pool *pool, size_t id)
{
    return check("crmm_cuda_stream_pool_get_stream_by_id", pool) ? pool->streams[id % pool->size]
                                                                 : NULL;
}

size_t crmm_cuda_stream_pool_size(const crmm_cuda_stream_pool *pool)
{
    return pool == NULL && !check("crmm_cuda_stream_pool_size", pool) ? 0 : pool->size;
}
