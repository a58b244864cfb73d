/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler. Streams are queues that nobody runs: an operation runs when some call needs it,
 * or needs one that depends on it, and never before what it depends on. With a seed other than 0,
 * the order among the runnable ones is chosen at random, and now and then more is run than needed.
 */
#include "emulated.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OPS_PER_SLAB 64
#define MOMENT_NS 1000000
#define MOMENTS 2000
#define MOMENTS_ASLEEP 3
#define UNLIMITED UINT64_MAX

static struct op *op_new(void)
{
    if (engine.free_ops == NULL) {
        struct op *slab = malloc(OPS_PER_SLAB * sizeof *slab);
        if (slab == NULL) {
            abort();
        }
        for (size_t i = 0; i < OPS_PER_SLAB; i++) {
            slab[i].next = engine.free_ops;
            engine.free_ops = &slab[i];
        }
    }
    struct op *op = engine.free_ops;
    engine.free_ops = op->next;
    memset(op, 0, sizeof *op);
    op->refs = 1;
    return op;
}

struct op *op_retain(struct op *op)
{
    op->refs++;
    return op;
}

static void drop_preds(struct op *op)
{
    for (unsigned i = 0; i < op->pred_count; i++) {
        op_release(op->preds[i]);
    }
    if (op->preds != op->first_pred) {
        free(op->preds);
    }
    op->preds = NULL;
    op->pred_count = 0;
}

void op_release(struct op *op)
{
    if (op == NULL || --op->refs != 0) {
        return;
    }
    if (op->host != NULL || op->clock != NULL) {
        checker_op_free(op);
    }
    op->next = engine.free_ops;
    engine.free_ops = op;
}

bool op_done(const struct op *op)
{
    return op->state == OP_DONE;
}

void op_add_pred(struct op *op, struct op *pred)
{
    if (pred->state == OP_DONE && pred->clock == NULL) {
        return;
    }
    if (op->pred_count == 0) {
        op->preds = op->first_pred;
        op->pred_capacity = 2;
    } else if (op->pred_count == op->pred_capacity) {
        unsigned capacity = op->pred_capacity * 2;
        struct op **preds = malloc(capacity * sizeof(struct op *));
        if (preds == NULL) {
            abort();
        }
        memcpy(preds, op->preds, op->pred_count * sizeof(struct op *));
        if (op->preds != op->first_pred) {
            free(op->preds);
        }
        op->preds = preds;
        op->pred_capacity = capacity;
    }
    op->preds[op->pred_count++] = op_retain(pred);
}

/* Stream 0 and the blocking streams of a device wait for each other. */
static void add_barrier(struct op *op, struct stream *stream)
{
    if (stream->legacy) {
        for (struct stream *s = stream->device->streams; s != NULL; s = s->next) {
            if (s->blocking && s->tail != NULL) {
                op_add_pred(op, s->tail);
            }
        }
    } else if (stream->blocking && stream->device->legacy != NULL &&
               stream->device->legacy->tail != NULL) {
        op_add_pred(op, stream->device->legacy->tail);
    }
}

struct op *engine_enqueue(struct stream *stream, const struct work *work, enum fn fn)
{
    struct op *op = op_new();
    op->stream = stream;
    op->stream_id = stream->id;
    op->seq = ++engine.seq;
    op->fn = fn;
    op->work = *work;
    add_barrier(op, stream);
    if (stream->tail != NULL) {
        stream->tail->next = op;
    } else {
        stream->head = op;
    }
    stream->tail = op;
    stream->pending++;
    if (CHECKER_ON) {
        checker_enqueue(op);
    }
    return op;
}

void engine_need(struct stream *stream, uint64_t seq)
{
    if (seq > stream->need) {
        stream->need = seq;
    }
    if (stream->active || stream->head == NULL || stream->head->seq > stream->need) {
        return;
    }
    if (engine.active_count == engine.active_capacity) {
        size_t capacity = engine.active_capacity == 0 ? 64 : engine.active_capacity * 2;
        struct stream **active = realloc(engine.active, capacity * sizeof(struct stream *));
        if (active == NULL) {
            abort();
        }
        engine.active = active;
        engine.active_capacity = capacity;
    }
    engine.active[engine.active_count++] = stream;
    stream->active = true;
}

static void deactivate(size_t index)
{
    engine.active[index]->active = false;
    engine.active[index] = engine.active[--engine.active_count];
}

void engine_forget_stream(struct stream *stream)
{
    for (size_t i = 0; i < engine.active_count; i++) {
        if (engine.active[i] == stream) {
            deactivate(i);
            return;
        }
    }
}

/* Whether the operation may start; asks for what it still waits for. */
static bool runnable(struct op *op)
{
    bool ready = true;
    for (unsigned i = 0; i < op->pred_count; i++) {
        struct op *pred = op->preds[i];
        if (pred->state != OP_DONE) {
            engine_need(pred->stream, pred->seq);
            ready = false;
        }
    }
    return ready;
}

static struct op *pick(void)
{
    struct op *best = NULL;
    uint64_t candidates = 0;
    for (size_t i = 0; i < engine.active_count; i++) {
        struct op *head = engine.active[i]->head;
        if (head == NULL || head->seq > engine.active[i]->need) {
            deactivate(i--);
            continue;
        }
        if (head->state != OP_PENDING || !runnable(head)) {
            continue;
        }
        candidates++;
        bool take =
            config.seed == 0 ? best == NULL || head->seq < best->seq : choice(candidates) == 0;
        if (take) {
            best = head;
        }
    }
    return best;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void op_complete(struct op *op)
{
    struct stream *stream = op->stream;
    if (op->work.timed) {
        op->time = now();
    }
    drop_preds(op);
    work_release(&op->work);
    op->state = OP_DONE;
    stream->head = op->next;
    if (stream->head == NULL) {
        stream->tail = NULL;
    }
    stream->pending--;
    op->stream = NULL;
    engine.executed++;
    op_release(op);
    stream_unlink_if_drained(stream);
    if (engine.waiters != 0) {
        pthread_cond_broadcast(&engine.changed);
    }
}

static void run(struct op *op)
{
    if (CHECKER_ON) {
        checker_execute(op);
    }
    if (op->work.kind == WORK_HOST) {
        op->state = OP_RUNNING;
        worker_push(op);
        return;
    }
    work_execute(op);
    op_complete(op);
}

/* What the kernel says of a thread; true too if it cannot be asked. */
static bool asleep(long tid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd == -1 ? -1 : read(fd, text, sizeof text - 1);
    if (fd != -1) {
        close(fd);
    }
    if (length <= 0) {
        return true;
    }
    text[length] = '\0';
    const char *end = strrchr(text, ')');
    return end == NULL || end[1] == '\0' || end[2] == 'S';
}

static void wait_a_moment(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    engine.waiters++;
    pthread_cond_timedwait(&engine.changed, &engine.lock, &until);
    engine.waiters--;
}

/*
 * The order must not depend on how fast a host function is: it gets time to end, unless it sleeps,
 * and so may wait for the program.
 */
static void let_host_function_end(struct op *op)
{
    unsigned slept = 0;
    for (unsigned i = 0; i < MOMENTS && slept < MOMENTS_ASLEEP && op->state != OP_DONE; i++) {
        wait_a_moment();
        slept = op->host_tid != 0 && asleep(op->host_tid) ? slept + 1 : 0;
    }
}

static bool keep_lock; /* the caller is in the middle of something */

static void pump(uint64_t limit)
{
    struct op *op;
    while (limit-- != 0 && (op = pick()) != NULL) {
        if (op->work.kind == WORK_HOST && engine.running == 0 && !keep_lock) {
            op_retain(op);
            run(op);
            let_host_function_end(op);
            op_release(op);
        } else {
            run(op);
        }
    }
}

/* Asks for a random part of what no call has asked for. */
static void want_more(void)
{
    for (int d = 0; d < config.devices; d++) {
        for (struct stream *s = devices[d].streams; s != NULL; s = s->next) {
            if (s->head != NULL && choice(3) == 0) {
                engine_need(s, s->head->seq + choice(s->tail->seq - s->head->seq + 1));
            }
        }
    }
}

/* May give the lock away for a moment, as waiting does. */
void engine_pump(void)
{
    if (config.seed != 0 && choice(2) == 0) {
        want_more();
    }
    pump(UNLIMITED);
}

struct search {
    uint64_t round;
    struct stream *queued;
};

/* A stream is searched up to an operation, and again only for a later one. */
static void search_from(struct search *search, const struct op *op)
{
    struct stream *stream = op->stream;
    if (op->state == OP_DONE ||
        (stream->reach_round == search->round && stream->reach >= op->seq)) {
        return;
    }
    if (stream->reach_round != search->round) {
        stream->reach_queued = false;
    }
    stream->reach_round = search->round;
    stream->reach = op->seq;
    if (!stream->reach_queued) {
        stream->reach_queued = true;
        stream->reach_next = search->queued;
        search->queued = stream;
    }
}

/* What an operation that is queued now will wait for. */
static void search_start(struct search *search, struct stream *stream)
{
    if (stream->tail != NULL) {
        search_from(search, stream->tail);
    }
    if (stream->legacy) {
        for (struct stream *s = stream->device->streams; s != NULL; s = s->next) {
            if (s->blocking && s->tail != NULL) {
                search_from(search, s->tail);
            }
        }
    } else if (stream->blocking && stream->device->legacy != NULL &&
               stream->device->legacy->tail != NULL) {
        search_from(search, stream->device->legacy->tail);
    }
}

/* Follows dependencies back through what is pending. */
bool engine_reaches(struct stream *stream, const struct op *earlier)
{
    static uint64_t rounds;
    struct search search = {.round = ++rounds};
    search_start(&search, stream);
    while (search.queued != NULL) {
        struct stream *s = search.queued;
        search.queued = s->reach_next;
        s->reach_queued = false;
        if (s == earlier->stream && s->reach >= earlier->seq) {
            return true;
        }
        for (const struct op *op = s->head; op != NULL && op->seq <= s->reach; op = op->next) {
            for (unsigned i = 0; i < op->pred_count; i++) {
                search_from(&search, op->preds[i]);
            }
        }
    }
    return false;
}

void engine_pump_locked(void)
{
    keep_lock = true;
    engine_pump();
    keep_lock = false;
}

/* A device may run at any time, so any call may find that it has. */
void engine_mischief(void)
{
    if (config.seed != 0 && choice(4) == 0) {
        want_more();
        pump(choice(6));
    }
}

static void wait_change(void)
{
    if (engine.running == 0) {
        violation("internal", "an operation waits for something that cannot happen");
        abort();
    }
    engine.waiters++;
    pthread_cond_wait(&engine.changed, &engine.lock);
    engine.waiters--;
}

void engine_wait_op(struct op *op)
{
    op_retain(op);
    while (op->state != OP_DONE) {
        engine_need(op->stream, op->seq);
        engine_pump();
        if (op->state != OP_DONE) {
            wait_change();
        }
    }
    op_release(op);
}

void engine_wait_last(struct stream *stream)
{
    struct op *last = op_retain(stream->tail);
    stream->waiters++;
    engine_wait_op(last);
    stream->waiters--;
    if (CHECKER_ON) {
        checker_join_host_after(last, stream);
    }
    op_release(last);
    stream_unlink_if_drained(stream);
}

static bool counts(const struct stream *of, const struct stream *stream)
{
    return stream == of || (of->legacy && stream->blocking);
}

/* Stream 0 is done when the blocking streams are, whatever was queued on it. */
void engine_wait_stream(struct stream *stream)
{
    if (!stream->legacy) {
        if (stream->tail != NULL) {
            engine_wait_op(stream->tail);
        }
        return;
    }
    engine_wait_matching(stream->device, stream);
}

/* Asks for what the matching streams had queued up to a point; false if nothing is left. */
static bool want(struct device *device, const struct stream *of, uint64_t until)
{
    bool left = false;
    for (struct stream *s = device->streams; s != NULL; s = s->next) {
        if (s->head == NULL || s->head->seq > until || (of != NULL && !counts(of, s))) {
            continue;
        }
        engine_need(s, s->tail->seq < until ? s->tail->seq : until);
        left = true;
    }
    return left;
}

/* Waits for what was queued when the call came, not for what other threads add meanwhile. */
void engine_wait_matching(struct device *device, const struct stream *of)
{
    const uint64_t until = engine.seq;
    while (want(device, of, until)) {
        engine_pump();
        if (want(device, of, until)) {
            wait_change();
        }
    }
}

bool engine_query_stream(struct stream *stream)
{
    if (!stream->legacy) {
        if (stream->head == NULL) {
            return true;
        }
        const uint64_t last = stream->tail->seq;
        engine_need(stream, last);
        engine_query_pump();
        return stream->head == NULL || stream->head->seq > last;
    }
    const uint64_t until = engine.seq;
    if (!want(stream->device, stream, until)) {
        return true;
    }
    engine_query_pump();
    return !want(stream->device, stream, until);
}

/* A query finds the device as far as it happens to be. */
void engine_query_pump(void)
{
    if (config.idle_queries) {
        return;
    }
    if (config.seed != 0 && choice(3) == 0) {
        pump(choice(4));
    } else {
        engine_pump();
    }
}

void engine_wait_device(struct device *device)
{
    engine_wait_matching(device, NULL);
}
