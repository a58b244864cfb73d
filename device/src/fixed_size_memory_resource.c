/* SPDX-License-Identifier: Apache-2.0 */
#include "fixed_size_memory_resource.h"

#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>

static const char class_name[] = "fixed_size_memory_resource";

enum { DEFAULT_BLOCKS = 128 };
static const size_t DEFAULT_BLOCK_SIZE = (size_t)1 << 20;

typedef struct fixed_size {
    crmm_priv_pool pool;
    size_t block_size;
    size_t stride; /* bytes that a block takes */
} fixed_size;

static const fixed_size *fixed_size_of(const crmm_resource *resource)
{
    return (const fixed_size *)resource;
}

/* ---- allocation ---- */

static bool fits(const fixed_size *own, size_t bytes, size_t alignment)
{
    return bytes <= own->block_size && alignment <= CRMM_DEVICE_ALIGNMENT;
}

__attribute__((noinline, cold)) static crmm_status refuse(const fixed_size *own, size_t bytes,
                                                          size_t alignment)
{
    if (alignment > CRMM_DEVICE_ALIGNMENT) {
        return FAIL_BYTES(CRMM_ERROR_UNSUPPORTED, 0, bytes,
                          "%s: alignment %zu is more than the %d it gives", class_name, alignment,
                          CRMM_DEVICE_ALIGNMENT);
    }
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                      "%s: %zu bytes are more than a block has, %zu", class_name, bytes,
                      own->block_size);
}

static crmm_status fixed_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                  size_t alignment, void **ptr)
{
    const fixed_size *own = fixed_size_of(resource);

    if (__builtin_expect(!fits(own, bytes, alignment), 0)) {
        return refuse(own, bytes, alignment);
    }
    return crmm_priv_pool_allocate(resource, stream, own->stride, CRMM_DEVICE_ALIGNMENT, ptr);
}

static crmm_status fixed_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                       void **ptr)
{
    const fixed_size *own = fixed_size_of(resource);

    if (__builtin_expect(!fits(own, bytes, alignment), 0)) {
        return refuse(own, bytes, alignment);
    }
    return crmm_priv_pool_allocate_sync(resource, own->stride, CRMM_DEVICE_ALIGNMENT, ptr);
}

static void fixed_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                             size_t alignment)
{
    const fixed_size *own = fixed_size_of(resource);

    if (__builtin_expect(!fits(own, bytes, alignment), 0)) {
        crmm_priv_pool_report_block((crmm_priv_pool *)resource, ptr, bytes, alignment);
        return;
    }
    crmm_priv_pool_deallocate(resource, stream, ptr, own->stride, CRMM_DEVICE_ALIGNMENT);
}

static void fixed_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                  size_t alignment)
{
    const fixed_size *own = fixed_size_of(resource);

    if (__builtin_expect(!fits(own, bytes, alignment), 0)) {
        crmm_priv_pool_report_block((crmm_priv_pool *)resource, ptr, bytes, alignment);
        return;
    }
    crmm_priv_pool_deallocate_sync(resource, ptr, own->stride, CRMM_DEVICE_ALIGNMENT);
}

static size_t fixed_describe(const crmm_resource *resource, char *text, size_t size)
{
    const fixed_size *own = fixed_size_of(resource);
    int length = snprintf(text, size, "%s (device %d, blocks of %zu)", class_name, own->pool.device,
                          own->block_size);

    return crmm_priv_describe_over(own->pool.upstream, text, size, (size_t)length);
}

static const crmm_resource_ops fixed_size_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = fixed_allocate_sync,
    .deallocate_sync = fixed_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = fixed_allocate,
    .deallocate = fixed_deallocate,
    .deallocate_ptr = crmm_priv_pool_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = fixed_describe,
};

/* ---- creation ---- */

_Static_assert(sizeof(crmm_fixed_size_memory_resource_options) == 3 * sizeof(size_t),
               "options structs have no padding");

void crmm_fixed_size_memory_resource_options_init(crmm_fixed_size_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

/* What a block takes: the size of the class that it is in, if it is in one. */
static size_t stride_of(size_t block_size)
{
    if (block_size > (size_t)CRMM_PRIV_POOL_LARGEST_CLASS << CRMM_PRIV_POOL_GRANULE_SHIFT) {
        return block_size;
    }
    return (size_t)crmm_priv_pool_class_size(crmm_priv_pool_class_of_bytes(block_size))
           << CRMM_PRIV_POOL_GRANULE_SHIFT;
}

/* The block's size and how many to take at a time, as the options say; 0: as many as are useful. */
static crmm_status take_options(const crmm_fixed_size_memory_resource_options *options,
                                size_t *block_size, size_t *blocks)
{
    size_t size = options->block_size != 0 ? options->block_size : DEFAULT_BLOCK_SIZE;
    size_t count = DEFAULT_BLOCKS;

    if (options->blocks_to_preallocate != 0) {
        count = options->blocks_to_preallocate == CRMM_PREALLOCATE_NONE
                    ? 0
                    : options->blocks_to_preallocate;
    }
    if (size > (size_t)PTRDIFF_MAX - CRMM_DEVICE_ALIGNMENT) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: options->block_size %zu is more than can exist", class_name, size);
    }
    size = crmm_align_up(size, CRMM_DEVICE_ALIGNMENT);
    if (count > CRMM_PRIV_POOL_MOST_AT_ONCE / stride_of(size)) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: %zu blocks of %zu bytes are more than can exist", class_name, count, size);
    }
    *block_size = size;
    *blocks = count;
    return CRMM_SUCCESS;
}

crmm_status crmm_fixed_size_memory_resource_create(
    crmm_resource *upstream, const crmm_fixed_size_memory_resource_options *options,
    crmm_resource **out)
{
    crmm_fixed_size_memory_resource_options known;
    crmm_resource *created = NULL;
    size_t block_size = 0;
    size_t blocks = 0;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS && (upstream == NULL || out == NULL)) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", class_name,
                      upstream == NULL ? "upstream" : "out");
    }
    if (status == CRMM_SUCCESS) {
        status = take_options(&known, &block_size, &blocks);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    size_t stride = stride_of(block_size);
    const crmm_priv_pool_kind kind = {
        .name = class_name, .ops = &fixed_size_ops, .size = sizeof(fixed_size), .unit = stride};
    /* One heap, so that no block is free in another one when memory is taken from upstream. */
    const crmm_pool_memory_resource_options pool_options = {.struct_size = sizeof(pool_options),
                                                            .initial_pool_size = blocks * stride,
                                                            .handle_size = blocks * stride,
                                                            .heap_count = 1};
    status = crmm_priv_pool_create(&kind, upstream, &pool_options, &created);
    if (status == CRMM_SUCCESS) {
        ((fixed_size *)created)->block_size = block_size;
        ((fixed_size *)created)->stride = stride;
        *out = created;
    }
    return status;
}

/* ---- what else it tells ---- */

size_t crmm_priv_fixed_size_stride(const crmm_resource *resource)
{
    return fixed_size_of(resource)->stride;
}

size_t crmm_fixed_size_memory_resource_block_size(const crmm_resource *mr)
{
    if (!crmm_priv_check_class("crmm_fixed_size_memory_resource_block_size", mr, &fixed_size_ops)) {
        return 0;
    }
    return fixed_size_of(mr)->block_size;
}
