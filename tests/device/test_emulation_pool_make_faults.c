/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA calls that fail while a pool with an initial size is made: there is a pool that works, or an
 * error and nothing else.
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

/* What CUDA is asked for while a pool is made, and when what was made goes again. */
static const fault_call calls[] = {
    {.name = "cudaGetDevice"},
    {.name = "cudaSetDevice"},
    {.name = "cudaMemGetInfo"},
    {.name = "cudaDeviceGetAttribute"},
    {.name = "cuMemAddressReserve"},
    {.name = "cuMemCreate"},
    {.name = "cuMemRelease"},
    {.name = "cuMemMap"},
    {.name = "cuMemSetAccess"},
    {.name = "cuMemUnmap"},
    {.name = "cuMemAddressFree"},
    {.name = "cudaMalloc"},
    {.name = "cudaStreamCreateWithFlags"},
    {.name = "cudaStreamDestroy"},
    {.name = "cudaThreadExchangeStreamCaptureMode"},
};

/* What is made, and what the device has for it. */
typedef struct setting {
    bool is_over_cuda; /* not over vmm, which is on device 0 */
    size_t initial;    /* bytes of the pool */
    size_t memory;     /* bytes of the device */
    bool is_kept;      /* half of them by the driver, for memory pools, which give them up */
    int current;       /* the device that the program is on */
    uint64_t validate;
} setting;

static const size_t ENOUGH = (size_t)4 << 30;

static const setting settings[] = {
    {.initial = 20 * MIB, .memory = ENOUGH},
    {.initial = 20 * MIB, .memory = ENOUGH, .current = 1, .validate = 1},
    {.initial = 20 * MIB, .memory = 32 * MIB, .is_kept = true},
    {.initial = 20 * MIB, .memory = 8 * MIB},
    {.initial = 14 * MIB, .memory = 8 * MIB}, /* it gets some pages, and then no more */
    {.initial = 14 * MIB, .memory = 8 * MIB, .current = 1, .validate = 1},
    {.is_over_cuda = true, .initial = 20 * MIB, .memory = ENOUGH},
    {.is_over_cuda = true, .initial = 20 * MIB, .memory = ENOUGH, .validate = 1},
    {.is_over_cuda = true, .initial = 20 * MIB, .memory = 8 * MIB},
    {.is_over_cuda = true, .initial = 20 * MIB, .memory = 8 * MIB, .validate = 1},
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

static crmm_resource *vmm;

static crmm_status make(const setting *of, crmm_resource **out)
{
    return crmm_pool_memory_resource_create(
        of->is_over_cuda ? crmm_cuda_memory_resource() : vmm,
        CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = of->initial,
                     .handle_size = 2 * MIB, .validate = of->validate),
        out);
}

/* It has what it was made with, works, and goes. */
static void use(const setting *of, crmm_resource *pool)
{
    cudaStream_t stream = make_stream();

    cr_assert(crmm_pool_memory_resource_pool_size(pool) >= of->initial);
    void *ptr = take(pool, stream, of->initial - 2 * MIB);
    expect_sound_books(pool);
    crmm_deallocate(pool, stream, ptr, of->initial - 2 * MIB, 256);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
    cuda(cudaStreamDestroy(stream));
}

/* ---- the driver's memory pools ---- */

static void let_driver_keep(size_t bytes)
{
    cudaMemPool_t kept = NULL;
    uint64_t all = UINT64_MAX;
    void *ptr = NULL;

    cuda(cudaDeviceGetDefaultMemPool(&kept, 0));
    cuda(cudaMemPoolSetAttribute(kept, cudaMemPoolAttrReleaseThreshold, &all));
    cuda(cudaMallocAsync(&ptr, bytes, NULL));
    cuda(cudaFreeAsync(ptr, NULL));
    cuda(cudaStreamSynchronize(NULL));
}

static void let_driver_keep_nothing(void)
{
    cudaMemPool_t kept = NULL;

    cuda(cudaDeviceGetDefaultMemPool(&kept, 0));
    cuda(cudaMemPoolTrimTo(kept, 0));
}

/* ---- one fault ---- */

/* Of what failed, or of the shortage that there is without it. */
static void expect_clean(const setting *of, crmm_status status)
{
    int code = crmm_last_error()->native_code;

    expect_equal(crmm_last_error()->status, status);
    cr_assert(status == CRMM_ERROR_CUDA || crmm_status_is_allocation_failure(status), "%s",
              crmm_status_name(status));
    cr_assert(code == cudaErrorIllegalAddress ||
                  (code == cudaErrorMemoryAllocation && of->memory < of->initial),
              "native code %d", code);
}

/* Nothing is reported either, but that the device of the program cannot be made current again. */
static void expect_nothing_lost(const holdings *before, const fault *one, bool is_met)
{
    cr_assert(misuse_recorded()->count == 0 ||
                  (misuse_recorded()->count == 1 && fault_is_of(one, "cudaSetDevice")),
              "%s, call %llu: %s", one->call, one->position, misuse_recorded()->message);
    cr_assert(info_of(vmm).held == 0 && info_of(crmm_cuda_memory_resource()).held == 0 &&
                  are_holdings_back(before, one, is_met),
              "%s, call %llu: something is lost", one->call, one->position);
    cr_assert(cudart_emulated_violations() == 0, "%s", cudart_emulated_violation(0));
    cr_assert(cudaGetLastError() == cudaSuccess, "an error is pending");
}

static bool make_with(size_t variant, const fault *one)
{
    const setting *of = &settings[variant];
    crmm_resource *made = vmm;
    holdings before;

    note_holdings(&before);
    cudart_emulated_set_memory(0, before.physical + of->memory);
    if (of->is_kept) {
        let_driver_keep(of->memory / 2);
    }
    misuse_recorder_start();
    cuda(cudaSetDevice(of->current));
    fault_begin(one);
    crmm_status status = make(of, &made);
    bool is_met = fault_end(one);
    cuda(cudaSetDevice(0));
    cr_assert(is_met || (status == CRMM_SUCCESS) == (of->memory >= of->initial));
    if (status == CRMM_SUCCESS) {
        use(of, made);
    } else {
        expect_clean(of, status);
        cr_assert(made == vmm, "the output is not untouched");
    }
    let_driver_keep_nothing();
    expect_nothing_lost(&before, one, is_met);
    cudart_emulated_set_memory(0, before.physical + ENOUGH);
    expect_success(make(of, &made)); /* as if nothing had been */
    use(of, made);
    return is_met;
}

Test(emulation_pool_make_faults, no_failing_call_leaves_half_a_pool, .timeout = 100)
{
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what CUDA fails to release is lost; the emulated one had it of malloc */
#endif
    cr_assert(cudart_emulated_set_devices(2) == 0);
    vmm = make_vmm();
    sweep_faults(calls, sizeof(calls) / sizeof(calls[0]), 0, SETTINGS, make_with);
    crmm_resource_release(&vmm);
}
