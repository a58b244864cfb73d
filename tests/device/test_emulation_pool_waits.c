/* SPDX-License-Identifier: Apache-2.0 */

/* What a pool waits for on the CPU, and what it can have without. */

#include <crmm/device/pool_memory_resource.h>

#include <pthread.h>
#include <time.h>

#include <cudart_emulated.h>

#include <crmm/core/alignment.h>
#include <crmm/device/callback_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"

/* A pool of 24 MiB in one chunk, on one stream: a small live block, 8 MiB, a live block, 1.5 MiB.
 */
enum { PARTS = 4 };
static const size_t parts[PARTS] = {2 * MIB + 256, 8 * MIB, 12 * MIB + 512 * KIB - 256,
                                    MIB + 512 * KIB};

/* What is cut off an old block is as old as it was: newer work does not keep it. */
Test(emulation_pool_waits, the_rest_of_an_old_block_is_there_before_newer_work_is_done,
     .timeout = 20)
{
    cudaStream_t stream = make_stream();
    void *blocks[PARTS];
    void *aligned = NULL;
    void *ptr = NULL;
    gate never; /* until the allocation has returned */

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 24 * MIB,
                                    .maximum_pool_size = 24 * MIB);
    for (size_t i = 0; i < PARTS; i++) {
        blocks[i] = take(pool, stream, parts[i]);
    }
    crmm_deallocate(pool, stream, blocks[1], parts[1], 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
    gate_close(&never, stream);
    crmm_deallocate(pool, stream, blocks[3], parts[3], 256);
    expect_success(crmm_pool_memory_resource_retire_stream(pool, stream));
    /* It has to skip a little, so that the rest is cut off before it and behind it. */
    expect_success(crmm_allocate(pool, stream, 2 * MIB, 4 * KIB, &aligned));
    cr_assert((char *)aligned > (char *)blocks[1] && (char *)aligned < (char *)blocks[2]);
    expect_success(crmm_allocate_sync(pool, 5 * MIB, 256, &ptr));
    cr_assert(cudaStreamQuery(stream) == cudaErrorNotReady, "it waited for newer work");
    expect_equal(statistics_of(pool).synchronizes, 0);
    gate_open(&never);
    crmm_deallocate_sync(pool, ptr, 5 * MIB, 256);
    crmm_deallocate(pool, stream, aligned, 2 * MIB, 4 * KIB);
    crmm_deallocate(pool, stream, blocks[0], parts[0], 256);
    crmm_deallocate(pool, stream, blocks[2], parts[2], 256);
    cuda(cudaStreamDestroy(stream));
    crmm_resource_release(&pool);
    expect_equal(cudart_emulated_violations(), 0);
}

/* Two blocks that would do, each held up on its stream; the one with the earlier fence is let go.
 */
static void expect_earlier(size_t lower_bytes, size_t upper_bytes, bool is_lower_earlier)
{
    const size_t bytes[2] = {lower_bytes, upper_bytes};
    size_t earlier = is_lower_earlier ? 0 : 1;
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    void *blocks[2];
    void *ptr = NULL;
    gate gates[2];

    crmm_resource *pool = make_pool(crmm_cuda_memory_resource(), .initial_pool_size = 24 * MIB,
                                    .maximum_pool_size = 24 * MIB);
    cudart_emulated_set_option("host_threads", 1); /* two gates are closed at a time */
    for (size_t i = 0; i < 2; i++) {
        blocks[i] = take(pool, streams[i], bytes[i]);
        gate_close(&gates[i], streams[i]);
    }
    void *rest = take(pool, streams[0], 24 * MIB - lower_bytes - upper_bytes);
    for (size_t i = 0; i < 2; i++) {
        size_t k = i == 0 ? earlier : 1 - earlier;
        crmm_deallocate(pool, streams[k], blocks[k], bytes[k], 256);
        expect_success(crmm_pool_memory_resource_retire_stream(pool, streams[k]));
    }
    pthread_t opener = gate_open_later(&gates[earlier]);
    expect_success(crmm_allocate_sync(pool, 6 * MIB, 256, &ptr));
    cr_assert(ptr == blocks[earlier]);
    cr_assert(cudaStreamQuery(streams[1 - earlier]) == cudaErrorNotReady);
    expect_equal(statistics_of(pool).synchronizes, 1);
    gate_open(&gates[1 - earlier]);
    cr_assert(pthread_join(opener, NULL) == 0);
    crmm_deallocate_sync(pool, ptr, 6 * MIB, 256);
    crmm_deallocate(pool, streams[0], rest, 24 * MIB - lower_bytes - upper_bytes, 256);
    crmm_resource_release(&pool);
    for (size_t i = 0; i < 2; i++) {
        cuda(cudaStreamDestroy(streams[i]));
    }
    expect_equal(cudart_emulated_violations(), 0);
}

/* User report 20: what is let go of first serves, wherever it lies. */
Test(emulation_pool_waits, the_earlier_of_two_fences_is_waited_for, .timeout = 20)
{
    expect_earlier(8 * MIB, 8 * MIB, true);
    expect_earlier(8 * MIB, 8 * MIB, false);
}

/* And however well it fits. */
Test(emulation_pool_waits, the_earlier_of_two_fences_is_waited_for_though_the_other_fits_better,
     .timeout = 20)
{
    expect_earlier(8 * MIB, 6 * MIB, true);
    expect_earlier(6 * MIB, 8 * MIB, false);
}

/* ---- a thread that comes while another waits ---- */

typedef struct meeting {
    crmm_resource *pool;
    cudaStream_t stream;
    bool goes_on; /* with every attempt to grow, and not only once */
    size_t count;
} meeting;

static struct timespec moment = {.tv_nsec = 5000000};
static struct timespec while_it_asks = {.tv_nsec = 100000000};

/* Work that takes some time. */
static void nap(void *user_data)
{
    (void)nanosleep(user_data, NULL);
}

static void *use_once(void *user_data)
{
    meeting *at = user_data;

    void *ptr = take(at->pool, at->stream, 2 * MIB);
    cuda(cudaLaunchHostFunc(at->stream, nap, &moment));
    crmm_deallocate(at->pool, at->stream, ptr, 2 * MIB, 256);
    expect_success(crmm_pool_memory_resource_retire_stream(at->pool, at->stream));
    return NULL;
}

/* Gives 4 MiB and no more; when the pool has waited, another thread uses it. */
static crmm_status give_little(crmm_stream stream, size_t bytes, size_t alignment, void **ptr,
                               void *user_data)
{
    meeting *at = user_data;
    pthread_t other;

    if (bytes <= 4 * MIB) {
        return crmm_allocate(crmm_cuda_memory_resource(), stream, bytes, alignment, ptr);
    }
    if ((at->goes_on || at->count == 0) && statistics_of(at->pool).synchronizes > 0) {
        at->count++;
        cr_assert(pthread_create(&other, NULL, use_once, at) == 0);
        cr_assert(pthread_join(other, NULL) == 0);
    }
    return CRMM_ERROR_OUT_OF_MEMORY;
}

static void take_back(crmm_stream stream, void *ptr, size_t bytes, size_t alignment,
                      void *user_data)
{
    (void)user_data;
    crmm_deallocate(crmm_cuda_memory_resource(), stream, ptr, bytes, alignment);
}

/* 64 MiB of a pool that has 4 MiB and gets no more, for a stream. */
static void ask_for_much(cudaStream_t stream, meeting at)
{
    const crmm_callbacks callbacks = {.struct_size = sizeof(callbacks),
                                      .properties =
                                          crmm_resource_properties(crmm_cuda_memory_resource()),
                                      .allocate = give_little,
                                      .deallocate = take_back};
    crmm_resource *upstream = NULL;
    void *ptr = NULL;

    expect_success(crmm_callback_memory_resource_create(&callbacks, &at, &upstream));
    at.pool = make_pool(upstream, .handle_size = 4 * MIB);
    void *kept = take(at.pool, at.stream, 1000); /* so that the chunk does not go */
    void *block = take(at.pool, at.stream, 3 * MIB);
    cuda(cudaLaunchHostFunc(at.stream, nap, &while_it_asks));
    crmm_deallocate(at.pool, at.stream, block, 3 * MIB, 256);
    expect_status(crmm_allocate(at.pool, stream, 64 * MIB, 256, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    cr_assert(at.count > 0);
    crmm_deallocate(at.pool, at.stream, kept, 1000, 256);
    expect_sound_books(at.pool);
    crmm_resource_release(&at.pool);
    crmm_resource_release(&upstream);
    expect_equal(cudart_emulated_violations(), 0);
}

/* The pool has one stream all the time, and its memory is kept as that stream's own. */
Test(emulation_pool_waits, a_request_fails_though_another_thread_begins_to_use_the_stream,
     .timeout = 20)
{
    cudaStream_t stream = make_stream();

    ask_for_much(stream, (meeting){.stream = stream});
    cuda(cudaStreamDestroy(stream));
}

/* There is always something more to wait for, and never enough. */
Test(emulation_pool_waits, a_request_fails_though_others_go_on, .timeout = 20)
{
    cudaStream_t stream = make_stream();
    cudaStream_t other = make_stream();

    ask_for_much(stream, (meeting){.stream = other, .goes_on = true});
    cuda(cudaStreamDestroy(stream));
    cuda(cudaStreamDestroy(other));
}
