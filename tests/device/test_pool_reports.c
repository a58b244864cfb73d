/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool tells, and that telling it changes nothing. */
#include <crmm/device/pool_memory_resource.h>

#include <pthread.h>
#include <stdlib.h>

#include <crmm/core/log.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "misuse_recorder.h"
#include "pool_support.h"
#include "random_numbers.h"
#include "recording_resource.h"

enum { ORDERED = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED };

/* ---- user report 66: adding a message to a failure changed when a pool grows ---- */

enum { OPERATIONS = 1500, MOST_BLOCKS = 40, MOST_EVENTS = 20000 };

typedef struct trace {
    size_t count;
    struct {
        size_t bytes; /* of a chunk that came or went, or of a request */
        int what;     /* 0 and 1: it went or came; else the request's status */
    } events[MOST_EVENTS];
} trace;

static void add_event(trace *all, size_t bytes, int what)
{
    cr_assert(all->count < MOST_EVENTS);
    all->events[all->count].bytes = bytes;
    all->events[all->count++].what = what;
}

static void note_chunk(void *base, size_t bytes, bool added, void *user_data)
{
    (void)base;
    add_event(user_data, bytes, added);
}

static void ignore_block(const crmm_pool_block *block, void *user_data)
{
    (void)user_data;
    cr_assert(block->bytes > 0);
}

static void ignore_message(crmm_log_level level, const char *message, void *user_data)
{
    (void)level;
    (void)user_data;
    cr_assert(message != NULL);
}

/* All that a pool can be asked. */
static void ask_everything(const crmm_resource *pool)
{
    char text[300];

    (void)info_of(pool);
    (void)statistics_of(pool);
    (void)crmm_resource_describe(pool, text, sizeof(text));
    expect_success(crmm_pool_memory_resource_snapshot(pool, ignore_block, NULL));
    cr_assert(crmm_last_error()->message[0] != '\0' || crmm_last_error()->status == CRMM_SUCCESS);
}

/* The same program, and what came of it; nothing is pending between two calls, so that it does not
 * depend on the device either. */
static void run(crmm_resource *pool, bool is_asked, trace *all)
{
    struct {
        void *ptr;
        size_t bytes;
        cudaStream_t stream;
    } blocks[MOST_BLOCKS];
    cudaStream_t streams[2] = {make_stream(), make_stream()};
    size_t count = 0;
    uint64_t seed = 5;

    for (int i = 0; i < OPERATIONS; i++) {
        cudaStream_t stream = streams[random_below(&seed, 2)];
        if (count < MOST_BLOCKS && random_below(&seed, 5) < 3) {
            size_t bytes = 1 + random_below(&seed, (size_t)1 << (12 + random_below(&seed, 12)));
            void *ptr = NULL;
            crmm_status status = crmm_allocate(pool, stream, bytes, 256, &ptr);
            add_event(all, bytes, 100 + (int)status);
            if (status == CRMM_SUCCESS) {
                blocks[count].ptr = ptr;
                blocks[count].bytes = bytes;
                blocks[count++].stream = stream;
            }
        } else if (count > 0) {
            size_t at = random_below(&seed, count);
            crmm_deallocate(pool, blocks[at].stream, blocks[at].ptr, blocks[at].bytes, 256);
            blocks[at] = blocks[--count];
        }
        cuda(cudaDeviceSynchronize());
        if (is_asked) {
            ask_everything(pool);
        }
    }
    while (count > 0) {
        count--;
        crmm_deallocate(pool, blocks[count].stream, blocks[count].ptr, blocks[count].bytes, 256);
    }
    cuda(cudaStreamDestroy(streams[0]));
    cuda(cudaStreamDestroy(streams[1]));
}

static void trace_program(crmm_resource *upstream, size_t style, bool is_asked, trace *all)
{
    static const size_t maxima[] = {24 * MIB, 0, 40 * MIB};

    crmm_resource *pool =
        make_pool(upstream, .maximum_pool_size = maxima[style % 3], .tight = style / 3,
                  .handle_size = 2 * MIB, .on_chunk = note_chunk, .on_chunk_user_data = all);
    all->count = 0;
    run(pool, is_asked, all);
    const crmm_pool_statistics statistics = statistics_of(pool);
    add_event(all, statistics.growths, 2);
    add_event(all, statistics.moves, 3);
    add_event(all, statistics.releases, 4);
    add_event(all, statistics.records, 5);
    add_event(all, statistics.waits, 6);
    add_event(all, statistics.synchronizes, 7);
    crmm_resource_release(&pool);
}

Test(pool_reports, being_asked_changes_nothing_that_a_pool_does)
{
    crmm_resource *vmm = make_vmm();
    crmm_resource *upstreams[] = {vmm, crmm_cuda_memory_resource()};
    trace *silent = malloc(sizeof(*silent));
    trace *asked = malloc(sizeof(*asked));
    size_t failures = 0;

    cr_assert(silent != NULL && asked != NULL);
    for (size_t style = 0; style < 6; style++) {
        for (size_t i = 0; i < 2; i++) {
            trace_program(upstreams[i], style, false, silent);
            expect_success(crmm_log_set_callback(ignore_message, NULL));
            expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_TRACE));
            trace_program(upstreams[i], style, true, asked);
            crmm_log_set_stderr();
            expect_success(crmm_log_set_level(CRMM_LOG_LEVEL_INFO));
            for (size_t k = 0; k < silent->count && k < asked->count; k++) {
                cr_assert(silent->events[k].what == asked->events[k].what &&
                              silent->events[k].bytes == asked->events[k].bytes,
                          "style %zu, upstream %zu: event %zu is %d of %zu bytes instead of %d of "
                          "%zu",
                          style, i, k, asked->events[k].what, asked->events[k].bytes,
                          silent->events[k].what, silent->events[k].bytes);
                failures += silent->events[k].what > 100;
            }
            expect_equal(asked->count, silent->count);
        }
    }
    cr_assert(failures > 0, "no request failed");
    free(silent);
    free(asked);
    crmm_resource_release(&vmm);
}
