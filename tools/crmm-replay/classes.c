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
#include <crmm/device/arena_memory_resource.h>
#include <crmm/device/binning_memory_resource.h>
#include <crmm/device/cuda_async_managed_memory_resource.h>
#include <crmm/device/cuda_async_memory_resource.h>
#include <crmm/device/cuda_memory_resource.h>
#include <crmm/device/fixed_size_memory_resource.h>
#include <crmm/device/managed_memory_resource.h>
#include <crmm/device/pool_memory_resource.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/host/malloc_memory_resource.h>
#include <crmm/host/pinned_host_memory_resource.h>

#include "classes_config.h"

#if HAVE_ADAPTOR_ALIGNED
#include <crmm/adaptors/aligned_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_FAILURE_CALLBACK
#include <crmm/adaptors/failure_callback_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_FAULT_INJECTION
#include <crmm/adaptors/fault_injection_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_LIMITING
#include <crmm/adaptors/limiting_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_PREFETCH
#include <crmm/adaptors/prefetch_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_THREAD_SAFE
#include <crmm/adaptors/thread_safe_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_STATISTICS
#include <crmm/adaptors/statistics_resource_adaptor.h>
#endif
#if HAVE_ADAPTOR_TRACKING
#include <crmm/adaptors/tracking_resource_adaptor.h>
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

static crmm_status create_pinned_host(const uint64_t *values, crmm_resource *upstream,
                                      crmm_resource **out)
{
    (void)upstream;
    if (values[0] == 0 && values[1] == 0 && values[2] == 0 && values[3] == 0) {
        *out = crmm_pinned_host_memory_resource();
        return CRMM_SUCCESS;
    }
    return crmm_pinned_host_memory_resource_create(
        CRMM_OPTIONS(crmm_pinned_host_memory_resource, .numa_node = values[0],
                     .touch_threads = values[1], .write_combined = values[2],
                     .fallback_to_pageable = values[3]),
        out);
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

static crmm_status create_pool(const uint64_t *values, crmm_resource *upstream, crmm_resource **out)
{
    return crmm_pool_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_pool_memory_resource, .initial_pool_size = values[0],
                     .maximum_pool_size = values[1], .release_threshold = values[2],
                     .tight = values[3], .target_pool_size = values[4], .handle_size = values[5],
                     .stream_cache_size = values[6], .heap_count = values[7]),
        out);
}

static crmm_status create_fixed_size(const uint64_t *values, crmm_resource *upstream,
                                     crmm_resource **out)
{
    return crmm_fixed_size_memory_resource_create(upstream,
                                                  CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                               .block_size = values[0],
                                                               .blocks_to_preallocate = values[1]),
                                                  out);
}

static crmm_status create_binning(const uint64_t *values, crmm_resource *upstream,
                                  crmm_resource **out)
{
    return crmm_binning_memory_resource_create(
        upstream,
        CRMM_OPTIONS(crmm_binning_memory_resource, .min_size_exponent = values[0],
                     .max_size_exponent = values[1], .blocks_to_preallocate = values[2]),
        out);
}

static crmm_status create_arena(const uint64_t *values, crmm_resource *upstream,
                                crmm_resource **out)
{
    return crmm_arena_memory_resource_create(upstream,
                                             CRMM_OPTIONS(crmm_arena_memory_resource,
                                                          .arena_size = values[0],
                                                          .dump_log_on_failure = values[1]),
                                             out);
}

/* ---- adaptors ---- */

#if HAVE_ADAPTOR_ALIGNED
static crmm_status create_aligned(const uint64_t *values, crmm_resource *upstream,
                                  crmm_resource **out)
{
    return crmm_aligned_resource_adaptor_create(upstream,
                                                CRMM_OPTIONS(crmm_aligned_resource_adaptor,
                                                             .alignment = values[0],
                                                             .alignment_threshold = values[1]),
                                                out);
}
#endif

#if HAVE_ADAPTOR_FAILURE_CALLBACK
/* The user data is the number of attempts itself. */
static bool has_attempts_left(const crmm_failure *failure, void *user_data)
{
    return (uintptr_t)failure->attempt < (uintptr_t)user_data;
}

static crmm_status create_failure_callback(const uint64_t *values, crmm_resource *upstream,
                                           crmm_resource **out)
{
    return crmm_failure_callback_resource_adaptor_create(upstream, has_attempts_left,
                                                         (void *)(uintptr_t)values[0], NULL, out);
}
#endif

#if HAVE_ADAPTOR_FAULT_INJECTION
static crmm_status create_fault_injection(const uint64_t *values, crmm_resource *upstream,
                                          crmm_resource **out)
{
    return crmm_fault_injection_resource_adaptor_create(
        upstream,
        CRMM_OPTIONS(crmm_fault_injection_resource_adaptor, .fail_call = values[0],
                     .fail_call_count = values[1], .fail_every = values[2], .fail_above = values[3],
                     .fail_per_million = values[4], .seed = values[5], .status = values[6]),
        out);
}
#endif

#if HAVE_ADAPTOR_LIMITING
static crmm_status create_limiting(const uint64_t *values, crmm_resource *upstream,
                                   crmm_resource **out)
{
    return crmm_limiting_resource_adaptor_create(
        upstream, values[0], CRMM_OPTIONS(crmm_limiting_resource_adaptor, .alignment = values[1]),
        out);
}
#endif

#if HAVE_ADAPTOR_PREFETCH
static crmm_status create_prefetch(const uint64_t *values, crmm_resource *upstream,
                                   crmm_resource **out)
{
    (void)values;
    return crmm_prefetch_resource_adaptor_create(upstream, out);
}
#endif

#if HAVE_ADAPTOR_THREAD_SAFE
static crmm_status create_thread_safe(const uint64_t *values, crmm_resource *upstream,
                                      crmm_resource **out)
{
    (void)values;
    return crmm_thread_safe_resource_adaptor_create(upstream, out);
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
    {
        .name = "pinned_host",
        .summary = "page-locked host memory; without options of cudaHostAlloc",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .locks_memory = true,
        .parameters =
            {
                {"numa_node", PARAMETER_COUNT, false,
                 "where pages come from, 1 for the first node; default the device's"},
                {"touch_threads", PARAMETER_COUNT, false, "threads that bring pages; default none"},
                {"write_combined", PARAMETER_FLAG, false, "memory that the host only writes"},
                {"fallback_to_pageable", PARAMETER_FLAG, false,
                 "memory that is not locked where none can be"},
            },
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
                {"export_handle_type", PARAMETER_COUNT, false,
                 "how memory can be shared: 1 file descriptor, 8 fabric; default not at all"},
                {"require", PARAMETER_FLAG, false, "fail where the device has no memory pools"},
            },
        .create = create_cuda_async,
    },
    {
        .name = "cuda_async_managed",
        .summary = "the driver's pool of managed memory (CUDA 13)",
        .upstream = UPSTREAM_NONE,
        .compared = true,
        .create = create_cuda_async_managed,
    },
    {
        .name = "vmm",
        .summary = "physical memory mapped into address ranges, in whole pages of the device",
        .upstream = UPSTREAM_NONE,
        .parameters =
            {
                {"handle_size", PARAMETER_SIZE, false, "bytes behind one handle; default a block"},
                {"export_handle_type", PARAMETER_COUNT, false,
                 "how handles can be shared: 1 file descriptor, 8 fabric; default not at all"},
                {"require", PARAMETER_FLAG, false,
                 "fail where the device has no virtual memory management"},
            },
        .create = create_vmm,
    },
    {
        .name = "pool",
        .summary = "takes memory in large pieces and hands it out in small ones",
        .upstream = UPSTREAM_OWN,
        .compared = true,
        .parameters =
            {
                {"initial_pool_size", PARAMETER_SIZE, false, "bytes to take at once; default none"},
                {"maximum_pool_size", PARAMETER_SIZE, false,
                 "bytes never exceeded; default what upstream gives"},
                {"release_threshold", PARAMETER_SIZE, false,
                 "bytes to keep when memory could go back; default all"},
                {"tight", PARAMETER_FLAG, false, "hold as little as can be"},
                {"target_pool_size", PARAMETER_SIZE, false, "the expected peak; default not known"},
                {"handle_size", PARAMETER_SIZE, false, "bytes to grow by; default 4 MiB"},
                {"stream_cache_size", PARAMETER_SIZE, false,
                 "bytes each thread keeps at hand for a stream; default a share"},
                {"heap_count", PARAMETER_COUNT, false,
                 "most heaps that threads spread over; default as many as help"},
            },
        .create = create_pool,
    },
    {
        .name = "fixed_size",
        .summary = "blocks of one size; larger requests fail",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"block_size", PARAMETER_SIZE, false, "bytes of a block; default 1 MiB"},
                {"blocks_to_preallocate", PARAMETER_COUNT, false,
                 "blocks taken from upstream at a time; default 128"},
            },
        .create = create_fixed_size,
    },
    {
        .name = "binning",
        .summary = "bins of blocks of one size each; what is larger goes to the upstream",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"min_size_exponent", PARAMETER_COUNT, false,
                 "the smallest bin has 2 to the power of this; default no bins"},
                {"max_size_exponent", PARAMETER_COUNT, false, "the largest; default no bins"},
                {"blocks_to_preallocate", PARAMETER_COUNT, false,
                 "blocks each bin takes at a time; default 128, or 16 MiB if that is less"},
            },
        .create = create_binning,
    },
    {
        .name = "arena",
        .summary = "takes one chunk at the start and hands out parts of it",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"arena_size", PARAMETER_SIZE, false,
                 "bytes of the chunk; default half of what is free"},
                {"dump_log_on_failure", PARAMETER_FLAG, false,
                 "log what it holds when there is no memory"},
            },
        .create = create_arena,
    },
#if HAVE_ADAPTOR_ALIGNED
    {
        .name = "aligned",
        .summary = "gives any alignment, by padding",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"alignment", PARAMETER_SIZE, false, "of every block; default 256"},
                {"alignment_threshold", PARAMETER_SIZE, false,
                 "smaller blocks get what they ask for; default 0"},
            },
        .create = create_aligned,
    },
#endif
#if HAVE_ADAPTOR_FAILURE_CALLBACK
    {
        .name = "failure_callback",
        .summary = "tries again when an allocation fails",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"attempts", PARAMETER_COUNT, false, "failures before it gives up; default 1"},
            },
        .create = create_failure_callback,
    },
#endif
#if HAVE_ADAPTOR_FAULT_INJECTION
    {
        .name = "fault_injection",
        .summary = "lets chosen allocations fail",
        .upstream = UPSTREAM_CUDA,
        .parameters =
            {
                {"fail_call", PARAMETER_COUNT, false, "this call fails, from 1"},
                {"fail_call_count", PARAMETER_COUNT, false, "so many from that one on; default 1"},
                {"fail_every", PARAMETER_COUNT, false, "each multiple of this fails"},
                {"fail_above", PARAMETER_SIZE, false, "more bytes than this fail"},
                {"fail_per_million", PARAMETER_COUNT, false, "so many of a million fail"},
                {"seed", PARAMETER_COUNT, false, "chooses which; default 0"},
                {"status", PARAMETER_COUNT, false, "a crmm_status; default 5, out of memory"},
            },
        .create = create_fault_injection,
    },
#endif
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
#if HAVE_ADAPTOR_PREFETCH
    {
        .name = "prefetch",
        .summary = "prefetches managed memory to the device",
        .upstream = UPSTREAM_CUDA,
        .create = create_prefetch,
    },
#endif
#if HAVE_ADAPTOR_THREAD_SAFE
    {
        .name = "thread_safe",
        .summary = "lets one thread at a time into its upstream",
        .upstream = UPSTREAM_CUDA,
        .create = create_thread_safe,
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
