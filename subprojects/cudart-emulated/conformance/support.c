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

static void gate_function(void *arg)
{
    struct gate *gate = arg;
    pthread_mutex_lock(&gate->lock);
    gate->entered = true;
    while (!gate->open) {
        pthread_cond_wait(&gate->changed, &gate->lock);
    }
    pthread_mutex_unlock(&gate->lock);
}

static bool entered(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool value = gate->entered;
    pthread_mutex_unlock(&gate->lock);
    return value;
}

void gate_close(struct gate *gate, cudaStream_t stream)
{
    *gate = (struct gate){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    cudaError_t err = cudaLaunchHostFunc(stream, gate_function, gate);
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
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

bool gate_is_open(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    bool value = gate->open;
    pthread_mutex_unlock(&gate->lock);
    return value;
}

static void *open_later(void *gate)
{
    usleep(GATE_MS * 1000);
    gate_open(gate);
    return NULL;
}

void gate_open_later(struct gate *gate)
{
    pthread_t thread;
    pthread_create(&thread, NULL, open_later, gate);
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
