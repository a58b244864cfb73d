/* SPDX-License-Identifier: Apache-2.0 */
#include "style.h"

#include <crmm/device/pool_memory_resource.h>

#include "random_numbers.h"

#define MIB ((size_t)1 << 20)

enum { TINY_CACHE = 2 << 20, FAULTS = 6 };

const configuration configurations[] = {
    {"default-vmm", 0, UPSTREAM_VMM, PROGRAM_ANY, 0},
    {"default-chunks", 0, UPSTREAM_CHUNKS, PROGRAM_ANY, 0},
    {"default-ordered", 0, UPSTREAM_ORDERED, PROGRAM_ANY, 0},
    {"tiny-vmm", TINY_CACHE, UPSTREAM_VMM, PROGRAM_ANY, 0},
    {"tiny-chunks", TINY_CACHE, UPSTREAM_CHUNKS, PROGRAM_ANY, 0},
    {"tiny-ordered", TINY_CACHE, UPSTREAM_ORDERED, PROGRAM_ANY, 0},
    {"off-vmm", CRMM_STREAM_CACHE_NONE, UPSTREAM_VMM, PROGRAM_ANY, 0},
    {"off-chunks", CRMM_STREAM_CACHE_NONE, UPSTREAM_CHUNKS, PROGRAM_ANY, 0},
    {"off-ordered", CRMM_STREAM_CACHE_NONE, UPSTREAM_ORDERED, PROGRAM_ANY, 0},
    {"turns-vmm", TINY_CACHE, UPSTREAM_VMM, PROGRAM_TURNS, 0},
    {"faults-vmm", TINY_CACHE, UPSTREAM_VMM, PROGRAM_ANY, FAULTS},
    {"faults-chunks", CRMM_STREAM_CACHE_NONE, UPSTREAM_CHUNKS, PROGRAM_ANY, FAULTS},
    {"faults-ordered", 0, UPSTREAM_ORDERED, PROGRAM_ANY, FAULTS},
    {"faults-lone", 0, UPSTREAM_ORDERED, PROGRAM_LONE, FAULTS},
    {"faults-large", 0, UPSTREAM_VMM, PROGRAM_LARGE, FAULTS},
    {"passing-vmm", 0, UPSTREAM_VMM, PROGRAM_PASSING, 0},
    {"passing-chunks", 0, UPSTREAM_CHUNKS, PROGRAM_PASSING, 0},
    {"large-vmm", 0, UPSTREAM_VMM, PROGRAM_LARGE, 0},
    {"large-chunks", 0, UPSTREAM_CHUNKS, PROGRAM_LARGE, 0},
    {"lone-vmm", 0, UPSTREAM_VMM, PROGRAM_LONE, 0},
    {"lone-chunks", 0, UPSTREAM_CHUNKS, PROGRAM_LONE, 0},
    {"lone-ordered", 0, UPSTREAM_ORDERED, PROGRAM_LONE, 0},
    {0},
};

#define PICK(random, ...)                                                                         \
    ((const size_t[]){__VA_ARGS__}[random_below((random), sizeof((const size_t[]){__VA_ARGS__}) / \
                                                              sizeof(size_t))])

static unsigned pick_share(uint64_t *random, unsigned rare, unsigned often)
{
    return (unsigned)PICK(random, 0, rare, often);
}

/* Evenly spread over the powers of two. */
static size_t pick_spread(uint64_t *random, size_t least, size_t most)
{
    size_t drawn = least;

    while (drawn < most && random_below(random, 3) != 0) {
        drawn *= 2;
    }
    return drawn + random_below(random, drawn);
}

static void draw_sizes(style *into, uint64_t *random)
{
    into->least_log2 = 8;
    into->most_log2 = 20;
    switch (random_below(random, 6)) {
    case 0:
        into->most_log2 = 13;
        break;
    case 1:
        into->least_log2 = 14;
        break;
    case 2:
        into->least_log2 = (unsigned)(10 + random_below(random, 8));
        into->most_log2 = into->least_log2 + 1;
        break;
    default:
        break;
    }
    into->large = (unsigned)PICK(random, 0, 0, 4, 32, 256);
    into->aligned = pick_share(random, 8, 64);
}

static void draw_calls(style *into, const configuration *of, uint64_t *random)
{
    into->sync = pick_share(random, 4, 64);
    into->by_address = pick_share(random, 16, 256);
    into->latest = pick_share(random, 128, 512);
    into->stays = (unsigned)PICK(random, 0, 512, 1000);
    into->cross = (unsigned)PICK(random, 0, 4, 4, 64, 64, 512);
    into->exported = pick_share(random, 512, 1024);
    into->retires = (unsigned)PICK(random, 0, 512, 1024);
    into->orders = pick_share(random, 16, 1024);
    into->waits = pick_share(random, 16, 512);
    into->deaths = (unsigned)PICK(random, 0, 16, 128, 1024);
    into->captures = pick_share(random, 8, 64);
    into->trims = pick_share(random, 4, 64);
    into->tides = pick_share(random, 16, 128);
    into->empties = pick_share(random, 2, 16);
    into->elsewhere = (unsigned)PICK(random, 0, 0, 64, 2048);
    into->turn = 32;
    into->second_ends = 64;
    if (of->kind == PROGRAM_TURNS) {
        into->elsewhere = 16384;
        into->turn = 3;
    }
}

static void draw_memory(style *into, const configuration *of, uint64_t *random)
{
    subject_options *options = &into->options;
    size_t room = into->limit = pick_spread(random, 64 * MIB, 512 * MIB);

    if (random_below(random, 2) == 0) {
        options->maximum_pool_size = pick_spread(random, 16 * MIB, 128 * MIB);
        room = options->maximum_pool_size < room ? options->maximum_pool_size : room;
    }
    if (random_below(random, 4) == 0) {
        options->initial_pool_size = random_below(random, room / 2);
    }
    options->release_threshold = PICK(random, 0, 0, 0, 1, 8 * MIB, (size_t)CRMM_RELEASE_ALL);
    options->tight = random_below(random, 3) == 0;
    if (random_below(random, 4) == 0) {
        options->target_pool_size = random_below(random, room);
    }
    options->handle_size = PICK(random, 0, 0, 2 * MIB, 5 * MIB, 16 * MIB);
    options->stream_cache_size = of->stream_cache_size;
    options->heap_count = PICK(random, 0, 1, 4);
    into->most_live = (unsigned)pick_spread(random, 4, 1024);
    into->most_bytes = room / 16 * PICK(random, 2, 6, 10, 13, 18);
}

/* A pool that keeps things at hand, blocks of few sizes, and mostly one way for them. */
static void draw_passing(style *into, uint64_t *random)
{
    into->least_log2 = (unsigned)(8 + random_below(random, 12));
    into->most_log2 = into->least_log2 + 1;
    into->large = pick_share(random, 4, 32);
    into->cross = (unsigned)PICK(random, 512, 1024);
    into->is_one_way = random_below(random, 4) != 0;
    into->options.tight = false;
    into->options.release_threshold = 0;
}

/* Mostly one thread, which wants large blocks of the same sizes again. */
static void draw_large(style *into, uint64_t *random)
{
    into->elsewhere = (unsigned)PICK(random, 0, 0, 64);
    into->second_ends = 2; /* while it is there nothing more is parked */
    into->deaths = (unsigned)PICK(random, 0, 0, 1, 8); /* a stream that lives long keeps blocks */
    into->large = (unsigned)PICK(random, 64, 256, 1024);
    into->large_sizes = (unsigned)PICK(random, 1, 2, 3, 4);
    into->latest = (unsigned)PICK(random, 256, 512, 1024);
    into->options.tight = false;
    into->options.release_threshold = 0;
}

/* The same with one stream alone; the next one is not. */
static void draw_lone(style *into, uint64_t *random)
{
    draw_large(into, random);
    into->streams = 1;
    into->has_legacy = into->has_per_thread = false;
    into->sync = 0;
}

style style_draw(const configuration *of, uint64_t seed)
{
    uint64_t random = seed ^ UINT64_C(0x57111E);
    style drawn = {
        .streams = (unsigned)(2 + random_below(&random, 5)),
        .has_legacy = random_below(&random, 3) == 0,
        .has_per_thread = random_below(&random, 4) == 0,
        .waits_at_end = random_below(&random, 2) == 0,
    };

    draw_sizes(&drawn, &random);
    draw_calls(&drawn, of, &random);
    draw_memory(&drawn, of, &random);
    if (of->kind == PROGRAM_PASSING) {
        draw_passing(&drawn, &random);
    } else if (of->kind == PROGRAM_LARGE) {
        draw_large(&drawn, &random);
    } else if (of->kind == PROGRAM_LONE) {
        draw_lone(&drawn, &random);
    }
    drawn.manner = (sim_manner){
        .seed = seed,
        .progress = (unsigned)PICK(&random, 0, 8, 64, 512),
        .one_stalls = random_below(&random, 2) == 0,
        .captures_legacy = random_below(&random, 2) == 0,
        .faults = of->faults,
        /* Among the first calls too, which create the pool. */
        .fault_at = of->faults != 0 ? 1 + random_below(&random, 32) : 0,
    };
    return drawn;
}
