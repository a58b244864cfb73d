/* SPDX-License-Identifier: Apache-2.0 */
#include "simulated_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "shadow.h"
#include "simulation.h"

static crmm_status refuse(const char *why)
{
    return crmm_set_last_error(CRMM_ERROR_OUT_OF_MEMORY, 2, why);
}

enum { NOTHING, HANDLE, HANDLE_GOES_ON };

static upstream_range *find_range(simulated_upstream *upstream, const char *ptr, size_t bytes)
{
    for (size_t i = 0; i < upstream->range_count; i++) {
        upstream_range *range = &upstream->ranges[i];
        if (range->pages != NULL && ptr >= range->base &&
            (size_t)(ptr - range->base) < range->bytes &&
            bytes <= range->bytes - (size_t)(ptr - range->base)) {
            return range;
        }
    }
    return NULL;
}

/* The first page of a part of a range; NULL, and a failure, if it is no such part. */
static unsigned char *find_pages(simulated_upstream *upstream, const char *call, const char *ptr,
                                 size_t bytes)
{
    upstream_range *range = find_range(upstream, ptr, bytes);

    if (range == NULL || bytes == 0 || bytes % SHADOW_PAGE != 0 ||
        (size_t)(ptr - range->base) % SHADOW_PAGE != 0) {
        sim_fail("%s: %zu bytes at %p are no pages of a range", call, bytes, (const void *)ptr);
        return NULL;
    }
    return range->pages + (size_t)(ptr - range->base) / SHADOW_PAGE;
}

static crmm_status reserve(simulated_upstream *upstream, size_t bytes, size_t alignment,
                           void **base)
{
    if (bytes % SHADOW_PAGE != 0) {
        sim_fail("reserve: %zu bytes are no pages", bytes);
    }
    if (sim_call_fails() || upstream->range_count == UPSTREAM_RANGES_MOST) {
        return refuse("no address space");
    }
    upstream_range *range = &upstream->ranges[upstream->range_count];
    range->base = simulated_upstream_new_addresses(
        upstream, bytes, alignment > SHADOW_PAGE ? alignment : SHADOW_PAGE);
    range->bytes = bytes;
    range->pages = range->base != NULL ? calloc(bytes / SHADOW_PAGE, 1) : NULL;
    if (range->pages == NULL) {
        return refuse("no address space");
    }
    upstream->range_count++;
    *base = range->base;
    return CRMM_SUCCESS;
}

crmm_status simulated_reserve(crmm_resource *resource, size_t bytes, size_t alignment, void **base)
{
    crmm_status status = reserve(simulated_upstream_begin(resource), bytes, alignment, base);
    sim_unlock();
    sim_end_of_call();
    return status;
}

/* Whether a part of a range is whole handles; else a failure. */
static bool check_handles(simulated_upstream *upstream, const char *call, const char *ptr,
                          size_t bytes)
{
    const unsigned char *pages = find_pages(upstream, call, ptr, bytes);

    if (pages == NULL) {
        return false;
    }
    bool goes_on = find_range(upstream, ptr, bytes + SHADOW_PAGE) != NULL &&
                   pages[bytes / SHADOW_PAGE] == HANDLE_GOES_ON;
    if (pages[0] != HANDLE || goes_on) {
        sim_fail("%s: %zu bytes at %p are not whole handles", call, bytes, (const void *)ptr);
        return false;
    }
    return true;
}

/* While memory has two addresses nothing but the end of that may happen at either. */
static bool check_unmoved(const simulated_upstream *upstream, const char *call, const char *ptr,
                          size_t bytes)
{
    for (size_t i = 0; i < upstream->move_count; i++) {
        const upstream_move *move = &upstream->moves[i];
        if ((ptr < move->to + move->bytes && move->to < ptr + bytes) ||
            (ptr < move->from + move->bytes && move->from < ptr + bytes)) {
            sim_fail("%s: %zu bytes at %p are being moved", call, bytes, (const void *)ptr);
            return false;
        }
    }
    return true;
}

static crmm_status commit(simulated_upstream *upstream, char *ptr, size_t bytes)
{
    unsigned char *pages = find_pages(upstream, "commit", ptr, bytes);

    if (pages == NULL || !check_unmoved(upstream, "commit", ptr, bytes) ||
        !simulated_upstream_take_bytes(upstream, bytes)) {
        return refuse("no memory for a handle");
    }
    for (size_t i = 0; i < bytes / SHADOW_PAGE; i++) {
        pages[i] = i == 0 || upstream->single_pages ? HANDLE : HANDLE_GOES_ON;
    }
    shadow_map(ptr, bytes, (sim_point){0});
    return CRMM_SUCCESS;
}

crmm_status simulated_commit(crmm_resource *resource, void *ptr, size_t bytes)
{
    crmm_status status = commit(simulated_upstream_begin(resource), ptr, bytes);
    sim_unlock();
    sim_end_of_call();
    return status;
}

/* What fails has changed nothing. */
static crmm_status decommit(simulated_upstream *upstream, char *ptr, size_t bytes)
{
    if (!check_handles(upstream, "decommit", ptr, bytes) ||
        !check_unmoved(upstream, "decommit", ptr, bytes)) {
        return crmm_set_last_error(CRMM_ERROR_CUDA, 1, "simulated_upstream: decommit");
    }
    if (sim_call_fails()) {
        return refuse("a handle cannot be unmapped");
    }
    memset(find_pages(upstream, "decommit", ptr, bytes), NOTHING, bytes / SHADOW_PAGE);
    upstream->held -= bytes;
    shadow_unmap(ptr, bytes, NULL);
    return CRMM_SUCCESS;
}

crmm_status simulated_decommit(crmm_resource *resource, void *ptr, size_t bytes)
{
    crmm_status status = decommit(simulated_upstream_begin(resource), ptr, bytes);
    sim_unlock();
    sim_end_of_call();
    return status;
}

static crmm_status unreserve(simulated_upstream *upstream, char *base, size_t bytes)
{
    upstream_range *range = find_range(upstream, base, bytes);

    if (range == NULL || range->base != base || range->bytes != bytes) {
        sim_fail("unreserve: %zu bytes at %p are no range", bytes, (void *)base);
        return CRMM_ERROR_CUDA;
    }
    for (size_t i = 0; i < bytes / SHADOW_PAGE; i++) {
        if (range->pages[i] != NOTHING) {
            sim_fail("unreserve: a page of the range is mapped");
            break;
        }
    }
    free(range->pages);
    *range = upstream->ranges[--upstream->range_count];
    return CRMM_SUCCESS;
}

crmm_status simulated_unreserve(crmm_resource *resource, void *base, size_t bytes)
{
    crmm_status status = unreserve(simulated_upstream_begin(resource), base, bytes);
    sim_unlock();
    sim_end_of_call();
    return status;
}

/* ---- moving ---- */

static crmm_status move_begin(simulated_upstream *upstream, char *to, char *from, size_t bytes)
{
    unsigned char *new_pages = find_pages(upstream, "move_begin", to, bytes);
    const unsigned char *pages = find_pages(upstream, "move_begin", from, bytes);

    if (new_pages == NULL || pages == NULL || !check_handles(upstream, "move_begin", from, bytes) ||
        !check_unmoved(upstream, "move_begin", from, bytes) ||
        !check_unmoved(upstream, "move_begin", to, bytes)) {
        return crmm_set_last_error(CRMM_ERROR_CUDA, 1, "simulated_upstream: move_begin");
    }
    if (sim_call_fails() || upstream->move_count == UPSTREAM_MOVES_MOST) {
        return refuse("a handle cannot be mapped again");
    }
    shadow_move(to, from, bytes);
    memcpy(new_pages, pages, bytes / SHADOW_PAGE);
    upstream->moves[upstream->move_count++] = (upstream_move){to, from, bytes};
    upstream->moves_begun++;
    return CRMM_SUCCESS;
}

crmm_status simulated_move_begin(crmm_resource *resource, void *to, const void *from, size_t bytes)
{
    crmm_status status =
        move_begin(simulated_upstream_begin(resource), to, (char *)(uintptr_t)from, bytes);
    sim_unlock();
    sim_end_of_call();
    return status;
}

/* Where the memory had come from goes, or the move is undone. */
static crmm_status move_end(simulated_upstream *upstream, char *gone, size_t bytes)
{
    for (size_t i = 0; i < upstream->move_count; i++) {
        upstream_move *move = &upstream->moves[i];
        if (move->bytes != bytes || (move->from != gone && move->to != gone)) {
            continue;
        }
        if (sim_call_fails()) {
            return refuse("a handle cannot be unmapped");
        }
        if (move->from == gone) {
            shadow_end_move(gone, bytes);
        } else {
            shadow_undo_move(gone, move->from, bytes);
        }
        memset(find_pages(upstream, "move_end", gone, bytes), NOTHING, bytes / SHADOW_PAGE);
        *move = upstream->moves[--upstream->move_count];
        return CRMM_SUCCESS;
    }
    sim_fail("move_end: %zu bytes at %p are not being moved", bytes, (void *)gone);
    return crmm_set_last_error(CRMM_ERROR_CUDA, 1, "simulated_upstream: move_end");
}

crmm_status simulated_move_end(crmm_resource *resource, void *from, size_t bytes)
{
    crmm_status status = move_end(simulated_upstream_begin(resource), from, bytes);
    sim_unlock();
    sim_end_of_call();
    return status;
}
