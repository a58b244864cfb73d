/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/floor_event.h>

#include <pthread.h>
#include <stddef.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "floor_call.h"

/* ---- entry points ----
 * The driver's, which cost a fraction of the runtime's calls and have no last error. All of them
 * are older than the oldest toolkit that is supported, so one that is missing means no driver. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool ready; /* the entry points are there and CUDA is set up */

static struct {
    CUresult (*stream_capturing)(CUstream, CUstreamCaptureStatus *);
    CUresult (*stream_id)(CUstream, unsigned long long *);
    CUresult (*stream_context)(CUstream, CUcontext *);
    CUresult (*context_get)(CUcontext *);
    CUresult (*context_set)(CUcontext);
    CUresult (*record)(CUevent, CUstream);
    CUresult (*query)(CUevent);
    CUresult (*synchronize)(CUevent);
    CUresult (*wait)(CUstream, CUevent, unsigned int);
} driver;

static void find_entries(void)
{
    const struct {
        const char *name;
        void *slot;
    } wanted[] = {
        {"cuStreamIsCapturing", &driver.stream_capturing},
        {"cuStreamGetId", &driver.stream_id},
        {"cuStreamGetCtx", &driver.stream_context},
        {"cuCtxGetCurrent", &driver.context_get},
        {"cuCtxSetCurrent", &driver.context_set},
        {"cuEventRecord", &driver.record},
        {"cuEventQuery", &driver.query},
        {"cuEventSynchronize", &driver.synchronize},
        {"cuStreamWaitEvent", &driver.wait},
    };
    bool complete = true;

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *(void **)wanted[i].slot = crmm_priv_floor_entry(wanted[i].name);
        complete = complete && *(void **)wanted[i].slot != NULL;
    }
    __atomic_store_n(&ready, complete, __ATOMIC_RELEASE);
}

/* Whether the driver may be asked: cudaSuccess, or the error that asking would give. */
__attribute__((noinline, cold)) static cudaError_t prepare_first(void)
{
    cudaError_t error = crmm_priv_floor_begin();

    if (error == cudaSuccess) {
        (void)pthread_once(&once, find_entries);
        error = __atomic_load_n(&ready, __ATOMIC_ACQUIRE) ? cudaSuccess : cudaErrorNotSupported;
    }
    return error;
}

static inline cudaError_t prepare(void)
{
    if (__builtin_expect(__atomic_load_n(&ready, __ATOMIC_ACQUIRE) &&
                             !__atomic_load_n(&crmm_priv_floor_closed, __ATOMIC_RELAXED),
                         1)) {
        return cudaSuccess;
    }
    return prepare_first();
}

static bool is_default_stream(crmm_stream stream)
{
    return stream == NULL || stream == CRMM_STREAM_LEGACY || stream == CRMM_STREAM_PER_THREAD;
}

/*
 * A default stream belongs to the thread's context, which the driver, unlike the runtime, does not
 * make. Asked beforehand, since tools report a driver call that fails.
 */
static cudaError_t need_context(crmm_stream stream)
{
    CUcontext context = NULL;
    int device = 0;
    cudaError_t error;

    if (!is_default_stream(stream) ||
        (driver.context_get(&context) == CUDA_SUCCESS && context != NULL)) {
        return cudaSuccess;
    }
    CALL(error, cudaGetDevice(&device));
    if (error == cudaSuccess) {
        CALL(error, cudaSetDevice(device));
    }
    return error;
}

/* ---- identity ---- */

/* Driver codes equal the runtime's where both have the error. */
static int check_capture(crmm_stream stream)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = driver.stream_capturing(stream, &state);

    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
        return CRMM_PRIV_CAPTURING;
    }
    if (result != CUDA_SUCCESS) {
        return (int)result;
    }
    return state == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : CRMM_PRIV_CAPTURING;
}

uint64_t crmm_priv_stream_id_of(crmm_stream stream)
{
    unsigned long long id = 0;
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = need_context(stream);
    }
    int code = error == cudaSuccess ? check_capture(stream) : (int)error;
    if (code == 0) {
        code = (int)driver.stream_id(stream, &id);
    }
    return code == 0 ? id : crmm_priv_no_stream_id(code);
}

int crmm_priv_stream_check_capture(crmm_stream stream)
{
    cudaError_t error = prepare();

    if (error == cudaSuccess) {
        error = need_context(stream);
    }
    return error != cudaSuccess ? (int)error : check_capture(stream);
}

/* ---- events ---- */

int crmm_priv_event_create(crmm_stream stream, crmm_priv_event *event)
{
    CUcontext before = NULL;
    CUcontext own = NULL;
    cudaError_t error = prepare();

    if (error != cudaSuccess) {
        return (int)error;
    }
    if (!is_default_stream(stream)) {
        CUresult result = driver.stream_context(stream, &own);
        if (result == CUDA_SUCCESS) {
            result = driver.context_get(&before);
        }
        if (result == CUDA_SUCCESS && before != own) {
            result = driver.context_set(own);
        }
        if (result != CUDA_SUCCESS) {
            return (int)result;
        }
    }
    CALL_BESIDE_CAPTURES(error, cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    if (before != own) {
        (void)driver.context_set(before);
    }
    return (int)error;
}

int crmm_priv_event_destroy(crmm_priv_event event)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaEventDestroy(event));
    /* The program is ending and the event with it. */
    return error == cudaErrorCudartUnloading ? 0 : (int)error;
}

int crmm_priv_event_record(crmm_priv_event event, crmm_stream stream)
{
    cudaError_t error = prepare();

    return error != cudaSuccess ? (int)error : (int)driver.record(event, stream);
}

/* In the thread's relaxed mode the question does not touch anybody's capture. */
static int ask_relaxed(CUresult (*ask)(CUevent), crmm_priv_event event)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    cudaError_t error = prepare();

    if (error != cudaSuccess) {
        return (int)error;
    }
    error = cudaThreadExchangeStreamCaptureMode(&mode);
    CUresult result = ask(event);
    if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess || error != cudaSuccess) {
        (void)cudaGetLastError(); /* whatever was pending, this error has taken its place */
    }
    return (int)result;
}

int crmm_priv_event_query(crmm_priv_event event)
{
    cudaError_t error = prepare();
    return error != cudaSuccess ? (int)error : ask_relaxed(driver.query, event);
}

int crmm_priv_event_synchronize(crmm_priv_event event)
{
    cudaError_t error = prepare();
    return error != cudaSuccess ? (int)error : ask_relaxed(driver.synchronize, event);
}

int crmm_priv_stream_wait_event(crmm_stream stream, crmm_priv_event event)
{
    cudaError_t error = prepare();

    return error != cudaSuccess ? (int)error : (int)driver.wait(stream, event, 0);
}

/* A free that waits. One that failed is made again, so that the block is not lost. */
static cudaError_t free_waiting(void *block)
{
    cudaError_t error;

    CALL_BESIDE_CAPTURES(error, cudaFree(block));
    if (error != cudaSuccess) {
        CALL_BESIDE_CAPTURES(error, cudaFree(block));
    }
    return error;
}

int crmm_priv_device_wait(void)
{
    void *block = NULL;
    cudaError_t error;

    /* A free waits for every stream of the device, and is legal beside a capture, where a
     * synchronise would spoil it. CUDA C++ Programming Guide, 4.3.1. */
    CALL_BESIDE_CAPTURES(error, cudaMalloc(&block, 1));
    if (error == cudaSuccess) {
        return (int)free_waiting(block);
    }
    CALL_BESIDE_CAPTURES(error, cudaDeviceSynchronize());
    return (int)error;
}
