/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "random_numbers.h"
#include "simulation_state.h"

enum { LEGACY, PER_THREAD, CREATED = PER_THREAD + SIM_THREADS, STREAMS = CREATED + SIM_HANDLES };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

sim_manner sim_now;
sim_counts sim_counts_now;
static uint64_t randomness;
static char failure[512];
static bool has_failed;

static struct CUstream_st *streams; /* STREAMS of them */
static uint64_t last_id;
static size_t last_destroyed; /* its handle */

static uint32_t clocks;              /* that were ever given out */
static uint64_t died[SIM_CLOCKS];    /* when its stream was destroyed, by last_id; 0: in use */
static sim_clock queued;             /* the work there is */
static sim_clock completed;          /* how far the device got */
static sim_clock observed;           /* what the host knows of it */
static struct CUevent_st *destroyed; /* events that can be given out again */
static size_t events;                /* alive */

static struct {
    const char *(*held_lock)(void *user_data);
    void *user_data;
} watch;

static _Thread_local unsigned own_thread;
static _Thread_local const struct CUstream_st *call_stream;

void sim_lock(void)
{
    if (sim_now.threads) {
        (void)pthread_mutex_lock(&mutex);
    }
}

void sim_unlock(void)
{
    if (sim_now.threads) {
        (void)pthread_mutex_unlock(&mutex);
    }
}

void sim_end_of_call(void)
{
    static _Thread_local unsigned count;
    const struct timespec moment = {.tv_nsec = 50000};

    if (sim_now.threads && ++count % 4 == own_thread % 4) {
        (void)nanosleep(&moment, NULL);
    }
    const char *held =
        sim_now.threads || watch.held_lock == NULL ? NULL : watch.held_lock(watch.user_data);
    if (held != NULL) {
        sim_fail("a call while a lock %s is held", held);
    }
}

void sim_watch_locks(const char *(*held_lock)(void *user_data), void *user_data)
{
    watch.held_lock = held_lock;
    watch.user_data = user_data;
}

void sim_fail(const char *format, ...)
{
    va_list arguments;

    if (has_failed) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(failure, sizeof(failure), format, arguments);
    va_end(arguments);
    __atomic_store_n(&has_failed, true, __ATOMIC_RELAXED);
}

bool sim_has_failed(void)
{
    return __atomic_load_n(&has_failed, __ATOMIC_RELAXED);
}

const char *sim_failure(void)
{
    return failure;
}

const sim_counts *sim_counted(void)
{
    return &sim_counts_now;
}

bool sim_call_fails(void)
{
    sim_counts_now.calls++;
    bool fails = sim_counts_now.calls == sim_now.fault_at ||
                 (sim_now.faults != 0 && random_below(&randomness, 1024) < sim_now.faults);
    sim_counts_now.faults += fails;
    return fails;
}

void sim_set_faults(unsigned faults)
{
    sim_now.faults = faults;
}

/* ---- clocks ---- */

static void raise(sim_clock *clock, const sim_clock *to)
{
    for (uint32_t i = 0; i < clocks; i++) {
        clock->at[i] = clock->at[i] > to->at[i] ? clock->at[i] : to->at[i];
    }
}

/*
 * When all were given out the one whose stream died first is taken again. Its work is complete by
 * then, for everybody to know; what is lost is only a chance to find a pool that believes it early.
 */
static uint32_t take_again(void)
{
    uint32_t oldest = 0;

    for (uint32_t i = 1; i < SIM_CLOCKS; i++) {
        if (died[i] != 0 && (died[oldest] == 0 || died[i] < died[oldest])) {
            oldest = i;
        }
    }
    if (died[oldest] == 0) {
        (void)fprintf(stderr, "pool model: more streams than clocks\n");
        abort();
    }
    completed.at[oldest] = queued.at[oldest];
    observed.at[oldest] = queued.at[oldest];
    died[oldest] = 0;
    return oldest;
}

uint32_t sim_clock_create(void)
{
    return clocks < SIM_CLOCKS ? clocks++ : take_again();
}

sim_point sim_clock_work(uint32_t clock, crmm_stream stream)
{
    struct CUstream_st *on = sim_resolve(stream);

    queued.at[clock]++;
    on->order.at[clock] = queued.at[clock];
    return (sim_point){clock, queued.at[clock]};
}

bool sim_is_complete(const sim_clock *order)
{
    int late = 0;

    for (uint32_t i = 0; i < clocks; i++) {
        late |= completed.at[i] < order->at[i];
    }
    return late == 0;
}

void sim_observe(const sim_clock *order)
{
    raise(&completed, order);
    raise(&observed, order);
}

void sim_observe_all(void)
{
    sim_observe(&queued);
}

bool sim_is_observed(sim_point point)
{
    return observed.at[point.clock] >= point.tick;
}

bool sim_is_before(sim_point point, const sim_clock *order)
{
    return order->at[point.clock] >= point.tick || sim_is_observed(point);
}

void sim_progress(void)
{
    uint64_t drawn = random_next(&randomness);
    uint32_t clock = (uint32_t)(drawn >> 10) % (clocks != 0 ? clocks : 1);

    if (drawn % 1024 >= sim_now.progress || (sim_now.one_stalls && clock % 4 == 1)) {
        return;
    }
    uint32_t pending = queued.at[clock] - completed.at[clock];
    if (pending != 0) {
        completed.at[clock] += 1 + (uint32_t)(drawn >> 40) % pending;
    }
}

/* ---- streams ---- */

static void begin_stream(struct CUstream_st *stream)
{
    uint32_t clock = sim_clock_create();

    stream->id = ++last_id;
    stream->clock = clock;
    stream->order = (sim_clock){0};
    stream->order.at[clock] = queued.at[clock];
    __atomic_store_n(&stream->capturing, false, __ATOMIC_RELAXED);
    __atomic_store_n(&stream->alive, true, __ATOMIC_RELAXED);
}

crmm_stream sim_stream_create(void)
{
    /* Handles come back at once as often as not. */
    uint64_t drawn = random_next(&randomness);
    uint64_t first = drawn % 2 == 0 ? last_destroyed : (drawn >> 1) % SIM_HANDLES;

    for (uint64_t i = 0; i < SIM_HANDLES; i++) {
        struct CUstream_st *stream = &streams[CREATED + (first + i) % SIM_HANDLES];
        if (!stream->alive) {
            begin_stream(stream);
            return stream;
        }
    }
    return NULL;
}

static void end_stream(struct CUstream_st *stream)
{
    died[stream->clock] = ++last_id;
    __atomic_store_n(&stream->alive, false, __ATOMIC_RELAXED);
}

void sim_stream_destroy(crmm_stream stream)
{
    last_destroyed = (size_t)(stream - &streams[CREATED]);
    end_stream(stream);
}

void sim_stream_set_capturing(crmm_stream stream, bool capturing)
{
    bool any = false;

    sim_resolve(stream)->capturing = capturing;
    for (int i = CREATED; i < STREAMS; i++) {
        any = any || streams[i].capturing;
    }
    streams[LEGACY].capturing = any && sim_now.captures_legacy;
}

struct CUstream_st *sim_resolve(crmm_stream stream)
{
    if (stream == NULL || stream == CRMM_STREAM_LEGACY) {
        return &streams[LEGACY];
    }
    if (stream == CRMM_STREAM_PER_THREAD) {
        return &streams[PER_THREAD + own_thread];
    }
    return stream >= &streams[CREATED] && stream < &streams[STREAMS] ? stream : NULL;
}

void sim_thread_begin(unsigned thread)
{
    sim_lock();
    own_thread = thread;
    begin_stream(&streams[PER_THREAD + thread]);
    sim_unlock();
}

void sim_thread_end(void)
{
    sim_lock();
    end_stream(&streams[PER_THREAD + own_thread]);
    own_thread = 0;
    sim_unlock();
}

void sim_call_begin(crmm_stream stream)
{
    call_stream = sim_resolve(stream);
}

void sim_call_begin_sync(void)
{
    call_stream = NULL;
}

void sim_call_end(void)
{
    call_stream = NULL;
}

struct CUstream_st *sim_usable(const char *call, crmm_stream stream)
{
    struct CUstream_st *found = sim_resolve(stream);

    if (found == NULL || !__atomic_load_n(&found->alive, __ATOMIC_RELAXED)) {
        sim_fail("%s of a stream that was destroyed", call);
        return NULL;
    }
    if (found != &streams[LEGACY] && found != call_stream) {
        sim_fail("%s of a stream that the program's call is not on", call);
        return NULL;
    }
    return found;
}

bool sim_is_capturing(const struct CUstream_st *stream)
{
    return __atomic_load_n(&stream->capturing, __ATOMIC_RELAXED);
}

sim_point sim_stream_work(crmm_stream stream)
{
    struct CUstream_st *on = sim_resolve(stream);
    uint32_t tick = ++queued.at[on->clock];

    on->order.at[on->clock] = tick;
    return (sim_point){on->clock, tick};
}

sim_point sim_stream_latest(crmm_stream stream)
{
    const struct CUstream_st *on = sim_resolve(stream);

    return (sim_point){on->clock, queued.at[on->clock]};
}

const sim_clock *sim_stream_order(crmm_stream stream)
{
    return &sim_resolve(stream)->order;
}

void sim_stream_follow(crmm_stream stream, const sim_clock *order)
{
    raise(&sim_resolve(stream)->order, order);
}

/* ---- events ---- */

struct CUevent_st *sim_event_create(void)
{
    struct CUevent_st *event = destroyed;

    if (event != NULL) {
        destroyed = event->next;
    } else {
        event = malloc(sizeof(*event));
        if (event == NULL) {
            abort();
        }
    }
    event->alive = true;
    event->recorded = false;
    events++;
    return event;
}

void sim_event_destroy(struct CUevent_st *event)
{
    event->alive = false;
    event->next = destroyed;
    destroyed = event;
    events--;
}

/* ---- the whole ---- */

/* A pool may look at the low bits of a handle, which must be the same in every run of a seed. They
 * stay for all seeds, and reachable. */
static void make_streams(void)
{
    enum { ALIGNMENT = 1 << 16 };

    if (streams == NULL &&
        posix_memalign((void **)&streams, ALIGNMENT, sizeof(struct CUstream_st) * STREAMS) != 0) {
        abort();
    }
}

void sim_start(const sim_manner *manner)
{
    sim_now = *manner;
    sim_counts_now = (sim_counts){0};
    randomness = manner->seed ^ UINT64_C(0x5EED0FDE71CE);
    has_failed = false;
    failure[0] = '\0';
    last_id = 0;
    last_destroyed = 0;
    clocks = 0;
    queued = completed = observed = (sim_clock){0};
    events = 0;
    for (int i = 0; i < SIM_CLOCKS; i++) {
        died[i] = 0;
    }
    make_streams();
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = (struct CUstream_st){0};
        if (i == LEGACY || i == PER_THREAD) {
            begin_stream(&streams[i]);
        }
    }
}

void sim_finish(void)
{
    if (events != 0) {
        sim_fail("%zu events were not destroyed", events);
    }
    while (destroyed != NULL) {
        struct CUevent_st *event = destroyed;
        destroyed = event->next;
        free(event);
    }
}
