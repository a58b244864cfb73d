/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA calls that fail while a pool gives memory back: at its end, in a trim, and when a stream is
 * retired. Whatever call it is, memory goes back, or stays and is known to stay. And calls that
 * fail while it looks for memory: a request is refused, and what it says is true.
 */
#include <crmm/device/pool_memory_resource.h>

#include <cudart_emulated.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_pieces.h"
#include "pool_support.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

/* What CUDA is asked for on these paths. Events that it fails to destroy are lost, and no memory.
 */
static const char *const calls[] = {"cuEventQuery",
                                    "cuEventRecord",
                                    "cuEventSynchronize",
                                    "cuMemAddressFree",
                                    "cuMemRelease",
                                    "cuMemUnmap",
                                    "cuStreamGetId",
                                    "cuStreamIsCapturing",
                                    "cudaEventCreateWithFlags",
                                    "cudaEventDestroy",
                                    "cudaFree",
                                    "cudaGetDevice",
                                    "cudaMalloc",
                                    "cudaDeviceSynchronize",
                                    "cudaStreamSynchronize",
                                    "cuMemSetAccess",
                                    "cuMemMap",
                                    "cuMemRetainAllocationHandle"};
enum { CALLS = sizeof(calls) / sizeof(calls[0]), ALWAYS = 0 };

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

typedef struct subject {
    crmm_resource *vmm, *upstream, *pool;
    cudaStream_t a, b;
    chunk_sum chunks;
    size_t upstream_held; /* by others */
} subject;

enum { STYLES = 4 };

/* Memory that two streams and the default streams gave back, some with work on it and some moved,
 * at hand, and clean. */
static void fill(subject *it)
{
    void *ptrs[12];

    for (size_t i = 0; i < 12; i++) {
        ptrs[i] = take(it->pool, it->a, 2 * MIB);
    }
    for (size_t i = 0; i < 12; i += 2) {
        crmm_deallocate(it->pool, it->a, ptrs[i], 2 * MIB, 256);
    }
    void *large = take(it->pool, it->a, 8 * MIB);
    const struct cudart_emulated_range range = {.ptr = large, .size = 8 * MIB, .write = 1};
    cuda(cudart_emulated_kernel(it->a, &range, 1, NULL, NULL));
    void *small = take(it->pool, it->b, 3000);
    void *legacy = take(it->pool, NULL, 300 * KIB);
    void *own = take(it->pool, CRMM_STREAM_PER_THREAD, 3 * MIB);
    crmm_deallocate(it->pool, it->a, large, 8 * MIB, 256);
    crmm_deallocate(it->pool, it->b, small, 3000, 256);
    crmm_deallocate(it->pool, NULL, legacy, 300 * KIB, 256);
    crmm_deallocate(it->pool, CRMM_STREAM_PER_THREAD, own, 3 * MIB, 256);
    for (size_t i = 1; i < 12; i += 2) {
        crmm_deallocate(it->pool, it->a, ptrs[i], 2 * MIB, 256);
    }
}

static void begin(subject *it, size_t style)
{
    *it = (subject){.vmm = make_vmm()};
    it->upstream = style % 2 == 0 ? it->vmm : crmm_cuda_memory_resource();
    it->upstream_held = info_of(it->upstream).held;
    it->a = make_stream();
    it->b = make_stream();
    cuda(cudaStreamSynchronize(CRMM_STREAM_PER_THREAD));
    it->pool = make_pool(it->upstream, .handle_size = 2 * MIB, .tight = style / 2,
                         .on_chunk = note_chunk, .on_chunk_user_data = &it->chunks);
    fill(it);
    expect_equal(it->chunks.bytes, info_of(it->pool).held);
    misuse_recorder_start();
}

static void end(subject *it)
{
    cuda(cudaStreamDestroy(it->a));
    cuda(cudaStreamDestroy(it->b));
    crmm_resource_release(&it->vmm);
}

/* Let calls of a function fail from now on: one, or ALWAYS all of them. */
static unsigned long long arm(const char *call, unsigned long long position)
{
    cr_assert(cudart_emulated_fail(call, position == ALWAYS ? 1 : position,
                                   position == ALWAYS ? 0 : 1, cudaErrorIllegalAddress) == 0);
    return cudart_emulated_calls(call);
}

/* Whether the call that was meant to fail was made. */
static bool disarm(const char *call, unsigned long long position, unsigned long long before)
{
    cudart_emulated_clear_faults();
    return cudart_emulated_calls(call) - before >= (position == ALWAYS ? 1 : position);
}

static bool was_told_by(const char *name)
{
    return misuse_recorded()->count > 0 && misuse_recorded()->latest.kind == CRMM_MISUSE_CUDA &&
           strcmp(misuse_recorded()->resource_name, name) == 0;
}

/* ---- the end ---- */

static bool end_with(size_t style, const char *call, unsigned long long position)
{
    const crmm_error before = {.status = CRMM_ERROR_OUT_OF_RANGE, .native_code = 5};
    subject it;

    begin(&it, style);
    (void)crmm_set_last_error(before.status, before.native_code, "mine");
    unsigned long long made = arm(call, position);
    crmm_resource_release(&it.pool);
    bool reached = disarm(call, position, made);
    size_t lost = info_of(it.upstream).held - it.upstream_held;
    /* One that fails once hinders nothing: memory of vmm goes at the second attempt. */
    cr_assert((lost == 0 && misuse_recorded()->count == 0) || position == ALWAYS ||
                  it.upstream != it.vmm,
              "style %zu, %s, call %llu: %zu bytes are lost", style, call, position, lost);
    if (lost > 0) {
        bool told = was_told_by("pool_memory_resource") || was_told_by("cuda_memory_resource");
        cr_assert(told, "style %zu, %s, call %llu: %zu bytes are lost, and nobody says so", style,
                  call, position, lost);
        expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
    }
    /* What cuda fails to free is cuda's, which tells of each chunk. */
    if (was_told_by("pool_memory_resource") && it.upstream == it.vmm) {
        expect_equal(misuse_recorded()->count, 1);
        expect_equal(misuse_recorded()->latest.bytes, lost);
        /* What is not given back, the program was not told to be gone. */
        expect_equal(it.chunks.bytes, lost);
    }
    cr_assert(lost > 0 || it.chunks.bytes == 0);
    expect_equal(crmm_last_error()->status, before.status); /* a release has none */
    expect_equal(crmm_last_error()->native_code, before.native_code);
    end(&it);
    return reached;
}

static void ignore_what_cuda_loses(void)
{
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what CUDA fails to release is lost; the emulated one had it of malloc */
#endif
}

Test(emulation_pool_faults, a_call_that_fails_at_the_end_loses_nothing_unsaid, .timeout = 100)
{
    ignore_what_cuda_loses();
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t style = 0; style < STYLES; style++) {
            unsigned long long position = 1;
            while (end_with(style, calls[i], position)) {
                position++;
            }
            expect_equal(cudart_emulated_violations(), 0);
        }
    }
}

Test(emulation_pool_faults, calls_that_fail_for_good_at_the_end_are_told_of)
{
    static const char *const hindering[] = {"cuMemUnmap", "cuMemAddressFree", "cudaGetDevice"};

    ignore_what_cuda_loses();
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t style = 0; style < STYLES; style++) {
            (void)end_with(style, calls[i], ALWAYS);
        }
    }
    for (size_t i = 0; i < sizeof(hindering) / sizeof(hindering[0]); i++) {
        (void)end_with(0, hindering[i], ALWAYS);
        cr_assert(was_told_by("pool_memory_resource"), "%s", hindering[i]);
        cr_assert(strstr(misuse_recorded()->message, "are lost: ") != NULL);
        cr_assert(strstr(misuse_recorded()->message, hindering[i]) != NULL ||
                      strcmp(hindering[i], "cudaGetDevice") == 0,
                  "%s", misuse_recorded()->message);
    }
    expect_equal(cudart_emulated_violations(), 0);
}

/* ---- trim ---- */

/* It gives what it can, and says how much; the rest goes with the next one. */
static bool trim_with(size_t style, const char *call, unsigned long long position)
{
    size_t released = 77;
    subject it;

    begin(&it, style);
    size_t held = info_of(it.pool).held;
    unsigned long long made = arm(call, position);
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    bool reached = disarm(call, position, made);
    expect_equal(info_of(it.pool).held, held - released);
    expect_equal(info_of(it.pool).live, 0);
    expect_equal(it.chunks.bytes, held - released);
    expect_sound_books(it.pool);
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    expect_equal(info_of(it.pool).held, 0);
    void *again = take(it.pool, it.b, 5 * MIB);
    crmm_deallocate(it.pool, it.b, again, 5 * MIB, 256);
    bool told = was_told_by("cuda_memory_resource");
    crmm_resource_release(&it.pool);
    cr_assert(told ||
                  (misuse_recorded()->count == 0 && info_of(it.upstream).held == it.upstream_held),
              "style %zu, %s, call %llu: %s", style, call, position, misuse_recorded()->message);
    end(&it);
    return reached;
}

Test(emulation_pool_faults, a_call_that_fails_in_a_trim_leaves_the_rest_to_the_next, .timeout = 100)
{
    ignore_what_cuda_loses();
    for (size_t i = 0; i < CALLS; i++) {
        for (size_t style = 0; style < STYLES; style++) {
            unsigned long long position = 1;
            (void)trim_with(style, calls[i], ALWAYS);
            while (trim_with(style, calls[i], position)) {
                position++;
            }
            expect_equal(cudart_emulated_violations(), 0);
        }
    }
}

/* ---- retiring a stream ---- */

/* An error, and what the stream gave back is found when memory is short, as if it had not been
 * retired. */
static bool retire_with(size_t style, const char *call, unsigned long long position,
                        size_t *failures)
{
    subject it;

    begin(&it, style);
    size_t cached = info_of(it.pool).cached;
    unsigned long long made = arm(call, position);
    crmm_status status = crmm_pool_memory_resource_retire_stream(it.pool, it.b);
    bool reached = disarm(call, position, made);
    if (status != CRMM_SUCCESS) {
        expect_equal(status, CRMM_ERROR_CUDA);
        expect_equal(crmm_last_error()->status, CRMM_ERROR_CUDA);
        expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
        (*failures)++;
    }
    expect_equal(info_of(it.pool).live, 0);
    expect_equal(info_of(it.pool).cached, cached);
    expect_sound_books(it.pool);
    expect_success(crmm_pool_memory_resource_retire_stream(it.pool, it.b));
    cuda(cudaStreamSynchronize(it.b));
    size_t released = 0;
    expect_success(crmm_resource_trim(it.pool, 0, &released));
    expect_equal(released, cached);
    crmm_resource_release(&it.pool);
    expect_equal(misuse_recorded()->count, 0);
    end(&it);
    return reached;
}

Test(emulation_pool_faults, a_call_that_fails_when_a_stream_is_retired_is_an_error, .timeout = 100)
{
    for (size_t i = 0; i < CALLS; i++) {
        size_t failures = 0;
        for (size_t style = 0; style < STYLES; style++) {
            unsigned long long position = 1;
            while (retire_with(style, calls[i], position, &failures)) {
                position++;
            }
        }
        bool is_needed = strcmp(calls[i], "cuStreamIsCapturing") == 0 ||
                         strcmp(calls[i], "cuStreamGetId") == 0 ||
                         strcmp(calls[i], "cuEventRecord") == 0;
        cr_assert(!is_needed || failures > 0, "%s was never missed", calls[i]);
        expect_equal(cudart_emulated_violations(), 0);
    }
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
        (void)arm(waits[i], ALWAYS);
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
    cudart_emulated_fail(reserve, 1, ALWAYS, cudaErrorMemoryAllocation);
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
