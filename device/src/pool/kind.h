/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_DEVICE_POOL_KIND_H
#define CRMM_DEVICE_POOL_KIND_H

/*
 * For classes that are a pool underneath. Such a class has a struct that begins with the pool, and
 * a table of operations of its own, in which those below stand or are called.
 */

#include "pool.h"

/* Bytes that a pool can take from upstream at once: extents count granules in 32 bits, and a range
 * has to be several pages long. */
#define CRMM_PRIV_POOL_MOST_AT_ONCE ((size_t)(UINT32_MAX / 4) << CRMM_PRIV_POOL_GRANULE_SHIFT)

typedef struct crmm_priv_pool_kind {
    const char *name; /* of the class */
    const crmm_resource_ops *ops;
    size_t size; /* of the struct */
    size_t unit; /* a chunk is a multiple of this many bytes; the pool grows by options->handle_size
                    at least. 0: the pool's choice */
    bool is_rigid; /* it holds one chunk, of options->initial_pool_size, from beginning to end */
} crmm_priv_pool_kind;

/* The operations of a pool; `info` is crmm_priv_pool_info(). */
crmm_status crmm_priv_pool_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr);
crmm_status crmm_priv_pool_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr);
void crmm_priv_pool_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment);
void crmm_priv_pool_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment);
void crmm_priv_pool_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr);
/* The same for a caller that knows the stream's id, CRMM_PRIV_POOL_NO_STREAM without one: CUDA is
 * asked nothing about the stream, so that a block that is right is taken back. */
void crmm_priv_pool_deallocate_known(crmm_priv_pool *pool, crmm_stream stream, uint64_t id,
                                     void *ptr, size_t bytes, size_t alignment);
crmm_resource *crmm_priv_pool_upstream(const crmm_resource *resource);
crmm_status crmm_priv_pool_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released);
size_t crmm_priv_pool_describe(const crmm_resource *resource, char *text, size_t size);
void crmm_priv_pool_destroy(crmm_resource *resource);

/* As crmm_pool_memory_resource_create(), with arguments that were checked. Retains `upstream`. */
crmm_status crmm_priv_pool_create(const crmm_priv_pool_kind *kind, crmm_resource *upstream,
                                  const crmm_pool_memory_resource_options *options,
                                  crmm_resource **out);

/* Report what is wrong with a block that comes back so: not from here, given back before, or of
 * another size. It is left alone. */
void crmm_priv_pool_report_block(crmm_priv_pool *pool, void *ptr, size_t bytes, size_t alignment);

/* As crmm_pool_memory_resource_snapshot(), with arguments that were checked. */
crmm_status crmm_priv_pool_snapshot(crmm_priv_pool *pool,
                                    void (*visitor)(const crmm_pool_block *block, void *user_data),
                                    void *user_data);

/* Whether an address is in memory of the pool's; takes no lock. */
static inline bool crmm_priv_pool_owns(const crmm_priv_pool *pool, const void *ptr)
{
    const crmm_priv_pool_chunks *chunks = &pool->chunks;
    uint32_t version = __atomic_load_n(&chunks->version, __ATOMIC_ACQUIRE);

    /* One chunk is no search; as in crmm_priv_pool_chunks_find(). */
    if ((version & 1) == 0 && __atomic_load_n(&chunks->count, __ATOMIC_ACQUIRE) == 1) {
        const crmm_priv_pool_chunk_entry *only =
            __atomic_load_n(&chunks->table, __ATOMIC_ACQUIRE)->entries;
        uintptr_t base = __atomic_load_n(&only->base, __ATOMIC_ACQUIRE);
        uintptr_t end = __atomic_load_n(&only->end, __ATOMIC_ACQUIRE);
        if (__atomic_load_n(&chunks->version, __ATOMIC_RELAXED) == version) {
            return (uintptr_t)ptr - base < end - base;
        }
    }
    return crmm_priv_pool_chunks_find(chunks, ptr) != NULL;
}

#endif
