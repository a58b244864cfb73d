/* SPDX-License-Identifier: Apache-2.0 */
#include "candidates.h"

#include <string.h>

#include <crmm/device/pool_memory_resource.h>

#include "rmm_shape.h"

const char reference_name[] = "rmm_shape";

void subject_finish(subject *of)
{
    crmm_resource_release(&of->resource);
}

bool subject_get_calls(const subject *of, driver_calls *out)
{
    *out = (driver_calls){0};
    if (strcmp(crmm_resource_name(of->resource), reference_name) == 0) {
        rmm_shape_calls calls = rmm_shape_get_calls(of->resource);
        *out = (driver_calls){.records = calls.records, .waits = calls.waits};
        return true;
    }
    crmm_pool_statistics statistics = {.struct_size = sizeof(statistics)};
    if (strcmp(crmm_resource_name(of->resource), "pool_memory_resource") == 0 &&
        crmm_pool_memory_resource_statistics(of->resource, &statistics) == CRMM_SUCCESS) {
        *out = (driver_calls){.records = statistics.records,
                              .queries = statistics.queries,
                              .waits = statistics.waits,
                              .moves = statistics.moves};
        return true;
    }
    return false;
}

crmm_status create_pool(crmm_resource *upstream, const bench_case *of, subject *out)
{
    size_t given = of->is_limited ? of->pool_bytes : 0;

    crmm_status status = crmm_pool_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = given,
                     .maximum_pool_size = of->is_limited ? given : of->most_bytes),
        &out->resource);
    crmm_resource_release(&upstream);
    out->is_given = given != 0;
    return status;
}

crmm_status create_rmm_shape(crmm_resource *upstream, const bench_case *of, subject *out)
{
    crmm_status status = rmm_shape_create(upstream, of->pool_bytes,
                                          of->is_limited ? of->pool_bytes : 0, &out->resource);
    crmm_resource_release(&upstream);
    out->is_given = of->pool_bytes != 0;
    return status;
}
