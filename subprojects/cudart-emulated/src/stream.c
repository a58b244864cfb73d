/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: handles, the three that need none, waiting and asking. */
#include "emulated.h"

#include <stdlib.h>

#define GREATEST_PRIORITY (-5)

struct stream *stream_new(struct device *device, unsigned flags, int priority)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return NULL;
    }
    stream->device = device;
    stream->id = ++engine.next_stream_id;
    stream->flags = flags;
    stream->priority = priority;
    stream->blocking = (flags & cudaStreamNonBlocking) == 0;
    stream->next = device->streams;
    if (stream->next != NULL) {
        stream->next->prev = stream;
    }
    device->streams = stream;
    checker_stream_new(stream);
    return stream;
}

/* A destroyed stream lives on until its work is done. */
void stream_unlink_if_drained(struct stream *stream)
{
    if (!stream->destroyed || stream->head != NULL || stream->waiters != 0) {
        return;
    }
    engine_forget_stream(stream);
    if (stream->prev != NULL) {
        stream->prev->next = stream->next;
    } else {
        stream->device->streams = stream->next;
    }
    if (stream->next != NULL) {
        stream->next->prev = stream->prev;
    }
    checker_stream_free(stream);
    free(stream->frontier);
    free(stream);
}

static struct stream *legacy(struct device *device)
{
    if (device->legacy == NULL) {
        device->legacy = stream_new(device, 0, 0);
        if (device->legacy != NULL) {
            device->legacy->legacy = true;
            device->legacy->blocking = false;
        }
    }
    return device->legacy;
}

struct stream *stream_per_thread(struct thread_state *thread, struct device *device)
{
    struct stream **slot = &thread->per_thread[device->id];
    if (thread->rounds[device->id] != device->round) { /* a reset took it away */
        thread->rounds[device->id] = device->round;
        *slot = NULL;
    }
    if (*slot == NULL) {
        legacy(device);
        *slot = stream_new(device, 0, 0);
        if (*slot != NULL) {
            (*slot)->per_thread = true;
        }
    }
    return *slot;
}

void stream_thread_exit(struct thread_state *thread)
{
    for (int d = 0; d < MAX_DEVICES; d++) {
        struct stream *stream = thread->per_thread[d];
        if (stream != NULL && thread->rounds[d] == devices[d].round) {
            stream->destroyed = true;
            capture_forget_stream(stream);
            stream_unlink_if_drained(stream);
        }
    }
}

cudaError_t stream_find(cudaStream_t handle, struct stream **stream)
{
    if (handle == NULL || handle == cudaStreamLegacy) {
        *stream = legacy(current_device());
    } else if (handle == cudaStreamPerThread) {
        *stream = stream_per_thread(thread_state(), current_device());
    } else {
        struct CUstream_st *found = handle_check(HANDLE_STREAM, handle);
        if (found == NULL) {
            return cudaErrorInvalidResourceHandle;
        }
        *stream = found->stream;
    }
    return *stream == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

static cudaError_t create(cudaStream_t *handle, unsigned flags, int priority)
{
    if (handle == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0) {
        return cudaErrorInvalidValue;
    }
    if (legacy(current_device()) == NULL) {
        return cudaErrorMemoryAllocation;
    }
    priority = priority > 0 ? 0 : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY : priority;
    struct CUstream_st *made = handle_new(HANDLE_STREAM);
    if (made == NULL) {
        return cudaErrorMemoryAllocation;
    }
    made->stream = stream_new(current_device(), flags, priority);
    if (made->stream == NULL) {
        handle_free(HANDLE_STREAM, made);
        return cudaErrorMemoryAllocation;
    }
    made->stream->handle = made;
    *handle = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    BEGIN(cudaStreamCreate, 0);
    END(create(pStream, 0, 0));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    BEGIN(cudaStreamCreateWithFlags, 0);
    END(create(pStream, flags, 0));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    BEGIN(cudaStreamCreateWithPriority, 0);
    END(create(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    BEGIN(cudaStreamDestroy, 0);
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
        END(cudaErrorInvalidResourceHandle);
    }
    struct stream *found;
    err = stream_find(stream, &found);
    if (err != cudaSuccess) {
        END(err);
    }
    capture_forget_stream(found);
    handle_free(HANDLE_STREAM, stream);
    found->handle = NULL;
    found->destroyed = true;
    stream_unlink_if_drained(found);
    END(cudaSuccess);
}

/* Both waiting and asking are refused beside some captures, and end the captures of the stream. */
static cudaError_t may_look(struct stream *stream)
{
    if (stream->capture != NULL) {
        return capture_refuse(stream);
    }
    cudaError_t err = capture_guard_legacy(stream);
    return err != cudaSuccess ? err : capture_guard();
}

cudaError_t stream_synchronize(cudaStream_t handle)
{
    struct stream *stream;
    cudaError_t err = stream_find(handle, &stream);
    if (err == cudaSuccess) {
        err = may_look(stream);
    }
    if (err != cudaSuccess) {
        return err;
    }
    stream->waiters++; /* another thread may destroy it meanwhile */
    engine_wait_stream(stream);
    stream->waiters--;
    if (CHECKER_ON) {
        checker_join_host_stream(stream);
    }
    pool_stream_synchronized(stream);
    stream_unlink_if_drained(stream);
    return device_sticky();
}

cudaError_t stream_query(cudaStream_t handle)
{
    struct stream *stream;
    cudaError_t err = stream_find(handle, &stream);
    if (err == cudaSuccess) {
        err = may_look(stream);
    }
    if (err != cudaSuccess) {
        return err;
    }
    stream->waiters++;
    err = engine_query_stream(stream) ? cudaSuccess : cudaErrorNotReady;
    stream->waiters--;
    if (err == cudaSuccess && CHECKER_ON) {
        checker_join_host_stream(stream);
    }
    stream_unlink_if_drained(stream);
    return err == cudaSuccess ? device_sticky() : err;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    BEGIN(cudaStreamSynchronize, 0);
    END(stream_synchronize(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    BEGIN(cudaStreamQuery, 0);
    END(stream_query(stream));
}

cudaError_t cudaDeviceSynchronize(void)
{
    BEGIN(cudaDeviceSynchronize, 0);
    struct device *device = current_device();
    err = capture_guard_device(device);
    if (err != cudaSuccess) {
        END(err);
    }
    engine_wait_device(device);
    if (CHECKER_ON) {
        checker_join_host_device(device);
    }
    pool_device_synchronized(device);
    END(device_sticky());
}

/* A property of a stream; asking for one ends a capture, as on a GPU, unless configured away. */
static cudaError_t property(cudaStream_t handle, struct stream **stream)
{
    cudaError_t err = stream_find(handle, stream);
    if (err != cudaSuccess) {
        return err;
    }
    if ((*stream)->capture != NULL && !config.capture_queries_allowed) {
        return capture_refuse(*stream);
    }
    return capture_guard_legacy(*stream);
}

cudaError_t stream_get_id(cudaStream_t handle, unsigned long long *id)
{
    struct stream *stream;
    if (id == NULL) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = property(handle, &stream);
    if (err == cudaSuccess) {
        *id = stream->id;
    }
    return err;
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    BEGIN(cudaStreamGetId, 0);
    END(stream_get_id(hStream, streamId));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    BEGIN(cudaStreamGetFlags, 0);
    struct stream *stream;
    err = flags == NULL ? cudaErrorInvalidValue : property(hStream, &stream);
    if (err == cudaSuccess) {
        *flags = stream->flags;
    }
    END(err);
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    BEGIN(cudaStreamGetPriority, 0);
    struct stream *stream;
    err = priority == NULL ? cudaErrorInvalidValue : property(hStream, &stream);
    if (err == cudaSuccess) {
        *priority = stream->priority;
    }
    END(err);
}

#if CUDART_EMULATED_API_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    BEGIN(cudaStreamGetDevice, 0);
    struct stream *stream;
    err = device == NULL ? cudaErrorInvalidValue : property(hStream, &stream);
    if (err == cudaSuccess) {
        *device = stream->device->id;
    }
    END(err);
}
#endif

/* A device's queue has an end: who goes on waits until there is room. */
static void throttle(struct stream *stream, const struct work *work)
{
    bool counted =
        work->kind == WORK_MEMSET || work->kind == WORK_COPY || work->kind == WORK_KERNEL;
    stream->waiters++;
    while (counted && config.queue_depth != 0 && stream->pending >= config.queue_depth) {
        engine_wait_op(stream->head);
    }
    stream->waiters--;
}

/* What queues work asks first whether it may, then either captures it or queues it. */
cudaError_t stream_submit(struct stream *stream, const struct work *work, enum fn fn)
{
    if (stream->capture != NULL) {
        return capture_work(stream, work, NULL);
    }
    cudaError_t err = capture_guard_legacy(stream);
    if (err != cudaSuccess) {
        return err;
    }
    if (config.queue_depth != 0) {
        throttle(stream, work);
    }
    engine_enqueue(stream, work, fn);
    return cudaSuccess;
}

cudaError_t launch_host_func(cudaStream_t handle, cudaHostFn_t fn, void *user_data, enum fn id)
{
    struct stream *stream;
    if (fn == NULL) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = stream_find(handle, &stream);
    if (err != cudaSuccess) {
        return err;
    }
    const struct work work = {.kind = WORK_HOST, .fn = fn, .user_data = user_data};
    return stream_submit(stream, &work, id);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    BEGIN(cudaLaunchHostFunc, 0);
    engine_mischief();
    END(launch_host_func(stream, fn, userData, this_fn));
}
