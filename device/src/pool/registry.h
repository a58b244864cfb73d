/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_REGISTRY_H
#define CRMM_DEVICE_POOL_REGISTRY_H

/*
 * Which caches there are: a thread finds its own by the pool and the stream, all of a pool's are in
 * a list. They are made at first use, and retired when the thread ends or has too many.
 */

#include "cache.h"

/* ---- finding one's cache ---- */

enum { CRMM_PRIV_POOL_THREAD_ENTRIES = 64 };

typedef struct crmm_priv_pool_thread_entry {
    uint64_t serial; /* of the pool */
    uint64_t key;    /* the stream's id, or its handle */
    crmm_priv_pool_cache *cache;
    uint64_t padding; /* to a power of two */
} crmm_priv_pool_thread_entry;

typedef struct crmm_priv_pool_thread {
    crmm_priv_pool_thread_entry by_id[CRMM_PRIV_POOL_THREAD_ENTRIES];
    crmm_priv_pool_thread_entry by_handle[CRMM_PRIV_POOL_THREAD_ENTRIES];
    crmm_priv_pool_cache *first; /* all of this thread's; guarded by the lock of all pools */
    uint32_t collisions;         /* with other threads at a heap's lock */
    /* Where its blocks were in another heap than its own: see serve.c. */
    bool has_followed; /* it went after them */
    bool has_parted;   /* and away again, since others were there */
    bool fetches;      /* so memory is to come to it, when it is short next */
} crmm_priv_pool_thread;

/* One pointer, which also a library that is loaded late has room for. Never NULL. */
extern __thread crmm_priv_pool_thread *crmm_priv_pool_self
    __attribute__((tls_model("initial-exec")));

/* Find the one for the stream with an id, behind a handle, among all of this thread's, or make it.
 * It is found without that from then on. NULL: no host memory, or too many streams. */
crmm_priv_pool_cache *crmm_priv_pool_find_cache(crmm_priv_pool *pool, uint64_t id,
                                                crmm_stream handle);

/* From now on this cache of the calling thread is behind a handle. */
void crmm_priv_pool_remember_handle(const crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                    crmm_stream handle);

/* A handle is another stream's than this cache's, which it was behind: the next call looks for the
 * cache by the stream's id. */
void crmm_priv_pool_forget_handle(const crmm_priv_pool *pool, const crmm_priv_pool_cache *cache,
                                  crmm_stream handle);

/* Whether the lock of all pools is held, while one thread uses them. */
bool crmm_priv_pool_registry_is_held(void);

/* In a forked child: the thread that is left has no caches, its parent has them. */
void crmm_priv_pool_forget_caches(void);

/* The cache in an entry of this pool and stream. NULL: it is another one's. */
static inline crmm_priv_pool_cache *crmm_priv_pool_cache_in(
    const crmm_priv_pool_thread_entry *entry, uint64_t serial, uint64_t key)
{
    if (__builtin_expect(entry->key != key || entry->serial != serial, 0)) {
        return NULL;
    }
    if (entry->cache == NULL) {
        __builtin_unreachable(); /* no pool has the number of an entry that is not in use */
    }
    return entry->cache;
}

/* This thread's cache for a stream, if it was used before. NULL: see crmm_priv_pool_find_cache().
 */
static inline crmm_priv_pool_cache *crmm_priv_pool_cache_of(const crmm_priv_pool *pool, uint64_t id)
{
    const uint64_t serial = __atomic_load_n(&pool->serial, __ATOMIC_RELAXED);
    size_t at = (id + serial) % CRMM_PRIV_POOL_THREAD_ENTRIES;

    return crmm_priv_pool_cache_in(&crmm_priv_pool_self->by_id[at], serial, id);
}

/* Where a stream's handle is entered: streams are objects of some size, one after the other, which
 * a multiple of the golden ratio keeps apart (Knuth, The Art of Computer Programming 3, 6.4). */
static inline size_t crmm_priv_pool_handle_entry(crmm_stream handle, uint64_t serial)
{
    _Static_assert(CRMM_PRIV_POOL_THREAD_ENTRIES == 1 << (32 - 26), "the highest bits tell");
    return ((uint32_t)(uintptr_t)handle + (uint32_t)serial) * 0x9E3779B9u >> 26;
}

/*
 * The same by the stream's handle, so that CUDA need not be asked for its id. A handle may come
 * back for another stream, of which this thread knows since its first allocation there. Before
 * that, what is given back on it goes into the older one's cache, where nobody gets it too early:
 * no fence is recorded without looking at the id.
 */
static inline crmm_priv_pool_cache *crmm_priv_pool_cache_behind(const crmm_priv_pool *pool,
                                                                crmm_stream handle)
{
    const uint64_t serial = __atomic_load_n(&pool->serial, __ATOMIC_RELAXED);
    size_t at = crmm_priv_pool_handle_entry(handle, serial);

    return crmm_priv_pool_cache_in(&crmm_priv_pool_self->by_handle[at], serial, (uintptr_t)handle);
}

/* ---- all caches of a pool ---- */

/* Keep all threads out of a pool's caches, and the list of them as it is; then let them in again.
 */
void crmm_priv_pool_stop_caches(crmm_priv_pool *pool);
void crmm_priv_pool_resume_caches(crmm_priv_pool *pool);

/* Give all blocks of all caches, and of the depot, to the heaps. Bytes. */
size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool);

/* The same of this thread's own caches, and the depot. */
size_t crmm_priv_pool_flush_own(crmm_priv_pool *pool);

/* Let the next call on every stream but one mark what it gave back, and give it to the heaps. */
void crmm_priv_pool_want(crmm_priv_pool *pool, const crmm_priv_pool_stream *but);

/* The pool goes: its caches too, with what they hold. */
void crmm_priv_pool_delete_caches(crmm_priv_pool *pool);

#endif
