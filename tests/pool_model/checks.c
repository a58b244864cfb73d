/* SPDX-License-Identifier: Apache-2.0 */
#include "program_state.h"

enum { VIEWS_EVERY = 8 }; /* checks */

static bool get_figures(program *own, crmm_memory_info *info)
{
    *info = (crmm_memory_info){.struct_size = sizeof(*info)};
    crmm_status status = crmm_resource_info(own->pool, info);
    if (status != CRMM_SUCCESS) {
        sim_fail("info: %s", crmm_status_name(status));
    }
    return status == CRMM_SUCCESS;
}

static void check_live(const program *own, const crmm_memory_info *info)
{
    if (info->allocations != own->block_count) {
        sim_fail("info: %zu allocations instead of %u", info->allocations, own->block_count);
    }
    if (info->live < own->asked || (own->block_count == 0 && info->live != 0)) {
        sim_fail("info: %zu bytes are live where %zu were asked for", info->live, own->asked);
    }
    if (info->peak_live < info->live || info->peak_held < info->held) {
        sim_fail("info: a peak is less than what it is the peak of");
    }
}

static void check_held(const program *own, const crmm_memory_info *info)
{
    size_t maximum = own->like.options.maximum_pool_size;

    if (info->held != own->upstream->held) {
        sim_fail("info: %zu bytes are held where upstream gave %zu", info->held,
                 own->upstream->held);
    }
    if (maximum != 0 && own->upstream->peak > maximum) {
        sim_fail("info: %zu bytes were held and the maximum is %zu", own->upstream->peak, maximum);
    }
    if (info->live + info->cached != info->held) {
        sim_fail("info: %zu live and %zu cached bytes are not the %zu that are held", info->live,
                 info->cached, info->held);
    }
    if (info->pending > info->cached || info->largest_free > info->cached) {
        sim_fail("info: %zu pending bytes and a free run of %zu within %zu cached", info->pending,
                 info->largest_free, info->cached);
    }
}

void program_check_figures(program *own)
{
    crmm_memory_info info;

    if (get_figures(own, &info)) {
        check_live(own, &info);
        check_held(own, &info);
    }
}

void program_check(program *own)
{
    char why[256] = "";

    program_check_figures(own);
    if (!own->pool_class->check(own->pool, why, sizeof(why))) {
        sim_fail("structure: %s", why);
    }
    /* This costs as much as a thousand operations do. */
    if (own->checks++ % VIEWS_EVERY == 0) {
        program_check_views(own);
    }
}
