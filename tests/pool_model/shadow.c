/* SPDX-License-Identifier: Apache-2.0 */
#include "shadow.h"

#include <stdlib.h>
#include <string.h>

enum {
    REGION = 1 << 16,        /* granules of a region */
    WORDS = REGION / 64,     /* of the bits that say where segments begin */
    REGIONS = 1 << (43 - 24) /* in the address space */
};

typedef enum segment_state { UNMAPPED, FREE, LIVE, MOVED } segment_state;

typedef struct segment {
    uint32_t granules;
    uint32_t state;
    sim_point pending;
} segment;

/* Segments fill a region without gaps; one that would reach into the next is cut in two. */
typedef struct region {
    struct region *next;
    uint32_t index;
    uint64_t summary[WORDS / 64]; /* which of `begins` are not 0 */
    uint64_t begins[WORDS];
    segment segments[REGION]; /* valid where one begins */
} region;

static region *regions[REGIONS];
static region *used;
static region *spare;

static void clear(region *in)
{
    memset(in->summary, 0, sizeof(in->summary));
    memset(in->begins, 0, sizeof(in->begins));
    in->summary[0] = 1;
    in->begins[0] = 1;
    in->segments[0] = (segment){.granules = REGION, .state = UNMAPPED};
}

static region *region_at(uint32_t index)
{
    region *found = regions[index];

    if (found != NULL) {
        return found;
    }
    found = spare;
    if (found != NULL) {
        spare = found->next;
    } else {
        /* Large, so that the heap takes pages that come zeroed and are there once touched. */
        found = calloc(1, sizeof(*found));
        if (found == NULL) {
            abort();
        }
    }
    clear(found);
    found->index = index;
    found->next = used;
    used = found;
    regions[index] = found;
    return found;
}

/* ---- segments of one region ---- */

static void mark(region *in, uint32_t at)
{
    in->begins[at / 64] |= UINT64_C(1) << (at % 64);
    in->summary[at / 4096] |= UINT64_C(1) << (at / 64 % 64);
}

static void unmark(region *in, uint32_t at)
{
    in->begins[at / 64] &= ~(UINT64_C(1) << (at % 64));
    if (in->begins[at / 64] == 0) {
        in->summary[at / 4096] &= ~(UINT64_C(1) << (at / 64 % 64));
    }
}

/* The bits of a word up to one of them. */
static uint64_t up_to(uint64_t word, uint32_t bit)
{
    return word & (~UINT64_C(0) >> (63 - bit));
}

static uint32_t highest(uint64_t word)
{
    return 63 - (uint32_t)__builtin_clzll(word);
}

/* Where the segment begins that a granule is in. */
static uint32_t begin_of(const region *in, uint32_t at)
{
    uint32_t word = at / 64;
    uint64_t bits = up_to(in->begins[word], at % 64);

    if (bits == 0) {
        uint32_t group = word / 64;
        bits = up_to(in->summary[group], word % 64) & ~(UINT64_C(1) << (word % 64));
        while (bits == 0) {
            bits = in->summary[--group];
        }
        word = group * 64 + highest(bits);
        bits = in->begins[word];
    }
    return word * 64 + highest(bits);
}

/* Make a segment begin here. */
static void cut(region *in, uint32_t at)
{
    if (at == REGION) {
        return;
    }
    uint32_t begin = begin_of(in, at);
    if (begin != at) {
        segment *front = &in->segments[begin];
        in->segments[at] = *front;
        in->segments[at].granules = front->granules - (at - begin);
        front->granules = at - begin;
        mark(in, at);
    }
}

/* ---- what may be where ---- */

typedef struct change {
    const char *name;
    uint32_t from; /* the state that is there */
    uint32_t to;
    bool is_checked; /* earlier work comes before `order` */
    const sim_clock *order;
    sim_point pending; /* from now on */
} change;

static void check(const change *what, const region *in, uint32_t at)
{
    static const char *const states[] = {"unmapped", "free", "a live block", "moved"};
    const segment *found = &in->segments[at];
    unsigned long long offset = ((unsigned long long)in->index * REGION + at) * SHADOW_GRANULE;

    if (found->state != what->from) {
        sim_fail("%s: the memory at +%llx is %s, and not %s", what->name, offset,
                 states[found->state], states[what->from]);
    } else if (what->is_checked &&
               (what->order != NULL ? !sim_is_before(found->pending, what->order)
                                    : !sim_is_observed(found->pending))) {
        sim_fail("%s: work %u of clock %u may still use the memory at +%llx", what->name,
                 found->pending.tick, found->pending.clock, offset);
    }
}

/* Check what is in a part of a region, and make it one segment. */
static void change_part(const change *what, region *in, uint32_t begin, uint32_t end)
{
    cut(in, begin);
    cut(in, end);
    uint32_t at = begin;
    while (at < end) {
        uint32_t next = at + in->segments[at].granules;
        check(what, in, at);
        if (at != begin) {
            unmark(in, at);
        }
        at = next;
    }
    in->segments[begin] = (segment){end - begin, what->to, what->pending};
}

static void change_all(const change *what, void *ptr, size_t bytes)
{
    uint64_t offset = (uint64_t)(uintptr_t)ptr - SHADOW_BASE;
    uint64_t at = offset / SHADOW_GRANULE;
    uint64_t end = at + (bytes + SHADOW_GRANULE - 1) / SHADOW_GRANULE;

    if (offset >= SHADOW_BYTES || bytes > SHADOW_BYTES - offset) {
        sim_fail("%s: %p is no memory", what->name, ptr);
        return;
    }
    if (offset % SHADOW_GRANULE != 0) {
        sim_fail("%s: %p is not aligned", what->name, ptr);
        return;
    }
    while (at < end) {
        uint64_t stop = (at / REGION + 1) * REGION;
        stop = stop < end ? stop : end;
        region *in = region_at((uint32_t)(at / REGION));
        change_part(what, in, (uint32_t)(at % REGION), (uint32_t)((stop - 1) % REGION) + 1);
        at = stop;
    }
}

void shadow_map(void *ptr, size_t bytes, sim_point pending)
{
    change_all(&(change){.name = "mapping", .from = UNMAPPED, .to = FREE, .pending = pending}, ptr,
               bytes);
}

void shadow_unmap(void *ptr, size_t bytes, const sim_clock *order)
{
    change_all(&(change){.name = "giving back upstream",
                         .from = FREE,
                         .to = UNMAPPED,
                         .is_checked = true,
                         .order = order},
               ptr, bytes);
}

/* The segments of a part of a region come to another address as well. */
static void move_part(region *in, uint32_t begin, uint32_t end, char *to)
{
    const change moving = {.name = "moving", .from = FREE};

    cut(in, begin);
    cut(in, end);
    for (uint32_t at = begin; at < end; at += in->segments[at].granules) {
        segment *moved = &in->segments[at];
        check(&moving, in, at);
        moved->state = MOVED;
        shadow_map(to + (size_t)(at - begin) * SHADOW_GRANULE,
                   (size_t)moved->granules * SHADOW_GRANULE, moved->pending);
    }
}

void shadow_move(void *to, void *from, size_t bytes)
{
    uint64_t at = ((uint64_t)(uintptr_t)from - SHADOW_BASE) / SHADOW_GRANULE;
    uint64_t end = at + bytes / SHADOW_GRANULE;
    char *target = to;

    while (at < end) {
        uint64_t stop = (at / REGION + 1) * REGION;
        stop = stop < end ? stop : end;
        move_part(region_at((uint32_t)(at / REGION)), (uint32_t)(at % REGION),
                  (uint32_t)((stop - 1) % REGION) + 1, target);
        target += (stop - at) * SHADOW_GRANULE;
        at = stop;
    }
}

void shadow_end_move(void *from, size_t bytes)
{
    change_all(
        &(change){.name = "the end of a move", .from = MOVED, .to = UNMAPPED, .is_checked = true},
        from, bytes);
}

void shadow_undo_move(void *to, void *from, size_t bytes)
{
    change_all(
        &(change){.name = "undoing a move", .from = FREE, .to = UNMAPPED, .is_checked = true}, to,
        bytes);
    change_all(&(change){.name = "undoing a move", .from = MOVED, .to = FREE}, from, bytes);
}

void shadow_take(void *ptr, size_t bytes, const sim_clock *order)
{
    change_all(
        &(change){
            .name = "allocation", .from = FREE, .to = LIVE, .is_checked = true, .order = order},
        ptr, bytes);
}

void shadow_give(void *ptr, size_t bytes, sim_point pending)
{
    change_all(&(change){.name = "deallocation", .from = LIVE, .to = FREE, .pending = pending}, ptr,
               bytes);
}

void shadow_keep(void *ptr, size_t bytes)
{
    change_all(&(change){.name = "keeping a block", .from = FREE, .to = LIVE}, ptr, bytes);
}

void shadow_start(void)
{
    while (used != NULL) {
        region *in = used;
        used = in->next;
        regions[in->index] = NULL;
        in->next = spare;
        spare = in;
    }
}

void shadow_finish(void)
{
    shadow_start();
    while (spare != NULL) {
        region *in = spare;
        spare = in->next;
        free(in);
    }
}
