/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/aligned_resource_adaptor.h>

#include <stdint.h>
#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/blocks.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>

#include "adaptor.h"

static const char class_name[] = "aligned_resource_adaptor";

/* What an upstream gives. Device memory cannot be written from here, so the books are a table. */
#define BASE_ALIGNMENT ((size_t)CRMM_DEVICE_ALIGNMENT)

typedef struct aligned {
    crmm_priv_adaptor adaptor;
    size_t alignment; /* at least BASE_ALIGNMENT */
    size_t threshold;
    crmm_priv_blocks padded; /* the blocks that are aligned to more than BASE_ALIGNMENT */
} aligned;

/* ---- sizes ---- */

/* The alignment that a request gets; told by what a free is given too. */
static size_t effective_alignment(const aligned *adaptor, size_t bytes, size_t alignment)
{
    return bytes >= adaptor->threshold && adaptor->alignment > alignment ? adaptor->alignment
                                                                         : alignment;
}

/* What upstream is asked for, so that `bytes` begin at a multiple of `effective` wherever it lies.
 */
static crmm_status pad(size_t bytes, size_t effective, size_t *padded)
{
    size_t whole = crmm_align_up(bytes, effective);
    size_t slack = effective - BASE_ALIGNMENT;

    if (whole == 0 || whole > PTRDIFF_MAX || slack > PTRDIFF_MAX - whole) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: %zu bytes aligned to %zu need more than can exist", class_name,
                          bytes, effective);
    }
    *padded = whole + slack;
    return CRMM_SUCCESS;
}

static void *align_pointer(void *base, size_t alignment)
{
    size_t address = (size_t)(uintptr_t)base;
    return (char *)base + (crmm_align_up(address, alignment) - address);
}

/* ---- books ---- */

static crmm_status no_memory_for_books(size_t bytes)
{
    return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                      "%s: no host memory to keep the books of %zu bytes", class_name, bytes);
}

static crmm_misuse misuse_of(const void *ptr, size_t bytes, size_t alignment)
{
    return (crmm_misuse){
        .resource_name = class_name, .ptr = ptr, .bytes = bytes, .alignment = alignment};
}

static void report_other(const crmm_priv_block *known, size_t bytes, size_t alignment)
{
    crmm_misuse found = misuse_of(known->ptr, bytes, alignment);

    if (known->bytes != bytes) {
        found.kind = CRMM_MISUSE_SIZE_MISMATCH;
        crmm_priv_report(found, "%s: %p was allocated with %zu bytes and given back with %zu",
                         class_name, found.ptr, known->bytes, bytes);
    } else {
        found.kind = CRMM_MISUSE_ALIGNMENT_MISMATCH;
        crmm_priv_report(
            found, "%s: %p was allocated with alignment %zu and given back with alignment %zu",
            class_name, found.ptr, known->alignment, alignment);
    }
}

/* Take the block of a free that must be a padded one out of the books; reports if it is not. */
static bool take(aligned *adaptor, const void *ptr, size_t bytes, size_t alignment,
                 crmm_priv_block *block)
{
    crmm_misuse found = misuse_of(ptr, bytes, alignment);

    switch (crmm_priv_blocks_take(&adaptor->padded, ptr, bytes, alignment, block)) {
    case CRMM_PRIV_BLOCK_TAKEN:
        return true;
    case CRMM_PRIV_BLOCK_OTHER:
        report_other(block, bytes, alignment);
        return false;
    case CRMM_PRIV_BLOCK_ABSENT:
        break;
    }
    found.kind = CRMM_MISUSE_FOREIGN_POINTER;
    crmm_priv_report(found, "%s: %p (%zu bytes, alignment %zu) is not allocated here", class_name,
                     ptr, bytes, alignment);
    return false;
}

/*
 * Whether a free that looks like one of a block passed through is that. A padded one, given back
 * with a wrong size or alignment, is reported: upstream has never heard of its address.
 */
static bool was_passed_through(aligned *adaptor, const void *ptr, size_t bytes, size_t alignment)
{
    crmm_priv_block known;

    if (!crmm_is_pointer_aligned(ptr, 2 * BASE_ALIGNMENT) ||
        !crmm_priv_blocks_find(&adaptor->padded, ptr, &known)) {
        return true;
    }
    report_other(&known, bytes, alignment);
    return false;
}

/* ---- operations ---- */

/* One request, passed through where the upstream can serve it, else padded. */
typedef struct request {
    size_t effective;
    size_t padded; /* bytes to ask for */
    size_t asked;  /* alignment to ask for */
} request;

static crmm_status make_request(const aligned *adaptor, size_t bytes, size_t alignment,
                                request *made)
{
    made->effective = effective_alignment(adaptor, bytes, alignment);
    made->padded = bytes;
    made->asked = made->effective;
    if (made->effective <= BASE_ALIGNMENT) {
        return CRMM_SUCCESS;
    }
    made->asked = BASE_ALIGNMENT;
    return pad(bytes, made->effective, &made->padded);
}

/* Find the aligned part of what upstream gave and enter it; false: no memory for the entry. */
static bool enter(aligned *adaptor, const request *made, void *base, size_t bytes, size_t alignment,
                  void **ptr)
{
    if (made->effective <= BASE_ALIGNMENT) {
        *ptr = base;
        return true;
    }
    const crmm_priv_block block = {.ptr = align_pointer(base, made->effective),
                                   .origin = base,
                                   .bytes = bytes,
                                   .alignment = alignment,
                                   .padded = made->padded};
    if (!crmm_priv_blocks_add(&adaptor->padded, &block)) {
        return false;
    }
    *ptr = block.ptr;
    return true;
}

static crmm_status aligned_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                         void **ptr)
{
    aligned *adaptor = (aligned *)resource;
    crmm_resource *upstream = adaptor->adaptor.upstream;
    request made;
    void *base = NULL;

    crmm_status status = make_request(adaptor, bytes, alignment, &made);
    if (status == CRMM_SUCCESS) {
        status = crmm_allocate_sync(upstream, made.padded, made.asked, &base);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!enter(adaptor, &made, base, bytes, alignment, ptr)) {
        crmm_deallocate_sync(upstream, base, made.padded, made.asked);
        return no_memory_for_books(bytes);
    }
    return CRMM_SUCCESS;
}

static crmm_status aligned_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                    size_t alignment, void **ptr)
{
    aligned *adaptor = (aligned *)resource;
    crmm_resource *upstream = adaptor->adaptor.upstream;
    request made;
    void *base = NULL;

    crmm_status status = make_request(adaptor, bytes, alignment, &made);
    if (status == CRMM_SUCCESS) {
        status = crmm_allocate(upstream, stream, made.padded, made.asked, &base);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!enter(adaptor, &made, base, bytes, alignment, ptr)) {
        crmm_deallocate(upstream, stream, base, made.padded, made.asked);
        return no_memory_for_books(bytes);
    }
    return CRMM_SUCCESS;
}

/* The books forget a block before upstream gets it back: its address may come again at once. */
static void aligned_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                    size_t alignment)
{
    aligned *adaptor = (aligned *)resource;
    size_t effective = effective_alignment(adaptor, bytes, alignment);
    crmm_priv_block block;

    if (effective > BASE_ALIGNMENT) {
        if (take(adaptor, ptr, bytes, alignment, &block)) {
            crmm_deallocate_sync(adaptor->adaptor.upstream, block.origin, block.padded,
                                 BASE_ALIGNMENT);
        }
    } else if (was_passed_through(adaptor, ptr, bytes, alignment)) {
        crmm_deallocate_sync(adaptor->adaptor.upstream, ptr, bytes, effective);
    }
}

static void aligned_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                               size_t alignment)
{
    aligned *adaptor = (aligned *)resource;
    size_t effective = effective_alignment(adaptor, bytes, alignment);
    crmm_priv_block block;

    if (effective > BASE_ALIGNMENT) {
        if (take(adaptor, ptr, bytes, alignment, &block)) {
            crmm_deallocate(adaptor->adaptor.upstream, stream, block.origin, block.padded,
                            BASE_ALIGNMENT);
        }
    } else if (was_passed_through(adaptor, ptr, bytes, alignment)) {
        crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, bytes, effective);
    }
}

static void aligned_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    aligned *adaptor = (aligned *)resource;
    crmm_priv_block block;

    if (crmm_priv_blocks_take_any(&adaptor->padded, ptr, &block) == CRMM_PRIV_BLOCK_TAKEN) {
        if (crmm_resource_has(resource, CRMM_STREAM_ORDERED)) {
            crmm_deallocate(adaptor->adaptor.upstream, stream, block.origin, block.padded,
                            BASE_ALIGNMENT);
        } else {
            crmm_deallocate_sync(adaptor->adaptor.upstream, block.origin, block.padded,
                                 BASE_ALIGNMENT);
        }
    } else {
        crmm_deallocate_ptr(adaptor->adaptor.upstream, stream, ptr);
    }
}

static void aligned_destroy(crmm_resource *resource)
{
    aligned *adaptor = (aligned *)resource;
    const void *one = NULL;
    size_t bytes = 0;
    size_t count = crmm_priv_blocks_sum(&adaptor->padded, &bytes, &one);

    crmm_priv_blocks_finish(&adaptor->padded);
    if (count != 0) {
        crmm_priv_report(
            (crmm_misuse){
                .kind = CRMM_MISUSE_LEAK, .resource_name = class_name, .ptr = one, .bytes = bytes},
            "%s: released with %zu padded allocations of %zu bytes alive, among them "
            "%p",
            class_name, count, bytes, one);
    }
    crmm_priv_adaptor_destroy(resource);
}

static size_t aligned_describe(const crmm_resource *resource, char *text, size_t size)
{
    const aligned *adaptor = (const aligned *)resource;
    int length = snprintf(text, size, "%s (alignment %zu, threshold %zu)", class_name,
                          adaptor->alignment, adaptor->threshold);
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, (size_t)length);
}

/* A padded block goes back to the adaptor whose books it is in, so only identity is equality. */
static const crmm_resource_ops aligned_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = aligned_allocate_sync,
    .deallocate_sync = aligned_deallocate_sync,
    .destroy = aligned_destroy,
    .allocate = aligned_allocate,
    .deallocate = aligned_deallocate,
    .deallocate_ptr = aligned_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = aligned_describe,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_aligned_resource_adaptor_options) == 3 * sizeof(size_t),
               "options structs have no padding");

void crmm_aligned_resource_adaptor_options_init(crmm_aligned_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

crmm_status crmm_aligned_resource_adaptor_create(
    crmm_resource *upstream, const crmm_aligned_resource_adaptor_options *options,
    crmm_resource **out)
{
    crmm_aligned_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (known.alignment != 0 && !crmm_is_pow2(known.alignment)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->alignment %zu is not a power of two", class_name,
                    known.alignment);
    }
    aligned *created = crmm_priv_adaptor_create(class_name, &aligned_ops, sizeof(*created),
                                                upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    if (!crmm_priv_blocks_init(&created->padded)) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no memory for its locks", class_name);
    }
    created->alignment = known.alignment > BASE_ALIGNMENT ? known.alignment : BASE_ALIGNMENT;
    created->threshold = known.alignment_threshold;
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}
