/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/blocks.h>

#include <stdint.h>
#include <stdlib.h>

enum { FEWEST_SLOTS = 16 };

/* ---- where a block is ---- */

/* The multiplier is 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3,
 * section 6.4). The highest bits choose the shard, others the slot. */
static uint64_t hash_of(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15);
}

static crmm_priv_blocks_shard *shard_of(crmm_priv_blocks *blocks, const void *ptr)
{
    return &blocks->shards[(hash_of(ptr) >> 60) % CRMM_PRIV_BLOCKS_SHARDS];
}

/* Where the search for a block begins. */
static size_t home_of(const crmm_priv_blocks_shard *shard, const void *ptr)
{
    return (size_t)(hash_of(ptr) >> 24) & (shard->capacity - 1);
}

/* The slot with a block, or the empty one where it belongs; there is an empty one. */
static size_t find_slot(const crmm_priv_blocks_shard *shard, const void *ptr)
{
    size_t slot = home_of(shard, ptr);

    while (shard->slots[slot].ptr != NULL && shard->slots[slot].ptr != ptr) {
        slot = (slot + 1) & (shard->capacity - 1);
    }
    return slot;
}

static crmm_priv_block *find(const crmm_priv_blocks_shard *shard, const void *ptr)
{
    if (shard->capacity == 0) {
        return NULL;
    }
    crmm_priv_block *block = &shard->slots[find_slot(shard, ptr)];
    return block->ptr != NULL ? block : NULL;
}

/* ---- in ---- */

/* Make sure that one more block leaves a quarter of the slots empty. */
static bool make_room(crmm_priv_blocks_shard *shard)
{
    if (shard->used < shard->capacity / 4 * 3) {
        return true;
    }
    crmm_priv_blocks_shard larger = {.capacity =
                                         shard->capacity == 0 ? FEWEST_SLOTS : shard->capacity * 2};
    larger.slots = calloc(larger.capacity, sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < shard->capacity; i++) {
        if (shard->slots[i].ptr != NULL) {
            larger.slots[find_slot(&larger, shard->slots[i].ptr)] = shard->slots[i];
        }
    }
    free(shard->slots);
    shard->slots = larger.slots;
    shard->capacity = larger.capacity;
    return true;
}

bool crmm_priv_blocks_add(crmm_priv_blocks *blocks, const crmm_priv_block *block)
{
    crmm_priv_blocks_shard *shard = shard_of(blocks, block->ptr);

    (void)pthread_mutex_lock(&shard->mutex);
    bool added = make_room(shard);
    if (added) {
        crmm_priv_block *slot = &shard->slots[find_slot(shard, block->ptr)];
        if (slot->ptr == NULL) {
            shard->used++;
            (void)__atomic_fetch_add(&blocks->count, 1, __ATOMIC_RELAXED);
        }
        *slot = *block;
    }
    (void)pthread_mutex_unlock(&shard->mutex);
    return added;
}

/* ---- out ---- */

/* Empty a slot, and move those behind it forward that were only there because it was taken. */
static void empty_slot(crmm_priv_blocks_shard *shard, size_t hole)
{
    size_t mask = shard->capacity - 1;

    for (size_t slot = (hole + 1) & mask; shard->slots[slot].ptr != NULL;
         slot = (slot + 1) & mask) {
        size_t home = home_of(shard, shard->slots[slot].ptr);
        /* It may move if its home is not between the hole and where it is. */
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            shard->slots[hole] = shard->slots[slot];
            hole = slot;
        }
    }
    shard->slots[hole] = (crmm_priv_block){0};
    shard->used--;
}

static void take_out(crmm_priv_blocks *blocks, crmm_priv_blocks_shard *shard,
                     const crmm_priv_block *block)
{
    shard->last = block->ptr;
    empty_slot(shard, (size_t)(block - shard->slots));
    (void)__atomic_fetch_sub(&blocks->count, 1, __ATOMIC_RELAXED);
}

crmm_priv_block_found crmm_priv_blocks_take(crmm_priv_blocks *blocks, const void *ptr, size_t bytes,
                                            size_t alignment, crmm_priv_block *block)
{
    crmm_priv_blocks_shard *shard = shard_of(blocks, ptr);
    crmm_priv_block_found found = CRMM_PRIV_BLOCK_ABSENT;

    (void)pthread_mutex_lock(&shard->mutex);
    const crmm_priv_block *known = find(shard, ptr);
    if (known != NULL) {
        *block = *known;
        found = known->bytes == bytes && known->alignment == alignment ? CRMM_PRIV_BLOCK_TAKEN
                                                                       : CRMM_PRIV_BLOCK_OTHER;
    }
    if (found == CRMM_PRIV_BLOCK_TAKEN) {
        take_out(blocks, shard, known);
    }
    (void)pthread_mutex_unlock(&shard->mutex);
    return found;
}

crmm_priv_block_found crmm_priv_blocks_take_any(crmm_priv_blocks *blocks, const void *ptr,
                                                crmm_priv_block *block)
{
    crmm_priv_blocks_shard *shard = shard_of(blocks, ptr);

    (void)pthread_mutex_lock(&shard->mutex);
    const crmm_priv_block *known = find(shard, ptr);
    if (known != NULL) {
        *block = *known;
        take_out(blocks, shard, known);
    }
    (void)pthread_mutex_unlock(&shard->mutex);
    return known != NULL ? CRMM_PRIV_BLOCK_TAKEN : CRMM_PRIV_BLOCK_ABSENT;
}

bool crmm_priv_blocks_was_last(crmm_priv_blocks *blocks, const void *ptr)
{
    crmm_priv_blocks_shard *shard = shard_of(blocks, ptr);

    (void)pthread_mutex_lock(&shard->mutex);
    bool was = shard->last == ptr;
    (void)pthread_mutex_unlock(&shard->mutex);
    return was;
}

bool crmm_priv_blocks_find(crmm_priv_blocks *blocks, const void *ptr, crmm_priv_block *block)
{
    if (__atomic_load_n(&blocks->count, __ATOMIC_RELAXED) == 0) {
        return false;
    }
    crmm_priv_blocks_shard *shard = shard_of(blocks, ptr);

    (void)pthread_mutex_lock(&shard->mutex);
    const crmm_priv_block *known = find(shard, ptr);
    if (known != NULL) {
        *block = *known;
    }
    (void)pthread_mutex_unlock(&shard->mutex);
    return known != NULL;
}

size_t crmm_priv_blocks_sum(const crmm_priv_blocks *blocks, size_t *bytes, const void **one)
{
    size_t count = 0;

    *bytes = 0;
    *one = NULL;
    for (size_t i = 0; i < CRMM_PRIV_BLOCKS_SHARDS; i++) {
        const crmm_priv_blocks_shard *shard = &blocks->shards[i];
        for (size_t slot = 0; slot < shard->capacity; slot++) {
            if (shard->slots[slot].ptr != NULL) {
                count++;
                *bytes += shard->slots[slot].bytes;
                *one = shard->slots[slot].ptr;
            }
        }
    }
    return count;
}

/* ---- the table ---- */

static void finish_shards(crmm_priv_blocks *blocks, size_t made)
{
    for (size_t i = 0; i < made; i++) {
        free(blocks->shards[i].slots);
        (void)pthread_mutex_destroy(&blocks->shards[i].mutex);
    }
}

bool crmm_priv_blocks_init(crmm_priv_blocks *blocks)
{
    *blocks = (crmm_priv_blocks){0};
    for (size_t i = 0; i < CRMM_PRIV_BLOCKS_SHARDS; i++) {
        if (pthread_mutex_init(&blocks->shards[i].mutex, NULL) != 0) {
            finish_shards(blocks, i);
            return false;
        }
    }
    return true;
}

void crmm_priv_blocks_finish(crmm_priv_blocks *blocks)
{
    finish_shards(blocks, CRMM_PRIV_BLOCKS_SHARDS);
}
