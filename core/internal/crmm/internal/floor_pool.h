/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_FLOOR_POOL_H
#define CRMM_INTERNAL_FLOOR_POOL_H

/* The part of the floor for CUDA's own memory pools; its rules are those of floor.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/status.h>
#include <crmm/core/stream.h>

/* A pool to be made, of pinned device memory. */
typedef struct crmm_priv_pool_request {
    int device;
    uint64_t handle_types; /* cudaMemAllocationHandleType bits */
    bool decompresses;     /* memory that hardware can decompress to, where the driver has that and
                              the device takes it; set to whether it is so */
} crmm_priv_pool_request;

crmm_status crmm_priv_cuda_pool_create(crmm_priv_pool_request *request, crmm_mem_pool *pool);
int crmm_priv_cuda_pool_destroy(crmm_mem_pool pool);

/* Pools that CUDA has: a device's default one, its current one, and its default managed one. */
crmm_status crmm_priv_cuda_pool_default(int device, crmm_mem_pool *pool);
crmm_status crmm_priv_cuda_pool_current(int device, crmm_mem_pool *pool);
crmm_status crmm_priv_cuda_pool_default_managed(int device, crmm_mem_pool *pool);

/* Bytes that the pool keeps when it could give them back; UINT64_MAX: all. */
crmm_status crmm_priv_cuda_pool_set_threshold(crmm_mem_pool pool, uint64_t bytes);

typedef struct crmm_priv_pool_usage {
    size_t reserved;      /* bytes taken from the device */
    size_t reserved_peak; /* the most so far */
} crmm_priv_pool_usage;
int crmm_priv_cuda_pool_usage(crmm_mem_pool pool, crmm_priv_pool_usage *usage);
int crmm_priv_cuda_pool_trim(crmm_mem_pool pool, size_t bytes_to_keep);

/* Let another device read and write the pool's memory. */
crmm_status crmm_priv_cuda_pool_open_to(crmm_mem_pool pool, int device);

crmm_status crmm_priv_cuda_pool_allocate(const char *who, crmm_mem_pool pool, crmm_stream stream,
                                         size_t bytes, void **ptr);
int crmm_priv_cuda_pool_free(void *ptr, crmm_stream stream);

/* ---- what a device can do; no error: a question that is not understood is answered no ---- */

bool crmm_priv_cuda_has_pools(int device);
bool crmm_priv_cuda_can_export(int device, uint64_t handle_types);
bool crmm_priv_cuda_has_managed_pools(int device);
crmm_status crmm_priv_cuda_can_access_peer(int device, int peer, bool *can);

#endif
