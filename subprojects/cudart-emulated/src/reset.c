/* SPDX-License-Identifier: Apache-2.0 */
/* Back to the start: one device for cudaDeviceReset, or all of it for a test. */
#include "control.h"
#include "graph.h"
#include "vmm.h"

#include <string.h>

static void drop_streams(struct device *device)
{
    engine_wait_device(device);
    device->round++;
    checker_join_host_device(device);
    for (struct stream *s = device->streams, *next; s != NULL; s = next) {
        next = s->next;
        if (s->handle != NULL) {
            handle_free(HANDLE_STREAM, s->handle);
            s->handle = NULL;
        }
        capture_forget_stream(s);
        s->destroyed = true;
    }
    device->legacy = NULL;
    for (struct stream *s = device->streams, *next; s != NULL; s = next) {
        next = s->next;
        stream_unlink_if_drained(s);
    }
}

static void drop_event(void *slot, void *device)
{
    struct CUevent_st *event = slot;
    if (device == NULL || event->device == device) {
        capture_forget_event(event);
        op_release(event->record);
        handle_free(HANDLE_EVENT, event);
    }
}

static void reset_device(struct device *device)
{
    drop_streams(device);
    handle_visit(HANDLE_EVENT, drop_event, device);
    malloc_reset_device(device);
    vmm_reset_device(device);
    pool_device_synchronized(device); /* blocks of pools outlive a reset, as on a GPU */
    memset(device->peer, 0, sizeof device->peer);
}

cudaError_t cudaDeviceReset(void)
{
    BEGIN(cudaDeviceReset, 0);
    struct device *device = current_device();
    err = capture_guard_device(device);
    if (err != cudaSuccess) {
        END(err);
    }
    reset_device(device);
    device_clear_sticky();
    END(cudaSuccess);
}

static void drop_graph(void *slot, void *unused)
{
    (void)unused;
    struct CUgraph_st *graph = slot;
    struct graph *inside = graph->graph;
    handle_free(HANDLE_GRAPH, graph);
    graph_release(inside);
}

static void drop_exec(void *slot, void *unused)
{
    (void)unused;
    struct CUgraphExec_st *exec = slot;
    struct graph *inside = exec->graph;
    op_release(exec->last);
    handle_free(HANDLE_EXEC, exec);
    graph_release(inside);
}

void reset_everything(void)
{
    for (int d = 0; d < MAX_DEVICES; d++) {
        reset_device(&devices[d]);
        devices[d].blocks_peak = 0;
        devices[d].physical_peak = 0;
    }
    handle_visit(HANDLE_EXEC, drop_exec, NULL);
    handle_visit(HANDLE_GRAPH, drop_graph, NULL);
    pools_reset();
    checker_reset();
    fault_clear();
    override_clear();
    violation_clear();
    device_clear_sticky();
    memset(call_counts, 0, sizeof call_counts);
    totals.pinned_peak = 0;
    engine.executed = 0;
    struct thread_state *thread = thread_state();
    thread->last_error = cudaSuccess;
    thread->device = 0;
    thread->capture_mode = cudaStreamCaptureModeGlobal;
    config.quiet = false;
    config.no_peers = false;
    config_load();
    for (int d = 0; d < MAX_DEVICES; d++) {
        devices[d].memory = config.memory[d];
    }
}
