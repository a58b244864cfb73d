/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/vmm_memory_resource.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/interfaces/resource.h>
#include <crmm/internal/floor_vmm.h>
#include <crmm/internal/held.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

#define MIB ((size_t)1 << 20)

static crmm_resource *make(size_t handle_size)
{
    crmm_resource *made = NULL;
    need_devices(1);
    expect_success(crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .handle_size = handle_size, .require = 1), &made));
    return made;
}

/* The device's granularity, as the resource tells it. */
static size_t granularity_of(const crmm_resource *mr)
{
    char text[160];
    size_t granularity = 0;

    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(sscanf(text, "vmm_memory_resource (device 0, granularity %zu,", &granularity) == 1);
    return granularity;
}

Test(vmm_memory_resource, looks_as_declared)
{
    crmm_resource *mr = make(0);

    expect_text(crmm_resource_name(mr), "vmm_memory_resource");
    expect_equal(crmm_resource_properties(mr), CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED);
    expect_equal(crmm_resource_device(mr), 0);
    cr_assert(crmm_resource_upstream(mr) == NULL);
    cr_assert(crmm_is_pow2(granularity_of(mr)));
    crmm_resource_release(&mr);
}

Test(vmm_memory_resource, serves_every_size_and_alignment)
{
    static const size_t sizes[] = {1, 255, 256, 257, (2 << 20) + 1};
    static const size_t handle_sizes[] = {0, 1, 3 << 20};

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(handle_sizes) / sizeof(handle_sizes[0]); i++) {
        crmm_resource *mr = make(handle_sizes[i]);
        crmm_memory_info info = {.struct_size = sizeof(info)};
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            for (size_t alignment = 1; alignment <= 16 * MIB; alignment *= 16) {
                void *a = NULL;
                void *b = NULL;
                expect_success(crmm_allocate(mr, stream, sizes[j], alignment, &a));
                expect_success(crmm_allocate_sync(mr, sizes[j], alignment, &b));
                cr_assert(crmm_is_pointer_aligned(a, alignment) && a != b);
                device_fill(a, 1, sizes[j]);
                device_fill(b, 2, sizes[j]);
                cr_assert(device_has(a, 1, sizes[j]));
                crmm_deallocate(mr, stream, a, sizes[j], alignment);
                crmm_deallocate_sync(mr, b, sizes[j], alignment);
            }
        }
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
        expect_equal(info.held, 0);
        expect_equal(info.peak_live, 2 * ((2 << 20) + 1));
        expect_equal(info.peak_held, 2 * crmm_align_up((2 << 20) + 1, granularity_of(mr)));
        crmm_resource_release(&mr);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(vmm_memory_resource, refuses_bad_requests)
{
    crmm_resource *mr = make(0);
    void *ptr = &ptr;

    expect_failure(crmm_allocate(mr, NULL, 1, (size_t)1 << 31, &ptr), CRMM_ERROR_UNSUPPORTED,
                   "alignment 2147483648 is more than the 1073741824 it gives");
    expect_status(crmm_allocate(mr, NULL, 0, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_allocate_sync(mr, SIZE_MAX, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    crmm_status status = crmm_allocate_sync(mr, (size_t)1 << 44, 256, &ptr);
    expect_equal(status, CRMM_ERROR_OUT_OF_MEMORY);
    /* Be it the memory or already the addresses. */
    expect_message(" of 17592186044416 bytes failed: cudaErrorMemoryAllocation");
    cr_assert(ptr == &ptr);
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_resource_release(&mr);
    expect_failure(crmm_vmm_memory_resource_create(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "out is NULL");
    expect_failure(crmm_vmm_memory_resource_create(
                       CRMM_OPTIONS(crmm_vmm_memory_resource, .handle_size = SIZE_MAX), &mr),
                   CRMM_ERROR_OUT_OF_MEMORY, "options->handle_size");
    expect_failure(crmm_vmm_memory_resource_create(
                       CRMM_OPTIONS(crmm_vmm_memory_resource, .peer_device_count = 2), &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->peer_devices is NULL");
    expect_failure(crmm_vmm_memory_resource_create(
                       CRMM_OPTIONS(crmm_vmm_memory_resource, .export_handle_type = 16), &mr),
                   CRMM_ERROR_UNSUPPORTED, "options->export_handle_type 16");
    cr_assert(mr == NULL);
}

Test(vmm_memory_resource, reports_frees_that_cuda_refuses)
{
    /* Validation would not let it get as far as CUDA. */
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    crmm_resource *mr = make(0);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(mr, NULL, &mr, 64, 256), CRMM_MISUSE_CUDA, "cuMemUnmap");
    crmm_resource_release(&mr);
}

Test(vmm_memory_resource, validation_finds_what_cuda_would_not)
{
    void *ptr = NULL;

    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    crmm_resource *mr = make(0);
    misuse_recorder_start();
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 1001, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "allocated with 1000 bytes and given back with 1001");
    expect_misuse(crmm_deallocate(mr, NULL, &mr, 64, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    device_fill(ptr, 1, 1000); /* it was left alone */
    crmm_deallocate(mr, NULL, ptr, 1000, 256);
    expect_misuse(crmm_deallocate_sync(mr, ptr, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                  "given back twice");
    crmm_resource_release(&mr);
}

Test(vmm_memory_resource, a_free_waits_its_turn_on_the_stream)
{
    gate held;
    void *ptr = NULL;
    crmm_resource *mr = make(0);

    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
    pthread_t opener = gate_open_later(&held);
    crmm_deallocate(mr, stream, ptr, 4096, 256);
    cr_assert(gate_is_open(&held), "unmapped under pending work");
    cr_assert(pthread_join(opener, NULL) == 0);
    cuda(cudaStreamSynchronize(stream));
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&mr);
}

/* The operations for pools, which grow a block in place. */
Test(vmm_memory_resource, grows_in_place_and_gives_pages_back)
{
    crmm_resource *mr = make(0);
    const crmm_resource_ops *ops = mr->ops;
    size_t unit = granularity_of(mr);
    crmm_memory_info info = {.struct_size = sizeof(info)};
    char *base = NULL;

    expect_success(ops->reserve(mr, 16 * unit, 1, (void **)&base));
    cr_assert(crmm_is_pointer_aligned(base, unit));
    expect_success(ops->commit(mr, base, 2 * unit));
    device_fill(base, 1, 2 * unit);
    expect_success(ops->commit(mr, base + 2 * unit, unit));
    device_fill(base, 2, 3 * unit); /* across the seam */
    cr_assert(device_has(base, 2, 3 * unit));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.held, 3 * unit);
    expect_success(ops->decommit(mr, base, 2 * unit));
    cr_assert(device_has(base + 2 * unit, 2, unit));
    expect_success(ops->commit(mr, base, unit)); /* a smaller one in the hole */
    device_fill(base, 3, unit);
    expect_success(ops->decommit(mr, base, unit));
    expect_success(ops->decommit(mr, base + 2 * unit, unit));
    expect_success(ops->unreserve(mr, base, 16 * unit));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.held, 0);
    expect_equal(info.peak_held, 3 * unit);
    crmm_resource_release(&mr);
}

Test(vmm_memory_resource, ranges_are_whole_pages)
{
    crmm_resource *mr = make(0);
    const crmm_resource_ops *ops = mr->ops;
    size_t unit = granularity_of(mr);
    char *base = NULL;

    expect_failure(ops->reserve(mr, unit + 1, 1, (void **)&base), CRMM_ERROR_INVALID_ARGUMENT,
                   "is no multiple of the granularity");
    expect_status(ops->reserve(mr, 0, 1, (void **)&base), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(ops->reserve(mr, unit, (size_t)1 << 31, (void **)&base), CRMM_ERROR_UNSUPPORTED);
    cr_assert(base == NULL);
    expect_success(ops->reserve(mr, 4 * unit, 1, (void **)&base));
    expect_status(ops->commit(mr, base + 1, unit), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(ops->commit(mr, base, unit - 1), CRMM_ERROR_INVALID_ARGUMENT);
    expect_success(ops->commit(mr, base, 2 * unit));
    crmm_status status = ops->commit(mr, base, unit); /* there is memory already */
    expect_equal(status, CRMM_ERROR_BAD_ALLOC);
    expect_failure(ops->decommit(mr, base, unit), CRMM_ERROR_CUDA,
                   "cuMemUnmap"); /* half a handle */
    expect_failure(ops->unreserve(mr, base, 4 * unit), CRMM_ERROR_CUDA, "cuMemAddressFree");
    expect_success(ops->decommit(mr, base, 2 * unit));
    expect_success(ops->unreserve(mr, base, 4 * unit));
    crmm_resource_release(&mr);
}

static size_t held_by(crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};

    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.peak_held, info.held);
    expect_equal(crmm_priv_held_now(), info.held);
    expect_equal(crmm_priv_held_peak(), info.held);
    return info.held;
}

/* Seven pages in handles of three, three and one, or in one of seven. */
Test(vmm_memory_resource, memory_moves_to_another_address)
{
    cudaStream_t stream = NULL;

    need_devices(1);
    crmm_priv_held_watch();
    stream = make_stream();
    for (size_t pages = 0; pages <= 3; pages += 3) {
        crmm_resource *mr = make(0);
        size_t unit = granularity_of(mr);
        char *from = NULL;
        char *to = NULL;
        crmm_resource_release(&mr);
        mr = make(pages * unit);
        crmm_priv_held_reset_peak();
        const crmm_resource_ops *ops = mr->ops;
        size_t bytes = 7 * unit;
        expect_success(ops->reserve(mr, bytes, 1, (void **)&from));
        expect_success(ops->reserve(mr, 3 * bytes, 1, (void **)&to));
        expect_success(ops->commit(mr, from, bytes));
        expect_equal(held_by(mr), bytes);

        device_fill(from, 1, bytes);
        expect_success(ops->move_begin(mr, to, from, bytes));
        cr_assert(device_has(to, 1, bytes));
        device_fill(to, 2, bytes); /* one memory, two addresses */
        cr_assert(device_has(from, 2, bytes));
        expect_equal(held_by(mr), bytes);
        cuda(cudaMemsetAsync(to, 3, bytes, stream)); /* pending, but not through `from` */
        expect_success(ops->move_end(mr, from, bytes));
        cuda(cudaStreamSynchronize(stream));
        cr_assert(device_has(to, 3, bytes));
        expect_equal(held_by(mr), bytes);

        /* Within a reservation, and taken back. */
        expect_success(ops->move_begin(mr, to + bytes, to, bytes));
        expect_success(ops->move_end(mr, to + bytes, bytes));
        cr_assert(device_has(to, 3, bytes));
        expect_success(ops->move_begin(mr, to + bytes, to, bytes));
        expect_success(ops->move_end(mr, to, bytes));
        cr_assert(device_has(to + bytes, 3, bytes));
        expect_equal(held_by(mr), bytes);

        expect_success(ops->commit(mr, from, unit)); /* the place is free again */
        expect_success(ops->decommit(mr, from, unit));
        expect_success(ops->decommit(mr, to + bytes, bytes));
        expect_equal(crmm_priv_held_now(), 0);
        expect_success(ops->unreserve(mr, from, bytes));
        expect_success(ops->unreserve(mr, to, 3 * bytes));
        crmm_resource_release(&mr);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(vmm_memory_resource, moves_are_of_whole_handles_to_free_places)
{
    crmm_resource *mr = make(0);
    size_t unit = granularity_of(mr);
    char *base = NULL;

    crmm_resource_release(&mr);
    mr = make(2 * unit);
    const crmm_resource_ops *ops = mr->ops;
    expect_success(ops->reserve(mr, 16 * unit, 1, (void **)&base));
    expect_success(ops->commit(mr, base, 4 * unit));
    char *to = base + 8 * unit;
    device_fill(base, 1, 4 * unit);

    expect_failure(ops->move_begin(mr, to + 1, base, unit), CRMM_ERROR_INVALID_ARGUMENT,
                   "move_begin");
    expect_status(ops->move_begin(mr, to, base + 1, unit), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(ops->move_begin(mr, to, base, unit + 1), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(ops->move_begin(mr, to, base, 0), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(ops->move_end(mr, base, 0), CRMM_ERROR_INVALID_ARGUMENT);
    expect_failure(ops->move_end(mr, base + 1, unit), CRMM_ERROR_INVALID_ARGUMENT, "move_end");
    expect_failure(ops->move_begin(mr, base + 2 * unit, base, 4 * unit),
                   CRMM_ERROR_INVALID_ARGUMENT, "which overlap");
    expect_status(ops->move_begin(mr, base, base + 2 * unit, 4 * unit),
                  CRMM_ERROR_INVALID_ARGUMENT);
    /* The beginning of a handle, its end, and parts of two. */
    crmm_status status = ops->move_begin(mr, to, base, unit);
    cr_assert(status != CRMM_SUCCESS);
    status = ops->move_begin(mr, to, base + unit, unit);
    cr_assert(status != CRMM_SUCCESS);
    expect_failure(ops->move_begin(mr, to, base + unit, 2 * unit), CRMM_ERROR_CUDA,
                   "cuMemRetainAllocationHandle");
    /* Where there is nothing to move, from the first or a later handle on. */
    expect_failure(ops->move_begin(mr, to, base + 4 * unit, 2 * unit), CRMM_ERROR_CUDA,
                   "cuMemRetainAllocationHandle");
    expect_failure(ops->move_begin(mr, to, base + 2 * unit, 4 * unit), CRMM_ERROR_CUDA,
                   "cuMemRetainAllocationHandle");
    /* Where there is memory already. */
    expect_success(ops->commit(mr, to + 2 * unit, unit));
    expect_failure(ops->move_begin(mr, to, base, 4 * unit), CRMM_ERROR_CUDA, "cuMemMap");
    expect_success(ops->decommit(mr, to + 2 * unit, unit));
    /* Half of a handle cannot lose its mapping. */
    expect_failure(ops->move_end(mr, base, unit), CRMM_ERROR_CUDA, "cuMemUnmap");

    cr_assert(device_has(base, 1, 4 * unit)); /* nothing of all this has changed anything */
    expect_success(ops->move_begin(mr, to, base, 4 * unit));
    expect_success(ops->move_end(mr, base, 4 * unit));
    expect_success(ops->decommit(mr, to, 4 * unit));
    expect_success(ops->unreserve(mr, base, 16 * unit));
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_resource_release(&mr);
}

Test(vmm_memory_resource, leaks_are_reported)
{
    crmm_resource *mr = make(0);
    size_t extent = granularity_of(mr);
    void *ptr = NULL;

    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    misuse_recorder_start();
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK, "released with 1 allocations");
    expect_equal(misuse_recorded()->latest.bytes, 1000);
    device_fill(ptr, 1, 1000); /* what is alive stays usable */
    expect_equal(crmm_priv_vmm_unmap(ptr, extent, extent), 0);
    expect_equal(crmm_priv_vmm_unreserve(ptr, extent), 0);
}

Test(vmm_memory_resource, leaves_captures_of_other_streams_valid)
{
    crmm_resource *mr = make(0);
    cudaGraph_t graph = NULL;
    void *ptr = NULL;

    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    misuse_recorder_start();
    cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    expect_success(crmm_allocate(mr, other, 4096, 256, &ptr));
    void *refused = &ptr;
    expect_failure(crmm_allocate(mr, captured, 4096, 256, &refused), CRMM_ERROR_UNSUPPORTED,
                   "is being captured");
    crmm_deallocate(mr, other, ptr, 4096, 256);
    cuda(cudaStreamEndCapture(captured, &graph));
    cuda(cudaGraphDestroy(graph));
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
    crmm_resource_release(&mr);
}
