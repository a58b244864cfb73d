/* SPDX-License-Identifier: Apache-2.0 */
#include "refuse.h"

#include <crmm/internal/fail.h>
#include <crmm/internal/report.h>

#include "guard.h"
#include "kind.h"
#include "stream_id.h"

/* ---- allocations ---- */

crmm_status crmm_priv_pool_refuse(const crmm_priv_pool *pool, crmm_stream stream, size_t bytes,
                                  int code)
{
    if (crmm_priv_pool_is_forked(pool)) {
        return FAIL_BYTES(CRMM_ERROR_FORKED, 0, bytes,
                          "%s: a pool cannot be used in a forked child of the process that made it",
                          crmm_priv_pool_name(pool));
    }
    if (code == CRMM_PRIV_CAPTURING) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: stream %p is being captured, and what a pool hands out in a capture "
                          "could not be given back in it",
                          crmm_priv_pool_name(pool), (void *)stream);
    }
    crmm_status status = crmm_priv_cuda_stream_failed(crmm_priv_pool_name(pool), stream, code);
    if (bytes > 0) {
        crmm_priv_fail_for(bytes, "no %zu bytes: ", bytes);
    }
    return status;
}

crmm_status crmm_priv_pool_no_host_memory(const crmm_priv_pool *pool, size_t bytes)
{
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes, "%s: no host memory for a cache",
                      crmm_priv_pool_name(pool));
}

/* ---- deallocations ---- */

static void report_forked(const crmm_priv_pool *pool, const void *ptr, size_t bytes)
{
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_FORKED,
                                   .resource_name = crmm_priv_pool_name(pool),
                                   .ptr = ptr,
                                   .bytes = bytes},
                     "%s: %p given back in a forked child", crmm_priv_pool_name(pool), ptr);
}

/* A block that is not known, or not so. */
static void report_block(crmm_priv_pool *pool, void *ptr, size_t bytes, size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_FOREIGN_POINTER,
                         .resource_name = crmm_priv_pool_name(pool),
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment};
    const crmm_priv_pool_chunk *chunk = crmm_priv_pool_chunks_find(&pool->chunks, ptr);

    if (chunk == NULL) {
        crmm_priv_report(found, "%s: %p given back with %zu bytes is not from this pool",
                         crmm_priv_pool_name(pool), ptr, bytes);
        return;
    }
    size_t live = crmm_priv_pool_block_bytes(pool, chunk, ptr);
    if (live != 0) {
        found.kind = CRMM_MISUSE_SIZE_MISMATCH;
        crmm_priv_report(
            found, "%s: %p given back with %zu bytes and alignment %zu is a block of %zu bytes",
            crmm_priv_pool_name(pool), ptr, bytes, alignment, live);
        return;
    }
    if (crmm_priv_pool_is_block_start(pool, chunk, ptr)) {
        found.kind = CRMM_MISUSE_DOUBLE_FREE;
        crmm_priv_report(found, "%s: %p of %zu bytes was given back before",
                         crmm_priv_pool_name(pool), ptr, bytes);
        return;
    }
    crmm_priv_report(found, "%s: no block of this pool begins at %p, given back with %zu bytes",
                     crmm_priv_pool_name(pool), ptr, bytes);
}

void crmm_priv_pool_report_block(crmm_priv_pool *pool, void *ptr, size_t bytes, size_t alignment)
{
    if (crmm_priv_pool_is_forked(pool)) {
        report_forked(pool, ptr, bytes);
    } else {
        report_block(pool, ptr, bytes, alignment);
    }
}

void crmm_priv_pool_report_stream(crmm_priv_pool *pool, crmm_stream stream, void *ptr, size_t bytes,
                                  int code)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_CUDA,
                         .native_code = code,
                         .resource_name = crmm_priv_pool_name(pool),
                         .ptr = ptr,
                         .bytes = bytes};

    if (crmm_priv_pool_is_forked(pool)) {
        report_forked(pool, ptr, bytes);
        return;
    }
    if (code == CRMM_PRIV_CAPTURING) {
        found.kind = CRMM_MISUSE_UNSUPPORTED;
        found.native_code = 0;
        crmm_priv_report(found, "%s: %p given back on stream %p, which is being captured",
                         crmm_priv_pool_name(pool), ptr, (void *)stream);
        return;
    }
    if (crmm_priv_cuda_ready(crmm_priv_pool_name(pool)) != CRMM_SUCCESS) {
        return; /* the program is ending */
    }
    crmm_priv_report(found, "%s: %p given back on stream %p, of which CUDA says: %s (%s)",
                     crmm_priv_pool_name(pool), ptr, (void *)stream,
                     crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
}

/* ---- work that a guard queues ---- */

/* What a call finds out about its stream, and what work that it queues there needs besides: of the
 * default streams, that no capture forbids their use. */
static int look_at_stream(const crmm_priv_pool *pool, const crmm_stream *stream, uint64_t *id)
{
    int previous = -1;
    int code = 0;

    *id = stream != NULL ? crmm_priv_pool_id_of(pool, *stream) : CRMM_PRIV_POOL_NO_STREAM;
    if (!crmm_priv_is_stream_id(*id)) {
        return crmm_priv_stream_id_code(*id);
    }
    if (stream != NULL && !crmm_priv_pool_is_created(*stream)) {
        code = crmm_priv_cuda_try_enter_device(pool->device, &previous);
        if (code == 0) {
            code = crmm_priv_stream_check_capture(*stream);
            crmm_priv_cuda_leave_device(previous);
        }
    }
    return code;
}

crmm_status crmm_priv_pool_may_allocate(const crmm_priv_pool *pool, const crmm_stream *stream,
                                        size_t bytes, uint64_t *id)
{
    int code = crmm_priv_pool_is_forked(pool) ? -1 : look_at_stream(pool, stream, id);
    return code == 0 ? CRMM_SUCCESS
                     : crmm_priv_pool_refuse(pool, stream != NULL ? *stream : NULL, bytes, code);
}

bool crmm_priv_pool_may_deallocate(crmm_priv_pool *pool, const crmm_stream *stream, void *ptr,
                                   size_t bytes, uint64_t *id)
{
    int code = crmm_priv_pool_is_forked(pool) ? -1 : look_at_stream(pool, stream, id);
    if (code != 0) {
        crmm_priv_pool_report_stream(pool, stream != NULL ? *stream : NULL, ptr, bytes, code);
    }
    return code == 0;
}
