/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/internal/ledger.h>

#include <stdint.h>
#include <stdlib.h>

#include <crmm/internal/report.h>

struct crmm_priv_ledger_entry {
    const void *ptr; /* NULL: the slot is empty */
    size_t bytes;
    size_t alignment;
    bool live;
};

/* ---- the table ---- */

/* Where a block is, or the empty slot where it belongs; the table has an empty slot. The multiplier
 * is 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming 3, section 6.4). */
static crmm_priv_ledger_entry *find(const crmm_priv_ledger *ledger, const void *ptr)
{
    uint64_t hash = (uint64_t)(uintptr_t)ptr * UINT64_C(0x9E3779B97F4A7C15);
    size_t mask = ledger->capacity - 1;
    size_t slot = (size_t)(hash >> 32) & mask;

    while (ledger->entries[slot].ptr != NULL && ledger->entries[slot].ptr != ptr) {
        slot = (slot + 1) & mask;
    }
    return &ledger->entries[slot];
}

/* Make sure that one more entry leaves a quarter of the slots empty. */
static bool make_room(crmm_priv_ledger *ledger)
{
    if (ledger->used < ledger->capacity / 4 * 3) {
        return true;
    }

    crmm_priv_ledger larger = {.capacity = ledger->capacity == 0 ? 64 : ledger->capacity * 2};
    larger.entries = calloc(larger.capacity, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < ledger->capacity; i++) {
        if (ledger->entries[i].ptr != NULL) {
            *find(&larger, ledger->entries[i].ptr) = ledger->entries[i];
        }
    }
    free(ledger->entries);
    ledger->entries = larger.entries;
    ledger->capacity = larger.capacity;
    return true;
}

bool crmm_priv_ledger_add(crmm_priv_ledger *ledger, const void *ptr, size_t bytes, size_t alignment)
{
    crmm_priv_lock_acquire(&ledger->lock);
    bool added = make_room(ledger);
    if (added) {
        crmm_priv_ledger_entry *entry = find(ledger, ptr);
        ledger->used += entry->ptr == NULL;
        *entry = (crmm_priv_ledger_entry){
            .ptr = ptr, .bytes = bytes, .alignment = alignment, .live = true};
    }
    crmm_priv_lock_release(&ledger->lock);
    return added;
}

/* ---- giving back ---- */

/* What is wrong with giving a block back like this; 0: nothing. */
static crmm_misuse_kind judge(const crmm_priv_ledger_entry *entry, size_t bytes, size_t alignment)
{
    if (entry == NULL || entry->ptr == NULL) {
        return CRMM_MISUSE_FOREIGN_POINTER;
    }
    if (!entry->live) {
        return CRMM_MISUSE_DOUBLE_FREE;
    }
    if (entry->bytes != bytes) {
        return CRMM_MISUSE_SIZE_MISMATCH;
    }
    return entry->alignment != alignment ? CRMM_MISUSE_ALIGNMENT_MISMATCH : (crmm_misuse_kind)0;
}

static void report(crmm_misuse found, const crmm_priv_ledger_entry *known)
{
    const char *who = found.resource_name;

    switch (found.kind) {
    case CRMM_MISUSE_SIZE_MISMATCH:
        crmm_priv_report(found, "%s: %p was allocated with %zu bytes and given back with %zu", who,
                         found.ptr, known->bytes, found.bytes);
        break;
    case CRMM_MISUSE_ALIGNMENT_MISMATCH:
        crmm_priv_report(
            found, "%s: %p was allocated with alignment %zu and given back with alignment %zu", who,
            found.ptr, known->alignment, found.alignment);
        break;
    case CRMM_MISUSE_DOUBLE_FREE:
        crmm_priv_report(found, "%s: %p (%zu bytes) was given back twice", who, found.ptr,
                         found.bytes);
        break;
    default:
        crmm_priv_report(found, "%s: %p (%zu bytes) was not allocated here", who, found.ptr,
                         found.bytes);
        break;
    }
}

bool crmm_priv_ledger_take(crmm_priv_ledger *ledger, const crmm_resource *resource, const void *ptr,
                           size_t bytes, size_t alignment)
{
    crmm_priv_ledger_entry known = {0};

    crmm_priv_lock_acquire(&ledger->lock);
    crmm_priv_ledger_entry *entry = ledger->capacity == 0 ? NULL : find(ledger, ptr);
    crmm_misuse_kind kind = judge(entry, bytes, alignment);
    if (entry != NULL) {
        known = *entry;
    }
    if (kind == 0) {
        entry->live = false;
    }
    crmm_priv_lock_release(&ledger->lock);

    if (kind == 0) {
        return true;
    }
    report((crmm_misuse){.kind = kind,
                         .resource_name = crmm_resource_name(resource),
                         .ptr = ptr,
                         .bytes = bytes,
                         .alignment = alignment},
           &known);
    return false;
}

/* ---- the end ---- */

void crmm_priv_ledger_finish(crmm_priv_ledger *ledger, const crmm_resource *resource)
{
    size_t blocks = 0;
    size_t bytes = 0;
    const void *first = NULL;

    for (size_t i = 0; i < ledger->capacity; i++) {
        if (ledger->entries[i].live) {
            blocks++;
            bytes += ledger->entries[i].bytes;
            first = ledger->entries[i].ptr;
        }
    }
    free(ledger->entries);
    ledger->entries = NULL;
    ledger->capacity = 0;
    ledger->used = 0;
    crmm_priv_lock_forget(&ledger->lock);

    if (blocks != 0) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                                       .resource_name = crmm_resource_name(resource),
                                       .ptr = first,
                                       .bytes = bytes},
                         "%s: released with %zu allocations of %zu bytes alive, among them %p",
                         crmm_resource_name(resource), blocks, bytes, first);
    }
}
