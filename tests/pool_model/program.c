/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <stdio.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>

#include "program_state.h"
#include "random_numbers.h"
#include "second_thread.h"
#include "shadow.h"

enum { GRANULARITY = 2 << 20, OF = 65536 };

crmm_resource *program_abandoned[PROGRAM_ABANDONED];

uint64_t program_below(program *own, uint64_t count)
{
    return count == 0 ? 0 : random_below(&own->randomness, count);
}

bool program_chance(program *own, unsigned share)
{
    return share != 0 && random_next(&own->randomness) % 1024 < share;
}

static void on_misuse(const crmm_misuse *misuse, void *user_data)
{
    program *own = user_data;

    own->misuses++;
    own->misuse = misuse->kind;
}

/* ---- operations ---- */

static void change_tide(program *own)
{
    own->shrinks = !own->shrinks;
}

/* Half of what there is can be had in one piece. */
static void allocate_half(program *own)
{
    size_t room = own->upstream->limit;
    size_t maximum = own->like.options.maximum_pool_size;
    uint64_t faults = sim_counted()->faults;

    room = maximum != 0 && maximum < room ? maximum : room;
    size_t bytes = room / 2 / GRANULARITY * GRANULARITY;
    if (!program_allocate_bytes(own, program_pick_stream(own), bytes, 1) &&
        sim_counted()->faults == faults) {
        sim_fail("%zu bytes cannot be had where nothing is live and there is room for %zu: %s",
                 bytes, room, crmm_last_error()->message);
    }
}

/* With every block given back, nothing is lost. */
static void empty(program *own)
{
    program_deallocate_all(own);
    if (own->block_count != 0 || !own->pool_class->joins_blocks) {
        return;
    }
    switch (program_below(own, 4)) {
    case 0:
        allocate_half(own);
        break;
    case 1:
        if (own->pool_class->trims_all) {
            program_trim_all(own);
        }
        break;
    default:
        break;
    }
}

static const struct {
    size_t share; /* offset in style */
    void (*run)(program *own);
} rare[] = {
    {offsetof(style, orders), program_order_streams},
    {offsetof(style, waits), program_wait_for_stream},
    {offsetof(style, deaths), program_replace_stream},
    {offsetof(style, captures), program_toggle_capture},
    {offsetof(style, trims), program_trim},
    {offsetof(style, tides), change_tide},
    {offsetof(style, empties), empty},
};

/* Whether one of the rare operations was run. */
static bool run_rare(program *own)
{
    uint64_t drawn = random_next(&own->randomness) % OF;

    for (size_t i = 0; i < sizeof(rare) / sizeof(rare[0]); i++) {
        unsigned share = *(const unsigned *)((const char *)&own->like + rare[i].share);
        if (drawn < share) {
            rare[i].run(own);
            return true;
        }
        drawn -= share;
    }
    return false;
}

/* Captures are short, or nothing could be done any more. */
static void end_some_captures(program *own)
{
    if (own->like.captures != 0 && program_below(own, 64) == 0) {
        program_end_captures(own);
    }
}

static void run_one(program *own)
{
    unsigned most = own->shrinks ? own->like.most_live / 16 : own->like.most_live;
    size_t most_bytes = own->shrinks ? own->like.most_bytes / 16 : own->like.most_bytes;

    end_some_captures(own);
    if (run_rare(own)) {
        return;
    }
    bool grows = program_below(own, 2) == 0;
    if (own->block_count > most || own->asked > most_bytes) {
        grows = program_below(own, 8) == 0;
    } else if (own->block_count < most / 2 && own->asked < most_bytes / 2) {
        grows = program_below(own, 8) != 0;
    }
    if (grows || own->block_count == 0) {
        program_allocate(own);
    } else {
        program_deallocate(own);
    }
}

typedef struct turn {
    program *own;
    uint64_t operations;
} turn;

static void run_turn(void *data)
{
    const turn *what = data;

    for (uint64_t i = 0; i < what->operations && !sim_has_failed(); i++) {
        run_one(what->own);
    }
}

/* Some operations, and how many. What a pool has of a thread is given up when the thread ends. */
static uint64_t run_some(program *own)
{
    uint64_t drawn = own->like.elsewhere != 0 ? random_next(&own->randomness) % OF : OF;
    turn what = {.own = own, .operations = 1};

    if (drawn >= own->like.elsewhere) {
        run_turn(&what);
        return what.operations;
    }
    what.operations += program_below(own, own->like.turn);
    second_thread_run(run_turn, &what);
    if (drawn % own->like.second_ends == 0) {
        second_thread_end();
    }
    return what.operations;
}

/* ---- the whole ---- */

static void run_operations(program *own, program_run *run)
{
    uint64_t next_check = run->check_every;

    for (run->done = 0; run->done < run->operations;) {
        run->done += run_some(own);
        if (run->done >= next_check) {
            program_check(own);
            next_check = run->done + run->check_every;
        }
        if (sim_has_failed()) {
            return;
        }
    }
}

static void finish(program *own)
{
    sim_set_faults(0);
    own->like.manner.faults = 0;
    if (own->like.waits_at_end) {
        second_thread_end();
    }
    program_deallocate_all(own);
    program_check(own);
    program_check_views(own);
    program_end_captures(own);
    if (own->like.waits_at_end) {
        sim_observe_all();
    }
    sim_watch_locks(NULL, NULL);
    sim_call_begin_sync();
    crmm_resource_release(&own->pool);
    sim_call_end();
}

/* A failed creation must have left nothing behind. */
static bool create(program *own)
{
    uint64_t faults = sim_counted()->faults;
    crmm_status status =
        own->pool_class->create(&own->upstream->base, &own->like.options, &own->pool);

    if (status != CRMM_SUCCESS && sim_counted()->faults == faults) {
        sim_fail("create: %s: %s", crmm_status_name(status), crmm_last_error()->message);
    }
    return status == CRMM_SUCCESS;
}

static const char *held_lock(void *user_data)
{
    const program *own = user_data;
    return own->pool_class->held_lock(own->pool);
}

static void abandon(crmm_resource *pool)
{
    static size_t count;

    sim_watch_locks(NULL, NULL);
    if (count < PROGRAM_ABANDONED) {
        program_abandoned[count++] = pool;
    }
}

static void run_pool(program *own, program_run *run)
{
    if (!create(own)) {
        return;
    }
    sim_watch_locks(held_lock, own);
    program_begin_streams(own);
    run_operations(own, run);
    if (sim_has_failed()) {
        abandon(own->pool);
        return;
    }
    uint64_t misuses = own->misuses;
    finish(own);
    if (own->misuses != misuses) {
        sim_fail("end: misuse of kind %d was reported", (int)own->misuse);
    }
}

/* A seed means another program in each configuration. */
static uint64_t mix(const program_run *run)
{
    uint64_t mixed = run->seed;

    for (const char *name = run->of->name; *name != '\0'; name++) {
        mixed = mixed * 1000003 + (unsigned char)*name;
    }
    return mixed;
}

bool program_run_all(program_run *run)
{
    static simulated_upstream upstream;
    static program own;
    uint64_t seed = mix(run);

    own = (program){
        .run = run,
        .pool_class = run->pool,
        .upstream = &upstream,
        .like = style_draw(run->of, seed),
        .randomness = seed,
    };
    own.like.options.on_chunk = program_on_chunk;
    own.like.options.on_chunk_user_data = &own;
    sim_start(&own.like.manner);
    shadow_start();
    simulated_upstream_init(&upstream, run->of->upstream, seed, own.like.limit);
    crmm_set_misuse_handler(on_misuse, &own);
    run_pool(&own, run);
    if (!sim_has_failed()) {
        second_thread_end(); /* else it would look after a pool that is not to be trusted */
    }
    program_check_chunks_gone(&own);
    simulated_upstream_finish(&upstream);
    sim_finish();
    crmm_set_misuse_handler(NULL, NULL);
    run->allocations = own.allocations;
    run->refusals = own.refusals;
    run->like = own.like;
    run->counts = *sim_counted();
    (void)snprintf(run->why, sizeof(run->why), "%s", sim_failure());
    return !sim_has_failed();
}
