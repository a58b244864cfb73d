/* SPDX-License-Identifier: Apache-2.0 */
/* The engine, seen from below: the calls it makes are recorded by the linker's --wrap. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include <crmm/core/alignment.h>
#include <crmm/core/misuse.h>
#include <crmm/internal/floor.h>

#include "classes_config.h"
#include "cuda_support.h"
#include "folder.h"
#include "replay.h"

TestSuite(replay, .init = folder_make, .fini = folder_remove);

/* ---- recording ---- */

typedef struct call {
    char what; /* a: allocate, f: free, o: order */
    crmm_stream stream;
    crmm_stream earlier; /* of an order */
    size_t bytes;
    void *ptr;
    pthread_t thread;
} call;

static call calls[64];
static size_t call_count;

static void record(call made)
{
    made.thread = pthread_self();
    cr_assert(call_count < sizeof(calls) / sizeof(calls[0]));
    calls[call_count++] = made;
}

crmm_status __real_crmm_allocate(crmm_resource *, crmm_stream, size_t, size_t, void **);
crmm_status __wrap_crmm_allocate(crmm_resource *, crmm_stream, size_t, size_t, void **);
void __real_crmm_deallocate(crmm_resource *, crmm_stream, void *, size_t, size_t);
void __wrap_crmm_deallocate(crmm_resource *, crmm_stream, void *, size_t, size_t);
crmm_status __real_crmm_priv_cuda_order_streams(crmm_stream, crmm_stream);
crmm_status __wrap_crmm_priv_cuda_order_streams(crmm_stream, crmm_stream);

crmm_status __wrap_crmm_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    crmm_status status = __real_crmm_allocate(resource, stream, bytes, alignment, ptr);

    cr_expect(alignment == CRMM_DEVICE_ALIGNMENT);
    record((call){.what = 'a', .stream = stream, .bytes = bytes, .ptr = *ptr});
    return status;
}

void __wrap_crmm_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    record((call){.what = 'f', .stream = stream, .bytes = bytes, .ptr = ptr});
    __real_crmm_deallocate(resource, stream, ptr, bytes, alignment);
}

crmm_status __wrap_crmm_priv_cuda_order_streams(crmm_stream earlier, crmm_stream later)
{
    record((call){.what = 'o', .stream = later, .earlier = earlier});
    return __real_crmm_priv_cuda_order_streams(earlier, later);
}

/* ---- running ---- */

static replay_result replay(const char *text, const char *through, replay_outcome expected)
{
    trace what;
    spec stack;
    replay_result result;
    problem why = {{0}};

    call_count = 0;
    cr_assert(trace_load(&what, folder_write("t.csv", text), &why), "%s", why.text);
    cr_assert(spec_parse(through, &stack, &why), "%s", why.text);
    replay_outcome outcome = replay_run(&what, &stack, &result, &why);
    cr_assert(outcome == expected, "outcome %d: %s", (int)outcome, why.text);
    cr_expect(crmm_misuse_count() == 0);
    trace_free(&what);
    return result;
}

static void expect_calls(const char *expected)
{
    char got[sizeof(calls) / sizeof(calls[0]) + 1] = "";

    for (size_t i = 0; i < call_count; i++) {
        got[i] = calls[i].what;
    }
    cr_assert_str_eq(got, expected);
}

#define HEADER "time_us,action,id,bytes,stream\n"
#define RMM_HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

/* ---- figures ---- */

Test(replay, figures_follow_the_rows)
{
    static const char text[] = HEADER "0,alloc,0,100,0\n1,alloc,1,50,0\n2,free,0,100,0\n"
                                      "3,alloc,2,60,0\n4,free,1,50,0\n";
    replay_result result = replay(text, "malloc", REPLAY_DONE);

    cr_expect(result.calls == 5);
    cr_expect(result.peak_live == 150);
    cr_expect(result.peak_held == 150);
    cr_expect(result.ns_per_call >= 0);
    cr_expect(result.failure.line == 0);

    /* What a trace leaves allocated is given back, so that the next one starts from nothing. */
    result = replay(HEADER "0,alloc,0,7,0\n", "malloc", REPLAY_DONE);
    cr_expect(result.peak_live == 7 && result.peak_held == 7);
}

Test(replay, an_empty_trace_has_no_calls)
{
    replay_result result = replay(HEADER, "malloc", REPLAY_DONE);

    cr_expect(result.calls == 0 && result.peak_live == 0 && result.peak_held == 0);
    result = replay(RMM_HEADER, "malloc", REPLAY_DONE);
    cr_expect(result.calls == 0);
}

Test(replay, more_than_this_machine_has_may_be_live)
{
    char text[4096] = HEADER;
    size_t length = strlen(text);

    for (int i = 0; i < 48; i++) {
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "0,alloc,%d,1073741824,0\n", i);
    }
    replay_result result = replay(text, "malloc", REPLAY_DONE);
    cr_expect(result.peak_held == (size_t)48 << 30);
}

/* ---- streams and threads ---- */

/* User report 71: the replay honours streams. */
Test(replay, each_stream_of_the_trace_is_one_of_its_own)
{
    need_devices(1);
    replay(HEADER "0,alloc,0,100,1\n1,alloc,1,50,2\n1,alloc,2,8,0\n2,free,0,100,1\n3,free,1,50,2\n"
                  "4,free,2,8,0\n",
           "cuda", REPLAY_DONE);

    expect_calls("aaafff");
    cr_expect(calls[0].stream != NULL && calls[1].stream != NULL);
    cr_expect(calls[0].stream != calls[1].stream);
    cr_expect(calls[2].stream == NULL, "0 is the legacy default stream");
    for (int i = 0; i < 3; i++) {
        cr_expect(calls[i + 3].stream == calls[i].stream && calls[i + 3].ptr == calls[i].ptr);
    }
}

Test(replay, default_streams_of_an_rmm_log_are_those_of_cuda)
{
    need_devices(1);
    replay(RMM_HEADER "1,10:00:00.000001,allocate,0x10,8,0\n1,10:00:00.000001,allocate,0x20,8,0x1\n"
                      "1,10:00:00.000001,allocate,0x30,8,0x2\n"
                      "1,10:00:00.000001,allocate,0x40,8,0x55d0c0ffee10\n",
           "cuda", REPLAY_DONE);

    expect_calls("aaaa");
    cr_expect(calls[0].stream == NULL && calls[1].stream == NULL);
    cr_expect(calls[2].stream == CRMM_STREAM_PER_THREAD);
    cr_expect(calls[3].stream != NULL && calls[3].stream != CRMM_STREAM_PER_THREAD);
}

Test(replay, a_block_in_use_on_another_stream_is_freed_in_order_after_it)
{
    need_devices(1);
    (void)folder_write("t.streams.csv", "time_us,event,id,stream\n1,use,0,2\n1,use,0,0\n");
    replay(HEADER "0,alloc,0,100,1\n1,alloc,1,50,2\n2,free,1,50,2\n3,free,0,100,1\n", "cuda",
           REPLAY_DONE);

    expect_calls("aafoof");
    cr_expect(calls[3].stream == calls[0].stream && calls[3].earlier == calls[1].stream);
    cr_expect(calls[4].stream == calls[0].stream && calls[4].earlier == NULL);
}

Test(replay, a_block_freed_on_another_stream_is_freed_in_order_after_its_own)
{
    need_devices(1);
    replay(RMM_HEADER
           "1,10:00:00.000001,allocate,0x10,8,0x10\n1,10:00:00.000001,allocate,0x20,8,0x20\n"
           "1,10:00:00.000001,free,0x10,8,0x20\n1,10:00:00.000001,free,0x20,8,0x20\n",
           "cuda", REPLAY_DONE);

    expect_calls("aaoff");
    cr_expect(calls[2].earlier == calls[0].stream && calls[2].stream == calls[1].stream);
    cr_expect(calls[3].stream == calls[1].stream);
}

Test(replay, each_thread_of_the_trace_is_one_of_its_own_in_the_order_of_the_rows)
{
    need_devices(1);
    replay(RMM_HEADER "5,10:00:00.000001,allocate,0x10,1,0\n6,10:00:00.000001,allocate,0x20,2,0\n"
                      "5,10:00:00.000001,allocate,0x30,3,0\n7,10:00:00.000001,allocate,0x40,4,0\n"
                      "6,10:00:00.000001,allocate,0x50,5,0\n6,10:00:00.000001,free,0x10,1,0\n",
           "cuda", REPLAY_DONE);

    expect_calls("aaaaaf");
    for (size_t i = 0; i < 5; i++) {
        cr_expect(calls[i].bytes == i + 1);
    }
    cr_expect(pthread_equal(calls[0].thread, calls[2].thread));
    cr_expect(pthread_equal(calls[1].thread, calls[4].thread));
    cr_expect(pthread_equal(calls[1].thread, calls[5].thread));
    cr_expect(!pthread_equal(calls[0].thread, calls[1].thread));
    cr_expect(!pthread_equal(calls[0].thread, calls[3].thread));
    cr_expect(!pthread_equal(calls[1].thread, calls[3].thread));
    cr_expect(calls[5].ptr == calls[0].ptr);
}

Test(replay, many_threads_take_their_turns)
{
    static char text[64 * 1024] = RMM_HEADER;
    size_t length = strlen(text);

    for (unsigned i = 0; i < 500; i++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length,
                                   "%u,10:00:00.000001,allocate,0x%x,10,0\n", i * i % 37, i + 1);
    }
    replay_result result = replay(text, "malloc", REPLAY_DONE);
    cr_expect(result.calls == 500 && result.peak_live == 5000 && result.peak_held == 5000);
}

/* ---- failures ---- */

#if HAVE_ADAPTOR_LIMITING

/* User report 71: the failing row was not named. */
Test(replay, a_failing_row_is_named_with_the_resource_s_own_report)
{
    replay_result result =
        replay(HEADER "0,alloc,0,512,1\n1,alloc,1,1024,2\n2,free,0,512,1\n",
               "limiting:allocation_limit=1KiB+malloc", REPLAY_ALLOCATION_FAILED);

    cr_expect(result.failure.line == 3);
    cr_expect(result.failure.bytes == 1024);
    cr_expect(result.failure.stream == 2);
    cr_expect(result.status == CRMM_ERROR_LIMIT_EXCEEDED);
    cr_expect(result.failure.error.status == CRMM_ERROR_LIMIT_EXCEEDED);
    cr_expect(strstr(result.failure.description, "limiting_resource_adaptor") != NULL);
    cr_expect(result.failure.has_info && result.failure.info.live == 512);
    cr_expect(result.calls == 2 && result.peak_live == 512 && result.peak_held == 512);
}

Test(replay, a_failing_row_ends_all_threads)
{
    replay_result result = replay(
        RMM_HEADER "1,10:00:00.000001,allocate,0x10,8,0\n2,10:00:00.000001,allocate,0x20,8,0\n"
                   "3,10:00:00.000001,allocate,0x30,4096,0\n"
                   "1,10:00:00.000001,free,0x10,8,0\n2,10:00:00.000001,free,0x20,8,0\n",
        "limiting:allocation_limit=1KiB+malloc", REPLAY_ALLOCATION_FAILED);

    cr_expect(result.failure.line == 4);
    /* The record is of the thread that failed, which is not this one. */
    cr_expect(strstr(result.failure.error.message, "4096") != NULL);
}

/* User report 71: rows of failures were skipped. */
Test(replay, a_recorded_failure_is_an_attempt)
{
    static const char text[] = RMM_HEADER "1,10:00:00.000001,allocate,0x10,512,0\n"
                                          "1,10:00:00.000001,allocate failure,(nil),1024,0x10\n"
                                          "1,10:00:00.000001,free,0x10,512,0\n";
    replay_result result = replay(text, "malloc", REPLAY_DONE);

    cr_expect(result.calls == 3);
    cr_expect(result.peak_live == 512, "the program never had it");
    cr_expect(result.peak_held == 512 + 1024, "the resource had to give it");

    result = replay(text, "limiting:allocation_limit=1KiB+malloc", REPLAY_ALLOCATION_FAILED);
    cr_expect(result.failure.line == 3);
}

Test(replay, a_stack_that_cannot_be_created_is_refused)
{
    replay_result result =
        replay(HEADER, "limiting:allocation_limit=1,alignment=3+malloc", REPLAY_REFUSED);

    cr_expect(result.status == CRMM_ERROR_INVALID_ARGUMENT);
}

#endif
