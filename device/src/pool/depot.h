/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_DEPOT_H
#define CRMM_DEVICE_POOL_DEPOT_H

/*
 * Where blocks go from stream to stream without a heap: what one cache lets go of and others are
 * short of. They pass by magazines, some blocks of a class that a stream gave back (the names are
 * those of Bonwick and Adams, "Magazines and Vmem", USENIX 2001), and each is used by the rules for
 * free memory of that stream.
 *
 * A class has as many places as it turned out that one stream takes what another gave back, and
 * all together a small part of the pool: what nobody waits for goes to the heaps, where it joins
 * its neighbours. Blocks in magazines are in use as far as their heaps know.
 *
 * A magazine comes with the lock of a cache, so while all caches are stopped there is none more.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "size_class.h"
#include "spin.h"

enum { CRMM_PRIV_POOL_MAGAZINES = 8, CRMM_PRIV_POOL_MAGAZINE_BLOCKS = 8 };

/* Blocks of a class that an owner gave back up to an epoch. */
typedef struct crmm_priv_pool_magazine {
    uint64_t epoch;
    uint16_t owner;
    uint16_t count;
    void *blocks[CRMM_PRIV_POOL_MAGAZINE_BLOCKS];
} crmm_priv_pool_magazine;

/* Those of a class, the oldest one first. */
typedef struct crmm_priv_pool_rack {
    crmm_priv_spin lock;
    uint32_t count;
    uint32_t wanted; /* magazines that may come */
    crmm_priv_pool_magazine magazines[CRMM_PRIV_POOL_MAGAZINES];
} crmm_priv_pool_rack;

typedef struct crmm_priv_pool_depot {
    size_t bytes;        /* in all of them, and on their way from them to heaps */
    uint32_t in_transit; /* magazines on that way */
    crmm_priv_pool_rack racks[CRMM_PRIV_POOL_CLASSES];
} crmm_priv_pool_depot;

struct crmm_priv_pool;
struct crmm_priv_pool_cache;
struct crmm_priv_pool_request;

/* A request that is for a block of a class was not served by its stream's own memory, but with what
 * was found when the others' had been looked at. */
void crmm_priv_pool_depot_want(const struct crmm_priv_pool_request *request);

/* A cache, which is locked, lets go of blocks of a class. false: they are not wanted. */
bool crmm_priv_pool_depot_put(struct crmm_priv_pool_cache *cache, size_t class_index,
                              void *const *blocks, uint32_t count);

/* Blocks that a request may use, as far as is known: one, and `more` in `extra`, which has room for
 * CRMM_PRIV_POOL_MAGAZINE_BLOCKS. NULL: there are none, and nothing is changed. */
void *crmm_priv_pool_depot_take(const struct crmm_priv_pool_request *request, void **extra,
                                uint32_t *more);

/* The same after asking what the stream has completed that the oldest ones with a fence are from.
 */
void *crmm_priv_pool_depot_ask(const struct crmm_priv_pool_request *request, void **extra,
                               uint32_t *more);

/* One block, for which the request's stream waits. NULL: there is none with a fence. */
void *crmm_priv_pool_depot_wait(const struct crmm_priv_pool_request *request);

/* Give all to the heaps. Bytes. */
size_t crmm_priv_pool_depot_flush(struct crmm_priv_pool *pool);

/* Whether there is anything of an owner, to whom no more comes; also while it is just on its way to
 * a heap: who asks looks into the heaps afterwards. */
bool crmm_priv_pool_depot_has(struct crmm_priv_pool *pool, uint16_t owner);

/* Visit all magazines but those on their way, a rack at a time; it is locked meanwhile. */
void crmm_priv_pool_depot_for_each(struct crmm_priv_pool *pool,
                                   void (*visit)(const crmm_priv_pool_magazine *magazine,
                                                 size_t class_index, void *data),
                                   void *data);

#endif
