/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/floor.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <crmm/core/version.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/held.h>
#include <crmm/internal/host_memory.h>
#include <crmm/internal/log.h>
#include <crmm/internal/report.h>

#include "floor_call.h"

/* ---- the process ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool forked;  /* CUDA was used before the fork that made this process */
static bool exiting; /* the program has begun to exit */

bool crmm_priv_floor_closed;

static void note_fork(void)
{
    __atomic_store_n(&forked, true, __ATOMIC_RELAXED);
    __atomic_store_n(&crmm_priv_floor_closed, true, __ATOMIC_RELAXED);
}

static void note_exit(void)
{
    __atomic_store_n(&exiting, true, __ATOMIC_RELAXED);
    __atomic_store_n(&crmm_priv_floor_closed, true, __ATOMIC_RELAXED);
}

/* After the runtime's own: handlers run in reverse order, and ours must come first. */
static void set_up(void)
{
    int count = 0;

    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        /* No driver or no device. The call that follows says so. */
        (void)cudaGetLastError();
    }
    (void)atexit(note_exit);
    (void)pthread_atfork(NULL, NULL, note_fork);
}

/* Not within set_up(): whoever gets the message may call the library. */
static void announce(void)
{
    static bool announced;

    if (!__atomic_load_n(&announced, __ATOMIC_RELAXED) &&
        !__atomic_exchange_n(&announced, true, __ATOMIC_RELAXED)) {
        LOG(CRMM_LOG_LEVEL_DEBUG, "CUDA is in use, by the runtime \"%s\"",
            crmm_cuda_runtime_name());
    }
}

cudaError_t crmm_priv_floor_begin(void)
{
    if (__atomic_load_n(&forked, __ATOMIC_RELAXED)) {
        return cudaErrorInitializationError;
    }
    if (__atomic_load_n(&exiting, __ATOMIC_RELAXED)) {
        return cudaErrorCudartUnloading;
    }
    (void)pthread_once(&once, set_up);
    announce();
    return cudaSuccess;
}

cudaError_t crmm_priv_floor_settle(cudaError_t pending, cudaError_t error)
{
    if (error != cudaSuccess && pending == cudaSuccess) {
        (void)cudaGetLastError();
    }
    return error;
}

/* ---- errors ---- */

const char *crmm_priv_cuda_error_name(int code)
{
    /* This one is met when CUDA must not be called any more. */
    return code == cudaErrorCudartUnloading ? "cudaErrorCudartUnloading"
                                            : cudaGetErrorName((cudaError_t)code);
}

const char *crmm_priv_cuda_error_text(int code)
{
    if (code == cudaErrorCudartUnloading) {
        return "the program is ending";
    }
    return crmm_priv_cuda_is_forked(code) ? "CUDA cannot be used in a forked child"
                                          : cudaGetErrorString((cudaError_t)code);
}

bool crmm_priv_cuda_is_forked(int code)
{
    return code == cudaErrorInitializationError && __atomic_load_n(&forked, __ATOMIC_RELAXED);
}

static bool is_capture_error(cudaError_t error)
{
    return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

/* What a failure means, where `otherwise` is what it means if it is nothing special. */
static crmm_status status_of(cudaError_t error, crmm_status otherwise)
{
    if (crmm_priv_cuda_is_forked((int)error)) {
        return CRMM_ERROR_FORKED;
    }
    if (error == cudaErrorNotSupported || is_capture_error(error)) {
        return CRMM_ERROR_UNSUPPORTED;
    }
    return otherwise;
}

crmm_status crmm_priv_floor_check(const char *call, cudaError_t error)
{
    if (error == cudaSuccess) {
        return CRMM_SUCCESS;
    }
    return FAIL(status_of(error, CRMM_ERROR_CUDA), (int)error, "%s failed: %s (%s)", call,
                crmm_priv_cuda_error_name((int)error), crmm_priv_cuda_error_text((int)error));
}

crmm_status crmm_priv_cuda_check(const char *call, int code)
{
    return crmm_priv_floor_check(call, (cudaError_t)code);
}

crmm_status crmm_priv_floor_check_allocation(const char *who, const char *call, size_t bytes,
                                             cudaError_t error)
{
    if (error == cudaSuccess) {
        crmm_priv_held_add(bytes);
        return CRMM_SUCCESS;
    }
    crmm_status failed =
        error == cudaErrorMemoryAllocation ? CRMM_ERROR_OUT_OF_MEMORY : CRMM_ERROR_BAD_ALLOC;
    return FAIL_BYTES(status_of(error, failed), (int)error, bytes,
                      "%s: %s of %zu bytes failed: %s (%s)", who, call, bytes,
                      crmm_priv_cuda_error_name((int)error), crmm_priv_cuda_error_text((int)error));
}

/* ---- devices ---- */

crmm_status crmm_priv_cuda_device_count(int *count)
{
    cudaError_t error;
    CALL(error, cudaGetDeviceCount(count));
    return crmm_priv_floor_check("cudaGetDeviceCount", error);
}

int crmm_priv_cuda_try_current_device(int *device)
{
    cudaError_t error;
    CALL(error, cudaGetDevice(device));
    return (int)error;
}

crmm_status crmm_priv_cuda_current_device(int *device)
{
    return crmm_priv_floor_check("cudaGetDevice",
                                 (cudaError_t)crmm_priv_cuda_try_current_device(device));
}

crmm_status crmm_priv_cuda_set_device(int device)
{
    cudaError_t error;
    CALL(error, cudaSetDevice(device));
    return crmm_priv_floor_check("cudaSetDevice", error);
}

/* Whether the current device's memory is the host's; no error: what is not known is answered no. */
static bool is_integrated(void)
{
    int device = 0;
    int value = 0;
    cudaError_t error;

    CALL(error, cudaGetDevice(&device));
    if (error == cudaSuccess) {
        CALL(error, cudaDeviceGetAttribute(&value, cudaDevAttrIntegrated, device));
    }
    return error == cudaSuccess && value == 1;
}

/* On a device that shares the host's memory CUDA counts the pages of files as used, which the
 * system drops when somebody needs memory. */
crmm_status crmm_priv_cuda_memory(size_t *free_bytes, size_t *total_bytes)
{
    size_t available = 0;
    cudaError_t error;

    CALL(error, cudaMemGetInfo(free_bytes, total_bytes));
    if (error == cudaSuccess && is_integrated() && crmm_priv_host_available(&available)) {
        available = available < *total_bytes ? available : *total_bytes;
        *free_bytes = available > *free_bytes ? available : *free_bytes;
    }
    return crmm_priv_floor_check("cudaMemGetInfo", error);
}

bool crmm_priv_cuda_reaches_pageable(int device)
{
    int value = 0;
    cudaError_t error;
    CALL(error, cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccess, device));
    return error == cudaSuccess && value == 1;
}

int crmm_priv_cuda_device_uuid(int device, unsigned char uuid[16])
{
    struct cudaDeviceProp properties;
    cudaError_t error;

    CALL(error, cudaGetDeviceProperties(&properties, device));
    if (error == cudaSuccess) {
        memcpy(uuid, properties.uuid.bytes, 16);
    }
    return (int)error;
}

int crmm_priv_cuda_try_enter_device(int device, int *previous)
{
    int current = -1;
    cudaError_t error;

    *previous = -1;
    if (device < 0) {
        return cudaSuccess;
    }
    CALL(error, cudaGetDevice(&current));
    if (error == cudaSuccess && current != device) {
        CALL(error, cudaSetDevice(device));
        *previous = error == cudaSuccess ? current : -1;
    }
    /* While the program ends no call that follows does anything, so any device will do. */
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

static bool is_default_stream(crmm_stream stream)
{
    return stream == NULL || stream == CRMM_STREAM_LEGACY || stream == CRMM_STREAM_PER_THREAD;
}

int crmm_priv_cuda_try_enter_for_stream(int device, crmm_stream stream, int *previous)
{
    return crmm_priv_cuda_try_enter_device(is_default_stream(stream) ? device : -1, previous);
}

crmm_status crmm_priv_cuda_enter_device(int device, int *previous)
{
    return crmm_priv_floor_check("cudaSetDevice",
                                 (cudaError_t)crmm_priv_cuda_try_enter_device(device, previous));
}

void crmm_priv_cuda_leave_device(int previous)
{
    cudaError_t error;

    if (previous < 0) {
        return;
    }
    CALL(error, cudaSetDevice(previous));
    if (error != cudaSuccess && error != cudaErrorCudartUnloading) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_CUDA, .native_code = (int)error},
                         "device %d cannot be made current again: %s (%s)", previous,
                         crmm_priv_cuda_error_name((int)error),
                         crmm_priv_cuda_error_text((int)error));
    }
}

crmm_status crmm_priv_cuda_ready(const char *who)
{
    cudaError_t error = crmm_priv_floor_begin();

    return error == cudaSuccess
               ? CRMM_SUCCESS
               : FAIL(status_of(error, CRMM_ERROR_CUDA), (int)error, "%s: %s (%s)", who,
                      crmm_priv_cuda_error_name((int)error), crmm_priv_cuda_error_text((int)error));
}

static enum cudaDeviceAttr attribute_of(crmm_priv_cuda_capability capability)
{
    switch (capability) {
    case CRMM_PRIV_CUDA_CONCURRENT_MANAGED_ACCESS:
        return cudaDevAttrConcurrentManagedAccess;
    case CRMM_PRIV_CUDA_HOST_REGISTER:
        return cudaDevAttrHostRegisterSupported;
    case CRMM_PRIV_CUDA_REGISTERED_HOST_POINTER:
        return cudaDevAttrCanUseHostPointerForRegisteredMem;
    }
    return (enum cudaDeviceAttr)0;
}

/* What a device says of itself; `value` stays where the driver has not heard of it. */
static crmm_status ask_attribute(const char *who, int device, enum cudaDeviceAttr attribute,
                                 int *value)
{
    int found = 0;
    cudaError_t error;

    CALL(error, cudaDeviceGetAttribute(&found, attribute, device));
    if (error == cudaErrorInvalidDevice) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, (int)error, "%s: there is no device %d", who,
                    device);
    }
    if (error == cudaErrorInvalidValue || error == cudaErrorNotSupported) {
        return CRMM_SUCCESS;
    }
    crmm_status status = crmm_priv_floor_check("cudaDeviceGetAttribute", error);
    if (status == CRMM_SUCCESS) {
        *value = found;
    }
    return status;
}

crmm_status crmm_priv_cuda_device_can(const char *who, int device,
                                      crmm_priv_cuda_capability capability, bool *can)
{
    int value = 0;

    crmm_status status = ask_attribute(who, device, attribute_of(capability), &value);
    if (status == CRMM_SUCCESS) {
        *can = value != 0;
    }
    return status;
}

/* cudaDevAttrHostNumaId, which toolkits have from 12.2 on. */
#define HOST_NUMA_ID ((enum cudaDeviceAttr)134)

crmm_status crmm_priv_cuda_host_node(const char *who, int device, int *node)
{
    int value = -1;

    crmm_status status = ask_attribute(who, device, HOST_NUMA_ID, &value);
    if (status == CRMM_SUCCESS) {
        *node = value;
    }
    return status;
}

/* ---- memory ---- */

crmm_status crmm_priv_cuda_malloc(const char *who, size_t bytes, void **ptr)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaMalloc(ptr, bytes));
    return crmm_priv_floor_check_allocation(who, "cudaMalloc", bytes, error);
}

crmm_status crmm_priv_cuda_malloc_managed(const char *who, size_t bytes, void **ptr)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaMallocManaged(ptr, bytes, cudaMemAttachGlobal));
    return crmm_priv_floor_check_allocation(who, "cudaMallocManaged", bytes, error);
}

crmm_status crmm_priv_cuda_host_alloc(const char *who, size_t bytes, bool write_combined,
                                      void **ptr)
{
    const unsigned flags =
        write_combined ? cudaHostAllocPortable | cudaHostAllocWriteCombined : cudaHostAllocPortable;
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaHostAlloc(ptr, bytes, flags));
    return crmm_priv_floor_check_allocation(who, "cudaHostAlloc", bytes, error);
}

crmm_status crmm_priv_cuda_host_register(const char *who, void *ptr, size_t bytes)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaHostRegister(ptr, bytes, cudaHostRegisterPortable));
    return crmm_priv_floor_check_allocation(who, "cudaHostRegister", bytes, error);
}

/* What a free has come to: while the program ends, the memory ends with it. */
static int check_free(cudaError_t error, size_t bytes)
{
    if (error == cudaErrorCudartUnloading) {
        return cudaSuccess;
    }
    if (error == cudaSuccess) {
        crmm_priv_held_subtract(bytes);
    }
    return (int)error;
}

int crmm_priv_cuda_free(void *ptr, size_t bytes)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaFree(ptr));
    return check_free(error, bytes);
}

int crmm_priv_cuda_host_unregister(void *ptr, size_t bytes)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaHostUnregister(ptr));
    return check_free(error, bytes);
}

int crmm_priv_cuda_host_free(void *ptr, size_t bytes)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaFreeHost(ptr));
    return check_free(error, bytes);
}

crmm_status crmm_priv_cuda_copy_async(void *destination, const void *source, size_t bytes,
                                      crmm_stream stream)
{
    cudaError_t error;
    CALL(error, cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream));
    return crmm_priv_floor_check("cudaMemcpyAsync", error);
}

crmm_status crmm_priv_cuda_memset_async(void *ptr, int byte, size_t bytes, crmm_stream stream)
{
    cudaError_t error;
    CALL(error, cudaMemsetAsync(ptr, byte, bytes, stream));
    return crmm_priv_floor_check("cudaMemsetAsync", error);
}

#if CUDART_VERSION >= 13000

static struct cudaMemLocation location_of(int device)
{
    struct cudaMemLocation location = {.type = cudaMemLocationTypeDevice, .id = device};
    if (device == CRMM_PRIV_HOST_DEVICE) {
        location = (struct cudaMemLocation){.type = cudaMemLocationTypeHost};
    }
    return location;
}

static cudaError_t prefetch(const void *ptr, size_t bytes, int device, crmm_stream stream)
{
    return cudaMemPrefetchAsync(ptr, bytes, location_of(device), 0, stream);
}

static cudaError_t prefer_location(const void *ptr, size_t bytes, int device)
{
    return cudaMemAdvise(ptr, bytes, cudaMemAdviseSetPreferredLocation, location_of(device));
}

#else

_Static_assert(CRMM_PRIV_HOST_DEVICE == cudaCpuDeviceId, "older toolkits take the number itself");

static cudaError_t prefetch(const void *ptr, size_t bytes, int device, crmm_stream stream)
{
    return cudaMemPrefetchAsync(ptr, bytes, device, stream);
}

static cudaError_t prefer_location(const void *ptr, size_t bytes, int device)
{
    return cudaMemAdvise(ptr, bytes, cudaMemAdviseSetPreferredLocation, device);
}

#endif

crmm_status crmm_priv_cuda_prefetch(const void *ptr, size_t bytes, int device, crmm_stream stream)
{
    cudaError_t error;
    CALL(error, prefetch(ptr, bytes, device, stream));
    return crmm_priv_floor_check("cudaMemPrefetchAsync", error);
}

crmm_status crmm_priv_cuda_prefetch_if_managed(const void *ptr, size_t bytes, int device,
                                               crmm_stream stream, bool *queued)
{
    cudaError_t error;
    CALL(error, prefetch(ptr, bytes, device, stream));
    *queued = error == cudaSuccess;
    return error == cudaErrorInvalidValue ? CRMM_SUCCESS
                                          : crmm_priv_floor_check("cudaMemPrefetchAsync", error);
}

crmm_status crmm_priv_cuda_prefer_location(const void *ptr, size_t bytes, int device)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, prefer_location(ptr, bytes, device));
    return crmm_priv_floor_check("cudaMemAdvise", error);
}

/* ---- streams ----
 * Identity and capture state are asked on hot paths, so they go through the driver's entry points,
 * which cost a fraction of the runtime's calls and have no last error. */

typedef CUresult (*current_context_call)(CUcontext *);
typedef CUresult (*stream_id_call)(CUstream, unsigned long long *);
typedef CUresult (*stream_capturing_call)(CUstream, CUstreamCaptureStatus *);
typedef CUresult (*context_device_call)(CUdevice *);
typedef CUresult (*device_get_call)(CUdevice *, int);

static pthread_once_t entries_once = PTHREAD_ONCE_INIT;
static current_context_call current_context;
static stream_id_call stream_id;
static stream_capturing_call stream_capturing;
static context_device_call context_device; /* NULL too where its answer is not the ordinal */

void *crmm_priv_floor_entry(const char *name)
{
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *entry = NULL;
    cudaError_t error;

#if CUDART_VERSION >= 12050
    CALL(error, cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found));
#else
    CALL(error, cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found));
#endif
    return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? entry : NULL;
}

/* Whether the driver's name of each device is its ordinal; so it is, but nobody promises it. */
static bool devices_are_ordinals(void)
{
    device_get_call device_get = NULL;
    CUdevice device = 0;
    cudaError_t error;
    int count = 0;

    *(void **)&device_get = crmm_priv_floor_entry("cuDeviceGet");
    CALL(error, cudaGetDeviceCount(&count));
    bool same = error == cudaSuccess && device_get != NULL;
    for (int i = 0; same && i < count; i++) {
        same = device_get(&device, i) == CUDA_SUCCESS && device == i;
    }
    return same;
}

static void find_entries(void)
{
    /* POSIX lets an object pointer be a function's; C does not say how to write it. */
    *(void **)&current_context = crmm_priv_floor_entry("cuCtxGetCurrent");
    *(void **)&stream_id = crmm_priv_floor_entry("cuStreamGetId");
    *(void **)&stream_capturing = crmm_priv_floor_entry("cuStreamIsCapturing");
    if (devices_are_ordinals()) {
        *(void **)&context_device = crmm_priv_floor_entry("cuCtxGetDevice");
    }
}

/* Driver codes equal the runtime's where both have the error. */
static cudaError_t from_driver(CUresult result)
{
    return (cudaError_t)(int)result;
}

/* Whether this thread had a context when it asked last; without one the driver's call would fail,
 * and tools report that. */
static __thread bool had_context __attribute__((tls_model("initial-exec")));

__attribute__((noinline)) static bool has_context(void)
{
    CUcontext context = NULL;

    if (crmm_priv_floor_begin() != cudaSuccess) {
        return false;
    }
    (void)pthread_once(&entries_once, find_entries);
    had_context = context_device != NULL && current_context != NULL &&
                  current_context(&context) == CUDA_SUCCESS && context != NULL;
    return had_context;
}

bool crmm_priv_cuda_knows_device(int *device)
{
    CUdevice current = 0;

    if (__atomic_load_n(&crmm_priv_floor_closed, __ATOMIC_RELAXED) ||
        (!had_context && !has_context())) {
        return false;
    }
    if (context_device(&current) != CUDA_SUCCESS) {
        had_context = false;
        return false;
    }
    *device = current;
    return true;
}

/*
 * Make sure that the driver can tell about a stream. A default stream belongs to the thread's
 * context, which the driver, unlike the runtime, does not make; others know their own. Asked
 * beforehand, since tools report a driver call that fails, even where its caller is not surprised.
 */
static cudaError_t prepare_driver(crmm_stream stream)
{
    CUcontext context = NULL;
    int device = 0;
    cudaError_t error;

    (void)pthread_once(&entries_once, find_entries);
    if (!is_default_stream(stream) || current_context == NULL ||
        (current_context(&context) == CUDA_SUCCESS && context != NULL)) {
        return cudaSuccess;
    }
    CALL(error, cudaGetDevice(&device));
    if (error == cudaSuccess) {
        CALL(error, cudaSetDevice(device));
    }
    return error;
}

static cudaError_t ask_capturing(crmm_stream stream, CUstreamCaptureStatus *state)
{
    enum cudaStreamCaptureStatus runtime_state = cudaStreamCaptureStatusNone;
    cudaError_t error;

    if (stream_capturing != NULL) {
        return from_driver(stream_capturing(stream, state));
    }
    CALL(error, cudaStreamIsCapturing(stream, &runtime_state));
    *state = (CUstreamCaptureStatus)(int)runtime_state;
    return error;
}

int crmm_priv_cuda_capturing(crmm_stream stream, bool *capturing)
{
    CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
    cudaError_t error = crmm_priv_floor_begin();

    *capturing = false;
    if (error == cudaErrorCudartUnloading) {
        return cudaSuccess; /* nothing is captured while the program ends */
    }
    if (error != cudaSuccess) {
        return (int)error;
    }
    error = prepare_driver(stream);
    if (error == cudaSuccess) {
        error = ask_capturing(stream, &state);
    }
    if (error == cudaErrorStreamCaptureImplicit) {
        *capturing = true;
        return cudaSuccess;
    }
    *capturing = error == cudaSuccess && state != CU_STREAM_CAPTURE_STATUS_NONE;
    return (int)error;
}

crmm_status crmm_priv_cuda_stream_failed(const char *who, crmm_stream stream, int code)
{
    return FAIL(status_of((cudaError_t)code, CRMM_ERROR_CUDA), code,
                "%s: CUDA cannot tell about stream %p: %s (%s)", who, (void *)stream,
                crmm_priv_cuda_error_name(code), crmm_priv_cuda_error_text(code));
}

static cudaError_t ask_id(crmm_stream stream, unsigned long long *id)
{
    cudaError_t error;

    if (stream_id != NULL) {
        return from_driver(stream_id(stream, id));
    }
    CALL(error, cudaStreamGetId(stream, id));
    return error;
}

crmm_status crmm_priv_cuda_stream_id(crmm_stream stream, uint64_t *id)
{
    unsigned long long found = 0;
    cudaError_t error = crmm_priv_floor_begin();

    if (error == cudaSuccess) {
        error = prepare_driver(stream);
    }
    if (error == cudaSuccess) {
        error = ask_id(stream, &found);
    }
    if (error == cudaSuccess) {
        *id = found;
    }
    return crmm_priv_floor_check("cuStreamGetId", error);
}

crmm_status crmm_priv_cuda_stream_synchronize(crmm_stream stream)
{
    bool capturing = false;

    /* Asked first: waiting for a stream that is being captured would kill the capture. */
    int code = crmm_priv_cuda_capturing(stream, &capturing);
    if (code == 0 && capturing) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "stream %p is being captured, which forbids waiting for it", (void *)stream);
    }
    if (code == 0) {
        code = crmm_priv_cuda_wait(stream);
    }
    return crmm_priv_floor_check("cudaStreamSynchronize", (cudaError_t)code);
}

int crmm_priv_cuda_wait(crmm_stream stream)
{
    cudaError_t error;
    CALL_BESIDE_CAPTURES(error, cudaStreamSynchronize(stream));
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

crmm_status crmm_priv_cuda_stream_create(bool non_blocking, crmm_stream *stream)
{
    cudaError_t error;
    CALL(error, cudaStreamCreateWithFlags(stream, non_blocking ? cudaStreamNonBlocking
                                                               : cudaStreamDefault));
    return crmm_priv_floor_check("cudaStreamCreateWithFlags", error);
}

int crmm_priv_cuda_stream_destroy(crmm_stream stream)
{
    cudaError_t error;
    CALL(error, cudaStreamDestroy(stream));
    /* The program is ending and the stream with it. */
    return error == cudaErrorCudartUnloading ? (int)cudaSuccess : (int)error;
}

/* Both or neither must be captured: an event cannot lead into a capture, and one that leads out of
 * it would draw the other stream in. CUDA's own refusal would kill the capture. */
static crmm_status check_captures(crmm_stream earlier, crmm_stream later)
{
    bool first = false;
    bool second = false;

    int code = crmm_priv_cuda_capturing(earlier, &first);
    if (code == 0) {
        code = crmm_priv_cuda_capturing(later, &second);
    }
    if (code != 0) {
        return crmm_priv_floor_check("asking for the capture state", (cudaError_t)code);
    }
    return first == second ? CRMM_SUCCESS
                           : FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                                  "stream %p cannot be ordered after stream %p: only the %s is "
                                  "being captured",
                                  (void *)later, (void *)earlier, first ? "latter" : "former");
}

crmm_status crmm_priv_cuda_order_streams(crmm_stream earlier, crmm_stream later)
{
    cudaEvent_t event = NULL;
    cudaError_t error;

    crmm_status status = check_captures(earlier, later);
    if (status != CRMM_SUCCESS) {
        return status;
    }

    CALL(error, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (error != cudaSuccess) {
        return crmm_priv_floor_check("cudaEventCreateWithFlags", error);
    }
    CALL(error, cudaEventRecord(event, earlier));
    status = crmm_priv_floor_check("cudaEventRecord", error);
    if (status == CRMM_SUCCESS) {
        CALL(error, cudaStreamWaitEvent(later, event, 0));
        status = crmm_priv_floor_check("cudaStreamWaitEvent", error);
    }
    /* The wait keeps what it needs; a destroy that fails has an earlier fault as its cause, which
     * the next call returns. */
    CALL(error, cudaEventDestroy(event));
    (void)error;
    return status;
}
