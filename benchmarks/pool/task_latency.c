/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "churn.h"
#include "tasks.h"

enum { ALLOCATE, FREE, KINDS };

typedef struct latency {
    churn blocks;
    float *ticks[KINDS]; /* of each call of the last round */
    uint64_t room, count;
} latency;

/* ---- the clock ----
 * The processor's counter where there is one that can be read, since the system's clock takes
 * longer than the calls. Waits for what came before. */

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    unsigned unused;
    return __builtin_ia32_rdtscp(&unused);
#else
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
#endif
}

static void begin(worker *self)
{
    latency *own = worker_zeroed(1, sizeof(*own));

    self->state = own;
    own->room = self->of->steps;
    for (int kind = 0; kind < KINDS; kind++) {
        own->ticks[kind] = worker_zeroed(own->room, sizeof(float));
    }
    churn_begin(self, &own->blocks);
}

static bool timed_step(worker *self, latency *own)
{
    uint64_t drawn = draw(&self->random);
    live_block *block = &own->blocks.blocks[draw_index(drawn, own->blocks.count)];

    uint64_t first = ticks();
    worker_free(self, self->streams[0], block->ptr, block->bytes);
    uint64_t second = ticks();
    block->bytes = draw_size(drawn);
    uint64_t third = ticks();
    if (!worker_allocate(self, self->streams[0], block->bytes, &block->ptr)) {
        block->ptr = NULL;
        return false;
    }
    own->ticks[ALLOCATE][own->count] = (float)(ticks() - third);
    own->ticks[FREE][own->count] = (float)(second - first);
    own->count++;
    return true;
}

static void run(worker *self, uint64_t most)
{
    latency *own = self->state;
    struct timespec times[2];

    (void)most;
    own->count = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &times[0]);
    uint64_t begin_ = ticks();
    while (own->count < own->room && !worker_should_stop(self) && timed_step(self, own)) {
    }
    uint64_t took = ticks() - begin_;
    (void)clock_gettime(CLOCK_MONOTONIC, &times[1]);
    self->spent = (double)(times[1].tv_sec - times[0].tv_sec) * 1e9 +
                  (double)(times[1].tv_nsec - times[0].tv_nsec);
    self->steps = own->count;
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t i = 0; i < own->count; i++) {
            own->ticks[kind][i] *= (float)(self->spent / (double)took);
        }
    }
}

static void end(worker *self)
{
    latency *own = self->state;

    churn_end(self, &own->blocks);
    for (int kind = 0; kind < KINDS; kind++) {
        free(own->ticks[kind]);
    }
    free(own);
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
    float first = *(const float *)a;
    float second = *(const float *)b;
    return (first > second) - (first < second);
}

static void tell_kind(worker *const *workers, size_t count, int kind, const char *const names[4],
                      result *to)
{
    static const double shares[4] = {0.5, 0.99, 0.999, 1};
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        total += ((const latency *)workers[i]->state)->count;
    }
    float *all = worker_zeroed(total, sizeof(*all));
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const latency *each = workers[i]->state;
        for (uint64_t j = 0; j < each->count; j++) {
            all[at++] = each->ticks[kind][j];
        }
    }
    qsort(all, total, sizeof(*all), compare);
    for (int i = 0; i < 4 && total > 0; i++) {
        uint64_t index = (uint64_t)((double)(total - 1) * shares[i]);
        to->figures[to->figure_count++] = (figure){names[i], (double)all[index]};
    }
    free(all);
}

static void tell(worker *const *workers, size_t count, result *to)
{
    static const char *const names[KINDS][4] = {
        {"alloc_p50_ns", "alloc_p99_ns", "alloc_p999_ns", "alloc_max_ns"},
        {"free_p50_ns", "free_p99_ns", "free_p999_ns", "free_max_ns"},
    };

    to->figure_count = 0;
    tell_kind(workers, count, ALLOCATE, names[ALLOCATE], to);
    tell_kind(workers, count, FREE, names[FREE], to);
}

const task_class latency_task = {.begin = begin, .run = run, .end = end, .tell = tell};
