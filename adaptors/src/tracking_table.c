/* SPDX-License-Identifier: Apache-2.0 */
#include "tracking_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARD_BITS = 5,
    SHARDS = 1 << SHARD_BITS,
    SHARD_ALIGNMENT = 128, /* two cache lines: processors fetch lines in pairs */
    FIRST_CAPACITY = 32,
    RECENT = 16 /* addresses that a shard remembers after they were taken out */
};

struct crmm_priv_tracking_shard {
    _Alignas(SHARD_ALIGNMENT) pthread_mutex_t mutex;
    crmm_priv_tracked *entries; /* open addressing, linear probing */
    size_t capacity;            /* a power of two, or 0 */
    size_t used;
    size_t bytes; /* of all entries */
    const void *recent[RECENT];
    size_t recent_next;
};

/* ---- one shard; its lock is held ---- */

/* 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4). */
static uint64_t hash_of(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15);
}

static crmm_priv_tracking_shard *shard_of(const crmm_priv_tracking_table *table, const void *ptr)
{
    return &table->shards[hash_of(ptr) >> (64 - SHARD_BITS)];
}

/* The slot where the search for an address begins: of the hash, bits that choose no shard. */
static size_t home_of(const crmm_priv_tracking_shard *shard, const void *ptr)
{
    return (size_t)(hash_of(ptr) >> 24) & (shard->capacity - 1);
}

/* Where an address is, or the empty slot where it belongs; the table has an empty slot. */
static size_t find(const crmm_priv_tracking_shard *shard, const void *ptr)
{
    size_t slot = home_of(shard, ptr);

    while (shard->entries[slot].ptr != NULL && shard->entries[slot].ptr != ptr) {
        slot = (slot + 1) & (shard->capacity - 1);
    }
    return slot;
}

/* Make sure that one more entry leaves a quarter of the slots empty. */
static bool make_room(crmm_priv_tracking_shard *shard)
{
    if (shard->used < shard->capacity / 4 * 3) {
        return true;
    }
    size_t capacity = shard->capacity == 0 ? FIRST_CAPACITY : shard->capacity * 2;
    crmm_priv_tracking_shard larger = {.capacity = capacity,
                                       .entries = calloc(capacity, sizeof(*larger.entries))};
    if (larger.entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < shard->capacity; i++) {
        if (shard->entries[i].ptr != NULL) {
            larger.entries[find(&larger, shard->entries[i].ptr)] = shard->entries[i];
        }
    }
    free(shard->entries);
    shard->entries = larger.entries;
    shard->capacity = capacity;
    return true;
}

/* Empty a slot, and close the gap that it leaves in the searches that pass it. */
static void empty_slot(crmm_priv_tracking_shard *shard, size_t gap)
{
    size_t mask = shard->capacity - 1;

    for (size_t slot = (gap + 1) & mask; shard->entries[slot].ptr != NULL;
         slot = (slot + 1) & mask) {
        size_t from_home = (slot - home_of(shard, shard->entries[slot].ptr)) & mask;
        if (from_home >= ((slot - gap) & mask)) {
            shard->entries[gap] = shard->entries[slot];
            gap = slot;
        }
    }
    shard->entries[gap].ptr = NULL;
}

static void remember(crmm_priv_tracking_shard *shard, const void *ptr)
{
    shard->recent[shard->recent_next] = ptr;
    shard->recent_next = (shard->recent_next + 1) % RECENT;
}

static bool is_recent(const crmm_priv_tracking_shard *shard, const void *ptr)
{
    for (size_t i = 0; i < RECENT; i++) {
        if (shard->recent[i] == ptr) {
            return true;
        }
    }
    return false;
}

/* ---- entries ---- */

bool crmm_priv_tracking_table_add(crmm_priv_tracking_table *table, const crmm_priv_tracked *added,
                                  crmm_priv_tracked *stale)
{
    crmm_priv_tracking_shard *shard = shard_of(table, added->ptr);

    stale->ptr = NULL;
    pthread_mutex_lock(&shard->mutex);
    bool has_room = make_room(shard);
    if (has_room) {
        crmm_priv_tracked *entry = &shard->entries[find(shard, added->ptr)];
        if (entry->ptr != NULL) {
            *stale = *entry;
            shard->bytes -= entry->bytes;
            shard->used--;
        }
        *entry = *added;
        shard->bytes += added->bytes;
        shard->used++;
    }
    pthread_mutex_unlock(&shard->mutex);
    return has_room;
}

static crmm_priv_tracking_found take(crmm_priv_tracking_shard *shard, const void *ptr, size_t bytes,
                                     size_t alignment, crmm_priv_tracked *known)
{
    size_t slot = shard->capacity != 0 ? find(shard, ptr) : 0;

    if (shard->capacity == 0 || shard->entries[slot].ptr == NULL) {
        return is_recent(shard, ptr) ? CRMM_PRIV_TRACKING_TAKEN_BEFORE : CRMM_PRIV_TRACKING_UNKNOWN;
    }
    *known = shard->entries[slot];
    if (bytes != 0 && (bytes != known->bytes || alignment != known->alignment)) {
        return CRMM_PRIV_TRACKING_MISMATCHING;
    }
    empty_slot(shard, slot);
    shard->used--;
    shard->bytes -= known->bytes;
    remember(shard, ptr);
    return CRMM_PRIV_TRACKING_TAKEN;
}

crmm_priv_tracking_found crmm_priv_tracking_table_take(crmm_priv_tracking_table *table,
                                                       const void *ptr, size_t bytes,
                                                       size_t alignment, crmm_priv_tracked *known)
{
    crmm_priv_tracking_shard *shard = shard_of(table, ptr);

    pthread_mutex_lock(&shard->mutex);
    crmm_priv_tracking_found found = take(shard, ptr, bytes, alignment, known);
    pthread_mutex_unlock(&shard->mutex);
    return found;
}

/* ---- all entries ---- */

/* Always in the same order, so that two that do it together cannot wait for each other. */
static void lock_all(crmm_priv_tracking_table *table)
{
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&table->shards[i].mutex);
    }
}

static void unlock_all(crmm_priv_tracking_table *table)
{
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_unlock(&table->shards[i].mutex);
    }
}

/* The locks are held. */
static void sum_up(const crmm_priv_tracking_table *table, size_t *count, size_t *bytes)
{
    *count = 0;
    *bytes = 0;
    for (size_t i = 0; i < SHARDS; i++) {
        *count += table->shards[i].used;
        *bytes += table->shards[i].bytes;
    }
}

void crmm_priv_tracking_table_sum(crmm_priv_tracking_table *table, size_t *count, size_t *bytes)
{
    lock_all(table);
    sum_up(table, count, bytes);
    unlock_all(table);
}

static void list_shard(const crmm_priv_tracking_shard *shard, uint64_t from, uint64_t to,
                       crmm_priv_tracked_list *list)
{
    for (size_t i = 0; i < shard->capacity; i++) {
        const crmm_priv_tracked *entry = &shard->entries[i];
        if (entry->ptr != NULL && entry->epoch >= from && entry->epoch < to) {
            crmm_priv_stack_retain(entry->stack);
            list->items[list->count++] = *entry;
        }
    }
}

/* List into room for all; what is missing: entries that the list has no room for. */
static size_t list_into(crmm_priv_tracking_table *table, uint64_t from, uint64_t to,
                        crmm_priv_tracked_list *list)
{
    size_t count;
    size_t bytes;

    lock_all(table);
    sum_up(table, &count, &bytes);
    bool has_room = count <= list->capacity;
    for (size_t i = 0; has_room && i < SHARDS; i++) {
        list_shard(&table->shards[i], from, to, list);
    }
    unlock_all(table);
    return has_room ? 0 : count;
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t first = (uintptr_t)((const crmm_priv_tracked *)a)->ptr;
    uintptr_t second = (uintptr_t)((const crmm_priv_tracked *)b)->ptr;
    return (first > second) - (first < second);
}

bool crmm_priv_tracking_table_list(crmm_priv_tracking_table *table, uint64_t from, uint64_t to,
                                   crmm_priv_tracked_list *list)
{
    size_t needed;

    *list = (crmm_priv_tracked_list){0};
    /* Memory is taken with no lock held, so there may be more entries by then. */
    while ((needed = list_into(table, from, to, list)) != 0) {
        size_t capacity = needed + needed / 8;
        free(list->items);
        list->items = calloc(capacity, sizeof(*list->items));
        if (list->items == NULL) {
            return false;
        }
        list->capacity = capacity;
    }
    if (list->count > 1) {
        qsort(list->items, list->count, sizeof(*list->items), compare_addresses);
    }
    return true;
}

void crmm_priv_tracked_list_finish(crmm_priv_tracked_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        crmm_priv_stack_release(list->items[i].stack);
    }
    free(list->items);
    *list = (crmm_priv_tracked_list){0};
}

/* ---- life ---- */

/* A lock that is held for some tens of nanoseconds is better waited for than slept for. */
static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
#ifdef __GLIBC__
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

bool crmm_priv_tracking_table_init(crmm_priv_tracking_table *table)
{
    size_t size = SHARDS * sizeof(*table->shards);

    table->shards = aligned_alloc(SHARD_ALIGNMENT, size);
    if (table->shards == NULL) {
        return false;
    }
    memset(table->shards, 0, size);
    for (size_t i = 0; i < SHARDS; i++) {
        init_mutex(&table->shards[i].mutex);
    }
    return true;
}

static void finish_shard(crmm_priv_tracking_shard *shard)
{
    for (size_t i = 0; i < shard->capacity; i++) {
        if (shard->entries[i].ptr != NULL) {
            crmm_priv_stack_release(shard->entries[i].stack);
        }
    }
    free(shard->entries);
    pthread_mutex_destroy(&shard->mutex);
}

void crmm_priv_tracking_table_finish(crmm_priv_tracking_table *table)
{
    for (size_t i = 0; i < SHARDS; i++) {
        finish_shard(&table->shards[i]);
    }
    free(table->shards);
}
