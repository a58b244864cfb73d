/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/held.h>

#include <stdbool.h>

#include <crmm/internal/books.h>

static bool watching;
static size_t held;
static size_t peak;
static size_t pool_peak; /* of the driver's pools that are gone */

void crmm_priv_held_watch(void)
{
    __atomic_store_n(&watching, true, __ATOMIC_RELAXED);
}

bool crmm_priv_held_is_watched(void)
{
    return __atomic_load_n(&watching, __ATOMIC_RELAXED);
}

void crmm_priv_held_add(size_t bytes)
{
    if (!crmm_priv_held_is_watched()) {
        return;
    }
    crmm_priv_raise_peak(&peak, __atomic_add_fetch(&held, bytes, __ATOMIC_RELAXED));
}

void crmm_priv_held_subtract(size_t bytes)
{
    if (crmm_priv_held_is_watched()) {
        (void)__atomic_fetch_sub(&held, bytes, __ATOMIC_RELAXED);
    }
}

void crmm_priv_held_add_pool_peak(size_t bytes)
{
    if (crmm_priv_held_is_watched()) {
        (void)__atomic_fetch_add(&pool_peak, bytes, __ATOMIC_RELAXED);
    }
}

void crmm_priv_held_reset_peak(void)
{
    __atomic_store_n(&pool_peak, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&peak, crmm_priv_held_now(), __ATOMIC_RELAXED);
}

size_t crmm_priv_held_now(void)
{
    return __atomic_load_n(&held, __ATOMIC_RELAXED);
}

size_t crmm_priv_held_peak(void)
{
    return __atomic_load_n(&peak, __ATOMIC_RELAXED) + __atomic_load_n(&pool_peak, __ATOMIC_RELAXED);
}
