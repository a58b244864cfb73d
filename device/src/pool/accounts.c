/* SPDX-License-Identifier: Apache-2.0 */
#include "accounts.h"

void crmm_priv_pool_tell(const crmm_priv_pool *pool, void *base, size_t bytes, bool added)
{
    if (pool->on_chunk != NULL) {
        pool->on_chunk(base, bytes, added, pool->on_chunk_user_data);
    }
}

void crmm_priv_pool_account(crmm_priv_pool *pool, size_t added, size_t removed)
{
    pthread_mutex_lock(&pool->mutex);
    size_t held = pool->held + added - removed;
    __atomic_store_n(&pool->held, held, __ATOMIC_RELAXED);
    pool->peak_held = held > pool->peak_held ? held : pool->peak_held;
    pool->growths += added != 0;
    pool->releases += removed != 0;
    pthread_mutex_unlock(&pool->mutex);
}

size_t crmm_priv_pool_room(const crmm_priv_pool *pool)
{
    size_t held = crmm_priv_pool_held(pool);
    return pool->maximum > held ? pool->maximum - held : 0;
}
