/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_PREFETCH_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_PREFETCH_RESOURCE_ADAPTOR_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Create an adaptor that prefetches what it allocates, so that the first kernel does not fault the
 * pages in one by one. Useful over managed memory; harmless over any other. It has the upstream's
 * properties and device, and prefetches to that device, or to the current one where the upstream
 * belongs to none.
 *
 * crmm_allocate() queues the prefetch on its stream. crmm_allocate_sync() uses the thread's
 * per-thread default stream and, if anything was queued, waits for it.
 *
 * A prefetch is a hint: one that cannot be made (see crmm_prefetch()), or that CUDA refuses, never
 * fails the allocation and leaves no error behind. Those refused are counted, and
 * crmm_resource_describe() tells how many there were. On a stream that is being captured no
 * prefetch is made.
 *
 * @param upstream where memory comes from; retained
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * Thread-safety: safe, without a lock.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_prefetch_resource_adaptor_create(crmm_resource *upstream,
                                                                          crmm_resource **out);

CRMM_END_DECLS

#endif
