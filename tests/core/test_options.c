/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/core/options.h>

#include <stdint.h>

#include <crmm/internal/options.h>

#include "expect.h"

/* The options of some class, as three versions of the library know them. */
typedef struct old_options {
    size_t struct_size;
    size_t first;
} old_options;

typedef struct sample_options {
    size_t struct_size;
    size_t first;
    const char *second;
} sample_options;

typedef struct new_options {
    size_t struct_size;
    size_t first;
    const char *second;
    uint64_t third;
} new_options;

static crmm_status load(sample_options *known, const void *given)
{
    return crmm_priv_load_options("sample", known, sizeof(*known), given);
}

Test(options, null_means_all_defaults)
{
    sample_options known = {1, 2, "x"};

    expect_success(load(&known, NULL));
    expect_equal(known.struct_size, sizeof(known));
    expect_equal(known.first, 0);
    cr_assert(known.second == NULL);
}

Test(options, macro_gives_a_filled_struct)
{
    sample_options known;

    expect_success(load(&known, CRMM_OPTIONS(sample, .first = 5)));
    expect_equal(known.first, 5);
    cr_assert(known.second == NULL);
}

Test(options, an_older_caller_gets_the_defaults_of_what_it_does_not_know)
{
    sample_options known = {1, 2, "x"};
    old_options given = {sizeof(given), 9};

    expect_success(load(&known, &given));
    expect_equal(known.struct_size, sizeof(known));
    expect_equal(known.first, 9);
    cr_assert(known.second == NULL);
}

Test(options, a_newer_caller_is_served_while_it_asks_for_nothing_new)
{
    sample_options known;
    new_options given = {sizeof(given), 9, "y", 0};

    expect_success(load(&known, &given));
    expect_equal(known.first, 9);
    given.third = 1;
    expect_failure(load(&known, &given), CRMM_ERROR_UNSUPPORTED, "the option at byte 24");
}

Test(options, a_size_that_cannot_be_is_refused)
{
    sample_options known = {1, 2, "x"};
    sample_options given = {0, 9, NULL};
    const size_t bad[] = {0, 1, 7, 9, 23, 4104, (size_t)1 << 32, SIZE_MAX, SIZE_MAX - 7};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        given.struct_size = bad[i];
        expect_failure(load(&known, &given), CRMM_ERROR_INVALID_ARGUMENT, "options->struct_size");
    }
    expect_equal(known.first, 2); /* untouched */
}

Test(options, init_zeroes_and_sets_the_size)
{
    sample_options options = {1, 2, "x"};

    crmm_priv_init_options(&options, sizeof(options));
    expect_equal(options.struct_size, sizeof(options));
    expect_equal(options.first, 0);
    crmm_priv_init_options(NULL, 8);
}
