/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of all the adaptors of the build; program_random_stacks.c has the threads. */
#include <stdlib.h>

#include <crmm/containers/device_buffer.h>

#include "cuda_support.h"
#include "expect.h"
#include "random_numbers.h"
#include "random_stack.h"

static void expect_good(random_stack *stack, uint64_t seed)
{
    bool good = random_stack_finish(stack);
    cr_assert(good, "seed %llu: %s", (unsigned long long)seed, stack->why);
}

static void build(random_stack *stack, uint64_t *random, size_t count)
{
    bool built = random_stack_init(stack, random, count);
    cr_assert(built, "%s", stack->why);
}

/* User report 52: upstream gets back exactly what it gave, through stacks in any order. */
Test(random_stacks, pass_random_operations)
{
    size_t succeeded = 0;

    need_devices(1);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        random_stack stack;
        uint64_t random = seed;
        build(&stack, &random, seed % (RANDOM_STACK_LAYERS + 1));
        stack.bottom.fail_per_thousand = (unsigned)random_below(&random, 200);
        succeeded += random_stack_exercise(&stack, seed, 1, 600);
        expect_good(&stack, seed);
    }
    cr_assert(succeeded > 60 * 600 / 10, "only %zu allocations succeeded", succeeded);
}

/* User report 55: nothing is lost, whichever call of the upstream fails. */
Test(random_stacks, lose_nothing_whichever_call_fails)
{
    /* Few layers, since each may try a failed request several times over. */
    enum { LAYERS = 3, OPERATIONS = 40, MOST_CALLS = 2000 };

    need_devices(1);
    for (uint64_t seed = 1; seed <= 12; seed++) {
        size_t refused = 1;
        for (uint64_t k = 1; refused != 0; k++) {
            random_stack stack;
            uint64_t random = seed;
            cr_assert(k < MOST_CALLS);
            build(&stack, &random, LAYERS);
            stack.bottom.fail_call = k;
            (void)random_stack_exercise(&stack, seed, 1, OPERATIONS);
            refused = stack.bottom.refused;
            expect_good(&stack, seed);
        }
    }
}

/* Release what the digits of `order` say, which are 0 to 5, the bottom's own reference last; a
 * block from the top goes back just before the top does. */
static void release_in_order(uint64_t seed, const size_t *order)
{
    random_stack stack;
    uint64_t random = seed;
    void *ptr = NULL;

    build(&stack, &random, RANDOM_STACK_LAYERS);
    recording_expect(true, NULL);
    bool given = crmm_allocate_sync(random_stack_top(&stack), 1000, 64, &ptr) == CRMM_SUCCESS;
    for (size_t i = 0; i < RANDOM_STACK_LAYERS; i++) {
        cr_assert(!stack.bottom.destroyed);
        if (order[i] == RANDOM_STACK_LAYERS - 1 && given) {
            crmm_deallocate_sync(stack.layers[order[i]], ptr, 1000, 64);
        }
        crmm_resource_release(&stack.layers[order[i]]);
    }
    expect_equal(stack.bottom.live_blocks, 0);
    expect_good(&stack, seed);
}

static size_t release_in_every_order(uint64_t seed, size_t *order, size_t count)
{
    size_t orders = 0;

    if (count == RANDOM_STACK_LAYERS) {
        release_in_order(seed, order);
        return 1;
    }
    for (size_t next = 0; next < RANDOM_STACK_LAYERS; next++) {
        bool taken = false;
        for (size_t i = 0; i < count; i++) {
            taken |= order[i] == next;
        }
        if (!taken) {
            order[count] = next;
            orders += release_in_every_order(seed, order, count + 1);
        }
    }
    return orders;
}

/* User report 56: the program's references may go in any order. */
Test(random_stacks, are_released_in_any_order)
{
    need_devices(1);
    random_stack probe;
    uint64_t random = 1;
    build(&probe, &random, RANDOM_STACK_LAYERS);
    bool any = probe.count != 0;
    expect_good(&probe, 1);
    if (!any) {
        cr_skip_test("no adaptor in this build");
    }
    for (uint64_t seed = 1; seed <= 6; seed++) {
        size_t order[RANDOM_STACK_LAYERS] = {0};
        expect_equal(release_in_every_order(seed, order, 0), 120);
    }
}

/* User report 40: a buffer may outlive the program's references to what it came through. */
Test(random_stacks, outlive_the_program_as_long_as_a_buffer_lives)
{
    need_devices(1);
    for (const random_layer_class *of = random_layer_classes; of->name != NULL; of++) {
        recording_resource bottom;
        crmm_resource *mr = NULL;
        crmm_device_buffer buffer = {0};
        uint64_t random = 5;

        recording_resource_init(&bottom, CRMM_HOST_ACCESSIBLE | CRMM_DEVICE_ACCESSIBLE |
                                             CRMM_STREAM_ORDERED);
        recording_expect(false, NULL);
        expect_success(of->create(&bottom.base, &random, &mr));
        expect_success(crmm_device_buffer_init(&buffer, 1000, NULL, mr));
        crmm_resource *own = &bottom.base;
        crmm_resource_release(&own);
        crmm_resource_release(&mr);
        cr_assert(!bottom.destroyed);
        /* A prefetch may be under way where a GPU reaches the heap. */
        cuda(cudaDeviceSynchronize());
        crmm_device_buffer_finish(&buffer);
        cr_assert(bottom.destroyed, "%s", of->name);
        expect_equal(bottom.live_blocks, 0);
        cr_assert(bottom.wrong == 0, "%s", bottom.first_wrong);
        recording_resource_finish(&bottom);
    }
}

/* User report 53, through each adaptor. */
Test(random_stacks, refuse_alignments_that_are_none)
{
    static const size_t bad[] = {0, 3, 48, SIZE_MAX};

    need_devices(1);
    for (const random_layer_class *of = random_layer_classes; of->name != NULL; of++) {
        recording_resource bottom;
        crmm_resource *mr = NULL;
        uint64_t random = 5;
        void *ptr = &bottom;

        recording_resource_init(&bottom, CRMM_HOST_ACCESSIBLE);
        recording_expect(true, NULL);
        expect_success(of->create(&bottom.base, &random, &mr));
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            expect_status(crmm_allocate_sync(mr, 10, bad[i], &ptr), CRMM_ERROR_INVALID_ARGUMENT);
            expect_status(crmm_allocate_sync(mr, 0, bad[i], &ptr), CRMM_ERROR_INVALID_ARGUMENT);
        }
        cr_assert(ptr == &bottom);
        expect_equal(bottom.allocations, 0);
        expect_success(crmm_allocate_sync(mr, 10, 1, &ptr));
        crmm_deallocate_sync(mr, ptr, 10, 1);
        expect_equal(bottom.live_blocks, 0);
        crmm_resource_release(&mr);
        recording_resource_finish(&bottom);
    }
}
