/* SPDX-License-Identifier: Apache-2.0 */
#include "statistics_room.h"
#include "spin_lock.h"
#include "thread_number.h"

#include <stdlib.h>
#include <string.h>

/* Two cache lines: processors fetch lines in pairs. */
enum { SHARD_ALIGNMENT = 128 };

struct crmm_priv_room_shard {
    _Alignas(SHARD_ALIGNMENT) crmm_priv_spin_lock lock;
    unsigned is_active;
    size_t lender; /* among the active: who had room to spare the last time */
    crmm_priv_amounts room;
    crmm_priv_amounts total;
};

/* ---- amounts ---- */

static inline void add(crmm_priv_amounts *to, crmm_priv_amounts amounts)
{
    to->bytes = crmm_priv_saturated(to->bytes, amounts.bytes);
    to->allocations = crmm_priv_saturated(to->allocations, amounts.allocations);
}

static inline void subtract(crmm_priv_amounts *from, crmm_priv_amounts amounts)
{
    from->bytes -= amounts.bytes;
    from->allocations -= amounts.allocations;
}

static inline bool covers(const crmm_priv_amounts *room, crmm_priv_amounts amounts)
{
    return room->bytes >= amounts.bytes && room->allocations >= amounts.allocations;
}

/* a - b; the nearest bound where it does not fit. */
static int64_t difference(int64_t a, int64_t b)
{
    int64_t result;
    if (!__builtin_sub_overflow(a, b, &result)) {
        return result;
    }
    return a < 0 ? INT64_MIN : INT64_MAX;
}

/* ---- locks ---- */

void crmm_priv_room_lock(crmm_priv_room *room)
{
    crmm_priv_lock_acquire(&room->lock);
    for (size_t i = 0; i < room->active_count; i++) {
        crmm_priv_spin_acquire(&room->active[i]->lock);
    }
}

void crmm_priv_room_unlock(crmm_priv_room *room)
{
    for (size_t i = 0; i < room->active_count; i++) {
        crmm_priv_spin_release(&room->active[i]->lock);
    }
    crmm_priv_lock_release(&room->lock);
}

/* Before a fork; also of shards that are not in use yet, since a thread may be about to find out.
 */
static void take_all(crmm_priv_lock *lock)
{
    const crmm_priv_room *room = (const crmm_priv_room *)lock;

    for (size_t i = 0; i < CRMM_PRIV_ROOM_SHARDS; i++) {
        crmm_priv_spin_acquire(&room->shards[i].lock);
    }
}

static void let_all_go(crmm_priv_lock *lock)
{
    const crmm_priv_room *room = (const crmm_priv_room *)lock;

    for (size_t i = 0; i < CRMM_PRIV_ROOM_SHARDS; i++) {
        crmm_priv_spin_release(&room->shards[i].lock);
    }
}

/* ---- shards ---- */

/* The calling thread's shard, of every room in the process. */
static inline crmm_priv_room_shard *own_shard(const crmm_priv_room *room)
{
    return &room->shards[crmm_priv_thread_number() % CRMM_PRIV_ROOM_SHARDS];
}

/* Hold all locks, that of a shard which may not have been in use among them. */
static void lock_with(crmm_priv_room *room, crmm_priv_room_shard *shard)
{
    crmm_priv_room_lock(room);
    if (shard->is_active == 0) {
        crmm_priv_spin_acquire(&shard->lock);
        shard->is_active = 1;
        room->active[room->active_count] = shard;
        __atomic_store_n(&room->active_count, room->active_count + 1, __ATOMIC_RELEASE);
    }
}

/* Take all room; all locks are held. */
static crmm_priv_amounts collect(crmm_priv_room *room)
{
    crmm_priv_amounts all = {0};

    for (size_t i = 0; i < room->active_count; i++) {
        add(&all, room->active[i]->room);
        room->active[i]->room = (crmm_priv_amounts){0};
    }
    return all;
}

/* Deal room out in equal parts, and what is left over to one of the shards; all locks are held. */
static void deal(crmm_priv_room *room, crmm_priv_room_shard *last, crmm_priv_amounts all)
{
    int64_t shards = room->active_count != 0 ? (int64_t)room->active_count : 1;
    crmm_priv_amounts part = {all.bytes / shards, all.allocations / shards};

    for (size_t i = 0; i < room->active_count; i++) {
        room->active[i]->room = part;
    }
    add(&last->room, (crmm_priv_amounts){all.bytes % shards, all.allocations % shards});
}

/* ---- borrowing ---- */

/* Move half of one shard's room to another; both locks are held. */
static void borrow_half(int64_t *to, int64_t *lender)
{
    int64_t half = *lender - *lender / 2;

    *to = crmm_priv_saturated(*to, half);
    *lender -= half;
}

/*
 * Borrow room from other shards until it covers an amount; the shard's own lock is held, which
 * keeps those who collect or sum up all room out until the move is done. Others' locks are only
 * tried, so that two shards cannot wait for each other. false: it was not enough.
 */
__attribute__((noinline)) static bool borrow(crmm_priv_room *room, crmm_priv_room_shard *own,
                                             crmm_priv_amounts amounts)
{
    size_t count = __atomic_load_n(&room->active_count, __ATOMIC_ACQUIRE);

    for (size_t i = 0; i < count; i++) {
        size_t index = (own->lender + i) % count;
        crmm_priv_room_shard *lender = room->active[index];
        if (lender == own || !crmm_priv_spin_try(&lender->lock)) {
            continue;
        }
        if (own->room.bytes < amounts.bytes) {
            borrow_half(&own->room.bytes, &lender->room.bytes);
        }
        if (own->room.allocations < amounts.allocations) {
            borrow_half(&own->room.allocations, &lender->room.allocations);
        }
        crmm_priv_spin_release(&lender->lock);
        if (covers(&own->room, amounts)) {
            own->lender = index;
            return true;
        }
    }
    return false;
}

/* ---- taking and giving ---- */

/* Take what the shard's own room covers, or that of some others. */
static inline bool take_at_hand(crmm_priv_room *room, crmm_priv_room_shard *own,
                                crmm_priv_amounts amounts)
{
    crmm_priv_spin_acquire(&own->lock);
    bool taken = covers(&own->room, amounts) || (own->is_active != 0 && borrow(room, own, amounts));
    if (taken) {
        subtract(&own->room, amounts);
        add(&own->total, amounts);
    }
    crmm_priv_spin_release(&own->lock);
    return taken;
}

/* How much of an amount some room does not cover. */
static int64_t missing(int64_t room, int64_t amount)
{
    return amount > room ? amount - room : 0;
}

__attribute__((noinline)) static void take_from_all(crmm_priv_room *room, crmm_priv_room_shard *own,
                                                    crmm_priv_amounts amounts)
{
    lock_with(room, own);
    crmm_priv_amounts all = collect(room);
    crmm_priv_amounts rise = {missing(all.bytes, amounts.bytes),
                              missing(all.allocations, amounts.allocations)};
    add(&room->ceiling, rise);
    add(&all, rise);
    subtract(&all, amounts);
    add(&own->total, amounts);
    deal(room, own, all);
    crmm_priv_room_unlock(room);
}

void crmm_priv_room_take(crmm_priv_room *room, crmm_priv_amounts amounts)
{
    crmm_priv_room_shard *own = own_shard(room);

    if (!take_at_hand(room, own, amounts)) {
        take_from_all(room, own, amounts);
    }
}

void crmm_priv_room_give(crmm_priv_room *room, crmm_priv_amounts amounts)
{
    crmm_priv_room_shard *own = own_shard(room);

    crmm_priv_spin_acquire(&own->lock);
    bool is_active = own->is_active != 0;
    if (is_active) {
        add(&own->room, amounts);
    }
    crmm_priv_spin_release(&own->lock);
    if (!is_active) {
        /* The thread's first call. */
        lock_with(room, own);
        add(&own->room, amounts);
        crmm_priv_room_unlock(room);
    }
}

/* ---- all of it ---- */

crmm_priv_room_sums crmm_priv_room_sum_up(const crmm_priv_room *room)
{
    crmm_priv_room_sums sums = {.ceiling = room->ceiling};
    crmm_priv_amounts all = {0};

    for (size_t i = 0; i < room->active_count; i++) {
        add(&all, room->active[i]->room);
        add(&sums.total, room->active[i]->total);
    }
    sums.outstanding = sums.ceiling;
    subtract(&sums.outstanding, all);
    return sums;
}

void crmm_priv_room_restart(crmm_priv_room *room, const crmm_priv_room_sums *sums)
{
    (void)collect(room);
    for (size_t i = 0; i < room->active_count; i++) {
        room->active[i]->total = (crmm_priv_amounts){0};
    }
    room->ceiling = sums->ceiling;
    crmm_priv_amounts all = {difference(sums->ceiling.bytes, sums->outstanding.bytes),
                             difference(sums->ceiling.allocations, sums->outstanding.allocations)};
    if (room->active_count != 0) { /* else nothing has been counted, and all is 0 */
        room->active[0]->total = sums->total;
        deal(room, room->active[0], all);
    }
}

bool crmm_priv_room_init(crmm_priv_room *room)
{
    size_t size = CRMM_PRIV_ROOM_SHARDS * sizeof(*room->shards);

    *room = (crmm_priv_room){.shards = aligned_alloc(SHARD_ALIGNMENT, size)};
    if (room->shards == NULL) {
        return false;
    }
    memset(room->shards, 0, size);
    crmm_priv_lock_init_guard(&room->lock, take_all, let_all_go);
    return true;
}

void crmm_priv_room_finish(crmm_priv_room *room)
{
    crmm_priv_lock_forget(&room->lock);
    free(room->shards);
}
