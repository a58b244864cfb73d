/* SPDX-License-Identifier: Apache-2.0 */
/* What the checks share. */
#include "conformance.h"

#include <time.h>

#ifdef CUDART_EMULATED
#define SOON_MS 60
#define GATE_MS 120
#else
#define SOON_MS 100
#define GATE_MS 500
#endif

const char *nm(cudaError_t error)
{
    const char *name = cudaGetErrorName(error);
    return error == cudaSuccess ? "ok" : strncmp(name, "cudaError", 9) == 0 ? name + 9 : name;
}

const char *sz(size_t bytes)
{
    static char texts[8][32];
    static unsigned next;
    char *out = texts[next++ % 8];
    if (bytes != 0 && bytes % MIB == 0) {
        snprintf(out, sizeof texts[0], "%zuM", bytes / MIB);
    } else {
        snprintf(out, sizeof texts[0], "%zu", bytes);
    }
    return out;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* One lock for all gates, since a gate may be used again while a late opener still sleeps. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;

void gate_hold(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate_lock);
    gate->entered = true;
    while (!gate->open) {
        pthread_cond_wait(&gate_changed, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
}

static bool entered(const struct gate *gate)
{
    pthread_mutex_lock(&gate_lock);
    bool value = gate->entered;
    pthread_mutex_unlock(&gate_lock);
    return value;
}

void gate_close(struct gate *gate, cudaStream_t stream)
{
    pthread_mutex_lock(&gate_lock);
    gate->entered = false;
    gate->open = false;
    gate->round++;
    pthread_mutex_unlock(&gate_lock);
    cudaError_t err = cudaLaunchHostFunc(stream, gate_hold, gate);
    if (err != cudaSuccess) {
        put("GATE:%s", nm(err));
        verdict_exit();
    }
    while (!entered(gate)) {
        cudaStreamQuery(stream);
        usleep(200);
    }
}

void gate_open(struct gate *gate)
{
    pthread_mutex_lock(&gate_lock);
    gate->open = true;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

bool gate_is_open(struct gate *gate)
{
    pthread_mutex_lock(&gate_lock);
    bool value = gate->open;
    pthread_mutex_unlock(&gate_lock);
    return value;
}

struct opener {
    struct gate *gate;
    unsigned round;
};

static void *open_later(void *arg)
{
    struct opener *opener = arg;
    usleep(GATE_MS * 1000);
    pthread_mutex_lock(&gate_lock);
    if (opener->gate->round == opener->round) {
        opener->gate->open = true;
        pthread_cond_broadcast(&gate_changed);
    }
    pthread_mutex_unlock(&gate_lock);
    free(opener);
    return NULL;
}

void gate_open_later(struct gate *gate)
{
    pthread_t thread;
    struct opener *opener = malloc(sizeof *opener);
    *opener = (struct opener){gate, gate->round};
    pthread_create(&thread, NULL, open_later, opener);
    pthread_detach(thread);
}

/* Afterwards the gate is open in any case. */
const char *gate_verdict(struct gate *gate)
{
    const char *verdict = gate_is_open(gate) ? "wait" : "ret";
    gate_open(gate);
    return verdict;
}

cudaStream_t blocking(void)
{
    cudaStream_t stream = NULL;
    cudaStreamCreate(&stream);
    return stream;
}

cudaStream_t nonblocking(void)
{
    cudaStream_t stream = NULL;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
}

cudaEvent_t event(void)
{
    cudaEvent_t made = NULL;
    cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    return made;
}

bool completes(cudaEvent_t e)
{
    double until = now_ms() + SOON_MS;
    do {
        if (cudaEventQuery(e) == cudaSuccess) {
            return true;
        }
        usleep(500);
    } while (now_ms() < until);
    return false;
}

bool runs(cudaStream_t stream)
{
    cudaEvent_t e = event();
    cudaEventRecord(e, stream);
    return completes(e);
}

struct body {
    void (*run)(void *);
    void *arg;
};

static void *thread_body(void *arg)
{
    struct body *body = arg;
    body->run(body->arg);
    return NULL;
}

void in_thread(void (*body)(void *), void *arg)
{
    struct body both = {body, arg};
    pthread_t thread;
    pthread_create(&thread, NULL, thread_body, &both);
    pthread_join(thread, NULL);
}

void *entry_point(const char *name)
{
    enum cudaDriverEntryPointQueryResult result;
    void *found = NULL;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result);
#else
    cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    return found;
}

cudaMemPool_t new_pool(uint64_t threshold, int follow, int opportunistic, int internal,
                       size_t max_size)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0},
                                     .maxSize = max_size};
    cudaMemPool_t pool = NULL;
    cudaMemPoolCreate(&pool, &props);
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &follow);
    cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &opportunistic);
    cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &internal);
    return pool;
}

size_t pool_number(cudaMemPool_t pool, enum cudaMemPoolAttr attr)
{
    uint64_t value = 0;
    cudaMemPoolGetAttribute(pool, attr, &value);
    return (size_t)value;
}
