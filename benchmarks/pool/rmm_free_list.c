/* SPDX-License-Identifier: Apache-2.0 */
#include "rmm_free_list.h"

#include <stdio.h>
#include <stdlib.h>

rmm_free_list *rmm_free_list_create(void)
{
    rmm_free_list *list = calloc(1, sizeof(*list));

    if (list != NULL) {
        list->anchor.next = list->anchor.previous = &list->anchor;
    }
    return list;
}

static void remove_node(rmm_node *node)
{
    node->previous->next = node->next;
    node->next->previous = node->previous;
    free(node);
}

static void add_before(rmm_node *next, rmm_block block)
{
    rmm_node *node = malloc(sizeof(*node));

    if (node == NULL) {
        /* A free cannot fail, and a benchmark without memory has nothing to say. */
        (void)fputs("rmm_shape: no host memory\n", stderr);
        abort();
    }
    *node = (rmm_node){.block = block, .next = next, .previous = next->previous};
    next->previous->next = node;
    next->previous = node;
}

void rmm_free_list_destroy(rmm_free_list *list)
{
    while (list->anchor.next != &list->anchor) {
        remove_node(list->anchor.next);
    }
    free(list);
}

static bool joins(const rmm_block *first, const rmm_block *second)
{
    return first->ptr + first->bytes == second->ptr && !second->is_head;
}

void rmm_free_list_insert(rmm_free_list *list, rmm_block block)
{
    rmm_node *next = list->anchor.next;

    while (next != &list->anchor && next->block.ptr < block.ptr) {
        next = next->next;
    }
    rmm_node *previous = next->previous;
    bool joins_previous = previous != &list->anchor && joins(&previous->block, &block);
    bool joins_next = next != &list->anchor && joins(&block, &next->block);

    if (joins_previous) {
        previous->block.bytes += block.bytes;
        if (joins_next) {
            previous->block.bytes += next->block.bytes;
            remove_node(next);
        }
    } else if (joins_next) {
        next->block.ptr = block.ptr;
        next->block.bytes += block.bytes;
        next->block.is_head = block.is_head;
    } else {
        add_before(next, block);
    }
}

void rmm_free_list_merge(rmm_free_list *list, rmm_free_list *from)
{
    while (from->anchor.next != &from->anchor) {
        rmm_free_list_insert(list, from->anchor.next->block);
        remove_node(from->anchor.next);
    }
}

rmm_block rmm_free_list_take(rmm_free_list *list, size_t bytes)
{
    rmm_node *best = NULL;

    for (rmm_node *node = list->anchor.next; node != &list->anchor; node = node->next) {
        if (node->block.bytes >= bytes && (best == NULL || node->block.bytes < best->block.bytes)) {
            best = node;
        }
    }
    if (best == NULL) {
        return (rmm_block){0};
    }
    rmm_block block = best->block;
    remove_node(best);
    return block;
}
