/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/arena_memory_resource.h>

#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/log.h>
#include <crmm/internal/options.h>

#include "pool/kind.h"

static const char class_name[] = "arena_memory_resource";

static const size_t SMALLEST = (size_t)1 << 20;

typedef struct arena {
    crmm_priv_pool pool;
    size_t size;
    bool dumps;
} arena;

/* ---- the dump ---- */

enum { POWERS = 64 };

typedef struct tally {
    size_t count, bytes, pending;
} tally;

typedef struct tallies {
    tally live[POWERS]; /* by the logarithm of the size, rounded up */
    tally free[POWERS];
} tallies;

static void count_block(const crmm_pool_block *block, void *user_data)
{
    tallies *all = user_data;
    int power = block->bytes <= 1 ? 0 : 64 - __builtin_clzll(block->bytes - 1);
    tally *of = block->is_live != 0 ? &all->live[power] : &all->free[power];

    of->count++;
    of->bytes += block->bytes;
    of->pending += block->is_pending != 0 ? block->bytes : 0;
}

static void log_tallies(const char *what, const tally *of)
{
    for (int power = 0; power < POWERS; power++) {
        if (of[power].count > 0) {
            LOG(CRMM_LOG_LEVEL_ERROR,
                "%s:   %s blocks of up to %llu bytes: %zu, %zu bytes, %zu pending", class_name,
                what, 1ULL << power, of[power].count, of[power].bytes, of[power].pending);
        }
    }
}

/* What an arena holds, to the log. The error record is that of the failure. */
__attribute__((noinline, cold)) static void dump(arena *own, size_t bytes)
{
    const crmm_error why = *crmm_last_error();
    crmm_memory_info info = {.struct_size = sizeof(info)};
    tallies all = {0};

    if (!crmm_log_should_log(CRMM_LOG_LEVEL_ERROR)) {
        return;
    }
    (void)crmm_priv_pool_info(&own->pool.base, &info);
    size_t apart =
        info.cached - (info.largest_free < info.cached ? info.largest_free : info.cached);
    LOG(CRMM_LOG_LEVEL_ERROR, "%s: ran out of memory for %zu bytes", class_name, bytes);
    LOG(CRMM_LOG_LEVEL_ERROR,
        "%s:   arena of %zu bytes: %zu live in %zu blocks, %zu free, of which %zu pending; largest "
        "free block %zu, fragmentation %zu %%",
        class_name, own->size, info.live, info.allocations, info.cached, info.pending,
        info.largest_free,
        info.cached == 0 ? 0 : (size_t)(100.0 * (double)apart / (double)info.cached));
    if (crmm_priv_pool_snapshot(&own->pool, count_block, &all) == CRMM_SUCCESS) {
        log_tallies("live", all.live);
        log_tallies("free", all.free);
    }
    crmm_priv_restore_error(&why);
}

/* ---- operations ---- */

static crmm_status arena_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                  size_t alignment, void **ptr)
{
    crmm_status status = crmm_priv_pool_allocate(resource, stream, bytes, alignment, ptr);

    if (__builtin_expect(status == CRMM_ERROR_OUT_OF_MEMORY, 0) && ((arena *)resource)->dumps) {
        dump((arena *)resource, bytes);
    }
    return status;
}

static crmm_status arena_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                       void **ptr)
{
    crmm_status status = crmm_priv_pool_allocate_sync(resource, bytes, alignment, ptr);

    if (__builtin_expect(status == CRMM_ERROR_OUT_OF_MEMORY, 0) && ((arena *)resource)->dumps) {
        dump((arena *)resource, bytes);
    }
    return status;
}

static size_t arena_describe(const crmm_resource *resource, char *text, size_t size)
{
    const arena *own = (const arena *)resource;
    int length =
        snprintf(text, size, "%s (device %d, size %zu)", class_name, own->pool.device, own->size);

    return crmm_priv_describe_over(own->pool.upstream, text, size, (size_t)length);
}

static const crmm_resource_ops arena_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = arena_allocate_sync,
    .deallocate_sync = crmm_priv_pool_deallocate_sync,
    .destroy = crmm_priv_pool_destroy,
    .allocate = arena_allocate,
    .deallocate = crmm_priv_pool_deallocate,
    .deallocate_ptr = crmm_priv_pool_deallocate_ptr,
    .upstream = crmm_priv_pool_upstream,
    .trim = crmm_priv_pool_trim,
    .info = crmm_priv_pool_info,
    .describe = arena_describe,
};

/* ---- creation ---- */

_Static_assert(sizeof(crmm_arena_memory_resource_options) == 3 * sizeof(size_t),
               "options structs have no padding");

void crmm_arena_memory_resource_options_init(crmm_arena_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

/* Half of what is free on the device of an upstream. */
static crmm_status half_of_device(const crmm_resource *upstream, size_t *size)
{
    const crmm_properties needed = CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED;
    size_t free_bytes = 0;
    size_t total = 0;
    int previous = -1;

    if (!crmm_resource_has(upstream, needed)) {
        return FAIL(
            CRMM_ERROR_INVALID_ARGUMENT, 0,
            "%s: options->arena_size has no default over %s, whose memory is not a device's",
            class_name, crmm_resource_name(upstream));
    }
    crmm_status status = crmm_priv_cuda_enter_device(crmm_resource_device(upstream), &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_priv_cuda_memory(&free_bytes, &total);
    crmm_priv_cuda_leave_device(previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    *size = crmm_align_down(free_bytes / 2, CRMM_DEVICE_ALIGNMENT);
    *size = *size < CRMM_PRIV_POOL_MOST_AT_ONCE ? *size : CRMM_PRIV_POOL_MOST_AT_ONCE;
    if (*size < SMALLEST) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0,
                    "%s: half of the %zu bytes that are free are less than the %zu an arena needs",
                    class_name, free_bytes, SMALLEST);
    }
    return CRMM_SUCCESS;
}

static crmm_status choose_size(const crmm_resource *upstream, size_t arena_size, size_t *size)
{
    if (arena_size == 0) {
        return half_of_device(upstream, size);
    }
    *size = crmm_align_down(arena_size, CRMM_DEVICE_ALIGNMENT);
    if (*size < SMALLEST) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: options->arena_size %zu is less than %zu",
                    class_name, arena_size, SMALLEST);
    }
    if (*size > CRMM_PRIV_POOL_MOST_AT_ONCE) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: options->arena_size %zu is more than %zu",
                    class_name, arena_size, CRMM_PRIV_POOL_MOST_AT_ONCE);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_arena_memory_resource_create(crmm_resource *upstream,
                                              const crmm_arena_memory_resource_options *options,
                                              crmm_resource **out)
{
    static const crmm_priv_pool_kind kind = {
        .name = class_name, .ops = &arena_ops, .size = sizeof(arena), .is_rigid = true};
    crmm_arena_memory_resource_options known;
    crmm_resource *created = NULL;
    size_t size = 0;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS && (upstream == NULL || out == NULL)) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", class_name,
                      upstream == NULL ? "upstream" : "out");
    }
    if (status == CRMM_SUCCESS) {
        status = choose_size(upstream, known.arena_size, &size);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    /* One heap: all of the memory is in the first. */
    const crmm_pool_memory_resource_options pool_options = {.struct_size = sizeof(pool_options),
                                                            .initial_pool_size = size,
                                                            .maximum_pool_size = size,
                                                            .heap_count = 1};
    status = crmm_priv_pool_create(&kind, upstream, &pool_options, &created);
    if (status == CRMM_SUCCESS) {
        ((arena *)created)->size = size;
        ((arena *)created)->dumps = known.dump_log_on_failure != 0;
        *out = created;
    }
    return status;
}

size_t crmm_arena_memory_resource_arena_size(const crmm_resource *mr)
{
    if (!crmm_priv_check_class("crmm_arena_memory_resource_arena_size", mr, &arena_ops)) {
        return 0;
    }
    return ((const arena *)mr)->size;
}
