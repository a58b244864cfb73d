/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_CUDA_SUPPORT_H
#define CRMM_TESTS_SUPPORT_CUDA_SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <criterion/criterion.h>
#include <cuda_runtime_api.h>

/* A CUDA call of the test itself succeeds. */
#define cuda(call)                                                                   \
    do {                                                                             \
        cudaError_t error_ = (call);                                                 \
        cr_assert(error_ == cudaSuccess, "%s: %s", #call, cudaGetErrorName(error_)); \
    } while (0)

/*
 * Say that this test needs a number of devices: skips it, with the reason, where there are fewer.
 * With CRMM_TEST_REQUIRE_GPU in the environment a machine without any device fails it.
 */
void need_devices(int count);

/* Until this test ends no other one relies on what is free of a device's memory, or takes most of
 * it: tests run side by side on one device. */
void claim_free_memory(void);

cudaStream_t make_stream(void); /* non-blocking, on the current device */

/* What is queued on one stream comes before what is queued later on another one; both are on the
 * current device. */
void order_streams(cudaStream_t first, cudaStream_t then);

/* Set or check device memory, waiting for it. */
void device_fill(void *ptr, int byte, size_t bytes);
bool device_has(const void *ptr, int byte, size_t bytes);

/*
 * A host function that holds a stream until it is opened. Close returns when the stream has reached
 * it, so everything queued afterwards is pending until gate_open().
 */
typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool entered;
    bool open;
} gate;

void gate_close(gate *held, cudaStream_t stream);
void gate_open(gate *held);

/* Open a gate from another thread, some time from now; join it with pthread_join(). */
pthread_t gate_open_later(gate *held);

/* Whether it has been opened. */
bool gate_is_open(gate *held);

#endif
