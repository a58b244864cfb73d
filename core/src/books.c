/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/books.h>

void crmm_priv_books_add(crmm_priv_books *books, size_t bytes)
{
    size_t live = __atomic_add_fetch(&books->live, bytes, __ATOMIC_RELAXED);

    (void)__atomic_fetch_add(&books->allocations, 1, __ATOMIC_RELAXED);
    crmm_priv_raise_peak(&books->peak, live);
}

/* Not below 0: with a wrong size, which only validation finds, the figures are wrong but sane. */
static void subtract(size_t *figure, size_t amount)
{
    size_t before = __atomic_load_n(figure, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(figure, &before, before > amount ? before - amount : 0,
                                        true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void crmm_priv_books_subtract(crmm_priv_books *books, size_t bytes)
{
    subtract(&books->live, bytes);
    subtract(&books->allocations, 1);
}

void crmm_priv_books_info(const crmm_priv_books *books, crmm_memory_info *info)
{
    info->live = __atomic_load_n(&books->live, __ATOMIC_RELAXED);
    info->held = info->live;
    info->cached = 0;
    info->pending = 0;
    info->largest_free = 0;
    info->peak_live = __atomic_load_n(&books->peak, __ATOMIC_RELAXED);
    info->peak_held = info->peak_live;
    info->allocations = __atomic_load_n(&books->allocations, __ATOMIC_RELAXED);
}
