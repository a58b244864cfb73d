/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of what is measured. A new adaptor takes a create function and a row, both inside #if,
 * since each can be left out of the build; adaptors_config.h says which are in.
 */
#include "candidates.h"

#include "adaptors_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
#endif

static crmm_status create_bare(crmm_resource *upstream, crmm_resource **out)
{
    *out = crmm_resource_retain(upstream);
    return CRMM_SUCCESS;
}

#if HAVE_ADAPTOR_LIMITING
static crmm_status create_limiting(crmm_resource *upstream, crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(upstream, PTRDIFF_MAX, NULL, out);
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
#if HAVE_ADAPTOR_LIMITING
    {"limiting", create_limiting},
#endif
#if HAVE_ADAPTOR_STATISTICS
    {"statistics", crmm_statistics_resource_adaptor_create},
#endif
#if HAVE_ADAPTOR_TRACKING
    {"tracking", create_tracking},
#endif
};

const size_t candidate_count = sizeof(candidates) / sizeof(candidates[0]);
