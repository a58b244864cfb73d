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
                  strstr(text, ", tight, at most 1 heaps; 0 live, 0 held)") != NULL,
              "%s", text);
    expect_equal(crmm_pool_memory_resource_pool_size(pool), 0);
    crmm_resource_release(&pool);
    expect_success(crmm_pool_memory_resource_create(NULL, NULL, &pool));
    (void)crmm_resource_describe(pool, text, sizeof(text));
    cr_assert(strstr(text, "device 0, maximum none, ") != NULL && strstr(text, "tight") == NULL,
              "%s", text);
    crmm_resource_release(&pool);
}

/* User report 27: what was chosen and how it stands, in one line. */
Test(pool_memory_resource, describes_its_options_and_what_it_holds)
{
    crmm_resource *pool =
        make_pool(NULL, .initial_pool_size = 8 * MIB, .target_pool_size = 64 * MIB,
                  .release_threshold = 32 * MIB, .stream_cache_size = MIB, .heap_count = 3);
    void *ptr = take(pool, NULL, 1000);
    char text[400];
    char small[20];

    size_t length = crmm_resource_describe(pool, text, sizeof(text));
    expect_equal(length, strlen(text));
    cr_assert(strstr(text,
                     ", target 67108864, releasing above 33554432, caches of 1048576, at most "
                     "3 heaps; 1024 live, 8388608 held) over vmm_memory_resource") != NULL,
              "%s", text);
    expect_equal(crmm_resource_describe(pool, small, sizeof(small)), length);
    cr_assert(strncmp(small, text, sizeof(small) - 1) == 0 && small[sizeof(small) - 1] == '\0');
    expect_equal(crmm_resource_describe(pool, NULL, 0), length);
    crmm_deallocate(pool, NULL, ptr, 1000, 256);
    crmm_resource_release(&pool);
    pool = make_pool(NULL, .stream_cache_size = CRMM_STREAM_CACHE_NONE);
    (void)crmm_resource_describe(pool, text, sizeof(text));
    cr_assert(strstr(text, ", without caches; 0 live, 0 held)") != NULL, "%s", text);
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

/* Memory that grows in place begins with a page, so a block needs no more than its size. */
Test(pool_memory_resource, an_alignment_takes_nothing_from_the_maximum)
{
    static const size_t alignments[] = {512, 4096, MIB, 2 * MIB};
    crmm_resource *vmm = make_vmm();
    void *ptr = NULL;

    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        for (size_t tight = 0; tight <= 1; tight++) {
            crmm_resource *pool = make_pool(vmm, .maximum_pool_size = 8 * MIB, .tight = tight);
            expect_success(crmm_allocate(pool, stream, 8 * MIB, alignments[i], &ptr));
            cr_assert(crmm_is_pointer_aligned(ptr, alignments[i]));
            expect_equal(info_of(pool).held, 8 * MIB);
            crmm_deallocate(pool, stream, ptr, 8 * MIB, alignments[i]);
            crmm_resource_release(&pool);
        }
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
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
            expect_equal(info_of(pool).held, 16 * MIB);
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
    expect_success(crmm_pool_memory_resource_retire_stream(pool, a)); /* which marks it */
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

/* ---- giving back ---- */

/* User report 58. */
Test(pool_memory_resource, gives_back_by_address_alone)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};

    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        for (size_t tight = 0; tight <= 1; tight++) {
            crmm_resource *pool = make_pool(upstreams[i], .tight = tight);
            void *ptrs[KINDS];
            for (size_t k = 0; k < KINDS; k++) {
                expect_success(
                    crmm_allocate(pool, stream, kinds[k].bytes, kinds[k].alignment, &ptrs[k]));
            }
            for (size_t k = 0; k < KINDS; k++) {
                size_t before = info_of(pool).live;
                crmm_deallocate_ptr(pool, stream, ptrs[k]);
                cr_assert(before - info_of(pool).live >= kinds[k].bytes);
                expect_misuse(crmm_deallocate_ptr(pool, stream, ptrs[k]), CRMM_MISUSE_DOUBLE_FREE,
                              "was given back before");
                misuse_recorder_start();
            }
            expect_equal(info_of(pool).live, 0);
            expect_sound_books(pool);
            crmm_resource_release(&pool);
        }
    }
    crmm_resource *heap_pool = make_pool(crmm_malloc_memory_resource(), .tight = 0);
    void *ptr = NULL;
    expect_success(crmm_allocate_sync(heap_pool, 1000, 256, &ptr));
    crmm_deallocate_sync(heap_pool, ptr, 1000, 256);
    expect_equal(info_of(heap_pool).live, 0);
    crmm_resource_release(&heap_pool);
    expect_equal(misuse_recorded()->count, 0);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* Whatever is wrong with a free is found, and leaves the block and the books as they were. */
Test(pool_memory_resource, finds_frees_of_what_it_did_not_hand_out_so)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};

    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .tight = 0);
        for (size_t k = 0; k < KINDS; k++) {
            size_t bytes = kinds[k].bytes;
            size_t alignment = kinds[k].alignment;
            char *ptr = NULL;
            expect_success(crmm_allocate(pool, stream, bytes, alignment, (void **)&ptr));
            cuda(cudaMemsetAsync(ptr, (int)k + 1, bytes, stream));
            crmm_memory_info before = info_of(pool);
            expect_misuse(crmm_deallocate(pool, stream, ptr, bytes * 2 + 256, alignment),
                          CRMM_MISUSE_SIZE_MISMATCH, "given back with");
            cr_assert(misuse_recorded()->latest.ptr == ptr);
            expect_equal(misuse_recorded()->latest.bytes, bytes * 2 + 256);
            expect_text(misuse_recorded()->resource_name, "pool_memory_resource");
            expect_misuse(crmm_deallocate(pool, stream, ptr, PTRDIFF_MAX, alignment),
                          CRMM_MISUSE_SIZE_MISMATCH, "given back with");
            if (bytes > 256) {
                expect_misuse(crmm_deallocate(pool, stream, ptr + 256, bytes - 256, 256),
                              CRMM_MISUSE_FOREIGN_POINTER, "no block of this pool begins at");
            }
            expect_misuse(crmm_deallocate(pool, stream, ptr + 1, bytes, alignment),
                          CRMM_MISUSE_FOREIGN_POINTER, "no block of this pool begins at");
            expect_misuse(crmm_deallocate(pool, stream, &before, bytes, alignment),
                          CRMM_MISUSE_FOREIGN_POINTER, "is not from this pool");
            expect_misuse(crmm_deallocate_ptr(pool, stream, &before), CRMM_MISUSE_FOREIGN_POINTER,
                          "is not from this pool");
            expect_misuse(crmm_deallocate_ptr(pool, stream, ptr + 256 * (bytes > 256) + 1),
                          CRMM_MISUSE_FOREIGN_POINTER, "no block");
            crmm_memory_info after = info_of(pool);
            cr_assert(memcmp(&before, &after, sizeof(before)) == 0);
            cuda(cudaStreamSynchronize(stream));
            cr_assert(device_has(ptr, (int)k + 1, bytes));
            crmm_deallocate(pool, stream, ptr, bytes, alignment);
            expect_misuse(crmm_deallocate(pool, stream, ptr, bytes, alignment),
                          CRMM_MISUSE_DOUBLE_FREE, "was given back before");
            expect_misuse(crmm_deallocate_sync(pool, ptr, bytes, alignment),
                          CRMM_MISUSE_DOUBLE_FREE, "was given back before");
            expect_equal(info_of(pool).live, 0);
            expect_sound_books(pool);
        }
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

Test(pool_memory_resource, its_functions_refuse_other_classes)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    crmm_resource *other = crmm_cuda_memory_resource();
    crmm_pool_statistics statistics = {.struct_size = 0};
    void *ptr = take(pool, NULL, 256);

    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_pool_memory_resource_pool_size(other), 0),
                  CRMM_MISUSE_WRONG_CLASS, "crmm_pool_memory_resource_pool_size");
    expect_status(crmm_pool_memory_resource_retire_stream(other, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_retire_stream(NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_snapshot(pool, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_snapshot(other, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_chunk(other, ptr, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_chunk(pool, &ptr, NULL, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_statistics(pool, NULL), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_pool_memory_resource_statistics(pool, &statistics),
                  CRMM_ERROR_INVALID_ARGUMENT);
    statistics.struct_size = sizeof(statistics);
    expect_status(crmm_pool_memory_resource_statistics(other, &statistics),
                  CRMM_ERROR_INVALID_ARGUMENT);
    /* An older caller's struct is filled as far as it goes. */
    statistics.struct_size = offsetof(crmm_pool_statistics, at_hand);
    statistics.streams = 77;
    expect_success(crmm_pool_memory_resource_statistics(pool, &statistics));
    expect_equal(statistics.streams, 77);
    crmm_deallocate(pool, NULL, ptr, 256, 256);
    crmm_resource_release(&pool);
}

/* ---- figures of streams ---- */

typedef struct stream_figures {
    size_t count;
    uint64_t all; /* bytes */
    crmm_pool_stream last;
} stream_figures;

static void add_stream(const crmm_pool_stream *stream, void *user_data)
{
    stream_figures *figures = user_data;

    expect_equal(stream->struct_size, sizeof(*stream));
    figures->count++;
    figures->all += stream->pending + stream->at_hand;
    figures->last = *stream;
}

static stream_figures figures_of(const crmm_resource *pool)
{
    stream_figures figures = {.count = 0};

    expect_success(crmm_pool_memory_resource_streams(pool, add_stream, &figures));
    expect_equal(figures.all, info_of(pool).pending);
    return figures;
}

Test(pool_memory_resource, tells_what_each_stream_gave_back)
{
    crmm_resource *pool = make_pool(NULL, .tight = 0);
    cudaStream_t stream = make_stream();
    unsigned long long id = 0;
    gate held;

    void *large = take(pool, stream, 3 * MIB);
    void *small = take(pool, stream, 300);
    void *other = take(pool, NULL, 2 * MIB);
    cuda(cudaStreamGetId(stream, &id));
    /* What comes to a cache together with a block has no work pending, and yet is the stream's. */
    uint64_t fetched = figures_of(pool).all;
    gate_close(&held, stream);
    crmm_deallocate(pool, stream, small, 300, 256);
    crmm_deallocate(pool, stream, large, 3 * MIB, 256);
    stream_figures figures = figures_of(pool);
    expect_equal(figures.count, 1);
    expect_equal(figures.all, 3 * MIB + 512 + fetched);
    expect_equal(figures.last.stream_id, id);
    cr_assert(figures.last.pending >= 3 * MIB);
    crmm_deallocate(pool, NULL, other, 2 * MIB, 256);
    figures = figures_of(pool);
    expect_equal(figures.count, 2);
    expect_equal(figures.last.stream_id, 0);
    expect_equal(figures.last.pending + figures.last.at_hand, 2 * MIB);
    gate_open(&held);
    expect_success(crmm_resource_trim(pool, 0, NULL));
    expect_equal(figures_of(pool).count, 0);
    expect_failure(crmm_pool_memory_resource_streams(pool, NULL, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "visitor is NULL");
    expect_status(crmm_pool_memory_resource_streams(NULL, add_stream, NULL),
                  CRMM_ERROR_INVALID_ARGUMENT);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
}

/* ---- captures ---- */

Test(pool_memory_resource, a_stream_that_is_captured_gets_nothing_and_stays_valid)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};

    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .maximum_pool_size = 64 * MIB);
        void *ptr = take(pool, captured, 1000);
        void *large = take(pool, captured, 3 * MIB);
        void *refused = &refused;
        cudaGraph_t graph = NULL;

        misuse_recorder_start();
        cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
        expect_failure(crmm_allocate(pool, captured, 1000, 256, &refused), CRMM_ERROR_UNSUPPORTED,
                       "is being captured");
        expect_status(crmm_allocate(pool, captured, 8 * MIB, 4096, &refused),
                      CRMM_ERROR_UNSUPPORTED);
        cr_assert(refused == &refused);
        expect_misuse(crmm_deallocate(pool, captured, ptr, 1000, 256), CRMM_MISUSE_UNSUPPORTED,
                      "is being captured");
        expect_misuse(crmm_deallocate_ptr(pool, captured, large), CRMM_MISUSE_UNSUPPORTED,
                      "is being captured");
        expect_status(crmm_pool_memory_resource_retire_stream(pool, captured),
                      CRMM_ERROR_UNSUPPORTED);
        expect_equal(info_of(pool).allocations, 2);
        /* All that a pool does for others, growth, waits and giving back included. */
        void *all = take(pool, other, 56 * MIB);
        expect_status(crmm_allocate(pool, other, 32 * MIB, 256, &refused),
                      CRMM_ERROR_OUT_OF_MEMORY);
        crmm_deallocate(pool, other, all, 56 * MIB, 256);
        expect_success(crmm_allocate_sync(pool, 40 * MIB, 256, &all));
        crmm_deallocate_sync(pool, all, 40 * MIB, 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, other));
        expect_success(crmm_resource_trim(pool, 0, NULL));
        cuda(cudaStreamEndCapture(captured, &graph));
        cr_assert(graph != NULL);
        cuda(cudaGraphDestroy(graph));
        expect_equal(misuse_recorded()->count, 2);
        crmm_deallocate(pool, captured, ptr, 1000, 256);
        crmm_deallocate(pool, captured, large, 3 * MIB, 256);
        expect_equal(misuse_recorded()->count, 2);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
    crmm_resource_release(&vmm);
}

/* The per-thread stream is one of those that can be captured. */
Test(pool_memory_resource, a_captured_per_thread_stream_gets_nothing_and_stays_valid)
{
    static const size_t sizes[] = {1000, 3 * MIB};
    crmm_resource *pool = make_pool(NULL, .tight = 0);

    misuse_recorder_start();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t findings = misuse_recorded()->count;
        void *ptr = take(pool, CRMM_STREAM_PER_THREAD, sizes[i]);
        void *refused = NULL;
        cudaGraph_t graph = NULL;

        /* A free makes the stream known by its handle as well. */
        crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, ptr, sizes[i], 256);
        ptr = take(pool, CRMM_STREAM_PER_THREAD, sizes[i]);
        cuda(cudaStreamBeginCapture(CRMM_STREAM_PER_THREAD, cudaStreamCaptureModeGlobal));
        expect_status(crmm_allocate(pool, CRMM_STREAM_PER_THREAD, sizes[i], 256, &refused),
                      CRMM_ERROR_UNSUPPORTED);
        expect_misuse(crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, ptr, sizes[i], 256),
                      CRMM_MISUSE_UNSUPPORTED, "is being captured");
        expect_equal(info_of(pool).allocations, 1);
        cuda(cudaStreamEndCapture(CRMM_STREAM_PER_THREAD, &graph));
        cr_assert(graph != NULL);
        cuda(cudaGraphDestroy(graph));
        crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, ptr, sizes[i], 256);
        expect_equal(misuse_recorded()->count, findings + 1);
        expect_equal(info_of(pool).allocations, 0);
    }
    crmm_resource_release(&pool);
}

/* User report 48: setting up lazily, within somebody else's capture, must not spoil it. */
Test(pool_memory_resource, is_made_and_first_used_beside_a_capture)
{
    cudaGraph_t graph = NULL;
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm, NULL};

    cudaStream_t captured = make_stream();
    cudaStream_t other = make_stream();
    cuda(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .initial_pool_size = MIB);
        void *ptr = take(pool, other, 3 * MIB);
        void *sync = NULL;
        expect_success(crmm_allocate_sync(pool, 1000, 256, &sync));
        crmm_deallocate(pool, other, ptr, 3 * MIB, 256);
        crmm_deallocate_sync(pool, sync, 1000, 256);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamEndCapture(captured, &graph));
    cr_assert(graph != NULL);
    cuda(cudaGraphDestroy(graph));
    cuda(cudaStreamDestroy(captured));
    cuda(cudaStreamDestroy(other));
    crmm_resource_release(&vmm);
}

/* ---- giving memory back to upstream ---- */

/* User report 22. */
Test(pool_memory_resource, trim_gives_idle_memory_back)
{
    crmm_resource *vmm = make_vmm();
    recording_resource recording;

    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    crmm_resource *upstreams[] = {vmm, &recording.base};
    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < sizeof(upstreams) / sizeof(upstreams[0]); i++) {
        crmm_resource *pool = make_pool(upstreams[i], .tight = 0);
        size_t released = 1;
        void *ptrs[4];

        expect_success(crmm_resource_trim(pool, 0, &released));
        expect_equal(released, 0);
        for (size_t k = 0; k < 4; k++) {
            ptrs[k] = take(pool, stream, 24 * MIB);
        }
        void *small = take(pool, stream, 256);
        size_t held = info_of(pool).held;
        expect_success(crmm_resource_trim(pool, 0, &released));
        cr_assert(info_of(pool).held == held - released && info_of(pool).held >= 96 * MIB);
        held -= released;
        for (size_t k = 0; k < 4; k++) {
            crmm_deallocate(pool, stream, ptrs[k], 24 * MIB, 256);
        }
        cuda(cudaStreamSynchronize(stream));
        expect_success(crmm_resource_trim(pool, 60 * MIB, &released));
        size_t kept = info_of(pool).held;
        expect_equal(kept + released, held);
        cr_assert(kept <= 60 * MIB && kept >= 24 * MIB, "%zu", kept);
        expect_sound_books(pool);
        expect_success(crmm_resource_trim(pool, 0, NULL));
        /* What holds the small block stays. */
        cr_assert(info_of(pool).held > 0 && info_of(pool).held < 48 * MIB);
        crmm_deallocate(pool, stream, small, 256, 256);
        cuda(cudaStreamSynchronize(stream));
        expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
        cuda(cudaStreamSynchronize(stream));
        expect_success(crmm_resource_trim(pool, 0, NULL));
        expect_equal(info_of(pool).held, 0);
        if (i == 0) {
            expect_equal(info_of(vmm).held, 0);
        }
        /* And the pool goes on. */
        ptrs[0] = take(pool, stream, 24 * MIB);
        crmm_deallocate(pool, stream, ptrs[0], 24 * MIB, 256);
        crmm_resource_release(&pool);
    }
    expect_equal(recording.live_bytes, 0);
    cr_assert(recording.wrong == 0, "%s", recording.first_wrong);
    recording_resource_finish(&recording);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

Test(pool_memory_resource, memory_is_given_back_after_the_work_on_it)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    gate held;
    size_t released = 0;

    cudaStream_t stream = make_stream();
    void *ptr = take(pool, stream, 8 * MIB);
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 8 * MIB, stream));
    crmm_deallocate(pool, stream, ptr, 8 * MIB, 256);
    expect_equal(info_of(pool).pending, info_of(pool).cached);
    pthread_t opener = gate_open_later(&held);
    expect_success(crmm_resource_trim(pool, 0, &released));
    cr_assert(gate_is_open(&held) || released == 0, "given back under pending work");
    cr_assert(pthread_join(opener, NULL) == 0);
    cuda(cudaStreamSynchronize(stream));
    expect_success(crmm_resource_trim(pool, 0, NULL));
    expect_equal(info_of(vmm).held, 0);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
    crmm_resource_release(&vmm);
}

/* A block of 8 MiB is a chunk, or some handles, and so is what goes back. */
Test(pool_memory_resource, keeps_no_more_idle_memory_than_its_threshold)
{
    static const uint64_t thresholds[] = {CRMM_RELEASE_ALL, 16 << 20, 0};
    static const size_t kept[] = {0, 16 << 20, 64 << 20};
    enum { THRESHOLDS = sizeof(thresholds) / sizeof(thresholds[0]) };
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {vmm, crmm_cuda_memory_resource()};

    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < 2 * THRESHOLDS; i++) {
        crmm_resource *upstream = upstreams[i / THRESHOLDS];
        uint64_t threshold = thresholds[i % THRESHOLDS];
        crmm_resource *pool =
            make_pool(upstream, .release_threshold = threshold, .handle_size = 2 * MIB);
        void *ptrs[8];
        for (size_t k = 0; k < 8; k++) {
            ptrs[k] = take(pool, stream, 8 * MIB);
        }
        expect_equal(info_of(pool).held, 64 * MIB); /* live memory may exceed it */
        for (size_t k = 0; k < 8; k++) {
            crmm_deallocate(pool, stream, ptrs[k], 8 * MIB, 256);
            expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
            cuda(cudaStreamSynchronize(stream));
        }
        /* The next call on the pool finds the last one complete. */
        void *ptr = take(pool, stream, 8 * MIB);
        crmm_deallocate_sync(pool, ptr, 8 * MIB, 256);
        expect_equal(info_of(pool).held, kept[i % THRESHOLDS]);
        expect_equal(info_of(upstream).held, kept[i % THRESHOLDS]);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* Alternating sizes that no free block fits: what is idle moves, up to the target freely. */
static size_t peak_of(size_t tight, size_t target, uint64_t *moves)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool =
        make_pool(vmm, .tight = tight, .target_pool_size = target, .handle_size = 2 * MIB);
    void *ptrs[16];

    cudaStream_t stream = make_stream();
    for (size_t k = 0; k < 16; k++) {
        ptrs[k] = take(pool, stream, 4 * MIB);
    }
    for (size_t k = 0; k < 16; k += 2) {
        crmm_deallocate(pool, stream, ptrs[k], 4 * MIB, 256);
    }
    void *a = take(pool, stream, 16 * MIB);
    void *b = take(pool, stream, 16 * MIB);
    cuda(cudaMemsetAsync(a, 1, 16 * MIB, stream));
    cuda(cudaMemsetAsync(b, 2, 16 * MIB, stream));
    cuda(cudaStreamSynchronize(stream));
    cr_assert(device_has(a, 1, 16 * MIB) && device_has(b, 2, 16 * MIB));
    expect_sound_books(pool);
    size_t peak = info_of(vmm).peak_held;
    *moves = statistics_of(pool).moves;
    crmm_deallocate(pool, stream, a, 16 * MIB, 256);
    crmm_deallocate(pool, stream, b, 16 * MIB, 256);
    for (size_t k = 1; k < 16; k += 2) {
        crmm_deallocate(pool, stream, ptrs[k], 4 * MIB, 256);
    }
    crmm_resource_release(&pool);
    expect_equal(info_of(vmm).held, 0);
    crmm_resource_release(&vmm);
    cuda(cudaStreamDestroy(stream));
    return peak;
}

Test(pool_memory_resource, idle_memory_is_moved_before_a_pool_grows)
{
    uint64_t moves = 0;

    cr_assert(peak_of(0, 0, &moves) <= 68 * MIB && moves > 0);
    cr_assert(peak_of(1, 0, &moves) <= 66 * MIB && moves > 0);
    /* Below the target it grows freely. */
    cr_assert(peak_of(0, 128 * MIB, &moves) > 68 * MIB && moves == 0);
}

/* ---- chunks ---- */

enum { MOST_CHUNKS = 256 };
typedef struct chunk_log {
    struct {
        char *base;
        size_t bytes;
    } chunks[MOST_CHUNKS];
    size_t count, bytes, added, removed;
    const block *live; /* by the program's account; given back: NULL */
    size_t live_count;
} chunk_log;

/* A chunk that goes has nobody's memory in it. */
static void expect_unused(const chunk_log *log, const char *base, size_t bytes)
{
    for (size_t i = 0; i < log->live_count; i++) {
        const char *ptr = log->live[i].ptr;
        cr_assert(ptr == NULL || ptr + log->live[i].bytes <= base || base + bytes <= ptr,
                  "%p goes with a block in it", (const void *)base);
    }
}

static void note_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    chunk_log *log = user_data;
    size_t at = 0;

    while (at < log->count && log->chunks[at].base != base) {
        at++;
    }
    if (added) {
        cr_assert(at == log->count, "%p was added twice", base);
        cr_assert(log->count < MOST_CHUNKS);
        log->chunks[log->count].base = base;
        log->chunks[log->count++].bytes = bytes;
        log->bytes += bytes;
        log->added++;
    } else {
        cr_assert(at < log->count && log->chunks[at].bytes == bytes, "%p was not there", base);
        expect_unused(log, base, bytes);
        log->chunks[at] = log->chunks[--log->count];
        log->bytes -= bytes;
        log->removed++;
    }
}

static void expect_chunk(const crmm_resource *pool, const chunk_log *log, char *ptr)
{
    void *base = NULL;
    size_t bytes = 0;
    bool found = false;

    expect_success(crmm_pool_memory_resource_chunk(pool, ptr, &base, &bytes));
    cr_assert((char *)base <= ptr && ptr < (char *)base + bytes);
    for (size_t i = 0; i < log->count; i++) {
        found = found || (log->chunks[i].base == base && log->chunks[i].bytes == bytes);
    }
    cr_assert(found, "%p lies in a chunk that nobody was told of", (void *)ptr);
}

/* Who registers a chunk must not be told of one without memory behind it. */
Test(pool_memory_resource, tells_the_chunk_of_live_blocks_alone)
{
    static const size_t sizes[] = {1000, 300 * KIB, 5 * MIB};
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), make_vmm()};
    cudaStream_t stream = make_stream();
    size_t released = 0;

    for (size_t k = 0; k < 2; k++) {
        crmm_resource *pool = make_pool(upstreams[k], .handle_size = 2 * MIB);
        void *kept = take(pool, stream, 100);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            char *ptr = take(pool, stream, sizes[i]);
            expect_success(crmm_pool_memory_resource_chunk(pool, ptr, NULL, NULL));
            expect_success(crmm_pool_memory_resource_chunk(pool, ptr + sizes[i] - 1, NULL, NULL));
            crmm_deallocate(pool, stream, ptr, sizes[i], 256);
            expect_status(crmm_pool_memory_resource_chunk(pool, ptr, NULL, NULL),
                          CRMM_ERROR_INVALID_ARGUMENT);
            expect_status(crmm_pool_memory_resource_chunk(pool, ptr + 1, NULL, NULL),
                          CRMM_ERROR_INVALID_ARGUMENT);
        }
        crmm_deallocate(pool, stream, kept, 100, 256);
        expect_success(crmm_resource_trim(pool, 0, &released));
        expect_status(crmm_pool_memory_resource_chunk(pool, kept, NULL, NULL),
                      CRMM_ERROR_INVALID_ARGUMENT);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&upstreams[1]);
}

/* User report 89. */
Test(pool_memory_resource, tells_of_every_chunk_once)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {crmm_cuda_memory_resource(), vmm};
    uint64_t seed = 7;

    cudaStream_t stream = make_stream();
    for (size_t i = 0; i < 2; i++) {
        for (size_t tight = 0; tight <= 1; tight++) {
            chunk_log log = {.count = 0};
            crmm_resource *pool =
                make_pool(upstreams[i], .tight = tight, .initial_pool_size = 5 * MIB,
                          .maximum_pool_size = 100 * MIB, .handle_size = 2 * MIB,
                          .on_chunk = note_chunk, .on_chunk_user_data = &log);
            block blocks[24] = {{.ptr = NULL}};
            log.live = blocks;
            log.live_count = 24;
            cr_assert(log.added > 0);
            for (size_t k = 0; k < 24; k++) {
                blocks[k] = (block){.bytes = MIB + random_below(&seed, 2 * MIB)};
                blocks[k].ptr = take(pool, stream, blocks[k].bytes);
                expect_chunk(pool, &log, blocks[k].ptr);
                expect_chunk(pool, &log, (char *)blocks[k].ptr + blocks[k].bytes - 1);
            }
            for (size_t k = 0; k < 24; k += 2) {
                crmm_deallocate(pool, stream, blocks[k].ptr, blocks[k].bytes, 256);
                blocks[k].ptr = NULL;
            }
            void *large = take(pool, stream, 20 * MIB);
            expect_chunk(pool, &log, large);
            expect_equal(log.bytes, info_of(pool).held);
            for (size_t k = 1; k < 24; k += 2) {
                crmm_deallocate(pool, stream, blocks[k].ptr, blocks[k].bytes, 256);
                blocks[k].ptr = NULL;
            }
            crmm_deallocate(pool, stream, large, 20 * MIB, 256);
            cuda(cudaStreamSynchronize(stream));
            expect_success(crmm_resource_trim(pool, 30 * MIB, NULL));
            expect_equal(log.bytes, info_of(pool).held);
            cr_assert(log.removed > 0);
            crmm_resource_release(&pool);
            expect_equal(log.count, 0);
            expect_equal(log.added, log.removed);
        }
    }
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* Over vmm a chunk is one handle of the size that was asked for. */
Test(pool_memory_resource, a_chunk_over_vmm_is_one_handle)
{
    static const size_t asked[] = {1, 2 * MIB, 3 * MIB, 6 * MIB, 32 * MIB};
    static const size_t expected[] = {2 * MIB, 2 * MIB, 4 * MIB, 6 * MIB, 32 * MIB};
    crmm_resource *vmm = make_vmm();

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        crmm_resource *pool = make_pool(vmm, .handle_size = asked[i]);
        char *ptr = take(pool, NULL, 40 * MIB);
        char *base = NULL;
        size_t bytes = 0;
        expect_success(
            crmm_pool_memory_resource_chunk(pool, ptr + 39 * MIB, (void **)&base, &bytes));
        expect_equal(bytes, expected[i]);
        cr_assert(base <= ptr + 39 * MIB && ptr + 39 * MIB < base + bytes);
        expect_equal(info_of(vmm).held % bytes, 0);
        crmm_deallocate(pool, NULL, ptr, 40 * MIB, 256);
        crmm_resource_release(&pool);
    }
    crmm_resource_release(&vmm);
}

/* ---- looking ---- */

static void count_block(const crmm_pool_block *each, void *user_data)
{
    *(size_t *)user_data += each->is_live != 0;
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A snapshot must be cheap enough to be taken in production: 20 ms for 100 000 blocks on a machine
 * of its own. The bound leaves room for busy machines, sanitizers and valgrind. */
Test(pool_memory_resource, a_snapshot_of_many_blocks_is_quick)
{
    enum { COUNT = 100000 };
    static const double bound = 2;
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 64 * MIB);
    void **ptrs = malloc(COUNT * sizeof(*ptrs));
    size_t live = 0;

    cr_assert(ptrs != NULL);
    for (size_t i = 0; i < COUNT; i++) {
        ptrs[i] = take(pool, NULL, 512);
    }
    double before = seconds();
    expect_success(crmm_pool_memory_resource_snapshot(pool, count_block, &live));
    double took = seconds() - before;
    expect_equal(live, COUNT);
    cr_assert(took < bound, "%f s", took);
    expect_sound_books(pool);
    for (size_t i = 0; i < COUNT; i++) {
        crmm_deallocate(pool, NULL, ptrs[i], 512, 256);
    }
    free(ptrs);
    expect_equal(info_of(pool).live, 0);
    crmm_resource_release(&pool);
}

typedef struct found_block {
    const void *ptr;
    crmm_pool_block block;
} found_block;

static void find_block(const crmm_pool_block *each, void *user_data)
{
    found_block *found = user_data;
    if ((const char *)each->ptr <= (const char *)found->ptr &&
        (const char *)found->ptr < (const char *)each->ptr + each->bytes) {
        found->block = *each;
    }
}

Test(pool_memory_resource, a_snapshot_tells_whose_free_memory_is)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    unsigned long long id = 0;
    gate held;

    cudaStream_t stream = make_stream();
    cuda(cudaStreamGetId(stream, &id));
    found_block found = {.ptr = take(pool, stream, 3 * MIB)};
    expect_success(crmm_pool_memory_resource_snapshot(pool, find_block, &found));
    expect_equal(found.block.is_live, 1);
    expect_equal(found.block.bytes, 3 * MIB);
    cr_assert(found.block.ptr == found.ptr);
    gate_close(&held, stream);
    crmm_deallocate(pool, stream, (void *)(uintptr_t)found.ptr, 3 * MIB, 256);
    expect_success(crmm_pool_memory_resource_snapshot(pool, find_block, &found));
    expect_equal(found.block.is_live, 0);
    expect_equal(found.block.is_pending, 1);
    expect_equal(found.block.stream_id, id);
    gate_open(&held);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
}

/* What threads have at hand is free, and pending only if it came back on a stream. */
Test(pool_memory_resource, a_snapshot_tells_whose_the_blocks_at_hand_are)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    unsigned long long id = 0;
    void *sync = NULL;
    cudaStream_t stream = make_stream();

    cuda(cudaStreamGetId(stream, &id));
    found_block of_stream = {.ptr = take(pool, stream, 3000)};
    found_block of_default = {.ptr = take(pool, NULL, 3000)};
    expect_success(crmm_allocate_sync(pool, 3000, 256, &sync));
    found_block of_nobody = {.ptr = sync};
    crmm_deallocate(pool, stream, (void *)(uintptr_t)of_stream.ptr, 3000, 256);
    crmm_deallocate(pool, NULL, (void *)(uintptr_t)of_default.ptr, 3000, 256);
    crmm_deallocate_sync(pool, sync, 3000, 256);
    cr_assert(statistics_of(pool).at_hand >= 3 * 3072);
    expect_success(crmm_pool_memory_resource_snapshot(pool, find_block, &of_stream));
    expect_success(crmm_pool_memory_resource_snapshot(pool, find_block, &of_default));
    expect_success(crmm_pool_memory_resource_snapshot(pool, find_block, &of_nobody));
    expect_equal(of_stream.block.is_live, 0);
    expect_equal(of_stream.block.is_pending, 1);
    expect_equal(of_stream.block.stream_id, id);
    expect_equal(of_default.block.is_live, 0);
    expect_equal(of_default.block.is_pending, 1);
    expect_equal(of_default.block.stream_id, 0);
    expect_equal(of_nobody.block.is_live, 0);
    expect_equal(of_nobody.block.is_pending, 0);
    expect_equal(of_nobody.block.stream_id, 0);
    expect_sound_books(pool);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
}

/* ---- the end ---- */

Test(pool_memory_resource, what_is_alive_at_the_end_is_reported_and_the_rest_given_back)
{
    recording_resource recording;
    crmm_resource *vmm = make_vmm();

    recording_resource_init(&recording, ORDERED);
    recording_expect(true, NULL);
    crmm_resource *upstreams[] = {vmm, &recording.base};
    cudaStream_t stream = make_stream();
    misuse_recorder_start();
    for (size_t i = 0; i < 2; i++) {
        crmm_resource *pool = make_pool(upstreams[i], .handle_size = 2 * MIB);
        cr_assert(take(pool, stream, 1000) != NULL);
        void *other = take(pool, stream, 64 * MIB);
        crmm_deallocate(pool, stream, other, 64 * MIB, 256);
        expect_misuse(crmm_resource_release(&pool), CRMM_MISUSE_LEAK, "bytes alive");
        expect_equal(misuse_recorded()->latest.bytes, 1024);
        cr_assert(pool == NULL);
    }
    /* The chunk that it lies in is what is left. */
    expect_equal(recording.live_blocks, 1);
    cr_assert(info_of(vmm).held > 0 && info_of(vmm).held <= 4 * MIB);
    recording_resource_finish(&recording);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* Destroy must return what streams have not settled, too. */
Test(pool_memory_resource, the_end_waits_for_pending_work)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *pool = make_pool(vmm, .tight = 0);
    gate held;

    cudaStream_t stream = make_stream();
    void *ptr = take(pool, stream, 8 * MIB);
    gate_close(&held, stream);
    cuda(cudaMemsetAsync(ptr, 1, 8 * MIB, stream));
    crmm_deallocate(pool, stream, ptr, 8 * MIB, 256);
    pthread_t opener = gate_open_later(&held);
    crmm_resource_release(&pool);
    cr_assert(gate_is_open(&held), "unmapped under pending work");
    cr_assert(pthread_join(opener, NULL) == 0);
    expect_equal(info_of(vmm).held, 0);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

/* ---- streams that come and go ---- */

static void use_short_lived(crmm_resource *pool, size_t bytes, bool retire)
{
    cudaStream_t stream = make_stream();
    void *a = take(pool, stream, bytes);
    void *b = take(pool, stream, 300);

    cuda(cudaMemsetAsync(a, 1, bytes, stream));
    crmm_deallocate(pool, stream, a, bytes, 256);
    crmm_deallocate(pool, stream, b, 300, 256);
    if (retire) {
        expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
    }
    cuda(cudaStreamDestroy(stream));
}

Test(pool_memory_resource, retired_streams_do_not_multiply_the_memory)
{
    static const size_t sizes[] = {2 * MIB, 100 * KIB, 1000};

    need_devices(1);
    for (size_t tight = 0; tight <= 1; tight++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = tight);
            for (int k = 0; k < 1000; k++) {
                use_short_lived(pool, sizes[i], true);
            }
            cuda(cudaDeviceSynchronize());
            cr_assert(info_of(pool).peak_held <= 32 * MIB, "%zu bytes for %zu on a stream",
                      info_of(pool).peak_held, sizes[i]);
            /* All of it is found again. */
            void *ptr = take(pool, NULL, info_of(pool).held);
            crmm_deallocate(pool, NULL, ptr, info_of(pool).held, 256);
            expect_sound_books(pool);
            crmm_resource_release(&pool);
        }
    }
}

/* More streams than a pool keeps books for, each with less than is marked by an event. */
Test(pool_memory_resource, ten_thousand_streams_are_served)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);

    for (int k = 0; k < 10000; k++) {
        use_short_lived(pool, 256, false);
    }
    expect_sound_books(pool);
    crmm_resource_release(&pool);
}

static void *use_per_thread(void *user_data)
{
    crmm_resource *pool = user_data;
    void *a = take(pool, CRMM_STREAM_PER_THREAD, MIB);
    void *b = take(pool, CRMM_STREAM_PER_THREAD, 300);

    cuda(cudaMemsetAsync(a, 1, MIB, CRMM_STREAM_PER_THREAD));
    crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, a, MIB, 256);
    crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, b, 300, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, CRMM_STREAM_PER_THREAD));
    return NULL;
}

Test(pool_memory_resource, short_lived_threads_do_not_multiply_the_memory)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);

    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        cr_assert(pthread_create(&thread, NULL, use_per_thread, pool) == 0);
        cr_assert(pthread_join(thread, NULL) == 0);
    }
    cuda(cudaDeviceSynchronize());
    cr_assert(info_of(pool).peak_held <= 32 * MIB, "%zu bytes", info_of(pool).peak_held);
    expect_sound_books(pool);
    crmm_resource_release(&pool);
}

typedef struct other_thread {
    crmm_resource *pool;
    gate *held; /* opened when the work is queued */
    void *ptr;
} other_thread;

static void *take_per_thread(void *user_data)
{
    other_thread *other = user_data;
    other->ptr = take(other->pool, CRMM_STREAM_PER_THREAD, MIB);
    cuda(cudaMemsetAsync(other->ptr, 2, MIB, CRMM_STREAM_PER_THREAD));
    gate_open(other->held);
    cuda(cudaStreamSynchronize(CRMM_STREAM_PER_THREAD));
    return NULL;
}

/* User report 29: the handle is the same in all threads; the streams are not. */
Test(pool_memory_resource, per_thread_streams_of_two_threads_are_two_streams)
{
    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    gate held;
    other_thread other = {.pool = pool, .held = &held};
    pthread_t thread;

    void *ptr = take(pool, CRMM_STREAM_PER_THREAD, MIB);
    gate_close(&held, CRMM_STREAM_PER_THREAD);
    cuda(cudaMemsetAsync(ptr, 1, MIB, CRMM_STREAM_PER_THREAD));
    crmm_deallocate(pool, CRMM_STREAM_PER_THREAD, ptr, MIB, 256);
    cr_assert(pthread_create(&thread, NULL, take_per_thread, &other) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    /* Also where it is the same memory: the other stream was made to wait. */
    cr_assert(device_has(other.ptr, 2, MIB));
    crmm_deallocate_sync(pool, other.ptr, MIB, 256);
    expect_equal(info_of(pool).live, 0);
    crmm_resource_release(&pool);
}

/* ---- together with others ---- */

Test(pool_memory_resource, two_pools_keep_their_own_books)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *a = make_pool(vmm, .initial_pool_size = 8 * MIB);
    crmm_resource *b = make_pool(vmm, .tight = 0);

    cudaStream_t stream = make_stream();
    cr_assert(!crmm_resource_is_equal(a, b) && crmm_resource_is_equal(a, a));
    void *one = take(a, stream, 3 * MIB);
    void *two = take(a, stream, 3000);
    expect_equal(info_of(b).held, 0);
    void *three = take(b, stream, 5 * MIB);
    expect_equal(info_of(a).allocations, 2);
    expect_equal(info_of(b).allocations, 1);
    expect_equal(info_of(b).live, 5 * MIB);
    expect_equal(info_of(a).held + info_of(b).held, info_of(vmm).held);
    misuse_recorder_start();
    expect_misuse(crmm_deallocate(b, stream, one, 3 * MIB, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "is not from this pool");
    expect_misuse(crmm_deallocate(a, stream, three, 5 * MIB, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "is not from this pool");
    crmm_deallocate(a, stream, one, 3 * MIB, 256);
    crmm_deallocate(a, stream, two, 3000, 256);
    crmm_resource_release(&a);
    cuda(cudaMemsetAsync(three, 1, 5 * MIB, stream));
    crmm_deallocate(b, stream, three, 5 * MIB, 256);
    expect_sound_books(b);
    crmm_resource_release(&b);
    expect_equal(info_of(vmm).held, 0);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&vmm);
}

Test(pool_memory_resource, a_pool_stands_on_a_pool)
{
    crmm_resource *lower = make_pool(crmm_cuda_memory_resource(), .tight = 0);
    crmm_resource *pool = make_pool(lower, .tight = 0);
    size_t released = 0;

    cudaStream_t stream = make_stream();
    void *ptr = take(pool, stream, 20 * MIB);
    expect_equal(info_of(lower).live, info_of(pool).held);
    crmm_deallocate(pool, stream, ptr, 20 * MIB, 256);
    cuda(cudaStreamSynchronize(stream));
    expect_success(crmm_resource_trim(pool, 0, &released));
    expect_equal(info_of(pool).held, 0);
    expect_equal(info_of(lower).held, 0);
    cr_assert(released >= 20 * MIB);
    crmm_resource_release(&pool);
    crmm_resource_release(&lower);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
    cuda(cudaStreamDestroy(stream));
}

/* Small blocks that threads keep at hand do not keep pages that are idle otherwise. */
Test(pool_memory_resource, a_release_threshold_holds_for_small_blocks_too)
{
    enum { BLOCKS = 2048, BYTES = 16 << 10 };
    static const uint64_t thresholds[] = {CRMM_RELEASE_ALL, 8 * MIB};
    static void *blocks[BLOCKS];
    crmm_resource *upstream = make_vmm();
    cudaStream_t created = make_stream();
    cudaStream_t streams[] = {created, NULL};

    for (size_t k = 0; k < 4; k++) {
        cudaStream_t stream = streams[k / 2];
        crmm_resource *pool = make_pool(upstream, .release_threshold = thresholds[k % 2]);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = take(pool, stream, BYTES);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            /* In an order that spreads over all pages. */
            crmm_deallocate(pool, stream, blocks[i * 7919 % BLOCKS], BYTES, 256);
        }
        cuda(cudaStreamSynchronize(stream));
        crmm_deallocate(pool, stream, take(pool, stream, BYTES), BYTES, 256);
        size_t most = (k % 2 == 0 ? 0 : 8 * MIB) + 4 * MIB; /* a page may be pending */
        cr_assert(info_of(pool).held <= most, "%zu bytes", info_of(pool).held);
        expect_sound_books(pool);
        crmm_resource_release(&pool);
    }
    cuda(cudaStreamDestroy(created));
    crmm_resource_release(&upstream);
}
