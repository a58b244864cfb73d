/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_CACHE_H
#define CRMM_DEVICE_POOL_CACHE_H

/*
 * Blocks that a thread has at hand for a stream: a stack for each size class. Only its thread uses
 * a cache, but for threads that are short of memory and empty the others' caches, or count what is
 * in them, so each has a lock that is nearly always free.
 *
 * A block at hand is in use as far as its heap knows. When the cache lets go of it, it is marked
 * with the stream's epoch at the latest time that anything was put into the cache, which is no
 * earlier than the block's own.
 */

#include "bias.h"
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

/* What others make a cache's account where they want what is at hand: less than any program makes
 * it. */
#define CRMM_PRIV_POOL_WANTED (INT64_MIN / 2)

/* The blocks at hand of one class. */
typedef struct crmm_priv_pool_shelf {
    void **next; /* the place for the next one */
    void **end;  /* where it is full */
    void **first;
    size_t bytes; /* of each block */
} crmm_priv_pool_shelf;

static inline uint32_t crmm_priv_pool_shelf_count(const crmm_priv_pool_shelf *shelf)
{
    return (uint32_t)(shelf->next - shelf->first);
}

static inline uint32_t crmm_priv_pool_shelf_limit(const crmm_priv_pool_shelf *shelf)
{
    return (uint32_t)(shelf->end - shelf->first);
}

/* How many large blocks may be at hand: see park.h. */
enum { CRMM_PRIV_POOL_MOST_PARKED = 2 };

/* One of them. */
typedef struct crmm_priv_pool_parked {
    void *block;
    crmm_priv_pool_heap *heap;
    uint32_t index; /* of its extent, which is in use */
    uint32_t size;  /* granules; 0: there is none. Read by others */
} crmm_priv_pool_parked;

struct crmm_priv_pool_cache {
    _Alignas(128) crmm_priv_bias lock;
    uint32_t heap;  /* which it takes from */
    size_t bytes;   /* on shelves; read by others */
    uint64_t epoch; /* of what is at hand, where nothing was put in since the last fence */
    int64_t left;   /* bytes that may be given back before something is to be done; others that
                       want what is at hand make it CRMM_PRIV_POOL_WANTED, and try again if that
                       is lost */
    /* The chunk that a block of this thread lay in last; only this thread looks here. */
    uintptr_t chunk_base;
    size_t chunk_granules; /* 0: there is none */
    crmm_priv_pool_marks marks;
    crmm_priv_pool_shelf shelves[CRMM_PRIV_POOL_CLASSES];

    crmm_priv_pool_heap *chunk_heap;                          /* of that chunk */
    crmm_priv_pool_parked parked[CRMM_PRIV_POOL_MOST_PARKED]; /* the latest comes first */
    crmm_priv_pool_stream *stream;                            /* NULL: CRMM_PRIV_POOL_NO_STREAM */
    int64_t allowance;                                        /* what `left` began with */
    int64_t fence_limit; /* bytes given back, at which there is a fence */
    uint64_t fenced;     /* bytes given back before the last one */
    uint32_t fences;     /* so far */
    uint32_t looks;      /* since the account is beyond its limit */
    uint32_t turn;       /* of the heap, when a block passed by the cache last */
    uint32_t credit;     /* turns that no fence was for yet */
    uint64_t id;         /* of the stream */
    crmm_priv_pool *pool;
    struct crmm_priv_pool_thread *thread;
    crmm_priv_pool_cache *next_of_thread;
    crmm_priv_pool_cache *next_of_pool;
    uint32_t next_class; /* to be made smaller when the cache is full */
    void *blocks[CRMM_PRIV_POOL_AT_HAND];
};

/* Whose the blocks at hand are. */
static inline uint16_t crmm_priv_pool_cache_owner(const crmm_priv_pool_cache *cache)
{
    return cache->stream == NULL ? CRMM_PRIV_POOL_CLEAN : cache->stream->index;
}

/* The epoch of what is given back on the cache's stream now. */
static inline uint64_t crmm_priv_pool_cache_now(const crmm_priv_pool_cache *cache)
{
    return cache->stream == NULL ? 0 : crmm_priv_pool_stream_epoch(cache->stream);
}

/* All bytes at hand, as others see it. */
static inline size_t crmm_priv_pool_cache_bytes(const crmm_priv_pool_cache *cache)
{
    size_t parked = 0;

    for (size_t i = 0; i < CRMM_PRIV_POOL_MOST_PARKED; i++) {
        parked += __atomic_load_n(&cache->parked[i].size, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&cache->bytes, __ATOMIC_RELAXED) +
           (parked << CRMM_PRIV_POOL_GRANULE_SHIFT);
}

/* Where the blocks of a class begin. */
static inline size_t crmm_priv_pool_first_block(size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        return class_index * CRMM_PRIV_POOL_MOST_SMALL;
    }
    if (class_index < CRMM_PRIV_POOL_MIDDLE_CLASSES) {
        return (size_t)CRMM_PRIV_POOL_SMALL_CLASSES * CRMM_PRIV_POOL_MOST_SMALL +
               (class_index - CRMM_PRIV_POOL_SMALL_CLASSES) * CRMM_PRIV_POOL_MOST_MIDDLE;
    }
    return CRMM_PRIV_POOL_AT_HAND -
           (CRMM_PRIV_POOL_CLASSES - class_index) * CRMM_PRIV_POOL_MOST_BIG;
}

static inline size_t crmm_priv_pool_class_bytes(size_t class_index)
{
    return (size_t)crmm_priv_pool_class_size(class_index) << CRMM_PRIV_POOL_GRANULE_SHIFT;
}

/* ---- using it ---- */

/* Shelves for a new cache of a pool: empty ones, where the pool keeps anything at hand. */
void crmm_priv_pool_cache_set_shelves(crmm_priv_pool_cache *cache);

/* Take a block off a shelf that has one. */
static inline void *crmm_priv_pool_cache_pop(crmm_priv_pool_cache *cache,
                                             crmm_priv_pool_shelf *shelf)
{
    void **next = shelf->next - 1;

    shelf->next = next;
    __atomic_store_n(&cache->bytes, cache->bytes - shelf->bytes, __ATOMIC_RELAXED);
    return *next;
}

/* Look at the chunk that a block lies in from now on. false: it lies in none. */
bool crmm_priv_pool_cache_find_chunk(crmm_priv_pool_cache *cache, const void *ptr);

/* Where a block lies in the chunk that is looked at, in granules. cache->chunk_granules or more: it
 * does not, or it does not begin with a granule. */
static inline size_t crmm_priv_pool_cache_granule(const crmm_priv_pool_cache *cache,
                                                  const void *ptr)
{
    size_t offset = (uintptr_t)ptr - cache->chunk_base;
    const size_t shift = CRMM_PRIV_POOL_GRANULE_SHIFT;

    /* Turned round, so that what is no whole granule comes out as too much. */
    return offset >> shift | offset << (8 * sizeof(offset) - shift);
}

/* Bytes were given back. Whether it is time to look at crmm_priv_pool_cache_look(). */
static inline bool crmm_priv_pool_cache_count(crmm_priv_pool_cache *cache, size_t bytes)
{
    int64_t left = __atomic_load_n(&cache->left, __ATOMIC_RELAXED) - (int64_t)bytes;

    __atomic_store_n(&cache->left, left, __ATOMIC_RELAXED);
    return left < 0;
}

/* Put a block on a shelf that is not full. Whether it is time to look at
 * crmm_priv_pool_cache_look(). */
static inline bool crmm_priv_pool_cache_push(crmm_priv_pool_cache *cache,
                                             crmm_priv_pool_shelf *shelf, void *block)
{
    void **next = shelf->next;
    size_t bytes = shelf->bytes;

    shelf->next = next + 1;
    *next = block;
    __atomic_store_n(&cache->bytes, cache->bytes + bytes, __ATOMIC_RELAXED);
    return crmm_priv_pool_cache_count(cache, bytes);
}

/* The same where the shelf may be full. Takes the lock. */
bool crmm_priv_pool_cache_put(crmm_priv_pool_cache *cache, size_t class_index, void *block);

/* Take a block, with the lock. NULL: there is none of the class. */
void *crmm_priv_pool_cache_get(crmm_priv_pool_cache *cache, size_t class_index);

/* How many more blocks of a class to fetch together with one that was missing. */
uint32_t crmm_priv_pool_cache_missed(crmm_priv_pool_cache *cache, size_t class_index);

/* Put blocks in that no program has had meanwhile; those for which there is no room come back:
 * their number, at the front of `blocks`. */
uint32_t crmm_priv_pool_cache_fill(crmm_priv_pool_cache *cache, size_t class_index, void **blocks,
                                   uint32_t count);

/* Give all blocks to the heaps; the cache is locked. */
void crmm_priv_pool_cache_flush(crmm_priv_pool_cache *cache);

/* The epoch of what is at hand. */
uint64_t crmm_priv_pool_cache_epoch(const crmm_priv_pool_cache *cache);

/* Give blocks at hand to their heaps, marked with an owner and an epoch. */
void crmm_priv_pool_give_to_heaps(crmm_priv_pool *pool, void *const *blocks, size_t count,
                                  uint16_t owner, uint64_t epoch);

#endif
