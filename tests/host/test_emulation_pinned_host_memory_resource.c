/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/host/pinned_host_memory_resource.h>

#include <cudart_emulated.h>
#include <sys/mman.h>
#include <unistd.h>

#include <crmm/internal/fail.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

Test(emulation_pinned_host_memory_resource, a_stream_that_cannot_be_waited_for_keeps_the_block)
{
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    unsigned char *ptr = NULL;

    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&ptr));
    cudart_emulated_fail("cudaStreamSynchronize", 1, 1, cudaErrorIllegalAddress);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, stream, ptr, 4096, 256), CRMM_MISUSE_CUDA,
                  "waiting for the stream before freeing");
    expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
    memset(ptr, 1, 4096);
    crmm_deallocate(mr, stream, ptr, 4096, 256);
    expect_equal(misuse_recorded()->count, 1);
    expect_equal(cudart_emulated_pinned(NULL), 0);
    expect_equal(cudart_emulated_violations(), 0);
}

/* The emulation does not wait in cudaFreeHost and reports work that is pending on the memory. */
Test(emulation_pinned_host_memory_resource, no_work_is_pending_on_what_is_freed)
{
    crmm_resource *mr = crmm_pinned_host_memory_resource();

    for (unsigned long long seed = 0; seed < 20; seed++) {
        void *ptr = NULL;
        cudart_emulated_set_seed(seed);
        cudaStream_t stream = make_stream();
        expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
        cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
        crmm_deallocate(mr, stream, ptr, 4096, 256);
        cuda(cudaStreamDestroy(stream));
    }
    expect_equal(cudart_emulated_violations(), 0);
}

#define MIB ((size_t)1 << 20)

static crmm_resource *make(const crmm_pinned_host_memory_resource_options *options)
{
    crmm_resource *made = NULL;

    expect_success(crmm_pinned_host_memory_resource_create(options, &made));
    return made;
}

static void expect_described(const crmm_resource *mr, const char *part)
{
    char text[256];

    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}

static size_t held_by(crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    expect_success(crmm_resource_info(mr, &info));
    return info.held;
}

static bool is_mapped(void *ptr)
{
    unsigned char present = 0;

    return mincore(ptr, 1, &present) == 0;
}

/* The two calls that lock memory, and options that lead to each. */
static const struct {
    const char *lock;
    const char *unlock;
    crmm_pinned_host_memory_resource_options options;
} ways[] = {
    {"cudaHostRegister",
     "cudaHostUnregister",
     {.struct_size = sizeof(crmm_pinned_host_memory_resource_options), .touch_threads = 2}},
    {"cudaHostAlloc",
     "cudaFreeHost",
     {.struct_size = sizeof(crmm_pinned_host_memory_resource_options), .write_combined = 1}},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* User report 84: the system lets a process lock only so much. */
Test(emulation_pinned_host_memory_resource, refused_memory_is_an_error_or_pageable_as_told)
{
    cudaStream_t stream = make_stream();
    const crmm_error before = *crmm_last_error();

    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        for (uint64_t fallback = 0; fallback <= 1; fallback++) {
            crmm_pinned_host_memory_resource_options options = ways[i].options;
            unsigned char *blocks[6] = {NULL};
            options.fallback_to_pageable = fallback;
            crmm_resource *mr = make(&options);
            cudart_emulated_clear_faults();
            cudart_emulated_fail(ways[i].lock, 3, 0, cudaErrorMemoryAllocation);
            for (size_t j = 0; j < 6; j++) {
                crmm_status status =
                    crmm_allocate(mr, stream, 10 * MIB + 1, 256, (void **)&blocks[j]);
                if (j < 2 || fallback == 1) {
                    expect_equal(status, CRMM_SUCCESS);
                    expect_equal(crmm_last_error()->status, before.status);
                    memset(blocks[j], (int)j, 10 * MIB + 1);
                } else {
                    expect_equal(status, CRMM_ERROR_OUT_OF_MEMORY);
                    expect_message(ways[i].lock);
                    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
                    cr_assert(blocks[j] == NULL);
                    crmm_priv_restore_error(&before);
                }
            }
            expect_equal(crmm_pinned_host_memory_resource_fallback_count(mr), 4 * fallback);
            if (fallback == 1) {
                expect_described(mr, ", 4 allocations pageable)");
            }
            cr_assert(held_by(mr) >= (2 + 4 * fallback) * (10 * MIB + 1));
            for (size_t j = 0; j < 6; j += 2) {
                crmm_deallocate(mr, stream, blocks[j], 10 * MIB + 1, 256);
            }
            for (size_t j = 1; j < 6; j += 2) {
                crmm_deallocate_sync(mr, blocks[j], 10 * MIB + 1, 256);
            }
            expect_equal(crmm_pinned_host_memory_resource_fallback_count(mr), 4 * fallback);
            expect_equal(held_by(mr), 0);
            expect_equal(cudart_emulated_pinned(NULL), 0);
            for (size_t j = 2; j < 6 && fallback == 1; j++) {
                cr_assert(!is_mapped(blocks[j]));
            }
            crmm_resource_release(&mr);
        }
    }
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(cudart_emulated_violations(), 0);
    cuda(cudaStreamDestroy(stream));
}

/* What may be pageable is not promised to devices that do not reach it. */
Test(emulation_pinned_host_memory_resource, fallback_promises_what_the_device_reaches)
{
    const crmm_pinned_host_memory_resource_options *options =
        CRMM_OPTIONS(crmm_pinned_host_memory_resource, .fallback_to_pageable = 1);

    crmm_resource *mr = make(options);
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_release(&mr);
    cudart_emulated_set_attribute(0, cudaDevAttrPageableMemoryAccess, 1);
    mr = make(options);
    expect_equal(crmm_resource_properties(mr),
                 CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    crmm_resource_release(&mr);
}

/* Whatever is wrong: a failure without a fallback, and with one the pages as they are. */
Test(emulation_pinned_host_memory_resource, any_refusal_of_memory_loses_nothing)
{
    static const struct {
        cudaError_t error;
        crmm_status status;
    } refusals[] = {{cudaErrorMemoryAllocation, CRMM_ERROR_OUT_OF_MEMORY},
                    {cudaErrorNotSupported, CRMM_ERROR_UNSUPPORTED},
                    {cudaErrorOperatingSystem, CRMM_ERROR_BAD_ALLOC}};

    for (size_t i = 0; i < WAYS; i++) {
        crmm_pinned_host_memory_resource_options options = ways[i].options;
        crmm_resource *strict = make(&options);
        options.fallback_to_pageable = 1;
        crmm_resource *mr = make(&options);
        for (size_t j = 0; j < sizeof(refusals) / sizeof(refusals[0]); j++) {
            void *ptr = &ptr;
            cudart_emulated_clear_faults();
            cudart_emulated_fail(ways[i].lock, 1, 0, refusals[j].error);
            expect_failure(crmm_allocate_sync(strict, 1000, 256, &ptr), refusals[j].status,
                           ways[i].lock);
            expect_equal(crmm_last_error()->native_code, refusals[j].error);
            cr_assert(ptr == &ptr);
            expect_equal(held_by(strict), 0);
            expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
            crmm_deallocate_sync(mr, ptr, 1000, 256);
            expect_equal(crmm_pinned_host_memory_resource_fallback_count(mr), j + 1);
            /* What cannot be had as pages either keeps the first failure. */
            expect_failure(crmm_allocate_sync(mr, (size_t)1 << 50, 256, &ptr),
                           i == 0 ? CRMM_ERROR_OUT_OF_MEMORY : refusals[j].status,
                           "1125899906842624 bytes");
        }
        crmm_resource_release(&strict);
        crmm_resource_release(&mr);
    }
}

Test(emulation_pinned_host_memory_resource, a_block_that_cannot_be_unlocked_is_kept)
{
    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        unsigned char *ptr = NULL;
        crmm_resource *mr = make(&ways[i].options);
        expect_success(crmm_allocate_sync(mr, 5000, 256, (void **)&ptr));
        size_t held = held_by(mr);
        cudart_emulated_fail(ways[i].unlock, 1, 1, cudaErrorIllegalAddress);
        expect_misuse(crmm_deallocate_sync(mr, ptr, 5000, 256), CRMM_MISUSE_CUDA, ways[i].unlock);
        expect_equal(misuse_recorded()->latest.native_code, cudaErrorIllegalAddress);
        memset(ptr, 1, 5000);
        expect_equal(held_by(mr), held);
        crmm_deallocate_sync(mr, ptr, 5000, 256);
        expect_equal(held_by(mr), 0);
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 2);
}

Test(emulation_pinned_host_memory_resource, failing_calls_of_create_are_told)
{
    crmm_resource *mr = NULL;

    cudart_emulated_fail("cudaGetDevice", 1, 1, cudaErrorIllegalAddress);
    expect_failure(crmm_pinned_host_memory_resource_create(NULL, &mr), CRMM_ERROR_CUDA,
                   "cudaGetDevice failed");
    for (unsigned long long position = 1; position <= 3; position++) {
        cudart_emulated_clear_faults();
        cudart_emulated_fail("cudaDeviceGetAttribute", position, 1, cudaErrorIllegalAddress);
        expect_failure(crmm_pinned_host_memory_resource_create(NULL, &mr), CRMM_ERROR_CUDA,
                       "cudaDeviceGetAttribute failed");
        expect_equal(crmm_last_error()->native_code, cudaErrorIllegalAddress);
    }
    cr_assert(mr == NULL);
    cudart_emulated_clear_faults();
    mr = make(NULL); /* three were all */
    expect_equal(cudart_emulated_calls("cudaDeviceGetAttribute"), 1 + 2 + 3 + 3);
    crmm_resource_release(&mr);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* The device decides whether memory can be placed here, and its node is the default. */
Test(emulation_pinned_host_memory_resource, capabilities_choose_the_way)
{
    static const struct {
        int attribute;
        int value;
        const crmm_pinned_host_memory_resource_options options;
        const char *described;
        unsigned long long registers;
    } cases[] = {
        {134, 0, {.struct_size = sizeof(cases[0].options)}, "NUMA node 0, 0 touch", 1},
        {134, -1, {.struct_size = sizeof(cases[0].options)}, "no NUMA node, 0 touch", 0},
        {134, 5000, {.struct_size = sizeof(cases[0].options)}, "no NUMA node, 0 touch", 0},
        {134,
         -1,
         {.struct_size = sizeof(cases[0].options), .touch_threads = 2},
         "no NUMA node, 2",
         1},
        {134,
         -1,
         {.struct_size = sizeof(cases[0].options), .numa_node = CRMM_NUMA_NODE(0)},
         "NUMA node 0, 0",
         1},
        {cudaDevAttrHostRegisterSupported,
         0,
         {.struct_size = sizeof(cases[0].options),
          .numa_node = CRMM_NUMA_NODE(0),
          .touch_threads = 2},
         "no NUMA node, 0 touch threads",
         0},
        {cudaDevAttrCanUseHostPointerForRegisteredMem,
         0,
         {.struct_size = sizeof(cases[0].options),
          .numa_node = CRMM_NUMA_NODE(0),
          .touch_threads = 2},
         "no NUMA node, 0 touch threads",
         0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        void *ptr = NULL;
        cudart_emulated_reset();
        cudart_emulated_set_attribute(0, cases[i].attribute, cases[i].value);
        crmm_resource *mr = make(&cases[i].options);
        expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
        expect_described(mr, cases[i].described);
        expect_equal(cudart_emulated_calls("cudaHostRegister"), cases[i].registers);
        expect_equal(cudart_emulated_calls("cudaHostAlloc"), 1 - cases[i].registers);
        crmm_deallocate_sync(mr, ptr, 1000, 256);
        crmm_resource_release(&mr);
    }
}

/* An attribute that is newer than the driver. */
Test(emulation_pinned_host_memory_resource, an_unknown_node_is_none)
{
    cudart_emulated_fail("cudaDeviceGetAttribute", 3, 1, cudaErrorInvalidValue);
    crmm_resource *mr = make(NULL);
    expect_described(mr, "no NUMA node");
    crmm_resource_release(&mr);
}

Test(emulation_pinned_host_memory_resource, belongs_to_the_device_current_at_creation)
{
    unsigned flags = 0;
    int current = -1;

    cudart_emulated_set_devices(2);
    cuda(cudaSetDevice(1));
    for (size_t i = 0; i < WAYS; i++) {
        void *ptr = NULL;
        crmm_resource *mr = make(&ways[i].options);
        expect_equal(crmm_resource_device(mr), 1);
        cuda(cudaSetDevice(0));
        expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
        cuda(cudaHostGetFlags(&flags, ptr));
        expect_equal((flags & cudaHostAllocWriteCombined) != 0, ways[i].options.write_combined);
        crmm_deallocate_sync(mr, ptr, 1000, 256);
        cuda(cudaGetDevice(&current));
        expect_equal(current, 0);
        cudart_emulated_fail("cudaSetDevice", 1, 1, cudaErrorUnknown);
        expect_failure(crmm_allocate_sync(mr, 1000, 256, &ptr), CRMM_ERROR_CUDA, "cudaSetDevice");
        crmm_resource_release(&mr);
        cudart_emulated_clear_faults();
        cuda(cudaSetDevice(1));
    }
}

/* Without threads nobody but CUDA brings the pages, and the emulation does not. */
Test(emulation_pinned_host_memory_resource, pages_are_touched_only_if_asked)
{
    const size_t bytes = 16 * MIB;
    static unsigned char present[16 * MIB / 4096];
    size_t count = 0;
    void *ptr = NULL;

    crmm_resource *mr = make(NULL);
    expect_success(crmm_allocate_sync(mr, bytes, 256, &ptr));
    cr_assert(mincore(ptr, bytes, present) == 0);
    for (size_t i = 0; i < bytes / (size_t)sysconf(_SC_PAGESIZE); i++) {
        count += present[i] & 1;
    }
    expect_equal(count, 0);
    crmm_deallocate_sync(mr, ptr, bytes, 256);
    crmm_resource_release(&mr);
}

Test(emulation_pinned_host_memory_resource, no_work_is_pending_on_what_is_freed_whatever_the_way)
{
    for (unsigned long long seed = 0; seed < 20; seed++) {
        for (size_t i = 0; i < WAYS; i++) {
            void *ptr = NULL;
            cudart_emulated_set_seed(seed);
            cudaStream_t stream = make_stream();
            crmm_resource *mr = make(&ways[i].options);
            expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
            cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
            crmm_deallocate(mr, stream, ptr, 4096, 256);
            crmm_resource_release(&mr);
            cuda(cudaStreamDestroy(stream));
        }
    }
    expect_equal(cudart_emulated_violations(), 0);
}
