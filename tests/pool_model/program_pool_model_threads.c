/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that come and go on one pool over a simulated device: streams of their own, streams they
 * share, and blocks that they hand to one another. No two blocks overlap, and no memory is handed
 * out before the work on it. Every second seed does without the shadow: its lock around every call
 * orders the threads, and so hides their races from ThreadSanitizer.
 *
 * usage: program-pool-model-threads [POOL [SEED [SEEDS]]]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/error.h>
#include <crmm/core/misuse.h>

#include "random_numbers.h"
#include "shadow.h"
#include "simulated_upstream.h"
#include "simulation.h"
#include "subject.h"

#define MIB ((size_t)1 << 20)

enum {
    WORKERS = 4,
    SHARED = 2,
    SEEDS = 24,
    ROUNDS = 4,       /* each has new threads */
    OPERATIONS = 600, /* of a thread in a round */
    BLOCKS = 64,      /* of a thread */
    MAILBOX = 16
};

typedef struct block {
    void *ptr;
    size_t bytes;
    crmm_stream stream; /* that it is used on */
    bool is_handed;     /* its stream is another thread's, or gone; its use comes before `order` */
    sim_clock order;
} block;

typedef struct worker {
    unsigned number;
    uint64_t random;
    crmm_stream own;
    block *blocks[BLOCKS];
    unsigned count;
    uint64_t allocations;
    pthread_t thread;
} worker;

/* What all threads of a seed use. */
static struct {
    const subject *pool_class;
    crmm_resource *pool;
    simulated_upstream upstream;
    bool has_shadow;
    crmm_stream streams[SHARED];
    block *mailbox[MAILBOX];
    worker workers[WORKERS];
    worker rest; /* the main thread's */
} now;

static void fail(const char *what)
{
    sim_lock();
    sim_fail("%s", what);
    sim_unlock();
}

static void on_misuse(const crmm_misuse *misuse, void *user_data)
{
    (void)user_data;
    fail(misuse->message);
}

static bool one_in(worker *self, uint64_t count)
{
    return random_below(&self->random, count) == 0;
}

static crmm_stream pick_stream(worker *self)
{
    switch (random_below(&self->random, 8)) {
    case 0:
        return CRMM_STREAM_PER_THREAD;
    case 1:
        return CRMM_STREAM_LEGACY;
    case 2:
    case 3:
        return now.streams[random_below(&self->random, SHARED)];
    default:
        return self->own;
    }
}

/* ---- allocation ---- */

static void begin_use(worker *self, const block *made, bool is_sync)
{
    if (!now.has_shadow && !one_in(self, 16)) {
        return;
    }
    sim_lock();
    if (now.has_shadow) {
        shadow_take(made->ptr, made->bytes, is_sync ? NULL : sim_stream_order(made->stream));
    }
    (void)sim_stream_work(made->stream);
    sim_progress();
    sim_unlock();
}

static crmm_status call_allocate(block *made, bool is_sync)
{
    crmm_status status;

    if (is_sync) {
        sim_call_begin_sync();
        status = crmm_allocate_sync(now.pool, made->bytes, 256, &made->ptr);
    } else {
        sim_call_begin(made->stream);
        status = crmm_allocate(now.pool, made->stream, made->bytes, 256, &made->ptr);
    }
    sim_call_end();
    return status;
}

static void allocate(worker *self)
{
    block *made = calloc(1, sizeof(*made));
    bool is_sync = one_in(self, 64);
    size_t least = (size_t)256 << random_below(&self->random, 12);

    if (made == NULL) {
        abort();
    }
    made->bytes = least + random_below(&self->random, least);
    made->stream = pick_stream(self);
    crmm_status status = call_allocate(made, is_sync);
    if (status != CRMM_SUCCESS) {
        if (status != CRMM_ERROR_OUT_OF_MEMORY) {
            fail(crmm_last_error()->message);
        }
        free(made);
        return;
    }
    begin_use(self, made, is_sync);
    self->blocks[self->count++] = made;
    self->allocations++;
}

/* ---- deallocation ---- */

/* As a program does it: an event after the last use, which the target waits for. */
static sim_point end_use(const block *given, crmm_stream target, bool is_sync)
{
    const sim_clock *order = given->is_handed ? &given->order : sim_stream_order(given->stream);

    if (is_sync) {
        sim_observe(order);
        return (sim_point){0};
    }
    if (given->is_handed || target != given->stream) {
        sim_stream_follow(target, order);
    }
    return sim_stream_work(target);
}

static void call_deallocate(const block *given, crmm_stream target, bool is_sync)
{
    if (is_sync) {
        sim_call_begin_sync();
        crmm_deallocate_sync(now.pool, given->ptr, given->bytes, 256);
    } else {
        sim_call_begin(target);
        crmm_deallocate(now.pool, target, given->ptr, given->bytes, 256);
    }
    sim_call_end();
}

static void deallocate(worker *self, block *given)
{
    crmm_stream target = given->is_handed || one_in(self, 64) ? pick_stream(self) : given->stream;
    bool is_sync = one_in(self, 64);

    if (now.has_shadow || one_in(self, 16)) {
        sim_lock();
        sim_point pending = end_use(given, target, is_sync);
        if (now.has_shadow) {
            shadow_give(given->ptr, given->bytes, pending);
        }
        sim_progress();
        sim_unlock();
    }
    call_deallocate(given, target, is_sync);
    free(given);
}

static block *take_out(worker *self, unsigned index)
{
    block *taken = self->blocks[index];

    self->blocks[index] = self->blocks[--self->count];
    return taken;
}

static void deallocate_one(worker *self)
{
    if (self->count != 0) {
        deallocate(self, take_out(self, (unsigned)random_below(&self->random, self->count)));
    }
}

/* ---- handing over ---- */

static void end_on_stream(block *handed)
{
    if (!handed->is_handed) {
        sim_lock();
        handed->order = *sim_stream_order(handed->stream);
        sim_unlock();
        handed->is_handed = true;
    }
}

/* Put a block where any thread may find it, and give back what was there. */
static void hand_over(worker *self)
{
    if (self->count == 0) {
        return;
    }
    block *handed = take_out(self, (unsigned)random_below(&self->random, self->count));
    end_on_stream(handed);
    handed = __atomic_exchange_n(&now.mailbox[random_below(&self->random, MAILBOX)], handed,
                                 __ATOMIC_ACQ_REL);
    if (handed != NULL) {
        deallocate(self, handed);
    }
}

static void retire(crmm_stream stream)
{
    sim_call_begin(stream);
    if (now.pool_class->retire_stream(now.pool, stream) != CRMM_SUCCESS) {
        fail("a stream cannot be retired");
    }
    sim_call_end();
}

static void replace_stream(worker *self)
{
    for (unsigned i = 0; i < self->count; i++) {
        if (self->blocks[i]->stream == self->own) {
            end_on_stream(self->blocks[i]);
        }
    }
    if (one_in(self, 2)) {
        retire(self->own);
    }
    sim_lock();
    sim_stream_destroy(self->own);
    self->own = sim_stream_create();
    sim_unlock();
}

/* ---- threads ---- */

static void run_operation(worker *self)
{
    uint64_t drawn = random_below(&self->random, 512);

    if (drawn == 0) {
        replace_stream(self);
    } else if (drawn < 8) {
        hand_over(self);
    } else if (self->count < BLOCKS && drawn % 2 == 0) {
        allocate(self);
    } else {
        deallocate_one(self);
    }
}

static void *run_worker(void *argument)
{
    worker *self = argument;

    sim_thread_begin(self->number);
    for (int i = 0; i < OPERATIONS && !sim_has_failed(); i++) {
        run_operation(self);
    }
    /* Its per-thread stream ends with it. */
    for (unsigned i = 0; i < self->count; i++) {
        end_on_stream(self->blocks[i]);
    }
    sim_thread_end();
    return NULL;
}

static void check(void)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    char why[256] = "";
    size_t count = now.rest.count;

    for (int i = 0; i < WORKERS; i++) {
        count += now.workers[i].count;
    }
    for (int i = 0; i < MAILBOX; i++) {
        count += now.mailbox[i] != NULL;
    }
    if (!now.pool_class->check(now.pool, why, sizeof(why))) {
        fail(why);
    }
    if (crmm_resource_info(now.pool, &info) != CRMM_SUCCESS || info.allocations != count ||
        info.held != now.upstream.held || info.live + info.cached != info.held) {
        fail("the pool's figures are wrong");
    }
}

static void run_round(void)
{
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&now.workers[i].thread, NULL, run_worker, &now.workers[i]) != 0) {
            abort();
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        (void)pthread_join(now.workers[i].thread, NULL);
    }
    check();
}

static void deallocate_all(void)
{
    for (int i = 0; i < MAILBOX; i++) {
        if (now.mailbox[i] != NULL) {
            deallocate(&now.rest, now.mailbox[i]);
            now.mailbox[i] = NULL;
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        while (now.workers[i].count != 0) {
            deallocate(&now.rest, take_out(&now.workers[i], 0));
        }
    }
    check();
}

/* ---- the whole ---- */

static void on_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    (void)base;
    (void)bytes;
    (void)added;
    (void)user_data;
    sim_end_of_call();
}

static void begin(const subject *pool_class, uint64_t seed)
{
    subject_options options = {
        .maximum_pool_size = seed % 3 == 0 ? 48 * MIB : 0,
        .release_threshold = seed % 5 == 0 ? 16 * MIB : 0,
        .tight = seed % 7 == 0,
        .stream_cache_size = seed % 4 < 2 ? 2 * MIB : 0,
        .heap_count = seed % 3,
        .on_chunk = on_chunk,
    };

    now.pool_class = pool_class;
    now.has_shadow = seed % 2 == 1;
    sim_start(&(sim_manner){.seed = seed, .progress = 64, .one_stalls = true, .threads = true});
    shadow_start();
    simulated_upstream_init(&now.upstream, (upstream_kind)(seed / 2 % 3), seed, 512 * MIB);
    for (int i = 0; i < SHARED; i++) {
        now.streams[i] = sim_stream_create();
    }
    now.rest = (worker){.random = seed, .own = now.streams[0]};
    for (unsigned i = 0; i < WORKERS; i++) {
        now.workers[i] =
            (worker){.number = i + 1, .random = seed * WORKERS + i, .own = sim_stream_create()};
    }
    if (pool_class->create(&now.upstream.base, &options, &now.pool) != CRMM_SUCCESS) {
        fail(crmm_last_error()->message);
    }
}

static uint64_t run(const subject *pool_class, uint64_t seed)
{
    uint64_t allocations = 0;

    begin(pool_class, seed);
    for (int i = 0; i < ROUNDS && !sim_has_failed(); i++) {
        run_round();
    }
    if (!sim_has_failed()) {
        deallocate_all();
        sim_call_begin_sync();
        crmm_resource_release(&now.pool);
        sim_call_end();
        simulated_upstream_finish(&now.upstream);
        sim_finish();
    }
    for (int i = 0; i < WORKERS; i++) {
        allocations += now.workers[i].allocations;
    }
    return allocations;
}

int main(int argc, char **argv)
{
    const subject *pool_class = argc > 1 ? subject_find(argv[1]) : subjects;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t last = first + (argc > 3 ? strtoull(argv[3], NULL, 10) : argc > 2 ? 1 : SEEDS) - 1;
    uint64_t allocations = 0;

    if (pool_class == NULL) {
        (void)fprintf(stderr, "no pool of this name\n");
        return 2;
    }
    crmm_set_misuse_handler(on_misuse, NULL);
    for (uint64_t seed = first; seed <= last; seed++) {
        allocations += run(pool_class, seed);
        if (sim_has_failed()) {
            (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, sim_failure());
            return 1;
        }
    }
    shadow_finish();
    (void)printf("%llu allocations\n", (unsigned long long)allocations);
    return allocations < (last - first + 1) * WORKERS * ROUNDS * OPERATIONS / 8 ? 1 : 0;
}
