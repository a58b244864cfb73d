/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_GUARD_H
#define CRMM_DEVICE_POOL_GUARD_H

/*
 * Guard bytes around the blocks of a pool that validates. Such a pool has a table of operations of
 * its own, whose calls come here and go on to those of the plain table with a larger block:
 *
 *   | 256 bytes, or the alignment if that is more | the block | 256 to 511 bytes |
 *
 * Guards are the last 256 before the block, and all behind it.
 *
 * What was asked for, by whom, is in a table beside it. A block is filled and looked at in the
 * order of the stream that the call names, or without a stream, on one of the guard's own. So on a
 * stream no allocation waits, unless the host does the filling or memory is poisoned, and every
 * deallocation does.
 *
 * Built with AddressSanitizer, the guards and all that is not handed out are poisoned where the
 * host can touch the memory.
 */

#include "pool.h"

/* Set up what validation needs, before the pool takes any memory. Its operations go on to `plain`.
 * On failure nothing is left behind. */
crmm_status crmm_priv_pool_guard_create(crmm_priv_pool *pool, const crmm_resource_ops *plain);

/* Report each block that is still out. */
void crmm_priv_pool_guard_report_leaks(const crmm_priv_pool *pool);

/* The pool has given its memory back. Without a guard a no-op. `usable`: CUDA may be called. */
void crmm_priv_pool_guard_finish(crmm_priv_pool *pool, bool usable);

/* ---- operations ---- */

crmm_status crmm_priv_pool_guard_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                          size_t alignment, void **ptr);
crmm_status crmm_priv_pool_guard_allocate_sync(crmm_resource *resource, size_t bytes,
                                               size_t alignment, void **ptr);
void crmm_priv_pool_guard_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                     size_t bytes, size_t alignment);
void crmm_priv_pool_guard_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                          size_t alignment);
void crmm_priv_pool_guard_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr);

/* ---- what it asks the pool ---- */

/*
 * Whether a call may queue work on a stream, NULL: a call without one, and the stream's id. If not,
 * that is described as the pool does for an allocation, or reported as for a deallocation of `ptr`.
 */
crmm_status crmm_priv_pool_may_allocate(const crmm_priv_pool *pool, const crmm_stream *stream,
                                        size_t bytes, uint64_t *id);
bool crmm_priv_pool_may_deallocate(crmm_priv_pool *pool, const crmm_stream *stream, void *ptr,
                                   size_t bytes, uint64_t *id);

#endif
