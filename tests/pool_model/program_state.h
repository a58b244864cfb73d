/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_PROGRAM_STATE_H
#define CRMM_TESTS_POOL_MODEL_PROGRAM_STATE_H

/* What the files of a program share. */

#include "program.h"

enum {
    PROGRAM_STREAMS = 64, /* alive, or dead with blocks left */
    PROGRAM_ALIVE = 8,
    PROGRAM_BLOCKS = 4096,
    PROGRAM_EXPORTS = 16,
    PROGRAM_CHUNKS = 4096
};

typedef struct program_stream {
    crmm_stream handle;
    bool is_alive;
    bool is_created; /* no default stream */
    bool is_capturing;
    bool is_barred;  /* the legacy stream, which cannot be used while others are captured */
    unsigned blocks; /* that were allocated on it */
    sim_clock last;  /* of a dead one: what its work comes after */
} program_stream;

typedef struct program_block {
    void *ptr;
    size_t bytes;
    size_t alignment;
    program_stream *stream;
    const sim_clock *order; /* it was used after this alone; NULL: after all work of the stream */
} program_block;

/* Memory that the pool told of when it came. */
typedef struct program_chunk {
    char *base;
    size_t bytes;
} program_chunk;

typedef struct program {
    const program_run *run;
    const subject *pool_class;
    crmm_resource *pool;
    simulated_upstream *upstream;
    style like;
    uint64_t randomness;
    program_stream streams[PROGRAM_STREAMS];
    program_stream *alive[PROGRAM_ALIVE];
    unsigned alive_count;
    program_stream *latest; /* that was called on */
    program_block blocks[PROGRAM_BLOCKS];
    unsigned block_count;
    size_t asked; /* bytes of all blocks */
    bool shrinks;
    sim_clock exports[PROGRAM_EXPORTS];
    unsigned exports_used; /* a bit each */
    uint64_t misuses;      /* that were reported */
    crmm_misuse_kind misuse;
    program_chunk chunks[PROGRAM_CHUNKS]; /* that are there */
    unsigned chunk_count;
    size_t chunk_bytes;
    uint64_t chunks_added;
    uint64_t chunks_removed;
    unsigned checks; /* that were made */
    uint64_t allocations;
    uint64_t refusals;
} program;

uint64_t program_below(program *own, uint64_t count);
/* With a chance of `share` in 1024. */
bool program_chance(program *own, unsigned share);

/* ---- streams: streams.c ---- */

void program_begin_streams(program *own);
void program_end_captures(program *own);
/* One that is alive; it may be captured. */
program_stream *program_pick_stream(program *own);
void program_order_streams(program *own);
void program_wait_for_stream(program *own);
void program_replace_stream(program *own);
void program_toggle_capture(program *own);
/* What the work of a stream comes after, dead or alive. */
const sim_clock *program_stream_order(const program_stream *stream);

/* ---- calls on the pool: calls.c ---- */

/* One of about the size that the style wants. */
void program_allocate(program *own);
/* Whether it succeeded. */
bool program_allocate_bytes(program *own, program_stream *stream, size_t bytes, size_t alignment);
void program_deallocate(program *own);
/* All that can be; nothing is left unless calls are made to fail. */
void program_deallocate_all(program *own);
void program_trim(program *own);
/* With nothing live everything goes back. */
void program_trim_all(program *own);

/* ---- figures: checks.c ---- */

/* The figures that must be exact at all times, also after a call that failed. */
void program_check_figures(program *own);
/* The same, and the pool's own structure. */
void program_check(program *own);

/* ---- what the pool tells of itself: views.c ---- */

void program_on_chunk(void *base, size_t bytes, bool added, void *user_data);
/* Chunks, snapshot and statistics against what the program did. */
void program_check_views(program *own);
/* After the pool's end. */
void program_check_chunks_gone(const program *own);

#endif
