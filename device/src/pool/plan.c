/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

enum { MOST_VISITS = 64 }; /* neighbours looked at from one place on */

static const crmm_priv_extent *get(const crmm_priv_pool_request *request, uint32_t index)
{
    return crmm_priv_extent_at(&request->heap->extents, index);
}

static bool is_hole(const crmm_priv_extent *extent)
{
    return extent->state == CRMM_PRIV_POOL_HOLE;
}

static bool is_part(const crmm_priv_pool_request *request, const crmm_priv_extent *extent)
{
    return is_hole(extent) || crmm_priv_pool_could_use(request, extent);
}

/* What is needed of memory that begins at an extent, or some pages later. */
static uint64_t need_from(const crmm_priv_pool_request *request, const crmm_priv_extent *first,
                          uint32_t page)
{
    return page % request->alignment == 0 ? crmm_priv_pool_need_at(request, first->at)
                                          : crmm_priv_pool_need(request);
}

/* Whole pages that are not needed at an end that is a hole. */
static uint64_t trim(const crmm_priv_extent *extent, uint64_t *excess, uint32_t page)
{
    uint64_t spare = *excess / page * page;

    if (!is_hole(extent)) {
        return 0;
    }
    spare = spare < extent->size ? spare : extent->size;
    *excess -= spare;
    return spare;
}

/* The plan for the neighbours from `first` to `last`, `total` granules together. */
static crmm_priv_pool_plan plan_window(const crmm_priv_pool_request *request, uint32_t first,
                                       uint32_t last, uint64_t total, uint64_t holes, uint32_t page)
{
    const crmm_priv_extent *left = get(request, first);
    const crmm_priv_extent *right = get(request, last);
    uint64_t excess = total - need_from(request, left, page);
    uint64_t from_right = trim(right, &excess, page);
    uint64_t from_left = first == last ? 0 : trim(left, &excess, page);
    crmm_priv_pool_plan plan = {.begin = left->at + from_left,
                                .end = right->at + right->size - from_right,
                                .missing = holes - from_left - from_right};

    /* The first hole in there. */
    for (uint32_t i = first;; i = get(request, i)->after) {
        const crmm_priv_extent *extent = get(request, i);
        uint64_t at = extent->at < plan.begin ? plan.begin : extent->at;
        uint64_t end = extent->at + extent->size < plan.end ? extent->at + extent->size : plan.end;
        if (is_hole(extent) && end > at) {
            plan.hole = i;
            plan.at = at;
            plan.size = (uint32_t)(end - at);
            return plan;
        }
        if (i == last) {
            return plan;
        }
    }
}

/* The shortest row of neighbours from `first` on that is long enough. */
static crmm_priv_pool_plan plan_from(const crmm_priv_pool_request *request, uint32_t first,
                                     uint32_t page)
{
    const uint64_t need = need_from(request, get(request, first), page);
    uint64_t total = 0;
    uint64_t holes = 0;
    uint32_t index = first;

    for (int i = 0; i < MOST_VISITS && index != 0 && is_part(request, get(request, index)); i++) {
        const crmm_priv_extent *extent = get(request, index);
        total += extent->size;
        holes += is_hole(extent) ? extent->size : 0;
        if (total >= need) {
            return plan_window(request, first, index, total, holes, page);
        }
        index = extent->after;
    }
    return (crmm_priv_pool_plan){0};
}

/* Keep the better of two plans: fewer missing pages, then the lower address. */
static void consider(crmm_priv_pool_plan *best, crmm_priv_pool_plan candidate)
{
    if (candidate.hole != 0 && (best->hole == 0 || candidate.missing < best->missing ||
                                (candidate.missing == best->missing && candidate.at < best->at))) {
        *best = candidate;
    }
}

/* Every place that helps has a hole in it, so go back from each hole. */
crmm_priv_pool_plan crmm_priv_pool_plan_for(const crmm_priv_pool_request *request, uint32_t page)
{
    crmm_priv_pool_plan best = {0};

    for (uint32_t hole = request->heap->extents.holes; hole != 0;
         hole = get(request, hole)->bin_after) {
        uint32_t first = hole;
        for (int i = 0; i < MOST_VISITS; i++) {
            consider(&best, plan_from(request, first, page));
            uint32_t before = get(request, first)->before;
            if (before == 0 || !is_part(request, get(request, before)) ||
                (is_hole(get(request, before)) && i > 0)) {
                break; /* from an earlier hole on it is looked at in its turn */
            }
            first = before;
        }
    }
    return best;
}
