/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_CHUNKS_H
#define CRMM_DEVICE_POOL_CHUNKS_H

/*
 * The address space that upstream gave, in address order, and the marks of the blocks in it, by
 * which a free of something else is found.
 *
 * A block of up to 32 KiB is marked in a byte for each granule. Larger ones begin in different
 * windows of 128 granules, so two bytes for each window do. Neighbouring windows have them in
 * different lines of the processors' caches, since neighbouring blocks are often different
 * threads'.
 *
 * Thread-safety: find and the marks are safe and take no lock; the others are called by one thread
 * at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extents.h"
#include "size_class.h"

struct crmm_priv_pool_heap;

/* What is known of the blocks in a chunk. */
typedef struct crmm_priv_pool_marks {
    uint8_t *granules;
    uint16_t *windows;
} crmm_priv_pool_marks;

typedef struct crmm_priv_pool_chunk {
    uintptr_t base;
    size_t bytes;
    struct crmm_priv_pool_heap *heap; /* which has its extents */
    bool is_in_place;                 /* reserved; memory comes and goes */
    crmm_priv_pool_marks marks;
} crmm_priv_pool_chunk;

typedef struct crmm_priv_pool_chunk_entry {
    uintptr_t base, end;
    crmm_priv_pool_chunk *chunk;
} crmm_priv_pool_chunk_entry;

typedef struct crmm_priv_pool_chunk_table {
    struct crmm_priv_pool_chunk_table *before; /* a smaller one that was in use earlier */
    size_t capacity;
    crmm_priv_pool_chunk_entry entries[];
} crmm_priv_pool_chunk_table;

typedef struct crmm_priv_pool_chunks {
    uint32_t version; /* odd while it is being changed */
    uint32_t count;
    crmm_priv_pool_chunk_table *table;
} crmm_priv_pool_chunks;

/* A chunk of address space; NULL: no host memory. */
crmm_priv_pool_chunk *crmm_priv_pool_chunks_add(crmm_priv_pool_chunks *chunks, void *base,
                                                size_t bytes, struct crmm_priv_pool_heap *heap,
                                                bool is_in_place);
void crmm_priv_pool_chunks_remove(crmm_priv_pool_chunks *chunks, crmm_priv_pool_chunk *chunk);
void crmm_priv_pool_chunks_finish(crmm_priv_pool_chunks *chunks);

/* The chunk that an address lies in; NULL: none. */
crmm_priv_pool_chunk *crmm_priv_pool_chunks_find(const crmm_priv_pool_chunks *chunks,
                                                 const void *ptr);

/* ---- marks ---- */

enum {
    CRMM_PRIV_POOL_LIVE_GRANULE = 0x80,
    CRMM_PRIV_POOL_LIVE_WINDOW = 0x8000,
    CRMM_PRIV_POOL_WINDOW_SHIFT = 7,
    CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT = 12 /* windows whose marks are in 8 KiB */
};

/*
 * Where the mark of the window is that a granule lies in. A group of 64 x 64 windows has 64 pieces
 * of 128 bytes, as much as processors fetch at once; windows that follow each other are in
 * different ones, and so are those that are up to 32 apart: with 13 the first 16 of a size that
 * caches keep.
 */
static inline size_t crmm_priv_pool_window_of(size_t granule)
{
    enum { SKEW = 13 };
    const size_t half = CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT / 2;
    const size_t low = ((size_t)1 << half) - 1;
    size_t window = granule >> CRMM_PRIV_POOL_WINDOW_SHIFT;
    size_t group = window >> CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT;
    size_t within = window >> half & low;
    size_t piece = (window + SKEW * within) & low;

    return group << CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT | piece << half | within;
}

/* The mark of a live block larger than 32 KiB: where in its window it begins, and its class. */
static inline uint16_t crmm_priv_pool_window_mark(size_t granule, size_t class_index)
{
    size_t within = granule & ((1u << CRMM_PRIV_POOL_WINDOW_SHIFT) - 1);
    return (uint16_t)(CRMM_PRIV_POOL_LIVE_WINDOW | within << 8 | class_index);
}

/* A block of a class that begins with a granule of the chunk is handed out. */
static inline void crmm_priv_pool_mark_live(const crmm_priv_pool_marks *marks, size_t granule,
                                            size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        __atomic_store_n(&marks->granules[granule],
                         (uint8_t)(CRMM_PRIV_POOL_LIVE_GRANULE | class_index), __ATOMIC_RELAXED);
        return;
    }
    __atomic_store_n(&marks->windows[crmm_priv_pool_window_of(granule)],
                     crmm_priv_pool_window_mark(granule, class_index), __ATOMIC_RELAXED);
}

/* A block of a class is given back. false, and nothing is changed: no such block is handed out. */
static inline bool crmm_priv_pool_mark_free(const crmm_priv_pool_marks *marks, size_t granule,
                                            size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_SMALL_CLASSES) {
        uint8_t *mark = &marks->granules[granule];
        if (__atomic_load_n(mark, __ATOMIC_RELAXED) !=
            (CRMM_PRIV_POOL_LIVE_GRANULE | class_index)) {
            return false;
        }
        __atomic_store_n(mark, (uint8_t)0, __ATOMIC_RELAXED);
        return true;
    }
    uint16_t *mark = &marks->windows[crmm_priv_pool_window_of(granule)];
    if (__atomic_load_n(mark, __ATOMIC_RELAXED) !=
        crmm_priv_pool_window_mark(granule, class_index)) {
        return false;
    }
    __atomic_store_n(mark, (uint16_t)0, __ATOMIC_RELAXED);
    return true;
}

/* The class of the block that begins at an address and is handed out; UINT32_MAX: there is none. */
uint32_t crmm_priv_pool_marked_class(const crmm_priv_pool_chunk *chunk, const void *ptr);

#endif
