/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/heap.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/held.h>

crmm_status crmm_priv_heap_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment,
                                    void **ptr)
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
                          "%s: %zu bytes with alignment %zu from the heap failed: %s",
                          crmm_resource_name(&leaf->base), bytes, alignment, strerror(code));
    }
    crmm_priv_held_add(bytes);
    *ptr = memory;
    return CRMM_SUCCESS;
}

int crmm_priv_heap_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes)
{
    (void)leaf;
    crmm_priv_held_subtract(bytes);
    free(ptr);
    return 0;
}
