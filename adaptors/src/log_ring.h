/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_LOG_RING_H
#define CRMM_ADAPTORS_SRC_LOG_RING_H

#include <stdbool.h>

#include "log_record.h"

/* Records that a ring holds; a power of two. */
enum { CRMM_PRIV_LOG_RING_SIZE = 16384 };

typedef struct crmm_priv_log_slot {
    size_t turn; /* atomic: the position that may be stored here, or one more once it is */
    crmm_priv_log_record record;
} crmm_priv_log_slot;

/*
 * A queue of records in fixed memory, into which any number of threads push without a lock, and
 * from which one at a time takes. Positions count up from 0 and never wrap; what happens before a
 * push has the lower position.
 */
typedef struct crmm_priv_log_ring {
    size_t head;                     /* atomic: the next position to push */
    char apart[64 - sizeof(size_t)]; /* those who push and those who take use other cache lines */
    size_t tail;                     /* atomic: the next position to take */
    crmm_priv_log_slot *slots;
} crmm_priv_log_ring;

/* false: no memory. */
bool crmm_priv_log_ring_init(crmm_priv_log_ring *ring);
void crmm_priv_log_ring_finish(crmm_priv_log_ring *ring);

/* Store a record; false where the ring is full. */
bool crmm_priv_log_ring_push(crmm_priv_log_ring *ring, const crmm_priv_log_record *record,
                             size_t *position);

/* Take the next record; false where it is not stored yet. One thread at a time. */
bool crmm_priv_log_ring_take(crmm_priv_log_ring *ring, crmm_priv_log_record *record);

/* The position that the next push, or the next take, will have. */
static inline size_t crmm_priv_log_ring_head(const crmm_priv_log_ring *ring)
{
    return __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
}

static inline size_t crmm_priv_log_ring_tail(const crmm_priv_log_ring *ring)
{
    return __atomic_load_n(&ring->tail, __ATOMIC_RELAXED);
}

#endif
