/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured over CUDA: the pools, and any stack of resources that crmm-replay knows. */
#include <string.h>

#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>

#include "candidates.h"
#include "spec.h"

static crmm_status create_shape(const char *name, const bench_case *of, subject *out)
{
    (void)name;
    crmm_status status = create_rmm_shape(crmm_cuda_memory_resource(), of, out);
    out->books = out->resource;
    return status;
}

static crmm_status create_pool_over_vmm(const char *name, const bench_case *of, subject *out)
{
    crmm_resource *upstream = NULL;

    (void)name;
    crmm_status status = crmm_vmm_memory_resource_create(NULL, &upstream);
    if (status == CRMM_SUCCESS) {
        status = create_pool(upstream, of, out);
    }
    out->books = out->resource;
    return status;
}

static crmm_status create_from_spec(const char *name, const bench_case *of, subject *out)
{
    problem why;
    spec parsed;

    (void)of;
    if (!spec_parse(name, &parsed, &why)) {
        bench_fail("%s", why.text);
    }
    crmm_status status = spec_create(&parsed, &out->resource);
    out->books = out->resource;
    return status;
}

static const candidate table[] = {
    {reference_name, create_shape},
    {"pool", create_pool_over_vmm},
};

const char *const default_candidates[] = {
    reference_name,
    "cuda_async",
    "pool",
};
const size_t default_candidate_count = sizeof(default_candidates) / sizeof(default_candidates[0]);

const char candidates_help[] =
    "    rmm_shape  one mutex and walked lists over cuda, given its memory at once\n"
    "    pool       pool_memory_resource over vmm, growing\n"
    "    SPEC       any stack of crmm-replay's classes, such as cuda or cuda_async\n";

bool candidate_find(const char *name, candidate *out)
{
    problem why;
    spec parsed;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name) == 0) {
            *out = table[i];
            return true;
        }
    }
    *out = (candidate){.name = name, .create = create_from_spec};
    return spec_parse(name, &parsed, &why);
}
