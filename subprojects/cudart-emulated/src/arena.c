/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses. Two arenas grow by reserving regions: one that the host cannot touch (device memory,
 * whose bytes are elsewhere) and one that it can (managed and pinned memory). Segments know their
 * neighbours, free ones hang in bins by size, so that both directions take constant time.
 */
#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SUBBIN_BITS 3
#define BINS (64 << SUBBIN_BITS)
/* What the host can read, valgrind searches for pointers at the end of each process. */
#define FIRST_HOST_REGION (GIB / 16)
#define FIRST_DEVICE_REGION (4 * GIB)
#define LARGEST_REGION (256 * GIB)
#define SCAN_LIMIT 16

struct segment {
    uintptr_t va;
    size_t size;
    struct segment *left, *right; /* by address, in one region */
    struct segment *bin_next, *bin_prev;
    bool free;
};

struct region {
    uintptr_t va;
    size_t size;
};

struct arena {
    struct segment *bins[BINS];
    uint64_t filled[BINS / 64];
    size_t next_region;
};

#define MAX_REGIONS 1024
static struct region regions[MAX_REGIONS];
static size_t region_count;

static struct arena arenas[2];
static struct segment *spare;

uintptr_t segment_va(const struct segment *segment)
{
    return segment->va;
}

static struct segment *segment_new(uintptr_t va, size_t size)
{
    struct segment *segment = spare;
    if (segment != NULL) {
        spare = segment->bin_next;
    } else {
        segment = malloc(sizeof *segment);
        if (segment == NULL) {
            return NULL;
        }
    }
    *segment = (struct segment){.va = va, .size = size};
    return segment;
}

static void segment_drop(struct segment *segment)
{
    segment->bin_next = spare;
    spare = segment;
}

static unsigned bin_of(size_t size)
{
    unsigned log = 63u - (unsigned)__builtin_clzll((unsigned long long)size);
    unsigned sub = log >= SUBBIN_BITS
                       ? (unsigned)(size >> (log - SUBBIN_BITS)) & ((1u << SUBBIN_BITS) - 1)
                       : 0;
    return (log << SUBBIN_BITS) + sub;
}

static void bin_add(struct arena *arena, struct segment *segment)
{
    unsigned bin = bin_of(segment->size);
    segment->free = true;
    segment->bin_prev = NULL;
    segment->bin_next = arena->bins[bin];
    if (segment->bin_next != NULL) {
        segment->bin_next->bin_prev = segment;
    }
    arena->bins[bin] = segment;
    arena->filled[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void bin_remove(struct arena *arena, struct segment *segment)
{
    unsigned bin = bin_of(segment->size);
    segment->free = false;
    if (segment->bin_prev != NULL) {
        segment->bin_prev->bin_next = segment->bin_next;
    } else {
        arena->bins[bin] = segment->bin_next;
        if (segment->bin_next == NULL) {
            arena->filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
        }
    }
    if (segment->bin_next != NULL) {
        segment->bin_next->bin_prev = segment->bin_prev;
    }
}

static struct segment *bin_after(const struct arena *arena, unsigned bin)
{
    for (unsigned word = bin / 64; word < BINS / 64; word++) {
        uint64_t bits = arena->filled[word];
        if (word == bin / 64) {
            bits &= ~(uint64_t)0 << bin % 64;
        }
        if (bits != 0) {
            return arena->bins[word * 64 + (unsigned)__builtin_ctzll(bits)];
        }
    }
    return NULL;
}

static bool grow(bool host, size_t size)
{
    struct arena *arena = &arenas[host];
    const int prot = host ? PROT_READ | PROT_WRITE : PROT_NONE;
    if (arena->next_region == 0) {
        arena->next_region = host ? FIRST_HOST_REGION : FIRST_DEVICE_REGION;
    }
    size_t want = arena->next_region;
    if (region_count == MAX_REGIONS) {
        return false;
    }
    while (want < size) {
        want *= 2;
    }
    for (; want >= size; want = want > size && want / 2 < size ? size : want / 2) {
        void *base = mmap(NULL, want, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) {
            continue;
        }
        struct segment *segment = segment_new((uintptr_t)base, want);
        if (segment == NULL) {
            munmap(base, want);
            return false;
        }
        bin_add(arena, segment);
        regions[region_count++] = (struct region){(uintptr_t)base, want};
        if (arena->next_region < LARGEST_REGION) {
            arena->next_region *= 2;
        }
        return true;
    }
    return false;
}

static uintptr_t align_up(uintptr_t value, size_t alignment)
{
    return (value + alignment - 1) & ~(uintptr_t)(alignment - 1);
}

static bool fits(const struct segment *segment, size_t size, size_t alignment)
{
    uintptr_t start = align_up(segment->va, alignment);
    return start + size <= segment->va + segment->size;
}

static struct segment *find(struct arena *arena, size_t size, size_t alignment)
{
    unsigned bin = bin_of(size);
    unsigned scanned = 0;
    for (struct segment *s = arena->bins[bin]; s != NULL && scanned < SCAN_LIMIT; s = s->bin_next) {
        if (fits(s, size, alignment)) {
            return s;
        }
        scanned++;
    }
    return bin_after(arena, bin_of(size + alignment) + 1);
}

/* Cuts the front off a segment that is in no bin; the rest follows as a segment of its own. */
static bool cut(struct segment *segment, size_t size, struct segment **rest)
{
    *rest = NULL;
    if (segment->size == size) {
        return true;
    }
    struct segment *tail = segment_new(segment->va + size, segment->size - size);
    if (tail == NULL) {
        return false;
    }
    tail->left = segment;
    tail->right = segment->right;
    if (tail->right != NULL) {
        tail->right->left = tail;
    }
    segment->right = tail;
    segment->size = size;
    *rest = tail;
    return true;
}

static struct segment *carve(struct arena *arena, struct segment *segment, uintptr_t start,
                             size_t size)
{
    struct segment *rest;
    bin_remove(arena, segment);
    if (start != segment->va) {
        if (!cut(segment, start - segment->va, &rest) || rest == NULL) {
            bin_add(arena, segment);
            return NULL;
        }
        bin_add(arena, segment);
        segment = rest;
    }
    if (!cut(segment, size, &rest)) {
        bin_add(arena, segment);
        return NULL;
    }
    if (rest != NULL) {
        bin_add(arena, rest);
    }
    return segment;
}

struct segment *arena_alloc(bool host, size_t size, size_t alignment)
{
    struct arena *arena = &arenas[host];
    if (size == 0 || size > (size_t)1 << 47) {
        return NULL;
    }
    struct segment *segment = find(arena, size, alignment);
    if (segment == NULL) {
        if (!grow(host, size + alignment)) {
            return NULL;
        }
        segment = find(arena, size, alignment);
    }
    return segment == NULL ? NULL : carve(arena, segment, align_up(segment->va, alignment), size);
}

/* Reserves a region at an address that no region has. */
static bool grow_at(bool host, uintptr_t va, size_t size)
{
    if (host || arena_owns(va) || region_count == MAX_REGIONS || va % 4096 != 0) {
        return false;
    }
    void *base = mmap((void *)va, size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (base == MAP_FAILED) {
        return false;
    }
    struct segment *segment = segment_new((uintptr_t)base, size);
    if (base != (void *)va || segment == NULL) { /* a kernel that does not know the flag */
        munmap(base, size);
        if (segment != NULL) {
            segment_drop(segment);
        }
        return false;
    }
    bin_add(&arenas[host], segment);
    regions[region_count++] = (struct region){va, size};
    return true;
}

/* Exactly there, if it is free; this walks, since hints are rare. */
struct segment *arena_alloc_at(bool host, uintptr_t va, size_t size)
{
    struct arena *arena = &arenas[host];
    for (unsigned bin = bin_of(size); bin < BINS; bin++) {
        for (struct segment *s = arena->bins[bin]; s != NULL; s = s->bin_next) {
            if (s->va <= va && va + size <= s->va + s->size) {
                return carve(arena, s, va, size);
            }
        }
    }
    return grow_at(host, va, size) ? arena_alloc_at(host, va, size) : NULL;
}

static struct segment *join(struct arena *arena, struct segment *left, struct segment *right)
{
    if (left->free) {
        bin_remove(arena, left);
    }
    if (right->free) {
        bin_remove(arena, right);
    }
    left->size += right->size;
    left->right = right->right;
    if (left->right != NULL) {
        left->right->left = left;
    }
    segment_drop(right);
    return left;
}

/* Takes the addresses behind a segment too, if they are free. */
bool arena_extend(bool host, struct segment *segment, size_t size)
{
    struct arena *arena = &arenas[host];
    struct segment *next = segment->right;
    struct segment *rest;
    if (next == NULL || !next->free || next->size < size) {
        return false;
    }
    bin_remove(arena, next);
    if (!cut(next, size, &rest)) {
        bin_add(arena, next);
        return false;
    }
    if (rest != NULL) {
        bin_add(arena, rest);
    }
    join(arena, segment, next);
    return true;
}

void arena_free(bool host, struct segment *segment)
{
    struct arena *arena = &arenas[host];
    if (host && segment->size >= ARENA_DROP_BYTES) {
        uintptr_t start = align_up(segment->va, 4096);
        uintptr_t end = (segment->va + segment->size) & ~(uintptr_t)4095;
        madvise((void *)start, end - start, MADV_DONTNEED); /* untouched again */
    }
    if (segment->left != NULL && segment->left->free) {
        segment = join(arena, segment->left, segment);
    }
    if (segment->right != NULL && segment->right->free) {
        segment = join(arena, segment, segment->right);
    }
    bin_add(arena, segment);
}

bool arena_owns(uintptr_t va)
{
    for (size_t i = 0; i < region_count; i++) {
        if (va - regions[i].va < regions[i].size) {
            return true;
        }
    }
    return false;
}
