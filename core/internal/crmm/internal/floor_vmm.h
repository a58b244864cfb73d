/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_FLOOR_VMM_H
#define CRMM_INTERNAL_FLOOR_VMM_H

/*
 * The part of the floor for virtual memory management: address ranges and the physical memory
 * behind them. Its rules are those of floor.h; no capture forbids these calls, and none of them
 * waits for work.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <crmm/core/status.h>

/* Physical memory of one kind, and who may use it. */
typedef struct crmm_priv_vmm_kind {
    int device;            /* where it is */
    uint64_t handle_types; /* how it can be shared: CUmemAllocationHandleType bits */
    const int *devices;    /* which devices may use it, its own among them */
    size_t device_count;
} crmm_priv_vmm_kind;

/* Whether the device and its driver have it, and can export such handles. */
bool crmm_priv_vmm_is_supported(const crmm_priv_vmm_kind *kind);

/* Sizes and addresses are multiples of this. */
crmm_status crmm_priv_vmm_granularity(const crmm_priv_vmm_kind *kind, size_t *granularity);

/* An address range without memory; `alignment` a power of two. Described in the name of `who`. */
crmm_status crmm_priv_vmm_reserve(const char *who, size_t bytes, size_t alignment, void **base);
int crmm_priv_vmm_unreserve(void *base, size_t bytes);

/*
 * Put one handle's memory behind a part of a range; undone on failure. The handle belongs to the
 * mapping and goes with it.
 */
crmm_status crmm_priv_vmm_map(const char *who, const crmm_priv_vmm_kind *kind, void *ptr,
                              size_t bytes);

/* Whether there is so much memory to be had at once: taken, and given back. */
crmm_status crmm_priv_vmm_try(const char *who, const crmm_priv_vmm_kind *kind, size_t bytes);

/*
 * Map the handle that is mapped at `from`, all of which is `bytes`, at `to` as well, where nobody
 * has access yet. Nothing is taken: crmm_priv_held_now() stays the same, and `mapped` is 0 when one
 * of the two mappings goes.
 */
crmm_status crmm_priv_vmm_map_again(void *to, const void *from, size_t bytes);

/* Let the kind's devices read and write a range, all of which is mapped. */
crmm_status crmm_priv_vmm_give_access(const crmm_priv_vmm_kind *kind, void *ptr, size_t bytes);

/*
 * What another process can turn into the handle that is mapped at a whole range: written to
 * `shareable`, which is an int, a descriptor of the caller's, for type 1, and 64 bytes for type 8.
 */
crmm_status crmm_priv_vmm_export(const void *ptr, size_t bytes, uint64_t handle_type,
                                 void *shareable);

/* Take all mappings within a part of a range away; holes are allowed, parts of a handle are not.
 * `mapped` is how many bytes of memory go with them. No work may be pending on them. */
int crmm_priv_vmm_unmap(void *ptr, size_t bytes, size_t mapped);

#endif
