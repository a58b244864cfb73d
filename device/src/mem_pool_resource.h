/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_SRC_MEM_POOL_RESOURCE_H
#define CRMM_DEVICE_SRC_MEM_POOL_RESOURCE_H

#include <crmm/internal/books.h>
#include <crmm/internal/ledger.h>
#include <crmm/internal/resource.h>

/*
 * What the resources over CUDA's own memory pools have in common: cuda_async, its view and its
 * managed form. Each is a class of its own and differs in where its pool comes from.
 *
 * A pool takes part in captures by the driver's rules, so the stream is handed on as it is.
 */
typedef struct crmm_priv_mem_pool_resource {
    struct crmm_resource base;
    crmm_mem_pool pool;
    crmm_resource *fallback; /* in place of a pool, where the device has none; retained */
    size_t retries;          /* allocations that needed a trim first */
    crmm_priv_books books;
    crmm_priv_ledger *ledger; /* used with validation only */
    crmm_priv_ledger own_ledger;
    size_t peak_held; /* of a foreign pool, whose own mark may be older; when that is watched */
    bool owned;       /* the pool is destroyed with the resource; what follows is of such ones */
    bool decompresses;
    uint64_t handle_types;
    size_t peer_count; /* devices that were let in beside the owner */
} crmm_priv_mem_pool_resource;

/*
 * Zeroed storage for such a resource, set up, with one reference; NULL where there is no host
 * memory, described.
 */
crmm_priv_mem_pool_resource *crmm_priv_mem_pool_resource_create(const char *name,
                                                                const crmm_resource_ops *ops,
                                                                crmm_properties properties,
                                                                int device);

/* Give the resource its pool; an owned one goes with it. */
void crmm_priv_mem_pool_adopt(crmm_priv_mem_pool_resource *own, crmm_mem_pool pool, bool owned);

/* Whether a resource is of one of these classes; NULL is not. */
bool crmm_priv_is_mem_pool_resource(const crmm_resource *resource);

/* Whether so many bytes may be asked for on the current device's legacy stream: not while a
 * blocking stream is being captured, and asking would kill the capture. Described in the name of
 * `who`. */
crmm_status crmm_priv_mem_pool_check_legacy(const char *who, size_t bytes);

/* The operations. */
crmm_status crmm_priv_mem_pool_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                        size_t alignment, void **ptr);
void crmm_priv_mem_pool_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                   size_t bytes, size_t alignment);
crmm_status crmm_priv_mem_pool_allocate_sync(crmm_resource *resource, size_t bytes,
                                             size_t alignment, void **ptr);
void crmm_priv_mem_pool_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                        size_t alignment);
void crmm_priv_mem_pool_destroy(crmm_resource *resource);
bool crmm_priv_mem_pool_is_equal(const crmm_resource *resource, const crmm_resource *other);
crmm_resource *crmm_priv_mem_pool_upstream(const crmm_resource *resource);
crmm_status crmm_priv_mem_pool_trim(crmm_resource *resource, size_t bytes_to_keep,
                                    size_t *released);
crmm_status crmm_priv_mem_pool_info(const crmm_resource *resource, crmm_memory_info *info);
size_t crmm_priv_mem_pool_describe(const crmm_resource *resource, char *text, size_t size);

/* Initialiser of the table of such a class. */
#define CRMM_PRIV_MEM_POOL_OPS                                                                \
    {                                                                                         \
        .struct_size = sizeof(crmm_resource_ops),                                             \
        .allocate_sync = crmm_priv_mem_pool_allocate_sync,                                    \
        .deallocate_sync = crmm_priv_mem_pool_deallocate_sync,                                \
        .destroy = crmm_priv_mem_pool_destroy, .allocate = crmm_priv_mem_pool_allocate,       \
        .deallocate = crmm_priv_mem_pool_deallocate, .is_equal = crmm_priv_mem_pool_is_equal, \
        .upstream = crmm_priv_mem_pool_upstream, .trim = crmm_priv_mem_pool_trim,             \
        .info = crmm_priv_mem_pool_info, .describe = crmm_priv_mem_pool_describe,             \
    }

#endif
