/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/arena_memory_resource.h>

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/core/log.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "common_checks.h"
#include "cuda_support.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"
#include "random_numbers.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, KIB = 1024, MIB = 1 << 20 };

static crmm_status try_to_make(crmm_resource *upstream, size_t size, crmm_resource **out)
{
    return crmm_arena_memory_resource_create(
        upstream, CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = size), out);
}

static crmm_resource *make(crmm_resource *upstream, size_t size)
{
    crmm_resource *made = NULL;

    expect_success(try_to_make(upstream, size, &made));
    return made;
}

static crmm_memory_info info_of(const crmm_resource *mr)
{
    crmm_memory_info info = {.struct_size = sizeof(info)};
    expect_success(crmm_resource_info(mr, &info));
    return info;
}

static void *take(crmm_resource *mr, crmm_stream stream, size_t bytes)
{
    void *ptr = NULL;
    expect_success(crmm_allocate(mr, stream, bytes, 256, &ptr));
    return ptr;
}

/* ---- creation ---- */

Test(arena_memory_resource, create_refuses_what_cannot_be)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *untouched = cuda_mr;
    crmm_arena_memory_resource_options options;

    need_devices(1);
    expect_failure(try_to_make(NULL, MIB, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "upstream is NULL");
    expect_failure(try_to_make(cuda_mr, MIB, NULL), CRMM_ERROR_INVALID_ARGUMENT, "out is NULL");
    expect_failure(try_to_make(cuda_mr, 256, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "arena_size 256 is less than 1048576");
    expect_failure(try_to_make(cuda_mr, MIB - 1, &untouched), CRMM_ERROR_INVALID_ARGUMENT,
                   "arena_size 1048575 is less than 1048576");
    expect_failure(try_to_make(cuda_mr, SIZE_MAX, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "arena_size 18446744073709551615 is more than");
    expect_failure(try_to_make(cuda_mr, (size_t)255 << 30, &untouched), CRMM_ERROR_OUT_OF_MEMORY,
                   "cudaErrorMemoryAllocation");
    expect_failure(try_to_make(crmm_malloc_memory_resource(), 0, &untouched),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "arena_size has no default over malloc_memory_resource");
    crmm_arena_memory_resource_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    options.struct_size = 1;
    expect_status(crmm_arena_memory_resource_create(cuda_mr, &options, &untouched),
                  CRMM_ERROR_INVALID_ARGUMENT);
    struct {
        crmm_arena_memory_resource_options known;
        uint64_t unknown;
    } newer = {.known = {.struct_size = sizeof(newer)}, .unknown = 1};
    expect_status(crmm_arena_memory_resource_create(cuda_mr, &newer.known, &untouched),
                  CRMM_ERROR_UNSUPPORTED);
    cr_assert(untouched == cuda_mr, "a failure wrote the output");
    expect_equal(info_of(cuda_mr).held, 0);

    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_arena_memory_resource_arena_size(cuda_mr), 0),
                  CRMM_MISUSE_WRONG_CLASS, "of another class");
}

Test(arena_memory_resource, looks_as_declared)
{
    crmm_resource *cuda_mr = crmm_cuda_memory_resource();
    crmm_resource *mr = NULL;
    size_t free_bytes = 0;
    size_t total = 0;
    char text[200];

    need_devices(1);
    claim_free_memory();
    cuda(cudaMemGetInfo(&free_bytes, &total));
    expect_success(crmm_arena_memory_resource_create(cuda_mr, NULL, &mr));
    expect_text(crmm_resource_name(mr), "arena_memory_resource");
    expect_equal(crmm_resource_properties(mr), ORDERED);
    expect_equal(crmm_resource_device(mr), 0);
    cr_assert(crmm_resource_upstream(mr) == cuda_mr && crmm_resource_is_adaptor(mr));
    size_t size = crmm_arena_memory_resource_arena_size(mr);
    expect_equal(info_of(mr).held, size);
    /* On a device that others use as well, what is free changes, and may be more by now. */
    cr_assert(size % 256 == 0 && size >= free_bytes / 4 && size <= total, "%zu of %zu", size,
              free_bytes);
    crmm_resource_release(&mr);
    mr = make(cuda_mr, 3 * MIB + 255);
    expect_equal(crmm_arena_memory_resource_arena_size(mr), 3 * MIB);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "arena_memory_resource (device 0, size 3145728) over cuda_memory_resource");
    cr_assert(crmm_resource_is_equal(mr, mr));
    crmm_resource_release(&mr);
    expect_equal(info_of(cuda_mr).held, 0);
}

Test(arena_memory_resource, nearly_all_of_a_device)
{
    size_t free_bytes = 0;
    size_t total = 0;

    need_devices(1);
    claim_free_memory();
    cuda(cudaMemGetInfo(&free_bytes, &total));
    crmm_resource *mr = make(crmm_cuda_memory_resource(), free_bytes / 10 * 9);
    void *ptrs[3] = {take(mr, NULL, 256), take(mr, NULL, 64 * MIB), take(mr, NULL, free_bytes / 3)};
    crmm_deallocate(mr, NULL, ptrs[0], 256, 256);
    crmm_deallocate(mr, NULL, ptrs[1], 64 * MIB, 256);
    crmm_deallocate(mr, NULL, ptrs[2], free_bytes / 3, 256);
    crmm_resource_release(&mr);
}

/* ---- one chunk ---- */

/* Upstream is asked once, and gets its chunk back in the end. */
Test(arena_memory_resource, takes_one_chunk_and_no_more)
{
    mock_resource mock;
    void *ptrs[4];
    void *none = &none;
    size_t released = 1;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&mock.base, 4 * MIB);
    expect_equal(mock.allocations, 1);
    expect_equal(mock.last_allocate.bytes, 4 * MIB);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            expect_success(crmm_allocate_sync(mr, MIB, 256, &ptrs[i]));
        }
        expect_failure(crmm_allocate_sync(mr, 1, 1, &none), CRMM_ERROR_OUT_OF_MEMORY,
                       "arena_memory_resource: no 1 bytes: 4194304 live, 0 free");
        expect_equal(crmm_last_error()->live_bytes, 4 * MIB);
        expect_status(crmm_allocate_sync(mr, 4 * MIB + 1, 1, &none), CRMM_ERROR_OUT_OF_MEMORY);
        expect_status(crmm_allocate_sync(mr, (size_t)1 << 50, 1, &none), CRMM_ERROR_OUT_OF_MEMORY);
        expect_status(crmm_allocate_sync(mr, SIZE_MAX, 1, &none), CRMM_ERROR_OUT_OF_MEMORY);
        cr_assert(none == &none);
        for (int i = 0; i < 4; i++) {
            crmm_deallocate_sync(mr, ptrs[(i + round) % 4], MIB, 256);
        }
        /* Neighbours join: all of it can be had in one piece. */
        expect_success(crmm_allocate_sync(mr, 4 * MIB, 256, &ptrs[0]));
        crmm_deallocate_ptr(mr, NULL, ptrs[0]);
        /* One that fits, were it not for its alignment, makes no difference. */
        expect_status(crmm_allocate_sync(mr, 4 * MIB - 256, 8 * MIB, &none),
                      CRMM_ERROR_OUT_OF_MEMORY);
        expect_success(crmm_resource_trim(mr, 0, &released));
        expect_equal(released, 0);
        expect_equal(info_of(mr).held, 4 * MIB);
        expect_equal(info_of(mr).cached, 4 * MIB);
    }
    expect_equal(mock.allocations, 1);
    crmm_resource_release(&mr);
    expect_equal(mock.live, 0);
    expect_equal(mock.deallocations, 1);
}

Test(arena_memory_resource, reuses_the_smallest_places)
{
    mock_resource mock;
    char *a = NULL;
    char *b = NULL;
    char *c = NULL;

    mock_resource_init(&mock, CRMM_HOST_ACCESSIBLE);
    crmm_resource *mr = make(&mock.base, MIB);
    expect_success(crmm_allocate_sync(mr, MIB / 4, 256, (void **)&a));
    expect_success(crmm_allocate_sync(mr, MIB / 4, 4096, (void **)&b));
    expect_success(crmm_allocate_sync(mr, MIB / 4, 256, (void **)&c));
    memset(a, 1, MIB / 4);
    memset(b, 2, MIB / 4);
    memset(c, 3, MIB / 4);
    cr_assert(crmm_is_pointer_aligned(b, 4096));
    cr_assert(a[MIB / 4 - 1] == 1 && b[0] == 2 && b[MIB / 4 - 1] == 2 && c[0] == 3);
    crmm_deallocate_sync(mr, b, MIB / 4, 4096);
    expect_success(crmm_allocate_sync(mr, MIB / 4, 256, (void **)&b));
    crmm_deallocate_sync(mr, a, MIB / 4, 256);
    crmm_deallocate_sync(mr, b, MIB / 4, 256);
    expect_success(crmm_allocate_sync(mr, MIB / 2, 256, (void **)&a));
    crmm_deallocate_sync(mr, a, MIB / 2, 256);
    crmm_deallocate_sync(mr, c, MIB / 4, 256);
    crmm_resource_release(&mr);
}

/* ---- threads and streams ---- */

typedef struct task {
    crmm_resource *mr;
    const char *wrong;
} task;

/* On a stream of its own, which does not outlive the thread. */
static void *allocate_and_free(void *data)
{
    task *own = data;
    cudaStream_t stream = NULL;
    void *ptr = NULL;

    if (cudaStreamCreate(&stream) != cudaSuccess ||
        crmm_allocate(own->mr, stream, 32 * KIB, 256, &ptr) != CRMM_SUCCESS) {
        own->wrong = "no stream, or no memory";
        return NULL;
    }
    crmm_deallocate(own->mr, stream, ptr, 32 * KIB, 256);
    if (cudaStreamDestroy(stream) != cudaSuccess) {
        own->wrong = "the stream failed";
    }
    return NULL;
}

static void run_four(crmm_resource *mr)
{
    pthread_t threads[4];
    task tasks[4];

    for (int i = 0; i < 4; i++) {
        tasks[i] = (task){.mr = mr};
        cr_assert(pthread_create(&threads[i], NULL, allocate_and_free, &tasks[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        cr_assert(tasks[i].wrong == NULL, "%s", tasks[i].wrong);
    }
}

/* What threads and streams that are gone had is found again: all of it. */
Test(arena_memory_resource, gathers_what_threads_leave)
{
    need_devices(1);
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 4 * MIB);
    run_four(mr);
    void *ptr = take(mr, NULL, 4 * MIB);
    crmm_deallocate(mr, NULL, ptr, 4 * MIB, 256);
    crmm_resource_release(&mr);
}

typedef struct maker {
    crmm_resource *mr;
    void *small;
} maker;

static void *make_small(void *data)
{
    maker *own = data;

    if (crmm_allocate(own->mr, CRMM_STREAM_PER_THREAD, 256, 256, &own->small) != CRMM_SUCCESS) {
        own->small = NULL;
    }
    return NULL;
}

/* User report 8: another thread has everything gathered, for a request that fails, and gives back a
 * block of the first one's per-thread stream. */
Test(arena_memory_resource, takes_back_what_another_thread_made)
{
    pthread_t thread;
    void *none = &thread;

    need_devices(1);
    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    maker made = {.mr = make(crmm_cuda_memory_resource(), 2 * MIB)};
    cr_assert(pthread_create(&thread, NULL, make_small, &made) == 0);
    (void)pthread_join(thread, NULL);
    cr_assert(made.small != NULL);
    expect_status(crmm_allocate(made.mr, stream, 2 * MIB, 256, &none), CRMM_ERROR_OUT_OF_MEMORY);
    crmm_deallocate(made.mr, stream, made.small, 256, 256);
    expect_equal(info_of(made.mr).live, 0);
    void *all = take(made.mr, stream, 2 * MIB);
    crmm_deallocate(made.mr, stream, all, 2 * MIB, 256);
    crmm_resource_release(&made.mr);
    cuda(cudaStreamDestroy(stream));
    expect_equal(misuse_recorded()->count, 0);
}

/* User report 8: a block of the per-thread stream comes back after everything was gathered. */
Test(arena_memory_resource, takes_back_on_any_stream)
{
    need_devices(1);
    misuse_recorder_start();
    cudaStream_t stream = make_stream();
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 2 * MIB);
    void *small = take(mr, CRMM_STREAM_PER_THREAD, 256);
    void *other = take(mr, stream, 32 * KIB);
    crmm_deallocate(mr, stream, other, 32 * KIB, 256);
    void *large = take(mr, NULL, MIB);
    other = take(mr, NULL, 32 * KIB);
    crmm_deallocate(mr, CRMM_STREAM_PER_THREAD, small, 256, 256);
    crmm_deallocate(mr, stream, large, MIB, 256);
    crmm_deallocate(mr, CRMM_STREAM_PER_THREAD, other, 32 * KIB, 256);
    void *all = take(mr, stream, 2 * MIB);
    crmm_deallocate(mr, stream, all, 2 * MIB, 256);
    expect_equal(info_of(mr).live, 0);
    crmm_resource_release(&mr);
    cuda(cudaStreamDestroy(stream));
    expect_equal(misuse_recorded()->count, 0);
}

typedef struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    crmm_resource *mr;
    void *ptrs[64];
    size_t made, taken, wanted;
    bool failed;
} queue;

static void *consume(void *data)
{
    queue *own = data;

    for (;;) {
        pthread_mutex_lock(&own->mutex);
        while (own->taken == own->made && own->taken < own->wanted && !own->failed) {
            pthread_cond_wait(&own->changed, &own->mutex);
        }
        if (own->taken == own->wanted || own->failed) {
            pthread_mutex_unlock(&own->mutex);
            return NULL;
        }
        void *ptr = own->ptrs[own->taken % 64];
        own->taken++;
        pthread_cond_signal(&own->changed);
        pthread_mutex_unlock(&own->mutex);
        crmm_deallocate(own->mr, CRMM_STREAM_PER_THREAD, ptr, 4 * KIB, 256);
    }
}

/* User report 7: one thread allocates, another gives back; nothing piles up with either. */
Test(arena_memory_resource, stays_balanced_between_threads, .timeout = 100)
{
    enum { ROUNDS = 50000 };
    queue shared = {
        .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .wanted = ROUNDS};
    pthread_t consumer;

    need_devices(1);
    shared.mr = make(crmm_cuda_memory_resource(), 2 * MIB);
    cr_assert(pthread_create(&consumer, NULL, consume, &shared) == 0);
    for (size_t i = 0; i < ROUNDS && !shared.failed; i++) {
        void *ptr = NULL;
        bool served =
            crmm_allocate(shared.mr, CRMM_STREAM_PER_THREAD, 4 * KIB, 256, &ptr) == CRMM_SUCCESS;
        pthread_mutex_lock(&shared.mutex);
        shared.failed = !served;
        while (shared.made - shared.taken == 64) {
            pthread_cond_wait(&shared.changed, &shared.mutex);
        }
        shared.ptrs[shared.made % 64] = ptr;
        shared.made += served;
        pthread_cond_signal(&shared.changed);
        pthread_mutex_unlock(&shared.mutex);
    }
    (void)pthread_join(consumer, NULL);
    cr_assert(!shared.failed, "out of memory after %zu: %s", shared.made,
              crmm_last_error()->message);
    expect_equal(info_of(shared.mr).live, 0);
    void *all = take(shared.mr, NULL, 2 * MIB);
    crmm_deallocate(shared.mr, NULL, all, 2 * MIB, 256);
    crmm_resource_release(&shared.mr);
}

Test(arena_memory_resource, serves_one_thread_and_several)
{
    crmm_resource *upstreams[2] = {crmm_cuda_memory_resource()};
    const char *wrong = NULL;

    need_devices(1);
    expect_success(crmm_vmm_memory_resource_create(NULL, &upstreams[1]));
    misuse_recorder_start();
    for (size_t i = 0; i < 2; i++) {
        cudaStream_t streams[2] = {make_stream(), make_stream()};
        crmm_resource *mr = make(upstreams[i], (size_t)3 << 30);
        wrong = common_all(mr, 5 * MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        wrong = common_all_by_threads(mr, 5 * MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        wrong = common_hand_over(mr, NULL, NULL, MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        wrong = common_hand_over(mr, cudaStreamPerThread, cudaStreamPerThread, MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        wrong = common_hand_over(mr, streams[0], streams[0], 5 * MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        wrong = common_hand_over(mr, streams[0], streams[1], 5 * MIB);
        cr_assert(wrong == NULL, "%s", wrong);
        expect_equal(info_of(mr).live, 0);
        cuda(cudaStreamDestroy(streams[0]));
        cuda(cudaStreamDestroy(streams[1]));
        crmm_resource_release(&upstreams[i]);
        crmm_resource_release(&mr);
    }
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(info_of(crmm_cuda_memory_resource()).held, 0);
}

/* ---- misuse and the dump ---- */

Test(arena_memory_resource, finds_misuse)
{
    char foreign[256];

    need_devices(1);
    misuse_recorder_start();
    crmm_resource *mr = make(crmm_cuda_memory_resource(), 4 * MIB);
    char *small = take(mr, NULL, 1000);
    char *large = take(mr, NULL, 2 * MIB);
    expect_misuse(crmm_deallocate(mr, NULL, foreign, 1000, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "arena_memory_resource");
    expect_misuse(crmm_deallocate(mr, NULL, small + 256, 256, 256), CRMM_MISUSE_FOREIGN_POINTER,
                  "no block of this pool begins at");
    expect_misuse(crmm_deallocate(mr, NULL, small, 2000, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "is a block of 1024 bytes");
    expect_misuse(crmm_deallocate(mr, NULL, large, 3 * MIB, 256), CRMM_MISUSE_SIZE_MISMATCH,
                  "is a block of 2097152 bytes");
    crmm_deallocate(mr, NULL, small, 1000, 256);
    crmm_deallocate(mr, NULL, large, 2 * MIB, 256);
    expect_misuse(crmm_deallocate(mr, NULL, small, 1000, 256), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back before");
    expect_misuse(crmm_deallocate(mr, NULL, large, 2 * MIB, 256), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back before");
    (void)take(mr, NULL, 1000);
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "arena_memory_resource: released with 1024 bytes alive");
}

typedef struct lines {
    size_t count;
    char text[4096];
} lines;

static void keep_line(crmm_log_level level, const char *message, void *user_data)
{
    lines *kept = user_data;
    size_t length = strlen(kept->text);

    if (level == CRMM_LOG_LEVEL_ERROR && length + strlen(message) + 2 < sizeof(kept->text)) {
        kept->count++;
        (void)strcat(strcat(kept->text, message), "\n");
    }
}

Test(arena_memory_resource, dumps_what_it_holds_if_told_so)
{
    static const char *const parts[] = {
        "arena_memory_resource: ran out of memory for 8388608 bytes\n",
        "arena of 1048576 bytes: 65536 live in 2 blocks, 983040 free, of which ",
        "largest free block ",
        ", fragmentation ",
        " live blocks of up to 32768 bytes: 2, 65536 bytes, 0 pending\n",
        " free blocks of up to ",
    };
    lines kept = {0};
    crmm_resource *mr = NULL;
    void *none = NULL;

    need_devices(1);
    expect_success(crmm_log_set_callback(keep_line, &kept));
    expect_success(crmm_arena_memory_resource_create(
        crmm_cuda_memory_resource(),
        CRMM_OPTIONS(crmm_arena_memory_resource, .arena_size = MIB, .dump_log_on_failure = 1),
        &mr));
    run_four(mr);
    void *ptrs[2] = {take(mr, NULL, 32 * KIB), take(mr, NULL, 32 * KIB)};
    expect_equal(kept.count, 0);
    expect_failure(crmm_allocate(mr, NULL, 8 * MIB, 256, &none), CRMM_ERROR_OUT_OF_MEMORY,
                   "8388608 bytes");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        cr_assert(strstr(kept.text, parts[i]) != NULL, "\"%s\" is not in:\n%s", parts[i],
                  kept.text);
    }
    size_t count = kept.count;
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_CRITICAL));
    expect_status(crmm_allocate_sync(mr, 8 * MIB, 256, &none), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(kept.count, count);
    expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_INFO));
    expect_status(crmm_allocate_sync(mr, 8 * MIB, 256, &none), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(kept.count > count);
    /* Only if there is no memory. */
    count = kept.count;
    expect_status(crmm_allocate(mr, NULL, 1, 3, &none), CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(kept.count, count);
    crmm_deallocate(mr, NULL, ptrs[0], 32 * KIB, 256);
    crmm_deallocate(mr, NULL, ptrs[1], 32 * KIB, 256);
    crmm_resource_release(&mr);

    /* Without the option there is none. */
    mr = make(crmm_cuda_memory_resource(), MIB);
    expect_status(crmm_allocate(mr, NULL, 8 * MIB, 256, &none), CRMM_ERROR_OUT_OF_MEMORY);
    expect_equal(kept.count, count);
    crmm_resource_release(&mr);
    crmm_log_set_stderr();
}
