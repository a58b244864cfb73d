/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_FLOOR_H
#define CRMM_INTERNAL_FLOOR_H

/*
 * The floor: every CUDA call of the library, once. Nothing else calls CUDA or knows its headers.
 *
 * What holds for all functions here:
 *  - Differences between toolkits 12.0 and 13.x are settled here.
 *  - The first call sets CUDA up for the process: it registers one exit and one fork handler, after
 *    the runtime has initialised, so that ours run before it unloads.
 *  - In a forked child of a process that used CUDA they fail with CRMM_ERROR_FORKED, and after the
 *    program has begun to exit they do nothing.
 *  - The runtime's last error is left as it was found: an error of our own is cleared. Where a
 *    foreign error was pending already, the runtime keeps only the newer one of the two; then it is
 *    left pending, so that the program still learns of a failure.
 *  - Functions that return crmm_status describe their failure; those that return int return the
 *    CUDA error code, or 0, and record nothing, for callers that cannot fail.
 *  - No lock is held while CUDA is called.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/status.h>
#include <crmm/core/stream.h>

/* The device number that stands for the host. */
enum { CRMM_PRIV_HOST_DEVICE = -1 };

/* Name and text of a CUDA error code, such as "cudaErrorInvalidValue" and "invalid argument". */
const char *crmm_priv_cuda_error_name(int code);
const char *crmm_priv_cuda_error_text(int code);

/* The status of a call that returned `code`, described; 0 is success. For allocations there is more
 * to it; they tell themselves. */
crmm_status crmm_priv_cuda_check(const char *call, int code);

/* Whether a CUDA error code says that the process is a forked child. */
bool crmm_priv_cuda_is_forked(int code);

/* Whether CUDA can be used at all; described in the name of `who` where it cannot: a forked child,
 * or a program that is ending. Makes no call that could fail. */
crmm_status crmm_priv_cuda_ready(const char *who);

/* ---- devices ---- */

crmm_status crmm_priv_cuda_device_count(int *count);
crmm_status crmm_priv_cuda_current_device(int *device);
int crmm_priv_cuda_try_current_device(int *device);
crmm_status crmm_priv_cuda_set_device(int device);
/* The current device by a short way, for hot paths. false: there is none, and one of the others has
 * to be asked. */
bool crmm_priv_cuda_knows_device(int *device);
/* Free and total bytes of the current device. */
crmm_status crmm_priv_cuda_memory(size_t *free_bytes, size_t *total_bytes);

/* Whether a device can reach pageable host memory; no error: a question that is not understood is
 * answered no. */
bool crmm_priv_cuda_reaches_pageable(int device);

/* What tells a device from every other one, whatever its ordinal here. Takes milliseconds. */
int crmm_priv_cuda_device_uuid(int device, unsigned char uuid[16]);

/*
 * Make a device current for a while. `previous` is what crmm_priv_cuda_leave_device() restores;
 * a negative `device`, or the one that is current already, changes nothing. What cannot be restored
 * is reported.
 */
crmm_status crmm_priv_cuda_enter_device(int device, int *previous);
int crmm_priv_cuda_try_enter_device(int device, int *previous);

/* The same for a call that names a stream: a default one is, to what belongs to a device, that
 * device's; any other knows its own, and nothing is changed for it. */
int crmm_priv_cuda_try_enter_for_stream(int device, crmm_stream stream, int *previous);
void crmm_priv_cuda_leave_device(int previous);

typedef enum crmm_priv_cuda_capability {
    CRMM_PRIV_CUDA_CONCURRENT_MANAGED_ACCESS, /* host and device share managed memory on demand */
    CRMM_PRIV_CUDA_HOST_REGISTER,             /* memory of the program's can be pinned */
    CRMM_PRIV_CUDA_REGISTERED_HOST_POINTER    /* and then has the same address on the device */
} crmm_priv_cuda_capability;

/*
 * Whether a device can do something. What the driver has not heard of it cannot.
 * CRMM_ERROR_INVALID_ARGUMENT, in the name of `who`, where there is no such device.
 */
crmm_status crmm_priv_cuda_device_can(const char *who, int device,
                                      crmm_priv_cuda_capability capability, bool *can);

/* The NUMA node of the host that is nearest to a device, or -1: there are none, or nobody knows.
 * CRMM_ERROR_INVALID_ARGUMENT as above. */
crmm_status crmm_priv_cuda_host_node(const char *who, int device, int *node);

/* ---- memory ----
 * An allocation that fails is CRMM_ERROR_OUT_OF_MEMORY where memory is exhausted,
 * CRMM_ERROR_UNSUPPORTED where the device cannot do it or a capture forbids it,
 * CRMM_ERROR_BAD_ALLOC otherwise, described in the name of `who`. A free is told the size of the
 * allocation, for the books. */

crmm_status crmm_priv_cuda_malloc(const char *who, size_t bytes, void **ptr);
crmm_status crmm_priv_cuda_malloc_managed(const char *who, size_t bytes, void **ptr);
int crmm_priv_cuda_free(void *ptr, size_t bytes);
/* Pinned host memory that every device may use. The free waits for nothing. */
crmm_status crmm_priv_cuda_host_alloc(const char *who, size_t bytes, bool write_combined,
                                      void **ptr);
int crmm_priv_cuda_host_free(void *ptr, size_t bytes);
/* Pin memory of the program's, so that it is like that. Undoing it waits for nothing either. */
crmm_status crmm_priv_cuda_host_register(const char *who, void *ptr, size_t bytes);
int crmm_priv_cuda_host_unregister(void *ptr, size_t bytes);

crmm_status crmm_priv_cuda_copy_async(void *destination, const void *source, size_t bytes,
                                      crmm_stream stream);
crmm_status crmm_priv_cuda_memset_async(void *ptr, int byte, size_t bytes, crmm_stream stream);
/* Advice and movement of managed memory; `device` may be CRMM_PRIV_HOST_DEVICE. */
crmm_status crmm_priv_cuda_prefetch(const void *ptr, size_t bytes, int device, crmm_stream stream);
/* The same where the memory may be of another kind: then success, and nothing is queued. */
crmm_status crmm_priv_cuda_prefetch_if_managed(const void *ptr, size_t bytes, int device,
                                               crmm_stream stream, bool *queued);
crmm_status crmm_priv_cuda_prefer_location(const void *ptr, size_t bytes, int device);

/* ---- streams ---- */

/*
 * Whether a stream is being captured, or is the legacy stream while another capture forbids to use
 * it. Asking does not disturb the capture. A CUDA error code, or 0.
 */
int crmm_priv_cuda_capturing(crmm_stream stream, bool *capturing);

/* The status of a stream that CUDA would not tell about, described in the name of `who`. */
crmm_status crmm_priv_cuda_stream_failed(const char *who, crmm_stream stream, int code);

/* CUDA's id of a stream, never used twice. Ask only streams that are not being captured. */
crmm_status crmm_priv_cuda_stream_id(crmm_stream stream, uint64_t *id);

/* CRMM_ERROR_UNSUPPORTED, with the capture valid, where the stream is being captured. */
crmm_status crmm_priv_cuda_stream_synchronize(crmm_stream stream);
int crmm_priv_cuda_wait(crmm_stream stream); /* the same, without asking */

/* A stream of the current device. */
crmm_status crmm_priv_cuda_stream_create(bool non_blocking, crmm_stream *stream);
int crmm_priv_cuda_stream_destroy(crmm_stream stream);

/* Work queued on `later` from now on waits for what is queued on `earlier` now. Both streams may be
 * parts of a capture, but not one alone: CRMM_ERROR_UNSUPPORTED, with the capture valid. */
crmm_status crmm_priv_cuda_order_streams(crmm_stream earlier, crmm_stream later);

#endif
