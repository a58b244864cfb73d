/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/malloc_memory_resource.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/held.h>
#include <crmm/internal/leaf.h>

static crmm_status heap_allocate(const char *who, size_t bytes, size_t alignment, void **ptr)
{
    void *memory = NULL;
    int code = 0;

    if (alignment > PTRDIFF_MAX || bytes > PTRDIFF_MAX - alignment) {
        code = ENOMEM; /* not left to the heap: no block is that large */
    } else if (alignment <= CRMM_HOST_ALIGNMENT) {
        memory = malloc(bytes);
        code = memory == NULL ? ENOMEM : 0;
    } else {
        code = posix_memalign(&memory, alignment, bytes);
    }
    if (code != 0) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, code, bytes,
                          "%s: %zu bytes with alignment %zu from the heap failed: %s", who, bytes,
                          alignment, strerror(code));
    }
    crmm_priv_held_add(bytes);
    *ptr = memory;
    return CRMM_SUCCESS;
}

static int heap_deallocate(void *ptr, size_t bytes)
{
    crmm_priv_held_subtract(bytes);
    free(ptr);
    return 0;
}

static const crmm_priv_leaf_calls heap_calls = {
    .allocate = heap_allocate,
    .deallocate = heap_deallocate,
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
