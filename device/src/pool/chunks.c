/* SPDX-License-Identifier: Apache-2.0 */
#include "chunks.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "spin.h"

enum { FIRST_CAPACITY = 16 };

/* ---- marks ---- */

/* Zeroed pages that take memory when they are touched. */
static void *map(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) {
        return NULL;
    }
    /* Of a large pool every free reads another place: with large pages, if there are any, the
     * processor finds it without a walk through its tables. */
    (void)madvise(pages, bytes, MADV_HUGEPAGE);
    return pages;
}

static size_t granules_bytes(size_t bytes)
{
    return (bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT) + 1;
}

/* In whole groups. */
static size_t windows_bytes(size_t bytes)
{
    size_t last = (bytes >> CRMM_PRIV_POOL_GRANULE_SHIFT) >> CRMM_PRIV_POOL_WINDOW_SHIFT;
    size_t groups = (last >> CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT) + 1;

    return (groups << CRMM_PRIV_POOL_WINDOW_GROUP_SHIFT) * sizeof(uint16_t);
}

uint32_t crmm_priv_pool_marked_class(const crmm_priv_pool_chunk *chunk, const void *ptr)
{
    uintptr_t offset = (uintptr_t)ptr - chunk->base;
    size_t granule = offset >> CRMM_PRIV_POOL_GRANULE_SHIFT;

    if ((offset & (CRMM_PRIV_POOL_GRANULE - 1)) != 0) {
        return UINT32_MAX;
    }
    uint8_t small = __atomic_load_n(&chunk->marks.granules[granule], __ATOMIC_RELAXED);
    if ((small & CRMM_PRIV_POOL_LIVE_GRANULE) != 0) {
        return small & (CRMM_PRIV_POOL_LIVE_GRANULE - 1u);
    }
    uint32_t window =
        __atomic_load_n(&chunk->marks.windows[crmm_priv_pool_window_of(granule)], __ATOMIC_RELAXED);
    size_t within = granule & ((1u << CRMM_PRIV_POOL_WINDOW_SHIFT) - 1);
    if ((window & CRMM_PRIV_POOL_LIVE_WINDOW) != 0 && ((window >> 8) & 0x7f) == within) {
        return window & 0xff;
    }
    return UINT32_MAX;
}

static void delete_chunk(crmm_priv_pool_chunk *chunk)
{
    if (chunk->marks.granules != NULL) {
        (void)munmap(chunk->marks.granules, granules_bytes(chunk->bytes));
    }
    if (chunk->marks.windows != NULL) {
        (void)munmap(chunk->marks.windows, windows_bytes(chunk->bytes));
    }
    free(chunk);
}

static crmm_priv_pool_chunk *new_chunk(void *base, size_t bytes, struct crmm_priv_pool_heap *heap,
                                       bool is_in_place)
{
    crmm_priv_pool_chunk *chunk = calloc(1, sizeof(*chunk));

    if (chunk == NULL) {
        return NULL;
    }
    chunk->base = (uintptr_t)base;
    chunk->bytes = bytes;
    chunk->heap = heap;
    chunk->is_in_place = is_in_place;
    chunk->marks.granules = map(granules_bytes(bytes));
    chunk->marks.windows = map(windows_bytes(bytes));
    if (chunk->marks.granules == NULL || chunk->marks.windows == NULL) {
        delete_chunk(chunk);
        return NULL;
    }
    return chunk;
}

/* ---- the table ----
 * Readers take no lock: they read a version before and after, and again if it changed. */

static bool reserve(crmm_priv_pool_chunks *chunks)
{
    crmm_priv_pool_chunk_table *before = chunks->table;

    if (before != NULL && chunks->count < before->capacity) {
        return true;
    }
    size_t capacity = before == NULL ? FIRST_CAPACITY : before->capacity * 2;
    crmm_priv_pool_chunk_table *table =
        calloc(1, sizeof(*table) + capacity * sizeof(table->entries[0]));
    if (table == NULL) {
        return false;
    }
    table->capacity = capacity;
    table->before = before;
    for (uint32_t i = 0; before != NULL && i < chunks->count; i++) {
        table->entries[i] = before->entries[i];
    }
    /* The smaller one stays, since readers may still be in it. */
    __atomic_store_n(&chunks->table, table, __ATOMIC_RELEASE);
    return true;
}

static void set_entry(crmm_priv_pool_chunk_entry *entry, const crmm_priv_pool_chunk_entry *value)
{
    __atomic_store_n(&entry->base, value->base, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->end, value->end, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->chunk, value->chunk, __ATOMIC_RELAXED);
}

static void begin_change(crmm_priv_pool_chunks *chunks)
{
    (void)__atomic_fetch_add(&chunks->version, 1, __ATOMIC_SEQ_CST);
}

static void end_change(crmm_priv_pool_chunks *chunks)
{
    (void)__atomic_fetch_add(&chunks->version, 1, __ATOMIC_SEQ_CST);
}

crmm_priv_pool_chunk *crmm_priv_pool_chunks_add(crmm_priv_pool_chunks *chunks, void *base,
                                                size_t bytes, struct crmm_priv_pool_heap *heap,
                                                bool is_in_place)
{
    crmm_priv_pool_chunk *chunk = new_chunk(base, bytes, heap, is_in_place);

    if (chunk == NULL) {
        return NULL;
    }
    if (!reserve(chunks)) {
        delete_chunk(chunk);
        return NULL;
    }
    crmm_priv_pool_chunk_entry *entries = chunks->table->entries;
    const crmm_priv_pool_chunk_entry entry = {
        .base = chunk->base, .end = chunk->base + bytes, .chunk = chunk};
    begin_change(chunks);
    uint32_t at = chunks->count;
    for (; at > 0 && entries[at - 1].base > chunk->base; at--) {
        set_entry(&entries[at], &entries[at - 1]);
    }
    set_entry(&entries[at], &entry);
    __atomic_store_n(&chunks->count, chunks->count + 1, __ATOMIC_RELAXED);
    end_change(chunks);
    return chunk;
}

void crmm_priv_pool_chunks_remove(crmm_priv_pool_chunks *chunks, crmm_priv_pool_chunk *chunk)
{
    crmm_priv_pool_chunk_entry *entries = chunks->table->entries;
    uint32_t at = 0;

    while (entries[at].chunk != chunk) {
        at++;
    }
    begin_change(chunks);
    for (; at + 1 < chunks->count; at++) {
        set_entry(&entries[at], &entries[at + 1]);
    }
    __atomic_store_n(&chunks->count, chunks->count - 1, __ATOMIC_RELAXED);
    end_change(chunks);
    delete_chunk(chunk);
}

void crmm_priv_pool_chunks_finish(crmm_priv_pool_chunks *chunks)
{
    while (chunks->count > 0) {
        crmm_priv_pool_chunks_remove(chunks, chunks->table->entries[chunks->count - 1].chunk);
    }
    while (chunks->table != NULL) {
        crmm_priv_pool_chunk_table *before = chunks->table->before;
        free(chunks->table);
        chunks->table = before;
    }
}

/* The entry that an address lies in, in a table that may be changing. What is read stays before
 * what the caller reads next. */
static crmm_priv_pool_chunk *search(const crmm_priv_pool_chunk_table *table, uint32_t count,
                                    uintptr_t address)
{
    uint32_t low = 0;

    while (count > 1) {
        uint32_t half = count / 2;
        if (__atomic_load_n(&table->entries[low + half].base, __ATOMIC_ACQUIRE) <= address) {
            low += half;
        }
        count -= half;
    }
    const crmm_priv_pool_chunk_entry *entry = &table->entries[low];
    return __atomic_load_n(&entry->base, __ATOMIC_ACQUIRE) <= address &&
                   address < __atomic_load_n(&entry->end, __ATOMIC_ACQUIRE)
               ? __atomic_load_n(&entry->chunk, __ATOMIC_ACQUIRE)
               : NULL;
}

crmm_priv_pool_chunk *crmm_priv_pool_chunks_find(const crmm_priv_pool_chunks *chunks,
                                                 const void *ptr)
{
    for (uint32_t turns = 0;; crmm_priv_spin_turn(&turns)) {
        uint32_t version = __atomic_load_n(&chunks->version, __ATOMIC_ACQUIRE);
        uint32_t count = __atomic_load_n(&chunks->count, __ATOMIC_ACQUIRE);
        const crmm_priv_pool_chunk_table *table = __atomic_load_n(&chunks->table, __ATOMIC_ACQUIRE);
        crmm_priv_pool_chunk *chunk = NULL;

        if (table != NULL && count > 0 && count <= table->capacity) {
            chunk = search(table, count, (uintptr_t)ptr);
        }
        if ((version & 1) == 0 && __atomic_load_n(&chunks->version, __ATOMIC_RELAXED) == version) {
            return chunk;
        }
    }
}
