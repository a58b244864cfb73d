/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_CORE_SRC_FLOOR_CALL_H
#define CRMM_CORE_SRC_FLOOR_CALL_H

/* How the files of the floor make a CUDA call and tell of its failure. */

#include <stdbool.h>

#include <cuda_runtime_api.h>

#include <crmm/core/status.h>

/* Whether CUDA may be called: cudaSuccess, or the error that calling it would give. */
cudaError_t crmm_priv_floor_begin(void);

/* CUDA must not be called any more, for one of the reasons that crmm_priv_floor_begin() tells. For
 * calls that are made so often that they look here first; only read outside floor.c. */
extern bool crmm_priv_floor_closed;

/* Clear the error of our own call, unless another one was pending before it. */
cudaError_t crmm_priv_floor_settle(cudaError_t pending, cudaError_t error);

/* A driver entry point with the behaviour of driver version 12.0, or NULL. */
void *crmm_priv_floor_entry(const char *name);

/* The status of a call that is no allocation, described; cudaSuccess is success. */
crmm_status crmm_priv_floor_check(const char *call, cudaError_t error);

/* The status of an allocation, described in the name of `who`. */
crmm_status crmm_priv_floor_check_allocation(const char *who, const char *call, size_t bytes,
                                             cudaError_t error);

/* Make a runtime call by the rules of the floor and store what it returned. A macro, since the
 * pending error must be looked at between the check and the call. */
#define CALL(error, call)                                       \
    do {                                                        \
        (error) = crmm_priv_floor_begin();                      \
        if ((error) == cudaSuccess) {                           \
            cudaError_t pending_ = cudaPeekAtLastError();       \
            (error) = crmm_priv_floor_settle(pending_, (call)); \
        }                                                       \
    } while (0)

/* The same for a call that a stream capture forbids, though it does a capture no harm: made in the
 * thread's relaxed mode it neither fails nor invalidates a capture, its own thread's or another's.
 */
#define CALL_BESIDE_CAPTURES(error, call)                                    \
    do {                                                                     \
        (error) = crmm_priv_floor_begin();                                   \
        if ((error) == cudaSuccess) {                                        \
            enum cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed; \
            cudaError_t pending_ = cudaPeekAtLastError();                    \
            (void)cudaThreadExchangeStreamCaptureMode(&mode_);               \
            (error) = (call);                                                \
            (void)cudaThreadExchangeStreamCaptureMode(&mode_);               \
            (void)crmm_priv_floor_settle(pending_, cudaPeekAtLastError());   \
        }                                                                    \
    } while (0)

#endif
