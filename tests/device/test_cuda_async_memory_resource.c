/* SPDX-License-Identifier: Apache-2.0 */
/* The resources over CUDA's memory pools: what holds for cuda_async holds for its view and its
 * managed form, so most cases run over all three. */
#include <crmm/device/cuda_async_memory_resource.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_async_managed_memory_resource.h>
#include <crmm/device/cuda_async_view_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>

#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"

static crmm_status create_own(crmm_resource **out)
{
    return crmm_cuda_async_memory_resource_create(NULL, out);
}

static crmm_status create_view(crmm_resource **out)
{
    crmm_mem_pool pool = NULL;
    expect_success(crmm_get_default_mem_pool(0, &pool));
    return crmm_cuda_async_view_memory_resource_create(pool, out);
}

static const struct {
    const char *name;
    crmm_status (*create)(crmm_resource **out);
    crmm_properties properties;
} classes[] = {
    {"cuda_async_memory_resource", create_own, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
    {"cuda_async_view_memory_resource", create_view, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
    {"cuda_async_managed_memory_resource", crmm_cuda_async_managed_memory_resource_create,
     CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED},
};

/* Pools of managed memory came with CUDA 13; the last class does without it. */
enum { CLASSES = (int)(sizeof(classes) / sizeof(classes[0])) - (CUDART_VERSION < 13000) };

static uint64_t attribute_of(crmm_mem_pool pool, enum cudaMemPoolAttr attribute)
{
    uint64_t value = 0;
    cuda(cudaMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

Test(cuda_async_memory_resource, look_as_declared)
{
    need_devices(1);
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        char text[128];
        expect_success(classes[i].create(&mr));
        expect_text(crmm_resource_name(mr), classes[i].name);
        expect_equal(crmm_resource_properties(mr), classes[i].properties);
        expect_equal(crmm_resource_device(mr), 0);
        cr_assert(crmm_resource_upstream(mr) == NULL);
        cr_assert(crmm_cuda_async_memory_resource_pool_handle(mr) != NULL);
        (void)crmm_resource_describe(mr, text, sizeof(text));
        cr_assert(strstr(text, "(device 0, ") != NULL && strstr(text, " 0 retries") != NULL);
        crmm_resource_release(&mr);
    }
}

Test(cuda_async_memory_resource, serve_every_size_and_alignment)
{
    static const size_t sizes[] = {1, 255, 256, 257, (2 << 20) + 1};

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        crmm_memory_info info = {.struct_size = sizeof(info)};
        expect_success(classes[i].create(&mr));
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            for (size_t alignment = 1; alignment <= CRMM_DEVICE_ALIGNMENT; alignment *= 16) {
                void *a = NULL;
                void *b = NULL;
                expect_success(crmm_allocate(mr, stream, sizes[j], alignment, &a));
                expect_success(crmm_allocate_sync(mr, sizes[j], alignment, &b));
                cr_assert(crmm_is_pointer_aligned(a, CRMM_DEVICE_ALIGNMENT) && a != b);
                cuda(cudaMemsetAsync(a, 1, sizes[j], stream));
                device_fill(b, 2, sizes[j]);
                cr_assert(device_has(b, 2, sizes[j]));
                crmm_deallocate(mr, stream, a, sizes[j], alignment);
                crmm_deallocate_sync(mr, b, sizes[j], alignment);
            }
        }
        expect_success(crmm_resource_info(mr, &info));
        expect_equal(info.live, 0);
        expect_equal(info.allocations, 0);
        expect_equal(info.peak_live, 2 * ((2 << 20) + 1));
        cr_assert(info.peak_held >= info.peak_live && info.held >= info.cached);
        crmm_resource_release(&mr);
    }
    cuda(cudaStreamDestroy(stream));
}

Test(cuda_async_memory_resource, refuse_bad_requests)
{
    void *ptr = &ptr;

    need_devices(1);
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        expect_success(classes[i].create(&mr));
        expect_failure(crmm_allocate(mr, NULL, 1, 512, &ptr), CRMM_ERROR_UNSUPPORTED,
                       "alignment 512 is more than the 256 it gives");
        expect_status(crmm_allocate(mr, NULL, 0, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
        expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
        cr_assert(ptr == &ptr);
        expect_equal(cudaGetLastError(), cudaSuccess);
        crmm_resource_release(&mr);
    }
    expect_failure(crmm_cuda_async_memory_resource_create(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "out is NULL");
    expect_failure(crmm_cuda_async_managed_memory_resource_create(NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
}

#if CUDART_VERSION < 13000
Test(cuda_async_managed_memory_resource, needs_cuda_13)
{
    crmm_resource *mr = NULL;

    need_devices(1);
    expect_status(crmm_cuda_async_managed_memory_resource_create(&mr), CRMM_ERROR_UNSUPPORTED);
    cr_assert(mr == NULL);
}
#endif

Test(cuda_async_memory_resource, report_frees_that_cuda_refuses)
{
    /* Validation would not let it get as far as CUDA. */
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        expect_success(classes[i].create(&mr));
        expect_misuse(crmm_deallocate(mr, NULL, &mr, 64, 256), CRMM_MISUSE_CUDA,
                      "cudaErrorInvalidValue");
        expect_equal(cudaGetLastError(), cudaSuccess);
        crmm_resource_release(&mr);
    }
}

Test(cuda_async_memory_resource, validation_finds_what_cuda_would_not)
{
    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    need_devices(1);
    misuse_recorder_start();
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        void *ptr = NULL;
        expect_success(classes[i].create(&mr));
        expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 1001, 256), CRMM_MISUSE_SIZE_MISMATCH,
                      "allocated with 1000 bytes and given back with 1001");
        expect_misuse(crmm_deallocate(mr, NULL, ptr, 1000, 128), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                      "allocated with alignment 256");
        expect_misuse(crmm_deallocate(mr, NULL, &mr, 64, 256), CRMM_MISUSE_FOREIGN_POINTER,
                      "was not allocated here");
        device_fill(ptr, 1, 1000); /* it was left alone */
        crmm_deallocate(mr, NULL, ptr, 1000, 256);
        expect_misuse(crmm_deallocate_sync(mr, ptr, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                      "given back twice");
        crmm_resource_release(&mr);
    }
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(cuda_async_memory_resource, tells_when_memory_is_exhausted_after_a_trim)
{
    crmm_resource *mr = NULL;
    void *ptr = &ptr;
    char text[128];

    need_devices(1);
    expect_success(create_own(&mr));
    expect_failure(crmm_allocate(mr, NULL, (size_t)1 << 46, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaMallocFromPoolAsync of 70368744177664 bytes failed");
    expect_equal(crmm_last_error()->native_code, cudaErrorMemoryAllocation);
    cr_assert(ptr == &ptr);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    cr_assert(strstr(text, "1 retries after a trim") != NULL, "%s", text);
    expect_equal(cudaGetLastError(), cudaSuccess);
    crmm_resource_release(&mr);
}

Test(cuda_async_memory_resource, keeps_all_memory_unless_told_otherwise)
{
    static const struct {
        uint64_t option, threshold;
    } rows[] = {{0, UINT64_MAX}, {CRMM_RELEASE_ALL, 0}, {1 << 20, 1 << 20}};

    need_devices(1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        crmm_resource *mr = NULL;
        expect_success(crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .release_threshold = rows[i].option),
            &mr));
        expect_equal(attribute_of(crmm_cuda_async_memory_resource_pool_handle(mr),
                                  cudaMemPoolAttrReleaseThreshold),
                     rows[i].threshold);
        crmm_resource_release(&mr);
    }
}

Test(cuda_async_memory_resource, initial_size_is_there_and_trim_gives_it_back)
{
    enum { BYTES = 64 << 20 };
    crmm_resource *mr = NULL;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    size_t released = 0;

    need_devices(1);
    expect_success(crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .initial_pool_size = BYTES), &mr));
    expect_success(crmm_resource_info(mr, &info));
    cr_assert(info.held >= BYTES && info.live == 0 && info.cached == info.held);
    cuda(cudaDeviceSynchronize());
    size_t held = info.held;
    expect_success(crmm_resource_trim(mr, 0, &released));
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(released, held - info.held);
    expect_equal(info.held, 0);
    cr_assert(info.peak_held >= BYTES);
    crmm_resource_release(&mr);
    expect_failure(
        crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .initial_pool_size = SIZE_MAX), &mr),
        CRMM_ERROR_OUT_OF_MEMORY, "more than can exist");
    expect_status(
        crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .initial_pool_size = (size_t)1 << 46),
            &mr),
        CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(mr == NULL);
}

Test(cuda_async_memory_resource, handle_types_are_checked_against_the_device)
{
    int supported = 0;
    crmm_resource *mr = NULL;

    need_devices(1);
    cuda(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
    for (uint64_t type = 1; type <= 16; type *= 2) {
        crmm_status status = crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .export_handle_type = type), &mr);
        if (((unsigned)supported & type) != 0) {
            expect_equal(status, CRMM_SUCCESS);
            crmm_resource_release(&mr);
        } else {
            expect_equal(status, CRMM_ERROR_UNSUPPORTED);
            expect_message("options->export_handle_type");
            cr_assert(mr == NULL);
        }
    }
}

Test(cuda_async_memory_resource, peers_are_checked)
{
    const int self = 0;
    const int bad = 99;
    crmm_resource *mr = NULL;

    need_devices(1);
    expect_failure(crmm_cuda_async_memory_resource_create(
                       CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_device_count = 1), &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->peer_devices is NULL");
    expect_failure(crmm_cuda_async_memory_resource_create(
                       CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = &bad,
                                    .peer_device_count = 1),
                       &mr),
                   CRMM_ERROR_INVALID_ARGUMENT, "options->peer_devices[0] is 99");
    /* The owner among the peers is no reason to fail. */
    expect_success(crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .peer_devices = &self,
                     .peer_device_count = 1),
        &mr));
    crmm_resource_release(&mr);
}

/* User report 25: a library changed the attributes of a pool that was not its own. */
Test(cuda_async_memory_resource, a_view_never_alters_its_pool)
{
    struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = 0},
    };
    crmm_mem_pool pool = NULL;
    crmm_resource *views[2] = {NULL};
    void *ptr = NULL;
    uint64_t threshold = 12345;

    need_devices(1);
    cuda(cudaMemPoolCreate(&pool, &properties));
    cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    for (int i = 0; i < 2; i++) {
        expect_success(crmm_cuda_async_view_memory_resource_create(pool, &views[i]));
        cr_assert(crmm_cuda_async_memory_resource_pool_handle(views[i]) == pool);
    }
    cr_assert(crmm_resource_is_equal(views[0], views[1]));
    expect_success(crmm_allocate(views[0], NULL, 1000, 256, &ptr));
    crmm_deallocate(views[0], NULL, ptr, 1000, 256);
    crmm_resource_release(&views[0]);
    crmm_resource_release(&views[1]);
    expect_equal(attribute_of(pool, cudaMemPoolAttrReleaseThreshold), 12345);
    cuda(cudaMallocFromPoolAsync(&ptr, 1000, pool, NULL)); /* it is still there */
    cuda(cudaFreeAsync(ptr, NULL));
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemPoolDestroy(pool));
    expect_failure(crmm_cuda_async_view_memory_resource_create(NULL, &views[0]),
                   CRMM_ERROR_INVALID_ARGUMENT, "pool is NULL");
}

/* User report 91: the pool that another library had made current was passed over. */
Test(cuda_async_memory_resource, the_current_pool_can_be_asked_for)
{
    struct cudaMemPoolProps properties = {
        .allocType = cudaMemAllocationTypePinned,
        .location = {.type = cudaMemLocationTypeDevice, .id = 0},
    };
    crmm_mem_pool own = NULL;
    crmm_mem_pool found = NULL;
    crmm_mem_pool standard = NULL;

    need_devices(1);
    expect_success(crmm_get_default_mem_pool(0, &standard));
    expect_success(crmm_get_current_mem_pool(0, &found));
    cr_assert(found == standard && found != NULL);
    cuda(cudaMemPoolCreate(&own, &properties));
    cuda(cudaDeviceSetMemPool(0, own));
    expect_success(crmm_get_current_mem_pool(0, &found));
    cr_assert(found == own);
    expect_success(crmm_get_default_mem_pool(0, &found));
    cr_assert(found == standard);
    cuda(cudaDeviceSetMemPool(0, standard));
    cuda(cudaMemPoolDestroy(own));
    expect_failure(crmm_get_default_mem_pool(0, NULL), CRMM_ERROR_INVALID_ARGUMENT, "pool is NULL");
    expect_status(crmm_get_default_mem_pool(9999, &found), CRMM_ERROR_CUDA);
    expect_status(crmm_get_current_mem_pool(-1, &found), CRMM_ERROR_CUDA);
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(cuda_async_memory_resource, equality_is_that_of_the_pools)
{
    need_devices(1);
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *own = NULL;
        crmm_resource *same[2] = {NULL};
        expect_success(create_own(&own));
        expect_success(classes[i].create(&same[0]));
        expect_success(classes[i].create(&same[1]));
        /* Only one that was made for the resource is no other's. */
        cr_assert(crmm_resource_is_equal(same[0], same[1]) == (classes[i].create != create_own));
        cr_assert(!crmm_resource_is_equal(own, same[0]));
        crmm_resource_release(&own);
        crmm_resource_release(&same[0]);
        crmm_resource_release(&same[1]);
    }
}

Test(cuda_async_memory_resource, allocations_can_be_captured)
{
    crmm_resource *mr = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t run = NULL;
    void *ptr = NULL;

    need_devices(1);
    expect_success(create_own(&mr));
    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect_success(crmm_allocate(mr, stream, 4096, 256, &ptr));
    cuda(cudaMemsetAsync(ptr, 1, 4096, stream));
    crmm_deallocate(mr, stream, ptr, 4096, 256);
    cuda(cudaStreamEndCapture(stream, &graph));
    cuda(cudaGraphInstantiate(&run, graph, 0));
    cuda(cudaGraphLaunch(run, stream));
    cuda(cudaStreamSynchronize(stream));
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaGraphExecDestroy(run));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&mr);
}

/* The legacy stream must be left alone then, and memory for the start is taken on it. */
Test(cuda_async_memory_resource, an_initial_size_leaves_captures_valid)
{
    cudaStream_t blocking = NULL;
    cudaGraph_t graph = NULL;
    crmm_resource *mr = NULL;

    need_devices(1);
    cuda(cudaStreamCreate(&blocking));
    cuda(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeGlobal));
    expect_failure(
        crmm_cuda_async_memory_resource_create(
            CRMM_OPTIONS(crmm_cuda_async_memory_resource, .initial_pool_size = 1 << 20), &mr),
        CRMM_ERROR_UNSUPPORTED, "forbids allocating 1048576 bytes on the legacy stream");
    cr_assert(mr == NULL);
    cuda(cudaStreamEndCapture(blocking, &graph));
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(blocking));
    expect_equal(cudaGetLastError(), cudaSuccess);
}

Test(cuda_async_memory_resource, leave_captures_of_other_streams_valid)
{
    cudaGraph_t graph = NULL;
    void *ptr = NULL;

    need_devices(1);
    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    misuse_recorder_start();
    for (int i = 0; i < CLASSES; i++) {
        crmm_resource *mr = NULL;
        cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
        expect_success(classes[i].create(&mr));
        expect_success(crmm_allocate(mr, other, 4096, 256, &ptr));
        crmm_deallocate(mr, other, ptr, 4096, 256);
        expect_success(crmm_allocate_sync(mr, 4096, 256, &ptr));
        crmm_deallocate_sync(mr, ptr, 4096, 256);
        expect_success(crmm_resource_trim(mr, 0, NULL));
        crmm_resource_release(&mr);
        cuda(cudaStreamEndCapture(captured, &graph));
        cuda(cudaGraphDestroy(graph));
    }
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
}

Test(cuda_async_memory_resource, frees_wait_their_turn_without_blocking)
{
    gate held;
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    need_devices(1);
    expect_success(create_own(&mr));
    cudaStream_t stream = make_stream();
    expect_success(crmm_allocate(mr, stream, 1 << 20, 256, &ptr));
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 1 << 20, stream));
    crmm_deallocate(mr, stream, ptr, 1 << 20, 256); /* returns at once */
    cr_assert(!gate_is_open(&held));
    gate_open(&held);
    cuda(cudaStreamSynchronize(stream));
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&mr);
}

Test(cuda_async_memory_resource, leaks_are_reported_and_the_pool_is_left)
{
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    need_devices(1);
    expect_success(create_own(&mr));
    crmm_mem_pool pool = crmm_cuda_async_memory_resource_pool_handle(mr);
    expect_success(crmm_allocate(mr, NULL, 1000, 256, &ptr));
    misuse_recorder_start();
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "released with 1 allocations of 1000 bytes alive");
    expect_equal(misuse_recorded()->latest.bytes, 1000);
    device_fill(ptr, 1, 1000); /* what is alive stays usable */
    cuda(cudaFreeAsync(ptr, NULL));
    cuda(cudaDeviceSynchronize());
    cuda(cudaMemPoolDestroy(pool));
}

Test(cuda_async_memory_resource, pool_handle_refuses_other_classes)
{
    misuse_recorder_start();
    expect_misuse(
        cr_assert(crmm_cuda_async_memory_resource_pool_handle(crmm_cuda_memory_resource()) == NULL),
        CRMM_MISUSE_WRONG_CLASS, "resource is cuda_memory_resource");
    expect_misuse(cr_assert(crmm_cuda_async_memory_resource_pool_handle(NULL) == NULL),
                  CRMM_MISUSE_WRONG_CLASS, "resource is (null)");
}
