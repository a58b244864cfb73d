/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch gives each branch of the graph a stream of its own, between an operation that opens
 * the graph on the launching stream and one that closes it, so that what the graph does not order
 * stays unordered.
 */
#include "graph.h"

#include <stdlib.h>

/* The lane of the node before, if this is the first to go on from it; else a new one. */
static struct stream *lane_for(struct graph_node *node)
{
    for (size_t i = 0; i < node->dep_count; i++) {
        struct graph_node *before = node->deps[i];
        if (!before->reached) {
            before->reached = true;
            return before->lane;
        }
    }
    struct stream *lane = stream_new(node->graph->device, cudaStreamNonBlocking, 0);
    if (lane != NULL) {
        lane->internal = true;
    }
    return lane;
}

static void share(struct work *work)
{
    if (work->kernel != NULL) {
        work->kernel->refs++;
    }
    work->keep_clock = true;
}

static void launch_node(struct graph_node *node, struct op *open, enum fn fn)
{
    struct work work = node->work;
    share(&work);
    node->lane = lane_for(node);
    if (node->lane == NULL) {
        abort();
    }
    node->reached = false;
    node->op = op_retain(engine_enqueue(node->lane, &work, fn));
    if (node->dep_count == 0) {
        op_add_pred(node->op, open);
    }
    for (size_t i = 0; i < node->dep_count; i++) {
        op_add_pred(node->op, node->deps[i]->op);
    }
}

/* Lanes end with the launch; their work still runs. */
static void close_lane(struct graph_node *node, struct op *closing)
{
    op_add_pred(closing, node->op);
    op_release(node->op);
    node->op = NULL;
    if (node->lane != NULL) {
        for (struct graph_node *n = node->next; n != NULL; n = n->next) {
            if (n->lane == node->lane) {
                return; /* the last node of the lane does it */
            }
        }
        node->lane->destroyed = true;
        stream_unlink_if_drained(node->lane);
    }
}

static void launch(struct CUgraphExec_st *exec, struct stream *stream, enum fn fn)
{
    struct graph *graph = exec->graph;
    const struct work mark = {.kind = WORK_NOTHING, .keep_clock = true};
    struct op *open = op_retain(engine_enqueue(stream, &mark, fn));
    if (exec->last != NULL) {
        op_add_pred(open, exec->last);
        op_release(exec->last);
    }
    for (struct graph_node *n = graph->first; n != NULL; n = n->next) {
        n->reached = false;
        launch_node(n, open, fn);
    }
    op_release(open);
    const struct work end = {.kind = WORK_NOTHING, .keep_clock = true, .graph = graph};
    graph->refs++;
    struct op *closing = engine_enqueue(stream, &end, fn);
    exec->last = op_retain(closing);
    for (struct graph_node *n = graph->first; n != NULL; n = n->next) {
        close_lane(n, closing);
    }
    for (struct graph_node *n = graph->first; n != NULL; n = n->next) {
        n->lane = NULL;
    }
}

cudaError_t graph_launch(cudaGraphExec_t handle, cudaStream_t stream_handle, enum fn fn)
{
    struct stream *stream;
    struct CUgraphExec_st *exec = handle_check(HANDLE_EXEC, handle);
    if (exec == NULL) {
        return cudaErrorInvalidValue;
    }
    cudaError_t err = stream_find(stream_handle, &stream);
    if (err != cudaSuccess) {
        return err;
    }
    if (stream->capture != NULL) {
        return cudaErrorNotSupported; /* a graph inside a graph */
    }
    err = capture_guard_legacy(stream);
    if (err == cudaSuccess) {
        err = graph_memory_launch(exec->graph, exec->flags);
    }
    if (err == cudaSuccess) {
        launch(exec, stream, fn);
    }
    return err;
}
