/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_STREAM_ID_H
#define CRMM_DEVICE_POOL_STREAM_ID_H

/*
 * Which stream a handle stands for, by a number that no other stream ever has. The legacy stream
 * has one of the pool's, since CUDA need not be asked about it.
 */

#include <crmm/internal/floor.h>

#include "pool.h"

/* Whether it is not one of the default streams. */
static inline bool crmm_priv_pool_is_created(crmm_stream stream)
{
    return (uintptr_t)stream > (uintptr_t)CRMM_STREAM_PER_THREAD;
}

/* The id of one of the default streams. */
uint64_t crmm_priv_pool_default_id(const crmm_priv_pool *pool, crmm_stream stream);

/* What is no id is told apart by crmm_priv_is_stream_id(). */
static inline uint64_t crmm_priv_pool_id_of(const crmm_priv_pool *pool, crmm_stream stream)
{
    return __builtin_expect(crmm_priv_pool_is_created(stream), 1)
               ? crmm_priv_stream_id_of(stream)
               : crmm_priv_pool_default_id(pool, stream);
}

#endif
