/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured over the null floor: pools over an upstream that has addresses and no memory. */
#include <string.h>

#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>

#include "candidates.h"
#include "null_upstream.h"

/* More than any case takes, so that only a case's own limit counts. */
#define MOST_BYTES ((size_t)1 << 42)

static crmm_status create_over(bool in_place, const bench_case *of, subject *out,
                               crmm_status (*create)(crmm_resource *, const bench_case *,
                                                     subject *))
{
    crmm_resource *upstream = null_upstream_create(MOST_BYTES, in_place);

    if (upstream == NULL) {
        bench_fail("no host memory");
    }
    /* What is held is what the upstream gave, so that no pool is trusted with its own figures. */
    out->books = upstream;
    return create(upstream, of, out);
}

static crmm_status create_shape(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(false, of, out, create_rmm_shape);
}

/* As without an initial size: its memory doubles. */
static crmm_status create_growing_shape(const char *name, const bench_case *of, subject *out)
{
    bench_case growing = *of;

    (void)name;
    growing.pool_bytes = 0;
    growing.is_limited = false;
    return create_over(false, &growing, out, create_rmm_shape);
}

static crmm_status create_pool_in_place(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(true, of, out, create_pool);
}

static crmm_status create_pool_of_chunks(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(false, of, out, create_pool);
}

/* Of 64 KiB, which is enough for W1 only. */
static crmm_status create_blocks(crmm_resource *upstream, const bench_case *of, subject *out)
{
    (void)of;
    crmm_status status = crmm_fixed_size_memory_resource_create(
        upstream, CRMM_OPTIONS(crmm_fixed_size_memory_resource, .block_size = (size_t)64 << 10),
        &out->resource);
    crmm_resource_release(&upstream);
    return status;
}

static crmm_status create_bins(crmm_resource *upstream, const bench_case *of, subject *out)
{
    (void)of;
    crmm_status status = crmm_binning_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = 8, .max_size_exponent = 26),
        &out->resource);
    crmm_resource_release(&upstream);
    return status;
}

/* Of what is given to those that get all of it at once. */
static crmm_status create_one_chunk(crmm_resource *upstream, const bench_case *of, subject *out)
{
    crmm_status status = crmm_arena_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_arena_memory_resource,
                     .arena_size = of->pool_bytes != 0 ? of->pool_bytes : of->most_bytes),
        &out->resource);
    crmm_resource_release(&upstream);
    out->is_given = true;
    return status;
}

static crmm_status create_fixed_size(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(false, of, out, create_blocks);
}

static crmm_status create_binning(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(false, of, out, create_bins);
}

static crmm_status create_arena(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    return create_over(false, of, out, create_one_chunk);
}

static const candidate table[] = {
    {reference_name, create_shape},    {"rmm_shape_grow", create_growing_shape},
    {"pool", create_pool_in_place},    {"pool_chunks", create_pool_of_chunks},
    {"fixed_size", create_fixed_size}, {"binning", create_binning},
    {"arena", create_arena},
};

const char *const default_candidates[] = {
    reference_name,
    "pool",
};
const size_t default_candidate_count = sizeof(default_candidates) / sizeof(default_candidates[0]);

const char candidates_help[] =
    "    rmm_shape       one mutex and walked lists, given its memory at once\n"
    "    rmm_shape_grow  the same, growing from nothing\n"
    "    pool            pool_memory_resource, growing in place as over vmm\n"
    "    pool_chunks     the same over blocks that cannot grow, as over cuda\n"
    "    fixed_size      blocks of 64 KiB: W1 only\n"
    "    binning         bins of 256 bytes to 64 MiB\n"
    "    arena           one chunk, given at once\n";

bool candidate_find(const char *name, candidate *out)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *out = table[i];
            return true;
        }
    }
    return false;
}
