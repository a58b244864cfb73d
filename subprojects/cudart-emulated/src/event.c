/* SPDX-License-Identifier: Apache-2.0 */
/* Events: each wait, query and synchronise binds to the record that is current at the call. */
#include "emulated.h"

static cudaError_t event_find(cudaEvent_t handle, struct CUevent_st **event)
{
    *event = handle_check(HANDLE_EVENT, handle);
    return *event == NULL ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

static cudaError_t create(cudaEvent_t *handle, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (handle == NULL || (flags & ~known) != 0) {
        return cudaErrorInvalidValue;
    }
    if ((flags & cudaEventInterprocess) != 0) {
        return (flags & cudaEventDisableTiming) == 0 ? cudaErrorInvalidValue
                                                     : cudaErrorNotSupported;
    }
    struct CUevent_st *event = handle_new(HANDLE_EVENT);
    if (event == NULL) {
        return cudaErrorMemoryAllocation;
    }
    event->flags = flags;
    event->device = current_device();
    *handle = event;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    BEGIN(cudaEventCreate, 0);
    END(create(event, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    BEGIN(cudaEventCreateWithFlags, 0);
    END(create(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    BEGIN(cudaEventDestroy, 0);
    struct CUevent_st *found;
    err = event_find(event, &found);
    if (err != cudaSuccess) {
        END(err);
    }
    capture_forget_event(found);
    op_release(found->record);
    handle_free(HANDLE_EVENT, found);
    END(cudaSuccess);
}

cudaError_t event_record(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags, enum fn fn)
{
    struct CUevent_st *event;
    struct stream *stream;
    if ((flags & ~(unsigned)cudaEventRecordExternal) != 0) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = event_find(handle, &event);
    if (err == cudaSuccess) {
        err = stream_find(stream_handle, &stream);
    }
    if (err != cudaSuccess) {
        return err;
    }
    if (event->device != stream->device) {
        return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != NULL) {
        return flags != 0 ? cudaErrorNotSupported : capture_record(stream, event);
    }
    if (flags != 0) {
        return cudaErrorIllegalState;
    }
    err = capture_guard_legacy(stream);
    if (err != cudaSuccess) {
        return err;
    }
    const struct work work = {.kind = WORK_RECORD,
                              .timed = (event->flags & cudaEventDisableTiming) == 0};
    struct op *record = op_retain(engine_enqueue(stream, &work, fn));
    capture_forget_event(event);
    op_release(event->record);
    event->record = record;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    BEGIN(cudaEventRecord, 0);
    engine_mischief();
    END(event_record(event, stream, 0, this_fn));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    BEGIN(cudaEventRecordWithFlags, 0);
    engine_mischief();
    END(event_record(event, stream, flags, this_fn));
}

cudaError_t stream_wait_event(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags,
                              enum fn fn)
{
    struct CUevent_st *event;
    struct stream *stream;
    bool captured = false;
    if ((flags & ~(unsigned)cudaEventWaitExternal) != 0) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = event_find(handle, &event);
    if (err == cudaSuccess) {
        err = stream_find(stream_handle, &stream);
    }
    if (err != cudaSuccess) {
        return err;
    }
    if (flags != 0) {
        return stream->capture != NULL ? cudaErrorNotSupported : cudaErrorIllegalState;
    }
    err = capture_wait(stream, event, &captured);
    if (err != cudaSuccess || captured) {
        return err;
    }
    err = capture_guard_legacy(stream);
    if (err != cudaSuccess) {
        return err;
    }
    /* Stream 0 is held by its blocking streams even where there is nothing to wait for. */
    const struct work work = {.kind = WORK_NOTHING};
    struct op *op = engine_enqueue(stream, &work, fn);
    if (event->record != NULL) {
        op_add_pred(op, event->record);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    BEGIN(cudaStreamWaitEvent, 0);
    engine_mischief();
    END(stream_wait_event(stream, event, flags, this_fn));
}

static cudaError_t may_look(cudaEvent_t handle, struct CUevent_st **event)
{
    cudaError_t err = event_find(handle, event);
    if (err == cudaSuccess) {
        err = capture_event_guard(*event);
    }
    return err == cudaSuccess ? capture_guard() : err;
}

cudaError_t event_query(cudaEvent_t handle)
{
    struct CUevent_st *event;
    cudaError_t err = may_look(handle, &event);
    if (err != cudaSuccess || event->record == NULL) {
        return err;
    }
    if (thread_state()->in_host_function && !op_done(event->record)) {
        return cudaErrorNotPermitted;
    }
    /* The event may be recorded again by another thread meanwhile. */
    struct op *record = op_retain(event->record);
    if (!op_done(record)) {
        engine_need(record->stream, record->seq);
        engine_query_pump();
    }
    err = op_done(record) ? cudaSuccess : cudaErrorNotReady;
    if (err == cudaSuccess && CHECKER_ON) {
        checker_join_host_op(record);
    }
    op_release(record);
    return err == cudaSuccess ? device_sticky() : err;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    BEGIN(cudaEventQuery, CALL_IN_HOST_FN);
    END(event_query(event));
}

cudaError_t event_synchronize(cudaEvent_t handle)
{
    struct CUevent_st *event;
    cudaError_t err = may_look(handle, &event);
    if (err != cudaSuccess || event->record == NULL) {
        return err;
    }
    /* The event may be recorded again or destroyed by another thread meanwhile. */
    struct op *record = op_retain(event->record);
    engine_wait_op(record);
    if (CHECKER_ON) {
        checker_join_host_op(record);
    }
    pool_op_synchronized(record);
    op_release(record);
    return device_sticky();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    BEGIN(cudaEventSynchronize, 0);
    END(event_synchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    BEGIN(cudaEventElapsedTime, 0);
    struct CUevent_st *from, *to;
    err = event_find(start, &from);
    if (err == cudaSuccess) {
        err = event_find(end, &to);
    }
    if (err != cudaSuccess) {
        END(err);
    }
    if (ms == NULL) {
        END(cudaErrorInvalidValue);
    }
    if (((from->flags | to->flags) & cudaEventDisableTiming) != 0 || from->record == NULL ||
        to->record == NULL || from->device != to->device) {
        END(cudaErrorInvalidResourceHandle);
    }
    struct op *const records[] = {from->record, to->record};
    for (int i = 0; i < 2; i++) {
        if (!op_done(records[i])) {
            engine_need(records[i]->stream, records[i]->seq);
        }
    }
    engine_pump_locked();
    if (!op_done(from->record) || !op_done(to->record)) {
        END(cudaErrorNotReady);
    }
    *ms = (float)(to->record->time - from->record->time);
    END(cudaSuccess);
}
