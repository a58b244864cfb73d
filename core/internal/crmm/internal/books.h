/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_BOOKS_H
#define CRMM_INTERNAL_BOOKS_H

#include <stddef.h>

#include <crmm/core/resource.h>

/* A figure is at least as high as this from now on; any thread. */
static inline void crmm_priv_raise_peak(size_t *peak, size_t value)
{
    size_t before = __atomic_load_n(peak, __ATOMIC_RELAXED);

    while (value > before && !__atomic_compare_exchange_n(peak, &before, value, true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Bytes and blocks that a resource without a cache has handed out. Thread-safety: safe. */
typedef struct crmm_priv_books {
    size_t live;
    size_t peak;
    size_t allocations;
} crmm_priv_books;

void crmm_priv_books_add(crmm_priv_books *books, size_t bytes);
void crmm_priv_books_subtract(crmm_priv_books *books, size_t bytes);

/* Fill all figures of a resource that holds just what is live. */
void crmm_priv_books_info(const crmm_priv_books *books, crmm_memory_info *info);

#endif
