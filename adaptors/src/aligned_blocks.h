/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_ALIGNED_BLOCKS_H
#define CRMM_ADAPTORS_SRC_ALIGNED_BLOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A block that begins inside the one that the upstream gave. */
typedef struct aligned_block {
    void *ptr;        /* where the program's part begins; NULL: no block */
    void *base;       /* where the upstream's begins */
    size_t bytes;     /* as the program asked */
    size_t alignment; /* as the program asked */
    size_t padded;    /* bytes at `base` */
} aligned_block;

enum { ALIGNED_SHARDS = 16, ALIGNED_CACHE_LINE = 64 };

typedef struct aligned_shard {
    pthread_mutex_t mutex;
    aligned_block *slots; /* open addressing, linear probing */
    size_t capacity;      /* a power of two, or 0 */
    size_t used;
    char apart[ALIGNED_CACHE_LINE]; /* so that threads on two shards share no cache line */
} aligned_shard;

/*
 * The blocks by their `ptr`: a hash table in shards, each with its lock. Adding may allocate,
 * taking out never does. Thread-safety: safe, except init and finish.
 */
typedef struct aligned_blocks {
    size_t count; /* atomic; of all shards */
    aligned_shard shards[ALIGNED_SHARDS];
} aligned_blocks;

/* false: a lock could not be made, and there is nothing to finish. */
bool crmm_priv_aligned_blocks_init(aligned_blocks *blocks);
void crmm_priv_aligned_blocks_finish(aligned_blocks *blocks);

/* false: no memory for the entry. One that was there under the same `ptr` is replaced. */
bool crmm_priv_aligned_blocks_add(aligned_blocks *blocks, const aligned_block *block);

typedef enum aligned_found {
    ALIGNED_ABSENT, /* there is no such block; `block` is untouched */
    ALIGNED_OTHER,  /* it has another size or alignment; left in, copied to `block` */
    ALIGNED_TAKEN   /* it is out of the table now, and in `block` */
} aligned_found;

/* Take a block out that was asked for with this size and alignment. */
aligned_found crmm_priv_aligned_blocks_take(aligned_blocks *blocks, const void *ptr, size_t bytes,
                                            size_t alignment, aligned_block *block);

/* The same whatever its size and alignment. */
aligned_found crmm_priv_aligned_blocks_take_any(aligned_blocks *blocks, const void *ptr,
                                                aligned_block *block);

/* Copy one without taking it out. */
bool crmm_priv_aligned_blocks_find(aligned_blocks *blocks, const void *ptr, aligned_block *block);

/* How many there are, the sum of their `bytes`, and one of them; with no other call in flight. */
size_t crmm_priv_aligned_blocks_sum(const aligned_blocks *blocks, size_t *bytes, const void **one);

#endif
