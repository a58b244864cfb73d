/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/malloc_memory_resource.h>

#include <crmm/internal/heap.h>
#include <crmm/internal/leaf.h>

static const crmm_priv_leaf_calls heap_calls = {
    .allocate = crmm_priv_heap_allocate,
    .deallocate = crmm_priv_heap_free,
    .free_name = "free",
};

static const crmm_resource_ops malloc_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_leaf_allocate_sync,
    .deallocate_sync = crmm_priv_leaf_deallocate_sync,
    .destroy = crmm_priv_leaf_destroy,
    .is_equal = crmm_priv_leaf_is_equal,
    .trim = crmm_priv_leaf_trim,
    .info = crmm_priv_leaf_info,
};

static crmm_priv_leaf_state state = CRMM_PRIV_LEAF_STATE_INITIALIZER;

static crmm_priv_leaf shared = {
    .base = CRMM_PRIV_IMMORTAL_BASE(&malloc_ops, "malloc_memory_resource", CRMM_HOST_ACCESSIBLE),
    .calls = &heap_calls,
    .state = &state,
};

crmm_resource *crmm_malloc_memory_resource(void)
{
    return &shared.base;
}
