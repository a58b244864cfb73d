/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of what a CUDA runtime does, one for each row of expected.txt. Compiled against the
 * emulation or against a toolkit; each check runs in a process of its own and prints one verdict.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

struct check {
    const char *id;
    void (*run)(void);
};
extern const struct check order_checks[], event_checks[], stream_checks[], sync_checks[];
extern const struct check async_checks[], pool_checks[], error_checks[], capture_checks[];
extern const struct check vmm_checks[], process_checks[], device_checks[], other_checks[];

/* One more item of the verdict, after a comma; more of the same item. */
void put(const char *format, ...) __attribute__((format(printf, 1, 2)));
void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
void verdict_print(void);
/* Lets the process end with its verdict although nothing else is in order. */
void verdict_exit(void) __attribute__((noreturn));

/* "ok", or the error's name without its prefix. */
const char *nm(cudaError_t error);
/* 1048576 as 1M. */
const char *sz(size_t bytes);

/* ---- gates: a host function that holds a stream ---- */

/* Static, since a function may still be in it when a check ends. */
struct gate {
    bool entered, open;
    unsigned round;
};
void gate_hold(void *gate);
void gate_close(struct gate *gate, cudaStream_t stream);
void gate_open(struct gate *gate);
bool gate_is_open(struct gate *gate);
/* Opens by itself after a while: a call that returns while it is closed did not wait. */
void gate_open_later(struct gate *gate);
const char *gate_verdict(struct gate *gate); /* "ret" or "wait" */

cudaStream_t blocking(void);
cudaStream_t nonblocking(void);
cudaEvent_t event(void);
/* Whether an event recorded now completes soon. */
bool runs(cudaStream_t stream);
bool completes(cudaEvent_t event);
void in_thread(void (*body)(void *), void *arg);

void *entry_point(const char *name);
#define DRIVER(name) __typeof__(name) *name##_fn
#define LOAD(name)                                \
    do {                                          \
        void *found = entry_point(#name);         \
        memcpy(&name##_fn, &found, sizeof found); \
    } while (0)
#define NM(call) nm((cudaError_t)(call))

/* A pool on device 0 with the threshold and the three switches given. */
cudaMemPool_t new_pool(uint64_t threshold, int follow, int opportunistic, int internal,
                       size_t max_size);
size_t pool_number(cudaMemPool_t pool, enum cudaMemPoolAttr attr);
#define USED(pool) pool_number((pool), cudaMemPoolAttrUsedMemCurrent)
#define RESERVED(pool) pool_number((pool), cudaMemPoolAttrReservedMemCurrent)

#endif
