/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test can do with the emulated CUDA runtime beyond the CUDA interface: make calls fail,
 * look at device memory, stand in for kernels, count, and read what went wrong.
 *
 * Unless said otherwise a function may be called from any thread at any time, but not from inside
 * a host function. None of them sets the last error, and none counts as a CUDA call.
 */
#ifndef CUDART_EMULATED_H
#define CUDART_EMULATED_H

#include <cuda_runtime_api.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the whole ---- */

/*
 * Back to the state of a new process: destroys every stream, event, pool and graph, frees all
 * memory, drops pending work, faults and violations, and takes the configuration from the
 * environment again. Host functions that run must be able to end: it waits for them. No other
 * thread may be in a call. Handles and pointers from before are dead; counters are 0.
 */
void cudart_emulated_reset(void);

/*
 * Sets an option; returns 0, or -1 if the name is unknown. Values are 0 or 1 unless said.
 *   "reuse_handles"      handle values of destroyed streams and events come back at once (0)
 *   "alignment"          256 or 512: alignment of all allocations (512)
 *   "malloc_waits"       cudaMalloc and the host allocators wait for all devices (0)
 *   "free_waits"         cudaFree waits for the owning device (1)
 *   "host_free_waits"    cudaFreeHost and cudaHostUnregister wait for all devices (0)
 *   "pageable_waits"     every copy from pageable memory waits (0)
 *   "capture_queries"    a capturing stream may be asked for its id, flags, priority, device (0)
 *   "host_threads"       each host function runs on a thread of its own (0)
 *   "idle_queries"       queries run nothing: a stream gets on when a call waits for it, or by a
 *                        seed; who polls without waiting polls for ever (0)
 *   "pool_never_reuses"  memory pools always take new memory while they can (0)
 *   "pool_largest"       bytes of the largest block that a fragmented memory pool still has;
 *                        more is out of memory; 0: no limit (0)
 *   "queue_depth"        copies, memsets and kernels that a stream holds before a call blocks;
 *                        0: no limit (0)
 *   "checker"            the happens-before checker (1)
 *   "quiet"              violations are kept but not printed (0)
 *   "abort"              the first violation aborts the process (0)
 *   "no_peers"           no device can access another (0)
 */
int cudart_emulated_set_option(const char *name, unsigned long long value);

/* The seed of all choices from here on; 0: streams run in the order of the calls. */
void cudart_emulated_set_seed(unsigned long long seed);

/* ---- devices ---- */

/* Bytes of a device's memory, from now on; what is allocated stays. Returns 0, or -1. */
int cudart_emulated_set_memory(int device, size_t bytes);

/* Number of devices (0 to 16); only before the first use of a device beyond it. Returns 0, or -1.
 */
int cudart_emulated_set_devices(int count);

/* What cudaDeviceGetAttribute says, for one device or all (-1), and what follows from it. */
int cudart_emulated_set_attribute(int device, int attribute, int value);

/* What cudaDriverGetVersion says. Older than the runtime's major release: no call works. */
void cudart_emulated_set_driver_version(int version);

struct cudart_emulated_usage {
    size_t allocated, peak_allocated; /* requested bytes of cudaMalloc and managed blocks */
    size_t physical, peak_physical;   /* those, physical handles and the reserves of pools */
};
/* What CUDART_EMULATED_REPORT would say now. Returns 0, or -1 for an unknown device. */
int cudart_emulated_usage(int device, struct cudart_emulated_usage *usage);
/* Requested bytes of pinned host blocks; peak may be NULL. */
size_t cudart_emulated_pinned(size_t *peak);
/* Address ranges that are reserved. */
size_t cudart_emulated_reserved(void);

/* ---- faults ---- */

/*
 * Makes calls of a function ("cudaMalloc", "cuMemCreate"; NULL: of all but those of the last
 * error) fail with an error, before they do anything: those numbered first to first + count - 1,
 * counted from 1 at this call; count 0: all from the first on. Several rules may hold at once;
 * the oldest that fires decides. Returns 0, or -1 for an unknown function.
 */
int cudart_emulated_fail(const char *function, unsigned long long first, unsigned long long count,
                         cudaError_t error);
/* As above, for a random share of the calls, in thousandths, chosen by the seed. */
int cudart_emulated_fail_randomly(const char *function, unsigned per_thousand, cudaError_t error);
void cudart_emulated_clear_faults(void);

/* Calls of a function since the last reset, refused ones included; NULL: of all functions. */
unsigned long long cudart_emulated_calls(const char *function);
/* Calls that came when CUDA could not be used any more: after the runtime's exit handler, or in a
 * forked child but for those that work there. May be asked then. */
unsigned long long cudart_emulated_late_calls(void);

/* ---- kernels and memory ---- */

struct cudart_emulated_range {
    void *ptr;
    size_t size;
    int write; /* 0: the kernel reads the range */
    int value; /* a byte to fill it with, or -1 to leave its bytes alone */
};

/*
 * Queues a stand-in for a kernel that reads and writes the ranges, then calls function(user_data)
 * unless that is NULL: with the emulation's lock held, so it must not make any CUDA call or wait.
 * As with a kernel, a bad range is a device fault when it runs. Where a pool's memory is, but no
 * live block of it at the call, there is no fault, as on a GPU: it is reported.
 */
cudaError_t cudart_emulated_kernel(cudaStream_t stream, const struct cudart_emulated_range *ranges,
                                   size_t count, void (*function)(void *), void *user_data);

/*
 * The host reads from or writes to device, managed or pinned memory, as a program does to
 * memory that it can touch. The checker sees an access by the host. Runs nothing; does not wait.
 */
cudaError_t cudart_emulated_host_read(void *to, const void *ptr, size_t size);
cudaError_t cudart_emulated_host_write(void *ptr, const void *from, size_t size);
/* Tells the checker about an access that the program made itself. */
cudaError_t cudart_emulated_host_access(const void *ptr, size_t size, int write);
/* Looks at memory unseen by the checker. */
cudaError_t cudart_emulated_peek(void *to, const void *ptr, size_t size);

/* Operations that were queued and have not run, of all streams. */
unsigned long long cudart_emulated_pending(void);
/* Operations that have run. */
unsigned long long cudart_emulated_executed(void);

/* ---- violations: what the program did that a GPU would punish or hide ---- */

/* How many there were since the last reset or clear. */
unsigned long long cudart_emulated_violations(void);
/* The text of one, from 0; NULL beyond the last or the 256th. Valid until the next clear. */
const char *cudart_emulated_violation(unsigned long long index);
void cudart_emulated_clear_violations(void);

#ifdef __cplusplus
}
#endif
#endif
