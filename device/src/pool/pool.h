/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_POOL_H
#define CRMM_DEVICE_POOL_POOL_H

/*
 * What a pool consists of.
 *
 *   chunks    the memory that upstream gave, and what its blocks are marked with
 *   heaps     free and used extents within the chunks; threads that collide get one each
 *   streams   how far the work on each stream has come
 *   caches    blocks at hand, one cache for each thread and stream
 *   depot     blocks that go from cache to cache
 *
 * Locks, in the order in which a thread may take them: a cache's, one heap's, a stream's, or a
 * rack's of the depot, under which no other is taken. Of a
 * second heap, or another thread's cache, only a try is allowed. None is held across a call of
 * CUDA's or of upstream's; who changes memory there marks it busy and comes back.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/device/pool_memory_resource.h>
#include <crmm/internal/resource.h>

#include "chunks.h"
#include "depot.h"
#include "extents.h"
#include "size_class.h"
#include "spin.h"
#include "streams.h"

enum { CRMM_PRIV_POOL_MOST_HEAPS = 16, CRMM_PRIV_POOL_LINE = 128 };

typedef struct crmm_priv_pool crmm_priv_pool;
typedef struct crmm_priv_pool_cache crmm_priv_pool_cache;
typedef struct crmm_priv_pool_guard crmm_priv_pool_guard;

/* Free and used memory, for one thread at a time. */
typedef struct crmm_priv_pool_heap {
    _Alignas(128) crmm_priv_spin lock;
    const void *last; /* the thread that had the lock before */
    uint32_t index;
    uint32_t users; /* caches that take from it; guarded by the pool's lock */
    uint32_t shortages;
    uint32_t returns;     /* counts blocks given back by who has a cache, and too large for it */
    uint32_t turn;        /* the same without those that are parked, until they come here */
    uint32_t spent_turns; /* up to where fences were recorded for them */
    uint32_t settled_returns; /* when it was asked last what streams have completed */
    uint32_t settled_stream;  /* counts streams that were asked in turn */
    crmm_priv_extents extents;
} crmm_priv_pool_heap;

/* A page whose memory is at another address already. In granules. */
typedef struct crmm_priv_pool_move {
    uint64_t from, to;
} crmm_priv_pool_move;

struct crmm_priv_pool {
    struct crmm_resource base;
    crmm_resource *upstream; /* retained */
    uint64_t serial;         /* no two pools have the same, and it changes when a chunk goes */
    uint64_t generation;     /* of the process: a forked child has another one */
    int device;              /* -1: none */
    bool is_stream_ordered;  /* else there are sync calls only */
    bool is_in_place;        /* upstream can put memory behind reserved addresses */
    bool can_move;           /* and have a handle at two addresses */
    bool is_tight;
    bool is_rigid; /* holds what it began with, in one chunk */
    bool validates;

    size_t largest_cached; /* bytes of a block that caches keep */
    size_t page;           /* bytes that memory comes and goes by in place; at least, elsewhere */
    size_t unit;           /* bytes that a chunk is a multiple of; 0: no matter */
    size_t maximum;
    size_t target;
    size_t release_threshold; /* SIZE_MAX: keep all */
    size_t cache_option;      /* bytes; SIZE_MAX: none; 0: the pool's choice */
    uint32_t most_heaps;
    crmm_pool_chunk_callback on_chunk;
    void *on_chunk_user_data;
    crmm_priv_pool_guard *guard; /* NULL: blocks have none */

    /* Read by every call, written when the pool grows or a cache is made. */
    char apart[CRMM_PRIV_POOL_LINE];
    size_t budget;      /* bytes that a cache may hold */
    size_t fence_limit; /* bytes given back on a stream without a fence */
    crmm_priv_pool_chunks chunks;
    crmm_priv_pool_heap *heaps[CRMM_PRIV_POOL_MOST_HEAPS];
    uint32_t heap_count;

    char apart_too[CRMM_PRIV_POOL_LINE];
    pthread_mutex_t mutex; /* guards what follows, and who grows */
    pthread_cond_t grown;
    bool is_growing;
    crmm_priv_pool_move *open; /* of the thread that grows */
    size_t open_count, open_capacity;
    crmm_priv_pool_cache *caches;  /* those of threads that live */
    crmm_priv_pool_cache *orphans; /* those of threads that are gone, to be used again */
    uint32_t cache_count;
    uint32_t thread_count; /* that have them */
    size_t held, peak_held, peak_live;
    size_t peak_told; /* as crmm_resource_info() has it */
    uint64_t growths, moves, releases;
    uint64_t upstream_calls;
    uint64_t made_way;       /* bytes of idle chunks that went back before others came */
    bool is_loose;           /* that was so much that chunks are for anything from now on */
    uint64_t stranded_epoch; /* of memory whose stream is not known any more */
    uint16_t only;           /* the only stream there is; 0: there are several, or sync calls */
    uint16_t solo;           /* the same, to which clean memory is joined; 0 also for now */
    uint32_t solo_pauses;    /* calls for which it is 0 for now */
    uint64_t eager_span;     /* fences, see fences.h */
    uint64_t eager_until;    /* so many recorded fences; 0: it is not */
    uint32_t starving;       /* requests that wait on the CPU: nothing is kept at hand meanwhile */
    bool had_sync;           /* there was a sync call */
    crmm_priv_pool_streams streams;
    crmm_priv_pool_depot depot;
};

/* The class, for messages: a pool is also what other classes are made of. */
static inline const char *crmm_priv_pool_name(const crmm_priv_pool *pool)
{
    return crmm_resource_name(&pool->base);
}

/* ---- the process ---- */

/* The number of this process: a forked child has a higher one than its parent. */
uint64_t crmm_priv_pool_generation(void);
extern uint64_t crmm_priv_pool_known_generation; /* the same, after the first call */

/* Whether this is a forked child of the process that made the pool: its locks may be held by
 * threads that the child has not, and its memory is CUDA's. */
static inline bool crmm_priv_pool_is_forked(const crmm_priv_pool *pool)
{
    return pool->generation != __atomic_load_n(&crmm_priv_pool_known_generation, __ATOMIC_RELAXED);
}

/* Upstream, for one call of it, which is counted. */
static inline crmm_resource *crmm_priv_pool_call_upstream(crmm_priv_pool *pool)
{
    (void)__atomic_fetch_add(&pool->upstream_calls, 1, __ATOMIC_RELAXED);
    return pool->upstream;
}

/* Whether chunks that were made for one block are for one at a time. */
static inline bool crmm_priv_pool_is_thrifty(const crmm_priv_pool *pool)
{
    return !pool->is_in_place && !__atomic_load_n(&pool->is_loose, __ATOMIC_RELAXED);
}

/* ---- heaps ---- */

/* Lock the heap; the lock is never held across a call of CUDA's or of upstream's. */
static inline void crmm_priv_pool_heap_lock(crmm_priv_pool_heap *heap)
{
    crmm_priv_spin_lock(&heap->lock);
}

static inline bool crmm_priv_pool_heap_try(crmm_priv_pool_heap *heap)
{
    return crmm_priv_spin_try(&heap->lock);
}

static inline void crmm_priv_pool_heap_unlock(crmm_priv_pool_heap *heap)
{
    crmm_priv_spin_unlock(&heap->lock);
}

/* Make one more heap. NULL: no host memory, or there are enough. */
crmm_priv_pool_heap *crmm_priv_pool_add_heap(crmm_priv_pool *pool);

/* Say which stream is the only one; 0: there are several, or sync calls. */
void crmm_priv_pool_set_only(crmm_priv_pool *pool, uint16_t only);

/* Until the counterpart is called a lone stream's memory is treated like one's of several: what its
 * work is complete for becomes clean, and can go back or be moved. For several threads at once. */
void crmm_priv_pool_pause_solo(crmm_priv_pool *pool);
void crmm_priv_pool_resume_solo(crmm_priv_pool *pool);

static inline crmm_priv_pool_heap *crmm_priv_pool_heap_of(crmm_priv_pool *pool, uint32_t index)
{
    return __atomic_load_n(&pool->heaps[index], __ATOMIC_ACQUIRE);
}

static inline uint32_t crmm_priv_pool_heap_count(const crmm_priv_pool *pool)
{
    return __atomic_load_n(&pool->heap_count, __ATOMIC_ACQUIRE);
}

/* An extent in use goes back to a heap, which is locked, as an owner's. Where there is no host
 * memory for the owner's books, its stream is not known any more. */
static inline void crmm_priv_pool_release_to(const crmm_priv_pool *pool, crmm_priv_pool_heap *heap,
                                             uint32_t index, uint16_t owner, uint64_t epoch)
{
    if (!crmm_priv_extents_reserve_owner(&heap->extents, owner)) {
        owner = CRMM_PRIV_POOL_STRANDED;
        epoch = __atomic_load_n(&pool->stranded_epoch, __ATOMIC_ACQUIRE);
    }
    crmm_priv_extents_release(&heap->extents, index, owner, epoch);
}

/* A block is handed out, for the program itself or for a cache; the heap is locked. */
static inline void crmm_priv_pool_hand_out(crmm_priv_pool_heap *heap, uint32_t index,
                                           bool is_direct)
{
    crmm_priv_extent *extent = crmm_priv_extent_at(&heap->extents, index);

    extent->is_direct = is_direct;
    extent->epoch = heap->returns;
}

/* A live block that caches do not keep is the program's no more, but in use still; the heap is
 * locked. The index of its extent; 0: no such block begins there. */
static inline uint32_t crmm_priv_pool_take_over(crmm_priv_pool_heap *heap, const void *ptr,
                                                uint32_t size)
{
    uint32_t index =
        crmm_priv_extents_lookup(&heap->extents, (uintptr_t)ptr >> CRMM_PRIV_POOL_GRANULE_SHIFT);
    crmm_priv_extent *extent = crmm_priv_extent_at(&heap->extents, index);

    if (index == 0 || !extent->is_direct || extent->size != size) {
        return 0;
    }
    extent->is_direct = 0;
    return index;
}

/* A large block is given back, to be parked or to come to its heap, which is locked. Looked at
 * without the lock, as the next. */
static inline void crmm_priv_pool_heap_return(crmm_priv_pool_heap *heap)
{
    __atomic_store_n(&heap->returns, heap->returns + 1, __ATOMIC_RELAXED);
}

/* One comes to it: how many that are. */
static inline uint32_t crmm_priv_pool_heap_turn(crmm_priv_pool_heap *heap)
{
    uint32_t turn = heap->turn + 1;

    __atomic_store_n(&heap->turn, turn, __ATOMIC_RELAXED);
    return turn;
}

/* A number that no pool had before. */
uint64_t crmm_priv_pool_next_serial(void);

/* ---- figures ---- */

/* All bytes at hand, in caches and in the depot. */
size_t crmm_priv_pool_cached(crmm_priv_pool *pool);

/* Bytes handed out, for which the pool's lock is not held. */
size_t crmm_priv_pool_live(crmm_priv_pool *pool);

/* Bytes that upstream gave. */
static inline size_t crmm_priv_pool_held(const crmm_priv_pool *pool)
{
    return __atomic_load_n(&pool->held, __ATOMIC_RELAXED);
}

/* As crmm_resource_info(). */
crmm_status crmm_priv_pool_info(const crmm_resource *resource, crmm_memory_info *info);

/* The size of the live block that begins at an address of a chunk; 0: none does. */
size_t crmm_priv_pool_block_bytes(crmm_priv_pool *pool, const crmm_priv_pool_chunk *chunk,
                                  const void *ptr);

/* Whether a block, live, at hand or free, begins at an address. */
bool crmm_priv_pool_is_block_start(crmm_priv_pool *pool, const crmm_priv_pool_chunk *chunk,
                                   const void *ptr);

/* The table of operations that a resource has if it is a pool. */
const crmm_resource_ops *crmm_priv_pool_ops_of(const crmm_resource *resource);

/* Whether a resource is a pool; if not, described in the name of the function `who`. */
bool crmm_priv_pool_is_pool(const crmm_resource *resource, const char *who);

#endif
