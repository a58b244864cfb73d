/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_BLOCKS_H
#define CRMM_INTERNAL_BLOCKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A block that came from elsewhere. */
typedef struct crmm_priv_block {
    void *ptr;        /* as the program has it; NULL: no block */
    void *origin;     /* what it came from: another address, or a resource */
    size_t bytes;     /* as the program asked */
    size_t alignment; /* as the program asked */
    size_t padded;    /* as the upstream was asked, where that is another size */
} crmm_priv_block;

enum { CRMM_PRIV_BLOCKS_SHARDS = 16, CRMM_PRIV_BLOCKS_LINE = 64 };

typedef struct crmm_priv_blocks_shard {
    pthread_mutex_t mutex;
    crmm_priv_block *slots; /* open addressing, linear probing */
    size_t capacity;        /* a power of two, or 0 */
    size_t used;
    const void *last;                  /* taken out */
    char apart[CRMM_PRIV_BLOCKS_LINE]; /* so that threads on two shards share no cache line */
} crmm_priv_blocks_shard;

/*
 * The blocks by their `ptr`: a hash table in shards, each with its lock. Adding may allocate,
 * taking out never does. Thread-safety: safe, except init and finish.
 */
typedef struct crmm_priv_blocks {
    size_t count; /* atomic; of all shards */
    crmm_priv_blocks_shard shards[CRMM_PRIV_BLOCKS_SHARDS];
} crmm_priv_blocks;

/* false: a lock could not be made, and there is nothing to finish. */
bool crmm_priv_blocks_init(crmm_priv_blocks *blocks);
void crmm_priv_blocks_finish(crmm_priv_blocks *blocks);

/* false: no memory for the entry. One that was there under the same `ptr` is replaced. */
bool crmm_priv_blocks_add(crmm_priv_blocks *blocks, const crmm_priv_block *block);

typedef enum crmm_priv_block_found {
    CRMM_PRIV_BLOCK_ABSENT, /* there is no such block; `block` is untouched */
    CRMM_PRIV_BLOCK_OTHER,  /* it has another size or alignment; left in, copied to `block` */
    CRMM_PRIV_BLOCK_TAKEN   /* it is out of the table now, and in `block` */
} crmm_priv_block_found;

/* Take a block out that was asked for with this size and alignment. */
crmm_priv_block_found crmm_priv_blocks_take(crmm_priv_blocks *blocks, const void *ptr, size_t bytes,
                                            size_t alignment, crmm_priv_block *block);

/* The same whatever its size and alignment. */
crmm_priv_block_found crmm_priv_blocks_take_any(crmm_priv_blocks *blocks, const void *ptr,
                                                crmm_priv_block *block);

/* Whether nothing was taken out after this one, as far as its shard knows: it may be given back for
 * the second time. */
bool crmm_priv_blocks_was_last(crmm_priv_blocks *blocks, const void *ptr);

/* Copy one without taking it out. */
bool crmm_priv_blocks_find(crmm_priv_blocks *blocks, const void *ptr, crmm_priv_block *block);

/* The same and one of them; with no other call in flight. */
size_t crmm_priv_blocks_sum(const crmm_priv_blocks *blocks, size_t *bytes, const void **one);

#endif
