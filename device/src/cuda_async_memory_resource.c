/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/cuda_async_memory_resource.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/floor_pool.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>

#include "mem_pool_resource.h"
#include "peers.h"
#include "per_device_resource.h"

static const char class_name[] = "cuda_async_memory_resource";

static const crmm_resource_ops cuda_async_ops = CRMM_PRIV_MEM_POOL_OPS;

/* ---- creation, step by step ---- */

/* Let the peers in. The owner needs no leave, and CUDA would not take it away. */
static crmm_status open_to_peers(crmm_mem_pool pool, int device,
                                 const crmm_cuda_async_memory_resource_options *options,
                                 size_t *count)
{
    crmm_status status = CRMM_SUCCESS;

    for (size_t i = 0; status == CRMM_SUCCESS && i < options->peer_device_count; i++) {
        if (options->peer_devices[i] != device) {
            status = crmm_priv_cuda_pool_open_to(pool, options->peer_devices[i]);
            *count += 1;
        }
    }
    return status;
}

/* Have memory ready: it stays with the pool when it is freed, as far as the threshold allows. */
static crmm_status prime(crmm_mem_pool pool, size_t bytes)
{
    void *ptr = NULL;

    if (bytes == 0) {
        return CRMM_SUCCESS;
    }
    if (bytes > PTRDIFF_MAX) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: an initial_pool_size of %zu bytes is more than can exist",
                          class_name, bytes);
    }
    crmm_status status = crmm_priv_mem_pool_check_legacy(class_name, bytes);
    if (status == CRMM_SUCCESS) {
        status = crmm_priv_cuda_pool_allocate(class_name, pool, NULL, bytes, &ptr);
    }
    return status != CRMM_SUCCESS
               ? status
               : crmm_priv_cuda_check("cudaFreeAsync", crmm_priv_cuda_pool_free(ptr, NULL));
}

static crmm_status make_pool(crmm_priv_mem_pool_resource *created, int device,
                             const crmm_cuda_async_memory_resource_options *options)
{
    crmm_priv_pool_request request = {
        .device = device, .handle_types = options->export_handle_type, .decompresses = true};
    crmm_mem_pool pool = NULL;
    uint64_t threshold = options->release_threshold;

    if (!crmm_priv_cuda_can_export(device, options->export_handle_type)) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0,
                    "%s: options->export_handle_type %llu is not supported by device %d",
                    class_name, (unsigned long long)options->export_handle_type, device);
    }
    crmm_status status = crmm_priv_cuda_pool_create(&request, &pool);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    threshold = threshold == 0 ? UINT64_MAX : threshold == CRMM_RELEASE_ALL ? 0 : threshold;
    status = crmm_priv_cuda_pool_set_threshold(pool, threshold);
    if (status == CRMM_SUCCESS) {
        status = open_to_peers(pool, device, options, &created->peer_count);
    }
    if (status == CRMM_SUCCESS) {
        status = prime(pool, options->initial_pool_size);
    }
    if (status != CRMM_SUCCESS) {
        (void)crmm_priv_cuda_pool_destroy(pool);
        return status;
    }
    crmm_priv_mem_pool_adopt(created, pool, true);
    created->handle_types = options->export_handle_type;
    created->decompresses = request.decompresses;
    return CRMM_SUCCESS;
}

static crmm_status fill(crmm_priv_mem_pool_resource *created, int device,
                        const crmm_cuda_async_memory_resource_options *options)
{
    if (crmm_priv_cuda_has_pools(device)) {
        return make_pool(created, device, options);
    }
    if (options->require != 0) {
        return FAIL(CRMM_ERROR_UNSUPPORTED, 0, "%s: device %d has no memory pools", class_name,
                    device);
    }
    return crmm_priv_initial_device_resource(device, &created->fallback);
}

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_cuda_async_memory_resource_options) == 7 * sizeof(size_t),
               "options structs have no padding");

void crmm_cuda_async_memory_resource_options_init(crmm_cuda_async_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

crmm_status crmm_cuda_async_memory_resource_create(
    const crmm_cuda_async_memory_resource_options *options, crmm_resource **out)
{
    crmm_cuda_async_memory_resource_options known;
    int device = 0;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (out == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    status = crmm_priv_cuda_current_device(&device);
    if (status == CRMM_SUCCESS) {
        status =
            crmm_priv_check_peers(class_name, device, known.peer_devices, known.peer_device_count);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_mem_pool_resource *created = crmm_priv_mem_pool_resource_create(
        class_name, &cuda_async_ops, CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED, device);
    if (created == NULL) {
        return CRMM_ERROR_OUT_OF_MEMORY;
    }
    status = fill(created, device, &known);
    if (status != CRMM_SUCCESS) {
        crmm_resource_storage_free(&created->base);
        return status;
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}

crmm_mem_pool crmm_cuda_async_memory_resource_pool_handle(const crmm_resource *resource)
{
    if (crmm_priv_is_mem_pool_resource(resource)) {
        return ((const crmm_priv_mem_pool_resource *)resource)->pool;
    }
    crmm_priv_report(
        (crmm_misuse){.kind = CRMM_MISUSE_WRONG_CLASS,
                      .resource_name = crmm_resource_name(resource)},
        "crmm_cuda_async_memory_resource_pool_handle: resource is %s, of another class",
        crmm_resource_name(resource));
    return NULL;
}
