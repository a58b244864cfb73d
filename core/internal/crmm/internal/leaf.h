/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_LEAF_H
#define CRMM_INTERNAL_LEAF_H

#include <crmm/internal/books.h>
#include <crmm/internal/ledger.h>
#include <crmm/internal/resource.h>

/*
 * What the resources that pass every request on to one allocator have in common: alignment, the
 * device, captures, books and, with validation, a ledger. Each is a class of its own, with its own
 * table of operations that points here, and differs in its calls.
 */
typedef struct crmm_priv_leaf crmm_priv_leaf;

typedef struct crmm_priv_leaf_calls {
    /* Allocate; on failure describe it in the name of the resource. */
    crmm_status (*allocate)(crmm_priv_leaf *leaf, size_t bytes, size_t alignment, void **ptr);
    /* Give back; a CUDA error code, or 0. */
    int (*deallocate)(crmm_priv_leaf *leaf, void *ptr, size_t bytes);
    size_t largest_alignment; /* what `allocate` can give; 0: any */
    const char *free_name;    /* the call behind `deallocate`, for reports */
    bool wait_first;          /* `deallocate` does not wait for work on the memory */
} crmm_priv_leaf_calls;

/*
 * What a class knows of its blocks. One for all objects of the class: they are equal, so a block
 * may be given back to another one than it came from.
 */
typedef struct crmm_priv_leaf_state {
    crmm_priv_books books;
    crmm_priv_ledger ledger; /* used with validation only */
} crmm_priv_leaf_state;

#define CRMM_PRIV_LEAF_STATE_INITIALIZER       \
    {                                          \
        .ledger = CRMM_PRIV_LEDGER_INITIALIZER \
    }

struct crmm_priv_leaf {
    struct crmm_resource base;
    const crmm_priv_leaf_calls *calls;
    crmm_priv_leaf_state *state;
};

crmm_status crmm_priv_leaf_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr);
void crmm_priv_leaf_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment);
crmm_status crmm_priv_leaf_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr);
void crmm_priv_leaf_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment);
crmm_status crmm_priv_leaf_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released);
crmm_status crmm_priv_leaf_info(const crmm_resource *resource, crmm_memory_info *info);

/* For classes whose objects are all alike: memory from one may be given back to any other. */
bool crmm_priv_leaf_is_equal(const crmm_resource *resource, const crmm_resource *other);

/* The end of an object that has a state of its own: what is still out is reported. */
void crmm_priv_leaf_finish(crmm_priv_leaf *leaf);

/* For classes that have immortal objects only; never called. */
void crmm_priv_leaf_destroy(crmm_resource *resource);

/* The table of a class that has immortal objects only; each has its own, which makes it a class. */
#define CRMM_PRIV_LEAF_OPS                                                                       \
    {                                                                                            \
        .struct_size = sizeof(crmm_resource_ops), .allocate_sync = crmm_priv_leaf_allocate_sync, \
        .deallocate_sync = crmm_priv_leaf_deallocate_sync, .destroy = crmm_priv_leaf_destroy,    \
        .allocate = crmm_priv_leaf_allocate, .deallocate = crmm_priv_leaf_deallocate,            \
        .is_equal = crmm_priv_leaf_is_equal, .trim = crmm_priv_leaf_trim,                        \
        .info = crmm_priv_leaf_info,                                                             \
    }

#endif
