/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_SUBJECT_H
#define CRMM_TESTS_POOL_MODEL_SUBJECT_H

#include <crmm/core/resource.h>
#include <crmm/core/stream.h>
#include <crmm/device/pool_memory_resource.h>

/* The options that the model varies: those of the pool that have to do with how it works. */
typedef struct subject_options {
    size_t initial_pool_size;
    size_t maximum_pool_size;
    uint64_t release_threshold;
    uint64_t tight;
    size_t target_pool_size;
    size_t handle_size;
    size_t stream_cache_size;
    size_t heap_count;
    crmm_pool_chunk_callback on_chunk;
    void *on_chunk_user_data;
} subject_options;

/* A pool that is checked. */
typedef struct subject {
    const char *name;
    crmm_status (*create)(crmm_resource *upstream, const subject_options *options,
                          crmm_resource **out);
    crmm_status (*retire_stream)(crmm_resource *pool, crmm_stream stream);
    /* Its own structure; false and why. */
    bool (*check)(const crmm_resource *pool, char *why, size_t size);
    /* The name of a lock that it holds; NULL: none. */
    const char *(*held_lock)(crmm_resource *pool);
    bool has_deallocate_ptr;
    bool joins_blocks; /* what was given back can be had in one piece */
    bool trims_all;    /* with nothing live a trim leaves nothing */
    /* What it tells of itself; NULL: nothing. */
    crmm_status (*snapshot)(const crmm_resource *pool,
                            void (*visitor)(const crmm_pool_block *block, void *user_data),
                            void *user_data);
    crmm_status (*chunk)(const crmm_resource *pool, const void *ptr, void **base, size_t *bytes);
    crmm_status (*statistics)(const crmm_resource *pool, crmm_pool_statistics *statistics);
} subject;

/* All there are; the last has no name. */
extern const subject subjects[];

/* The one that is for this; NULL for an unknown name. */
const subject *subject_find(const char *name);

/* A simple pool that keeps to the rules, and such that break one each. */
crmm_status toy_pool_create(crmm_resource *upstream, const subject_options *options, unsigned flaws,
                            crmm_resource **out);

enum {
    TOY_NO_WAIT = 1,        /* other streams get memory at once */
    TOY_LATE_RECORD = 2,    /* the event is recorded when another stream wants the memory */
    TOY_SHORT_STEP = 4,     /* blocks reach into their neighbours */
    TOY_SYNC_PENDING = 8,   /* allocate_sync does not wait */
    TOY_EARLY_RELEASE = 16, /* memory goes back upstream while work is pending */
    TOY_STALE_MARK = 32     /* memory that a stream takes over is marked before the stream waits */
};

#endif
