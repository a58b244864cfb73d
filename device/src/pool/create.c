/* SPDX-License-Identifier: Apache-2.0 */

/* How a pool is made: its options, and what its upstream can do. */

#include <crmm/core/alignment.h>
#include <crmm/device/vmm_memory_resource.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/options.h>

#include "fences.h"
#include "guard.h"
#include "kind.h"
#include "memory.h"

static const char class_name[] = "pool_memory_resource";

static const size_t DEFAULT_PAGE = (size_t)4 << 20; /* see docs/pool.md for why */
static const size_t TIGHT_PAGE = (size_t)2 << 20;
static const size_t PAGE_UNIT = (size_t)2 << 20; /* the granularity of devices */

/* ---- operations ---- */

static const crmm_resource_ops pool_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_pool_allocate_sync,
    .deallocate_sync = crmm_priv_pool_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = crmm_priv_pool_allocate,
    .deallocate = crmm_priv_pool_deallocate,
    .deallocate_ptr = crmm_priv_pool_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = crmm_priv_pool_describe,
};

/* A table of its own, so that the other one asks nobody whether blocks have guards. */
static const crmm_resource_ops guarded_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = crmm_priv_pool_guard_allocate_sync,
    .deallocate_sync = crmm_priv_pool_guard_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = crmm_priv_pool_guard_allocate,
    .deallocate = crmm_priv_pool_guard_deallocate,
    .deallocate_ptr = crmm_priv_pool_guard_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = crmm_priv_pool_describe,
};

const crmm_resource_ops *crmm_priv_pool_ops_of(const crmm_resource *resource)
{
    return resource != NULL && resource->ops == &guarded_ops ? &guarded_ops : &pool_ops;
}

bool crmm_priv_pool_is_pool(const crmm_resource *resource, const char *who)
{
    return crmm_priv_require_class(who, resource, crmm_priv_pool_ops_of(resource)) == CRMM_SUCCESS;
}

/* ---- creation ---- */

_Static_assert(sizeof(crmm_pool_memory_resource_options) == 12 * sizeof(size_t),
               "options structs have no padding");

void crmm_pool_memory_resource_options_init(crmm_pool_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static crmm_status check_options(const crmm_pool_memory_resource_options *options)
{
    size_t maximum = options->maximum_pool_size;

    if (maximum != 0 && options->initial_pool_size > maximum) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->initial_pool_size %zu is more than maximum_pool_size %zu",
                    class_name, options->initial_pool_size, maximum);
    }
    if (maximum != 0 && options->target_pool_size > maximum) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->target_pool_size %zu is more than maximum_pool_size %zu",
                    class_name, options->target_pool_size, maximum);
    }
    if (options->handle_size > CRMM_PRIV_POOL_MOST_AT_ONCE ||
        options->initial_pool_size > CRMM_PRIV_POOL_MOST_AT_ONCE ||
        options->target_pool_size > PTRDIFF_MAX / 4) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: options->handle_size %zu, initial_pool_size %zu or target_pool_size %zu "
                    "is more than can exist",
                    class_name, options->handle_size, options->initial_pool_size,
                    options->target_pool_size);
    }
    return CRMM_SUCCESS;
}

/* The later slots of a table exist only as far as its size says. */
static void look_at_upstream(crmm_priv_pool *pool)
{
    const crmm_resource_ops *ops = pool->upstream->ops;
    const size_t in_place = offsetof(crmm_resource_ops, unreserve) + sizeof(ops->unreserve);
    const size_t moving = offsetof(crmm_resource_ops, move_end) + sizeof(ops->move_end);

    pool->is_stream_ordered = crmm_resource_has(pool->upstream, CRMM_STREAM_ORDERED);
    pool->is_in_place = !pool->is_rigid && ops->struct_size >= in_place && ops->reserve != NULL &&
                        ops->commit != NULL && ops->decommit != NULL && ops->unreserve != NULL;
    pool->can_move = pool->is_in_place && ops->struct_size >= moving && ops->move_begin != NULL &&
                     ops->move_end != NULL;
}

static void take_options(crmm_priv_pool *pool, const crmm_pool_memory_resource_options *options)
{
    size_t page = options->handle_size;

    if (page == 0) {
        page = options->tight != 0 ? TIGHT_PAGE : DEFAULT_PAGE;
    }
    if (pool->unit == 0) {
        pool->page = crmm_align_up(page, PAGE_UNIT);
    } else {
        pool->page = pool->is_in_place ? DEFAULT_PAGE : page;
    }
    pool->maximum = options->maximum_pool_size != 0 ? options->maximum_pool_size : SIZE_MAX;
    pool->target = options->target_pool_size;
    pool->is_tight = options->tight != 0;
    /* Larger blocks then have their exact size. */
    pool->largest_cached =
        (size_t)(pool->is_tight ? CRMM_PRIV_POOL_SMALL : CRMM_PRIV_POOL_LARGEST_CLASS)
        << CRMM_PRIV_POOL_GRANULE_SHIFT;
    pool->validates = options->validate != 0;
    pool->cache_option = options->stream_cache_size;
    pool->on_chunk = options->on_chunk;
    pool->on_chunk_user_data = options->on_chunk_user_data;
    pool->release_threshold = SIZE_MAX;
    if (options->release_threshold != 0) {
        pool->release_threshold =
            options->release_threshold == CRMM_RELEASE_ALL ? 0 : (size_t)options->release_threshold;
    }
    pool->most_heaps = CRMM_PRIV_POOL_MOST_HEAPS;
    if (options->heap_count != 0 && options->heap_count < CRMM_PRIV_POOL_MOST_HEAPS) {
        pool->most_heaps = (uint32_t)options->heap_count;
    } else if (options->heap_count == 0 && pool->is_tight) {
        pool->most_heaps = 1;
    }
}

static crmm_status choose_device(crmm_priv_pool *pool)
{
    pool->device = crmm_resource_device(pool->upstream);
    if (pool->device >= 0 || !pool->is_stream_ordered) {
        return CRMM_SUCCESS;
    }
    return crmm_priv_cuda_current_device(&pool->device);
}

static crmm_status set_up(crmm_priv_pool *pool, const crmm_pool_memory_resource_options *options)
{
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->grown, NULL);
    look_at_upstream(pool);
    take_options(pool, options);
    pool->stranded_epoch = 1;
    crmm_status status = choose_device(pool);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_pool_streams_init(&pool->streams, pool->device);
    if (crmm_priv_pool_add_heap(pool) == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    crmm_priv_pool_set_budget(pool);
    if (pool->validates) {
        status = crmm_priv_pool_guard_create(pool, &pool_ops);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    int previous = -1;
    status = crmm_priv_cuda_enter_device(pool->device, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (options->initial_pool_size > 0) {
        status = crmm_priv_pool_prime(pool, options->initial_pool_size);
    }
    crmm_priv_cuda_leave_device(previous);
    return status;
}

crmm_status crmm_priv_pool_create(const crmm_priv_pool_kind *kind, crmm_resource *upstream,
                                  const crmm_pool_memory_resource_options *options,
                                  crmm_resource **out)
{
    crmm_priv_pool *created = crmm_resource_storage_allocate(kind->size);

    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", kind->name);
    }
    created->upstream = crmm_resource_retain(upstream);
    created->unit = kind->unit;
    created->is_rigid = kind->is_rigid;
    created->serial = crmm_priv_pool_next_serial();
    created->generation = crmm_priv_pool_generation();
    const crmm_resource_ops *ops = options->validate != 0 ? &guarded_ops : kind->ops;
    crmm_resource_init(&created->base, ops, kind->name, crmm_resource_properties(upstream));
    created->base.reserved[CRMM_PRIV_PROPERTIES] |= CRMM_PRIV_ANY_DEVICE;
    if (crmm_resource_has(upstream, CRMM_STREAM_ORDERED)) {
        created->base.reserved[CRMM_PRIV_PROPERTIES] |= CRMM_PRIV_KEEPS_RULES;
    }
    crmm_status status = set_up(created, options);
    if (status != CRMM_SUCCESS) {
        crmm_error why = *crmm_last_error();
        crmm_priv_pool_destroy(&created->base);
        crmm_priv_restore_error(&why);
        return status;
    }
    if (created->device >= 0) {
        crmm_resource_bind_device(&created->base, created->device);
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}

static const crmm_priv_pool_kind pool_kind = {
    .name = class_name, .ops = &pool_ops, .size = sizeof(crmm_priv_pool)};

crmm_status crmm_pool_memory_resource_create(crmm_resource *upstream,
                                             const crmm_pool_memory_resource_options *options,
                                             crmm_resource **out)
{
    crmm_pool_memory_resource_options known;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS && out == NULL) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: out is NULL", class_name);
    }
    if (status == CRMM_SUCCESS) {
        status = check_options(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_resource *own = NULL;
    if (upstream == NULL) {
        status = crmm_vmm_memory_resource_create(NULL, &own);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    status = crmm_priv_pool_create(&pool_kind, upstream != NULL ? upstream : own, &known, out);
    crmm_resource_release(&own);
    return status;
}
