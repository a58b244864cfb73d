/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_POOL_PIECES_H
#define CRMM_TESTS_SUPPORT_POOL_PIECES_H

#include "pool_support.h"

/*
 * A pool that is full, in one chunk or handle, and whose free memory is known to the byte when some
 * of it came back: pieces of 2, 4 and 3 MiB with live blocks of 1.5, 1.5 and 4 MiB between and
 * behind them. The last piece comes back without a stream, the others are a stream's own.
 */
enum {
    PIECES = 6,
    PIECES_ALL = 16 << 20,
    PIECES_LIVE = 7 << 20,
    PIECES_FREE = 9 << 20,
    PIECES_PENDING = 6 << 20,
    PIECES_LARGEST = 4 << 20
};

typedef struct pieces {
    crmm_resource *pool;
    cudaStream_t stream;
    void *ptrs[PIECES]; /* NULL: it came back */
} pieces;

/* Make the pool and take all of it. */
pieces pieces_make(crmm_resource *upstream, size_t maximum, cudaStream_t stream);

/* Give back what is to be free; what the stream is at is not waited for. */
void pieces_give_back(pieces *parts);

/* Give the rest back and release the pool. */
void pieces_end(pieces *parts);

#endif
