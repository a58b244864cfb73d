/* SPDX-License-Identifier: Apache-2.0 */
#include "binning_memory_resource.h"

#include <stdio.h>
#include <stdlib.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/blocks.h>
#include <crmm/internal/books.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>
#include <crmm/internal/resource.h>

#include "fixed_size_memory_resource.h"

static const char class_name[] = "binning_memory_resource";

enum { MOST_EXPONENT = 62, MOST_BLOCKS = 128 };
static const size_t BYTES_AT_FIRST = (size_t)16 << 20; /* of a bin whose blocks are not told */

typedef struct bin {
    size_t size;
    size_t stride;           /* of an own one: what it asks its pool for; 0: it is not own */
    crmm_resource *resource; /* retained */
} bin;

/* Of blocks of one size, and nobody else has it. */
static inline bool is_own(const bin *of)
{
    return of->stride != 0;
}

enum { POWERS = 64 };

/* Never changed once it is published: a new bin makes a new table. */
typedef struct bins {
    struct bins *before; /* the table before, which others may still be reading */
    size_t count;
    const bin *first[POWERS + 1]; /* by the logarithm of a size, rounded up: the first bin that a
                                     size with it could be for */
    bin list[]; /* by size; behind the last one upstream, for any size, borrowed */
} bins;

typedef struct binning {
    struct crmm_resource base;
    crmm_resource *upstream; /* retained */
    int device;              /* -1: none */
    uint64_t blocks_to_preallocate;
    bins *bins;              /* atomic */
    crmm_priv_blocks others; /* blocks of upstream's and of bins that are not own; `origin` is the
                                resource */
    crmm_priv_books books;   /* of those */
    crmm_priv_lock lock;     /* of those who add bins */
} binning;

/* How a call was made. */
typedef struct call {
    crmm_stream stream;
    bool is_sync;
} call;

/* ---- which bin ---- */

static const bins *bins_of(const binning *own)
{
    return __atomic_load_n(&own->bins, __ATOMIC_ACQUIRE);
}

/* Rounded up, but at least 1. */
static inline size_t logarithm(size_t bytes)
{
    return 64u - (size_t)__builtin_clzll((bytes - 1) | 1);
}

/* The first bin of at least a size. */
static const bin *lower_bound(const bins *all, size_t bytes)
{
    const bin *low = all->list;
    size_t count = all->count;

    while (count > 0) {
        size_t half = count / 2;
        if (low[half].size < bytes) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The same. Where no power of two has several bins, there is nothing to search. */
static inline const bin *smallest(const bins *all, size_t bytes)
{
    const bin *at = all->first[logarithm(bytes)];

    return __builtin_expect(at->size >= bytes, 1) ? at : lower_bound(all, bytes);
}

/* After the list. */
static void set_first(bins *all)
{
    for (size_t power = 0; power <= POWERS; power++) {
        all->first[power] = lower_bound(all, power < 2 ? 1 : ((size_t)1 << (power - 1)) + 1);
    }
}

/* Where a request goes to that not every bin can serve. */
static const bin *route(const bins *all, size_t bytes, size_t alignment)
{
    const bin *to = smallest(all, bytes);

    while (is_own(to) && alignment > CRMM_DEVICE_ALIGNMENT) {
        to++;
    }
    return to;
}

/* The own bin that has an address in its blocks; NULL: none. */
static const bin *find_owner(const bins *all, const void *ptr)
{
    for (size_t i = 0; i < all->count; i++) {
        if (is_own(&all->list[i]) && crmm_priv_fixed_size_owns(all->list[i].resource, ptr)) {
            return &all->list[i];
        }
    }
    return NULL;
}

/* ---- own bins ----
 * Those that are routed to are told what they would ask their pool for. */

static inline crmm_status allocate_from(const bin *from, call how, void **ptr)
{
    return how.is_sync ? crmm_priv_pool_allocate_sync(from->resource, from->stride,
                                                      CRMM_DEVICE_ALIGNMENT, ptr)
                       : crmm_priv_pool_allocate(from->resource, how.stream, from->stride,
                                                 CRMM_DEVICE_ALIGNMENT, ptr);
}

static inline void deallocate_to(const bin *to, call how, void *ptr)
{
    if (how.is_sync) {
        crmm_priv_pool_deallocate_sync(to->resource, ptr, to->stride, CRMM_DEVICE_ALIGNMENT);
    } else {
        crmm_priv_pool_deallocate(to->resource, how.stream, ptr, to->stride, CRMM_DEVICE_ALIGNMENT);
    }
}

/* One that is found by the address looks itself whether the size can be right. */
static void deallocate_to_owner(const bin *to, call how, void *ptr, size_t bytes, size_t alignment)
{
    if (how.is_sync) {
        crmm_deallocate_sync(to->resource, ptr, bytes, alignment);
    } else {
        crmm_deallocate(to->resource, how.stream, ptr, bytes, alignment);
    }
}

/* ---- other resources ---- */

/* One that belongs to no device acts on the one that is current. */
static crmm_status enter(const binning *own, const crmm_resource *resource, int *previous)
{
    *previous = -1;
    if (crmm_resource_device(resource) >= 0) {
        return CRMM_SUCCESS;
    }
    return crmm_priv_cuda_enter_device(own->device, previous);
}

static void give_back(const binning *own, crmm_resource *to, call how, void *ptr, size_t bytes,
                      size_t alignment)
{
    int previous = -1;

    if (crmm_resource_device(to) < 0) {
        (void)crmm_priv_cuda_try_enter_device(own->device, &previous);
    }
    if (how.is_sync) {
        crmm_deallocate_sync(to, ptr, bytes, alignment);
    } else {
        crmm_deallocate(to, how.stream, ptr, bytes, alignment);
    }
    crmm_priv_cuda_leave_device(previous);
}

__attribute__((noinline)) static crmm_status allocate_other(binning *own, call how, size_t bytes,
                                                            size_t alignment, void **ptr)
{
    const bin *to = route(bins_of(own), bytes, alignment);
    crmm_resource *from = to->resource;
    crmm_priv_block block = {.origin = from, .bytes = bytes, .alignment = alignment};
    int previous = -1;

    crmm_status status = enter(own, from, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = how.is_sync ? crmm_allocate_sync(from, bytes, alignment, &block.ptr)
                         : crmm_allocate(from, how.stream, bytes, alignment, &block.ptr);
    crmm_priv_cuda_leave_device(previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_blocks_add(&own->others, &block)) {
        give_back(own, from, how, block.ptr, bytes, alignment);
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: no host memory to keep the books of %zu bytes", class_name, bytes);
    }
    crmm_priv_books_add(&own->books, bytes);
    *ptr = block.ptr;
    return CRMM_SUCCESS;
}

__attribute__((noinline, cold)) static void report_mismatch(const crmm_priv_block *known,
                                                            size_t bytes, size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_SIZE_MISMATCH,
                         .resource_name = class_name,
                         .ptr = known->ptr,
                         .bytes = bytes,
                         .alignment = alignment};

    if (known->bytes != bytes) {
        crmm_priv_report(found, "%s: %p was allocated with %zu bytes and given back with %zu",
                         class_name, found.ptr, known->bytes, bytes);
        return;
    }
    found.kind = CRMM_MISUSE_ALIGNMENT_MISMATCH;
    crmm_priv_report(found,
                     "%s: %p was allocated with alignment %zu and given back with alignment %zu",
                     class_name, found.ptr, known->alignment, alignment);
}

__attribute__((noinline, cold)) static void report_unknown(binning *own, const void *ptr,
                                                           size_t bytes, size_t alignment)
{
    crmm_misuse found = {.kind = CRMM_MISUSE_FOREIGN_POINTER,
                         .resource_name = class_name,
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment};

    if (crmm_priv_blocks_was_last(&own->others, ptr)) {
        found.kind = CRMM_MISUSE_DOUBLE_FREE;
        crmm_priv_report(found, "%s: %p (%zu bytes) was given back before", class_name, ptr, bytes);
        return;
    }
    crmm_priv_report(found, "%s: %p (%zu bytes) was not allocated here", class_name, ptr, bytes);
}

/* A block that is not in the bin that one of its size would come from now. */
__attribute__((noinline)) static void deallocate_other(binning *own, call how, void *ptr,
                                                       size_t bytes, size_t alignment)
{
    crmm_priv_block block;

    switch (crmm_priv_blocks_take(&own->others, ptr, bytes, alignment, &block)) {
    case CRMM_PRIV_BLOCK_TAKEN:
        crmm_priv_books_subtract(&own->books, block.bytes);
        give_back(own, block.origin, how, ptr, bytes, alignment);
        return;
    case CRMM_PRIV_BLOCK_OTHER:
        report_mismatch(&block, bytes, alignment);
        return;
    case CRMM_PRIV_BLOCK_ABSENT:
        break;
    }
    const bin *owner = find_owner(bins_of(own), ptr);
    if (owner != NULL) {
        deallocate_to_owner(owner, how, ptr, bytes, alignment);
    } else {
        report_unknown(own, ptr, bytes, alignment);
    }
}

/* ---- operations ---- */

static inline crmm_status allocate(crmm_resource *resource, call how, size_t bytes,
                                   size_t alignment, void **ptr)
{
    binning *own = (binning *)resource;
    const bin *to = smallest(bins_of(own), bytes);

    if (__builtin_expect(is_own(to) && alignment <= CRMM_DEVICE_ALIGNMENT, 1)) {
        return allocate_from(to, how, ptr);
    }
    return allocate_other(own, how, bytes, alignment, ptr);
}

static inline void deallocate(crmm_resource *resource, call how, void *ptr, size_t bytes,
                              size_t alignment)
{
    binning *own = (binning *)resource;
    const bin *from = smallest(bins_of(own), bytes);

    if (__builtin_expect(is_own(from) && alignment <= CRMM_DEVICE_ALIGNMENT &&
                             crmm_priv_fixed_size_owns(from->resource, ptr),
                         1)) {
        deallocate_to(from, how, ptr);
        return;
    }
    deallocate_other(own, how, ptr, bytes, alignment);
}

static crmm_status binning_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr)
{
    return allocate(resource, (call){.stream = stream}, bytes, alignment, ptr);
}

static crmm_status binning_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr)
{
    return allocate(resource, (call){.is_sync = true}, bytes, alignment, ptr);
}

static void binning_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment)
{
    deallocate(resource, (call){.stream = stream}, ptr, bytes, alignment);
}

static void binning_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment)
{
    deallocate(resource, (call){.is_sync = true}, ptr, bytes, alignment);
}

static void binning_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    binning *own = (binning *)resource;
    const bin *owner = find_owner(bins_of(own), ptr);
    const call how = {.stream = stream,
                      .is_sync = !crmm_resource_has(resource, CRMM_STREAM_ORDERED)};
    crmm_priv_block block;

    if (owner != NULL) {
        crmm_deallocate_ptr(owner->resource, stream, ptr);
    } else if (crmm_priv_blocks_take_any(&own->others, ptr, &block) == CRMM_PRIV_BLOCK_TAKEN) {
        crmm_priv_books_subtract(&own->books, block.bytes);
        give_back(own, block.origin, how, ptr, block.bytes, block.alignment);
    } else {
        report_unknown(own, ptr, 0, 0);
    }
}

static crmm_resource *binning_upstream(const crmm_resource *resource)
{
    return ((const binning *)resource)->upstream;
}

/* What bins give back to upstream may go on from there, so upstream comes last. */
static crmm_status binning_trim(crmm_resource *resource, size_t bytes_to_keep, size_t *released)
{
    binning *own = (binning *)resource;
    const bins *all = bins_of(own);
    size_t sum = 0;
    size_t one = 0;

    for (size_t i = 0; i < all->count; i++) {
        crmm_status status = crmm_resource_trim(all->list[i].resource, bytes_to_keep, &one);
        if (status != CRMM_SUCCESS) {
            return status;
        }
        sum += one;
    }
    crmm_status status = crmm_resource_trim(own->upstream, bytes_to_keep, &one);
    if (status == CRMM_SUCCESS) {
        *released = sum + one;
    }
    return status;
}

/* Own bins are told of by themselves; of other resources only what came from here counts. */
static crmm_status binning_info(const crmm_resource *resource, crmm_memory_info *info)
{
    const binning *own = (const binning *)resource;
    const bins *all = bins_of(own);

    crmm_priv_books_info(&own->books, info);
    for (size_t i = 0; i < all->count; i++) {
        crmm_memory_info one = {.struct_size = sizeof(one)};
        if (!is_own(&all->list[i]) ||
            crmm_resource_info(all->list[i].resource, &one) != CRMM_SUCCESS) {
            continue;
        }
        info->live += one.live;
        info->allocations += one.allocations;
        info->held += one.held;
        info->cached += one.cached;
        info->pending += one.pending;
        info->peak_live += one.peak_live;
        info->peak_held += one.peak_held;
        info->largest_free =
            one.largest_free > info->largest_free ? one.largest_free : info->largest_free;
    }
    return CRMM_SUCCESS;
}

static size_t binning_describe(const crmm_resource *resource, char *text, size_t size)
{
    const binning *own = (const binning *)resource;
    const bins *all = bins_of(own);
    int length =
        all->count == 0
            ? snprintf(text, size, "%s (device %d, no bins)", class_name, own->device)
            : snprintf(text, size, "%s (device %d, %zu bins of %zu to %zu)", class_name,
                       own->device, all->count, all->list[0].size, all->list[all->count - 1].size);

    return crmm_priv_describe_over(own->upstream, text, size, (size_t)length);
}

static void free_bins(bins *all)
{
    for (size_t i = 0; all != NULL && i < all->count; i++) {
        crmm_resource_release(&all->list[i].resource);
    }
    while (all != NULL) {
        bins *before = all->before;
        free(all);
        all = before;
    }
}

static void binning_destroy(crmm_resource *resource)
{
    binning *own = (binning *)resource;
    crmm_resource *upstream = own->upstream;
    const void *one = NULL;
    size_t bytes = 0;
    size_t count = crmm_priv_blocks_sum(&own->others, &bytes, &one);

    crmm_priv_blocks_finish(&own->others);
    crmm_priv_lock_forget(&own->lock);
    if (count != 0) {
        crmm_priv_report(
            (crmm_misuse){
                .kind = CRMM_MISUSE_LEAK, .resource_name = class_name, .ptr = one, .bytes = bytes},
            "%s: released with %zu allocations of %zu bytes alive that are in none of its own "
            "bins, among them %p",
            class_name, count, bytes, one);
    }
    free_bins(own->bins);
    crmm_resource_storage_free(resource);
    crmm_resource_release(&upstream);
}

static const crmm_resource_ops binning_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = binning_allocate_sync,
    .deallocate_sync = binning_deallocate_sync,
    .destroy = binning_destroy,
    .allocate = binning_allocate,
    .deallocate = binning_deallocate,
    .deallocate_ptr = binning_deallocate_ptr,
    .upstream = binning_upstream,
    .trim = binning_trim,
    .info = binning_info,
    .describe = binning_describe,
};

bool crmm_priv_binning_all(const crmm_resource *resource, bool (*holds)(const crmm_resource *bin))
{
    if (resource->ops != &binning_ops) {
        return true;
    }
    const bins *all = bins_of((const binning *)resource);
    size_t i = 0;
    while (i < all->count && holds(all->list[i].resource)) {
        i++;
    }
    return i == all->count;
}

/* ---- adding bins ---- */

/* Of so many bins, to be filled, and upstream behind them. */
static bins *allocate_bins(size_t count)
{
    bins *all = calloc(1, sizeof(*all) + (count + 1) * sizeof(all->list[0]));

    if (all != NULL) {
        all->count = count;
    }
    return all;
}

/* A table with one bin more, published; takes the reference of its resource over if it succeeds. */
static crmm_status publish(binning *own, bin added)
{
    crmm_status status = CRMM_SUCCESS;

    crmm_priv_lock_acquire(&own->lock);
    bins *before = own->bins;
    size_t at = (size_t)(lower_bound(before, added.size) - before->list);
    bool is_there = before->list[at].size == added.size;
    bins *all = is_there ? NULL : allocate_bins(before->count + 1);
    if (all != NULL) {
        all->before = before;
        for (size_t i = 0; i <= all->count; i++) {
            all->list[i] = i < at ? before->list[i] : i == at ? added : before->list[i - 1];
        }
        set_first(all);
        __atomic_store_n(&own->bins, all, __ATOMIC_RELEASE);
    }
    crmm_priv_lock_release(&own->lock);
    if (is_there) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: there is a bin of %zu bytes", class_name,
                      added.size);
    } else if (all == NULL) {
        status = FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for a bin", class_name);
    }
    return status;
}

static bool has_bin(const binning *own, size_t size)
{
    return lower_bound(bins_of(own), size)->size == size;
}

/* A new bin of blocks of one size, which is a multiple of CRMM_DEVICE_ALIGNMENT. */
static crmm_status add_own(binning *own, size_t size)
{
    uint64_t blocks = own->blocks_to_preallocate;
    bin added = {.size = size};
    int previous = -1;

    if (blocks == 0) {
        blocks = BYTES_AT_FIRST / size;
        blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    }
    crmm_status status = enter(own, own->upstream, &previous);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    status = crmm_fixed_size_memory_resource_create(own->upstream,
                                                    CRMM_OPTIONS(crmm_fixed_size_memory_resource,
                                                                 .block_size = size,
                                                                 .blocks_to_preallocate = blocks),
                                                    &added.resource);
    crmm_priv_cuda_leave_device(previous);
    if (status == CRMM_SUCCESS) {
        added.stride = crmm_priv_fixed_size_stride(added.resource);
        status = publish(own, added);
    }
    if (status != CRMM_SUCCESS && added.resource != NULL) {
        const crmm_error why = *crmm_last_error();
        crmm_resource_release(&added.resource);
        crmm_priv_restore_error(&why);
    }
    return status;
}

/* Whether a resource can be a bin. */
static crmm_status check_bin(const binning *own, const crmm_resource *resource)
{
    int device = crmm_resource_device(resource);

    for (const crmm_resource *below = resource; below != NULL;
         below = crmm_resource_upstream(below)) {
        if (below == &own->base) {
            return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s stands on this resource itself",
                        class_name, crmm_resource_name(resource));
        }
    }
    if (device >= 0 && own->device >= 0 && device != own->device) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s belongs to device %d, not %d",
                    class_name, crmm_resource_name(resource), device, own->device);
    }
    return crmm_priv_require_properties(class_name, resource, crmm_resource_properties(&own->base));
}

crmm_status crmm_binning_memory_resource_add_bin(crmm_resource *mr, size_t allocation_size,
                                                 crmm_resource *bin_resource)
{
    binning *own = (binning *)mr;

    crmm_status status =
        crmm_priv_require_class("crmm_binning_memory_resource_add_bin", mr, &binning_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (allocation_size == 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: a bin of 0 bytes", class_name);
    }
    size_t size = crmm_align_up(allocation_size, CRMM_DEVICE_ALIGNMENT);
    if (size == 0 || size > PTRDIFF_MAX) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: a bin of %zu bytes is more than can exist",
                    class_name, allocation_size);
    }
    if (has_bin(own, size)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: there is a bin of %zu bytes", class_name,
                    size);
    }
    if (bin_resource == NULL) {
        return add_own(own, size);
    }
    status = check_bin(own, bin_resource);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    bin added = {.size = size, .resource = crmm_resource_retain(bin_resource)};
    status = publish(own, added);
    if (status != CRMM_SUCCESS) {
        crmm_resource_release(&added.resource);
    }
    return status;
}

/* ---- creation ---- */

_Static_assert(sizeof(crmm_binning_memory_resource_options) == 4 * sizeof(size_t),
               "options structs have no padding");

void crmm_binning_memory_resource_options_init(crmm_binning_memory_resource_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static crmm_status check_options(const crmm_binning_memory_resource_options *options)
{
    if (options->max_size_exponent > MOST_EXPONENT) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->max_size_exponent %llu is more than %d", class_name,
                    (unsigned long long)options->max_size_exponent, MOST_EXPONENT);
    }
    if (options->min_size_exponent > options->max_size_exponent) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->min_size_exponent %llu is more than max_size_exponent %llu",
                    class_name, (unsigned long long)options->min_size_exponent,
                    (unsigned long long)options->max_size_exponent);
    }
    return CRMM_SUCCESS;
}

static crmm_status add_exponents(binning *own, uint64_t first, uint64_t last)
{
    for (uint64_t exponent = first; last != 0 && exponent <= last; exponent++) {
        size_t size = (size_t)1 << exponent;
        size = size < CRMM_DEVICE_ALIGNMENT ? CRMM_DEVICE_ALIGNMENT : size;
        /* What is smaller than a block can be is one bin. */
        crmm_status status = has_bin(own, size) ? CRMM_SUCCESS : add_own(own, size);
        if (status != CRMM_SUCCESS) {
            return status;
        }
    }
    return CRMM_SUCCESS;
}

/* From zeroed storage, with one reference of the caller's; NULL: no host memory. */
static binning *make(crmm_resource *upstream)
{
    binning *created = crmm_resource_storage_allocate(sizeof(*created));
    bins *none = allocate_bins(0);

    if (created == NULL || none == NULL || !crmm_priv_blocks_init(&created->others)) {
        free(none);
        free(created);
        return NULL;
    }
    none->list[0] = (bin){.size = SIZE_MAX, .resource = upstream};
    set_first(none);
    created->bins = none;
    created->lock = (crmm_priv_lock)CRMM_PRIV_LOCK_INITIALIZER;
    created->upstream = crmm_resource_retain(upstream);
    created->device = -1;
    crmm_resource_init(&created->base, &binning_ops, class_name,
                       crmm_resource_properties(upstream));
    if (crmm_resource_has(upstream, CRMM_STREAM_ORDERED)) {
        created->base.reserved[CRMM_PRIV_PROPERTIES] |= CRMM_PRIV_KEEPS_RULES;
    }
    return created;
}

static crmm_status set_up(binning *own, const crmm_binning_memory_resource_options *options)
{
    crmm_status status = CRMM_SUCCESS;

    own->blocks_to_preallocate = options->blocks_to_preallocate;
    own->device = crmm_resource_device(own->upstream);
    if (own->device < 0 && crmm_resource_has(own->upstream, CRMM_STREAM_ORDERED)) {
        status = crmm_priv_cuda_current_device(&own->device);
    }
    if (status == CRMM_SUCCESS && own->device >= 0) {
        crmm_resource_bind_device(&own->base, own->device);
    }
    if (status == CRMM_SUCCESS) {
        status = add_exponents(own, options->min_size_exponent, options->max_size_exponent);
    }
    return status;
}

crmm_status crmm_binning_memory_resource_create(crmm_resource *upstream,
                                                const crmm_binning_memory_resource_options *options,
                                                crmm_resource **out)
{
    crmm_binning_memory_resource_options known;

    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS && (upstream == NULL || out == NULL)) {
        status = FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: %s is NULL", class_name,
                      upstream == NULL ? "upstream" : "out");
    }
    if (status == CRMM_SUCCESS) {
        status = check_options(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    binning *created = make(upstream);
    if (created == NULL) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the resource", class_name);
    }
    status = set_up(created, &known);
    if (status != CRMM_SUCCESS) {
        const crmm_error why = *crmm_last_error();
        binning_destroy(&created->base);
        crmm_priv_restore_error(&why);
        return status;
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}
