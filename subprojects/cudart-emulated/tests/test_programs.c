/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Property test of the scheduler and the checker. Generated legal programs give no report under
 * any seed, and leave the bytes that their order demands; planted races are reported, and no longer
 * once they are repaired.
 *
 *   test_programs [PROGRAMS [FIRST_SEED]]
 */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAMS 6
#define MAX_THREADS 4
#define MAX_BUFFERS 8
#define MAX_EVENTS 12
#define BYTES 256

static uint64_t state;

static uint64_t pick(uint64_t bound)
{
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
}

/* A buffer belongs to one stream, or to the host; only its owner touches it. */
struct buffer {
    unsigned char *ptr;
    int device;
    int owner; /* -1: the host */
    unsigned char value;
    bool pooled;
};

struct program {
    int devices, streams, threads;
    cudaStream_t stream[MAX_STREAMS];
    int device_of[MAX_STREAMS];
    bool blocking[MAX_STREAMS];
    struct buffer buffers[MAX_BUFFERS];
    cudaEvent_t events[2][MAX_EVENTS];
    unsigned char *pinned;
    int calls;
};

/* ---- threads: one turn at a time, so that the calls are ordered ---- */

struct turn {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int who; /* -1: the main thread */
    bool quit;
    struct program *program;
    void (*action)(struct program *);
};

static struct turn turn = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .who = -1};

static void *helper(void *number)
{
    const int me = *(const int *)number;
    pthread_mutex_lock(&turn.lock);
    while (!turn.quit) {
        if (turn.who == me) {
            turn.action(turn.program);
            turn.who = -1;
            pthread_cond_broadcast(&turn.changed);
        } else {
            pthread_cond_wait(&turn.changed, &turn.lock);
        }
    }
    pthread_mutex_unlock(&turn.lock);
    return NULL;
}

static void perform(struct program *p, void (*action)(struct program *))
{
    int who = (int)pick((uint64_t)p->threads) - 1;
    if (who == -1) {
        action(p);
        return;
    }
    pthread_mutex_lock(&turn.lock);
    turn.program = p;
    turn.action = action;
    turn.who = who;
    pthread_cond_broadcast(&turn.changed);
    while (turn.who != -1) {
        pthread_cond_wait(&turn.changed, &turn.lock);
    }
    pthread_mutex_unlock(&turn.lock);
}

/* ---- actions ---- */

static struct buffer *any_buffer(struct program *p)
{
    return &p->buffers[pick(MAX_BUFFERS)];
}

static int stream_on(struct program *p, int device)
{
    int s;
    do {
        s = (int)pick((uint64_t)p->streams);
    } while (p->device_of[s] != device);
    return s;
}

static void hand_to(struct program *p, struct buffer *b, int to);

/* The owner may be the host: then any stream may have it at once. */
static int make_owned(struct program *p, struct buffer *b)
{
    if (b->owner == -1) {
        b->owner = stream_on(p, b->device);
    }
    return b->owner;
}

static void write_buffer(struct program *p)
{
    struct buffer *b = any_buffer(p);
    int s = make_owned(p, b);
    unsigned char value = (unsigned char)pick(256);
    if (pick(2) == 0) {
        CHECK_OK(cudaMemsetAsync(b->ptr, value, BYTES, p->stream[s]));
    } else {
        const struct cudart_emulated_range range = {b->ptr, BYTES, 1, value};
        CHECK_OK(cudart_emulated_kernel(p->stream[s], &range, 1, NULL, NULL));
    }
    b->value = value;
}

static void copy_buffer(struct program *p)
{
    struct buffer *from = any_buffer(p);
    struct buffer *to = any_buffer(p);
    if (from == to || from->device != to->device) {
        return;
    }
    int s = make_owned(p, from);
    hand_to(p, to, s);
    CHECK_OK(cudaMemcpyAsync(to->ptr, from->ptr, BYTES, cudaMemcpyDeviceToDevice, p->stream[s]));
    to->value = from->value;
}

/* To the host, where it is compared. */
static void read_back(struct program *p)
{
    struct buffer *b = any_buffer(p);
    unsigned char bytes[BYTES];
    int s = make_owned(p, b);
    CHECK_OK(cudaMemcpyAsync(bytes, b->ptr, BYTES, cudaMemcpyDeviceToHost, p->stream[s]));
    CHECK(bytes[0] == b->value && bytes[BYTES - 1] == b->value);
}

static void host_function(void *counter)
{
    ++*(int *)counter;
}

static void call_host(struct program *p)
{
    CHECK_OK(cudaLaunchHostFunc(p->stream[pick((uint64_t)p->streams)], host_function, &p->calls));
}

static void order_streams(struct program *p, int from, int to)
{
    cudaEvent_t e = p->events[p->device_of[from]][pick(MAX_EVENTS)];
    CHECK_OK(cudaEventRecord(e, p->stream[from]));
    if (pick(4) == 0 && p->streams > 2) { /* by way of a third */
        int third = (int)pick((uint64_t)p->streams);
        cudaEvent_t f = p->events[p->device_of[third]][pick(MAX_EVENTS)];
        if (f != e) {
            CHECK_OK(cudaStreamWaitEvent(p->stream[third], e, 0));
            CHECK_OK(cudaEventRecord(f, p->stream[third]));
            e = f;
        }
    }
    CHECK_OK(cudaStreamWaitEvent(p->stream[to], e, 0));
    if (pick(4) == 0) { /* moving the event on changes nothing for those who wait */
        int other = stream_on(p, p->device_of[from]);
        CHECK_OK(
            cudaEventRecord(p->events[p->device_of[from]][pick(MAX_EVENTS)], p->stream[other]));
    }
}

static void wait_for(struct program *p, int s)
{
    cudaEvent_t e = p->events[p->device_of[s]][pick(MAX_EVENTS)];
    switch (pick(4)) {
    case 0:
        CHECK_OK(cudaStreamSynchronize(p->stream[s]));
        break;
    case 1:
        CHECK_OK(cudaEventRecord(e, p->stream[s]));
        CHECK_OK(cudaEventSynchronize(e));
        break;
    case 2:
        while (cudaStreamQuery(p->stream[s]) == cudaErrorNotReady) {
        }
        break;
    default:
        CHECK_OK(cudaEventRecord(e, p->stream[s]));
        while (cudaEventQuery(e) == cudaErrorNotReady) {
        }
    }
}

/* Through stream 0, where that orders anything. */
static bool by_legacy(struct program *p, int from, int to)
{
    if (!p->blocking[from] || !p->blocking[to] || p->device_of[from] != p->device_of[to]) {
        return false;
    }
    CHECK_OK(cudaSetDevice(p->device_of[from]));
    CHECK_OK(cudaMemset(p->buffers[MAX_BUFFERS - 1 - p->device_of[from]].ptr + BYTES, 0, 16));
    /* Waiting for a stream does not wait for stream 0; an operation does. */
    CHECK_OK(cudaEventRecord(p->events[p->device_of[to]][pick(MAX_EVENTS)], p->stream[to]));
    CHECK_OK(cudaSetDevice(0));
    return true;
}

static void hand_to(struct program *p, struct buffer *b, int to)
{
    int from = b->owner;
    if (from == to) {
        return;
    }
    b->owner = to;
    if (from == -1) {
        return;
    }
    if (to == -1 || pick(8) == 0) {
        wait_for(p, from);
    } else if (pick(4) != 0 || !by_legacy(p, from, to)) {
        order_streams(p, from, to);
    }
}

static void move_buffer(struct program *p)
{
    struct buffer *b = any_buffer(p);
    hand_to(p, b, stream_on(p, b->device));
}

static void host_touch(struct program *p)
{
    struct buffer *b = any_buffer(p);
    unsigned char bytes[BYTES];
    hand_to(p, b, -1);
    CHECK_OK(cudart_emulated_host_read(bytes, b->ptr, BYTES));
    CHECK(bytes[0] == b->value && bytes[BYTES - 1] == b->value);
    memset(bytes, (int)pick(256), BYTES);
    CHECK_OK(cudart_emulated_host_write(b->ptr, bytes, BYTES));
    b->value = bytes[0];
}

static void ask(struct program *p)
{
    cudaError_t err = cudaStreamQuery(p->stream[pick((uint64_t)p->streams)]);
    CHECK(err == cudaSuccess || err == cudaErrorNotReady);
    err = cudaEventQuery(p->events[0][pick(MAX_EVENTS)]);
    CHECK(err == cudaSuccess || err == cudaErrorNotReady);
}

static void new_stream(struct program *p, int s)
{
    CHECK_OK(cudaSetDevice(p->device_of[s]));
    p->blocking[s] = pick(2) == 0;
    CHECK_OK(cudaStreamCreateWithFlags(&p->stream[s],
                                       p->blocking[s] ? cudaStreamDefault : cudaStreamNonBlocking));
    CHECK_OK(cudaSetDevice(0));
}

/* Its buffers go to another stream or to its successor; its work goes on. */
static void replace_stream(struct program *p)
{
    int s = (int)pick((uint64_t)p->streams);
    cudaEvent_t e = p->events[p->device_of[s]][pick(MAX_EVENTS)];
    CHECK_OK(cudaEventRecord(e, p->stream[s]));
    CHECK_OK(cudaStreamDestroy(p->stream[s]));
    new_stream(p, s);
    CHECK_OK(cudaStreamWaitEvent(p->stream[s], e, 0));
}

static void new_block(struct program *p, struct buffer *b)
{
    void *ptr;
    CHECK_OK(cudaSetDevice(b->device));
    b->pooled = pick(2) == 0 && b < &p->buffers[MAX_BUFFERS - 2];
    if (b->pooled) {
        b->owner = stream_on(p, b->device);
        CHECK_OK(cudaMallocAsync(&ptr, BYTES, p->stream[b->owner]));
        CHECK_OK(cudaMemsetAsync(ptr, 1, BYTES, p->stream[b->owner]));
        b->value = 1;
    } else {
        const unsigned char zeros[BYTES] = {0};
        CHECK_OK(cudaMalloc(&ptr, 2 * BYTES));
        CHECK_OK(cudart_emulated_host_write(ptr, zeros, BYTES));
        b->owner = -1;
        b->value = 0;
    }
    b->ptr = ptr;
    CHECK_OK(cudaSetDevice(0));
}

static void replace_block(struct program *p)
{
    struct buffer *b = &p->buffers[pick(MAX_BUFFERS - 2)];
    if (!b->pooled) {
        CHECK_OK(cudaFree(b->ptr));
    } else {
        int s = make_owned(p, b);
        CHECK_OK(cudaFreeAsync(b->ptr, p->stream[s]));
    }
    new_block(p, b);
}

static void (*const actions[])(struct program *) = {
    write_buffer, write_buffer, write_buffer, copy_buffer,    copy_buffer,   move_buffer,
    move_buffer,  move_buffer,  read_back,    host_touch,     call_host,     ask,
    ask,          move_buffer,  write_buffer, replace_stream, replace_block, replace_block,
};

static void open_program(struct program *p)
{
    *p = (struct program){.devices = 1 + (int)pick(2), .streams = 2 + (int)pick(5)};
    p->threads = pick(8) == 0 ? 2 + (int)pick(MAX_THREADS - 1) : 1;
    for (int s = 0; s < p->streams; s++) {
        p->device_of[s] = s < p->devices ? s : (int)pick((uint64_t)p->devices);
        new_stream(p, s);
    }
    for (int d = 0; d < 2; d++) {
        CHECK_OK(cudaSetDevice(d));
        for (int e = 0; e < MAX_EVENTS; e++) {
            CHECK_OK(cudaEventCreateWithFlags(&p->events[d][e], cudaEventDisableTiming));
        }
    }
    CHECK_OK(cudaSetDevice(0));
    for (int b = 0; b < MAX_BUFFERS; b++) {
        p->buffers[b].device = b >= MAX_BUFFERS - 2 ? (MAX_BUFFERS - 1 - b) % p->devices
                                                    : (int)pick((uint64_t)p->devices);
        new_block(p, &p->buffers[b]);
    }
}

static void close_program(struct program *p)
{
    for (int d = 0; d < 2; d++) {
        CHECK_OK(cudaSetDevice(d));
        CHECK_OK(cudaDeviceSynchronize());
        for (int e = 0; e < MAX_EVENTS; e++) {
            CHECK_OK(cudaEventDestroy(p->events[d][e]));
        }
    }
    CHECK_OK(cudaSetDevice(0));
    for (int b = 0; b < MAX_BUFFERS; b++) {
        unsigned char bytes[BYTES];
        CHECK_OK(cudart_emulated_host_read(bytes, p->buffers[b].ptr, BYTES));
        CHECK(bytes[0] == p->buffers[b].value);
        CHECK_OK(cudaFree(p->buffers[b].ptr));
    }
    for (int s = 0; s < p->streams; s++) {
        CHECK_OK(cudaStreamDestroy(p->stream[s]));
    }
}

static bool legal_program(uint64_t seed)
{
    struct program p;
    state = seed * 7919 + 17;
    cudart_emulated_set_seed(seed % 5 == 0 ? 0 : seed);
    cudart_emulated_set_option("reuse_handles", seed % 2);
    open_program(&p);
    int count = 50 + (int)pick(251);
    for (int i = 0; i < count; i++) {
        perform(&p, actions[pick(sizeof actions / sizeof *actions)]);
    }
    close_program(&p);
    if (cudart_emulated_violations() != 0 || check_failures != 0) {
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed,
                cudart_emulated_violations() != 0 ? cudart_emulated_violation(0) : "");
        return false;
    }
    return true;
}

/* ---- planted races ---- */

enum race {
    DROPPED_WAIT,
    DROPPED_RECORD,
    STALE_EVENT,
    REUSED_EARLY,
    HOST_TOUCH,
    POOL_EARLY,
    RACES
};

static const char *const race_names[RACES] = {"dropped wait", "dropped record",
                                              "stale event",  "block reused early",
                                              "host touch",   "pool block used elsewhere"};

/* Work on other memory that orders nothing between the first two streams. */
static void noise(struct program *p, unsigned char *own[2], int amount)
{
    for (int i = 0; i < amount; i++) {
        int s = (int)pick((uint64_t)p->streams);
        if (s < 2) {
            CHECK_OK(cudaMemsetAsync(own[s], 1, BYTES, p->stream[s]));
        } else if (pick(2) == 0) {
            CHECK_OK(cudaEventRecord(p->events[0][s], p->stream[s]));
        } else {
            cudaError_t err = cudaStreamQuery(p->stream[s]);
            CHECK(err == cudaSuccess || err == cudaErrorNotReady);
        }
    }
}

/* What the races lack: an order of the second stream, or of the host, behind the first stream. */
static void repair(struct program *p, enum race race)
{
    if (race == HOST_TOUCH) {
        CHECK_OK(cudaStreamSynchronize(p->stream[0]));
        return;
    }
    CHECK_OK(cudaEventRecord(p->events[0][0], p->stream[0]));
    CHECK_OK(cudaStreamWaitEvent(p->stream[1], p->events[0][0], 0));
}

static void plant(struct program *p, enum race race, bool repaired, unsigned char *own[2],
                  int amount)
{
    cudaStream_t a = p->stream[0], b = p->stream[1];
    cudaEvent_t e = p->events[0][0];
    unsigned char byte;
    void *x = NULL, *pooled = NULL;
    CHECK_OK(cudaMalloc(&x, BYTES));
    CHECK_OK(cudaEventRecord(e, a));
    noise(p, own, amount);
    if (race == POOL_EARLY) {
        CHECK_OK(cudaMallocAsync(&pooled, BYTES, a));
        noise(p, own, amount);
        if (repaired) {
            repair(p, race);
        }
        CHECK_OK(cudaMemsetAsync(pooled, 2, BYTES, b));
    } else {
        CHECK_OK(cudaMemsetAsync(x, 1, BYTES, a));
        noise(p, own, amount);
    }
    switch (race) {
    case DROPPED_WAIT:
        CHECK_OK(cudaEventRecord(e, a));
        break;
    case DROPPED_RECORD:
        CHECK_OK(cudaStreamWaitEvent(b, p->events[0][1], 0));
        break;
    case STALE_EVENT:
        CHECK_OK(cudaStreamWaitEvent(b, e, 0));
        break;
    default:
        break;
    }
    noise(p, own, amount);
    if (repaired) {
        repair(p, race);
    }
    if (race == HOST_TOUCH) {
        CHECK_OK(cudart_emulated_host_read(&byte, (unsigned char *)x + 5, 1));
    } else if (race == REUSED_EARLY) { /* one half of the block, as a pool would hand it out */
        const struct cudart_emulated_range range = {(unsigned char *)x + BYTES / 2, BYTES / 2, 1,
                                                    9};
        CHECK_OK(cudart_emulated_kernel(b, &range, 1, NULL, NULL));
    } else if (race != POOL_EARLY) {
        CHECK_OK(cudaMemcpyAsync(own[1], x, BYTES, cudaMemcpyDeviceToDevice, b));
    }
    noise(p, own, amount);
    CHECK_OK(cudaStreamSynchronize(b));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaFree(x));
    if (pooled != NULL) {
        CHECK_OK(cudaFreeAsync(pooled, a));
    }
    CHECK_OK(cudaDeviceSynchronize());
}

static bool names_stream(const char *text, cudaStream_t stream)
{
    char expected[64];
    unsigned long long id = 0;
    CHECK_OK(cudaStreamGetId(stream, &id));
    snprintf(expected, sizeof expected, " of stream %llu (", id);
    return strstr(text, expected) != NULL;
}

/* Any other report would be of another race than the planted one. */
static bool race_reported(const struct program *p, enum race race)
{
    const char *text = cudart_emulated_violation(0);
    return text != NULL && strncmp(text, "race: ", 6) == 0 && names_stream(text, p->stream[0]) &&
           (race == HOST_TOUCH ? strstr(text, "by the host") != NULL
                               : names_stream(text, p->stream[1]));
}

/* Whether the race is reported; a repaired one: whether anything is. */
static bool race_found(enum race race, bool repaired, uint64_t variant, uint64_t seed)
{
    struct program p = {.devices = 1, .streams = 2 + (int)(variant % 4), .threads = 1};
    void *own[2];
    state = variant * 31 + (uint64_t)race;
    cudart_emulated_set_seed(seed);
    for (int s = 0; s < p.streams; s++) {
        CHECK_OK(cudaStreamCreateWithFlags(&p.stream[s], cudaStreamNonBlocking));
    }
    for (int e = 0; e < MAX_EVENTS; e++) {
        CHECK_OK(cudaEventCreateWithFlags(&p.events[0][e], cudaEventDisableTiming));
    }
    CHECK_OK(cudaMalloc(&own[0], BYTES));
    CHECK_OK(cudaMalloc(&own[1], BYTES));
    unsigned char *bytes[2] = {own[0], own[1]};
    plant(&p, race, repaired, bytes, (int)variant);
    bool found = repaired ? cudart_emulated_violations() != 0 : race_reported(&p, race);
    CHECK_OK(cudaFree(own[0]));
    CHECK_OK(cudaFree(own[1]));
    for (int e = 0; e < MAX_EVENTS; e++) {
        CHECK_OK(cudaEventDestroy(p.events[0][e]));
    }
    for (int s = 0; s < p.streams; s++) {
        CHECK_OK(cudaStreamDestroy(p.stream[s]));
    }
    cudart_emulated_clear_violations();
    return found;
}

static int planted_races(void)
{
    int found = 0;
    for (int race = 0; race < RACES; race++) {
        for (uint64_t variant = 0; variant < 8; variant++) {
            uint64_t seed = 0;
            while (seed < 200 && !race_found((enum race)race, false, variant, seed)) {
                seed++;
            }
            if (seed == 200) {
                fprintf(stderr, "%s, variant %llu: not found\n", race_names[race],
                        (unsigned long long)variant);
                check_failures++;
                continue;
            }
            found++;
            CHECK(!race_found((enum race)race, true, variant, seed));
        }
    }
    return found;
}

int main(int argc, char **argv)
{
    const unsigned long programs = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    const unsigned long first = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
    pthread_t threads[MAX_THREADS - 1];
    int numbers[MAX_THREADS - 1];
    cudart_emulated_set_devices(2);
    cudart_emulated_set_option("quiet", 1);
    for (int i = 0; i < MAX_THREADS - 1; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, helper, &numbers[i]);
    }
    unsigned long passed = 0;
    while (passed < programs && legal_program(first + passed)) {
        passed++;
    }
    pthread_mutex_lock(&turn.lock);
    turn.quit = true;
    pthread_cond_broadcast(&turn.changed);
    pthread_mutex_unlock(&turn.lock);
    for (int i = 0; i < MAX_THREADS - 1; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(passed == programs);
    int found = passed == programs ? planted_races() : 0;
    printf("%lu legal programs without a report, %d planted races found\n", passed, found);
    return check_result();
}
