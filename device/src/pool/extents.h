/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_EXTENTS_H
#define CRMM_DEVICE_POOL_EXTENTS_H

/*
 * A segregated-fit heap over address space that it never touches: every piece of it is an extent,
 * in use, free, or a hole without memory, and extents are known by their offset in an array beside
 * it. Free extents are sorted by their owner, the stream they were given back on, and by size: two
 * levels of bitmaps over 28 x 32 bins, as TLSF has them (Masmano et al., ECRTS 2004), so that a
 * search looks at a bounded number of extents.
 *
 * Nothing here locks, calls CUDA, or knows what a stream is. Only functions that say so take memory
 * from the C heap.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The unit of sizes and addresses. */
enum { CRMM_PRIV_POOL_GRANULE_SHIFT = 8, CRMM_PRIV_POOL_GRANULE = 256 };

/* Who a free extent belongs to. Further owners are streams, numbered by the pool. */
enum {
    CRMM_PRIV_POOL_CLEAN,    /* nobody: no work is pending on it */
    CRMM_PRIV_POOL_STRANDED, /* a stream that is not known any more */
    CRMM_PRIV_POOL_FIRST_STREAM
};

typedef enum crmm_priv_pool_state {
    CRMM_PRIV_POOL_NOTHING, /* no extent: an entry of the array that is not in use */
    CRMM_PRIV_POOL_USED,    /* handed out, or at hand in a cache */
    CRMM_PRIV_POOL_FREE,
    CRMM_PRIV_POOL_HOLE,   /* address space without memory */
    CRMM_PRIV_POOL_BUSY,   /* a hole that is being filled, or memory that is being given back */
    CRMM_PRIV_POOL_LEAVING /* its memory is elsewhere already; still mapped here as well */
} crmm_priv_pool_state;

typedef struct crmm_priv_extent {
    uint64_t at;                    /* address, in granules */
    uint64_t epoch;                 /* of the owner, when it was given back; of one in use that no
                                       cache keeps, what its heap had been given back before */
    uint32_t size;                  /* granules */
    uint32_t before, after;         /* neighbours in address space; 0: none */
    uint32_t bin_before, bin_after; /* in its bin, or in the list of its state */
    uint32_t age_before, age_after; /* among the owner's, by their epochs */
    uint16_t owner;
    uint8_t state;
    bool is_direct : 1; /* in use by the program, not by way of a cache */
    bool is_apart : 1;  /* in a chunk for one block at a time */
} crmm_priv_extent;

/* What an index counts in, and how far apart those of two entries are: a processor then adds an
 * index to where the array begins while it reads, instead of multiplying it first. */
typedef uint64_t crmm_priv_extent_unit;
enum { CRMM_PRIV_EXTENT_STEP = sizeof(crmm_priv_extent) / sizeof(crmm_priv_extent_unit) };
_Static_assert(sizeof(crmm_priv_extent) % sizeof(crmm_priv_extent_unit) == 0,
               "no entry is between");

enum { CRMM_PRIV_POOL_ROWS = 28, CRMM_PRIV_POOL_COLUMNS = 32 };

/* The free extents of one owner. */
typedef struct crmm_priv_extent_set {
    uint64_t granules;
    uint32_t count;
    uint32_t oldest, newest; /* not kept for clean ones */
    uint32_t rows;           /* bit r: columns[r] is not 0 */
    uint32_t columns[CRMM_PRIV_POOL_ROWS];
    uint32_t bins[CRMM_PRIV_POOL_ROWS * CRMM_PRIV_POOL_COLUMNS]; /* row by row */
} crmm_priv_extent_set;

typedef struct crmm_priv_extent_slot {
    uint32_t key; /* low bits of the address */
    uint32_t index;
} crmm_priv_extent_slot;

typedef struct crmm_priv_extents {
    crmm_priv_extent *all; /* [0] stands for none */
    uint32_t capacity;
    uint32_t unused; /* first free entry of the array */
    uint32_t unused_count;
    crmm_priv_extent_slot *table; /* those in use, by address: open addressing, linear probing */
    uint32_t table_size;          /* a power of two */
    uint32_t used_count;
    crmm_priv_extent_set **sets; /* by owner; NULL: nothing yet */
    uint32_t set_count;
    uint32_t holes;   /* first in the list */
    uint32_t leaving; /* first in the list */
    uint16_t solo;    /* the only stream there is, to which clean neighbours are joined; 0: none */
    uint64_t used_granules;
    uint64_t free_granules;
    uint64_t hole_granules;
    uint64_t busy_granules;
    uint64_t leaving_granules;
} crmm_priv_extents;

static inline crmm_priv_extent *crmm_priv_extent_at(const crmm_priv_extents *extents,
                                                    uint32_t index)
{
    return (crmm_priv_extent *)((crmm_priv_extent_unit *)extents->all + index);
}

/* Beyond the highest index. The lowest one is CRMM_PRIV_EXTENT_STEP. */
static inline uint32_t crmm_priv_extents_end(const crmm_priv_extents *extents)
{
    return extents->capacity * CRMM_PRIV_EXTENT_STEP;
}

/* From zeroed storage; false: no host memory. finish() takes what init() left at any rate. */
bool crmm_priv_extents_init(crmm_priv_extents *extents);
void crmm_priv_extents_finish(crmm_priv_extents *extents);

enum { CRMM_PRIV_POOL_NEW_EXTENTS = 3 /* that one call can make */ };

/* The slow halves of the next two. */
bool crmm_priv_extents_grow(crmm_priv_extents *extents);
bool crmm_priv_extents_add_owner(crmm_priv_extents *extents, uint16_t owner);

/*
 * Make sure that the next calls find what they need without the C heap: entries for new
 * extents, and room in the table, which is half full at most. false: no host memory.
 */
static inline bool crmm_priv_extents_reserve(crmm_priv_extents *extents)
{
    return (extents->unused_count >= CRMM_PRIV_POOL_NEW_EXTENTS &&
            (extents->used_count + 1) * 2 <= extents->table_size) ||
           crmm_priv_extents_grow(extents);
}

/* The same for giving back to an owner; false: no host memory, and the owner is
 * CRMM_PRIV_POOL_STRANDED instead. */
static inline bool crmm_priv_extents_reserve_owner(crmm_priv_extents *extents, uint16_t owner)
{
    return (owner < extents->set_count && extents->sets[owner] != NULL) ||
           crmm_priv_extents_add_owner(extents, owner);
}

/* A new chunk of address space, after crmm_priv_extents_reserve(): a hole, or clean memory. Its
 * index. */
uint32_t crmm_priv_extents_add(crmm_priv_extents *extents, uint64_t at, uint32_t size,
                               crmm_priv_pool_state state, bool is_apart);

/* Take a chunk's address space away: one extent that is a whole chunk, busy. */
void crmm_priv_extents_remove(crmm_priv_extents *extents, uint32_t index);

/* ---- taking ---- */

/* Whose extents may be taken, up to which epoch. */
typedef struct crmm_priv_extent_source {
    uint16_t owner;
    uint64_t epoch;
} crmm_priv_extent_source;

/*
 * What a chunk for one block at a time may serve: while it is free as a whole and has no more than
 * `most` granules. CRMM_PRIV_POOL_ANY: it is like any other.
 */
#define CRMM_PRIV_POOL_ANY UINT32_MAX

static inline bool crmm_priv_extent_may_serve(const crmm_priv_extent *extent, uint32_t most)
{
    return !extent->is_apart || most == CRMM_PRIV_POOL_ANY ||
           (extent->before == 0 && extent->after == 0 && extent->size <= most);
}

/*
 * The free extent that fits best among the sources: for `size` granules at a multiple of
 * `alignment` granules, of a chunk that may serve it. 0: none.
 */
uint32_t crmm_priv_extents_find(const crmm_priv_extents *extents, uint32_t size, uint32_t alignment,
                                uint32_t most, const crmm_priv_extent_source *sources,
                                size_t source_count);

/* The same for any place in any chunk. */
uint32_t crmm_priv_extents_find_tightest(const crmm_priv_extents *extents, uint32_t size,
                                         const crmm_priv_extent_source *sources,
                                         size_t source_count);

/*
 * A row of free neighbours of any of the sources, one of which fits about as well as the tightest
 * extent: the lowest of some such rows. With `is_lowest_first` looser ones count too. Without it,
 * an extent of just the size that no free one lies before is as good. If no extent suffices by
 * itself, the lowest of some rows that do. Its first extent, for crmm_priv_extents_take_run() with
 * no alignment; 0: none was found. It looks at a bounded number of extents.
 */
uint32_t crmm_priv_extents_find_row(const crmm_priv_extents *extents, uint32_t size,
                                    const crmm_priv_extent_source *sources, size_t source_count,
                                    bool is_lowest_first);

/* The same as crmm_priv_extents_find(), among all that are large enough: slow where they are many.
 */
uint32_t crmm_priv_extents_find_any(const crmm_priv_extents *extents, uint32_t size,
                                    uint32_t alignment, uint32_t most,
                                    const crmm_priv_extent_source *sources, size_t source_count);

/* Of one source, the free extent that was given back first of those that fit, or at least one of
 * them; 0: none. */
uint32_t crmm_priv_extents_find_oldest(const crmm_priv_extents *extents, uint32_t size,
                                       uint32_t alignment, crmm_priv_extent_source source);

/* The same as crmm_priv_extents_find_any() without an alignment: the tightest one within a chunk
 * that has something else in it, else a chunk that is free as a whole. */
uint32_t crmm_priv_extents_find_thrifty(const crmm_priv_extents *extents, uint32_t size,
                                        uint32_t most, const crmm_priv_extent_source *sources,
                                        size_t source_count);

/*
 * Take `size` granules from a free extent that crmm_priv_extents_find() gave, after
 * crmm_priv_extents_reserve(). What is left over stays with its owner. The index of the extent in
 * use.
 */
uint32_t crmm_priv_extents_take(crmm_priv_extents *extents, uint32_t index, uint32_t size,
                                uint32_t alignment);

/* Make two of an extent in use, after crmm_priv_extents_reserve(): the first keeps `size` granules.
 * The index of the second. */
uint32_t crmm_priv_extents_divide(crmm_priv_extents *extents, uint32_t index, uint32_t size);

/*
 * Take `size` granules at a multiple of `alignment` from the run of free neighbours that begins at
 * `first`, which is long enough with its padding, after crmm_priv_extents_reserve(). The index of
 * the extent in use.
 */
uint32_t crmm_priv_extents_take_run(crmm_priv_extents *extents, uint32_t first, uint32_t size,
                                    uint32_t alignment);

/* ---- giving back ---- */

/* The extent in use that begins at an address; 0: none. */
uint32_t crmm_priv_extents_lookup(const crmm_priv_extents *extents, uint64_t at);

/* Give an extent in use to an owner, merged with neighbours of the same. */
void crmm_priv_extents_release(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                               uint64_t epoch);

/* What an owner gave back up to an epoch is complete: the oldest `most` extents of it are clean
 * now. Their number. */
uint32_t crmm_priv_extents_promote(crmm_priv_extents *extents, uint16_t owner, uint64_t epoch,
                                   uint32_t most);

/* ---- memory behind address space ---- */

/*
 * Cut a part out of an extent that is not in use, after crmm_priv_extents_reserve(), and make it
 * busy or leaving. Its index. The part lies within the extent.
 */
uint32_t crmm_priv_extents_carve(crmm_priv_extents *extents, uint32_t index, uint64_t at,
                                 uint32_t size, crmm_priv_pool_state state);

/* A busy or leaving extent becomes a hole, merged with neighbouring holes. */
void crmm_priv_extents_set_hole(crmm_priv_extents *extents, uint32_t index);

/* A busy or leaving extent becomes free memory of an owner. */
void crmm_priv_extents_set_free(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                                uint64_t epoch);

/* ---- looking ---- */

static inline crmm_priv_extent_set *crmm_priv_extents_set(const crmm_priv_extents *extents,
                                                          uint16_t owner)
{
    return owner < extents->set_count ? extents->sets[owner] : NULL;
}

/* Visit free extents, in no order, until one does not want more. */
void crmm_priv_extents_for_each_free(const crmm_priv_extents *extents,
                                     bool (*visit)(const crmm_priv_extent *extent, uint32_t index,
                                                   void *data),
                                     void *data);

/* The size of the largest free extent, in granules. */
uint32_t crmm_priv_extents_largest(const crmm_priv_extents *extents);

/* Whether the structure is sound; otherwise why it is not, in `why`. Slow. */
bool crmm_priv_extents_check(const crmm_priv_extents *extents, char *why, size_t size);

#endif
