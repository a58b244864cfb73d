/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <pthread.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "bench.h"

static void check(const char *call, cudaError_t error)
{
    if (error != cudaSuccess) {
        bench_fail("%s: %s", call, cudaGetErrorName(error));
    }
}

bool streams_are_real(void)
{
    return true;
}

crmm_stream streams_create(void)
{
    cudaStream_t stream = NULL;

    check("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

void streams_destroy(crmm_stream stream)
{
    check("cudaStreamDestroy", cudaStreamDestroy(stream));
}

void streams_order(crmm_stream earlier, crmm_stream later)
{
    cudaEvent_t event = NULL;

    check("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check("cudaEventRecord", cudaEventRecord(event, earlier));
    check("cudaStreamWaitEvent", cudaStreamWaitEvent(later, event, 0));
    check("cudaEventDestroy", cudaEventDestroy(event));
}

/* ---- holding ---- */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct timespec end;
    size_t entered; /* host functions that hold a stream now */
    bool open;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void CUDART_CB hold(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&gate.mutex);
    gate.entered++;
    while (!gate.open && pthread_cond_timedwait(&gate.changed, &gate.mutex, &gate.end) == 0) {
    }
    gate.entered--;
    (void)pthread_cond_broadcast(&gate.changed);
    (void)pthread_mutex_unlock(&gate.mutex);
}

static void set_end(void)
{
    (void)clock_gettime(CLOCK_REALTIME, &gate.end);
    gate.end.tv_nsec += (long)(STREAMS_HOLD_SECONDS * 1e9);
    if (gate.end.tv_nsec >= 1000000000) {
        gate.end.tv_nsec -= 1000000000;
        gate.end.tv_sec++;
    }
}

/* Only the first stream's function is waited for: how many run at a time is CUDA's business, and
 * work on the others is unfinished either way. */
void streams_set_lag(uint64_t ns)
{
    (void)ns;
    bench_fail("CUDA's events are complete when they are");
}

void streams_hold(const crmm_stream *streams, size_t count)
{
    bool entered = false;

    (void)pthread_mutex_lock(&gate.mutex);
    gate.open = false;
    set_end();
    (void)pthread_mutex_unlock(&gate.mutex);
    for (size_t i = 0; i < count; i++) {
        check("cudaLaunchHostFunc", cudaLaunchHostFunc(streams[i], hold, NULL));
    }
    while (!entered) {
        const struct timespec while_ = {.tv_nsec = 20000};
        cudaError_t error = cudaStreamQuery(streams[0]);

        if (error == cudaSuccess) {
            return; /* the time was over before we looked */
        }
        if (error != cudaErrorNotReady) {
            check("cudaStreamQuery", error);
        }
        (void)cudaGetLastError();
        (void)nanosleep(&while_, NULL);
        (void)pthread_mutex_lock(&gate.mutex);
        entered = gate.entered > 0;
        (void)pthread_mutex_unlock(&gate.mutex);
    }
}

void streams_let_go(void)
{
    (void)pthread_mutex_lock(&gate.mutex);
    gate.open = true;
    (void)pthread_cond_broadcast(&gate.changed);
    (void)pthread_mutex_unlock(&gate.mutex);
    check("cudaDeviceSynchronize", cudaDeviceSynchronize());
}
