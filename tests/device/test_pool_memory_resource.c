/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/pool_memory_resource.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <crmm/core/alignment.h>
#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "misuse_recorder.h"
#include "mock_resource.h"
#include "pool_support.h"
#include "random_numbers.h"
#include "recording_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED };

/* ---- creation ---- */

Test(pool_memory_resource, create_refuses_what_cannot_be)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *untouched = cuda_mr;
    crmm_resource **out = &untouched;
    crmm_pool_memory_resource_options options;

    need_devices(1);
    expect_failure(crmm_pool_memory_resource_create(cuda_mr, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    expect_failure(crmm_pool_memory_resource_create(cuda_mr,
                                                    CRMM_OPTIONS(crmm_pool_memory_resource,
                                                                 .initial_pool_size = 1024,
                                                                 .maximum_pool_size = 1023),
                                                    out),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "initial_pool_size 1024 is more than maximum_pool_size 1023");
    expect_failure(crmm_pool_memory_resource_create(cuda_mr,
                                                    CRMM_OPTIONS(crmm_pool_memory_resource,
                                                                 .target_pool_size = 1024,
                                                                 .maximum_pool_size = 1023),
                                                    out),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "target_pool_size 1024 is more than maximum_pool_size 1023");
    expect_status(
        crmm_pool_memory_resource_create(
            cuda_mr, CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = SIZE_MAX), out),
        CRMM_ERROR_OUT_OF_MEMORY);
    expect_failure(
        crmm_pool_memory_resource_create(
            cuda_mr, CRMM_OPTIONS(crmm_pool_memory_resource, .handle_size = SIZE_MAX), out),
        CRMM_ERROR_OUT_OF_MEMORY, "handle_size");
    expect_failure(
        crmm_pool_memory_resource_create(
            cuda_mr, CRMM_OPTIONS(crmm_pool_memory_resource, .handle_size = (size_t)1 << 40), out),
        CRMM_ERROR_OUT_OF_MEMORY, "handle_size 1099511627776");
    expect_failure(
        crmm_pool_memory_resource_create(
            cuda_mr, CRMM_OPTIONS(crmm_pool_memory_resource, .target_pool_size = SIZE_MAX), out),
        CRMM_ERROR_OUT_OF_MEMORY, "target_pool_size");
    crmm_pool_memory_resource_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.struct_size = 1;
    expect_status(crmm_pool_memory_resource_create(cuda_mr, &options, out),
                  CRMM_ERROR_INVALID_ARGUMENT);
    struct {
        crmm_pool_memory_resource_options known;
        uint64_t unknown;
    } newer = {.known = options, .unknown = 1};
    newer.known.struct_size = sizeof(newer);
    expect_status(crmm_pool_memory_resource_create(cuda_mr, &newer.known, out),
                  CRMM_ERROR_UNSUPPORTED);
    cr_assert(untouched == cuda_mr, "a failure wrote the output");
    newer.unknown = 0;
    expect_success(crmm_pool_memory_resource_create(cuda_mr, &newer.known, out));
    crmm_resource_release(out);
}

/* More than any device has, over upstreams that take it in one piece and page by page. */
Test(pool_memory_resource, an_initial_size_that_upstream_refuses_is_an_error)
{
    static const size_t sizes[] = {(size_t)1 << 44, ((size_t)1 << 40) + (5 << 20), (size_t)1 << 40};
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};
    mock_resource mock;
    bool destroyed = false;
    crmm_resource *pool = NULL;

    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            crmm_status status = crmm_pool_memory_resource_create(
                upstreams[i],
                CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = sizes[k]), &pool);
            cr_assert(status == CRMM_ERROR_OUT_OF_MEMORY, "%zu bytes over %s: %s", sizes[k],
                      crmm_resource_name(upstreams[i]), crmm_status_name(status));
            cr_assert(pool == NULL);
            expect_equal(info_of(upstreams[i]).held, 0);
        }
    }
    crmm_resource_release(&vmm);

    mock_resource_init(&mock, ORDERED);
    mock.destroyed = &destroyed;
    mock.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(
        crmm_pool_memory_resource_create(
            &mock.base, CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = 4096), &pool),
        CRMM_ERROR_OUT_OF_MEMORY, "the mock was told to fail");
    expect_equal(crmm_last_error()->native_code, 42);
    cr_assert(pool == NULL && !destroyed);
    crmm_resource *mock_mr = &mock.base;
    crmm_resource_release(&mock_mr);
    cr_assert(destroyed, "a failed create kept a reference to its upstream");
}

static crmm_resource *make_async(void)
{
    crmm_resource *made = NULL;
    expect_success(crmm_cuda_async_memory_resource_create(NULL, &made));
    return made;
}

/* Each class of the library below a pool: what the pool is then, and that it serves and ends. */
Test(pool_memory_resource, is_as_its_upstream)
{
    need_devices(1);
    const struct {
        crmm_resource *upstream;
        crmm_properties properties;
        int device;
    } cases[] = {
        {make_vmm(), ORDERED, 0},
        {make_async(), ORDERED, 0},
        {crmm_cuda_memory_resource(), ORDERED, 0},
        {crmm_managed_memory_resource(), ORDERED | CRMM_HOST_ACCESSIBLE, 0},
        {crmm_pinned_host_memory_resource(), ORDERED | CRMM_HOST_ACCESSIBLE, 0},
        {crmm_malloc_memory_resource(), CRMM_HOST_ACCESSIBLE, -1},
    };

    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        crmm_resource *upstream = cases[i].upstream;
        const char *name = crmm_resource_name(upstream);
        crmm_resource *pool = make_pool(upstream, .initial_pool_size = MIB);
        char text[300];
        void *ptr = NULL;
        void *sync = NULL;

        expect_text(crmm_resource_name(pool), "pool_memory_resource");
        cr_assert(crmm_resource_properties(pool) == cases[i].properties, "over %s", name);
        cr_assert(crmm_resource_device(pool) == cases[i].device, "over %s", name);
        cr_assert(crmm_resource_upstream(pool) == upstream && crmm_resource_is_adaptor(pool));
        cr_assert(crmm_resource_describe(pool, text, sizeof(text)) < sizeof(text));
        cr_assert(strstr(text, "pool_memory_resource (") == text && strstr(text, name) != NULL,
                  "%s", text);
        cr_assert(info_of(pool).held >= MIB, "over %s", name);

        expect_success(crmm_allocate_sync(pool, 3 * MIB, 256, &sync));
        if ((cases[i].properties & CRMM_DEVICE_ACCESSIBLE) != 0) {
            ptr = take(pool, stream, 1000);
            device_fill(ptr, 1, 1000);
            device_fill(sync, 2, 3 * MIB);
            cr_assert(device_has(ptr, 1, 1000) && device_has(sync, 2, 3 * MIB), "over %s", name);
            crmm_deallocate(pool, stream, ptr, 1000, 256);
        } else {
            expect_status(crmm_allocate(pool, stream, 1000, 256, &ptr), CRMM_ERROR_PROPERTY);
            memset(sync, 2, 3 * MIB);
        }
        expect_sound_books(pool);
        crmm_deallocate_sync(pool, sync, 3 * MIB, 256);
        expect_equal(info_of(pool).live, 0);
        /* The pool holds its upstream until it is done with it. */
        if (i < 2) {
            crmm_resource_release(&upstream);
        }
        crmm_resource_release(&pool);
        cr_assert(pool == NULL);
    }
    cuda(cudaStreamDestroy(stream));
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
    expect_equal(info_of(crmm_managed_memory_resource()).held, 0);
    expect_equal(info_of(crmm_pinned_host_memory_resource()).held, 0);
}

Test(pool_memory_resource, without_an_upstream_stands_on_vmm)
{
    crmm_resource *pool = make_pool(NULL, .tight = 1, .maximum_pool_size = 64 * MIB);
    char text[300];

    expect_text(crmm_resource_name(crmm_resource_upstream(pool)), "vmm_memory_resource");
    (void)crmm_resource_describe(pool, text, sizeof(text));
    cr_assert(strstr(text, "device 0, maximum 67108864, grown in place by pages of ") != NULL &&
                  strstr(text, ", tight)") != NULL,
              "%s", text);
    expect_equal(crmm_pool_memory_resource_pool_size(pool), 0);
    crmm_resource_release(&pool);
    expect_success(crmm_pool_memory_resource_create(NULL, NULL, &pool));
    (void)crmm_resource_describe(pool, text, sizeof(text));
    cr_assert(strstr(text, "device 0, maximum none, ") != NULL && strstr(text, "tight") == NULL,
              "%s", text);
    crmm_resource_release(&pool);
}

/* ---- sizes ---- */

typedef struct block {
    void *ptr;
    size_t bytes, alignment;
} block;

static void serve_sizes(crmm_resource *pool, cudaStream_t stream)
{
    static const size_t sizes[] = {1,   255,     256,     257,        4096, 32 * KIB, 32 * KIB + 1,
                                   MIB, MIB + 1, 3000000, 5 * MIB + 3};
    static const size_t alignments[] = {1, 256, 512, 4096, 65536, MIB};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ALIGNMENTS = 6, ALL = SIZES * ALIGNMENTS };
    block blocks[ALL];
    size_t live = 0;

    for (size_t i = 0; i < ALL; i++) {
        block *one = &blocks[i];
        *one = (block){.bytes = sizes[i % SIZES], .alignment = alignments[i / SIZES]};
        expect_success(crmm_allocate(pool, stream, one->bytes, one->alignment, &one->ptr));
        cr_assert(crmm_is_pointer_aligned(one->ptr, one->alignment) &&
                  crmm_is_pointer_aligned(one->ptr, CRMM_DEVICE_ALIGNMENT));
        size_t now = info_of(pool).live;
        size_t rounded = crmm_align_up(one->bytes, CRMM_DEVICE_ALIGNMENT);
        size_t most = one->bytes <= MIB ? rounded + rounded / 8 : rounded;
        cr_assert(now - live >= rounded && now - live <= most, "%zu bytes take %zu", one->bytes,
                  now - live);
        live = now;
        cuda(cudaMemsetAsync(one->ptr, (int)i, one->bytes, stream));
    }
    cuda(cudaStreamSynchronize(stream));
    expect_equal(info_of(pool).allocations, ALL);
    expect_sound_books(pool);
    for (size_t i = 0; i < ALL; i++) {
        cr_assert(device_has(blocks[i].ptr, (int)i, blocks[i].bytes), "block %zu", i);
        crmm_deallocate(pool, stream, blocks[i].ptr, blocks[i].bytes, blocks[i].alignment);
    }
    expect_equal(info_of(pool).live, 0);
    expect_equal(info_of(pool).allocations, 0);
    expect_sound_books(pool);
}

Test(pool_memory_resource, serves_every_size_and_alignment)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};

    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        for (size_t tight = 0; tight <= 1; tight++) {
            crmm_resource *pool = make_pool(upstreams[i], .tight = tight);
            serve_sizes(pool, stream);
            serve_sizes(pool, stream);
            crmm_resource_release(&pool);
        }
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
    expect_equal(misuse_recorded()->count, 0);
}

Test(pool_memory_resource, zero_bytes_give_null_and_no_memory)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    void *ptr = &ptr;

    expect_success(crmm_allocate(pool, NULL, 0, 256, &ptr));
    cr_assert(ptr == NULL);
    misuse_recorder_start();
    crmm_deallocate(pool, NULL, NULL, 0, 256);
    crmm_deallocate_ptr(pool, NULL, NULL);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(crmm_pool_memory_resource_pool_size(pool), 0);
    crmm_resource_release(&pool);
}

/* The maximum keeps a pool over vmm from filling the device page by page. */
Test(pool_memory_resource, huge_requests_fail_and_change_nothing)
{
    static const size_t sizes[] = {MIB + 1,     (size_t)1 << 32, (size_t)1 << 40,   (size_t)1 << 60,
                                   PTRDIFF_MAX, SIZE_MAX,        SIZE_MAX / 2 - 100};
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};

    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .maximum_pool_size = MIB);
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            void *ptr = &ptr;
            expect_status(crmm_allocate(pool, NULL, sizes[k], 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
            expect_status(crmm_allocate_sync(pool, sizes[k], 4096, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
            cr_assert(ptr == &ptr, "a failure wrote the output");
        }
        void *ptr = &ptr;
        expect_status(crmm_allocate(pool, NULL, 1, (size_t)1 << 45, &ptr),
                      CRMM_ERROR_OUT_OF_MEMORY);
        expect_status(crmm_allocate(pool, NULL, 256, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
        expect_equal(cudaGetLastError(), cudaSuccess);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    crmm_resource_release(&vmm);
}

/* A program at its limit: until a request fails, then with room again, over and over. */
static void stay_below(crmm_resource *pool, cudaStream_t stream, size_t maximum, uint64_t *seed)
{
    enum { MOST = 64, STEPS = 2000 };
    block blocks[MOST];
    size_t count = 0;
    size_t refused = 0;

    for (int i = 0; i < STEPS; i++) {
        if (count == MOST || (count > 0 && random_below(seed, 5) < 2)) {
            block *last = &blocks[random_below(seed, count)];
            crmm_deallocate(pool, stream, last->ptr, last->bytes, 256);
            *last = blocks[--count];
        } else {
            block *next = &blocks[count];
            size_t shift = random_below(seed, 22);
            *next = (block){.bytes = 1 + random_below(seed, (size_t)2 << shift)};
            crmm_status status = crmm_allocate(pool, stream, next->bytes, 256, &next->ptr);
            cr_assert(status == CRMM_SUCCESS || status == CRMM_ERROR_OUT_OF_MEMORY);
            count += status == CRMM_SUCCESS;
            refused += status != CRMM_SUCCESS;
        }
    }
    cr_assert(refused > 0, "the maximum was never reached");
    while (count > 0) {
        count--;
        crmm_deallocate(pool, stream, blocks[count].ptr, blocks[count].bytes, 256);
    }
    cr_assert(info_of(pool).peak_held <= maximum);
    expect_sound_books(pool);
}

/* By the books of the upstream, not the pool's own. */
Test(pool_memory_resource, never_holds_more_than_its_maximum)
{
    static const size_t maxima[] = {8 * MIB, 8 * MIB + 1, 9 * MIB - 257, 5 * MIB + 4096};
    uint64_t seed = 1;

    need_devices(1);
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(maxima) / sizeof(maxima[0]); i++) {
        for (size_t tight = 0; tight <= 1; tight++) {
            recording_resource recording;
            recording_resource_init(&recording, ORDERED);
            crmm_resource *vmm = make_vmm();
            crmm_resource *over_vmm = make_pool(vmm, .maximum_pool_size = maxima[i], .tight = tight,
                                                .handle_size = 2 * MIB);
            crmm_resource *over_chunks =
                make_pool(&recording.base, .maximum_pool_size = maxima[i], .tight = tight,
                          .initial_pool_size = i % 2 == 0 ? 0 : 1000);
            recording_expect(true, NULL);
            stay_below(over_vmm, stream, maxima[i], &seed);
            stay_below(over_chunks, stream, maxima[i], &seed);
            crmm_resource_release(&over_vmm);
            crmm_resource_release(&over_chunks);
            cr_assert(info_of(vmm).peak_held <= maxima[i] && info_of(vmm).peak_held > 0);
            cr_assert(recording.peak_bytes <= maxima[i] && recording.peak_bytes > 0);
            cr_assert(recording.wrong == 0, "%s", recording.first_wrong);
            expect_equal(recording.live_bytes, 0);
            expect_equal(info_of(vmm).held, 0);
            crmm_resource_release(&vmm);
            recording_resource_finish(&recording);
        }
    }
    cuda(cudaStreamDestroy(stream));
}

/* One stream alone, whose own memory is all there is and not enough, in two pieces. */
Test(pool_memory_resource, a_lone_stream_at_the_maximum_is_refused, .timeout = 20)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .maximum_pool_size = 8 * MIB);
    void *refused = &refused;

    cudaStream_t stream = make_stream();
    void *first = take(pool, stream, 2 * MIB);
    void *middle = take(pool, stream, 2 * MIB);
    void *last = take(pool, stream, 4 * MIB);
    crmm_deallocate(pool, stream, first, 2 * MIB, 256);
    crmm_deallocate(pool, stream, last, 4 * MIB, 256);
    expect_failure(crmm_allocate(pool, stream, 6 * MIB, 256, &refused), CRMM_ERROR_OUT_OF_MEMORY,
                   "of at most 8388608");
    crmm_deallocate(pool, stream, middle, 2 * MIB, 256);
    void *all = take(pool, stream, 8 * MIB);
    crmm_deallocate(pool, stream, all, 8 * MIB, 256);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
}

/* ---- streams ---- */

/* Small, medium, large, and with an alignment of its own. */
static const struct {
    size_t bytes, alignment;
} kinds[] = {{100, 256}, {200 * KIB, 256}, {3 * MIB, 256}, {1000, 4096}, {2 * MIB, MIB}};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

Test(pool_memory_resource, a_block_comes_back_to_its_stream_at_once)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};
    gate held;

    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .initial_pool_size = 16 * MIB);
        cudaStream_t stream = make_stream();
        gate_close(&held, stream);
        for (size_t k = 0; k < KINDS; k++) {
            void *ptr = NULL;
            void *again = NULL;
            expect_success(crmm_allocate(pool, stream, kinds[k].bytes, kinds[k].alignment, &ptr));
            cuda(cudaMemsetAsync(ptr, 1, kinds[k].bytes, stream));
            crmm_deallocate(pool, stream, ptr, kinds[k].bytes, kinds[k].alignment);
            expect_success(crmm_allocate(pool, stream, kinds[k].bytes, kinds[k].alignment, &again));
            cr_assert(again == ptr, "kind %zu: %p, then %p", k, ptr, again);
            cuda(cudaMemsetAsync(again, 2, kinds[k].bytes, stream));
            crmm_deallocate(pool, stream, again, kinds[k].bytes, kinds[k].alignment);
        }
        cr_assert(cudaStreamQuery(stream) == cudaErrorNotReady, "somebody waited");
        expect_equal(statistics_of(pool).waits + statistics_of(pool).synchronizes, 0);
        gate_open(&held);
        cuda(cudaStreamDestroy(stream));
        crmm_resource_release(&pool);
    }
    crmm_resource_release(&vmm);
}

/* The pool has nothing else to give: B gets what A is still writing to, and writes after it. */
Test(pool_memory_resource, another_stream_gets_a_block_after_a_wait_on_the_device)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 4 * MIB,
                                    .maximum_pool_size = 4 * MIB);
    gate held;

    cudaStream_t a = make_stream();
    cudaStream_t b = make_stream();
    void *first = take(pool, a, 4 * MIB);
    gate_close(&held, a);
    cuda(cudaMemsetAsync(first, 1, 4 * MIB, a));
    crmm_deallocate(pool, a, first, 4 * MIB, 256);
    void *second = take(pool, b, 4 * MIB);
    cr_assert(second == first);
    cr_assert(cudaStreamQuery(a) == cudaErrorNotReady, "the program was made to wait");
    expect_equal(statistics_of(pool).waits, 1);
    cuda(cudaMemsetAsync(second, 2, 4 * MIB, b));
    cr_assert(cudaStreamQuery(b) == cudaErrorNotReady, "B did not wait for A");
    gate_open(&held);
    cuda(cudaStreamSynchronize(b));
    cr_assert(device_has(second, 2, 4 * MIB));
    crmm_deallocate(pool, b, second, 4 * MIB, 256);
    cuda(cudaStreamDestroy(a));
    cuda(cudaStreamDestroy(b));
    crmm_resource_release(&pool);
}

Test(pool_memory_resource, allocate_sync_gives_memory_without_pending_work)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 2 * MIB,
                                    .maximum_pool_size = 6 * MIB);
    gate held;
    void *sync = NULL;

    cudaStream_t stream = make_stream();
    void *ptr = take(pool, stream, 2 * MIB);
    void *small = take(pool, stream, 100);
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 2 * MIB, stream));
    cuda(cudaMemsetAsync(small, 1, 100, stream));
    crmm_deallocate(pool, stream, ptr, 2 * MIB, 256);
    crmm_deallocate(pool, stream, small, 100, 256);
    cr_assert(info_of(pool).pending >= 2 * MIB);
    void *other = NULL;
    expect_success(crmm_allocate_sync(pool, 100, 256, &other));
    cr_assert(other != small, "work is pending on it");
    expect_success(crmm_allocate_sync(pool, 2 * MIB, 256, &sync));
    cr_assert(sync != ptr, "work is pending on it");
    cr_assert(!gate_is_open(&held));
    /* With nothing else left it waits. */
    pthread_t opener = gate_open_later(&held);
    void *last = NULL;
    expect_success(crmm_allocate_sync(pool, 2 * MIB, 256, &last));
    cr_assert(gate_is_open(&held), "it was handed out under pending work");
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_deallocate_sync(pool, sync, 2 * MIB, 256);
    crmm_deallocate_sync(pool, last, 2 * MIB, 256);
    crmm_deallocate_sync(pool, other, 100, 256);
    expect_equal(info_of(pool).live, 0);
    expect_sound_books(pool);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
}
