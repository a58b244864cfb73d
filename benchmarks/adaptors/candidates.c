/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what is measured. A new adaptor takes a create function and a row, both inside #if,
 * since each can be left out of the build; adaptors_config.h says which are in. The prefetch
 * adaptor has none: it adds one CUDA call, which over memory that is none says nothing.
 */
#include "candidates.h"

#include "adaptors_config.h"

#if HAVE_ADAPTOR_ALIGNED
#include <crmm/adaptors/aligned_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_FAILURE_CALLBACK
#include <crmm/adaptors/failure_callback_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_FAULT_INJECTION
#include <crmm/adaptors/fault_injection_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LOGGING
#include <crmm/adaptors/logging_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_NVTX
#include <crmm/adaptors/nvtx_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_THREAD_SAFE
#include <crmm/adaptors/thread_safe_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
#endif

static crmm_status create_bare(crmm_resource *upstream, crmm_resource **out)
{
    *out = crmm_resource_retain(upstream);
    return CRMM_SUCCESS;
}

#if HAVE_ADAPTOR_ALIGNED
/* It pads every block. */
static crmm_status create_aligned(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_aligned_resource_adaptor_create(
        upstream, CRMM_OPTIONS(crmm_aligned_resource_adaptor, .alignment = 1024), out);
}
#endif

#if HAVE_ADAPTOR_FAILURE_CALLBACK
static bool give_up(const crmm_failure *failure, void *user_data)
{
    (void)failure;
    (void)user_data;
    return false;
}

static crmm_status create_failure_callback(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_failure_callback_resource_adaptor_create(upstream, give_up, NULL, NULL, out);
}
#endif

#if HAVE_ADAPTOR_FAULT_INJECTION
/* A rule that no call meets. */
static crmm_status create_fault_injection(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_fault_injection_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_fault_injection_resource_adaptor, .fail_above = (size_t)PTRDIFF_MAX),
        out);
}
#endif

#if HAVE_ADAPTOR_LIMITING
static crmm_status create_limiting(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(upstream, PTRDIFF_MAX, NULL, out);
}
#endif

#if HAVE_ADAPTOR_LOGGING
/* Rows are made and written, and go nowhere. */
static crmm_status create_logging(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_logging_resource_adaptor_create(
        upstream, CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = "/dev/null"), out);
}
#endif

#if HAVE_ADAPTOR_NVTX
/* On, as it is with a tool; it costs more once one listens. */
static crmm_status create_nvtx(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_nvtx_resource_adaptor_create(
        upstream, CRMM_OPTIONS(crmm_nvtx_resource_adaptor, .mode = CRMM_NVTX_ON), out);
}
#endif

#if HAVE_ADAPTOR_TRACKING
static crmm_status create_tracking(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_tracking_resource_adaptor_create(upstream, NULL, out);
}
#endif

const candidate candidates[] = {
    {"bare", create_bare},
#if HAVE_ADAPTOR_ALIGNED
    {"aligned", create_aligned},
#endif
#if HAVE_ADAPTOR_FAILURE_CALLBACK
    {"failure_callback", create_failure_callback},
#endif
#if HAVE_ADAPTOR_FAULT_INJECTION
    {"fault_injection", create_fault_injection},
#endif
#if HAVE_ADAPTOR_LIMITING
    {"limiting", create_limiting},
#endif
#if HAVE_ADAPTOR_LOGGING
    {"logging", create_logging},
#endif
#if HAVE_ADAPTOR_NVTX
    {"nvtx", create_nvtx},
#endif
#if HAVE_ADAPTOR_STATISTICS
    {"statistics", crmm_statistics_resource_adaptor_create},
#endif
#if HAVE_ADAPTOR_THREAD_SAFE
    {"thread_safe", crmm_thread_safe_resource_adaptor_create},
#endif
#if HAVE_ADAPTOR_TRACKING
    {"tracking", create_tracking},
#endif
};

const size_t candidate_count = sizeof(candidates) / sizeof(candidates[0]);
