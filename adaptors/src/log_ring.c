/* SPDX-License-Identifier: Apache-2.0 */
#include "log_ring.h"

#include <stdlib.h>

static crmm_priv_log_slot *slot_of(const crmm_priv_log_ring *ring, size_t position)
{
    return &ring->slots[position & (CRMM_PRIV_LOG_RING_SIZE - 1)];
}

bool crmm_priv_log_ring_init(crmm_priv_log_ring *ring)
{
    *ring = (crmm_priv_log_ring){
        .slots = malloc(CRMM_PRIV_LOG_RING_SIZE * sizeof(*ring->slots)),
    };
    if (ring->slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < CRMM_PRIV_LOG_RING_SIZE; i++) {
        ring->slots[i] = (crmm_priv_log_slot){.turn = i};
    }
    return true;
}

void crmm_priv_log_ring_finish(crmm_priv_log_ring *ring)
{
    free(ring->slots);
    ring->slots = NULL;
}

/* A position is claimed first and its slot filled after that, so whoever takes it may have to wait
 * for the few stores in between. */
bool crmm_priv_log_ring_push(crmm_priv_log_ring *ring, const crmm_priv_log_record *record,
                             size_t *position)
{
    size_t claimed = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);

    for (;;) {
        size_t turn = __atomic_load_n(&slot_of(ring, claimed)->turn, __ATOMIC_ACQUIRE);
        if (turn == claimed) {
            if (__atomic_compare_exchange_n(&ring->head, &claimed, claimed + 1, true,
                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
                break;
            }
        } else if (turn < claimed) {
            return false; /* a lap behind: not taken yet */
        } else {
            claimed = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
        }
    }
    crmm_priv_log_slot *slot = slot_of(ring, claimed);
    slot->record = *record;
    __atomic_store_n(&slot->turn, claimed + 1, __ATOMIC_RELEASE);
    *position = claimed;
    return true;
}

bool crmm_priv_log_ring_take(crmm_priv_log_ring *ring, crmm_priv_log_record *record)
{
    size_t tail = crmm_priv_log_ring_tail(ring);
    crmm_priv_log_slot *slot = slot_of(ring, tail);

    if (__atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE) != tail + 1) {
        return false;
    }
    *record = slot->record;
    __atomic_store_n(&slot->turn, tail + CRMM_PRIV_LOG_RING_SIZE, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELAXED);
    return true;
}
