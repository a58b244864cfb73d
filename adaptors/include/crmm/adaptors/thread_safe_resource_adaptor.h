/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_THREAD_SAFE_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_THREAD_SAFE_RESOURCE_ADAPTOR_H

#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Create an adaptor that lets one thread at a time into what is below it, for a resource that was
 * written without thought of threads. No resource of this library needs it. It has the upstream's
 * properties and device.
 *
 * One lock is held across every call of the upstream: allocating, giving back, trimming, figures
 * and description. That covers all that is below, provided nobody uses the upstream behind the
 * adaptor's back. It is the only place of the library where a callback (a misuse handler, a failure
 * callback below, user functions) can run with a lock held. The callback may use the adaptor from
 * the same thread, for the lock may be taken again by its holder; it must not wait for another
 * thread that uses the adaptor.
 *
 * @param upstream where memory comes from; retained
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor or its lock
 *
 * Thread-safety: safe, with the lock described. After a fork a child must not use it if another
 * thread was inside.
 */
CRMM_API CRMM_NODISCARD crmm_status
crmm_thread_safe_resource_adaptor_create(crmm_resource *upstream, crmm_resource **out);

CRMM_END_DECLS

#endif
