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

struct crmm_priv_pool_cache {
    _Alignas(128) crmm_priv_bias lock;
    uint32_t heap;  /* which it takes from */
    size_t bytes;   /* at hand; read by others */
    uint64_t epoch; /* of what is at hand, where nothing was put in since the last fence */
    int64_t left;   /* bytes that may be given back before something is to be done; others that
                       want what is at hand make it CRMM_PRIV_POOL_WANTED, and try again if that
                       is lost */
    /* The chunk that a block of this thread lay in last; only this thread looks here. */
    uintptr_t chunk_base;
    size_t chunk_granules; /* 0: there is none */
    crmm_priv_pool_marks marks;
    crmm_priv_pool_shelf shelves[CRMM_PRIV_POOL_CLASSES];

    crmm_priv_pool_stream *stream; /* NULL: CRMM_PRIV_POOL_NO_STREAM */
    int64_t allowance;             /* what `left` began with */
    int64_t fence_limit;           /* bytes given back, at which there is a fence */
    uint64_t fenced;               /* bytes given back before the last one */
    uint32_t fences;               /* so far */
    uint32_t looks;                /* since the account is beyond its limit */
    uint64_t id;                   /* of the stream */
    crmm_priv_pool *pool;
    struct crmm_priv_pool_thread *thread;
    crmm_priv_pool_cache *next_of_thread;
    crmm_priv_pool_cache *next_of_pool;
    uint32_t next_class; /* to be made smaller when the cache is full */
    void *blocks[CRMM_PRIV_POOL_AT_HAND];
};

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
} crmm_priv_pool_thread;

/* One pointer, which also a library that is loaded late has room for. Never NULL. */
extern __thread crmm_priv_pool_thread *crmm_priv_pool_self
    __attribute__((tls_model("initial-exec")));

/* Find the one for the stream with an id, behind a handle, among all of this thread's, or make it.
 * It is found without that from then on. NULL: no host memory. */
crmm_priv_pool_cache *crmm_priv_pool_find_cache(crmm_priv_pool *pool, uint64_t id,
                                                crmm_stream handle);

/* From now on this cache of the calling thread is behind a handle. */
void crmm_priv_pool_remember_handle(const crmm_priv_pool *pool, crmm_priv_pool_cache *cache,
                                    crmm_stream handle);

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

/* ---- using it ---- */

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

/* What a block that goes to the heap at once adds to the account; whether it is time, as above. */
bool crmm_priv_pool_cache_note(crmm_priv_pool_cache *cache, size_t bytes);

/* Something was given back by a call on `handle`, the cache's stream, and it is time: for a fence,
 * or to give memory back to upstream. */
void crmm_priv_pool_cache_look(crmm_priv_pool_cache *cache, crmm_stream handle);

/* Keep all threads out of a pool's caches, and the list of them as it is; then let them in again.
 */
void crmm_priv_pool_stop_caches(crmm_priv_pool *pool);
void crmm_priv_pool_resume_caches(crmm_priv_pool *pool);

/* Give all blocks of all caches to the heaps. Bytes. */
size_t crmm_priv_pool_flush_all(crmm_priv_pool *pool);

/* Let the next call on every stream but one mark what it gave back, and give it to the heaps. */
void crmm_priv_pool_want(crmm_priv_pool *pool, const crmm_priv_pool_stream *but);

/* The epoch of what is at hand. */
uint64_t crmm_priv_pool_cache_epoch(const crmm_priv_pool_cache *cache);

/* Give blocks at hand to their heaps, marked with an owner and an epoch. */
void crmm_priv_pool_give_to_heaps(crmm_priv_pool *pool, void *const *blocks, size_t count,
                                  uint16_t owner, uint64_t epoch);

/* The pool goes: its caches too, with what they hold. */
void crmm_priv_pool_delete_caches(crmm_priv_pool *pool);

/* How many bytes the caches may hold, and how many may be given back without a fence; the pool's
 * lock is held. */
void crmm_priv_pool_set_budget(crmm_priv_pool *pool);

#endif
