/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_CHURN_H
#define CRMM_BENCHMARKS_POOL_CHURN_H

#include "random.h"
#include "team.h"

typedef struct live_block {
    void *ptr; /* NULL: none */
    size_t bytes;
} live_block;

/* The live blocks of a worker. */
typedef struct churn {
    live_block *blocks;
    size_t count;
} churn;

void churn_begin(worker *self, churn *of);
void churn_end(worker *self, churn *of);

/* Replace a block drawn at random by one of a size drawn at random. */
static inline bool churn_step(worker *self, churn *of)
{
    uint64_t drawn = draw(&self->random);
    live_block *block = &of->blocks[draw_index(drawn, of->count)];

    worker_free(self, self->streams[0], block->ptr, block->bytes);
    block->bytes = draw_size(drawn);
    if (!worker_allocate(self, self->streams[0], block->bytes, &block->ptr)) {
        block->ptr = NULL;
        return false;
    }
    return true;
}

#endif
