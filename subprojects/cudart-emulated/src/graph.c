/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes in the order of their capture, which is an order that respects dependencies. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct graph *graph_new(struct device *device)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph != NULL) {
        graph->refs = 1;
        graph->device = device;
        graph->last = &graph->first;
    }
    return graph;
}

void graph_release(struct graph *graph)
{
    if (graph == NULL || --graph->refs != 0) {
        return;
    }
    graph_memory_release(graph);
    for (struct graph_node *node = graph->first, *next; node != NULL; node = next) {
        next = node->next;
        work_release(&node->work);
        node->magic = 0;
        free(node->deps);
        free(node);
    }
    free(graph);
}

struct graph_node *graph_add(struct graph *graph, const struct work *work,
                             struct graph_node *const *deps, size_t dep_count)
{
    struct graph_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        return NULL;
    }
    if (dep_count != 0) {
        node->deps = malloc(dep_count * sizeof(struct graph_node *));
        if (node->deps == NULL) {
            free(node);
            return NULL;
        }
        memcpy(node->deps, deps, dep_count * sizeof(struct graph_node *));
    }
    node->magic = NODE_MAGIC;
    node->dep_count = dep_count;
    node->work = *work;
    node->graph = graph;
    node->index = graph->count++;
    *graph->last = node;
    graph->last = &node->next;
    return node;
}

static struct graph *find(cudaGraph_t handle)
{
    struct CUgraph_st *found = handle_check(HANDLE_GRAPH, handle);
    return found == NULL ? NULL : found->graph;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    BEGIN(cudaGraphDestroy, 0);
    struct graph *found = find(graph);
    if (found == NULL) {
        END(cudaErrorInvalidValue);
    }
    handle_free(HANDLE_GRAPH, graph);
    graph_release(found);
    END(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    BEGIN(cudaGraphGetNodes, 0);
    struct graph *found = find(graph);
    if (found == NULL || numNodes == NULL) {
        END(cudaErrorInvalidValue);
    }
    size_t count = 0;
    if (nodes == NULL) {
        *numNodes = found->count;
        END(cudaSuccess);
    }
    for (struct graph_node *n = found->first; n != NULL && count < *numNodes; n = n->next) {
        nodes[count++] = (cudaGraphNode_t)(void *)n;
    }
    for (; count < *numNodes; (*numNodes)--) {
        nodes[*numNodes - 1] = NULL;
    }
    END(cudaSuccess);
}

static enum cudaGraphNodeType node_type(const struct work *work)
{
    switch (work->kind) {
    case WORK_MEMSET:
        return cudaGraphNodeTypeMemset;
    case WORK_COPY:
        return cudaGraphNodeTypeMemcpy;
    case WORK_HOST:
        return cudaGraphNodeTypeHost;
    case WORK_KERNEL:
        return cudaGraphNodeTypeKernel;
    case WORK_ALLOC:
        return cudaGraphNodeTypeMemAlloc;
    case WORK_FREE:
        return cudaGraphNodeTypeMemFree;
    case WORK_RECORD:
        return cudaGraphNodeTypeEventRecord;
    default:
        return cudaGraphNodeTypeEmpty;
    }
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    BEGIN(cudaGraphNodeGetType, 0);
    const struct graph_node *found = (const struct graph_node *)(void *)node;
    if (found == NULL || pType == NULL || found->magic != NODE_MAGIC) {
        END(cudaErrorInvalidValue);
    }
    *pType = node_type(&found->work);
    END(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    BEGIN(cudaGraphInstantiate, 0);
    const unsigned long long known = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                     cudaGraphInstantiateFlagUpload |
                                     cudaGraphInstantiateFlagUseNodePriority;
    struct graph *found = find(graph);
    if (found == NULL || pGraphExec == NULL || (flags & ~(unsigned long long)15) != 0) {
        END(cudaErrorInvalidValue);
    }
    if ((flags & ~known) != 0) {
        END(cudaErrorNotSupported);
    }
    struct CUgraphExec_st *exec = handle_new(HANDLE_EXEC);
    if (exec == NULL) {
        END(cudaErrorMemoryAllocation);
    }
    exec->graph = found;
    exec->flags = flags;
    found->refs++;
    *pGraphExec = exec;
    END(cudaSuccess);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    BEGIN(cudaGraphExecDestroy, 0);
    struct CUgraphExec_st *exec = handle_check(HANDLE_EXEC, graphExec);
    if (exec == NULL) {
        END(cudaErrorInvalidValue);
    }
    struct graph *graph = exec->graph;
    op_release(exec->last);
    handle_free(HANDLE_EXEC, exec);
    graph_release(graph);
    END(cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    BEGIN(cudaGraphUpload, 0);
    struct stream *found;
    if (handle_check(HANDLE_EXEC, graphExec) == NULL) {
        END(cudaErrorInvalidValue);
    }
    END(stream_find(stream, &found));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    BEGIN(cudaGraphLaunch, 0);
    engine_mischief();
    END(graph_launch(graphExec, stream, this_fn));
}
