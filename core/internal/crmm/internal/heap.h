/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_HEAP_H
#define CRMM_INTERNAL_HEAP_H

#include <crmm/internal/leaf.h>

/* The C heap as the calls of a leaf: any power-of-two alignment. */
crmm_status crmm_priv_heap_allocate(crmm_priv_leaf *leaf, size_t bytes, size_t alignment,
                                    void **ptr);
int crmm_priv_heap_free(crmm_priv_leaf *leaf, void *ptr, size_t bytes);

#endif
