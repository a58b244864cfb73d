/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SIZE_CLASS_H
#define CRMM_DEVICE_POOL_SIZE_CLASS_H

/*
 * The sizes of blocks that caches keep: up to 16 granules exact, above that eight to a doubling, up
 * to 1 MiB. So a block is at most an eighth larger than what was asked for, in whole granules.
 */

#include <stddef.h>
#include <stdint.h>

#include "extents.h"

enum {
    CRMM_PRIV_POOL_CLASSES = 80,
    CRMM_PRIV_POOL_LARGEST_CLASS = 4096, /* granules: 1 MiB */
    CRMM_PRIV_POOL_SMALL = 128,          /* granules: 32 KiB */
    CRMM_PRIV_POOL_SMALL_CLASSES = 40,   /* those up to CRMM_PRIV_POOL_SMALL */
    CRMM_PRIV_POOL_EXACT_CLASSES = 16
};

/* The class of a block of 1 to 1 MiB bytes. */
static inline size_t crmm_priv_pool_class_of_bytes(size_t bytes)
{
    size_t less = (bytes - 1) >> CRMM_PRIV_POOL_GRANULE_SHIFT; /* granules - 1 */

    if (less < CRMM_PRIV_POOL_EXACT_CLASSES) {
        return less;
    }
    size_t highest = 63u - (size_t)__builtin_clzll(less);
    return (highest - 4) * 8 + (less >> (highest - 3)) + 8;
}

/* The class of a block of 1 to CRMM_PRIV_POOL_LARGEST_CLASS granules. */
static inline size_t crmm_priv_pool_class_of_granules(uint32_t granules)
{
    return crmm_priv_pool_class_of_bytes((size_t)granules << CRMM_PRIV_POOL_GRANULE_SHIFT);
}

/* The granules of a block of a class. */
static inline uint32_t crmm_priv_pool_class_size(size_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_EXACT_CLASSES) {
        return (uint32_t)class_index + 1;
    }
    uint32_t above = (uint32_t)class_index - CRMM_PRIV_POOL_EXACT_CLASSES;
    return ((above & 7) + 9) << (above / 8 + 1);
}

#endif
