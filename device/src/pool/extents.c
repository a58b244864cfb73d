/* SPDX-License-Identifier: Apache-2.0 */
#include "extents.h"

#include <stdlib.h>
#include <string.h>

#include "extents_free.h"
#include "extents_states.h"
#include "extents_table.h"

enum { FIRST_CAPACITY = 64, FIRST_TABLE = 256 };

/* ---- the array ---- */

bool crmm_priv_extents_init(crmm_priv_extents *extents)
{
    extents->table_size = FIRST_TABLE;
    extents->table = calloc(FIRST_TABLE, sizeof(*extents->table));
    return extents->table != NULL && crmm_priv_extents_reserve(extents) &&
           crmm_priv_extents_reserve_owner(extents, CRMM_PRIV_POOL_CLEAN) &&
           crmm_priv_extents_reserve_owner(extents, CRMM_PRIV_POOL_STRANDED);
}

void crmm_priv_extents_finish(crmm_priv_extents *extents)
{
    for (uint32_t i = 0; i < extents->set_count; i++) {
        free(extents->sets[i]);
    }
    free(extents->sets);
    free(extents->table);
    free(extents->all);
    *extents = (crmm_priv_extents){0};
}

static bool grow_array(crmm_priv_extents *extents)
{
    uint32_t before = extents->capacity;
    uint32_t capacity = before == 0 ? FIRST_CAPACITY : before * 2;

    if (before > UINT32_MAX / CRMM_PRIV_EXTENT_STEP / 2) {
        return false; /* there are no indices for more */
    }
    crmm_priv_extent *all = realloc(extents->all, capacity * sizeof(*all));
    if (all == NULL) {
        return false;
    }
    memset(all + before, 0, (capacity - before) * sizeof(*all));
    /* Entry 0 stands for none. The others are linked in order. */
    for (uint32_t i = capacity - 1; i >= before && i > 0; i--) {
        all[i].bin_after = extents->unused;
        extents->unused = i * CRMM_PRIV_EXTENT_STEP;
        extents->unused_count++;
    }
    extents->all = all;
    extents->capacity = capacity;
    return true;
}

static uint32_t new_extent(crmm_priv_extents *extents)
{
    uint32_t index = extents->unused;

    extents->unused = get(extents, index)->bin_after;
    extents->unused_count--;
    *get(extents, index) = (crmm_priv_extent){0};
    return index;
}

static void delete_extent(crmm_priv_extents *extents, uint32_t index)
{
    *get(extents, index) = (crmm_priv_extent){.bin_after = extents->unused};
    extents->unused = index;
    extents->unused_count++;
}

bool crmm_priv_extents_grow(crmm_priv_extents *extents)
{
    bool has_entries = extents->unused_count >= CRMM_PRIV_POOL_NEW_EXTENTS || grow_array(extents);

    return has_entries && ((extents->used_count + 1) * 2 <= extents->table_size ||
                           crmm_priv_extents_table_grow(extents));
}

bool crmm_priv_extents_add_owner(crmm_priv_extents *extents, uint16_t owner)
{
    if (owner >= extents->set_count) {
        uint32_t count = owner + 16u;
        crmm_priv_extent_set **sets =
            realloc(extents->sets, count * sizeof(crmm_priv_extent_set *));
        if (sets == NULL) {
            return false;
        }
        memset(sets + extents->set_count, 0,
               (count - extents->set_count) * sizeof(crmm_priv_extent_set *));
        extents->sets = sets;
        extents->set_count = count;
    }
    if (extents->sets[owner] == NULL) {
        extents->sets[owner] = calloc(1, sizeof(crmm_priv_extent_set));
    }
    return extents->sets[owner] != NULL;
}

/* ---- neighbours ---- */

/* Put a new extent into address space, right before another one. */
static void insert_before(crmm_priv_extents *extents, uint32_t index, uint32_t other)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent *next = get(extents, other);

    extent->is_apart = next->is_apart;
    extent->before = next->before;
    extent->after = other;
    if (extent->before != NONE) {
        get(extents, extent->before)->after = index;
    }
    next->before = index;
}

/* Right after another one. */
static void insert_after(crmm_priv_extents *extents, uint32_t index, uint32_t other)
{
    crmm_priv_extent *extent = get(extents, index);
    crmm_priv_extent *previous = get(extents, other);

    extent->is_apart = previous->is_apart;
    extent->before = other;
    extent->after = previous->after;
    if (extent->after != NONE) {
        get(extents, extent->after)->before = index;
    }
    previous->after = index;
}

/* An extent is not between its neighbours any more. */
static void unlink_neighbours(crmm_priv_extents *extents, uint32_t index)
{
    const crmm_priv_extent *extent = get(extents, index);

    if (extent->before != NONE) {
        get(extents, extent->before)->after = extent->after;
    }
    if (extent->after != NONE) {
        get(extents, extent->after)->before = extent->before;
    }
}

/* An extent, in no list any more, swallows the one that follows it, in none either. */
static void swallow_next(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t victim = extent->after;

    extent->size += get(extents, victim)->size;
    unlink_neighbours(extents, victim);
    delete_extent(extents, victim);
}

/* Whom two neighbours belong to when they are joined; UINT16_MAX: they are not. */
static uint16_t joint_owner(const crmm_priv_extents *extents, uint16_t one, uint16_t other)
{
    if (one == other) {
        return one;
    }
    if (one == CRMM_PRIV_POOL_CLEAN && other == extents->solo) {
        return other;
    }
    return other == CRMM_PRIV_POOL_CLEAN && one == extents->solo ? one : UINT16_MAX;
}

/* A free extent takes in the one before it or after it, which is in no list. */
static void take_in(crmm_priv_extents *extents, uint32_t index, uint32_t other)
{
    const crmm_priv_extent *extent = get(extents, index);
    const crmm_priv_extent *gone = get(extents, other);
    uint64_t at = extent->at < gone->at ? extent->at : gone->at;

    crmm_priv_extents_resize_free(extents, index, at, extent->size + gone->size);
    unlink_neighbours(extents, other);
    delete_extent(extents, other);
}

static bool is_free_of(const crmm_priv_extents *extents, uint32_t index, uint16_t owner)
{
    const crmm_priv_extent *extent = get(extents, index);

    return extent->state == CRMM_PRIV_POOL_FREE && extent->owner == owner;
}

/* An extent that is in no list becomes free, joined with neighbours of the same owner: one of these
 * takes it in. */
static void free_among_own(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                           uint64_t epoch)
{
    uint32_t before = get(extents, index)->before;
    uint32_t after = get(extents, index)->after;
    uint32_t into = before;

    if (!is_free_of(extents, before, owner)) {
        into = after;
    } else if (is_free_of(extents, after, owner)) {
        epoch = get(extents, after)->epoch > epoch ? get(extents, after)->epoch : epoch;
        crmm_priv_extents_unmake_free(extents, after);
        swallow_next(extents, index);
    }
    if (!is_free_of(extents, into, owner)) {
        crmm_priv_extents_make_free(extents, index, owner, epoch);
        return;
    }
    take_in(extents, into, index);
    crmm_priv_extents_renew_free(extents, into, epoch);
}

/* The same where there is a lone stream, to whose memory clean memory is joined. */
static void free_and_join_any(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                              uint64_t epoch)
{
    for (;;) {
        const crmm_priv_extent *extent = get(extents, index);
        uint32_t before = extent->before;
        uint32_t after = extent->after;
        uint16_t joint = UINT16_MAX;

        if (after != NONE && get(extents, after)->state == CRMM_PRIV_POOL_FREE) {
            joint = joint_owner(extents, owner, get(extents, after)->owner);
        }
        if (joint != UINT16_MAX) {
            epoch = get(extents, after)->epoch > epoch ? get(extents, after)->epoch : epoch;
            crmm_priv_extents_unmake_free(extents, after);
            swallow_next(extents, index);
            owner = joint;
            continue;
        }
        if (before != NONE && get(extents, before)->state == CRMM_PRIV_POOL_FREE) {
            joint = joint_owner(extents, owner, get(extents, before)->owner);
        }
        if (joint == UINT16_MAX) {
            break;
        }
        epoch = get(extents, before)->epoch > epoch ? get(extents, before)->epoch : epoch;
        crmm_priv_extents_unmake_free(extents, before);
        swallow_next(extents, before);
        index = before;
        owner = joint;
    }
    crmm_priv_extents_make_free(extents, index, owner, epoch);
}

static void free_and_join(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                          uint64_t epoch)
{
    if (extents->solo == 0) {
        free_among_own(extents, index, owner, epoch);
    } else {
        free_and_join_any(extents, index, owner, epoch);
    }
}

/* ---- chunks ---- */

uint32_t crmm_priv_extents_add(crmm_priv_extents *extents, uint64_t at, uint32_t size,
                               crmm_priv_pool_state state, bool is_apart)
{
    uint32_t index = new_extent(extents);
    crmm_priv_extent *extent = get(extents, index);

    extent->is_apart = is_apart;
    extent->at = at;
    extent->size = size;
    if (state == CRMM_PRIV_POOL_FREE) {
        crmm_priv_extents_make_free(extents, index, CRMM_PRIV_POOL_CLEAN, 0);
    } else {
        crmm_priv_extents_make(extents, index, state);
    }
    return index;
}

void crmm_priv_extents_remove(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extents_unmake(extents, index);
    delete_extent(extents, index);
}

/* ---- taking ---- */

/* What is free before a block becomes an extent of its own, with the same owner and age. */
static uint32_t cut_front(crmm_priv_extents *extents, uint32_t index, uint32_t size, uint16_t owner,
                          uint64_t epoch, uint32_t older)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t front = new_extent(extents);

    get(extents, front)->at = extent->at;
    get(extents, front)->size = size;
    insert_before(extents, front, index);
    extent->at += size;
    extent->size -= size;
    crmm_priv_extents_make_part(extents, front, owner, epoch, older);
    return front;
}

/* What is left after `size` granules becomes an extent of its own, which is returned. */
static uint32_t cut_back(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    crmm_priv_extent *extent = get(extents, index);
    uint32_t back = new_extent(extents);

    get(extents, back)->at = extent->at + size;
    get(extents, back)->size = extent->size - size;
    insert_after(extents, back, index);
    extent->size = size;
    return back;
}

/* The common case: the block is the front of the extent. What is left keeps the entry, and with it
 * its place among the owner's by age. */
static uint32_t take_front(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    uint32_t taken = new_extent(extents);

    get(extents, taken)->at = get(extents, index)->at;
    get(extents, taken)->size = size;
    insert_before(extents, taken, index);
    crmm_priv_extents_resize_free(extents, index, get(extents, index)->at + size,
                                  get(extents, index)->size - size);
    crmm_priv_extents_make_used(extents, taken);
    return taken;
}

uint32_t crmm_priv_extents_take(crmm_priv_extents *extents, uint32_t index, uint32_t size,
                                uint32_t alignment)
{
    const crmm_priv_extent *extent = get(extents, index);
    uint32_t skip = padding(extent, alignment);
    uint16_t owner = extent->owner;
    uint64_t epoch = extent->epoch;
    uint32_t older = extent->age_before;

    if (skip == 0 && extent->size > size) {
        return take_front(extents, index, size);
    }
    crmm_priv_extents_unmake_free(extents, index);
    if (skip > 0) {
        older = cut_front(extents, index, skip, owner, epoch, older);
    }
    if (get(extents, index)->size > size) {
        crmm_priv_extents_make_part(extents, cut_back(extents, index, size), owner, epoch, older);
    }
    crmm_priv_extents_make_used(extents, index);
    return index;
}

uint32_t crmm_priv_extents_divide(crmm_priv_extents *extents, uint32_t index, uint32_t size)
{
    extents->used_granules -= get(extents, index)->size;
    uint32_t second = cut_back(extents, index, size);

    extents->used_granules += size;
    crmm_priv_extents_make_used(extents, second);
    return second;
}

uint32_t crmm_priv_extents_take_run(crmm_priv_extents *extents, uint32_t first, uint32_t size,
                                    uint32_t alignment)
{
    uint32_t skip = padding(get(extents, first), alignment);

    while (skip >= get(extents, first)->size) {
        skip -= get(extents, first)->size;
        first = get(extents, first)->after;
    }
    uint16_t owner = get(extents, first)->owner;
    uint64_t epoch = get(extents, first)->epoch;
    uint32_t older = get(extents, first)->age_before;
    crmm_priv_extents_unmake_free(extents, first);
    if (skip > 0) {
        older = cut_front(extents, first, skip, owner, epoch, older);
    }
    while (get(extents, first)->size < size) {
        uint32_t next = get(extents, first)->after;
        owner = get(extents, next)->owner;
        epoch = get(extents, next)->epoch;
        older = get(extents, next)->age_before;
        crmm_priv_extents_unmake_free(extents, next);
        swallow_next(extents, first);
    }
    if (get(extents, first)->size > size) {
        /* What is left is a part of the last one that was swallowed. */
        crmm_priv_extents_make_part(extents, cut_back(extents, first, size), owner, epoch, older);
    }
    crmm_priv_extents_make_used(extents, first);
    return first;
}

/* ---- giving back ---- */

void crmm_priv_extents_release(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                               uint64_t epoch)
{
    crmm_priv_extents_unmake_used(extents, index);
    free_and_join(extents, index, owner, epoch);
}

uint32_t crmm_priv_extents_promote(crmm_priv_extents *extents, uint16_t owner, uint64_t epoch,
                                   uint32_t most)
{
    crmm_priv_extent_set *set = crmm_priv_extents_set(extents, owner);

    uint32_t count = 0;

    for (; set != NULL && set->oldest != NONE && get(extents, set->oldest)->epoch <= epoch &&
           count < most;
         count++) {
        uint32_t index = set->oldest;
        crmm_priv_extents_unmake_free(extents, index);
        free_and_join(extents, index, CRMM_PRIV_POOL_CLEAN, 0);
    }
    return count;
}

/* ---- memory behind address space ---- */

uint32_t crmm_priv_extents_carve(crmm_priv_extents *extents, uint32_t index, uint64_t at,
                                 uint32_t size, crmm_priv_pool_state state)
{
    const crmm_priv_extent whole = *get(extents, index);
    uint32_t skip = (uint32_t)(at - whole.at);
    uint32_t older = whole.age_before;

    crmm_priv_extents_unmake(extents, index);
    if (skip > 0) {
        uint32_t front = new_extent(extents);
        get(extents, front)->at = whole.at;
        get(extents, front)->size = skip;
        insert_before(extents, front, index);
        get(extents, index)->at += skip;
        get(extents, index)->size -= skip;
        if (whole.state == CRMM_PRIV_POOL_FREE) {
            crmm_priv_extents_make_part(extents, front, whole.owner, whole.epoch, older);
            older = front;
        } else {
            crmm_priv_extents_make(extents, front, (crmm_priv_pool_state)whole.state);
        }
    }
    if (get(extents, index)->size > size) {
        uint32_t back = cut_back(extents, index, size);
        if (whole.state == CRMM_PRIV_POOL_FREE) {
            crmm_priv_extents_make_part(extents, back, whole.owner, whole.epoch, older);
        } else {
            crmm_priv_extents_make(extents, back, (crmm_priv_pool_state)whole.state);
        }
    }
    get(extents, index)->owner = whole.owner;
    get(extents, index)->epoch = whole.epoch;
    crmm_priv_extents_make(extents, index, state);
    return index;
}

void crmm_priv_extents_set_hole(crmm_priv_extents *extents, uint32_t index)
{
    crmm_priv_extents_unmake(extents, index);
    uint32_t after = get(extents, index)->after;
    if (after != NONE && get(extents, after)->state == CRMM_PRIV_POOL_HOLE) {
        crmm_priv_extents_unmake(extents, after);
        swallow_next(extents, index);
    }
    uint32_t before = get(extents, index)->before;
    if (before != NONE && get(extents, before)->state == CRMM_PRIV_POOL_HOLE) {
        crmm_priv_extents_unmake(extents, before);
        swallow_next(extents, before);
        index = before;
    }
    crmm_priv_extents_make(extents, index, CRMM_PRIV_POOL_HOLE);
}

void crmm_priv_extents_set_free(crmm_priv_extents *extents, uint32_t index, uint16_t owner,
                                uint64_t epoch)
{
    crmm_priv_extents_unmake(extents, index);
    free_and_join(extents, index, owner, epoch);
}
