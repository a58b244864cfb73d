/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last accesses of every byte, kept for intervals, exact to the byte. Mapped memory is kept
 * under its physical memory, so that two addresses of the same bytes are one.
 */
#include "shadow.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct access {
    bool host;
    unsigned slot;
    uint64_t epoch; /* 0: none */
    uint64_t stream;
    uint64_t seq;
    const char *what;
};

struct cell {
    uint64_t start, end;
    struct access write;
    struct access *reads;
    unsigned read_count, read_capacity;
    struct cell *left, *right;
    uint32_t weight;
};

static struct cell *root;
static struct cell *spare;
static uint32_t weights = 77;

static struct cell *cell_new(uint64_t start, uint64_t end)
{
    struct cell *cell = spare;
    if (cell != NULL) {
        spare = cell->right;
    } else {
        cell = malloc(sizeof *cell);
        if (cell == NULL) {
            abort();
        }
    }
    weights ^= weights << 13;
    weights ^= weights >> 17;
    weights ^= weights << 5;
    *cell = (struct cell){.start = start, .end = end, .weight = weights};
    return cell;
}

static void cell_free(struct cell *cell)
{
    free(cell->reads);
    cell->right = spare;
    spare = cell;
}

static void split_tree(struct cell *tree, uint64_t start, struct cell **left, struct cell **right)
{
    while (tree != NULL) {
        if (tree->start < start) {
            *left = tree;
            left = &tree->right;
            tree = tree->right;
        } else {
            *right = tree;
            right = &tree->left;
            tree = tree->left;
        }
    }
    *left = NULL;
    *right = NULL;
}

static struct cell *merge_trees(struct cell *left, struct cell *right)
{
    struct cell *top = NULL;
    struct cell **at = &top;
    while (left != NULL && right != NULL) {
        if (left->weight > right->weight) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left != NULL ? left : right;
    return top;
}

static void insert(struct cell *cell)
{
    struct cell **at = &root;
    while (*at != NULL && (*at)->weight >= cell->weight) {
        at = cell->start < (*at)->start ? &(*at)->left : &(*at)->right;
    }
    split_tree(*at, cell->start, &cell->left, &cell->right);
    *at = cell;
}

static void take_out(struct cell *cell)
{
    struct cell **at = &root;
    while (*at != cell) {
        at = cell->start < (*at)->start ? &(*at)->left : &(*at)->right;
    }
    *at = merge_trees(cell->left, cell->right);
}

/* The first cell that ends after a place. */
static struct cell *after(uint64_t place)
{
    struct cell *found = NULL;
    for (struct cell *at = root; at != NULL;) {
        if (at->end > place) {
            found = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return found;
}

/* Makes a place a boundary between cells. */
static void cut(uint64_t place)
{
    struct cell *cell = after(place);
    if (cell == NULL || cell->start >= place) {
        return;
    }
    struct cell *rest = cell_new(place, cell->end);
    rest->write = cell->write;
    if (cell->read_count != 0) {
        rest->reads = malloc(cell->read_count * sizeof *rest->reads);
        if (rest->reads == NULL) {
            abort();
        }
        memcpy(rest->reads, cell->reads, cell->read_count * sizeof *rest->reads);
        rest->read_count = cell->read_count;
        rest->read_capacity = cell->read_count;
    }
    cell->end = place;
    insert(rest);
}

static bool ordered(const struct access *before, const struct actor *actor)
{
    if (before->epoch == 0) {
        return true;
    }
    if (before->host) {
        return actor->host || actor->clock->host_epoch >= before->epoch;
    }
    if (!actor->host && before->slot == actor->slot) {
        return before->epoch <= actor->epoch;
    }
    return clock_time(actor->clock, before->slot) >= before->epoch;
}

static void name(char *text, size_t size, const char *what, bool host, uint64_t stream,
                 uint64_t seq)
{
    if (host) {
        snprintf(text, size, "%s", what);
    } else {
        snprintf(text, size, "%s of stream %llu (operation %llu)", what, (unsigned long long)stream,
                 (unsigned long long)seq);
    }
}

struct conflict {
    bool found;
};

static void report(struct conflict *conflict, const struct access *before, bool before_writes,
                   const struct actor *actor, bool write, const struct cell *cell, uintptr_t va)
{
    char first[128], second[128];
    if (conflict->found) {
        return;
    }
    conflict->found = true;
    name(first, sizeof first, before->what, before->host, before->stream, before->seq);
    name(second, sizeof second, actor->what, actor->host, actor->stream, actor->seq);
    violation("race", "%s %s %llu bytes at %p that %s %s; nothing orders the two", second,
              write ? "writes" : "reads", (unsigned long long)(cell->end - cell->start), (void *)va,
              first, before_writes ? "writes" : "reads");
}

static struct access access_of(const struct actor *actor)
{
    return (struct access){actor->host,   actor->slot, actor->epoch,
                           actor->stream, actor->seq,  actor->what};
}

static void add_read(struct cell *cell, const struct actor *actor)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < cell->read_count; i++) {
        if (!ordered(&cell->reads[i], actor)) {
            cell->reads[kept++] = cell->reads[i];
        }
    }
    if (kept == cell->read_capacity) {
        cell->read_capacity = cell->read_capacity == 0 ? 2 : cell->read_capacity * 2;
        struct access *reads = realloc(cell->reads, cell->read_capacity * sizeof *reads);
        if (reads == NULL) {
            abort();
        }
        cell->reads = reads;
    }
    cell->reads[kept++] = access_of(actor);
    cell->read_count = kept;
}

static void check(struct cell *cell, const struct actor *actor, bool write,
                  struct conflict *conflict, uintptr_t va)
{
    if (!ordered(&cell->write, actor)) {
        report(conflict, &cell->write, true, actor, write, cell, va);
    }
    for (unsigned i = 0; write && i < cell->read_count; i++) {
        if (!ordered(&cell->reads[i], actor)) {
            report(conflict, &cell->reads[i], false, actor, write, cell, va);
        }
    }
}

static void read_piece(const struct actor *actor, uint64_t start, uint64_t end,
                       struct conflict *conflict, uintptr_t va)
{
    cut(start);
    cut(end);
    while (start < end) {
        struct cell *cell = after(start);
        if (cell == NULL || cell->start > start) {
            uint64_t stop = cell == NULL || cell->start > end ? end : cell->start;
            cell = cell_new(start, stop);
            insert(cell);
        }
        check(cell, actor, false, conflict, va);
        add_read(cell, actor);
        start = cell->end;
    }
}

/* What was there becomes one cell: the checks are done, and the new write comes after all. */
static void write_piece(const struct actor *actor, uint64_t start, uint64_t end,
                        struct conflict *conflict, uintptr_t va)
{
    struct cell *cell = after(start);
    if (cell != NULL && cell->start == start && cell->end == end) {
        check(cell, actor, true, conflict, va);
        cell->write = access_of(actor);
        cell->read_count = 0;
        return;
    }
    cut(start);
    cut(end);
    while ((cell = after(start)) != NULL && cell->start < end) {
        check(cell, actor, true, conflict, va);
        take_out(cell);
        cell_free(cell);
    }
    cell = cell_new(start, end);
    cell->write = access_of(actor);
    insert(cell);
}

static uint64_t key(uintptr_t va, size_t size, size_t *length)
{
    const struct range *range = range_find(va);
    *length = size;
    if (range == NULL || range->kind != RANGE_MAPPED) {
        return va;
    }
    size_t here = range->va + range->size - va;
    *length = here < size ? here : size;
    return range->physical->key + (va - range->va);
}

void shadow_access(const struct actor *actor, uintptr_t va, size_t size, bool write)
{
    struct conflict conflict = {false};
    while (size != 0) {
        size_t length;
        uint64_t start = key(va, size, &length);
        if (write) {
            write_piece(actor, start, start + length, &conflict, va);
        } else {
            read_piece(actor, start, start + length, &conflict, va);
        }
        va += length;
        size -= length;
    }
}

void checker_forget_key(uint64_t start, size_t size)
{
    struct cell *cell;
    if (root == NULL || size == 0) {
        return;
    }
    cut(start);
    cut(start + size);
    while ((cell = after(start)) != NULL && cell->start < start + size) {
        take_out(cell);
        cell_free(cell);
    }
}

/* Memory that goes: nothing that comes to be at its address has to do with it. */
void checker_forget(uintptr_t va, size_t size)
{
    checker_forget_key(va, size);
}

static void drop(struct cell *cell)
{
    while (cell != NULL) {
        struct cell *right = cell->right;
        drop(cell->left);
        cell_free(cell);
        cell = right;
    }
}

void checker_reset(void)
{
    struct cell *all = root;
    root = NULL;
    drop(all);
}
