/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SIMULATED_UPSTREAM_H
#define CRMM_TESTS_POOL_MODEL_SIMULATED_UPSTREAM_H

#include <crmm/interfaces/resource.h>

/*
 * What a pool takes simulated memory from. Whatever comes back must have no work pending on it and
 * no block in it, and nothing is given twice: the shadow sees to that. Locks the simulation itself.
 */
typedef enum upstream_kind {
    UPSTREAM_VMM,    /* can grow in place */
    UPSTREAM_CHUNKS, /* as cuda: chunks, and no work is pending on a new one */
    UPSTREAM_ORDERED /* chunks with the stream's work pending on a new one */
} upstream_kind;

enum { UPSTREAM_CHUNKS_MOST = 4096, UPSTREAM_RANGES_MOST = 64, UPSTREAM_MOVES_MOST = 1024 };

/* Address space that was reserved. */
typedef struct upstream_range {
    char *base;
    size_t bytes;
    unsigned char *pages; /* what each page is: see simulated_ranges.c */
} upstream_range;

/* Memory that has two addresses. */
typedef struct upstream_move {
    char *to;
    char *from;
    size_t bytes;
} upstream_move;

typedef struct upstream_chunk {
    char *base;
    size_t bytes;
    bool is_live;
} upstream_chunk;

typedef struct simulated_upstream {
    struct crmm_resource base;
    upstream_kind kind;
    size_t limit;      /* bytes that it gives at most */
    size_t held;       /* that it has given */
    size_t peak;       /* the most it had given */
    bool single_pages; /* a commit makes one handle a page, not one for all */
    uint64_t randomness;
    uint64_t next; /* offset of address space that was never given */
    uint32_t clock;
    upstream_chunk chunks[UPSTREAM_CHUNKS_MOST];
    size_t chunk_count;
    upstream_range ranges[UPSTREAM_RANGES_MOST];
    size_t range_count;
    upstream_move moves[UPSTREAM_MOVES_MOST];
    size_t move_count;
    uint64_t moves_begun;
    uint64_t calls; /* also those that failed */
} simulated_upstream;

/* After sim_start() and shadow_start(). One reference, the caller's. */
void simulated_upstream_init(simulated_upstream *upstream, upstream_kind kind, uint64_t seed,
                             size_t limit);
/* Bytes of address space in its ranges. */
size_t simulated_upstream_reserved(const simulated_upstream *upstream);
/* Everything came back; else a failure. */
void simulated_upstream_finish(simulated_upstream *upstream);

#endif
