/* SPDX-License-Identifier: Apache-2.0 */
/* What only pinned memory does; the rest is in tests/device/test_cuda_memory_resource.c. */
#include <crmm/host/pinned_host_memory_resource.h>

#include <linux/mempolicy.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <crmm/core/alignment.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

#define MIB ((size_t)1 << 20)

static crmm_resource *make(const crmm_pinned_host_memory_resource_options *options)
{
    crmm_resource *made = NULL;

    need_devices(1);
    expect_success(crmm_pinned_host_memory_resource_create(options, &made));
    return made;
}

static void expect_described(const crmm_resource *mr, const char *part)
{
    char text[256];

    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part);
}

static size_t held_by(const crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    expect_success(crmm_resource_info((crmm_resource *)(uintptr_t)mr, &info));
    return info.held;
}

/* Every way in which memory is had. */
static const crmm_pinned_host_memory_resource_options ways[] = {
    {.struct_size = sizeof(ways[0])},
    {.struct_size = sizeof(ways[0]), .numa_node = CRMM_NUMA_NODE(0)},
    {.struct_size = sizeof(ways[0]), .touch_threads = 3},
    {.struct_size = sizeof(ways[0]), .numa_node = CRMM_NUMA_NODE(0), .touch_threads = 1024},
    {.struct_size = sizeof(ways[0]), .write_combined = 1},
    {.struct_size = sizeof(ways[0]), .fallback_to_pageable = 1},
    {.struct_size = sizeof(ways[0]), .write_combined = 1, .fallback_to_pageable = 1},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

Test(pinned_host_memory_resource, memory_is_the_hosts_and_the_devices)
{
    struct cudaPointerAttributes attributes;
    unsigned char *ptr = NULL;

    need_devices(1);
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    expect_success(crmm_allocate_sync(mr, 4096, 256, (void **)&ptr));
    cuda(cudaPointerGetAttributes(&attributes, ptr));
    expect_equal(attributes.type, cudaMemoryTypeHost);
    memset(ptr, 7, 4096);
    device_fill(ptr, 9, 4096);
    expect_equal(ptr[0], 9);
    expect_equal(ptr[4095], 9);
    crmm_deallocate_sync(mr, ptr, 4096, 256);
}

/* User report 34: a pinned staging buffer was freed, and used again, while a copy from it was still
 * under way. */
Test(pinned_host_memory_resource, a_free_waits_its_turn_on_the_stream)
{
    gate held;
    unsigned char *staging = NULL;
    void *device = NULL;

    need_devices(1);
    cudaStream_t stream = make_stream();
    crmm_resource *mr = crmm_pinned_host_memory_resource();
    misuse_recorder_start();
    cuda(cudaMalloc(&device, 4096));
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&staging));
    memset(staging, 1, 4096);
    gate_close(&held, stream);
    cuda(cudaMemcpyAsync(device, staging, 4096, cudaMemcpyHostToDevice, stream));
    pthread_t opener = gate_open_later(&held);
    crmm_deallocate(mr, stream, staging, 4096, 256);
    cr_assert(gate_is_open(&held), "freed under a copy");
    expect_success(crmm_allocate(mr, stream, 4096, 256, (void **)&staging));
    memset(staging, 2, 4096);
    cr_assert(device_has(device, 1, 4096));
    crmm_deallocate(mr, stream, staging, 4096, 256);
    cr_assert(pthread_join(opener, NULL) == 0);
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaFree(device));
    cuda(cudaStreamDestroy(stream));
}

Test(pinned_host_memory_resource, options_choose_how_memory_is_had)
{
    static const size_t sizes[] = {1, 4096, 4097, 9 * MIB + 1};

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < WAYS; i++) {
        crmm_resource *mr = make(&ways[i]);
        expect_text(crmm_resource_name(mr), "pinned_host_memory_resource");
        expect_equal(crmm_resource_device(mr), 0);
        cr_assert(crmm_resource_upstream(mr) == NULL);
        cr_assert(crmm_resource_has(mr, CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED));
        cr_assert(ways[i].fallback_to_pageable == 1 ||
                  crmm_resource_has(mr, CRMM_DEVICE_ACCESSIBLE));
        cr_assert(!crmm_resource_is_equal(mr, crmm_pinned_host_memory_resource()));
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            struct cudaPointerAttributes attributes;
            unsigned char *a = NULL;
            unsigned char *b = NULL;
            expect_success(crmm_allocate(mr, stream, sizes[j], 256, (void **)&a));
            expect_success(crmm_allocate_sync(mr, sizes[j], 1, (void **)&b));
            cr_assert(a != b && crmm_is_pointer_aligned(a, 256));
            cr_assert(held_by(mr) >= 2 * sizes[j] && held_by(mr) < 2 * sizes[j] + 2 * 65536);
            cuda(cudaPointerGetAttributes(&attributes, a));
            expect_equal(attributes.type, cudaMemoryTypeHost);
            cr_assert(attributes.devicePointer == a);
            memset(b, 7, sizes[j]);
            device_fill(a, 9, sizes[j]);
            expect_equal(a[0], 9);
            expect_equal(a[sizes[j] - 1], 9);
            cr_assert(device_has(b, 7, sizes[j]));
            crmm_deallocate(mr, stream, a, sizes[j], 256);
            crmm_deallocate_sync(mr, b, sizes[j], 1);
        }
        expect_equal(held_by(mr), 0);
        expect_equal(crmm_pinned_host_memory_resource_fallback_count(mr), 0);
        crmm_resource_release(&mr);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(pinned_host_memory_resource, options_are_described)
{
    crmm_resource *mr = make(CRMM_OPTIONS(crmm_pinned_host_memory_resource,
                                          .numa_node = CRMM_NUMA_NODE(0), .touch_threads = 8));
    expect_described(mr, "pinned_host_memory_resource (device 0, NUMA node 0");
    expect_described(mr, ", 8 touch threads)");
    crmm_resource_release(&mr);
    mr = make(CRMM_OPTIONS(crmm_pinned_host_memory_resource, .write_combined = 1,
                           .fallback_to_pageable = 1));
    expect_described(mr, "pinned_host_memory_resource (device 0, no NUMA node, write-combined, "
                         "0 touch threads, 0 allocations pageable)");
    crmm_resource_release(&mr);
}

Test(pinned_host_memory_resource, create_refuses_bad_options)
{
    const struct {
        crmm_pinned_host_memory_resource_options options;
        const char *message;
    } cases[] = {
        {{.numa_node = CRMM_NUMA_NODE(1024)}, "numa_node is CRMM_NUMA_NODE(1024); nodes are 0 to "},
        {{.numa_node = SIZE_MAX}, "numa_node"},
        {{.touch_threads = 1025}, "touch_threads is 1025, more than 1024"},
        {{.write_combined = 2}, "write_combined is neither 0 nor 1"},
        {{.fallback_to_pageable = 2}, "fallback_to_pageable is neither 0 nor 1"},
        {{.write_combined = 1, .numa_node = CRMM_NUMA_NODE(0)},
         "numa_node has no meaning with write_combined"},
        {{.write_combined = 1, .touch_threads = 1},
         "touch_threads has no meaning with write_combined"},
    };
    crmm_resource *mr = NULL;
    crmm_pinned_host_memory_resource_options options;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        options = cases[i].options;
        options.struct_size = sizeof(options);
        expect_failure(crmm_pinned_host_memory_resource_create(&options, &mr),
                       CRMM_ERROR_INVALID_ARGUMENT, cases[i].message);
    }
    expect_failure(crmm_pinned_host_memory_resource_create(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "out is NULL");
    options = (crmm_pinned_host_memory_resource_options){0};
    expect_failure(crmm_pinned_host_memory_resource_create(&options, &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size");
    cr_assert(mr == NULL);
    crmm_pinned_host_memory_resource_options_init(NULL);
    crmm_pinned_host_memory_resource_options_init(&options);
    mr = make(&options);
    crmm_resource_release(&mr);
}

Test(pinned_host_memory_resource, what_the_machine_has_not_is_refused)
{
    need_devices(1);
    for (size_t i = 0; i < WAYS; i++) {
        crmm_resource *mr = make(&ways[i]);
        void *ptr = &ptr;
        expect_failure(crmm_allocate_sync(mr, (size_t)1 << 50, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                       "1125899906842624 bytes");
        expect_status(crmm_allocate_sync(mr, SIZE_MAX, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
        expect_failure(crmm_allocate(mr, NULL, 1, 512, &ptr), CRMM_ERROR_UNSUPPORTED,
                       "alignment 512 is more than the 256 it gives");
        cr_assert(ptr == &ptr);
        expect_equal(held_by(mr), 0);
        crmm_resource_release(&mr);
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
}

/* User report 92: the node of the request reaches the system, or the description says why not. */
Test(pinned_host_memory_resource, pages_come_from_the_node)
{
    unsigned long nodes[16] = {0};
    int mode = -1;
    void *ptr = NULL;
    char text[256];

    crmm_resource *mr =
        make(CRMM_OPTIONS(crmm_pinned_host_memory_resource, .numa_node = CRMM_NUMA_NODE(0)));
    expect_success(crmm_allocate_sync(mr, MIB, 256, &ptr));
    (void)crmm_resource_describe(mr, text, sizeof(text));
    long asked = syscall(SYS_get_mempolicy, &mode, nodes, (unsigned long)1025, ptr,
                         (unsigned long)MPOL_F_ADDR);
    if (strstr(text, "refused by the system") == NULL && asked == 0) {
        expect_equal(mode, MPOL_PREFERRED);
        expect_equal(nodes[0], 1);
    }
    crmm_deallocate_sync(mr, ptr, MIB, 256);
    crmm_resource_release(&mr);

    /* No machine has so many. */
    mr = make(CRMM_OPTIONS(crmm_pinned_host_memory_resource, .numa_node = CRMM_NUMA_NODE(1023)));
    expect_success(crmm_allocate_sync(mr, MIB, 256, &ptr));
    device_fill(ptr, 1, MIB);
    expect_described(mr, "NUMA node 1023, refused by the system: ");
    crmm_deallocate_sync(mr, ptr, MIB, 256);
    crmm_resource_release(&mr);
}

Test(pinned_host_memory_resource, threads_bring_all_pages)
{
    static const size_t threads[] = {1, 3, 4, 1024};
    const size_t bytes = 21 * MIB + 1; /* no multiple of anything */
    size_t pages = bytes / (size_t)sysconf(_SC_PAGESIZE) + 1;
    unsigned char *present = malloc(pages);

    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        void *ptr = NULL;
        crmm_resource *mr =
            make(CRMM_OPTIONS(crmm_pinned_host_memory_resource, .touch_threads = threads[i]));
        expect_success(crmm_allocate_sync(mr, bytes, 256, &ptr));
        cr_assert(mincore(ptr, bytes, present) == 0);
        for (size_t page = 0; page < pages; page++) {
            cr_assert((present[page] & 1) == 1, "page %zu of %zu, %zu threads", page, pages,
                      threads[i]);
        }
        crmm_deallocate_sync(mr, ptr, bytes, 256);
        crmm_resource_release(&mr);
    }
    free(present);
}

Test(pinned_host_memory_resource, a_free_waits_its_turn_whatever_the_options)
{
    need_devices(1);
    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        gate held;
        void *ptr = NULL;
        crmm_resource *mr = make(&ways[i]);
        expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
        gate_close(&held, stream);
        cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
        pthread_t opener = gate_open_later(&held);
        crmm_deallocate(mr, stream, ptr, 4096, 256);
        cr_assert(gate_is_open(&held), "freed under pending work");
        cr_assert(pthread_join(opener, NULL) == 0);
        cuda(cudaStreamSynchronize(stream));
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(stream));
}

Test(pinned_host_memory_resource, captures_stay_valid_whatever_the_options)
{
    need_devices(1);
    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        cudaGraph_t graph = NULL;
        void *ptr = NULL;
        void *refused = &ptr;
        crmm_resource *mr = make(&ways[i]);
        cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
        expect_success(crmm_allocate(mr, other, 4096, 256, &ptr));
        expect_failure(crmm_allocate(mr, captured, 4096, 256, &refused), CRMM_ERROR_UNSUPPORTED,
                       "is being captured");
        crmm_deallocate(mr, other, ptr, 4096, 256);
        cuda(cudaStreamEndCapture(captured, &graph));
        cuda(cudaGraphDestroy(graph));
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
}

Test(pinned_host_memory_resource, wrong_frees_and_leaks_are_reported)
{
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        void *ptr = NULL;
        crmm_resource *mr = make(&ways[i]);
        expect_misuse(crmm_deallocate(mr, NULL, &mr, 64, 256), CRMM_MISUSE_CUDA,
                      "failed: cudaError");
        expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
        expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                      "released with 1 allocations of 1000 bytes alive");
        memset(ptr, 1, 1000); /* what is alive stays usable */
    }
    expect_misuse(crmm_pinned_host_memory_resource_fallback_count(NULL), CRMM_MISUSE_WRONG_CLASS,
                  "fallback_count");
    expect_misuse(
        crmm_pinned_host_memory_resource_fallback_count(crmm_pinned_host_memory_resource()),
        CRMM_MISUSE_WRONG_CLASS, "fallback_count");
}

Test(pinned_host_memory_resource, validation_finds_wrong_frees_whatever_the_options)
{
    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (size_t i = 0; i < WAYS; i++) {
        void *ptr = NULL;
        crmm_resource *mr = make(&ways[i]);
        expect_success(crmm_allocate_sync(mr, 1000, 256, &ptr));
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 10000, 256), CRMM_MISUSE_SIZE_MISMATCH,
                      "allocated with 1000 bytes and given back with 10000");
        crmm_deallocate(mr, NULL, ptr, 1000, 256);
        expect_misuse(crmm_deallocate_sync(mr, ptr, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                      "given back twice");
        crmm_resource_release(&mr);
    }
}
