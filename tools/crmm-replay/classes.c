/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of classes. A new one takes a create function and a row: the function unpacks `values`
 * in the order of the row's parameters. An adaptor's are inside #if, since each can be left out of
 * the build; classes_config.h says which are in.
 */
#include "classes.h"

#include <string.h>

#include <crmm/core/options.h>
#include <crmm/device/cuda_async_managed_memory_resource.h>
#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "classes_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
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

static crmm_status create_pinned_host(const uint64_t *values, crmm_resource *upstream,
                                      crmm_resource **out)
{
    (void)values;
    (void)upstream;
    *out = crmm_pinned_host_memory_resource();
    return CRMM_SUCCESS;
}

static crmm_status create_cuda_async(const uint64_t *values, crmm_resource *upstream,
                                     crmm_resource **out)
{
    (void)upstream;
    return crmm_cuda_async_memory_resource_create(
        CRMM_OPTIONS(crmm_cuda_async_memory_resource, .initial_pool_size = values[0],
                     .release_threshold = values[1], .export_handle_type = values[2],
                     .require = values[3]),
        out);
}

static crmm_status create_cuda_async_managed(const uint64_t *values, crmm_resource *upstream,
                                             crmm_resource **out)
{
    (void)values;
    (void)upstream;
    return crmm_cuda_async_managed_memory_resource_create(out);
}

static crmm_status create_vmm(const uint64_t *values, crmm_resource *upstream, crmm_resource **out)
{
    (void)upstream;
    return crmm_vmm_memory_resource_create(
        CRMM_OPTIONS(crmm_vmm_memory_resource, .handle_size = values[0],
                     .export_handle_type = values[1], .require = values[2]),
        out);
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
    {
        .name = "pinned_host",
        .summary = "page-locked host memory of cudaHostAlloc",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .locks_memory = true,
        .create = create_pinned_host,
    },
    {
        .name = "cuda_async",
        .summary = "a memory pool of the driver",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .parameters =
            {
                {"initial_pool_size", PARAMETER_SIZE, false, "bytes to have ready; default none"},
                {"release_threshold", PARAMETER_SIZE, false,
                 "bytes to keep when memory could go back; default all"},
                {"export_handle_type", PARAMETER_SIZE, false,
                 "how memory can be shared: 1 file descriptor, 8 fabric; default not at all"},
                {"require", PARAMETER_FLAG, false, "fail where the device has no memory pools"},
            },
        .create = create_cuda_async,
    },
    {
        .name = "cuda_async_managed",
        .summary = "the driver's pool of managed memory (CUDA 13)",
        .upstream = UPSTREAM_NONE,
        .create = create_cuda_async_managed,
    },
    {
        .name = "vmm",
        .summary = "physical memory mapped into address ranges, in whole pages of the device",
        .upstream = UPSTREAM_NONE,
        .parameters =
            {
                {"handle_size", PARAMETER_SIZE, false, "bytes behind one handle; default a block"},
                {"export_handle_type", PARAMETER_SIZE, false,
                 "how handles can be shared: 1 file descriptor, 8 fabric; default not at all"},
                {"require", PARAMETER_FLAG, false,
                 "fail where the device has no virtual memory management"},
            },
        .create = create_vmm,
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
