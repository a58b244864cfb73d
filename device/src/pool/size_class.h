/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_SIZE_CLASS_H
#define CRMM_DEVICE_POOL_SIZE_CLASS_H

/*
 * The sizes of blocks that caches keep: up to 16 granules exact, above that eight to a doubling, up
 * to 1 MiB. So a block is at most an eighth larger than what was asked for.
 */

#include <stdint.h>

enum {
    CRMM_PRIV_POOL_CLASSES = 80,
    CRMM_PRIV_POOL_LARGEST_CLASS = 4096, /* granules: 1 MiB */
    CRMM_PRIV_POOL_SMALL = 128,          /* granules: 32 KiB */
    CRMM_PRIV_POOL_SMALL_CLASSES = 40,   /* those up to CRMM_PRIV_POOL_SMALL */
    CRMM_PRIV_POOL_EXACT_CLASSES = 16
};

/* The class of a block of 1 to CRMM_PRIV_POOL_LARGEST_CLASS granules. */
static inline uint32_t crmm_priv_pool_class_of(uint32_t granules)
{
    if (granules <= CRMM_PRIV_POOL_EXACT_CLASSES) {
        return granules - 1;
    }
    uint32_t highest = 31u - (uint32_t)__builtin_clz(granules - 1);
    return (highest - 4) * 8 + ((granules - 1) >> (highest - 3)) + 8;
}

/* The granules of a block of a class. */
static inline uint32_t crmm_priv_pool_class_size(uint32_t class_index)
{
    if (class_index < CRMM_PRIV_POOL_EXACT_CLASSES) {
        return class_index + 1;
    }
    uint32_t above = class_index - CRMM_PRIV_POOL_EXACT_CLASSES;
    return ((above & 7) + 9) << (above / 8 + 1);
}

#endif
