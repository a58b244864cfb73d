/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_POOL_MODEL_STYLE_H
#define CRMM_TESTS_POOL_MODEL_STYLE_H

#include <stddef.h>
#include <stdint.h>

#include "simulated_upstream.h"
#include "simulation.h"
#include "subject.h"

typedef enum program_kind {
    PROGRAM_ANY,
    PROGRAM_TURNS,   /* two threads, all the time; that takes long */
    PROGRAM_PASSING, /* what some streams give back, only others take */
    PROGRAM_LARGE,   /* one thread, whose streams want large blocks of few sizes */
    PROGRAM_LONE     /* the same with one stream at a time */
} program_kind;

/* What all programs of a configuration have in common. */
typedef struct configuration {
    const char *name;
    size_t stream_cache_size;
    upstream_kind upstream;
    program_kind kind;
    unsigned faults; /* of 1024 calls how many fail */
} configuration;

/* All there are; the last has no name. */
extern const configuration configurations[];

/*
 * What a program is like, drawn from its seed. Most that can go wrong in a pool shows only while
 * few things order the streams, or few things complete, or memory is short; so each of these is
 * rare in some programs and frequent in others. Where no unit is told a number is a share of 1024.
 */
typedef struct style {
    unsigned streams;     /* alive at a time */
    unsigned most_live;   /* blocks that the program aims at */
    size_t most_bytes;    /* the same in bytes */
    unsigned least_log2;  /* sizes are spread evenly over the powers of two from this */
    unsigned most_log2;   /* to this */
    unsigned large;       /* allocations of up to 32 MiB */
    unsigned large_sizes; /* how many different ones; 0: any */
    unsigned aligned;     /* allocations aligned to more than the pool's granule */
    unsigned sync;        /* calls that are in no stream's order */
    unsigned by_address;  /* deallocations by the address alone */
    unsigned latest;      /* deallocations of the latest block */
    unsigned stays;       /* calls on the same stream as the one before */
    unsigned cross;       /* deallocations on another stream than the allocation */
    unsigned exported;    /* of those how many come after the allocation alone */
    unsigned retires;     /* streams that are retired before they are destroyed */
    /* Of 65536 operations: */
    unsigned orders;      /* one stream waits for another by the program's own doing */
    unsigned waits;       /* the host waits for a stream */
    unsigned deaths;      /* a stream is destroyed, and others are created */
    unsigned captures;    /* a capture begins */
    unsigned trims;       /* the pool is trimmed */
    unsigned tides;       /* the program turns from growing to shrinking or back */
    unsigned empties;     /* everything is given back, and half of what there is asked for */
    unsigned elsewhere;   /* the next operations are a second thread's */
    unsigned second_ends; /* which ends after so many times, about */
    unsigned turn;        /* at most, operations of that thread at a time */
    bool is_one_way;      /* the first half of the streams allocates, the others deallocate */
    bool has_legacy;
    bool has_per_thread;
    bool waits_at_end; /* the host waits for all work before the pool is released */
    size_t limit;      /* of upstream */
    sim_manner manner;
    subject_options options;
} style;

style style_draw(const configuration *of, uint64_t seed);

#endif
