/* SPDX-License-Identifier: Apache-2.0 */
#include "team.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <crmm/core/error.h>

#include "random.h"
#include "streams.h"

/* How often the main thread adds up what is live. */
#define SAMPLE_SECONDS 0.005

/* How much of a round all workers must have run at the same time, and how often it is tried. */
#define LEAST_OVERLAP 0.8
enum { MOST_ATTEMPTS = 10 };

void *worker_zeroed(size_t count, size_t size)
{
    void *memory = calloc(count + (count == 0), size);

    if (memory == NULL) {
        bench_fail("no host memory");
    }
    return memory;
}

void worker_failed(worker *self, const char *what)
{
    const crmm_error *error = crmm_last_error();

    self->has_failed = true;
    (void)snprintf(self->why, sizeof(self->why), "%s: %.200s", what,
                   error != NULL ? error->message : "");
}

static double read_clock(clockid_t id)
{
    struct timespec time;

    (void)clock_gettime(id, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Where no call can block and nobody contends. */
static bool uses_processor_time(const worker *self)
{
    return self->of->threads == 1 && !streams_are_real();
}

/*
 * Nanoseconds that the calling thread has been ready to run and had no processor, since others used
 * them: not the allocator's doing, unlike time that it spends waiting for a lock. 0 where the
 * kernel does not tell.
 */
static double read_delay(void)
{
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    unsigned long long ran = 0;
    unsigned long long delayed = 0;

    if (file != NULL) {
        if (fscanf(file, "%llu %llu", &ran, &delayed) != 2) {
            delayed = 0;
        }
        (void)fclose(file);
    }
    return (double)delayed;
}

void worker_begin(worker *self)
{
    bool by_processor = uses_processor_time(self);

    self->part_delay = by_processor ? 0 : read_delay();
    self->part_began = read_clock(by_processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
}

void worker_end(worker *self)
{
    bool by_processor = uses_processor_time(self);
    double spent =
        read_clock(by_processor ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) - self->part_began;
    double delay = by_processor ? 0 : read_delay() - self->part_delay;

    self->delay += delay;
    self->spent += self->has_processor && spent > delay ? spent - delay : spent;
}

/* ---- threads ---- */

/*
 * Give each thread a processor of its own, if there are as many: two that share one take turns, and
 * then nobody is in anybody's way.
 */
static void pin(worker *self)
{
    cpu_set_t all;
    cpu_set_t one;
    size_t left = self->number;

    self->has_processor = self->of->threads == 1;
    if (self->has_processor || sched_getaffinity(0, sizeof(all), &all) != 0 ||
        (size_t)CPU_COUNT(&all) < self->of->threads) {
        return;
    }
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            self->has_processor = pthread_setaffinity_np(pthread_self(), sizeof(one), &one) == 0;
            return;
        }
    }
}

static void *work(void *user_data)
{
    worker *self = user_data;
    team *all = self->team;

    pin(self);
    self->of->task->begin(self);
    (void)sem_post(&all->done);
    for (;;) {
        (void)pthread_barrier_wait(&all->start);
        if (all->ends) {
            break;
        }
        self->spent = 0;
        self->delay = 0;
        self->entered = read_clock(CLOCK_MONOTONIC);
        self->of->task->run(self, self->of->threads == 1 ? self->of->steps : UINT64_MAX);
        self->left = read_clock(CLOCK_MONOTONIC);
        (void)sem_post(&all->done);
    }
    self->of->task->end(self);
    return NULL;
}

static void note_live(team *self)
{
    size_t live = 0;

    for (size_t i = 0; i < self->count; i++) {
        live += __atomic_load_n(&self->workers[i]->live, __ATOMIC_RELAXED);
    }
    self->peak_live = live > self->peak_live ? live : self->peak_live;
}

/* Whether a worker is done within some time. */
static bool wait_one(team *self, double seconds)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    double nanoseconds = (double)until.tv_nsec + seconds * 1e9;
    until.tv_sec += (time_t)(nanoseconds / 1e9);
    until.tv_nsec = (long)(nanoseconds - (double)(time_t)(nanoseconds / 1e9) * 1e9);
    while (sem_timedwait(&self->done, &until) != 0) {
        if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

/*
 * Wait until all workers are done, and tell them to stop when the time is over; 0: never. A thread
 * that is alone knows its own peak, and is left alone: waking up here would cost it time, and
 * instructions where they are counted. Gives whether the workers had to be told.
 */
static bool wait_all(team *self, double seconds)
{
    double end = read_clock(CLOCK_MONOTONIC) + seconds * 1e9;
    size_t waiting = self->count;
    bool told = false;

    while (waiting > 0) {
        double left = (end - read_clock(CLOCK_MONOTONIC)) / 1e9;
        if (seconds > 0 && left <= 0) {
            told = true;
            __atomic_store_n(&self->stop, true, __ATOMIC_RELAXED);
        }
        if (told || (seconds <= 0 && self->count == 1)) {
            while (sem_wait(&self->done) != 0) {
            }
            waiting--;
        } else if (self->count == 1) {
            waiting -= wait_one(self, left) ? 1 : 0;
        } else {
            double pause = seconds > 0 && left < SAMPLE_SECONDS ? left : SAMPLE_SECONDS;
            waiting -= wait_one(self, pause) ? 1 : 0;
            note_live(self);
        }
    }
    note_live(self);
    __atomic_store_n(&self->stop, false, __ATOMIC_RELAXED);
    return told;
}

/* ---- set-up ---- */

static void make_streams(team *self)
{
    bool is_own = self->of->sharing == STREAMS_OWN;

    self->stream_count = is_own ? self->of->streams * self->count : self->of->streams;
    self->streams = worker_zeroed(self->stream_count, sizeof(crmm_stream));
    for (size_t i = 0; i < self->stream_count && self->of->sharing != STREAMS_LEGACY; i++) {
        self->streams[i] = streams_create();
    }
}

static worker *make_worker(team *all, size_t number, crmm_resource *resource)
{
    worker *made = aligned_alloc(128, sizeof(*made));
    size_t first = all->of->sharing == STREAMS_OWN ? number * all->of->streams : 0;

    if (made == NULL) {
        bench_fail("no host memory");
    }
    memset(made, 0, sizeof(*made));
    made->of = all->of;
    made->resource = resource;
    made->streams = all->streams + first;
    made->number = number;
    made->random = draw_seed(number);
    made->stop = &all->stop;
    made->team = all;
    return made;
}

static bool has_failed(const team *self, char *why)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->workers[i]->has_failed) {
            (void)snprintf(why, WHY_SIZE, "%s", self->workers[i]->why);
            return true;
        }
    }
    return false;
}

bool team_start(team *self, const bench_case *of, crmm_resource *resource, char *why)
{
    memset(self, 0, sizeof(*self));
    self->of = of;
    self->count = of->threads;
    self->workers = worker_zeroed(self->count, sizeof(worker *));
    self->threads = worker_zeroed(self->count, sizeof(pthread_t));
    make_streams(self);
    (void)pthread_barrier_init(&self->start, NULL, (unsigned)self->count + 1);
    (void)sem_init(&self->done, 0, 0);
    for (size_t i = 0; i < self->count; i++) {
        self->workers[i] = make_worker(self, i, resource);
    }
    for (size_t i = 0; i < self->count; i++) {
        if (pthread_create(&self->threads[i], NULL, work, self->workers[i]) != 0) {
            bench_fail("no more threads");
        }
    }
    self->is_cut = wait_all(self, of->warm_up_seconds);
    return !has_failed(self, why);
}

/*
 * Whether the workers ran at the same time. Where others use the processors as well, one may begin
 * when another is already done, and then they would not have been in each other's way.
 */
static bool ran_together(const team *self)
{
    double first = INFINITY;
    double last_begin = 0;
    double first_end = INFINITY;
    double last = 0;

    for (size_t i = 0; i < self->count; i++) {
        const worker *each = self->workers[i];
        first = each->entered < first ? each->entered : first;
        last_begin = each->entered > last_begin ? each->entered : last_begin;
        first_end = each->left < first_end ? each->left : first_end;
        last = each->left > last ? each->left : last;
    }
    return first_end - last_begin >= LEAST_OVERLAP * (last - first);
}

static void add_up(team *self, round_figures *out)
{
    for (size_t i = 0; i < self->count; i++) {
        const worker *each = self->workers[i];
        double steps = each->steps > 0 ? (double)each->steps : 1;

        if (self->count == 1 && each->peak > self->peak_live) {
            self->peak_live = each->peak;
        }
        out->ns += each->spent / steps / (double)self->count;
        out->delayed += each->delay / (each->left - each->entered) / (double)self->count;
        out->per_second += each->spent > 0 ? steps / each->spent * 1e9 : 0;
    }
}

bool team_round(team *self, round_figures *out, char *why)
{
    int attempts = 0;

    *out = (round_figures){0};
    do {
        (void)pthread_barrier_wait(&self->start);
        (void)wait_all(self, self->of->seconds);
        for (size_t i = 0; i < self->count; i++) {
            out->steps += self->workers[i]->steps;
        }
        attempts++;
    } while (self->count > 1 && attempts < MOST_ATTEMPTS && !ran_together(self));
    add_up(self, out);
    return !has_failed(self, why);
}

void team_tell(const team *self, result *to)
{
    if (self->of->task->tell != NULL) {
        self->of->task->tell(self->workers, self->count, to);
    }
}

void team_end(team *self)
{
    self->ends = true;
    (void)pthread_barrier_wait(&self->start);
    for (size_t i = 0; i < self->count; i++) {
        (void)pthread_join(self->threads[i], NULL);
        free(self->workers[i]);
    }
    for (size_t i = 0; i < self->stream_count; i++) {
        if (self->streams[i] != NULL) { /* the legacy stream */
            streams_destroy(self->streams[i]);
        }
    }
    (void)sem_destroy(&self->done);
    (void)pthread_barrier_destroy(&self->start);
    free(self->streams);
    free(self->threads);
    free(self->workers);
}
