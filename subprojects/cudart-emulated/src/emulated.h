/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the emulation. One lock guards everything declared here except what is marked as
 * thread-local or atomic; it is never held while a host function runs.
 */
#ifndef EMULATED_H
#define EMULATED_H

#include "names.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DEVICES 16
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define VMM_GRANULARITY (2 * MIB)

/* ---- functions and calls (call.c) ---- */

enum fn {
#define EMULATED_RUNTIME(name) FN_##name,
#define EMULATED_DRIVER(name) FN_##name,
#include "functions.h"
#undef EMULATED_RUNTIME
#undef EMULATED_DRIVER
    FN_COUNT
};

enum call_flags {
    CALL_DRIVER = 1,       /* no last error, binds no context */
    CALL_IN_HOST_FN = 2,   /* allowed inside a host function */
    CALL_STICKY_OK = 4,    /* works after a device fault */
    CALL_FORK_OK = 8,      /* works in a child of a process that has used CUDA */
    CALL_NO_DEVICE = 16,   /* works where there is no device or no driver */
    CALL_UNCONFIGURED = 32 /* leaves no trace for a later fork */
};

struct thread_state {
    cudaError_t last_error;
    int device;
    bool has_context;
    bool in_host_function;
    enum cudaStreamCaptureMode capture_mode;
    uint64_t id;
    bool registered;
    struct stream *per_thread[MAX_DEVICES];
    unsigned rounds[MAX_DEVICES]; /* of the device when that stream was made */
};

struct thread_state *thread_state(void);

/* Takes the lock, unless it returns an error, which is then final. */
cudaError_t call_begin(enum fn fn, unsigned flags);
/* Gives the lock back and records the error. */
cudaError_t call_end(enum fn fn, unsigned flags, cudaError_t err);
const char *function_name(enum fn fn);
cudaError_t record_error(cudaError_t err);
void process_start(void);
/* Marks the process as one that has used CUDA, for a later fork. */
void process_note_use(void);
const char *error_name(cudaError_t error);
const char *error_text(cudaError_t error);
bool error_by_name(const char *name, cudaError_t *error);
void engine_lock(void);
void engine_unlock(void);
bool process_usable(void);

#define BEGIN(name, flags)                             \
    const enum fn this_fn = FN_##name;                 \
    const unsigned this_flags = (flags);               \
    cudaError_t err = call_begin(this_fn, this_flags); \
    if (err != cudaSuccess) {                          \
        return err;                                    \
    }
#define END(value) return call_end(this_fn, this_flags, (value))
#define BEGIN_DRIVER(name, flags)                      \
    const enum fn this_fn = FN_##name;                 \
    const unsigned this_flags = (flags) | CALL_DRIVER; \
    cudaError_t err = call_begin(this_fn, this_flags); \
    if (err != cudaSuccess) {                          \
        return (CUresult)err;                          \
    }
#define END_DRIVER(value) return (CUresult)call_end(this_fn, this_flags, (value))

/* ---- configuration (config.c) ---- */

struct config {
    int devices;
    size_t memory[MAX_DEVICES];
    uint64_t seed;
    size_t alignment;
    int driver_version;
    bool reuse_handles;
    bool checker;
    bool malloc_waits;
    bool free_waits;
    bool host_free_waits;
    bool pageable_waits;
    bool capture_queries_allowed;
    bool host_thread_per_stream;
    bool idle_queries;
    bool pool_never_reuses;
    bool abort_on_violation;
    bool quiet;
    bool no_peers;
    size_t queue_depth;
    size_t pool_largest;
    const char *report;
};
extern struct config config;
/* Built without the checker, to see what it costs when it is off. */
#ifdef EMULATED_NO_CHECKER
#define CHECKER_ON false
#else
#define CHECKER_ON config.checker
#endif
void config_load(void);
void config_defaults(void);
void config_set_seed(uint64_t seed);
size_t config_parse_size(const char *text, size_t fallback);

/* ---- random choices (config.c) ---- */
uint64_t choice(uint64_t bound);

/* ---- violations (violation.c) ---- */
void violation(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

unsigned long long violation_count(void);
const char *violation_text(unsigned long long index);
void violation_clear(void);

/* ---- vector clocks (clock.c) ---- */
struct clock {
    unsigned refs;
    uint64_t host_epoch;
    unsigned count;
    uint64_t time[];
};

/* ---- work: what an operation or a graph node does ---- */

enum work_kind {
    WORK_NOTHING, /* a wait, or a marker */
    WORK_RECORD,
    WORK_MEMSET,
    WORK_COPY,
    WORK_HOST,
    WORK_KERNEL,
    WORK_PREFETCH,
    WORK_ALLOC,
    WORK_FREE
};

struct kernel_range {
    uintptr_t va;
    size_t size;
    bool write;
    int value; /* -1: a write that changes nothing */
    uint64_t serial;
};

struct kernel {
    unsigned refs;
    void (*fn)(void *);
    void *user_data;
    size_t count;
    struct kernel_range ranges[];
};

struct work {
    enum work_kind kind;
    int value;
    uintptr_t dst, src;
    size_t size;
    uint64_t dst_serial, src_serial; /* of the first range; 0: pageable host memory */
    unsigned char *staged;           /* the source, taken at the call */
    cudaHostFn_t fn;
    void *user_data;
    struct kernel *kernel;
    struct graph *graph; /* kept until its launch is done */
    bool timed;
    bool keep_clock;
};

/* ---- operations and streams (engine.c, stream.c) ---- */

enum op_state { OP_PENDING, OP_RUNNING, OP_DONE };

struct op {
    struct op *next;
    struct op *queue_next;
    struct stream *stream; /* until done */
    uint64_t stream_id;
    uint64_t seq;
    unsigned refs;
    enum op_state state;
    enum fn fn;
    struct op **preds;
    unsigned pred_count, pred_capacity;
    struct op *first_pred[2];
    struct clock *host; /* what the host knew when it queued this */
    uint64_t host_epoch;
    struct clock *clock; /* kept for events */
    unsigned slot;
    uint64_t epoch; /* of the stream, when executed */
    double time;
    long host_tid; /* of the thread that runs the host function */
    struct work work;
};

struct stream {
    struct CUstream_st *handle;
    struct device *device;
    struct stream *next, *prev; /* of the device */
    uint64_t id;
    unsigned flags;
    int priority;
    bool legacy, blocking, per_thread, destroyed, internal;
    uint64_t thread; /* of a per-thread stream */
    struct op *head, *tail;
    uint64_t pending;
    unsigned waiters;
    uint64_t reach, reach_round; /* scratch of engine_reaches */
    struct stream *reach_next;
    bool reach_queued;
    uint64_t need; /* run up to this operation */
    bool active;
    /* capture */
    struct capture *capture;
    struct graph_node **frontier;
    size_t frontier_count, frontier_capacity;
    /* happens-before */
    unsigned slot;
    uint64_t epoch;
    struct clock *clock;
    struct clock *joined_host;
};

struct CUstream_st {
    uint32_t magic;
    struct stream *stream;
};

struct CUevent_st {
    uint32_t magic;
    unsigned flags;
    struct device *device;
    struct op *record; /* NULL: never recorded */
    struct capture *capture;
    struct graph_node **nodes;
    size_t node_count;
};

struct engine {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned waiters;
    uint64_t seq;
    uint64_t next_stream_id;
    struct stream **active;
    size_t active_count, active_capacity;
    struct op *free_ops;
    uint64_t executed;
    unsigned running; /* host functions handed to a thread */
};
extern struct engine engine;

struct op *engine_enqueue(struct stream *stream, const struct work *work, enum fn fn);
void op_add_pred(struct op *op, struct op *pred);
struct op *op_retain(struct op *op);
void op_release(struct op *op);
bool op_done(const struct op *op);
/* Runs what the stream's operations up to seq need, as far as nothing waits for the host. */
void engine_need(struct stream *stream, uint64_t seq);
void engine_pump(void);
void engine_pump_locked(void);
void engine_wait_op(struct op *op);
void engine_wait_last(struct stream *stream);
void engine_wait_stream(struct stream *stream);
bool engine_query_stream(struct stream *stream);
void engine_wait_device(struct device *device);
void engine_wait_matching(struct device *device, const struct stream *of);
void engine_query_pump(void);
void engine_forget_stream(struct stream *stream);
/* Whether what the stream runs next comes after a pending operation. */
bool engine_reaches(struct stream *stream, const struct op *earlier);
void engine_mischief(void);
void op_complete(struct op *op);

void worker_push(struct op *op);

struct stream *stream_new(struct device *device, unsigned flags, int priority);
void stream_unlink_if_drained(struct stream *stream);
/* Finds the stream of a handle; 0, 1 and 2 are the current device's. */
cudaError_t stream_find(cudaStream_t handle, struct stream **stream);
struct stream *stream_per_thread(struct thread_state *thread, struct device *device);
void stream_thread_exit(struct thread_state *thread);

/* ---- handles (handle.c) ---- */
#define HANDLE_SLOT 128u

enum handle_kind {
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_EXEC,
    HANDLE_VMM,
    HANDLE_KINDS
};
void *handle_new(enum handle_kind kind);
void handle_free(enum handle_kind kind, void *handle);
/* NULL unless the handle is alive; a dead or unknown one is reported. */
void *handle_check(enum handle_kind kind, const void *handle);

void handle_visit(enum handle_kind kind, void (*visit)(void *, void *), void *user_data);

/* ---- devices (device.c) ---- */

struct device {
    int id;
    unsigned round; /* counts resets */
    size_t memory;
    size_t blocks; /* requested bytes of cudaMalloc and managed blocks */
    size_t blocks_peak;
    size_t physical; /* those, physical handles and the reserves of pools */
    size_t physical_peak;
    size_t small, large; /* for cudaMemGetInfo, which counts in steps */
    size_t managed;
    struct stream *legacy;
    struct stream *streams;
    struct clock *retired; /* of destroyed blocking streams */
    bool peer[MAX_DEVICES];
    struct pool *default_pool, *managed_pool, *current_pool;
    struct graph_memory *graph_memory;
};
extern struct device devices[MAX_DEVICES];
void devices_init(void);
struct device *current_device(void);
bool device_valid(int id);
int device_attribute(int device, int attr, bool *known);
void device_charge(struct device *device, size_t bytes);
void device_refund(struct device *device, size_t bytes);
void device_charge_block(struct device *device, size_t bytes);
void device_refund_block(struct device *device, size_t bytes);
void device_clear_sticky(void);
bool device_has_room(const struct device *device, size_t bytes);
void device_set_sticky(cudaError_t err);
cudaError_t device_sticky(void);

/* ---- memory (range.c, arena.c, malloc.c) ---- */

enum range_kind {
    RANGE_DEVICE,
    RANGE_MANAGED,
    RANGE_PINNED,
    RANGE_REGISTERED,
    RANGE_POOL,
    RANGE_MAPPED
};

struct physical {
    unsigned refs;
    size_t size;
    struct device *device; /* NULL: host memory */
    unsigned char *data;   /* made when first used */
    uint64_t key;          /* its place in the shadow */
};

struct range {
    uintptr_t va;
    size_t size;
    size_t requested;
    enum range_kind kind;
    struct device *device;
    uint64_t serial;
    unsigned flags;
    struct physical *physical;
    struct segment *segment;
    struct pool *pool;
    struct block *block; /* of a pool, while it is live */
    struct range *chunk; /* that holds it */
    struct graph_block *graph_block;
    bool freeing; /* a free in stream order is pending */
    struct vmm_handle *handle;
    bool host;                             /* pool memory that the host can touch */
    unsigned char access[MAX_DEVICES + 1]; /* of mapped memory */
    struct advice *advice;
    struct range *left, *right;
    uint32_t weight;
};

struct range *range_new(uintptr_t va, size_t size, enum range_kind kind, struct device *device);
/* Live memory; and the chunks of pools, which outlast the blocks in them. */
void range_insert(struct range *range);
void chunk_insert(struct range *range);
void chunk_remove(struct range *range);
struct range *chunk_find(uintptr_t va);
/* The range whose bytes an operation will touch, and which must still be there then. */
struct range *range_backing(struct range *range);
void range_remove(struct range *range);
void range_free(struct range *range);
/* The range that contains the address, or NULL. */
struct range *range_find(uintptr_t va);
/* The first range that ends after the address. */
struct range *range_next(uintptr_t va);
/* The bytes behind an address, and how many follow it. */
unsigned char *range_bytes(struct range *range, uintptr_t va, size_t *length);
unsigned char *physical_bytes(struct physical *physical);
struct physical *physical_new(size_t size, struct device *device);
void physical_grow(struct physical *physical, size_t size);
void physical_release(struct physical *physical);

struct segment *arena_alloc(bool host, size_t size, size_t alignment);
struct segment *arena_alloc_at(bool host, uintptr_t va, size_t size);
bool arena_extend(bool host, struct segment *segment, size_t size);
void arena_free(bool host, struct segment *segment);
/* Whether the address is in a region, allocated or not. */
bool arena_owns(uintptr_t va);
uintptr_t segment_va(const struct segment *segment);

bool pageable_access(const struct device *device);
bool range_accessible(const struct range *range, const struct device *from);
/* A call that does not wait takes memory away: what may still use it is reported. */
void memory_retire(uintptr_t va, size_t size, enum fn fn);
void malloc_reset_device(struct device *device);
bool malloc_owns(uintptr_t va, bool *managed);
void malloc_free_quietly(uintptr_t va);

struct totals {
    size_t pinned, pinned_peak;
    size_t ranges; /* of addresses, reserved */
};
extern struct totals totals;

/* ---- copies (copy.c) ---- */
void work_execute(struct op *op);
void work_release(struct work *work);
/* Checks a range at the call; gives its first range, or NULL for pageable host memory. */
cudaError_t memory_check(uintptr_t va, size_t size, bool write, const struct device *from,
                         struct range **first);

/* ---- capture (capture.c) ---- */
/* Refuses what some capture forbids the calling thread, and invalidates that capture. */
cudaError_t capture_guard(void);
/* Refuses work on the legacy stream beside the capture of a blocking stream. */
cudaError_t capture_guard_legacy(struct stream *stream);
/* Refuses a call that no capturing stream takes. */
cudaError_t capture_refuse(struct stream *stream);
cudaError_t capture_guard_device(struct device *device);
cudaError_t capture_work(struct stream *stream, const struct work *work, void *result);
cudaError_t capture_record(struct stream *stream, struct CUevent_st *event);
cudaError_t capture_wait(struct stream *stream, struct CUevent_st *event, bool *done);
void capture_forget_event(struct CUevent_st *event);
void capture_forget_stream(struct stream *stream);
cudaError_t capture_event_guard(struct CUevent_st *event);

/* ---- checker (checker.c) ---- */
void checker_execute(struct op *op);
void checker_host_access(uintptr_t va, size_t size, bool write, const char *what);
void checker_forget(uintptr_t va, size_t size);
void checker_forget_key(uint64_t start, size_t size);
void checker_reset(void);
void checker_join_host_op(struct op *op);
void checker_join_host_stream(struct stream *stream);
void checker_join_host_device(struct device *device);
void checker_join_host_after(struct op *op, struct stream *stream);
void checker_host_function_begin(struct op *op);
void checker_host_function_end(struct op *op);
void checker_enqueue(struct op *op);
void checker_op_free(struct op *op);
void checker_stream_free(struct stream *stream);
void checker_stream_new(struct stream *stream);

/* ---- managed memory (managed.c) ---- */
void managed_prefetched(const struct work *work);

/* ---- pools (pool.c) ---- */
bool pool_accessible(const struct pool *pool, const struct device *from);
cudaError_t pool_check(const struct range *range, uintptr_t va, size_t size,
                       const struct device *from);
enum cudaMemoryType pool_memory_type(const struct pool *pool);
cudaError_t pool_free_now(struct range *range, uintptr_t va, enum fn fn);
void pools_give_back(struct device *device);
void pool_stream_synchronized(struct stream *stream);
void pool_device_synchronized(struct device *device);
void pool_op_synchronized(struct op *op);
void pools_reset(void);

/* ---- the calls behind the runtime's and the driver's names ---- */
cudaError_t stream_submit(struct stream *stream, const struct work *work, enum fn fn);
cudaError_t stream_synchronize(cudaStream_t handle);
cudaError_t stream_query(cudaStream_t handle);
cudaError_t stream_get_id(cudaStream_t handle, unsigned long long *id);
cudaError_t launch_host_func(cudaStream_t handle, cudaHostFn_t fn, void *user_data, enum fn id);
cudaError_t event_record(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags,
                         enum fn fn);
cudaError_t stream_wait_event(cudaStream_t stream_handle, cudaEvent_t handle, unsigned flags,
                              enum fn fn);
cudaError_t event_query(cudaEvent_t handle);
cudaError_t event_synchronize(cudaEvent_t handle);
cudaError_t capture_status(cudaStream_t handle, int *status);
cudaError_t device_malloc(void **ptr, size_t size);
cudaError_t device_free(void *ptr, enum fn fn);
cudaError_t mem_get_info(size_t *free_bytes, size_t *total_bytes);
cudaError_t memset_async(void *ptr, int value, size_t count, cudaStream_t handle, enum fn fn);
cudaError_t memcpy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                         cudaStream_t handle, enum fn fn);

/* ---- faults (fault.c) ---- */
cudaError_t fault_check(enum fn fn);
void fault_load(const char *text);
void fault_clear(void);
bool fault_add(const char *name, unsigned long long first, unsigned long long count,
               unsigned per_thousand, cudaError_t error);
bool override_add(int device, int attr, int value);
void override_clear(void);
void override_load(const char *text);
bool override_find(int device, int attr, int *value);
extern unsigned long long call_counts[FN_COUNT];
enum fn function_by_name(const char *name);

/* ---- report (report.c) ---- */
void report_write(void);

/* ---- driver (driver.c) ---- */
void *driver_symbol(const char *name, int *since);

#endif
