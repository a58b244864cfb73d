/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/tracking_resource_adaptor.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <crmm/core/log.h>
#include <crmm/internal/log.h>

#include "constant_resource.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make_with(mock_resource *upstream,
                                const crmm_tracking_resource_adaptor_options *options)
{
    crmm_resource *made = NULL;
    mock_resource_init(upstream, ALL);
    expect_success(crmm_tracking_resource_adaptor_create(&upstream->base, options, &made));
    return made;
}

static crmm_resource *make(mock_resource *upstream)
{
    return make_with(upstream, NULL);
}

static void *allocate(crmm_resource *mr, size_t bytes)
{
    void *ptr = NULL;
    expect_success(crmm_allocate(mr, NULL, bytes, 16, &ptr));
    return ptr;
}

static void deallocate(crmm_resource *mr, void *ptr, size_t bytes)
{
    crmm_deallocate(mr, NULL, ptr, bytes, 16);
}

#define expect_outstanding(mr, count_, bytes_)                                      \
    do {                                                                            \
        expect_equal(crmm_tracking_resource_adaptor_outstanding_count(mr), count_); \
        expect_equal(crmm_tracking_resource_adaptor_allocated_bytes(mr), bytes_);   \
    } while (0)

typedef struct visited {
    size_t count;
    crmm_tracked_allocation seen[32];
    crmm_resource *free_with; /* not NULL: give everything back while it is visited */
} visited;

static void visit(const crmm_tracked_allocation *allocation, void *user_data)
{
    visited *into = user_data;

    cr_assert(into->count < 32);
    expect_equal(allocation->struct_size, sizeof(*allocation));
    into->seen[into->count++] = *allocation;
    if (into->free_with != NULL) {
        crmm_deallocate_ptr(into->free_with, NULL, (void *)(uintptr_t)allocation->ptr);
    }
}

Test(tracking_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[128];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_tracking_resource_adaptor_create(&upstream.base, NULL, &mr));
    expect_text(crmm_resource_name(mr), "tracking_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    size_t length = crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "tracking_resource_adaptor (allocated 0, outstanding 0) over mock_resource");
    expect_equal(crmm_resource_describe(mr, NULL, 0), length);
    expect_equal(crmm_resource_describe(mr, text, 9), length);
    expect_text(text, "tracking");
    crmm_resource_release(&mr);
}

/* User report 40: a block outlives its maker's own reference where its holder has one. User report
 * 56: five deep, released from the inside outwards. */
Test(tracking_resource_adaptor, holds_its_upstream)
{
    enum { DEPTH = 5 };
    mock_resource upstream;
    bool destroyed = false;
    crmm_resource *stack[DEPTH + 1];

    mock_resource_init(&upstream, ALL);
    upstream.destroyed = &destroyed;
    stack[0] = &upstream.base;
    for (int i = 0; i < DEPTH; i++) {
        expect_success(crmm_tracking_resource_adaptor_create(stack[i], NULL, &stack[i + 1]));
    }
    void *ptr = allocate(stack[DEPTH], 100);
    for (int i = 0; i < DEPTH; i++) {
        crmm_resource_release(&stack[i]);
    }
    expect_outstanding(stack[DEPTH], 1, 100);
    misuse_recorder_start();
    deallocate(stack[DEPTH], ptr, 100);
    cr_assert(!destroyed);
    crmm_resource_release(&stack[DEPTH]);
    cr_assert(destroyed);
    expect_equal(misuse_recorded()->count, 0);
}

/* The counts of RMM's own tests. */
Test(tracking_resource_adaptor, counts_what_is_outstanding)
{
    enum { BLOCK = 10 << 10, BLOCKS = 10, MORE = 5 };
    mock_resource upstream;
    void *blocks[BLOCKS + MORE];
    crmm_resource *inner = make(&upstream);
    crmm_resource *outer = NULL;

    expect_success(crmm_tracking_resource_adaptor_create(inner, NULL, &outer));
    expect_outstanding(outer, 0, 0);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(outer, BLOCK);
    }
    for (int i = 0; i < MORE; i++) {
        blocks[BLOCKS + i] = allocate(inner, BLOCK);
    }
    expect_outstanding(outer, 10, 10 * BLOCK);
    expect_outstanding(inner, 15, 15 * BLOCK);
    for (int i = 0; i < BLOCKS; i += 2) {
        deallocate(outer, blocks[i], BLOCK);
    }
    expect_outstanding(outer, 5, 5 * BLOCK);
    expect_outstanding(inner, 10, 10 * BLOCK);
    for (int i = 1; i < BLOCKS; i += 2) {
        deallocate(outer, blocks[i], BLOCK);
    }
    for (int i = 0; i < MORE; i++) {
        deallocate(inner, blocks[BLOCKS + i], BLOCK);
    }
    expect_outstanding(outer, 0, 0);
    expect_outstanding(inner, 0, 0);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&outer);
    crmm_resource_release(&inner);
}

/* User reports 51 and 52: the upstream gets just what was asked, and back just what it gave. */
Test(tracking_resource_adaptor, passes_requests_on_unchanged)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = NULL;

    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 5001, 64, &a));
    expect_equal(upstream.last_allocate.bytes, 5001);
    expect_equal(upstream.last_allocate.alignment, 64);
    cr_assert(upstream.last_allocate.stream == (crmm_stream)(uintptr_t)0x40);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x50, a, 5001, 64);
    expect_equal(upstream.last_deallocate.bytes, 5001);
    expect_equal(upstream.last_deallocate.alignment, 64);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    cr_assert(!upstream.last_deallocate.sync);

    expect_success(crmm_allocate_sync(mr, 7, 4096, &a));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate_sync(mr, a, 7, 4096);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(upstream.last_deallocate.alignment, 4096);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, zero_bytes_are_not_tracked)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *ptr = &mr;

    expect_success(crmm_allocate(mr, NULL, 0, 16, &ptr));
    cr_assert(ptr == NULL);
    deallocate(mr, ptr, 0);
    crmm_deallocate_ptr(mr, NULL, NULL);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

/* User reports 53, 55 and 60: whatever fails, nothing is outstanding afterwards. */
Test(tracking_resource_adaptor, what_fails_is_not_tracked)
{
    mock_resource upstream;
    crmm_resource *mr =
        make_with(&upstream, CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = 1));
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(mr, NULL, 8, 3, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    cr_assert(ptr == &mr);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

/* ---- misuse ---- */

/* User report 54: an unknown pointer changes no counter, and is reported once. */
Test(tracking_resource_adaptor, finds_what_it_did_not_hand_out)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    char block[64];
    void *held = allocate(mr, 100);
    void *foreign = allocate(&upstream.base, 64);

    misuse_recorder_start();
    expect_misuse(deallocate(mr, block, 64), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here, or was given back before");
    cr_assert(misuse_recorded()->latest.ptr == block);
    expect_equal(misuse_recorded()->latest.bytes, 64);
    expect_text(misuse_recorded()->resource_name, "tracking_resource_adaptor");
    expect_misuse(crmm_deallocate_sync(mr, foreign, 64, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_misuse(crmm_deallocate_ptr(mr, NULL, foreign), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_outstanding(mr, 1, 100);
    expect_equal(upstream.deallocations, 0);
    deallocate(&upstream.base, foreign, 64);
    deallocate(mr, held, 100);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, finds_wrong_sizes_and_alignments)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *ptr = allocate(mr, 100);

    misuse_recorder_start();
    expect_misuse(deallocate(mr, ptr, 50), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 100 bytes and given back with 50");
    expect_misuse(deallocate(mr, ptr, SIZE_MAX), CRMM_MISUSE_SIZE_MISMATCH,
                  "given back with 18446744073709551615");
    expect_misuse(crmm_deallocate(mr, NULL, ptr, 100, 32), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                  "was allocated with alignment 16 and given back with alignment 32");
    expect_misuse(crmm_deallocate_sync(mr, ptr, 101, 16), CRMM_MISUSE_SIZE_MISMATCH,
                  "given back with 101");
    expect_outstanding(mr, 1, 100);
    expect_equal(upstream.deallocations, 0); /* left alone */
    deallocate(mr, ptr, 100);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, finds_double_frees)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = allocate(mr, 100);
    void *b = allocate(mr, 200);

    misuse_recorder_start();
    deallocate(mr, a, 100);
    expect_misuse(deallocate(mr, a, 100), CRMM_MISUSE_DOUBLE_FREE, "was given back twice");
    expect_misuse(crmm_deallocate_ptr(mr, NULL, a), CRMM_MISUSE_DOUBLE_FREE, "given back twice");
    deallocate(mr, b, 200);
    expect_misuse(deallocate(mr, a, 100), CRMM_MISUSE_DOUBLE_FREE, "was given back twice");
    expect_misuse(crmm_deallocate_sync(mr, b, 200, 16), CRMM_MISUSE_DOUBLE_FREE,
                  "given back twice");
    expect_equal(upstream.deallocations, 2);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, finds_what_was_given_back_past_it)
{
    struct crmm_resource upstream;
    crmm_resource *mr = NULL;
    void *ptr = NULL;

    constant_resource_init(&upstream);
    expect_success(crmm_tracking_resource_adaptor_create(
        &upstream, CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = 1), &mr));
    expect_success(crmm_allocate_sync(mr, 10, 16, &ptr));
    crmm_deallocate_sync(&upstream, ptr, 10, 16);
    misuse_recorder_start();
    expect_misuse(expect_success(crmm_allocate_sync(mr, 20, 16, &ptr)), CRMM_MISUSE_FOREIGN_POINTER,
                  "(10 bytes) was given back past the adaptor: its address is handed out again");
    expect_outstanding(mr, 1, 20); /* the new one only */
    crmm_deallocate_sync(mr, ptr, 20, 16);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

/* ---- misuse across threads ---- */

/* One call, to be made by another thread than this. */
typedef struct call {
    crmm_resource *mr;
    void *ptr; /* to be given back; NULL: allocate, and store it here */
    size_t bytes;
} call;

static void *make_call(void *user_data)
{
    call *made = user_data;

    if (made->ptr != NULL) {
        crmm_deallocate_sync(made->mr, made->ptr, made->bytes, 16);
    } else {
        expect_success(crmm_allocate_sync(made->mr, made->bytes, 16, &made->ptr));
    }
    return NULL;
}

static void *by_another_thread(crmm_resource *mr, void *ptr, size_t bytes)
{
    call made = {.mr = mr, .ptr = ptr, .bytes = bytes};
    pthread_t thread;

    expect_equal(pthread_create(&thread, NULL, make_call, &made), 0);
    expect_equal(pthread_join(thread, NULL), 0);
    return made.ptr;
}

Test(tracking_resource_adaptor, finds_misuse_of_what_another_thread_allocated_or_gave_back)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = by_another_thread(mr, NULL, 100);
    void *b = allocate(mr, 200);
    char block[16];

    misuse_recorder_start();
    expect_outstanding(mr, 2, 300);
    expect_misuse(deallocate(mr, a, 99), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 100 bytes and given back with 99");
    expect_misuse(by_another_thread(mr, b, 100), CRMM_MISUSE_SIZE_MISMATCH,
                  "was allocated with 200 bytes and given back with 100");
    expect_misuse(by_another_thread(mr, block, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    deallocate(mr, a, 100);
    expect_outstanding(mr, 1, 200);
    expect_misuse(by_another_thread(mr, a, 100), CRMM_MISUSE_DOUBLE_FREE, "was given back twice");
    (void)by_another_thread(mr, b, 200);
    expect_misuse(deallocate(mr, b, 200), CRMM_MISUSE_DOUBLE_FREE, "was given back twice");
    expect_outstanding(mr, 0, 0);
    expect_equal(upstream.deallocations, 2);
    crmm_resource_release(&mr);
}

/* The address comes back to another thread than the one whose block was given back past it. */
Test(tracking_resource_adaptor, finds_at_once_what_was_given_back_past_it_by_another_thread)
{
    struct crmm_resource upstream;
    crmm_resource *mr = NULL;
    visited found = {0};

    constant_resource_init(&upstream);
    expect_success(crmm_tracking_resource_adaptor_create(&upstream, NULL, &mr));
    void *ptr = by_another_thread(mr, NULL, 10);
    misuse_recorder_start();
    expect_misuse(expect_success(crmm_allocate_sync(mr, 20, 16, &ptr)), CRMM_MISUSE_FOREIGN_POINTER,
                  "(10 bytes) was given back past the adaptor: its address is handed out again");
    expect_misuse(by_another_thread(mr, NULL, 30), CRMM_MISUSE_FOREIGN_POINTER,
                  "(20 bytes) was given back past the adaptor");
    expect_outstanding(mr, 1, 30);
    expect_success(crmm_tracking_resource_adaptor_visit(mr, visit, &found));
    expect_equal(found.count, 1);
    cr_assert(found.seen[0].thread != (uint64_t)syscall(SYS_gettid));
    crmm_deallocate_sync(mr, ptr, 30, 16);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

/* More threads than it tells apart, none of them there any more. */
Test(tracking_resource_adaptor, remembers_what_threads_leave_behind)
{
    enum { THREADS = 300 };
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    static void *blocks[THREADS];
    size_t bytes = 0;

    misuse_recorder_start();
    for (size_t i = 0; i < THREADS; i++) {
        blocks[i] = by_another_thread(mr, NULL, i + 1);
        bytes += i + 1;
    }
    expect_outstanding(mr, THREADS, bytes);
    for (size_t i = 0; i < THREADS; i++) {
        (void)by_another_thread(mr, blocks[i], i + 1);
    }
    expect_outstanding(mr, 0, 0);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* By address alone: the upstream gets back what it gave all the same. */
Test(tracking_resource_adaptor, gives_back_by_address_alone)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *ptr = NULL;

    expect_success(crmm_allocate(mr, NULL, 100, 64, &ptr));
    crmm_deallocate_ptr(mr, (crmm_stream)(uintptr_t)0x50, ptr);
    cr_assert(upstream.last_deallocate.ptr == ptr);
    expect_equal(upstream.last_deallocate.bytes, 100);
    expect_equal(upstream.last_deallocate.alignment, 64);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    expect_outstanding(mr, 0, 0);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, over_a_sync_only_resource_is_sync_only)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    void *ptr = &mr;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_tracking_resource_adaptor_create(&upstream.base, NULL, &mr));
    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "tracking_resource_adaptor is not stream-ordered");
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    misuse_recorder_start();
    expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_PROPERTY,
                  "tracking_resource_adaptor is not stream-ordered");
    expect_outstanding(mr, 1, 8);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    crmm_resource_release(&mr);
}

/* ---- what is known of an allocation ---- */

/* Nanoseconds by the clock that the adaptor reads; time(NULL) may be some milliseconds behind. */
static uint64_t now(void)
{
    struct timespec at;

    cr_assert(clock_gettime(CLOCK_REALTIME, &at) == 0);
    return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

Test(tracking_resource_adaptor, tells_who_allocated_when_and_under_which_label)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    const char *previous = "none";
    visited found = {0};
    char name[] = "solver";
    void *ptr = NULL;
    uint64_t before = now();

    expect_success(crmm_tracking_resource_adaptor_set_label(name, &previous));
    cr_assert(previous == NULL);
    name[0] = '\0'; /* it was copied */
    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 100, 64, &ptr));
    expect_success(crmm_tracking_resource_adaptor_set_label("inner", &previous));
    expect_text(previous, "solver");
    expect_success(crmm_tracking_resource_adaptor_set_label(previous, &previous));
    expect_text(previous, "inner");
    expect_success(crmm_tracking_resource_adaptor_visit(mr, visit, &found));
    expect_equal(found.count, 1);
    cr_assert(found.seen[0].ptr == ptr);
    expect_equal(found.seen[0].bytes, 100);
    expect_equal(found.seen[0].alignment, 64);
    cr_assert(found.seen[0].stream == (crmm_stream)(uintptr_t)0x40);
    expect_equal(found.seen[0].thread, syscall(SYS_gettid));
    cr_assert(found.seen[0].time >= before && found.seen[0].time <= now());
    expect_text(found.seen[0].label, "solver");
    cr_assert(found.seen[0].stack == NULL);
    expect_equal(found.seen[0].stack_length, 0);
    crmm_deallocate(mr, NULL, ptr, 100, 64);

    expect_success(crmm_tracking_resource_adaptor_set_label(NULL, NULL));
    expect_success(crmm_allocate_sync(mr, 10, 16, &ptr));
    found.count = 0;
    expect_success(crmm_tracking_resource_adaptor_visit(mr, visit, &found));
    cr_assert(found.seen[0].label == NULL);
    cr_assert(found.seen[0].stream == NULL);
    crmm_deallocate_sync(mr, ptr, 10, 16);
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, writes_one_line_an_allocation_in_the_addresses_order)
{
    enum { BLOCKS = 20 };
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *blocks[BLOCKS];
    char text[8192];
    char part[128];
    size_t lines = 0;
    uintptr_t latest = 0;

    expect_equal(crmm_tracking_resource_adaptor_outstanding_text(mr, text, sizeof(text)), 0);
    expect_text(text, "");
    expect_success(crmm_tracking_resource_adaptor_set_label("weights", NULL));
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(mr, 100 + i);
    }
    size_t length = crmm_tracking_resource_adaptor_outstanding_text(mr, text, sizeof(text));
    expect_equal(length, strlen(text));
    for (char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        uintptr_t address = (uintptr_t)strtoull(line, NULL, 16);
        cr_assert(address > latest);
        latest = address;
        lines++;
    }
    expect_equal(lines, BLOCKS);
    (void)snprintf(part, sizeof(part), "%p: 107 B, alignment 16, stream 0x0, thread %ld, ",
                   blocks[7], (long)syscall(SYS_gettid));
    cr_assert(strstr(text, part) != NULL, "%s", text);
    cr_assert(strstr(text, "Z, label weights\n") != NULL, "%s", text);

    expect_equal(crmm_tracking_resource_adaptor_outstanding_text(mr, NULL, 0), length);
    expect_equal(crmm_tracking_resource_adaptor_outstanding_text(mr, part, 3), length);
    expect_text(part, "0x");
    for (size_t i = 0; i < BLOCKS; i++) {
        deallocate(mr, blocks[i], 100 + i);
    }
    crmm_resource_release(&mr);
}

Test(tracking_resource_adaptor, remembers_stacks_on_request)
{
    mock_resource upstream;
    crmm_resource *mr =
        make_with(&upstream, CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = 1));
    visited found = {0};
    char text[8192];

    void *ptr = allocate(mr, 100);
    void *other = allocate(mr, 200);
    expect_success(crmm_tracking_resource_adaptor_visit(mr, visit, &found));
    expect_equal(found.count, 2);
    cr_assert(found.seen[0].stack != NULL);
    cr_assert(found.seen[0].stack_length >= 3 && found.seen[0].stack_length <= 32);
    (void)crmm_tracking_resource_adaptor_outstanding_text(mr, text, sizeof(text));
    cr_assert(strstr(text, " B, alignment 16") != NULL, "%s", text);
    cr_assert(strstr(text, "\n    #0 ") != NULL, "%s", text);
    cr_assert(strstr(text, "\n    #2 ") != NULL, "%s", text);
    (void)crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "tracking_resource_adaptor (allocated 300, outstanding 2, with stacks) over "
                      "mock_resource");
    deallocate(mr, ptr, 100);
    deallocate(mr, other, 200);
    crmm_resource_release(&mr);
}

/* The list is of one moment, so a visitor may give back what it is shown, stack and all. */
Test(tracking_resource_adaptor, visitors_may_give_back)
{
    mock_resource upstream;
    crmm_resource *mr =
        make_with(&upstream, CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = 1));
    visited found = {.free_with = mr};

    for (size_t i = 0; i < 20; i++) {
        (void)allocate(mr, 100 + i);
    }
    expect_success(crmm_tracking_resource_adaptor_visit(mr, visit, &found));
    expect_equal(found.count, 20);
    expect_outstanding(mr, 0, 0);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* ---- checkpoints ---- */

/* User report 78: a count of what is live, and what came between two checkpoints. */
Test(tracking_resource_adaptor, checkpoints_tell_what_was_allocated_between_them)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    uint64_t a = 0;
    uint64_t b = 0;
    visited found = {0};
    char text[1024];
    char line[64];

    void *before = allocate(mr, 1);
    expect_success(crmm_tracking_resource_adaptor_checkpoint(mr, &a));
    void *first = allocate(mr, 10);
    void *gone = allocate(mr, 11);
    void *second = allocate(mr, 12);
    expect_success(crmm_tracking_resource_adaptor_checkpoint(mr, &b));
    cr_assert(a >= 1 && a < b);
    void *after = allocate(mr, 100);
    deallocate(mr, gone, 11);
    expect_outstanding(mr, 4, 123);

    expect_success(crmm_tracking_resource_adaptor_visit_between(mr, a, b, visit, &found));
    expect_equal(found.count, 2);
    expect_equal(found.seen[0].bytes + found.seen[1].bytes, 22);
    expect_equal(found.seen[0].epoch, 1);
    found.count = 0;
    expect_success(
        crmm_tracking_resource_adaptor_visit_between(mr, a, CRMM_TRACKING_NOW, visit, &found));
    expect_equal(found.count, 3);
    found.count = 0;
    expect_success(
        crmm_tracking_resource_adaptor_visit_between(mr, CRMM_TRACKING_BEGIN, a, visit, &found));
    expect_equal(found.count, 1);
    cr_assert(found.seen[0].ptr == before);
    found.count = 0;
    expect_success(crmm_tracking_resource_adaptor_visit_between(mr, b, b, visit, &found));
    expect_equal(found.count, 0);

    size_t length =
        crmm_tracking_resource_adaptor_outstanding_text_between(mr, a, b, text, sizeof(text));
    expect_equal(length, strlen(text));
    (void)snprintf(line, sizeof(line), "%p: 10 B, ", first);
    cr_assert(strstr(text, line) != NULL, "%s", text);
    (void)snprintf(line, sizeof(line), "%p: 12 B, ", second);
    cr_assert(strstr(text, line) != NULL, "%s", text);
    (void)snprintf(line, sizeof(line), "%p: ", before);
    cr_assert(strstr(text, line) == NULL, "%s", text);

    expect_failure(crmm_tracking_resource_adaptor_visit_between(mr, b, a, visit, &found),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_tracking_resource_adaptor_visit_between: from 2 to 1 are not checkpoints "
                   "in their order");
    expect_status(crmm_tracking_resource_adaptor_visit_between(mr, a, b + 1, visit, &found),
                  CRMM_ERROR_INVALID_ARGUMENT);
    expect_equal(found.count, 0);
    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_tracking_resource_adaptor_outstanding_text_between(
                                   mr, b, a, text, sizeof(text)),
                               0),
                  CRMM_MISUSE_INVALID_ARGUMENT, "from 2 to 1 are not checkpoints in their order");
    expect_text(text, "");

    deallocate(mr, before, 1);
    deallocate(mr, first, 10);
    deallocate(mr, second, 12);
    deallocate(mr, after, 100);
    crmm_resource_release(&mr);
}

/* ---- leaks ---- */

typedef struct logged {
    size_t lines;
    size_t leaks;
    char latest[512];
} logged;

static void on_message(crmm_log_level level, const char *message, void *user_data)
{
    logged *into = user_data;

    cr_assert(level == CRMM_LOG_LEVEL_ERROR);
    into->lines++;
    if (strstr(message, "tracking_resource_adaptor: not given back: 0x") != NULL) {
        into->leaks++;
        (void)snprintf(into->latest, sizeof(into->latest), "%s", message);
    }
}

/* User report 77: all leaks are listed, with names, and nothing aborts. */
Test(tracking_resource_adaptor, lists_leaks_at_its_release)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_resource *own = &upstream.base;
    bool destroyed = false;
    logged log = {0};
    void *blocks[3];

    upstream.destroyed = &destroyed;
    expect_success(crmm_log_set_callback(on_message, &log));
    expect_success(crmm_tracking_resource_adaptor_set_label("mesh", NULL));
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = allocate(mr, 100 + i);
    }
    misuse_recorder_start();
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "tracking_resource_adaptor: released with 3 allocations of 303 bytes "
                  "outstanding");
    cr_assert(mr == NULL);
    expect_equal(misuse_recorded()->latest.bytes, 303);
    cr_assert(misuse_recorded()->latest.ptr != NULL);
    if (CRMM_LOG_ACTIVE_LEVEL <= CRMM_LOG_LEVEL_ERROR) {
        expect_equal(log.leaks, 3);
        expect_equal(log.lines, 3);
        cr_assert(strstr(log.latest, " B, alignment 16, ") != NULL, "%s", log.latest);
        cr_assert(strstr(log.latest, ", label mesh") != NULL, "%s", log.latest);
    }
    expect_equal(upstream.deallocations, 0); /* left alone */
    for (size_t i = 0; i < 3; i++) {
        deallocate(&upstream.base, blocks[i], 100 + i);
    }
    crmm_resource_release(&own);
    cr_assert(destroyed); /* the adaptor has let go of it */
}

Test(tracking_resource_adaptor, lists_no_more_leaks_than_it_was_told)
{
    mock_resource upstream;
    logged log = {0};
    void *blocks[5];
    crmm_resource *mr =
        make_with(&upstream, CRMM_OPTIONS(crmm_tracking_resource_adaptor, .capture_stacks = 1,
                                          .most_leaks_listed = 2));

    expect_success(crmm_log_set_callback(on_message, &log));
    for (size_t i = 0; i < 5; i++) {
        blocks[i] = allocate(mr, 100);
    }
    misuse_recorder_start();
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK, "5 allocations of 500 bytes");
    if (CRMM_LOG_ACTIVE_LEVEL <= CRMM_LOG_LEVEL_ERROR) {
        expect_equal(log.leaks, 2);
        cr_assert(log.lines > 4); /* and their stacks */
    }
    for (size_t i = 0; i < 5; i++) {
        deallocate(&upstream.base, blocks[i], 100);
    }
}

/* ---- arguments ---- */

Test(tracking_resource_adaptor, refuses_bad_arguments_and_other_classes)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_resource *out = NULL;
    crmm_tracking_resource_adaptor_options options;
    uint64_t checkpoint = 77;
    visited found = {0};
    char text[8] = "before";

    expect_failure(crmm_tracking_resource_adaptor_create(NULL, NULL, &out),
                   CRMM_ERROR_INVALID_ARGUMENT, "tracking_resource_adaptor: upstream is NULL");
    expect_failure(crmm_tracking_resource_adaptor_create(&upstream.base, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "tracking_resource_adaptor: out is NULL");
    crmm_tracking_resource_adaptor_options_init(NULL);
    crmm_tracking_resource_adaptor_options_init(&options);
    expect_equal(options.struct_size, sizeof(options));
    expect_equal(options.capture_stacks, 0);
    options.capture_stacks = 2;
    expect_failure(crmm_tracking_resource_adaptor_create(&upstream.base, &options, &out),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "tracking_resource_adaptor: options->capture_stacks is 2, neither 0 nor 1");
    options.struct_size = 3;
    expect_failure(crmm_tracking_resource_adaptor_create(&upstream.base, &options, &out),
                   CRMM_ERROR_INVALID_ARGUMENT, "struct_size is 3");
    cr_assert(out == NULL);

    expect_failure(crmm_tracking_resource_adaptor_visit(&upstream.base, visit, &found),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_tracking_resource_adaptor_visit: resource is mock_resource");
    expect_failure(crmm_tracking_resource_adaptor_visit(mr, NULL, &found),
                   CRMM_ERROR_INVALID_ARGUMENT, "visitor is NULL");
    expect_failure(crmm_tracking_resource_adaptor_visit_between(NULL, 0, 0, visit, &found),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is (null)");
    expect_failure(crmm_tracking_resource_adaptor_visit_between(mr, 0, 0, NULL, &found),
                   CRMM_ERROR_INVALID_ARGUMENT, "visitor is NULL");
    expect_failure(crmm_tracking_resource_adaptor_checkpoint(&upstream.base, &checkpoint),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is mock_resource");
    expect_failure(crmm_tracking_resource_adaptor_checkpoint(mr, NULL), CRMM_ERROR_INVALID_ARGUMENT,
                   "checkpoint is NULL");
    expect_equal(checkpoint, 77);
    expect_equal(found.count, 0);

    misuse_recorder_start();
    expect_misuse(expect_equal(crmm_tracking_resource_adaptor_allocated_bytes(NULL), 0),
                  CRMM_MISUSE_WRONG_CLASS,
                  "crmm_tracking_resource_adaptor_allocated_bytes: resource is (null)");
    expect_misuse(expect_equal(crmm_tracking_resource_adaptor_outstanding_count(&upstream.base), 0),
                  CRMM_MISUSE_WRONG_CLASS, "resource is mock_resource");
    expect_misuse(
        expect_equal(
            crmm_tracking_resource_adaptor_outstanding_text(&upstream.base, text, sizeof(text)), 0),
        CRMM_MISUSE_WRONG_CLASS, "resource is mock_resource");
    expect_text(text, "");
    expect_misuse(expect_equal(crmm_tracking_resource_adaptor_outstanding_text_between(
                                   NULL, 0, 0, text, sizeof(text)),
                               0),
                  CRMM_MISUSE_WRONG_CLASS, "resource is (null)");
    crmm_resource_release(&mr);
}

/* ---- the table ---- */

/* Many entries, taken out in another order than they came: every one is found, and no other. */
Test(tracking_resource_adaptor, finds_every_one_of_many)
{
    enum { BLOCKS = 5000, STEPS = 40000 };
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    static void *blocks[BLOCKS];
    unsigned seed = 7;
    size_t count = 0;
    size_t bytes = 0;

    misuse_recorder_start();
    for (int i = 0; i < STEPS; i++) {
        size_t chosen = (unsigned)rand_r(&seed) % BLOCKS;
        if (blocks[chosen] == NULL) {
            blocks[chosen] = allocate(mr, chosen + 1);
            count++;
            bytes += chosen + 1;
        } else {
            deallocate(mr, blocks[chosen], chosen + 1);
            blocks[chosen] = NULL;
            count--;
            bytes -= chosen + 1;
        }
        if (i % 1000 == 0) {
            expect_outstanding(mr, count, bytes);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL) {
            deallocate(mr, blocks[i], i + 1);
        }
    }
    expect_outstanding(mr, 0, 0);
    expect_equal(misuse_recorded()->count, 0);
    expect_equal(upstream.live, 0);
    crmm_resource_release(&mr);
}

/* An upstream that never hands out an address twice, nor any memory. */
static crmm_status give_new_address(crmm_resource *resource, size_t bytes, size_t alignment,
                                    void **ptr)
{
    static uintptr_t latest = 0x100000000;

    (void)resource;
    (void)bytes;
    (void)alignment;
    latest += 256;
    *ptr = (void *)latest;
    return CRMM_SUCCESS;
}

static void take_address(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static void stay(crmm_resource *resource)
{
    (void)resource;
}

/* Addresses that were given back have to make room: those that were not are still known. */
Test(tracking_resource_adaptor, forgets_only_what_was_given_back)
{
    enum { STEPS = 100000, KEEP_EVERY = 1000 };
    static const crmm_resource_ops ops = {
        .struct_size = sizeof(crmm_resource_ops),
        .allocate_sync = give_new_address,
        .deallocate_sync = take_address,
        .destroy = stay,
    };
    struct crmm_resource upstream;
    crmm_resource *mr = NULL;
    void *kept[STEPS / KEEP_EVERY];
    void *ptr = NULL;

    crmm_resource_init(&upstream, &ops, "new_addresses", CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_tracking_resource_adaptor_create(&upstream, NULL, &mr));
    misuse_recorder_start();
    for (size_t i = 0; i < STEPS; i++) {
        expect_success(crmm_allocate_sync(mr, i + 1, 16, &ptr));
        if (i % KEEP_EVERY == 0) {
            kept[i / KEEP_EVERY] = ptr;
        } else {
            crmm_deallocate_sync(mr, ptr, i + 1, 16);
        }
    }
    expect_equal(crmm_tracking_resource_adaptor_outstanding_count(mr), STEPS / KEEP_EVERY);
    expect_misuse(crmm_deallocate_sync(mr, ptr, STEPS, 16), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back twice");
    expect_misuse(crmm_deallocate_sync(mr, (void *)((uintptr_t)kept[0] + 256), 2, 16),
                  CRMM_MISUSE_FOREIGN_POINTER, "or was given back before");
    expect_equal(misuse_recorded()->count, 2);
    for (size_t i = 0; i < STEPS; i += KEEP_EVERY) {
        crmm_deallocate_sync(mr, kept[i / KEEP_EVERY], i + 1, 16);
    }
    expect_outstanding(mr, 0, 0);
    expect_equal(misuse_recorded()->count, 2);
    crmm_resource_release(&mr);
}
