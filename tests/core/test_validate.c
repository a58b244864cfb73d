/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validation: with CRMM_VALIDATE=1 the resources without books of their own keep a ledger, and
 * resources that were released are still known.
 */
#include <crmm/internal/validate.h>

#include <stdlib.h>

#include <crmm/host/malloc_memory_resource.h>
#include <crmm/interfaces/resource.h>
#include <crmm/internal/ledger.h>

#include "expect.h"
#include "misuse_recorder.h"

/* Each test is a process of its own, so each reads the environment anew. */
static void validate(void)
{
    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    misuse_recorder_start();
}

Test(validate, environment_decides)
{
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    cr_assert(!crmm_priv_validate());
    cr_assert(setenv("CRMM_VALIDATE", "1", 1) == 0);
    cr_assert(!crmm_priv_validate()); /* read once */
}

Test(validate, default_is_that_of_the_build)
{
    cr_assert(unsetenv("CRMM_VALIDATE") == 0);
    expect_equal(crmm_priv_validate(), CRMM_PRIV_VALIDATE_DEFAULT);
}

Test(validate, finds_double_frees)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    void *ptr = NULL;

    validate();
    expect_success(crmm_allocate_sync(mr, 100, 16, &ptr));
    crmm_deallocate_sync(mr, ptr, 100, 16);
    expect_equal(misuse_recorded()->count, 0);
    expect_misuse(crmm_deallocate_sync(mr, ptr, 100, 16), CRMM_MISUSE_DOUBLE_FREE,
                  "malloc_memory_resource");
    expect_misuse(crmm_deallocate_sync(mr, ptr, 100, 16), CRMM_MISUSE_DOUBLE_FREE,
                  "was given back twice");
    cr_assert(misuse_recorded()->latest.ptr == ptr);
    expect_equal(misuse_recorded()->latest.bytes, 100);
}

Test(validate, finds_wrong_sizes_alignments_and_pointers_and_leaves_the_block)
{
    crmm_resource *mr = crmm_malloc_memory_resource();
    crmm_memory_info info = {.struct_size = sizeof(info)};
    char *ptr = NULL;

    validate();
    expect_misuse(crmm_deallocate_sync(mr, &info, 100, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    expect_success(crmm_allocate_sync(mr, 100, 16, (void **)&ptr));
    expect_misuse(crmm_deallocate_sync(mr, ptr, 101, 16), CRMM_MISUSE_SIZE_MISMATCH,
                  "allocated with 100 bytes and given back with 101");
    expect_misuse(crmm_deallocate_sync(mr, ptr, 100, 32), CRMM_MISUSE_ALIGNMENT_MISMATCH,
                  "allocated with alignment 16 and given back with alignment 32");
    expect_misuse(crmm_deallocate_sync(mr, ptr + 16, 84, 16), CRMM_MISUSE_FOREIGN_POINTER,
                  "was not allocated here");
    memset(ptr, 1, 100);
    expect_success(crmm_resource_info(mr, &info));
    expect_equal(info.live, 100);
    crmm_deallocate_sync(mr, ptr, 100, 16);
    expect_equal(misuse_recorded()->count, 4);
}

Test(validate, an_address_that_comes_back_is_live_again)
{
    crmm_resource *mr = crmm_malloc_memory_resource();

    validate();
    for (int round = 0; round < 1000; round++) {
        void *ptr = NULL;
        size_t bytes = 100 + (size_t)round % 7;
        expect_success(crmm_allocate_sync(mr, bytes, 16, &ptr));
        crmm_deallocate_sync(mr, ptr, bytes, 16);
    }
    expect_equal(misuse_recorded()->count, 0);
}

Test(validate, ledger_grows_and_reports_what_is_left)
{
    enum { BLOCKS = 5000 };
    crmm_priv_ledger ledger = CRMM_PRIV_LEDGER_INITIALIZER;
    const char *base = (const char *)(uintptr_t)0x100000;

    validate();
    for (size_t i = 0; i < BLOCKS; i++) {
        cr_assert(crmm_priv_ledger_add(&ledger, base + i * 256, i + 1, 256));
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 1000 != 999) {
            cr_assert(crmm_priv_ledger_take(&ledger, NULL, base + i * 256, i + 1, 256));
        }
    }
    expect_equal(misuse_recorded()->count, 0);
    expect_misuse(crmm_priv_ledger_finish(&ledger, NULL), CRMM_MISUSE_LEAK,
                  "released with 5 allocations of 15000 bytes alive");
    expect_equal(misuse_recorded()->latest.bytes, 15000);
}

/* ---- released resources ---- */

static crmm_status give_nothing(crmm_resource *resource, size_t bytes, size_t alignment, void **ptr)
{
    (void)resource;
    (void)bytes;
    (void)alignment;
    (void)ptr;
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, "nothing");
}

static void take_nothing(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    (void)resource;
    (void)ptr;
    (void)bytes;
    (void)alignment;
}

static const crmm_resource_ops short_lived_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = give_nothing,
    .deallocate_sync = take_nothing,
    .destroy = crmm_resource_storage_free,
};

static crmm_resource *make_short_lived(void)
{
    crmm_resource *made = crmm_resource_storage_allocate(sizeof(struct crmm_resource));
    cr_assert(made != NULL);
    crmm_resource_init(made, &short_lived_ops, "short_lived", CRMM_HOST_ACCESSIBLE);
    return made;
}

Test(validate, finds_every_use_of_a_released_resource)
{
    validate();
    crmm_resource *made = make_short_lived();
    crmm_resource *stale = made;
    crmm_memory_info info = {.struct_size = sizeof(info)};
    void *ptr = &info;

    crmm_resource_release(&made);
    expect_equal(misuse_recorded()->count, 0);
    expect_misuse(expect_failure(crmm_allocate_sync(stale, 8, 8, &ptr), CRMM_ERROR_INVALID_ARGUMENT,
                                 "short_lived was released"),
                  CRMM_MISUSE_USE_AFTER_RELEASE, "short_lived used after its last release");
    cr_assert(ptr == &info);
    expect_misuse(crmm_deallocate_sync(stale, ptr, 8, 8), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    expect_misuse(crmm_deallocate_ptr(stale, NULL, ptr), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    expect_misuse((void)crmm_resource_retain(stale), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    expect_misuse((void)!crmm_resource_trim(stale, 0, NULL), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    expect_misuse((void)!crmm_resource_info(stale, &info), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    crmm_resource *again = stale;
    expect_misuse(crmm_resource_release(&again), CRMM_MISUSE_USE_AFTER_RELEASE, "");
    cr_assert(again == NULL);
}

Test(validate, without_it_storage_is_freed)
{
    cr_assert(setenv("CRMM_VALIDATE", "0", 1) == 0);
    crmm_resource *made = make_short_lived();
    crmm_resource_release(&made); /* leak checkers see to the rest */
    cr_assert(made == NULL);
}

Test(validate, storage_smaller_than_a_resource_is_refused)
{
    cr_assert(crmm_resource_storage_allocate(8) == NULL);
    crmm_resource_storage_free(NULL);
}
