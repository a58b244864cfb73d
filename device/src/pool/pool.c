/* SPDX-License-Identifier: Apache-2.0 */
#include "pool.h"

#include <stdlib.h>

#include "fences.h"
#include "registry.h"

uint64_t crmm_priv_pool_next_serial(void)
{
    enum {
        APART = 9
    }; /* so that neighbours among pools and among streams do not meet in a thread's
          entries, see registry.h */
    static uint64_t serials;

    return __atomic_add_fetch(&serials, APART, __ATOMIC_RELAXED);
}

/* ---- the process ---- */

static pthread_once_t watch = PTHREAD_ONCE_INIT;
uint64_t crmm_priv_pool_known_generation;

static void note_fork(void)
{
    __atomic_store_n(&crmm_priv_pool_known_generation, crmm_priv_pool_known_generation + 1,
                     __ATOMIC_RELAXED);
    crmm_priv_pool_forget_caches();
}

static void handle_forks(void)
{
    (void)pthread_atfork(NULL, NULL, note_fork);
}

uint64_t crmm_priv_pool_generation(void)
{
    (void)pthread_once(&watch, handle_forks);
    return __atomic_load_n(&crmm_priv_pool_known_generation, __ATOMIC_RELAXED);
}

/* ---- heaps ---- */

static crmm_priv_pool_heap *new_heap(uint32_t index, uint16_t solo)
{
    crmm_priv_pool_heap *heap = NULL;

    if (posix_memalign((void **)&heap, 128, sizeof(*heap)) != 0) {
        return NULL;
    }
    *heap = (crmm_priv_pool_heap){.index = index};
    if (!crmm_priv_extents_init(&heap->extents)) {
        crmm_priv_extents_finish(&heap->extents);
        free(heap);
        return NULL;
    }
    heap->extents.solo = solo;
    return heap;
}

crmm_priv_pool_heap *crmm_priv_pool_add_heap(crmm_priv_pool *pool)
{
    crmm_priv_pool_heap *heap = NULL;

    pthread_mutex_lock(&pool->mutex);
    if (pool->heap_count < pool->most_heaps) {
        heap = new_heap(pool->heap_count, pool->solo);
    }
    if (heap != NULL) {
        __atomic_store_n(&pool->heaps[heap->index], heap, __ATOMIC_RELEASE);
        __atomic_store_n(&pool->heap_count, heap->index + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&pool->mutex);
    return heap;
}

/* Tell the heaps, and what limits follow from it. The pool's lock is held. */
static void set_solo(crmm_priv_pool *pool)
{
    uint16_t solo = pool->solo_pauses == 0 ? pool->only : 0;

    if (pool->solo == solo) {
        return;
    }
    __atomic_store_n(&pool->solo, solo, __ATOMIC_RELAXED); /* a cache looks without the lock */
    for (uint32_t i = 0; i < pool->heap_count; i++) {
        crmm_priv_pool_heap_lock(pool->heaps[i]);
        pool->heaps[i]->extents.solo = solo;
        crmm_priv_pool_heap_unlock(pool->heaps[i]);
    }
    crmm_priv_pool_set_budget(pool);
}

void crmm_priv_pool_set_only(crmm_priv_pool *pool, uint16_t only)
{
    pthread_mutex_lock(&pool->mutex);
    pool->only = only;
    set_solo(pool);
    pthread_mutex_unlock(&pool->mutex);
}

void crmm_priv_pool_pause_solo(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->solo_pauses++;
    set_solo(pool);
    pthread_mutex_unlock(&pool->mutex);
}

void crmm_priv_pool_resume_solo(crmm_priv_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->solo_pauses--;
    set_solo(pool);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- figures ---- */

size_t crmm_priv_pool_cached(crmm_priv_pool *pool)
{
    size_t bytes = 0;

    pthread_mutex_lock(&pool->mutex);
    for (const crmm_priv_pool_cache *cache = pool->caches; cache != NULL;
         cache = cache->next_of_pool) {
        bytes += crmm_priv_pool_cache_bytes(cache);
    }
    pthread_mutex_unlock(&pool->mutex);
    return bytes + __atomic_load_n(&pool->depot.bytes, __ATOMIC_RELAXED);
}

size_t crmm_priv_pool_live(crmm_priv_pool *pool)
{
    uint32_t heaps = crmm_priv_pool_heap_count(pool);
    uint64_t granules = 0;

    for (uint32_t i = 0; i < heaps; i++) {
        crmm_priv_pool_heap *heap = crmm_priv_pool_heap_of(pool, i);
        crmm_priv_pool_heap_lock(heap);
        granules += heap->extents.used_granules;
        crmm_priv_pool_heap_unlock(heap);
    }
    size_t used = (size_t)granules << CRMM_PRIV_POOL_GRANULE_SHIFT;
    size_t cached = crmm_priv_pool_cached(pool);
    return used > cached ? used - cached : 0;
}
