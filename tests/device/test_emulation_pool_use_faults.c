/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA calls that fail while a pool is used, with and without guards around its blocks: an error or
 * a reported misuse, nothing is lost, and the pool goes on.
 */
#include <crmm/device/pool_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>

#include "fault_sweep.h"
#include "misuse_recorder.h"
#include "pool_support.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

/* All that CUDA is asked for here. */
enum { GROWTH, FENCES, QUESTIONS, DEVICES, CAPTURES, RETURNS, GUARDS };
static const fault_call calls[] = {
    {"cudaMalloc", GROWTH},
    {"cudaMemGetInfo", GROWTH},
    {"cudaDeviceGetAttribute", GROWTH},
    {"cuMemAddressReserve", GROWTH},
    {"cuMemCreate", GROWTH},
    {"cuMemMap", GROWTH},
    {"cuMemSetAccess", GROWTH},
    {"cuMemRelease", GROWTH},
    {"cudaEventCreateWithFlags", FENCES},
    {"cuEventRecord", FENCES},
    {"cuEventQuery", FENCES},
    {"cuEventSynchronize", FENCES},
    {"cuStreamWaitEvent", FENCES},
    {"cudaDeviceSynchronize", FENCES},
    {"cuStreamIsCapturing", QUESTIONS},
    {"cuStreamGetId", QUESTIONS},
    {"cudaGetDevice", DEVICES},
    {"cudaSetDevice", DEVICES},
    {"cuStreamGetCtx", DEVICES},
    {"cuCtxGetCurrent", DEVICES},
    {"cuCtxSetCurrent", DEVICES},
    {"cudaThreadExchangeStreamCaptureMode", CAPTURES},
    {"cuMemRetainAllocationHandle", RETURNS},
    {"cuMemUnmap", RETURNS},
    {"cudaFree", RETURNS},
    {"cudaMemsetAsync", GUARDS},
    {"cudaMemcpyAsync", GUARDS},
    {"cudaStreamSynchronize", GUARDS},
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

typedef struct block {
    void *ptr;
    size_t bytes, alignment;
    cudaStream_t stream;
} block;

enum { MOST_BLOCKS = 64 };
typedef struct life {
    crmm_resource *upstream, *pool;
    cudaStream_t a, b;
    size_t page;       /* bytes of a block that fills a page, with its guards */
    bool is_elsewhere; /* another device is current: the default streams are not the pool's */
    block blocks[MOST_BLOCKS];
    size_t count;
    holdings before; /* what there was before the pool */
    size_t upstream_held;
} life;

/* ---- what a program does ---- */

/* The kernel leaves the bytes alone: nobody reads them, and gigabytes would be written. */
static void work_on(const block *one)
{
    const struct cudart_emulated_range range = {
        .ptr = one->ptr, .size = one->bytes, .write = 1, .value = -1};
    cuda(cudart_emulated_kernel(one->stream, &range, 1, NULL, NULL));
}

/* Of the call that failed, or of a shortage. */
static void expect_clean(crmm_status status)
{
    cr_assert(status == CRMM_ERROR_CUDA || crmm_status_is_allocation_failure(status), "%s",
              crmm_status_name(status));
    expect_equal(crmm_last_error()->status, status);
    cr_assert(status == CRMM_ERROR_OUT_OF_MEMORY ||
                  crmm_last_error()->native_code == cudaErrorIllegalAddress,
              "%s: native code %d", crmm_status_name(status), crmm_last_error()->native_code);
}

static void try_take(life *state, cudaStream_t stream, size_t bytes, size_t alignment)
{
    block *one = &state->blocks[state->count];

    *one = (block){.ptr = one, .bytes = bytes, .alignment = alignment, .stream = stream};
    crmm_status status = crmm_allocate(state->pool, stream, bytes, alignment, &one->ptr);
    if (status == CRMM_SUCCESS) {
        work_on(one);
        state->count++;
        return;
    }
    expect_clean(status);
    cr_assert(one->ptr == one);
}

/* A free that CUDA hinders is reported. Then the block is left, unless only its guards could not be
 * looked at. */
static void try_give(life *state, size_t index)
{
    block *one = &state->blocks[index];
    size_t findings = misuse_recorded()->count;

    if (index >= state->count) {
        return;
    }
    work_on(one);
    crmm_deallocate(state->pool, one->stream, one->ptr, one->bytes, one->alignment);
    bool is_told = misuse_recorded()->count > findings;
    cr_assert(!is_told || misuse_recorded()->latest.kind == CRMM_MISUSE_CUDA, "%s",
              misuse_recorded()->message);
    if (!is_told || info_of(state->pool).allocations < state->count) {
        *one = state->blocks[--state->count];
    }
}

static void try_sync(life *state, size_t bytes)
{
    void *ptr = NULL;

    crmm_status status = crmm_allocate_sync(state->pool, bytes, 256, &ptr);
    if (status != CRMM_SUCCESS) {
        expect_clean(status);
        return;
    }
    cuda(cudart_emulated_host_access(ptr, bytes, 1)); /* no work is pending on it */
    crmm_deallocate_sync(state->pool, ptr, bytes, 256);
}

static void try_retire(life *state, cudaStream_t stream)
{
    crmm_status status = crmm_pool_memory_resource_retire_stream(state->pool, stream);

    cr_assert(status == CRMM_SUCCESS || status == CRMM_ERROR_CUDA, "%s", crmm_status_name(status));
}

/* Every other page of a stream is free, and another stream needs more than lies in a row. */
static void move_pages(life *state)
{
    enum { PAGES = 8 };

    for (size_t i = 0; i < PAGES; i++) {
        try_take(state, state->a, state->page, 256);
    }
    for (size_t i = 0; i < PAGES / 2; i++) {
        try_give(state, i * 2);
    }
    try_retire(state, state->a);
    try_take(state, state->b, 6 * MIB, 256);
    for (size_t i = state->count; i > 0; i--) {
        try_give(state, i - 1);
    }
    try_retire(state, state->b);
}

/* So much at once that the device is asked first whether it has it. */
static void grow_much(life *state)
{
    expect_success(crmm_resource_trim(state->pool, 0, NULL));
    try_take(state, state->a, 18 * MIB, 256);
    try_give(state, 0);
    expect_success(crmm_resource_trim(state->pool, 0, NULL));
}

static void mix_sizes(life *state)
{
    static const size_t sizes[] = {300, 40 * KIB, 300 * KIB, 3 * MIB, 5 * MIB};

    for (size_t i = 0; i < 10; i++) {
        try_take(state, i % 2 == 0 ? state->a : state->b, sizes[i % 5], i == 7 ? 8192 : 256);
    }
    for (size_t i = 0; i < 8; i++) {
        try_give(state, i % 3);
    }
}

/* More than some pools may hold: what others gave back is waited for, on the GPU and on the CPU. */
static void run_short(life *state)
{
    try_take(state, state->b, 7 * MIB, 256);
    try_take(state, state->a, 9 * MIB, 256);
    try_retire(state, state->a);
    try_take(state, state->b, 6 * MIB, 256);
    if (!state->is_elsewhere) {
        try_take(state, CRMM_STREAM_PER_THREAD, 2 * MIB, 256);
        try_take(state, NULL, 100 * KIB, 256);
    }
    try_sync(state, 4 * MIB);
}

/* Where there is no more, what a stream gives back is all that a call without a stream can have. */
static void wait_on_the_cpu(life *state)
{
    for (size_t i = 0; i < 3; i++) {
        try_take(state, state->a, 3 * MIB, 256);
    }
    if (state->count > 0) {
        try_give(state, state->count - 1);
    }
    try_retire(state, state->a);
    try_sync(state, 3 * MIB);
}

static void live(life *state)
{
    move_pages(state);
    grow_much(state);
    mix_sizes(state);
    run_short(state);
    try_give(state, 0);
    try_give(state, 0);
    wait_on_the_cpu(state);
    expect_success(crmm_resource_trim(state->pool, 4 * MIB, NULL));
    try_take(state, state->a, 3 * MIB, 256);
}

/* ---- pools and devices that differ ---- */

static const size_t ENOUGH = (size_t)4 << 30; /* bytes of a device */

typedef struct style {
    size_t memory; /* of the device */
    int current;   /* the device that the program is on; that of the pool is 0 */
    crmm_pool_memory_resource_options options;
} style;

static const style styles[] = {
    {ENOUGH, 0, {.handle_size = 2 * MIB}},
    {ENOUGH, 0, {.tight = 1, .maximum_pool_size = 36 * MIB}},
    {ENOUGH, 0, {.maximum_pool_size = 30 * MIB}},
    {ENOUGH, 0, {.handle_size = 2 * MIB, .release_threshold = 12 * MIB}},
    {ENOUGH, 1, {.tight = 1, .maximum_pool_size = 30 * MIB}},
    {28 * MIB, 0, {.handle_size = 2 * MIB}}, /* too little for a wait for the device */
};

/* How far streams have come when the pool asks. */
enum { NOT_AT_ALL, BY_CHANCE, ALL_THE_WAY, ORDERS };
enum { UPSTREAMS = 2, STYLES = sizeof(styles) / sizeof(styles[0]) };

static crmm_resource *vmm;

static void set_order(size_t order)
{
    cudart_emulated_set_option("idle_queries", order != ALL_THE_WAY);
    cudart_emulated_set_seed(order == BY_CHANCE);
}

static void begin(life *state, size_t variant, bool validates)
{
    const style *of = &styles[variant / UPSTREAMS % STYLES];
    crmm_pool_memory_resource_options options = of->options;

    *state = (life){.upstream = variant % UPSTREAMS == 0 ? vmm : crmm_cuda_memory_resource()};
    set_order(ALL_THE_WAY);
    cuda(cudaStreamSynchronize(CRMM_STREAM_PER_THREAD));
    note_holdings(&state->before);
    state->upstream_held = info_of(state->upstream).held;
    state->a = make_stream();
    state->b = make_stream();
    cudart_emulated_set_memory(0, state->before.physical + of->memory);
    options.struct_size = sizeof(options);
    options.validate = validates;
    state->pool = pool_made(state->upstream, &options);
    misuse_recorder_start();
    cuda(cudaSetDevice(of->current));
    state->page = validates ? 2 * MIB - 512 : 2 * MIB;
    state->is_elsewhere = of->current != 0;
    set_order(variant / UPSTREAMS / STYLES);
}

/* ---- what must hold afterwards ---- */

static void give_all(life *state)
{
    while (state->count > 0) {
        size_t before = state->count;
        try_give(state, before - 1);
        expect_equal(state->count, before - 1);
    }
    expect_equal(info_of(state->pool).live, 0);
    expect_equal(info_of(state->pool).allocations, 0);
    expect_sound_books(state->pool);
}

/* As if nothing had been. */
static void go_on(life *state)
{
    const cudaStream_t streams[] = {state->a, state->b, NULL, CRMM_STREAM_PER_THREAD};
    void *ptr = NULL;

    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        try_take(state, streams[i], 3 * MIB, 256);
        expect_equal(state->count, i + 1);
    }
    expect_success(crmm_allocate_sync(state->pool, 2 * MIB, 256, &ptr));
    crmm_deallocate_sync(state->pool, ptr, 2 * MIB, 256);
    give_all(state);
}

/* What cudaFree fails to give back is cuda's, which has told of it. */
static bool is_lost_by_cuda(void)
{
    return misuse_recorded()->count > 0 &&
           strcmp(misuse_recorded()->resource_name, "cuda_memory_resource") == 0;
}

static void expect_nothing_lost(const life *state, const fault *one, bool is_met)
{
    bool is_back = info_of(state->upstream).held == state->upstream_held &&
                   are_holdings_back(&state->before, one, is_met);

    cr_assert(is_back || is_lost_by_cuda(), "%s, call %llu: something is lost", one->call,
              one->position);
    cr_assert(cudart_emulated_violations() == 0, "%s, call %llu: %s", one->call, one->position,
              cudart_emulated_violation(0));
    cr_assert(cudaGetLastError() == cudaSuccess, "%s, call %llu: an error is pending", one->call,
              one->position);
}

static void end(life *state, const fault *one, bool is_met)
{
    crmm_resource_release(&state->pool);
    cuda(cudaStreamDestroy(state->a));
    cuda(cudaStreamDestroy(state->b));
    expect_nothing_lost(state, one, is_met);
}

static bool survive(size_t variant, bool validates, const fault *one)
{
    life state;

    begin(&state, variant, validates);
    fault_begin(one);
    live(&state);
    bool is_met = fault_end(one);
    size_t findings = misuse_recorded()->count;
    cuda(cudaSetDevice(0));
    cudart_emulated_set_memory(0, state.before.physical + ENOUGH);
    give_all(&state);
    go_on(&state);
    end(&state, one, is_met);
    cr_assert(misuse_recorded()->count == findings && (is_met || findings == 0),
              "%s, call %llu: %s", one->call, one->position, misuse_recorded()->message);
    return is_met;
}

static bool survive_plain(size_t variant, const fault *one)
{
    return survive(variant, false, one);
}

static bool survive_validating(size_t variant, const fault *one)
{
    return survive(variant, true, one);
}

static void survive_all(int part, size_t orders, fault_program *run)
{
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what CUDA fails to release is lost; the emulated one had it of malloc */
#endif
    cr_assert(cudart_emulated_set_devices(2) == 0);
    vmm = make_vmm();
    sweep_faults(calls, CALLS, part, UPSTREAMS * STYLES * orders, run);
    crmm_resource_release(&vmm);
}

Test(emulation_pool_use_faults, no_failing_growth_loses_anything, .timeout = 100)
{
    survive_all(GROWTH, ORDERS, survive_plain);
}

Test(emulation_pool_use_faults, no_failing_fence_wait_or_query_loses_anything, .timeout = 100)
{
    survive_all(FENCES, ORDERS, survive_plain);
}

Test(emulation_pool_use_faults, no_failing_question_about_a_stream_loses_anything, .timeout = 100)
{
    survive_all(QUESTIONS, ORDERS, survive_plain);
}

Test(emulation_pool_use_faults, no_failing_change_of_the_device_loses_anything, .timeout = 100)
{
    survive_all(DEVICES, ORDERS, survive_plain);
}

Test(emulation_pool_use_faults, no_failing_change_of_the_capture_mode_loses_anything,
     .timeout = 100)
{
    survive_all(CAPTURES, ORDERS, survive_plain);
}

Test(emulation_pool_use_faults, no_failing_move_or_return_loses_anything, .timeout = 100)
{
    survive_all(RETURNS, ORDERS, survive_plain);
}

/* ---- with guards: every free waits for its stream, so that one order is like another ---- */

Test(emulation_pool_use_faults, no_failing_growth_loses_anything_of_guarded_blocks, .timeout = 100)
{
    survive_all(GROWTH, 1, survive_validating);
}

Test(emulation_pool_use_faults, no_failing_fence_or_wait_loses_anything_of_guarded_blocks,
     .timeout = 100)
{
    survive_all(FENCES, 1, survive_validating);
}

Test(emulation_pool_use_faults, no_failing_question_loses_anything_of_guarded_blocks,
     .timeout = 100)
{
    survive_all(QUESTIONS, 1, survive_validating);
}

Test(emulation_pool_use_faults, no_failing_change_of_a_mode_loses_anything_of_guarded_blocks,
     .timeout = 100)
{
    survive_all(DEVICES, 1, survive_validating);
    survive_all(CAPTURES, 1, survive_validating);
}

Test(emulation_pool_use_faults, no_failing_return_loses_anything_of_guarded_blocks, .timeout = 100)
{
    survive_all(RETURNS, 1, survive_validating);
}

Test(emulation_pool_use_faults, no_failing_look_at_guards_loses_anything, .timeout = 100)
{
    survive_all(GUARDS, 1, survive_validating);
}
