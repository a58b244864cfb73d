/* SPDX-License-Identifier: Apache-2.0 */
#include "random_stack.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crmm/core/alignment.h>
#include <crmm/core/options.h>
#include <crmm/core/version.h>

#include "adaptors_config.h"
#include "random_numbers.h"

/* ---- the classes: a create function and a row each ---- */

#if HAVE_ADAPTOR_ALIGNED
#include <crmm/adaptors/aligned_resource_adaptor.h>

static crmm_status create_aligned(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    return crmm_aligned_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_aligned_resource_adaptor,
                     .alignment = (size_t)1 << random_below(random, 13),
                     .alignment_threshold = (size_t)random_below(random, 4096)),
        out);
}
#endif

#if HAVE_ADAPTOR_FAILURE_CALLBACK
#include <crmm/adaptors/failure_callback_resource_adaptor.h>

static bool try_three_times(const crmm_failure *failure, void *user_data)
{
    (void)user_data;
    return failure->attempt < 3;
}

static crmm_status create_failure_callback(crmm_resource *upstream, uint64_t *random,
                                           crmm_resource **out)
{
    (void)random;
    return crmm_failure_callback_resource_adaptor_create(upstream, try_three_times, NULL, NULL,
                                                         out);
}
#endif

#if HAVE_ADAPTOR_FAULT_INJECTION
#include <crmm/adaptors/fault_injection_resource_adaptor.h>

static crmm_status create_fault_injection(crmm_resource *upstream, uint64_t *random,
                                          crmm_resource **out)
{
    return crmm_fault_injection_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_fault_injection_resource_adaptor, .fail_call = random_below(random, 100),
                     .fail_every = 7 + random_below(random, 50), .fail_above = (size_t)1 << 24,
                     .fail_per_million = random_below(random, 100000), .seed = random_next(random),
                     .status = random_below(random, CRMM_ERROR_IO + 1)),
        out);
}
#endif

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>

static crmm_status create_limiting(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(upstream, 20000 + random_below(random, 200000),
                                                 NULL, out);
}

static bool limiting_is_within_bounds(const crmm_resource *adaptor)
{
    return crmm_limiting_resource_adaptor_allocated_bytes(adaptor) <=
           crmm_limiting_resource_adaptor_allocation_limit(adaptor);
}

static bool limiting_is_idle(const crmm_resource *adaptor)
{
    return crmm_limiting_resource_adaptor_allocated_bytes(adaptor) == 0;
}
#endif

#if HAVE_ADAPTOR_LOGGING
#include <crmm/adaptors/logging_resource_adaptor.h>

static bool swallow(const char *text, size_t size, void *user_data)
{
    (void)text;
    (void)size;
    (void)user_data;
    return true;
}

static crmm_status create_logging(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    return crmm_logging_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .write = swallow,
                     .auto_flush = random_below(random, 2) * 100),
        out);
}
#endif

#if HAVE_ADAPTOR_NVTX
#include <crmm/adaptors/nvtx_resource_adaptor.h>

/* The upstream's memory is not CUDA's, which compute-sanitizer takes amiss where NVTX tells of it.
 */
static crmm_status create_nvtx(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    bool is_told = getenv("CRMM_TEST_COMPUTE_SANITIZER") == NULL;

    (void)random;
    return crmm_nvtx_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_nvtx_resource_adaptor, .mode = is_told ? CRMM_NVTX_ON : CRMM_NVTX_OFF),
        out);
}
#endif

#if HAVE_ADAPTOR_PREFETCH
#include <crmm/adaptors/prefetch_resource_adaptor.h>

static crmm_status create_prefetch(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    (void)random;
    return crmm_prefetch_resource_adaptor_create(upstream, out);
}
#endif

#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>

static crmm_status create_statistics(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    (void)random;
    return crmm_statistics_resource_adaptor_create(upstream, out);
}

static bool statistics_is_idle(const crmm_resource *adaptor)
{
    crmm_statistics_counter bytes;
    crmm_statistics_counter allocations;

    return crmm_statistics_resource_adaptor_counters(adaptor, &bytes, &allocations) ==
               CRMM_SUCCESS &&
           bytes.value == 0 && allocations.value == 0;
}
#endif

#if HAVE_ADAPTOR_THREAD_SAFE
#include <crmm/adaptors/thread_safe_resource_adaptor.h>

static crmm_status create_thread_safe(crmm_resource *upstream, uint64_t *random,
                                      crmm_resource **out)
{
    (void)random;
    return crmm_thread_safe_resource_adaptor_create(upstream, out);
}
#endif

#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>

static crmm_status create_tracking(crmm_resource *upstream, uint64_t *random, crmm_resource **out)
{
    return crmm_tracking_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_tracking_resource_adaptor,
                     .capture_stacks = random_below(random, 10) == 0),
        out);
}

static bool tracking_is_idle(const crmm_resource *adaptor)
{
    return crmm_tracking_resource_adaptor_outstanding_count(adaptor) == 0 &&
           crmm_tracking_resource_adaptor_allocated_bytes(adaptor) == 0;
}
#endif

const random_layer_class random_layer_classes[] = {
#if HAVE_ADAPTOR_ALIGNED
    {.name = "aligned", .create = create_aligned, .gives_any_alignment = true},
#endif
#if HAVE_ADAPTOR_FAILURE_CALLBACK
    {.name = "failure_callback", .create = create_failure_callback},
#endif
#if HAVE_ADAPTOR_FAULT_INJECTION
    {.name = "fault_injection", .create = create_fault_injection},
#endif
#if HAVE_ADAPTOR_LIMITING
    {.name = "limiting",
     .create = create_limiting,
     .is_within_bounds = limiting_is_within_bounds,
     .is_idle = limiting_is_idle,
     .limit = crmm_limiting_resource_adaptor_allocation_limit},
#endif
#if HAVE_ADAPTOR_LOGGING
    {.name = "logging", .create = create_logging},
#endif
#if HAVE_ADAPTOR_NVTX
    {.name = "nvtx", .create = create_nvtx},
#endif
#if HAVE_ADAPTOR_PREFETCH
    {.name = "prefetch", .create = create_prefetch},
#endif
#if HAVE_ADAPTOR_STATISTICS
    {.name = "statistics", .create = create_statistics, .is_idle = statistics_is_idle},
#endif
#if HAVE_ADAPTOR_THREAD_SAFE
    {.name = "thread_safe", .create = create_thread_safe},
#endif
#if HAVE_ADAPTOR_TRACKING
    {.name = "tracking", .create = create_tracking, .is_idle = tracking_is_idle},
#endif
    {.name = NULL},
};

/* ---- building ---- */

__attribute__((format(printf, 2, 3))) static void complain(random_stack *stack, const char *format,
                                                           ...)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;

    pthread_mutex_lock(&mutex);
    if (stack->why[0] == '\0') {
        va_start(arguments, format);
        (void)vsnprintf(stack->why, sizeof(stack->why), format, arguments);
        va_end(arguments);
    }
    pthread_mutex_unlock(&mutex);
}

/* On a GPU that reaches the heap a prefetch would move it, and might be under way when it is freed.
 * So there the recording resource says that it is host memory. */
static crmm_properties properties_of_the_bottom(void)
{
    bool emulated = strcmp(crmm_cuda_runtime_name(), "emulated") == 0;
    return CRMM_HOST_ACCESSIBLE | CRMM_STREAM_ORDERED | (emulated ? CRMM_DEVICE_ACCESSIBLE : 0);
}

static size_t count_classes(void)
{
    size_t count = 0;

    while (random_layer_classes[count].name != NULL) {
        count++;
    }
    return count;
}

bool random_stack_init(random_stack *stack, uint64_t *random, size_t count)
{
    size_t choice = count_classes();

    memset(stack, 0, sizeof(*stack));
    recording_resource_init(&stack->bottom, properties_of_the_bottom());
    stack->bottom.seed = random_next(random);
    for (size_t i = 0; i < count && choice != 0; i++) {
        const random_layer_class *of = &random_layer_classes[random_below(random, choice)];
        crmm_status status = of->create(random_stack_top(stack), random, &stack->layers[i]);
        if (status != CRMM_SUCCESS) {
            complain(stack, "%s: %s", of->name, crmm_last_error()->message);
            return false;
        }
        stack->classes[i] = of;
        stack->gives_any_alignment |= of->gives_any_alignment;
        stack->count++;
    }
    return true;
}

crmm_resource *random_stack_top(const random_stack *stack)
{
    return stack->count == 0 ? (crmm_resource *)(uintptr_t)&stack->bottom.base
                             : stack->layers[stack->count - 1];
}

/* ---- exercise ---- */

enum { SLOTS = 64 };

typedef struct block {
    unsigned char *ptr;
    size_t bytes;
    size_t alignment;
    unsigned char fill;
} block;

typedef struct exercise {
    random_stack *stack;
    block *slots[SLOTS]; /* atomic: whoever takes a block out gives it back */
    uint64_t seed;
    size_t operations;
    size_t succeeded; /* atomic */
    unsigned started; /* atomic */
} exercise;

static crmm_stream random_stream(uint64_t *random)
{
    static const uintptr_t handles[] = {0, 1, 2}; /* the default streams exist everywhere */
    return (crmm_stream)handles[random_below(random, 3)];
}

static size_t random_size(uint64_t *random)
{
    switch (random_below(random, 40)) {
    case 0:
        return 0;
    case 1:
        return SIZE_MAX - (size_t)random_below(random, 5000);
    case 2:
        return (size_t)PTRDIFF_MAX - (size_t)random_below(random, 5000);
    case 3:
        return (size_t)random_below(random, 100000);
    default:
        return 1 + (size_t)random_below(random, 3000);
    }
}

/* Give a block back, after a look at whether another one has overwritten it. */
static void give_back(exercise *run, uint64_t *random, block *old)
{
    crmm_resource *top = random_stack_top(run->stack);
    size_t same = 0;

    while (same < old->bytes && old->ptr[same] == old->fill) {
        same++;
    }
    if (same != old->bytes) {
        complain(run->stack, "byte %zu of a block of %zu was overwritten", same, old->bytes);
    }
    if (random_below(random, 2) == 0) {
        recording_expect(true, NULL);
        crmm_deallocate_sync(top, old->ptr, old->bytes, old->alignment);
    } else {
        crmm_stream stream = random_stream(random);
        recording_expect(false, stream);
        crmm_deallocate(top, stream, old->ptr, old->bytes, old->alignment);
    }
    free(old);
}

static void check_result(random_stack *stack, crmm_status status, const void *ptr,
                         const block *asked)
{
    if (status == CRMM_SUCCESS) {
        if ((ptr == NULL) != (asked->bytes == 0)) {
            complain(stack, "%p was given for %zu bytes", ptr, asked->bytes);
        }
        if (!crmm_is_pointer_aligned(ptr, asked->alignment)) {
            complain(stack, "%p was given for an alignment of %zu", ptr, asked->alignment);
        }
        if (asked->alignment > RECORDING_ALIGNMENT && asked->bytes != 0 &&
            !stack->gives_any_alignment) {
            complain(stack, "an alignment of %zu was not refused", asked->alignment);
        }
        return;
    }
    if (ptr != stack) {
        complain(stack, "a failed allocation has written its output");
    }
    if (asked->bytes == 0) {
        complain(stack, "0 bytes failed: %s", crmm_last_error()->message);
    }
    if (crmm_last_error()->status != status) {
        complain(stack, "%s was returned and %s recorded", crmm_status_name(status),
                 crmm_status_name(crmm_last_error()->status));
    }
}

static void check_bounds(random_stack *stack)
{
    for (size_t i = 0; i < stack->count; i++) {
        const random_layer_class *of = stack->classes[i];
        if (of->is_within_bounds != NULL && !of->is_within_bounds(stack->layers[i])) {
            complain(stack, "%s in layer %zu is out of bounds", of->name, i);
        }
    }
}

/* A new block, or NULL where the stack gives none. */
static block *allocate(exercise *run, uint64_t *random)
{
    random_stack *stack = run->stack;
    crmm_resource *top = random_stack_top(stack);
    void *ptr = stack; /* no block */
    crmm_status status = CRMM_SUCCESS;
    block asked = {.bytes = random_size(random),
                   .alignment = (size_t)1 << random_below(random, 14),
                   .fill = (unsigned char)random_next(random)};

    if (random_below(random, 2) == 0) {
        recording_expect(true, NULL);
        status = crmm_allocate_sync(top, asked.bytes, asked.alignment, &ptr);
    } else {
        crmm_stream stream = random_stream(random);
        recording_expect(false, stream);
        status = crmm_allocate(top, stream, asked.bytes, asked.alignment, &ptr);
    }
    check_result(stack, status, ptr, &asked);
    check_bounds(stack);
    if (status != CRMM_SUCCESS || ptr == NULL) {
        return NULL;
    }
    asked.ptr = ptr;
    memset(ptr, asked.fill, asked.bytes);
    block *made = malloc(sizeof(*made));
    if (made == NULL) {
        abort();
    }
    *made = asked;
    (void)__atomic_fetch_add(&run->succeeded, 1, __ATOMIC_RELAXED);
    return made;
}

static void *exercise_thread(void *user_data)
{
    exercise *run = user_data;
    uint64_t random = run->seed + 1000 * __atomic_fetch_add(&run->started, 1, __ATOMIC_RELAXED);

    for (size_t i = 0; i < run->operations; i++) {
        block **slot = &run->slots[random_below(&random, SLOTS)];
        block *old = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQ_REL);
        if (old == NULL) {
            old = __atomic_exchange_n(slot, allocate(run, &random), __ATOMIC_ACQ_REL);
        }
        if (old != NULL) {
            give_back(run, &random, old);
        }
    }
    return NULL;
}

/* What must hold once everything has been given back. */
static void check_idle(random_stack *stack)
{
    const recording_resource *bottom = &stack->bottom;

    for (size_t i = 0; i < stack->count; i++) {
        const random_layer_class *of = stack->classes[i];
        if (of->is_idle != NULL && !of->is_idle(stack->layers[i])) {
            complain(stack, "the counters of %s in layer %zu are not back at 0", of->name, i);
        }
    }
    if (stack->count != 0 && stack->classes[0]->limit != NULL &&
        bottom->peak_bytes > stack->classes[0]->limit(stack->layers[0])) {
        complain(stack, "the limit is %zu, and %zu bytes were taken",
                 stack->classes[0]->limit(stack->layers[0]), bottom->peak_bytes);
    }
    if (bottom->live_blocks != 0 || bottom->live_bytes != 0) {
        complain(stack, "%zu blocks of %zu bytes are left", bottom->live_blocks,
                 bottom->live_bytes);
    }
    if (bottom->wrong != 0) {
        complain(stack, "%zu wrong calls; the first: %s", bottom->wrong, bottom->first_wrong);
    }
}

size_t random_stack_exercise(random_stack *stack, uint64_t seed, unsigned threads,
                             size_t operations)
{
    exercise run = {.stack = stack, .seed = seed, .operations = operations};
    pthread_t *others = calloc(threads, sizeof(*others));

    if (others == NULL) {
        abort();
    }
    for (unsigned i = 1; i < threads; i++) {
        if (pthread_create(&others[i], NULL, exercise_thread, &run) != 0) {
            abort();
        }
    }
    (void)exercise_thread(&run);
    for (unsigned i = 1; i < threads; i++) {
        (void)pthread_join(others[i], NULL);
    }
    free(others);
    for (size_t i = 0; i < SLOTS; i++) {
        if (run.slots[i] != NULL) {
            give_back(&run, &seed, run.slots[i]);
        }
    }
    check_idle(stack);
    return run.succeeded;
}

bool random_stack_finish(random_stack *stack)
{
    crmm_resource *bottom = &stack->bottom.base;

    crmm_resource_release(&bottom);
    for (size_t i = stack->count; i-- > 0;) {
        crmm_resource_release(&stack->layers[i]);
    }
    if (!stack->bottom.destroyed) {
        complain(stack, "a reference was lost");
    }
    if (crmm_misuse_count() != 0) {
        complain(stack, "misuse was found");
    }
    recording_resource_finish(&stack->bottom);
    return stack->why[0] == '\0';
}
