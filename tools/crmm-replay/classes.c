/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of classes. A new one takes a create function and a row: the function unpacks `values`
 * in the order of the row's parameters. An adaptor's are inside #if, since each can be left out of
 * the build; classes_config.h says which are in.
 */
#include "classes.h"

#include <stdlib.h>
#include <string.h>

#include <crmm/core/error.h>
#include <crmm/core/options.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>

#include "classes_config.h"

#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LOGGING
#include <crmm/adaptors/logging_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_NVTX
#include <crmm/adaptors/nvtx_resource_adaptor.h>
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

#if HAVE_ADAPTOR_LOGGING
static crmm_status create_logging(const uint64_t *values, crmm_resource *upstream,
                                  crmm_resource **out)
{
    const char *text = (const char *)(uintptr_t)values[0];
    char *file_name = NULL;

    if (text != NULL) {
        file_name = strndup(text, strcspn(text, ",+"));
        if (file_name == NULL) {
            return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 0, NULL);
        }
    }
    crmm_status status = crmm_logging_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_logging_resource_adaptor, .file_name = file_name, .auto_flush = values[1],
                     .binary = values[2]),
        out);
    free(file_name);
    return status;
}
#endif

#if HAVE_ADAPTOR_NVTX
static crmm_status create_nvtx(const uint64_t *values, crmm_resource *upstream, crmm_resource **out)
{
    return crmm_nvtx_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_nvtx_resource_adaptor,
                     .mode = values[0] != 0 ? CRMM_NVTX_ON : CRMM_NVTX_FROM_ENVIRONMENT),
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
#if HAVE_ADAPTOR_LOGGING
    {
        .name = "logging",
        .summary = "writes a row about each call",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"file_name", PARAMETER_TEXT, false,
                 "file, with %p, %d and %u; default CRMM_LOG_FILE or RMM_LOG_FILE"},
                {"auto_flush", PARAMETER_COUNT, false,
                 "rows that make a call write them out; default the buffer's 16384"},
                {"binary", PARAMETER_FLAG, false, "the compact form in place of text; default 0"},
            },
        .create = create_logging,
    },
#endif
#if HAVE_ADAPTOR_NVTX
    {
        .name = "nvtx",
        .summary = "shows calls and blocks to NVTX tools",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"on", PARAMETER_FLAG, false, "1: on; default as CRMM_NVTX says"},
            },
        .create = create_nvtx,
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
