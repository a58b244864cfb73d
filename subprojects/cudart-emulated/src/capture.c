/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: what it records, what it forbids, and what ends it. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static struct capture *captures; /* those that have not ended */
static uint64_t next_capture_id = 1;

static void capture_release(struct capture *capture)
{
    if (--capture->refs == 0) {
        graph_release(capture->graph);
        free(capture);
    }
}

static bool forbids(const struct capture *capture, const struct thread_state *thread)
{
    if (capture->mode == cudaStreamCaptureModeRelaxed) {
        return false;
    }
    if (capture->thread == thread->id) {
        return true;
    }
    return capture->mode == cudaStreamCaptureModeGlobal &&
           thread->capture_mode == cudaStreamCaptureModeGlobal;
}

cudaError_t capture_guard(void)
{
    if (captures == NULL) {
        return cudaSuccess;
    }
    const struct thread_state *thread = thread_state();
    cudaError_t err = cudaSuccess;
    if (thread->capture_mode == cudaStreamCaptureModeRelaxed) {
        return cudaSuccess;
    }
    for (struct capture *c = captures; c != NULL; c = c->next) {
        if (forbids(c, thread)) {
            c->invalidated = true;
            err = cudaErrorStreamCaptureUnsupported;
        }
    }
    return err;
}

static struct capture *blocking_capture(const struct device *device)
{
    for (struct capture *c = captures; c != NULL; c = c->next) {
        for (struct stream *s = device->streams; s != NULL; s = s->next) {
            if (s->capture == c && s->blocking && !c->invalidated) {
                return c;
            }
        }
    }
    return NULL;
}

cudaError_t capture_guard_legacy(struct stream *stream)
{
    if (captures == NULL || !stream->legacy) {
        return cudaSuccess;
    }
    struct capture *capture = blocking_capture(stream->device);
    if (capture == NULL) {
        return cudaSuccess;
    }
    capture->invalidated = true;
    return cudaErrorStreamCaptureImplicit;
}

cudaError_t capture_refuse(struct stream *stream)
{
    if (stream->capture == NULL) {
        return cudaSuccess;
    }
    stream->capture->invalidated = true;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t capture_guard_device(struct device *device)
{
    cudaError_t err = cudaSuccess;
    for (struct capture *c = captures; c != NULL; c = c->next) {
        if (c->origin == NULL || c->origin->device == device) {
            c->invalidated = true;
            err = cudaErrorStreamCaptureUnsupported;
        }
    }
    return err;
}

cudaError_t capture_event_guard(struct CUevent_st *event)
{
    if (event->capture == NULL) {
        return cudaSuccess;
    }
    if (event->capture->ended) {
        return cudaErrorInvalidValue;
    }
    event->capture->invalidated = true;
    return cudaErrorCapturedEvent;
}

static void reserve_frontier(struct stream *stream, size_t count)
{
    if (count <= stream->frontier_capacity) {
        return;
    }
    count += 4;
    struct graph_node **grown = realloc(stream->frontier, count * sizeof(struct graph_node *));
    if (grown == NULL) {
        abort();
    }
    stream->frontier = grown;
    stream->frontier_capacity = count;
}

static void add_to_frontier(struct stream *stream, struct graph_node *node)
{
    for (size_t i = 0; i < stream->frontier_count; i++) {
        if (stream->frontier[i] == node) {
            return;
        }
    }
    reserve_frontier(stream, stream->frontier_count + 1);
    stream->frontier[stream->frontier_count++] = node;
}

static void enter(struct stream *stream, struct capture *capture)
{
    stream->capture = capture;
    stream->frontier_count = 0;
    capture->refs++;
}

static void leave(struct stream *stream)
{
    struct capture *capture = stream->capture;
    stream->capture = NULL;
    stream->frontier_count = 0;
    capture_release(capture);
}

cudaError_t capture_work(struct stream *stream, const struct work *work, void *result)
{
    struct capture *capture = stream->capture;
    if (capture->invalidated) {
        return cudaErrorStreamCaptureInvalidated;
    }
    struct graph_node *node =
        graph_add(capture->graph, work, stream->frontier, stream->frontier_count);
    if (node == NULL) {
        return cudaErrorMemoryAllocation;
    }
    stream->frontier_count = 0;
    add_to_frontier(stream, node);
    if (result != NULL) {
        memcpy(result, &node, sizeof(struct graph_node *));
    }
    return cudaSuccess;
}

void capture_forget_event(struct CUevent_st *event)
{
    if (event->capture == NULL) {
        return;
    }
    capture_release(event->capture);
    free(event->nodes);
    event->capture = NULL;
    event->nodes = NULL;
    event->node_count = 0;
}

cudaError_t capture_record(struct stream *stream, struct CUevent_st *event)
{
    struct capture *capture = stream->capture;
    if (capture->invalidated) {
        return cudaErrorStreamCaptureInvalidated;
    }
    size_t bytes = stream->frontier_count * sizeof(struct graph_node *);
    struct graph_node **nodes = bytes == 0 ? NULL : malloc(bytes);
    if (bytes != 0) {
        if (nodes == NULL) {
            return cudaErrorMemoryAllocation;
        }
        memcpy(nodes, stream->frontier, bytes);
    }
    capture->refs++;
    capture_forget_event(event);
    event->capture = capture;
    event->nodes = nodes;
    event->node_count = stream->frontier_count;
    return cudaSuccess;
}

cudaError_t capture_wait(struct stream *stream, struct CUevent_st *event, bool *done)
{
    struct capture *theirs = event->capture;
    if (theirs != NULL && theirs->ended) {
        return cudaErrorInvalidValue;
    }
    if (theirs == NULL) {
        if (stream->capture == NULL) {
            return cudaSuccess;
        }
        if (event->record != NULL) {
            stream->capture->invalidated = true;
            return cudaErrorStreamCaptureIsolation;
        }
        *done = true;
        return stream->capture->invalidated ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    }
    if (theirs->invalidated || (stream->capture != NULL && stream->capture->invalidated)) {
        return cudaErrorStreamCaptureInvalidated;
    }
    if (stream->legacy) {
        theirs->invalidated = true;
        return cudaErrorStreamCaptureImplicit;
    }
    if (stream->capture != NULL && stream->capture != theirs) {
        stream->capture->invalidated = true;
        theirs->invalidated = true;
        return cudaErrorStreamCaptureMerge;
    }
    if (stream->capture == NULL) {
        enter(stream, theirs);
    }
    for (size_t i = 0; i < event->node_count; i++) {
        add_to_frontier(stream, event->nodes[i]);
    }
    *done = true;
    return cudaSuccess;
}

static void unlink_capture(struct capture *capture)
{
    struct capture **at = &captures;
    while (*at != capture) {
        at = &(*at)->next;
    }
    *at = capture->next;
    capture->ended = true;
}

/* Takes every stream out of a capture that is over. */
static void dissolve(struct capture *capture)
{
    unlink_capture(capture);
    for (int d = 0; d < MAX_DEVICES; d++) {
        for (struct stream *s = devices[d].streams; s != NULL; s = s->next) {
            if (s->capture == capture) { /* the list's own reference outlasts these */
                s->capture = NULL;
                s->frontier_count = 0;
                capture->refs--;
            }
        }
    }
    capture_release(capture);
}

void capture_forget_stream(struct stream *stream)
{
    struct capture *capture = stream->capture;
    if (capture == NULL) {
        return;
    }
    capture->invalidated = true;
    if (capture->origin == stream) {
        capture->origin = NULL;
        dissolve(capture);
    } else {
        leave(stream);
    }
}

static void reach(struct graph_node *node)
{
    if (node->reached) {
        return;
    }
    node->reached = true;
    for (size_t i = 0; i < node->dep_count; i++) {
        reach(node->deps[i]);
    }
}

/* Whether the origin has waited for everything that other streams did in the capture. */
static bool joined(struct capture *capture)
{
    for (struct graph_node *n = capture->graph->first; n != NULL; n = n->next) {
        n->reached = false;
    }
    for (size_t i = 0; i < capture->origin->frontier_count; i++) {
        reach(capture->origin->frontier[i]);
    }
    for (const struct graph_node *n = capture->graph->first; n != NULL; n = n->next) {
        if (!n->reached) {
            return false;
        }
    }
    return true;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    BEGIN(cudaStreamBeginCapture, 0);
    struct stream *found;
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed) {
        END(cudaErrorInvalidValue);
    }
    err = stream_find(stream, &found);
    if (err != cudaSuccess) {
        END(err);
    }
    if (found->legacy) {
        END(cudaErrorStreamCaptureUnsupported);
    }
    if (found->capture != NULL) {
        END(cudaErrorIllegalState);
    }
    struct capture *capture = calloc(1, sizeof *capture);
    struct graph *graph = graph_new(found->device);
    if (capture == NULL || graph == NULL) {
        free(capture);
        graph_release(graph);
        END(cudaErrorMemoryAllocation);
    }
    capture->refs = 1;
    capture->id = next_capture_id++;
    capture->thread = thread_state()->id;
    capture->mode = mode;
    capture->origin = found;
    capture->graph = graph;
    capture->next = captures;
    captures = capture;
    enter(found, capture);
    END(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    BEGIN(cudaStreamEndCapture, 0);
    struct stream *found;
    if (pGraph == NULL) {
        END(cudaErrorInvalidValue);
    }
    err = stream_find(stream, &found);
    if (err != cudaSuccess) {
        END(err);
    }
    struct capture *capture = found->capture;
    if (capture == NULL) {
        END(cudaErrorIllegalState);
    }
    *pGraph = NULL;
    if (capture->origin != found) {
        capture->invalidated = true;
        END(cudaErrorStreamCaptureUnmatched);
    }
    struct CUgraph_st *handle = NULL;
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != thread_state()->id) {
        err = cudaErrorStreamCaptureWrongThread;
    } else if (capture->invalidated) {
        err = cudaErrorStreamCaptureInvalidated;
    } else if (!joined(capture)) {
        err = cudaErrorStreamCaptureUnjoined;
    } else if ((handle = handle_new(HANDLE_GRAPH)) == NULL) {
        err = cudaErrorMemoryAllocation;
    } else {
        handle->graph = capture->graph;
        capture->graph->refs++;
        *pGraph = handle;
    }
    dissolve(capture);
    END(err);
}

cudaError_t capture_status(cudaStream_t handle, int *status)
{
    struct stream *stream;
    if (status == NULL) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = stream_find(handle, &stream);
    if (err != cudaSuccess) {
        return err;
    }
    if (stream->legacy && captures != NULL && blocking_capture(stream->device) != NULL) {
        return cudaErrorStreamCaptureImplicit; /* and the capture goes on */
    }
    const struct capture *capture = stream->capture;
    *status = capture == NULL        ? cudaStreamCaptureStatusNone
              : capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                     : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    BEGIN(cudaStreamIsCapturing, 0);
    int status = 0;
    err = pCaptureStatus == NULL ? cudaErrorInvalidValue : capture_status(stream, &status);
    if (err == cudaSuccess) {
        *pCaptureStatus = (enum cudaStreamCaptureStatus)status;
    }
    END(err);
}

#if CUDART_EMULATED_API_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out)
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     size_t *numDependencies_out)
#endif
{
    BEGIN(cudaStreamGetCaptureInfo, 0);
    int status = 0;
#if CUDART_EMULATED_API_VERSION >= 13000
    const bool edges = edgeData_out != NULL;
#else
    const bool edges = false;
#endif
    if (graph_out != NULL || dependencies_out != NULL || edges) {
        END(cudaErrorNotSupported); /* captures cannot be edited here */
    }
    err = captureStatus_out == NULL ? cudaErrorInvalidValue : capture_status(stream, &status);
    if (err != cudaSuccess) {
        END(err);
    }
    *captureStatus_out = (enum cudaStreamCaptureStatus)status;
    struct stream *found;
    if (status == cudaStreamCaptureStatusActive && stream_find(stream, &found) == cudaSuccess) {
        if (id_out != NULL) {
            *id_out = found->capture->id;
        }
        if (numDependencies_out != NULL) {
            *numDependencies_out = found->frontier_count;
        }
    }
    END(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    BEGIN(cudaThreadExchangeStreamCaptureMode, 0);
    if (mode == NULL || (unsigned)*mode > cudaStreamCaptureModeRelaxed) {
        END(cudaErrorInvalidValue);
    }
    struct thread_state *thread = thread_state();
    enum cudaStreamCaptureMode before = thread->capture_mode;
    thread->capture_mode = *mode;
    *mode = before;
    END(cudaSuccess);
}
