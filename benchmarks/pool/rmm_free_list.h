/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_RMM_FREE_LIST_H
#define CRMM_BENCHMARKS_POOL_RMM_FREE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* A piece of memory. `is_head`: the first one of what upstream gave, which never joins another in
 * front of it. */
typedef struct rmm_block {
    char *ptr; /* NULL: no block */
    size_t bytes;
    bool is_head;
} rmm_block;

typedef struct rmm_node {
    rmm_block block;
    struct rmm_node *next, *previous;
} rmm_node;

/* Free blocks by ascending address: a ring through `anchor`, one heap allocation a block. */
typedef struct rmm_free_list {
    rmm_node anchor;
} rmm_free_list;

rmm_free_list *rmm_free_list_create(void);
/* The blocks are forgotten. */
void rmm_free_list_destroy(rmm_free_list *list);

/* Put a block where its address belongs, joined with its neighbours. Visits the blocks before it.
 */
void rmm_free_list_insert(rmm_free_list *list, rmm_block block);

/* Move all blocks of another list. */
void rmm_free_list_merge(rmm_free_list *list, rmm_free_list *from);

/* Take out the smallest block that is large enough; of several, the first. Visits all blocks. */
rmm_block rmm_free_list_take(rmm_free_list *list, size_t bytes);

#endif
