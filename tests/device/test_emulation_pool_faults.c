/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA calls that fail while a pool gives memory back: at its end, in a trim, and when a stream is
 * retired. Whatever call it is, memory goes back, or stays and is known to stay. And calls that
 * fail while it looks for memory: a request is refused, and what it says is true.
 *
 * Each of these paths has a list of all that it asks CUDA for.
 */
#include <crmm/device/pool_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "fault_sweep.h"
#include "misuse_recorder.h"
#include "pool_pieces.h"
#include "pool_support.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

/* ---- chunks that the program is told of ---- */

typedef struct chunk_sum {
    size_t bytes;
} chunk_sum;

static void note_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    chunk_sum *sum = user_data;

    cr_assert(base != NULL && (added || sum->bytes >= bytes));
    sum->bytes = added ? sum->bytes + bytes : sum->bytes - bytes;
}

/* ---- a pool with something to give back of each kind ---- */

/* In a variant: */
enum {
    OVER_CUDA = 1, /* not over vmm */
    IS_TIGHT = 2,
    IS_BEHIND = 4,     /* the work on free memory is not done before the pool waits for it */
    IS_FULL = 8,       /* the device has nothing left, not even for a wait */
    IS_ELSEWHERE = 16, /* another device is current */
    HAS_GUARDS = 32,
    VARIANTS = 64
};
static const size_t ENOUGH = (size_t)16 << 30; /* bytes of a device */
/* More than it ever has: a range of addresses that is lost with a pool is not much more. */
static const size_t MOST = (size_t)256 << 20;

typedef struct subject {
    crmm_resource *vmm, *upstream, *pool;
    cudaStream_t a, b;
    chunk_sum chunks;
    size_t upstream_held; /* by others */
    holdings before;
} subject;

/* A block's last work, which leaves its bytes alone. */
static void give(const subject *it, cudaStream_t stream, void *ptr, size_t bytes)
{
    const struct cudart_emulated_range range = {.ptr = ptr, .size = bytes, .write = 1, .value = -1};
    cuda(cudart_emulated_kernel(stream, &range, 1, NULL, NULL));
    crmm_deallocate(it->pool, stream, ptr, bytes, 256);
}

/* Memory that two streams and the default streams gave back with work on it, at hand and in heaps,
 * with an event behind it and without. Some pages of the first stream have moved. */
static void fill(const subject *it, size_t variant)
{
    enum { PAGES = 12 };
    const size_t page = (variant & HAS_GUARDS) != 0 ? 2 * MIB - 512 : 2 * MIB;
    void *ptrs[PAGES];

    for (size_t i = 0; i < PAGES; i++) {
        ptrs[i] = take(it->pool, it->a, page);
    }
    for (size_t i = 0; i < PAGES; i += 2) {
        give(it, it->a, ptrs[i], page);
    }
    void *large = take(it->pool, it->a, 8 * MIB);
    void *small[] = {take(it->pool, it->b, 3000), take(it->pool, it->b, 3000)};
    void *legacy[] = {take(it->pool, NULL, 300 * KIB), take(it->pool, NULL, 300 * KIB)};
    void *own = take(it->pool, CRMM_STREAM_PER_THREAD, 3 * MIB);
    give(it, it->a, large, 8 * MIB);
    give(it, CRMM_STREAM_PER_THREAD, own, 3 * MIB);
    for (size_t i = 1; i < PAGES; i += 2) {
        give(it, it->a, ptrs[i], page);
    }
    for (size_t i = 0; i < 2; i++) { /* there is an event behind the first */
        give(it, it->b, small[i], 3000);
        give(it, NULL, legacy[i], 300 * KIB);
    }
}

static void begin(subject *it, size_t variant)
{
    *it = (subject){.vmm = make_vmm()};
    it->upstream = (variant & OVER_CUDA) == 0 ? it->vmm : crmm_cuda_memory_resource();
    it->upstream_held = info_of(it->upstream).held;
    it->a = make_stream();
    it->b = make_stream();
    cuda(cudaDeviceSynchronize());
    note_holdings(&it->before);
    cudart_emulated_set_option("idle_queries", (variant & IS_BEHIND) != 0);
    it->pool =
        make_pool(it->upstream, .handle_size = 2 * MIB, .maximum_pool_size = MOST,
                  .tight = (variant & IS_TIGHT) != 0, .validate = (variant & HAS_GUARDS) != 0,
                  .on_chunk = note_chunk, .on_chunk_user_data = &it->chunks);
    fill(it, variant);
    expect_equal(it->chunks.bytes, info_of(it->pool).held);
    cr_assert(it->upstream != it->vmm || statistics_of(it->pool).moves > 0, "no page has moved");
    cr_assert((variant & IS_BEHIND) == 0 || info_of(it->pool).pending > 0, "all work is done");
    misuse_recorder_start();
    if ((variant & IS_FULL) != 0) {
        struct cudart_emulated_usage usage;
        cudart_emulated_usage(0, &usage);
        cudart_emulated_set_memory(0, usage.physical);
    }
}

static void end(subject *it)
{
    cudart_emulated_set_memory(0, ENOUGH);
    cuda(cudaStreamDestroy(it->a));
    cuda(cudaStreamDestroy(it->b));
    crmm_resource_release(&it->vmm);
    cr_assert(cudart_emulated_violations() == 0, "%s", cudart_emulated_violation(0));
    cr_assert(cudaGetLastError() == cudaSuccess, "an error is pending");
}

/* The swept part, on the device of the variant. */
static void start(size_t variant, const fault *one)
{
    cuda(cudaSetDevice((variant & IS_ELSEWHERE) != 0));
    fault_begin(one);
}

static bool stop(const fault *one)
{
    bool is_met = fault_end(one);

    cuda(cudaSetDevice(0));
    return is_met;
}

/* Nothing was reported, but that the device of the variant could not be made current again. */
static bool is_silent(const fault *one)
{
    return misuse_recorded()->count == 0 ||
           (misuse_recorded()->count == 1 && fault_is_of(one, "cudaSetDevice") &&
            strstr(misuse_recorded()->message, "cannot be made current again") != NULL);
}

static bool was_told_by(const char *name)
{
    return misuse_recorded()->count > 0 && misuse_recorded()->latest.kind == CRMM_MISUSE_CUDA &&
           strcmp(misuse_recorded()->resource_name, name) == 0;
}

/* Of a call that fails for good upstream's books are all there is to look at: the byte that a wait
 * for the device takes is lost, and events. */
static bool is_all_back(const subject *it, const fault *one, bool is_met)
{
    return info_of(it->upstream).held == it->upstream_held &&
           (one->lasts || are_holdings_back(&it->before, one, is_met));
}

static void set_up(void)
{
    cr_assert(cudart_emulated_set_devices(2) == 0);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what CUDA fails to release is lost; the emulated one had it of malloc */
#endif
}

/* Each call fails from its first position on. */
static void fail_for_good(const fault_call *calls, size_t count, fault_program *run)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t variant = 0; variant < VARIANTS; variant++) {
            const fault one = {.call = calls[i].name, .position = 1, .lasts = true};
            (void)run(variant, &one);
        }
    }
}

/* ---- the end ---- */

/* Events that CUDA fails to destroy are lost, and no memory. */
static const fault_call calls_at_the_end[] = {
    {.name = "cuEventQuery"},
    {.name = "cuEventRecord"},
    {.name = "cudaEventCreateWithFlags"},
    {.name = "cudaEventDestroy"},
    {.name = "cuStreamIsCapturing"},
    {.name = "cuCtxGetCurrent"},
    {.name = "cudaGetDevice"},
    {.name = "cudaSetDevice"},
    {.name = "cudaMalloc"},
    {.name = "cudaFree"},
    {.name = "cudaDeviceSynchronize"},
    {.name = "cuMemUnmap"},
    {.name = "cuMemAddressFree"},
    {.name = "cudaStreamDestroy"},
    {.name = "cudaThreadExchangeStreamCaptureMode"},
};
enum { CALLS_AT_THE_END = sizeof(calls_at_the_end) / sizeof(calls_at_the_end[0]) };

/* What the pool tells of is what upstream has lost, and the program was not told to be gone. */
static void expect_told_of(const subject *it, size_t lost)
{
    expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
    if (was_told_by("pool_memory_resource") && it->upstream == it->vmm) {
        expect_equal(misuse_recorded()->count, 1);
        expect_equal(misuse_recorded()->latest.bytes, lost);
        expect_equal(it->chunks.bytes, lost);
    }
}

static bool end_with(size_t variant, const fault *one)
{
    const crmm_error before = {.status = CRMM_ERROR_OUT_OF_RANGE, .native_code = 5};
    subject it;

    begin(&it, variant);
    (void)crmm_set_last_error(before.status, before.native_code, "mine");
    start(variant, one);
    crmm_resource_release(&it.pool);
    bool is_met = stop(one);
    size_t lost = info_of(it.upstream).held - it.upstream_held;
    /* What cuda fails to free is cuda's, which tells of each chunk. One call that fails hinders
     * nothing else: memory of vmm goes at the second attempt. */
    bool is_told =
        was_told_by("cuda_memory_resource") || (one->lasts && was_told_by("pool_memory_resource"));
    cr_assert(is_told || (is_all_back(&it, one, is_met) && is_silent(one)),
              "variant %zu, %s, call %llu: %zu bytes are lost; %s", variant, one->call,
              one->position, lost, misuse_recorded()->message);
    if (is_told) {
        expect_told_of(&it, lost);
    }
    cr_assert(lost > 0 || it.chunks.bytes == 0);
    expect_equal(crmm_last_error()->status, before.status); /* a release has none */
    expect_equal(crmm_last_error()->native_code, before.native_code);
    end(&it);
    return is_met;
}

Test(emulation_pool_faults, a_call_that_fails_at_the_end_loses_nothing_unsaid, .timeout = 100)
{
    set_up();
    sweep_faults(calls_at_the_end, CALLS_AT_THE_END, 0, VARIANTS, end_with);
}

Test(emulation_pool_faults, calls_that_fail_for_good_at_the_end_are_told_of)
{
    static const char *const hindering[] = {"cuMemUnmap", "cuMemAddressFree", "cudaGetDevice"};

    set_up();
    fail_for_good(calls_at_the_end, CALLS_AT_THE_END, end_with);
    for (size_t i = 0; i < sizeof(hindering) / sizeof(hindering[0]); i++) {
        const fault one = {.call = hindering[i], .position = 1, .lasts = true};
        (void)end_with(0, &one);
        cr_assert(was_told_by("pool_memory_resource"), "%s", hindering[i]);
        cr_assert(strstr(misuse_recorded()->message, "are lost: ") != NULL);
        cr_assert(strstr(misuse_recorded()->message, hindering[i]) != NULL ||
                      strcmp(hindering[i], "cudaGetDevice") == 0,
                  "%s", misuse_recorded()->message);
    }
}

/* ---- trim ---- */

static const fault_call calls_of_a_trim[] = {
    {.name = "cuEventQuery"},
    {.name = "cuEventRecord"},
    {.name = "cudaEventCreateWithFlags"},
    {.name = "cuStreamIsCapturing"},
    {.name = "cuCtxGetCurrent"},
    {.name = "cudaGetDevice"},
    {.name = "cudaSetDevice"},
    {.name = "cudaMalloc"},
    {.name = "cudaFree"},
    {.name = "cudaDeviceSynchronize"},
    {.name = "cuMemUnmap"},
    {.name = "cudaThreadExchangeStreamCaptureMode"},
};
enum { CALLS_OF_A_TRIM = sizeof(calls_of_a_trim) / sizeof(calls_of_a_trim[0]) };

/* It gives what it can, and says how much; the rest goes with the next one. */
static bool trim_with(size_t variant, const fault *one)
{
    size_t released = 77;
    subject it;

    begin(&it, variant);
    size_t held = info_of(it.pool).held;
    start(variant, one);
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    bool is_met = stop(one);
    expect_equal(info_of(it.pool).held, held - released);
    expect_equal(info_of(it.pool).live, 0);
    expect_equal(it.chunks.bytes, held - released);
    expect_sound_books(it.pool);
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    expect_equal(info_of(it.pool).held, 0);
    cudart_emulated_set_memory(0, ENOUGH);
    void *again = take(it.pool, it.b, 5 * MIB);
    give(&it, it.b, again, 5 * MIB);
    bool told = was_told_by("cuda_memory_resource");
    crmm_resource_release(&it.pool);
    cr_assert(told || (is_silent(one) && is_all_back(&it, one, is_met)),
              "variant %zu, %s, call %llu: %s", variant, one->call, one->position,
              misuse_recorded()->message);
    end(&it);
    return is_met;
}

Test(emulation_pool_faults, a_call_that_fails_in_a_trim_leaves_the_rest_to_the_next, .timeout = 100)
{
    set_up();
    sweep_faults(calls_of_a_trim, CALLS_OF_A_TRIM, 0, VARIANTS, trim_with);
    fail_for_good(calls_of_a_trim, CALLS_OF_A_TRIM, trim_with);
}

/* ---- retiring a stream ---- */

static const fault_call calls_of_a_retirement[] = {
    {.name = "cuStreamIsCapturing"}, {.name = "cuStreamGetId"},
    {.name = "cuStreamGetCtx"},      {.name = "cuCtxGetCurrent"},
    {.name = "cudaGetDevice"},       {.name = "cudaSetDevice"},
    {.name = "cuCtxSetCurrent"},     {.name = "cudaEventCreateWithFlags"},
    {.name = "cuEventRecord"},       {.name = "cudaThreadExchangeStreamCaptureMode"},
};
enum { CALLS_OF_A_RETIREMENT = sizeof(calls_of_a_retirement) / sizeof(calls_of_a_retirement[0]) };

/* Whether the stream cannot be told from others, or has no event. What the legacy stream gave back
 * gets one when somebody needs it. */
static bool is_needed(const fault *one, cudaStream_t stream)
{
    return fault_is_of(one, "cuStreamGetId") || fault_is_of(one, "cuEventRecord") ||
           (fault_is_of(one, "cuStreamIsCapturing") && one->position == 1 && stream != NULL);
}

/* An error, and what the stream gave back is found when memory is short, as if it had not been
 * retired. */
static bool retire_with(size_t variant, const fault *one)
{
    subject it;

    begin(&it, variant % VARIANTS);
    const cudaStream_t streams[] = {it.b, NULL, CRMM_STREAM_PER_THREAD};
    cudaStream_t stream = streams[variant / VARIANTS];
    size_t cached = info_of(it.pool).cached;
    start(variant, one);
    crmm_status status = crmm_pool_memory_resource_retire_stream(it.pool, stream);
    bool is_met = stop(one);
    cr_assert(status != CRMM_SUCCESS || !is_met || !is_needed(one, stream), "%s was not missed",
              one->call);
    if (status != CRMM_SUCCESS) {
        expect_equal(status, CRMM_ERROR_CUDA);
        expect_equal(crmm_last_error()->status, CRMM_ERROR_CUDA);
        expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
    }
    expect_equal(info_of(it.pool).live, 0);
    expect_equal(info_of(it.pool).cached, cached);
    expect_sound_books(it.pool);
    expect_success(crmm_pool_memory_resource_retire_stream(it.pool, stream));
    cuda(cudaDeviceSynchronize());
    size_t released = 0;
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    expect_equal(released, cached);
    crmm_resource_release(&it.pool);
    cr_assert(is_silent(one) && is_all_back(&it, one, is_met));
    end(&it);
    return is_met;
}

Test(emulation_pool_faults, a_call_that_fails_when_a_stream_is_retired_is_an_error, .timeout = 100)
{
    enum { STREAMS = 3 };

    set_up();
    sweep_faults(calls_of_a_retirement, CALLS_OF_A_RETIREMENT, 0, VARIANTS * STREAMS, retire_with);
}

/* ---- a wait before a request is refused ---- */

/* A wait that fails leaves memory pending: the record says how much, and the message that this may
 * be why. */
Test(emulation_pool_faults, a_request_refused_after_failed_waits_tells_what_is_pending)
{
    static const char *const waits[] = {"cuEventSynchronize", "cudaDeviceSynchronize",
                                        "cudaMalloc"};
    cudaStream_t owner = make_stream();
    cudaStream_t other = make_stream();
    void *refused = &refused;
    gate held;

    pieces parts = pieces_make(crmm_cuda_memory_resource(), PIECES_ALL, owner);
    gate_close(&held, owner);
    pieces_give_back(&parts);
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        expect_equal(cudart_emulated_fail(waits[i], 1, 0, cudaErrorIllegalAddress), 0);
    }
    expect_status(crmm_allocate(parts.pool, other, 5 * MIB, 256, &refused),
                  CRMM_ERROR_OUT_OF_MEMORY);
    cudart_emulated_clear_faults();
    cr_assert(refused == &refused && !gate_is_open(&held));
    expect_text(crmm_last_error()->message,
                "pool_memory_resource: no 5242880 bytes: 7340032 live, 9437184 free, of which "
                "6291456 pending, longest run 4194304, of at most 16777216; enough is left, but "
                "no piece fits, or it is pending");
    expect_equal(crmm_last_error()->live_bytes, PIECES_LIVE);
    expect_equal(crmm_last_error()->cached_bytes, PIECES_FREE);
    expect_equal(crmm_last_error()->pending_bytes, PIECES_PENDING);
    expect_equal(crmm_last_error()->largest_free_bytes, PIECES_LARGEST);
    gate_open(&held);
    pieces_end(&parts);
    cuda(cudaStreamDestroy(owner));
    cuda(cudaStreamDestroy(other));
    expect_equal(cudart_emulated_violations(), 0);
}

/* ---- address space ---- */

static const char reserve[] = "cuMemAddressReserve";

/* A process may be short of addresses: a pool takes less of them than it would like, and another
 * range when the first is full. */
Test(emulation_pool_faults, a_refused_reservation_is_halved)
{
    enum { REFUSED = 5, BLOCKS = 3 };
    const size_t bytes = 700 * MIB;
    crmm_resource *vmm = make_vmm();
    void *ptrs[BLOCKS];

    /* Four times as much is asked for first: 32 GiB, then 16, 8, 4, 2 and at last 1. */
    cudart_emulated_set_memory(0, (size_t)8 << 30);
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    unsigned long long made = cudart_emulated_calls(reserve);
    cudart_emulated_fail(reserve, 1, REFUSED, cudaErrorMemoryAllocation);
    ptrs[0] = take(pool, NULL, bytes);
    expect_equal(cudart_emulated_calls(reserve) - made, REFUSED + 1);
    expect_equal(info_of(pool).held + statistics_of(pool).holes, (size_t)1 << 30);
    ptrs[1] = take(pool, NULL, bytes);
    expect_equal(cudart_emulated_calls(reserve) - made, REFUSED + 2);
    expect_equal(info_of(pool).held + statistics_of(pool).holes, (size_t)33 << 30);
    ptrs[2] = take(pool, NULL, bytes);
    expect_equal(cudart_emulated_calls(reserve) - made, REFUSED + 2);
    expect_sound_books(pool);
    for (size_t i = 0; i < BLOCKS; i++) {
        crmm_deallocate(pool, NULL, ptrs[i], bytes, 256);
    }
    unsigned long long given_back = cudart_emulated_calls("cuMemAddressFree");
    crmm_resource_release(&pool);
    expect_equal(cudart_emulated_calls("cuMemAddressFree") - given_back, 2);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
}

/* Not below what a request needs. */
Test(emulation_pool_faults, a_reservation_is_not_halved_below_the_need)
{
    const size_t bytes = (size_t)5 << 30;
    crmm_resource *vmm = make_vmm();

    cudart_emulated_set_memory(0, (size_t)8 << 30);
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    cudart_emulated_fail(reserve, 1, 2, cudaErrorMemoryAllocation);
    void *ptr = take(pool, NULL, bytes);
    expect_equal(info_of(pool).held + statistics_of(pool).holes, (size_t)8 << 30);
    crmm_deallocate(pool, NULL, ptr, bytes, 256);
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* Where even the smallest is refused, the request fails, or the pool is not made, and nothing is
 * held. */
Test(emulation_pool_faults, without_addresses_a_pool_fails_cleanly)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *refused = NULL;
    void *ptr = &ptr;

    cudart_emulated_set_memory(0, (size_t)8 << 30);
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    cudart_emulated_fail(reserve, 1, 0, cudaErrorMemoryAllocation);
    expect_failure(crmm_allocate(pool, NULL, 3 * MIB, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "upstream refused: ");
    expect_message("cuMemAddressReserve");
    expect_equal(crmm_last_error()->requested_bytes, 3 * MIB);
    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
    cr_assert(ptr == &ptr);
    expect_equal(info_of(pool).held + statistics_of(pool).holes, 0);
    expect_sound_books(pool);
    expect_failure(
        crmm_pool_memory_resource_create(
            vmm, CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = 8 * MIB), &refused),
        CRMM_ERROR_OUT_OF_MEMORY, "cuMemAddressReserve");
    cr_assert(refused == NULL);
    cudart_emulated_clear_faults();
    ptr = take(pool, NULL, 3 * MIB); /* as if nothing had been */
    expect_equal(info_of(pool).held + statistics_of(pool).holes, (size_t)32 << 30);
    crmm_deallocate(pool, NULL, ptr, 3 * MIB, 256);
    crmm_resource_release(&pool);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
}
