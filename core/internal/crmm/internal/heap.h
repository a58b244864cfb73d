/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_HEAP_H
#define CRMM_INTERNAL_HEAP_H

#include <stddef.h>

#include <crmm/core/status.h>

/* The C heap as the calls of a leaf (crmm/internal/leaf.h): any power-of-two alignment. */
crmm_status crmm_priv_heap_allocate(const char *who, size_t bytes, size_t alignment, void **ptr);
int crmm_priv_heap_free(void *ptr, size_t bytes);

#endif
