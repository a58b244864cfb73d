/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of classes. A new one takes a create function and a row: the function unpacks `values`
 * in the order of the row's parameters. An adaptor's are inside #if, since each can be left out of
 * the build; classes_config.h says which are in.
 */
#include "classes.h"

#include <string.h>

#include <crmm/core/options.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "classes_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
#endif

/* ---- leaves ---- */

static crmm_status create_cuda(const uint64_t *values, crmm_resource *upstream, crmm_resource **out)
{
    (void)values;
    (void)upstream;
    *out = crmm_cuda_memory_resource();
    return CRMM_SUCCESS;
}

static crmm_status create_managed(const uint64_t *values, crmm_resource *upstream,
                                  crmm_resource **out)
{
    (void)values;
    (void)upstream;
    *out = crmm_managed_memory_resource();
    return CRMM_SUCCESS;
}

static crmm_status create_malloc(const uint64_t *values, crmm_resource *upstream,
                                 crmm_resource **out)
{
    (void)values;
    (void)upstream;
    *out = crmm_malloc_memory_resource();
    return CRMM_SUCCESS;
}

/* ---- adaptors ---- */

#if HAVE_ADAPTOR_LIMITING
static crmm_status create_limiting(const uint64_t *values, crmm_resource *upstream,
                                   crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(
        upstream, values[0], CRMM_OPTIONS(crmm_limiting_resource_adaptor, .alignment = values[1]),
        out);
}
#endif

#if HAVE_ADAPTOR_STATISTICS
static crmm_status create_statistics(const uint64_t *values, crmm_resource *upstream,
                                     crmm_resource **out)
{
    (void)values;
    return crmm_statistics_resource_adaptor_create(upstream, out);
}
#endif

#if HAVE_ADAPTOR_TRACKING
static crmm_status create_tracking(const uint64_t *values, crmm_resource *upstream,
                                   crmm_resource **out)
{
    return crmm_tracking_resource_adaptor_create(upstream,
                                                 CRMM_OPTIONS(crmm_tracking_resource_adaptor,
                                                              .capture_stacks = values[0],
                                                              .most_leaks_listed = values[1]),
                                                 out);
}
#endif

/* ---- the table ---- */

const resource_class classes[] = {
    {
        .name = "cuda",
        .summary = "device memory of cudaMalloc",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .create = create_cuda,
    },
    {
        .name = "managed",
        .summary = "managed memory of cudaMallocManaged",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .create = create_managed,
    },
    {
        .name = "malloc",
        .summary = "host memory of the C heap, without streams",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .create = create_malloc,
    },
#if HAVE_ADAPTOR_LIMITING
    {
        .name = "limiting",
        .summary = "refuses what would exceed a limit",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"allocation_limit", PARAMETER_SIZE, true, "most bytes outstanding at any time"},
                {"alignment", PARAMETER_SIZE, false,
                 "multiple that requests are counted as; default 256"},
            },
        .create = create_limiting,
    },
#endif
#if HAVE_ADAPTOR_STATISTICS
    {
        .name = "statistics",
        .summary = "counts bytes and allocations",
        .upstream = UPSTREAM_CUDA,
        .create = create_statistics,
    },
#endif
#if HAVE_ADAPTOR_TRACKING
    {
        .name = "tracking",
        .summary = "remembers every allocation and finds wrong frees",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"capture_stacks", PARAMETER_FLAG, false, "remember the calls that lead to each"},
                {"most_leaks_listed", PARAMETER_COUNT, false,
                 "allocations listed at release; default 100"},
            },
        .create = create_tracking,
    },
#endif
};

const size_t class_count = sizeof(classes) / sizeof(classes[0]);

const resource_class *class_find(const char *name)
{
    for (size_t i = 0; i < class_count; i++) {
        if (strcmp(classes[i].name, name) == 0) {
            return &classes[i];
        }
    }
    return NULL;
}

int class_find_parameter(const resource_class *of, const char *name)
{
    for (int i = 0; i < CLASS_MOST_PARAMETERS && of->parameters[i].name != NULL; i++) {
        if (strcmp(of->parameters[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}
