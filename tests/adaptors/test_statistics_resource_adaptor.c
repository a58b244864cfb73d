/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/statistics_resource_adaptor.h>

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "constant_resource.h"
#include "expect.h"
#include "misuse_recorder.h"
#include "mock_resource.h"

#define ALL (CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

static crmm_resource *make(mock_resource *upstream)
{
    crmm_resource *made = NULL;
    mock_resource_init(upstream, ALL);
    expect_success(crmm_statistics_resource_adaptor_create(&upstream->base, &made));
    return made;
}

#define expect_counter(counter, value_, peak_, total_)                                   \
    cr_assert((counter).value == (value_) && (counter).peak == (peak_) &&                \
                  (counter).total == (total_),                                           \
              "%s is %lld, peak %lld, total %lld", #counter, (long long)(counter).value, \
              (long long)(counter).peak, (long long)(counter).total)

#define expect_counters(mr, bytes_, bytes_peak, bytes_total, count_, count_peak, count_total)  \
    do {                                                                                       \
        crmm_statistics_counter bytes_now = {-1, -1, -1};                                      \
        crmm_statistics_counter count_now = {-1, -1, -1};                                      \
        expect_success(crmm_statistics_resource_adaptor_counters(mr, &bytes_now, &count_now)); \
        expect_counter(bytes_now, bytes_, bytes_peak, bytes_total);                            \
        expect_counter(count_now, count_, count_peak, count_total);                            \
    } while (0)

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

Test(statistics_resource_adaptor, looks_like_its_upstream)
{
    mock_resource upstream;
    char text[256];
    crmm_resource *mr = NULL;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    crmm_resource_bind_device(&upstream.base, 2);
    expect_success(crmm_statistics_resource_adaptor_create(&upstream.base, &mr));
    expect_text(crmm_resource_name(mr), "statistics_resource_adaptor");
    expect_equal(crmm_resource_properties(mr), CRMM_HOST_ACCESSIBLE);
    expect_equal(crmm_resource_device(mr), 2);
    cr_assert(crmm_resource_upstream(mr) == &upstream.base);
    size_t length = crmm_resource_describe(mr, text, sizeof(text));
    expect_text(text, "statistics_resource_adaptor (bytes 0, peak 0, total 0; allocations 0, "
                      "peak 0, total 0) over mock_resource");
    expect_equal(crmm_resource_describe(mr, NULL, 0), length);
    expect_equal(crmm_resource_describe(mr, text, 11), length);
    expect_text(text, "statistics");
    crmm_resource_release(&mr);
}

/* User report 40: what was made through an adaptor holds it. User report 56: released in any order,
 * the outermost goes first. */
Test(statistics_resource_adaptor, holds_its_upstream)
{
    mock_resource upstream;
    bool destroyed = false;
    crmm_resource *outer = NULL;
    crmm_resource *mr = make(&upstream);
    crmm_resource *own = &upstream.base;

    upstream.destroyed = &destroyed;
    expect_success(crmm_statistics_resource_adaptor_create(mr, &outer));
    crmm_resource_release(&own);
    crmm_resource_release(&mr);
    void *ptr = allocate(outer, 100);
    deallocate(outer, ptr, 100);
    cr_assert(!destroyed);
    crmm_resource_release(&outer);
    cr_assert(destroyed);
}

/* User report 63: current, peak and total, for bytes and for allocations. */
Test(statistics_resource_adaptor, counts_current_peak_and_total)
{
    enum { BLOCK = 10 << 10, BLOCKS = 10 };
    mock_resource upstream;
    void *blocks[2 * BLOCKS];
    crmm_resource *mr = make(&upstream);

    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(mr, BLOCK);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        deallocate(mr, blocks[i], BLOCK);
    }
    expect_counters(mr, 5 * BLOCK, 10 * BLOCK, 10 * BLOCK, 5, 10, 10);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[BLOCKS + i] = allocate(mr, BLOCK);
    }
    expect_counters(mr, 15 * BLOCK, 15 * BLOCK, 20 * BLOCK, 15, 15, 20);
    for (int i = 0; i < 2 * BLOCKS; i++) {
        if (i >= BLOCKS || i % 2 == 1) {
            deallocate(mr, blocks[i], BLOCK);
        }
    }
    expect_counters(mr, 0, 15 * BLOCK, 20 * BLOCK, 0, 15, 20);
    expect_success(crmm_statistics_resource_adaptor_counters(mr, NULL, NULL));
    crmm_resource_release(&mr);
}

/* User reports 52 and 74: the upstream gets what was asked, and the asked size is what counts. */
Test(statistics_resource_adaptor, passes_requests_on_unchanged)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = NULL;

    expect_success(crmm_allocate(mr, (crmm_stream)(uintptr_t)0x40, 5001, 64, &a));
    expect_equal(upstream.last_allocate.bytes, 5001);
    expect_equal(upstream.last_allocate.alignment, 64);
    cr_assert(upstream.last_allocate.stream == (crmm_stream)(uintptr_t)0x40);
    cr_assert(!upstream.last_allocate.sync);
    expect_counters(mr, 5001, 5001, 5001, 1, 1, 1);
    crmm_deallocate(mr, (crmm_stream)(uintptr_t)0x50, a, 5001, 64);
    expect_equal(upstream.last_deallocate.bytes, 5001);
    expect_equal(upstream.last_deallocate.alignment, 64);
    cr_assert(upstream.last_deallocate.stream == (crmm_stream)(uintptr_t)0x50);
    cr_assert(!upstream.last_deallocate.sync);

    expect_success(crmm_allocate_sync(mr, 7, 4096, &a));
    cr_assert(upstream.last_allocate.sync);
    expect_equal(upstream.last_allocate.alignment, 4096);
    expect_counters(mr, 7, 5001, 5008, 1, 1, 2);
    crmm_deallocate_sync(mr, a, 7, 4096);
    cr_assert(upstream.last_deallocate.sync);
    expect_equal(upstream.last_deallocate.alignment, 4096);
    expect_counters(mr, 0, 5001, 5008, 0, 1, 2);
    crmm_resource_release(&mr);
}

Test(statistics_resource_adaptor, zero_bytes_are_not_counted)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *ptr = &mr;

    expect_success(crmm_allocate(mr, NULL, 0, 16, &ptr));
    cr_assert(ptr == NULL);
    deallocate(mr, ptr, 0);
    expect_counters(mr, 0, 0, 0, 0, 0, 0);
    crmm_resource_release(&mr);
}

/* User reports 53, 55 and 60: whatever fails, the counters and the upstream are as before. */
Test(statistics_resource_adaptor, what_fails_is_not_counted)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *held = allocate(mr, 10);
    void *ptr = &mr;

    upstream.fail_with = CRMM_ERROR_OUT_OF_MEMORY;
    expect_failure(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY,
                   "the mock was told to fail");
    expect_status(crmm_allocate_sync(mr, 100, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    upstream.fail_with = CRMM_SUCCESS;
    upstream.give_null = true;
    expect_status(crmm_allocate(mr, NULL, 100, 16, &ptr), CRMM_ERROR_BAD_ALLOC);
    expect_status(crmm_allocate(mr, NULL, SIZE_MAX, 16, &ptr), CRMM_ERROR_OUT_OF_MEMORY);
    expect_status(crmm_allocate(mr, NULL, 8, 0, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    expect_status(crmm_allocate(mr, NULL, 8, 48, &ptr), CRMM_ERROR_INVALID_ARGUMENT);
    cr_assert(ptr == &mr);
    expect_counters(mr, 10, 10, 10, 1, 1, 1);
    deallocate(mr, held, 10);
    expect_counters(mr, 0, 10, 10, 0, 1, 1);
    crmm_resource_release(&mr);
}

/* Two adaptors in one stack: what passes only the inner one is counted only there. */
Test(statistics_resource_adaptor, adaptors_count_apart)
{
    mock_resource upstream;
    crmm_resource *inner = make(&upstream);
    crmm_resource *outer = NULL;

    expect_success(crmm_statistics_resource_adaptor_create(inner, &outer));
    void *both = allocate(outer, 100);
    void *one = allocate(inner, 10);
    expect_counters(outer, 100, 100, 100, 1, 1, 1);
    expect_counters(inner, 110, 110, 110, 2, 2, 2);
    deallocate(outer, both, 100);
    deallocate(inner, one, 10);

    /* Given back past the outer one, and through an inner one that never saw it. */
    void *through = allocate(&upstream.base, 50);
    deallocate(inner, through, 50);
    expect_counters(inner, -50, 110, 110, -1, 2, 2);
    crmm_resource_release(&outer);
    misuse_recorder_start();
    crmm_resource_release(&inner); /* below 0 is no leak */
    expect_equal(misuse_recorded()->count, 0);
}

/* User report 63: scopes by push and pop, in each step as RMM counts. */
Test(statistics_resource_adaptor, pushed_counters_start_from_0_and_are_merged_by_pop)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_statistics_counter bytes;
    crmm_statistics_counter count;
    void *a = allocate(mr, 100);
    void *b = allocate(mr, 20);

    deallocate(mr, b, 20);
    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, &bytes, &count));
    expect_counter(bytes, 100, 120, 120);
    expect_counter(count, 1, 2, 2);
    expect_counters(mr, 0, 0, 0, 0, 0, 0);

    b = allocate(mr, 50);
    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, NULL, &count));
    expect_counter(count, 1, 1, 1);
    deallocate(mr, a, 100); /* allocated two levels below */
    expect_counters(mr, -100, 0, 0, -1, 0, 0);
    a = allocate(mr, 130);
    expect_counters(mr, 30, 30, 130, 0, 0, 1);

    expect_success(crmm_statistics_resource_adaptor_pop_counters(mr, &bytes, &count));
    expect_counter(bytes, 30, 30, 130);
    expect_counter(count, 0, 0, 1);
    expect_counters(mr, 80, 80, 180, 1, 1, 2);

    expect_success(crmm_statistics_resource_adaptor_pop_counters(mr, &bytes, NULL));
    expect_counter(bytes, 80, 80, 180);
    expect_counters(mr, 180, 180, 300, 2, 2, 4);
    deallocate(mr, a, 130);
    expect_counters(mr, 50, 180, 300, 1, 2, 4);
    a = allocate(mr, 131); /* one more than ever */
    expect_counters(mr, 181, 181, 431, 2, 2, 5);
    deallocate(mr, a, 131);
    deallocate(mr, b, 50);

    bytes = (crmm_statistics_counter){7, 7, 7};
    expect_failure(crmm_statistics_resource_adaptor_pop_counters(mr, &bytes, &bytes),
                   CRMM_ERROR_OUT_OF_RANGE,
                   "crmm_statistics_resource_adaptor_pop_counters: no counters were pushed");
    expect_counter(bytes, 7, 7, 7);
    crmm_resource_release(&mr);
}

Test(statistics_resource_adaptor, counters_put_aside_are_given_back_with_the_adaptor)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = allocate(mr, 100);

    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, NULL, NULL));
    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, NULL, NULL));
    deallocate(mr, a, 100);
    misuse_recorder_start();
    crmm_resource_release(&mr); /* the sum over all levels is 0 */
    expect_equal(misuse_recorded()->count, 0);
}

/* Sums stop at the bounds: the mock would have to give 2^62 bytes. */
Test(statistics_resource_adaptor, sums_stay_at_their_bounds)
{
    struct crmm_resource upstream;
    crmm_resource *mr = NULL;
    const size_t huge = PTRDIFF_MAX;
    void *ptr = NULL;

    constant_resource_init(&upstream);
    expect_success(crmm_statistics_resource_adaptor_create(&upstream, &mr));
    for (int i = 0; i < 3; i++) {
        expect_success(crmm_allocate_sync(mr, huge, 16, &ptr));
        crmm_deallocate_sync(mr, ptr, huge, 16);
    }
    expect_counters(mr, 0, INT64_MAX, INT64_MAX, 0, 1, 3);
    for (int i = 0; i < 3; i++) {
        expect_success(crmm_allocate_sync(mr, huge, 16, &ptr));
    }
    expect_counters(mr, INT64_MAX, INT64_MAX, INT64_MAX, 3, 3, 6);
    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, NULL, NULL));
    for (int i = 0; i < 9; i++) {
        crmm_deallocate_sync(mr, ptr, huge, 16);
    }
    expect_counters(mr, -INT64_MAX, 0, 0, -9, 0, 0);
    expect_success(crmm_statistics_resource_adaptor_pop_counters(mr, NULL, NULL));
    misuse_recorder_start();
    expect_misuse(crmm_deallocate_sync(mr, ptr, SIZE_MAX, 16), CRMM_MISUSE_SIZE_MISMATCH,
                  "given back with 18446744073709551615 bytes, more than can exist");
    expect_equal(misuse_recorded()->latest.bytes, SIZE_MAX);
    crmm_resource_release(&mr);
}

Test(statistics_resource_adaptor, reports_leaks)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    void *a = allocate(mr, 512);
    void *b = allocate(mr, 88);

    misuse_recorder_start();
    expect_success(crmm_statistics_resource_adaptor_push_counters(mr, NULL, NULL));
    expect_misuse(crmm_resource_release(&mr), CRMM_MISUSE_LEAK,
                  "statistics_resource_adaptor: released with 2 allocations of 600 bytes not given "
                  "back");
    expect_equal(misuse_recorded()->latest.bytes, 600);
    cr_assert(mr == NULL);
    deallocate(&upstream.base, a, 512);
    deallocate(&upstream.base, b, 88);
}

Test(statistics_resource_adaptor, over_a_sync_only_resource_is_sync_only)
{
    mock_resource upstream;
    crmm_resource *mr = NULL;
    void *ptr = &mr;

    mock_resource_init(&upstream, CRMM_HOST_ACCESSIBLE);
    expect_success(crmm_statistics_resource_adaptor_create(&upstream.base, &mr));
    expect_failure(crmm_allocate(mr, NULL, 8, 8, &ptr), CRMM_ERROR_PROPERTY,
                   "statistics_resource_adaptor is not stream-ordered");
    expect_success(crmm_allocate_sync(mr, 8, 8, &ptr));
    cr_assert(upstream.last_allocate.sync);
    crmm_deallocate_sync(mr, ptr, 8, 8);
    crmm_resource_release(&mr);
}

Test(statistics_resource_adaptor, refuses_bad_arguments_and_other_classes)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_resource *out = NULL;
    crmm_statistics_counter counter = {7, 7, 7};
    char text[8] = "before";

    expect_failure(crmm_statistics_resource_adaptor_create(NULL, &out), CRMM_ERROR_INVALID_ARGUMENT,
                   "statistics_resource_adaptor: upstream is NULL");
    expect_failure(crmm_statistics_resource_adaptor_create(&upstream.base, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "statistics_resource_adaptor: out is NULL");
    expect_failure(crmm_statistics_resource_adaptor_counters(&upstream.base, &counter, &counter),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_statistics_resource_adaptor_counters: resource is mock_resource");
    expect_failure(crmm_statistics_resource_adaptor_push_counters(NULL, &counter, &counter),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is (null)");
    expect_failure(crmm_statistics_resource_adaptor_pop_counters(NULL, &counter, &counter),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is (null)");
    expect_failure(crmm_statistics_resource_adaptor_scope_begin(&upstream.base, "x"),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is mock_resource");
    expect_failure(crmm_statistics_resource_adaptor_scope_begin(mr, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT,
                   "crmm_statistics_resource_adaptor_scope_begin: name is NULL");
    expect_failure(crmm_statistics_resource_adaptor_scope_end(NULL, &counter, &counter),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is (null)");
    expect_failure(crmm_statistics_resource_adaptor_visit_scopes(NULL, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "resource is (null)");
    expect_failure(crmm_statistics_resource_adaptor_visit_scopes(mr, NULL, NULL),
                   CRMM_ERROR_INVALID_ARGUMENT, "visitor is NULL");
    expect_counter(counter, 7, 7, 7);
    misuse_recorder_start();
    expect_misuse(
        expect_equal(
            crmm_statistics_resource_adaptor_report_text(&upstream.base, text, sizeof(text)), 0),
        CRMM_MISUSE_WRONG_CLASS,
        "crmm_statistics_resource_adaptor_report_text: resource is mock_resource");
    expect_text(text, "");

    /* Sizes are not kept, so a free by address alone is refused. */
    void *ptr = allocate(mr, 8);
    expect_misuse(crmm_deallocate_ptr(mr, NULL, ptr), CRMM_MISUSE_UNSUPPORTED,
                  "statistics_resource_adaptor keeps no sizes");
    deallocate(mr, ptr, 8);
    crmm_resource_release(&mr);
}

/* ---- scopes ---- */

typedef struct visited {
    size_t count;
    crmm_statistics_scope scopes[4];
    char names[4][16];
} visited;

static void visit(const crmm_statistics_scope *scope, void *user_data)
{
    visited *into = user_data;

    cr_assert(into->count < 4);
    expect_equal(scope->struct_size, sizeof(*scope));
    into->scopes[into->count] = *scope;
    (void)strncpy(into->names[into->count], scope->name, sizeof(into->names[0]) - 1);
    into->count++;
}

/* User report 63: named scopes, nested, with an exact table. */
Test(statistics_resource_adaptor, named_scopes_nest_and_are_reported)
{
    static const char expected[] =
        "     calls       peak bytes      total bytes   peak count  total count  scope\n"
        "         2              130              230            2            3  inner\n"
        "         1              150              250            3            4  outer\n";
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_statistics_counter bytes;
    crmm_statistics_counter count;
    visited seen = {0};
    char text[512];
    char name[] = "outer";

    void *before = allocate(mr, 1000); /* in no scope */
    expect_success(crmm_statistics_resource_adaptor_scope_begin(mr, name));
    name[0] = '\0'; /* it was copied */
    void *a = allocate(mr, 20);

    expect_success(crmm_statistics_resource_adaptor_scope_begin(mr, "inner"));
    void *b = allocate(mr, 100);
    void *c = allocate(mr, 30);
    deallocate(mr, b, 100);
    expect_success(crmm_statistics_resource_adaptor_scope_end(mr, &bytes, &count));
    expect_counter(bytes, 30, 130, 130);
    expect_counter(count, 1, 2, 2);

    expect_success(crmm_statistics_resource_adaptor_scope_begin(mr, "inner"));
    b = allocate(mr, 100);
    deallocate(mr, before, 1000); /* allocated outside: below 0 */
    deallocate(mr, b, 100);
    expect_success(crmm_statistics_resource_adaptor_scope_end(mr, &bytes, NULL));
    expect_counter(bytes, -1000, 100, 100);

    expect_success(crmm_statistics_resource_adaptor_scope_end(mr, &bytes, &count));
    expect_counter(bytes, -950, 150, 250);
    expect_counter(count, 1, 3, 4);
    bytes = (crmm_statistics_counter){7, 7, 7};
    expect_failure(crmm_statistics_resource_adaptor_scope_end(mr, &bytes, NULL),
                   CRMM_ERROR_OUT_OF_RANGE,
                   "crmm_statistics_resource_adaptor_scope_end: this thread has no open scope");
    expect_counter(bytes, 7, 7, 7);

    expect_success(crmm_statistics_resource_adaptor_visit_scopes(mr, visit, &seen));
    expect_equal(seen.count, 2);
    expect_text(seen.names[0], "inner");
    expect_text(seen.names[1], "outer");
    expect_equal(seen.scopes[0].calls, 2);
    expect_equal(seen.scopes[0].peak_bytes, 130);
    expect_equal(seen.scopes[0].total_bytes, 230);
    expect_equal(seen.scopes[1].peak_allocations, 3);
    expect_equal(seen.scopes[1].total_allocations, 4);

    size_t length = crmm_statistics_resource_adaptor_report_text(mr, text, sizeof(text));
    expect_equal(length, strlen(text));
    expect_text(text, expected);
    expect_equal(crmm_statistics_resource_adaptor_report_text(mr, NULL, 0), length);
    expect_equal(crmm_statistics_resource_adaptor_report_text(mr, text, 11), length);
    expect_text(text, "     calls");

    deallocate(mr, a, 20);
    deallocate(mr, c, 30);
    crmm_resource_release(&mr);
}

Test(statistics_resource_adaptor, scopes_of_two_adaptors_do_not_touch)
{
    mock_resource first_upstream;
    mock_resource second_upstream;
    crmm_resource *first = make(&first_upstream);
    crmm_resource *second = make(&second_upstream);
    crmm_statistics_counter bytes;

    expect_success(crmm_statistics_resource_adaptor_scope_begin(first, "a"));
    expect_success(crmm_statistics_resource_adaptor_scope_begin(second, "b"));
    void *ptr = allocate(first, 10);
    deallocate(first, ptr, 10);
    ptr = allocate(second, 20);
    deallocate(second, ptr, 20);
    /* Ended in the order of their beginning, not in reverse. */
    expect_success(crmm_statistics_resource_adaptor_scope_end(first, &bytes, NULL));
    expect_counter(bytes, 0, 10, 10);
    expect_success(crmm_statistics_resource_adaptor_scope_end(second, &bytes, NULL));
    expect_counter(bytes, 0, 20, 20);
    crmm_resource_release(&first);
    crmm_resource_release(&second);
}

Test(statistics_resource_adaptor, an_open_scope_holds_the_adaptor)
{
    mock_resource upstream;
    bool destroyed = false;
    crmm_resource *mr = make(&upstream);
    crmm_resource *borrowed = mr;
    crmm_resource *own = &upstream.base;

    upstream.destroyed = &destroyed;
    expect_success(crmm_statistics_resource_adaptor_scope_begin(mr, "open"));
    crmm_resource_release(&own);
    crmm_resource_release(&mr);
    cr_assert(!destroyed);
    expect_success(crmm_statistics_resource_adaptor_scope_end(borrowed, NULL, NULL));
    cr_assert(destroyed);
}

static void *run_elsewhere(void *mr)
{
    void *ptr = NULL;

    if (crmm_allocate(mr, NULL, 77, 16, &ptr) == CRMM_SUCCESS) {
        crmm_deallocate(mr, NULL, ptr, 77, 16);
    }
    return ptr;
}

Test(statistics_resource_adaptor, a_scope_counts_its_own_thread_only)
{
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    crmm_statistics_counter bytes;
    pthread_t thread;

    expect_success(crmm_statistics_resource_adaptor_scope_begin(mr, "mine"));
    cr_assert(pthread_create(&thread, NULL, run_elsewhere, mr) == 0);
    cr_assert(pthread_join(thread, NULL) == 0);
    expect_success(crmm_statistics_resource_adaptor_scope_end(mr, &bytes, NULL));
    expect_counter(bytes, 0, 0, 0);
    expect_counters(mr, 0, 77, 77, 0, 1, 1);
    crmm_resource_release(&mr);
}

/* Threads that take turns: every call is alone, so the peak is exact whoever makes it. */
typedef struct turn {
    crmm_resource *mr;
    void *ptr;
    size_t bytes;
} turn;

static void *allocate_in_turn(void *user_data)
{
    turn *mine = user_data;
    return crmm_allocate(mine->mr, NULL, mine->bytes, 16, &mine->ptr) == CRMM_SUCCESS ? mine : NULL;
}

static void *deallocate_in_turn(void *user_data)
{
    turn *mine = user_data;
    crmm_deallocate(mine->mr, NULL, mine->ptr, mine->bytes, 16);
    return mine;
}

static void run_thread(void *(*run)(void *), turn *mine)
{
    pthread_t thread;
    void *result = NULL;
    cr_assert(pthread_create(&thread, NULL, run, mine) == 0);
    cr_assert(pthread_join(thread, &result) == 0 && result != NULL);
}

Test(statistics_resource_adaptor, peaks_are_exact_where_calls_do_not_overlap)
{
    enum { BLOCKS = 80, STEPS = 400 };
    mock_resource upstream;
    crmm_resource *mr = make(&upstream);
    turn turns[BLOCKS] = {0};
    int64_t live = 0;
    int64_t peak = 0;
    int64_t total = 0;
    int64_t count = 0;
    int64_t count_peak = 0;
    int64_t count_total = 0;
    unsigned seed = 1;

    for (int i = 0; i < STEPS; i++) {
        turn *chosen = &turns[(unsigned)rand_r(&seed) % BLOCKS];
        if (chosen->ptr == NULL) {
            *chosen = (turn){.mr = mr, .bytes = (unsigned)rand_r(&seed) % 1000 + 1};
            live += (int64_t)chosen->bytes;
            total += (int64_t)chosen->bytes;
            peak = live > peak ? live : peak;
            count++;
            count_total++;
            count_peak = count > count_peak ? count : count_peak;
            run_thread(allocate_in_turn, chosen); /* each by a thread of its own */
        } else {
            live -= (int64_t)chosen->bytes;
            count--;
            run_thread(deallocate_in_turn, chosen);
            chosen->ptr = NULL;
        }
        expect_counters(mr, live, peak, total, count, count_peak, count_total);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (turns[i].ptr != NULL) {
            deallocate(mr, turns[i].ptr, turns[i].bytes);
        }
    }
    expect_counters(mr, 0, peak, total, 0, count_peak, count_total);
    crmm_resource_release(&mr);
}
