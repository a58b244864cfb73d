/* SPDX-License-Identifier: Apache-2.0 */
#include "gather.h"

#include "accounts.h"
#include "search.h"

enum { MOST_VISITS = 4096 /* free extents looked at for a run of neighbours */ };

typedef crmm_priv_pool_request request;

typedef struct run {
    uint32_t first;
    uint64_t size;
    crmm_priv_pool_waits waits;
} run;

/* The run that begins at an extent, as far as it is needed. */
static bool run_from(const request *req, const crmm_priv_extents *extents, uint32_t first,
                     run *found)
{
    const crmm_priv_extent *extent = crmm_priv_extent_at(extents, first);

    *found = (run){.first = first};
    while (crmm_priv_pool_could_use(req, extent) &&
           crmm_priv_pool_add_wait(req, &found->waits, extent)) {
        found->size += extent->size;
        if (found->size >= crmm_priv_pool_need_at(req, crmm_priv_extent_at(extents, first)->at)) {
            return true;
        }
        if (extent->after == 0) {
            return false;
        }
        extent = crmm_priv_extent_at(extents, extent->after);
    }
    return false;
}

/* Whether a run could begin here and not earlier. */
static bool is_first(const request *req, const crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = crmm_priv_extent_at(extents, index);

    return crmm_priv_pool_could_use(req, extent) &&
           (extent->before == 0 ||
            !crmm_priv_pool_could_use(req, crmm_priv_extent_at(extents, extent->before)));
}

typedef struct run_search {
    const request *req;
    const crmm_priv_extents *extents;
    int visits;
    run best;
} run_search;

static bool visit_run(const crmm_priv_extent *extent, uint32_t index, void *data)
{
    run_search *search = data;
    run found;

    if (crmm_priv_extent_may_serve(extent, crmm_priv_pool_most_apart(search->req)) &&
        is_first(search->req, search->extents, index) &&
        run_from(search->req, search->extents, index, &found) && found.size < search->best.size) {
        search->best = found;
    }
    return ++search->visits < MOST_VISITS;
}

/* Free neighbours of one owner are one extent, so a run needs a second owner, or it is one extent
 * that a search came not across among too many. */
static bool can_have_run(const request *req, const crmm_priv_extents *extents)
{
    if (extents->free_granules < req->size) {
        return false;
    }
    for (uint32_t owner = 0; owner < extents->set_count; owner++) {
        const crmm_priv_extent_set *set = extents->sets[owner];
        if (set != NULL && set->granules == extents->free_granules) {
            return crmm_priv_extents_largest(extents) >= req->size;
        }
    }
    return true;
}

/* The shortest run of neighbours that is long enough; the heap is locked. */
static bool find_run(const request *req, const crmm_priv_extents *extents, run *best)
{
    run_search search = {.req = req, .extents = extents, .best = {.size = UINT64_MAX}};

    if (can_have_run(req, extents)) {
        crmm_priv_extents_for_each_free(extents, visit_run, &search);
    }
    *best = search.best;
    return best->first != 0;
}

void *crmm_priv_pool_gather(const request *req, crmm_priv_pool_heap *heap, bool is_direct)
{
    enum { ATTEMPTS = 4 };
    crmm_priv_extents *extents = &heap->extents;

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        void *ptr = NULL;
        run found;

        crmm_priv_pool_heap_lock(heap);
        bool any = find_run(req, extents, &found) && crmm_priv_extents_reserve(extents);
        if (any && found.waits.count == 0) {
            uint32_t index =
                crmm_priv_extents_take_run(extents, found.first, req->size, req->alignment);
            crmm_priv_pool_hand_out(heap, index, is_direct);
            ptr = crmm_priv_pool_address_of(crmm_priv_extent_at(extents, index)->at);
        }
        crmm_priv_pool_heap_unlock(heap);
        if (!any || ptr != NULL) {
            return ptr;
        }
        if (!crmm_priv_pool_wait_for(req, &found.waits)) {
            break;
        }
    }
    return NULL;
}

void *crmm_priv_pool_gather_all(const request *req, bool is_direct)
{
    void *ptr = crmm_priv_pool_gather(req, req->heap, is_direct);
    uint32_t heaps = crmm_priv_pool_heap_count(req->pool);

    for (uint32_t i = 0; i < heaps && ptr == NULL; i++) {
        crmm_priv_pool_heap *other = crmm_priv_pool_heap_of(req->pool, i);
        if (other != req->heap) {
            ptr = crmm_priv_pool_gather(req, other, is_direct);
        }
    }
    return ptr;
}
