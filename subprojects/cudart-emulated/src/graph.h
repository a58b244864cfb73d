/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, and the captures that make them. */
#ifndef EMULATED_GRAPH_H
#define EMULATED_GRAPH_H

#include "emulated.h"

#define NODE_MAGIC 0x0de0de01u

struct graph_node {
    uint32_t magic;
    struct graph_node *next;
    struct graph *graph;
    size_t index;
    struct work work;
    struct graph_node **deps;
    size_t dep_count;
    bool reached;  /* scratch of joining */
    struct op *op; /* scratch of a launch */
    struct stream *lane;
};

struct graph {
    unsigned refs; /* its handle, its executables, its capture */
    struct device *device;
    struct graph_node *first, **last;
    size_t count;
    struct graph_block *blocks; /* of allocation nodes */
    size_t reserved;            /* for them, since a launch */
};

struct CUgraph_st {
    uint32_t magic;
    struct graph *graph;
};

struct CUgraphExec_st {
    uint32_t magic;
    struct graph *graph;
    unsigned long long flags;
    struct op *last; /* launches of one executable follow each other */
};

struct capture {
    unsigned refs; /* its streams' list and events */
    struct capture *next;
    uint64_t id;
    uint64_t thread;
    enum cudaStreamCaptureMode mode;
    struct stream *origin;
    struct graph *graph;
    bool invalidated, ended;
};

struct graph *graph_new(struct device *device);
void graph_release(struct graph *graph);
struct graph_node *graph_add(struct graph *graph, const struct work *work,
                             struct graph_node *const *deps, size_t dep_count);
cudaError_t graph_launch(cudaGraphExec_t handle, cudaStream_t stream_handle, enum fn fn);

/* ---- allocation nodes (graph_memory.c) ---- */

struct graph_block {
    struct graph_block *next;
    struct graph *graph;
    struct range *chunk; /* its bytes */
    struct range *range; /* while a program may name it */
    size_t size;
    bool freed_inside; /* by a node of the graph */
    bool live;         /* allocated by a launch and not freed */
};

struct graph_memory {
    size_t used, used_high, reserved, reserved_high;
};

cudaError_t graph_capture_alloc(struct stream *stream, const struct pool *pool, size_t size,
                                void **ptr);
cudaError_t graph_capture_free(struct stream *stream, struct range *range);
cudaError_t graph_free_block(struct range *range, struct stream *stream, enum fn fn);
void graph_memory_release(struct graph *graph);
cudaError_t graph_memory_launch(struct graph *graph, unsigned long long flags);

#endif
