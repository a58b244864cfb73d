/* SPDX-License-Identifier: Apache-2.0 */
/* What every call does first and last: process state, lock, counts, faults, last error. */
#include "emulated.h"

#include <cudart_emulated.h>

#include <stdlib.h>

struct engine engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

unsigned long long call_counts[FN_COUNT];

static _Thread_local struct thread_state this_thread;
static _Atomic uint64_t next_thread_id = 1;
static atomic_bool started;
static atomic_bool unloading;
static atomic_bool forked;
static atomic_ullong late_calls; /* while either is true */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_key;

static const char *const function_names[FN_COUNT] = {
#define EMULATED_RUNTIME(name) #name,
#define EMULATED_DRIVER(name) #name,
#include "functions.h"
#undef EMULATED_RUNTIME
#undef EMULATED_DRIVER
};

const char *function_name(enum fn fn)
{
    return fn < FN_COUNT ? function_names[fn] : "a kernel";
}

static void at_exit(void)
{
    if (atomic_load(&forked)) {
        return; /* the report is the parent's */
    }
    engine_lock();
    report_write();
    atomic_store(&unloading, true);
    engine_unlock();
}

/* The child gets the lock in a known state. */
static void before_fork(void)
{
    engine_lock();
}

static void in_parent(void)
{
    engine_unlock();
}

static void in_child(void)
{
    atomic_store(&forked, true);
    engine_unlock();
}

static void thread_exit(void *state)
{
    if (atomic_load(&unloading) || atomic_load(&forked)) {
        return;
    }
    engine_lock();
    stream_thread_exit(state);
    engine_unlock();
}

static void start(void)
{
    config_load();
    devices_init();
    pthread_key_create(&thread_key, thread_exit);
    pthread_atfork(before_fork, in_parent, in_child);
    atexit(at_exit);
    atomic_store(&started, true);
}

struct thread_state *thread_state(void)
{
    struct thread_state *thread = &this_thread;
    if (thread->id == 0) {
        thread->id = atomic_fetch_add(&next_thread_id, 1);
    }
    if (!thread->registered && atomic_load_explicit(&started, memory_order_acquire)) {
        pthread_setspecific(thread_key, thread);
        thread->registered = true;
    }
    return thread;
}

void engine_lock(void)
{
    pthread_mutex_lock(&engine.lock);
}

void engine_unlock(void)
{
    pthread_mutex_unlock(&engine.lock);
}

bool process_usable(void)
{
    return !atomic_load(&unloading) && !atomic_load(&forked);
}

void process_start(void)
{
    pthread_once(&once, start);
}

/* Not ready is an answer, not an error. */
cudaError_t record_error(cudaError_t err)
{
    if (err != cudaSuccess && err != cudaErrorNotReady) {
        thread_state()->last_error = err;
    }
    return err;
}

static cudaError_t refuse(unsigned flags, cudaError_t err)
{
    return (flags & CALL_DRIVER) != 0 ? err : record_error(err);
}

static cudaError_t call_precondition(enum fn fn, unsigned flags, struct thread_state *thread)
{
    call_counts[fn]++;
    if (thread->in_host_function && (flags & CALL_IN_HOST_FN) == 0) {
        return cudaErrorNotPermitted;
    }
    cudaError_t err = fault_check(fn);
    if (err != cudaSuccess) {
        return err;
    }
    if ((flags & CALL_NO_DEVICE) == 0) {
        if (config.driver_version < CUDART_VERSION / 1000 * 1000) {
            return cudaErrorInsufficientDriver;
        }
        if (config.devices == 0) {
            return cudaErrorNoDevice;
        }
    }
    return (flags & CALL_STICKY_OK) != 0 ? cudaSuccess : device_sticky();
}

cudaError_t call_begin(enum fn fn, unsigned flags)
{
    if (atomic_load_explicit(&unloading, memory_order_relaxed)) {
        atomic_fetch_add(&late_calls, 1);
        return cudaErrorCudartUnloading;
    }
    if (atomic_load_explicit(&forked, memory_order_relaxed) && (flags & CALL_FORK_OK) == 0) {
        atomic_fetch_add(&late_calls, 1);
        return refuse(flags, cudaErrorInitializationError);
    }
    process_start();
    struct thread_state *thread = thread_state();
    if (!atomic_load_explicit(&forked, memory_order_relaxed)) {
        engine_lock();
    }
    cudaError_t err = call_precondition(fn, flags, thread);
    if (err != cudaSuccess) {
        return call_end(fn, flags, err);
    }
    if ((flags & CALL_DRIVER) == 0) {
        thread->has_context = true;
    }
    return cudaSuccess;
}

cudaError_t call_end(enum fn fn, unsigned flags, cudaError_t err)
{
    (void)fn;
    if (!atomic_load_explicit(&forked, memory_order_relaxed)) {
        engine_unlock();
    }
    return refuse(flags, err);
}

unsigned long long cudart_emulated_late_calls(void)
{
    return atomic_load(&late_calls);
}

/* Functions of the last error neither wait for the lock nor need a device. */
static bool quiet_call(enum fn fn, cudaError_t *err)
{
    if (atomic_load(&unloading)) {
        atomic_fetch_add(&late_calls, 1);
        *err = cudaErrorCudartUnloading;
        return false;
    }
    if (atomic_load(&forked)) {
        atomic_fetch_add(&late_calls, 1);
        *err = cudaErrorInitializationError;
        return false;
    }
    process_start();
    engine_lock();
    call_counts[fn]++;
    engine_unlock();
    return true;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t err;
    if (!quiet_call(FN_cudaGetLastError, &err)) {
        return err;
    }
    struct thread_state *thread = thread_state();
    err = thread->last_error;
    thread->last_error = cudaSuccess;
    return err;
}

cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t err;
    return quiet_call(FN_cudaPeekAtLastError, &err) ? thread_state()->last_error : err;
}

void process_note_use(void)
{
    if (!atomic_load(&unloading) && !atomic_load(&forked)) {
        process_start();
    }
}
