/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <criterion/criterion.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "classes_config.h"
#include "spec.h"

static void expect_refused(const char *text, const char *reason)
{
    spec parsed;
    problem why;

    cr_assert(!spec_parse(text, &parsed, &why), "\"%s\"", text);
    cr_expect(strstr(why.text, text) != NULL, "\"%s\" does not name the SPEC", why.text);
    cr_expect(strstr(why.text, reason) != NULL, "\"%s\" does not say \"%s\"", why.text, reason);
}

static crmm_resource *create(const char *text)
{
    spec parsed;
    problem why;
    crmm_resource *created = NULL;

    cr_assert(spec_parse(text, &parsed, &why), "%s", why.text);
    cr_assert(spec_create(&parsed, &created) == CRMM_SUCCESS);
    return created;
}

Test(spec, every_class_has_a_name_and_a_summary)
{
    for (size_t i = 0; i < class_count; i++) {
        cr_expect(class_find(classes[i].name) == &classes[i], "%s", classes[i].name);
        cr_expect(strpbrk(classes[i].name, "+:,=") == NULL, "%s", classes[i].name);
        cr_expect(classes[i].summary != NULL && classes[i].create != NULL, "%s", classes[i].name);
    }
}

Test(spec, leaves_are_the_shared_resources)
{
    cr_expect(create("cuda") == crmm_cuda_memory_resource());
    cr_expect(create("malloc") == crmm_malloc_memory_resource());
}

Test(spec, what_is_no_part_is_refused)
{
    expect_refused("", "part 1: no class \"\" in this build");
    expect_refused("cudaa", "part 1: no class \"cudaa\" in this build");
    expect_refused("cuda_memory_resource", "no class \"cuda_memory_resource\"");
    expect_refused("cuda ", "no class \"cuda \"");
    expect_refused("cuda:", "cuda has no option \"\"");
    expect_refused("cuda:size=1", "cuda has no option \"size\"");
    expect_refused("cuda+malloc", "cuda takes no upstream, so malloc cannot be to its right");
}

/* What a SPEC builds, as it describes itself. */
static const struct {
    bool built;
    const char *text;
    const char *description;
} described[] = {
    {HAVE_ADAPTOR_ALIGNED, "aligned:alignment=4KiB,alignment_threshold=64KiB+malloc",
     "aligned_resource_adaptor (alignment 4096, threshold 65536) over malloc_memory_resource"},
    {HAVE_ADAPTOR_FAILURE_CALLBACK, "failure_callback:attempts=3+malloc",
     "failure_callback_resource_adaptor over malloc_memory_resource"},
    {HAVE_ADAPTOR_FAULT_INJECTION,
     "fault_injection:fail_call=1,fail_call_count=2,fail_every=3,fail_above=4KiB,fail_per_million="
     "5,"
     "seed=6,status=4+malloc",
     "fault_injection_resource_adaptor (calls 0, failures 0) over malloc_memory_resource"},
    {HAVE_ADAPTOR_PREFETCH, "prefetch+managed",
     "prefetch_resource_adaptor (refused 0) over managed_memory_resource"},
    {true, "pinned_host", "pinned_host_memory_resource"},
    {true, "pinned_host:write_combined=1,fallback_to_pageable=1",
     "pinned_host_memory_resource (device 0, no NUMA node, write-combined, 0 touch threads, 0 "
     "allocations pageable)"},
    {true, "pinned_host:numa_node=1,touch_threads=2",
     "pinned_host_memory_resource (device 0, NUMA node 0, 2 touch threads)"},
    {HAVE_ADAPTOR_THREAD_SAFE, "thread_safe",
     "thread_safe_resource_adaptor over cuda_memory_resource"},
};

Test(spec, resources_are_what_their_parts_say)
{
    char text[200];

    for (size_t i = 0; i < sizeof(described) / sizeof(described[0]); i++) {
        if (described[i].built) {
            crmm_resource *created = create(described[i].text);
            (void)crmm_resource_describe(created, text, sizeof(text));
            cr_expect(strcmp(text, described[i].description) == 0, "%s", text);
            crmm_resource_release(&created);
        }
    }
}

#if HAVE_ADAPTOR_FAILURE_CALLBACK && HAVE_ADAPTOR_FAULT_INJECTION
/* The third attempt is the last, and the first that is not made to fail. */
Test(spec, failed_allocations_are_tried_again)
{
    crmm_resource *enough =
        create("failure_callback:attempts=3+fault_injection:fail_call=1,fail_call_count=2+malloc");
    crmm_resource *few =
        create("failure_callback:attempts=2+fault_injection:fail_call=1,fail_call_count=2+malloc");
    void *ptr = NULL;

    cr_assert(crmm_allocate_sync(enough, 10, 16, &ptr) == CRMM_SUCCESS);
    crmm_deallocate_sync(enough, ptr, 10, 16);
    cr_assert(crmm_allocate_sync(few, 10, 16, &ptr) == CRMM_ERROR_OUT_OF_MEMORY);
    crmm_resource_release(&enough);
    crmm_resource_release(&few);
}
#endif

Test(spec, suballocators_stand_on_cuda_or_what_is_named)
{
    static const struct {
        const char *text;
        const char *described;
    } cases[] = {
        {"fixed_size:block_size=64KiB,blocks_to_preallocate=2+malloc",
         "fixed_size_memory_resource (device -1, blocks of 65536) over malloc_memory_resource"},
        {"binning:min_size_exponent=10,max_size_exponent=12,blocks_to_preallocate=2+malloc",
         "binning_memory_resource (device -1, 3 bins of 1024 to 4096) over malloc_memory_resource"},
        {"arena:arena_size=1MiB,dump_log_on_failure=1+malloc",
         "arena_memory_resource (device -1, size 1048576) over malloc_memory_resource"},
        {"binning", "binning_memory_resource (device 0, no bins) over cuda_memory_resource"},
    };
    char text[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        crmm_resource *created = create(cases[i].text);
        (void)crmm_resource_describe(created, text, sizeof(text));
        cr_expect(strcmp(text, cases[i].described) == 0, "%s", text);
        crmm_resource_release(&created);
    }
    expect_refused("fixed_size:blocks=3", "fixed_size has no option \"blocks\"");
}

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>

static void expect_limit(const char *text, size_t limit, const crmm_resource *upstream)
{
    crmm_resource *created = create(text);

    cr_expect(crmm_limiting_resource_adaptor_allocation_limit(created) == limit, "\"%s\"", text);
    cr_expect(crmm_resource_upstream(created) == upstream, "\"%s\"", text);
    crmm_resource_release(&created);
}

Test(spec, the_upstream_is_to_the_right_or_cuda)
{
    expect_limit("limiting:allocation_limit=64GiB+cuda", (size_t)64 << 30,
                 crmm_cuda_memory_resource());
    expect_limit("limiting:allocation_limit=64GiB", (size_t)64 << 30, crmm_cuda_memory_resource());
    expect_limit("limiting:allocation_limit=4096,alignment=1+malloc", 4096,
                 crmm_malloc_memory_resource());
    expect_limit("limiting:alignment=4KiB,allocation_limit=0+malloc", 0,
                 crmm_malloc_memory_resource());
}

Test(spec, parts_stack_outermost_first)
{
    crmm_resource *created =
        create("limiting:allocation_limit=1KiB+limiting:allocation_limit=2KiB+malloc");
    crmm_resource *below = crmm_resource_upstream(created);

    cr_expect(crmm_limiting_resource_adaptor_allocation_limit(created) == 1024);
    cr_expect(crmm_limiting_resource_adaptor_allocation_limit(below) == 2048);
    cr_expect(crmm_resource_upstream(below) == crmm_malloc_memory_resource());
    crmm_resource_release(&created);
}

Test(spec, wrong_options_name_part_option_and_value)
{
    expect_refused("limiting", "limiting needs allocation_limit=..., which takes bytes");
    expect_refused("limiting:alignment=512", "limiting needs allocation_limit=");
    expect_refused("limiting:allocation_limit", "option allocation_limit of limiting has no value");
    expect_refused("limiting:allocation_limit=",
                   "option allocation_limit of limiting cannot be \"\"; it takes bytes");
    expect_refused("limiting:allocation_limit=64GB",
                   "option allocation_limit of limiting cannot be \"64GB\"");
    expect_refused("limiting:allocation_limit=1GiB=2", "cannot be \"1GiB=2\"");
    expect_refused("limiting:limit=1GiB", "limiting has no option \"limit\"");
    expect_refused("limiting:struct_size=16", "limiting has no option \"struct_size\"");
    expect_refused("limiting:allocation_limit=1,allocation_limit=1",
                   "option allocation_limit of limiting is given twice");
    expect_refused("limiting:allocation_limit=1,", "limiting has no option \"\"");
    expect_refused("limiting:allocation_limit=1+", "part 2: no class \"\"");
    expect_refused("limiting:allocation_limit=1+cuda+cuda", "cuda takes no upstream");
}

/* What only the class itself can tell comes back from its create function, described. */
Test(spec, a_class_refuses_what_it_cannot_be_created_with)
{
    spec parsed;
    problem why;
    crmm_resource *created = NULL;

    cr_assert(spec_parse("limiting:allocation_limit=1,alignment=3+malloc", &parsed, &why));
    cr_expect(spec_create(&parsed, &created) == CRMM_ERROR_INVALID_ARGUMENT);
    cr_expect(created == NULL);
}

Test(spec, too_many_parts_are_refused)
{
    char text[1024] = "limiting:allocation_limit=1";

    for (int i = 0; i < SPEC_MOST_PARTS; i++) {
        strcat(text, "+limiting:allocation_limit=1");
    }
    expect_refused(text, "more than 16 parts");
}
#endif

#if HAVE_ADAPTOR_STATISTICS && HAVE_ADAPTOR_TRACKING
Test(spec, statistics_and_tracking_are_what_their_parts_say)
{
    crmm_resource *created = create("statistics+tracking:capture_stacks=1,most_leaks_listed=3");
    char text[256];

    (void)crmm_resource_describe(created, text, sizeof(text));
    cr_expect(strstr(text, "statistics_resource_adaptor (") == text, "%s", text);
    cr_expect(strstr(text, " over tracking_resource_adaptor (allocated 0, outstanding 0, with "
                           "stacks) over cuda_memory_resource") != NULL,
              "%s", text);
    crmm_resource_release(&created);
    expect_refused("tracking:capture_stacks=2",
                   "option capture_stacks of tracking cannot be \"2\"");
    expect_refused("statistics:peak=1", "statistics has no option \"peak\"");
}
#endif
