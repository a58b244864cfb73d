/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_CACHE_H
#define CRMM_DEVICE_POOL_CACHE_H

/*
 * Blocks that a thread has at hand for a stream: a stack for each size class. Only its thread uses
 * a cache, but for threads that are short of memory and empty the others' caches, so each has a
 * lock that is nearly always free.
 *
 * A block at hand is in use as far as its heap knows. When the cache lets go of it, it is marked
 * with the stream's epoch at the latest time that anything was put into the cache, which is no
 * earlier than the block's own.
 */

#include "pool.h"

/* Blocks at hand of a class: up to 32 of 32 KiB, 16 of 128 KiB, 8 of 1 MiB. */
enum {
    CRMM_PRIV_POOL_MIDDLE_CLASSES = 56, /* those up to 128 KiB */
    CRMM_PRIV_POOL_MOST_SMALL = 32,
    CRMM_PRIV_POOL_MOST_MIDDLE = 16,
    CRMM_PRIV_POOL_MOST_BIG = 8,
    CRMM_PRIV_POOL_AT_HAND =
        CRMM_PRIV_POOL_SMALL_CLASSES * CRMM_PRIV_POOL_MOST_SMALL +
        (CRMM_PRIV_POOL_MIDDLE_CLASSES - CRMM_PRIV_POOL_SMALL_CLASSES) *
            CRMM_PRIV_POOL_MOST_MIDDLE +
        (CRMM_PRIV_POOL_CLASSES - CRMM_PRIV_POOL_MIDDLE_CLASSES) * CRMM_PRIV_POOL_MOST_BIG
};

struct crmm_priv_pool_cache {
    _Alignas(128) crmm_priv_spin lock;
    uint32_t heap;   /* which it takes from */
    size_t bytes;    /* at hand; read by others */
    uint64_t epoch;  /* of the stream, when something was put in last */
    size_t unfenced; /* bytes given back since the last fence */
    size_t fence_limit;
    uint64_t fenced;               /* bytes given back before it */
    crmm_priv_pool_stream *stream; /* NULL: CRMM_PRIV_POOL_NO_STREAM */
    uint8_t count[CRMM_PRIV_POOL_CLASSES];
    uint8_t limit[CRMM_PRIV_POOL_CLASSES];

    uint64_t id; /* of the stream */
    crmm_priv_pool *pool;
    struct crmm_priv_pool_thread *thread;
    crmm_priv_pool_cache *next_of_thread;
    crmm_priv_pool_cache *next_of_pool;
    uint32_t next_class; /* to be made smaller when the cache is full */
    void *blocks[CRMM_PRIV_POOL_AT_HAND];
};

/* Where the blocks of a class begin. */
static inline uint32_t crmm_priv_pool_first_block(uint32_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        return class_index * CRMM_PRIV_POOL_MOST_SMALL;
    }
    if (class_index < CRMM_PRIV_POOL_MIDDLE_CLASSES) {
        return CRMM_PRIV_POOL_SMALL_CLASSES * CRMM_PRIV_POOL_MOST_SMALL +
               (class_index - CRMM_PRIV_POOL_SMALL_CLASSES) * CRMM_PRIV_POOL_MOST_MIDDLE;
    }
    return CRMM_PRIV_POOL_AT_HAND -
           (CRMM_PRIV_POOL_CLASSES - class_index) * CRMM_PRIV_POOL_MOST_BIG;
}

static inline size_t crmm_priv_pool_class_bytes(uint32_t class_index)
{
    return (size_t)crmm_priv_pool_class_size(class_index) << CRMM_PRIV_POOL_GRANULE_SHIFT;
}

/* ---- finding one's cache ---- */

enum { CRMM_PRIV_POOL_THREAD_ENTRIES = 16 };

typedef struct crmm_priv_pool_thread_entry {
    uint64_t serial, id;
    crmm_priv_pool_cache *cache;
} crmm_priv_pool_thread_entry;

typedef struct crmm_priv_pool_thread {
    crmm_priv_pool_thread_entry entries[CRMM_PRIV_POOL_THREAD_ENTRIES];
    crmm_priv_pool_cache *first; /* all of this thread's; guarded by the lock of all pools */
    uint32_t collisions;         /* with other threads at a heap's lock */
} crmm_priv_pool_thread;

/* One pointer, which also a library that is loaded late has room for. */
extern __thread crmm_priv_pool_thread *crmm_priv_pool_self
    __attribute__((tls_model("initial-exec")));

/* Find it among all of this thread's, or make it. NULL: no host memory. */
crmm_priv_pool_cache *crmm_priv_pool_find_cache(crmm_priv_pool *pool, uint64_t id, bool is_default);

/* `is_default`: it is one of the default streams. */
static inline crmm_priv_pool_cache *crmm_priv_pool_cache_of(crmm_priv_pool *pool, uint64_t id,
                                                            bool is_default)
{
    const crmm_priv_pool_thread *self = crmm_priv_pool_self;

    if (self != NULL) {
        const crmm_priv_pool_thread_entry *entry =
            &self->entries[(id + pool->serial) % CRMM_PRIV_POOL_THREAD_ENTRIES];
        if (entry->id == id && entry->serial == pool->serial) {
            return entry->cache;
        }
    }
    return crmm_priv_pool_find_cache(pool, id, is_default);
}

/* ---- using it ---- */

/* A block of a class, or NULL. */
static inline void *crmm_priv_pool_cache_pop(crmm_priv_pool_cache *cache, uint32_t class_index)
{
    void *block = NULL;

    crmm_priv_spin_lock(&cache->lock);
    uint32_t count = cache->count[class_index];
    if (count > 0) {
        block = cache->blocks[crmm_priv_pool_first_block(class_index) + count - 1];
        cache->count[class_index] = (uint8_t)(count - 1);
        __atomic_store_n(&cache->bytes, cache->bytes - crmm_priv_pool_class_bytes(class_index),
                         __ATOMIC_RELAXED);
    }
    crmm_priv_spin_unlock(&cache->lock);
    return block;
}

/* Make room for one more block of a class, which is full; the lock is held. false: there is never
 * room, and the block went to its heap. */
bool crmm_priv_pool_cache_overflow(crmm_priv_pool_cache *cache, uint32_t class_index, void *block);

/* Put a block in. Whether it is time to look at crmm_priv_pool_cache_fence(). */
static inline bool crmm_priv_pool_cache_push(crmm_priv_pool_cache *cache, uint32_t class_index,
                                             void *block)
{
    const size_t bytes = crmm_priv_pool_class_bytes(class_index);
    crmm_priv_pool_stream *stream = cache->stream;
    bool is_time = false;

    crmm_priv_spin_lock(&cache->lock);
    if (stream != NULL) {
        cache->epoch = crmm_priv_pool_stream_epoch(stream);
        cache->unfenced += bytes;
        is_time = cache->unfenced >= cache->fence_limit ||
                  __atomic_load_n(&stream->wanted, __ATOMIC_RELAXED) != 0;
    }
    if (cache->count[class_index] >= cache->limit[class_index] &&
        !crmm_priv_pool_cache_overflow(cache, class_index, block)) {
        crmm_priv_spin_unlock(&cache->lock);
        return is_time;
    }
    cache->blocks[crmm_priv_pool_first_block(class_index) + cache->count[class_index]] = block;
    cache->count[class_index]++;
    __atomic_store_n(&cache->bytes, cache->bytes + bytes, __ATOMIC_RELAXED);
    crmm_priv_spin_unlock(&cache->lock);
    return is_time;
}

/* How many more blocks of a class to fetch together with one that was missing. */
uint32_t crmm_priv_pool_cache_missed(crmm_priv_pool_cache *cache, uint32_t class_index);

/* Put blocks in that no program has had meanwhile; those for which there is no room come back:
 * their number, at the front of `blocks`. */
uint32_t crmm_priv_pool_cache_fill(crmm_priv_pool_cache *cache, uint32_t class_index, void **blocks,
                                   uint32_t count);

/* What a block that goes to the heap at once adds to the account; whether it is time for a fence.
 */
bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes);

/* Record a fence on the cache's stream, within a call on `handle`, which is that stream. */
void crmm_priv_pool_cache_fence(crmm_priv_pool_cache *cache, crmm_stream handle);

/* Give all blocks to the heaps. */
void crmm_priv_pool_cache_flush(crmm_priv_pool_cache *cache);

/* The same for every cache of a pool that nobody is just using. Bytes. */
size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool);

/* Give blocks at hand to their heaps, marked with an owner and an epoch. */
void crmm_priv_pool_give_to_heaps(crmm_priv_pool *pool, void *const *blocks, size_t count,
                                  uint16_t owner, uint64_t epoch);

/* The pool goes: its caches too, with what they hold. */
void crmm_priv_pool_delete_caches(crmm_priv_pool *pool);

/* How many bytes the caches may hold, and how many may be given back without a fence; the pool's
 * lock is held. */
void crmm_priv_pool_set_budget(crmm_priv_pool *pool);

#endif
