/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles live in one reserved table per kind, so that any value can be checked without being
 * followed. A freed slot is used again at once if reuse is on, else only when nothing is left.
 */
#include "emulated.h"

#include <string.h>
#include <sys/mman.h>

#define MAGIC_ALIVE 0x0ec0da11u
#define MAGIC_DEAD 0x0dead000u

struct table {
    unsigned char *base;
    uint32_t capacity;
    uint32_t used;  /* slots ever handed out */
    uint32_t *free; /* a ring */
    uint32_t free_head, free_count;
};

static struct table tables[HANDLE_KINDS];

static const char *const kind_names[HANDLE_KINDS] = {
    "stream", "event", "memory pool", "graph", "executable graph", "memory handle"};

_Static_assert(sizeof(struct CUstream_st) <= HANDLE_SLOT, "slot");
_Static_assert(sizeof(struct CUevent_st) <= HANDLE_SLOT, "slot");

static void *reserve(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static bool table_open(struct table *table)
{
    if (table->base != NULL) {
        return table->free != NULL;
    }
    const uint32_t capacity = 1u << 18;
    table->free = reserve(capacity * sizeof *table->free);
    table->base = reserve((size_t)capacity * HANDLE_SLOT);
    table->capacity = capacity;
    return table->base != NULL && table->free != NULL;
}

static uint32_t ring_take(struct table *table)
{
    uint32_t at = table->free_head;
    if (config.reuse_handles) { /* the youngest */
        at = (table->free_head + table->free_count - 1) % table->capacity;
    } else {
        table->free_head = (table->free_head + 1) % table->capacity;
    }
    table->free_count--;
    return table->free[at];
}

void *handle_new(enum handle_kind kind)
{
    struct table *table = &tables[kind];
    if (!table_open(table)) {
        return NULL;
    }
    uint32_t index;
    if (table->free_count != 0 && (config.reuse_handles || table->used == table->capacity)) {
        index = ring_take(table);
    } else if (table->used < table->capacity) {
        index = table->used++;
    } else {
        return NULL;
    }
    unsigned char *slot = table->base + (size_t)index * HANDLE_SLOT;
    const uint32_t magic = MAGIC_ALIVE;
    memset(slot, 0, HANDLE_SLOT);
    memcpy(slot, &magic, sizeof magic);
    return slot;
}

void handle_free(enum handle_kind kind, void *handle)
{
    struct table *table = &tables[kind];
    const uint32_t magic = MAGIC_DEAD;
    memset(handle, 0, HANDLE_SLOT);
    memcpy(handle, &magic, sizeof magic);
    uint32_t at = (table->free_head + table->free_count) % table->capacity;
    table->free[at] = (uint32_t)((size_t)((unsigned char *)handle - table->base) / HANDLE_SLOT);
    table->free_count++;
}

void *handle_check(enum handle_kind kind, const void *handle)
{
    const struct table *table = &tables[kind];
    if (handle == NULL) {
        return NULL;
    }
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)table->base;
    uint32_t magic;
    if (table->base == NULL || offset >= (size_t)table->used * HANDLE_SLOT ||
        offset % HANDLE_SLOT != 0) {
        violation("handle", "%s %p is not a handle of this runtime", kind_names[kind], handle);
        return NULL;
    }
    memcpy(&magic, handle, sizeof magic);
    if (magic != MAGIC_ALIVE) {
        violation("handle", "%s %p was destroyed before this call", kind_names[kind], handle);
        return NULL;
    }
    return table->base + offset;
}

void handle_visit(enum handle_kind kind, void (*visit)(void *, void *), void *user_data)
{
    struct table *table = &tables[kind];
    for (uint32_t i = 0; i < table->used; i++) {
        unsigned char *slot = table->base + (size_t)i * HANDLE_SLOT;
        uint32_t magic;
        memcpy(&magic, slot, sizeof magic);
        if (magic == MAGIC_ALIVE) {
            visit(slot, user_data);
        }
    }
}
