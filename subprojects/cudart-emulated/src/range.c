/* SPDX-License-Identifier: Apache-2.0 */
/* All memory by address: a treap of ranges, and the bytes behind them. */
#include "emulated.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL_BYTES ((size_t)64 << 10)

struct tree {
    struct range *root;
    struct range *recent; /* most calls name the same block as the call before */
};

static struct tree live, chunks;
static struct range *spare;
static uint64_t next_serial = 1;
static uint64_t next_key = (uint64_t)1 << 60; /* above all addresses */
static uint32_t weights = 1;

static uint32_t next_weight(void)
{
    weights ^= weights << 13;
    weights ^= weights >> 17;
    weights ^= weights << 5;
    return weights;
}

struct range *range_new(uintptr_t va, size_t size, enum range_kind kind, struct device *device)
{
    struct range *range = spare;
    if (range != NULL) {
        spare = range->right;
    } else {
        range = malloc(sizeof *range);
        if (range == NULL) {
            return NULL;
        }
    }
    memset(range, 0, sizeof *range);
    range->va = va;
    range->size = size;
    range->requested = size;
    range->kind = kind;
    range->device = device;
    range->serial = next_serial++;
    range->weight = next_weight();
    return range;
}

void range_free(struct range *range)
{
    free(range->advice);
    range->advice = NULL;
    range->right = spare;
    spare = range;
}

static void split(struct range *tree, uintptr_t va, struct range **left, struct range **right)
{
    while (tree != NULL) {
        if (tree->va < va) {
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

static struct range *merge(struct range *left, struct range *right)
{
    struct range *top = NULL;
    struct range **at = &top;
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

static void insert(struct tree *tree, struct range *range)
{
    struct range **at = &tree->root;
    while (*at != NULL && (*at)->weight >= range->weight) {
        at = range->va < (*at)->va ? &(*at)->left : &(*at)->right;
    }
    split(*at, range->va, &range->left, &range->right);
    *at = range;
}

static void take_out(struct tree *tree, struct range *range)
{
    struct range **at = &tree->root;
    while (*at != range) {
        at = range->va < (*at)->va ? &(*at)->left : &(*at)->right;
    }
    *at = merge(range->left, range->right);
    range->left = NULL;
    range->right = NULL;
    if (tree->recent == range) {
        tree->recent = NULL;
    }
}

static bool contains(const struct range *range, uintptr_t va)
{
    return va - range->va < range->size;
}

static struct range *find(struct tree *tree, uintptr_t va)
{
    if (tree->recent != NULL && contains(tree->recent, va)) {
        return tree->recent;
    }
    struct range *at = tree->root;
    struct range *below = NULL;
    while (at != NULL) {
        if (at->va <= va) {
            below = at;
            at = at->right;
        } else {
            at = at->left;
        }
    }
    if (below == NULL || !contains(below, va)) {
        return NULL;
    }
    tree->recent = below;
    return below;
}

void range_insert(struct range *range)
{
    insert(&live, range);
}

void range_remove(struct range *range)
{
    take_out(&live, range);
}

struct range *range_find(uintptr_t va)
{
    return find(&live, va);
}

void chunk_insert(struct range *range)
{
    insert(&chunks, range);
}

void chunk_remove(struct range *range)
{
    take_out(&chunks, range);
}

struct range *chunk_find(uintptr_t va)
{
    return find(&chunks, va);
}

struct range *range_backing(struct range *range)
{
    return range->chunk != NULL ? range->chunk : range;
}

struct range *range_next(uintptr_t va)
{
    struct range *at = live.root;
    struct range *found = NULL;
    while (at != NULL) {
        if (at->va + at->size > va) {
            found = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return found;
}

struct physical *physical_new(size_t size, struct device *device)
{
    struct physical *physical = calloc(1, sizeof *physical);
    if (physical != NULL) {
        physical->refs = 1;
        physical->size = size;
        physical->device = device;
        physical->key = next_key;
        next_key += size;
    }
    return physical;
}

void physical_release(struct physical *physical)
{
    if (physical == NULL || --physical->refs != 0) {
        return;
    }
    checker_forget_key(physical->key, physical->size);
    if (physical->data != NULL && physical->size < SMALL_BYTES) {
        free(physical->data);
    } else if (physical->data != NULL) {
        munmap(physical->data, physical->size);
    }
    free(physical);
}

/* Of at least SMALL_BYTES before. */
void physical_grow(struct physical *physical, size_t size)
{
    if (physical->data != NULL) {
        void *data = mremap(physical->data, physical->size, size, MREMAP_MAYMOVE);
        if (data == MAP_FAILED) {
            violation("memory", "the host has no memory behind %zu bytes", size);
            abort();
        }
        physical->data = data;
    }
    physical->size = size;
}

/* Made when first needed, so that memory which no operation touches costs nothing. */
unsigned char *physical_bytes(struct physical *physical)
{
    if (physical->data != NULL) {
        return physical->data;
    }
    if (physical->size < SMALL_BYTES) {
        physical->data = calloc(1, physical->size);
    } else {
        void *data = mmap(NULL, physical->size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        physical->data = data == MAP_FAILED ? NULL : data;
    }
    if (physical->data == NULL) {
        violation("memory", "the host has no memory behind %zu bytes", physical->size);
        abort();
    }
    return physical->data;
}

static bool host_kind(enum range_kind kind)
{
    return kind == RANGE_MANAGED || kind == RANGE_PINNED || kind == RANGE_REGISTERED;
}

unsigned char *range_bytes(struct range *range, uintptr_t va, size_t *length)
{
    range = range_backing(range);
    size_t offset = va - range->va;
    *length = range->size - offset;
    if (host_kind(range->kind) || range->host) {
        return (unsigned char *)va;
    }
    if (range->physical == NULL) {
        range->physical = physical_new(range->size, range->device);
        if (range->physical == NULL) {
            abort();
        }
    }
    return physical_bytes(range->physical) + offset;
}
