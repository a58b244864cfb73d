/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/device/per_device_resource.h>

#include <stdlib.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/floor.h>
#include <crmm/internal/lock.h>
#include <crmm/internal/log.h>

#include "cuda_memory_resource.h"
#include "per_device_resource.h"

/* What a device's containers need. */
#define REQUIRED (CRMM_DEVICE_ACCESSIBLE | CRMM_STREAM_ORDERED)

typedef struct entry {
    crmm_priv_leaf initial; /* this device's cuda resource, immortal */
    crmm_resource *current; /* the table's own reference */
} entry;

static crmm_priv_lock lock = CRMM_PRIV_LOCK_INITIALIZER;
static entry *entries; /* one a device, made at the first call and kept to the end of the process */
static int entry_count;

/* ---- the table ---- */

/* Make the entries of `count` devices; the lock is held. */
static bool make_entries(int count)
{
    if (entries != NULL) {
        return true;
    }
    entries = calloc((size_t)count, sizeof(*entries));
    if (entries == NULL) {
        return false;
    }
    for (int device = 0; device < count; device++) {
        crmm_priv_cuda_memory_resource_init(&entries[device].initial, device);
        entries[device].current = &entries[device].initial.base;
    }
    entry_count = count;
    return true;
}

/* Make sure that there is a table and that it has the device. */
static crmm_status check_entry(const char *who, int device)
{
    crmm_status ready = crmm_priv_cuda_ready(who);
    if (ready != CRMM_SUCCESS) {
        return ready; /* a forked child has the table, but none of its devices */
    }
    crmm_priv_lock_acquire(&lock);
    int count = entry_count;
    crmm_priv_lock_release(&lock);

    if (count == 0) {
        crmm_status status = crmm_priv_cuda_device_count(&count);
        if (status != CRMM_SUCCESS) {
            return status;
        }
        crmm_priv_lock_acquire(&lock);
        bool made = count == 0 || make_entries(count);
        crmm_priv_lock_release(&lock);
        if (!made) {
            return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for %d entries", who,
                        count);
        }
    }
    if (device < 0 || device >= count) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: device is %d; there are %d", who, device,
                    count);
    }
    return CRMM_SUCCESS;
}

/* ---- by device ---- */

static crmm_status get(const char *who, int device, crmm_resource **mr)
{
    if (mr == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: the output is NULL", who);
    }
    crmm_status status = check_entry(who, device);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_lock_acquire(&lock);
    *mr = crmm_resource_retain(entries[device].current);
    crmm_priv_lock_release(&lock);
    return CRMM_SUCCESS;
}

static crmm_status check_new(const char *who, int device, const crmm_resource *new_mr)
{
    int owner = crmm_resource_device(new_mr);

    if (owner >= 0 && owner != device) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: new_mr (%s) belongs to device %d, not %d",
                    who, crmm_resource_name(new_mr), owner, device);
    }
    return new_mr == NULL ? CRMM_SUCCESS : crmm_priv_require_properties(who, new_mr, REQUIRED);
}

static crmm_status set(const char *who, int device, crmm_resource *new_mr, crmm_resource **previous)
{
    crmm_status status = check_entry(who, device);
    if (status == CRMM_SUCCESS) {
        status = check_new(who, device, new_mr);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }

    crmm_priv_lock_acquire(&lock);
    entry *changed = &entries[device];
    crmm_resource *old = changed->current;
    changed->current = new_mr != NULL ? crmm_resource_retain(new_mr) : &changed->initial.base;
    crmm_priv_lock_release(&lock);

    LOG(CRMM_LOG_LEVEL_DEBUG, "device %d: the current resource is %s now, and was %s", device,
        crmm_resource_name(new_mr != NULL ? new_mr : &changed->initial.base),
        crmm_resource_name(old));

    /* The table's reference goes to the caller, or is dropped with no lock held: it may be the
     * last, and destroying a resource calls CUDA. */
    if (previous != NULL) {
        *previous = old;
    } else {
        crmm_resource_release(&old);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_priv_initial_device_resource(int device, crmm_resource **mr)
{
    crmm_status status = check_entry("crmm_priv_initial_device_resource", device);
    if (status == CRMM_SUCCESS) {
        *mr = &entries[device].initial.base;
    }
    return status;
}

crmm_status crmm_get_per_device_resource(int device, crmm_resource **mr)
{
    return get(__func__, device, mr);
}

crmm_status crmm_set_per_device_resource(int device, crmm_resource *new_mr,
                                         crmm_resource **previous)
{
    return set(__func__, device, new_mr, previous);
}

crmm_status crmm_reset_per_device_resource(int device, crmm_resource **previous)
{
    return set(__func__, device, NULL, previous);
}

/* ---- by current device ---- */

static crmm_status get_current(const char *who, crmm_resource **mr)
{
    int device = 0;
    crmm_status status = crmm_priv_cuda_current_device(&device);
    return status != CRMM_SUCCESS ? status : get(who, device, mr);
}

static crmm_status set_current(const char *who, crmm_resource *new_mr, crmm_resource **previous)
{
    int device = 0;
    crmm_status status = crmm_priv_cuda_current_device(&device);
    return status != CRMM_SUCCESS ? status : set(who, device, new_mr, previous);
}

crmm_status crmm_get_current_device_resource(crmm_resource **mr)
{
    return get_current(__func__, mr);
}

crmm_status crmm_set_current_device_resource(crmm_resource *new_mr, crmm_resource **previous)
{
    return set_current(__func__, new_mr, previous);
}

crmm_status crmm_reset_current_device_resource(crmm_resource **previous)
{
    return set_current(__func__, NULL, previous);
}

/* ---- typed references ----
 * Every resource in the table has what the type demands: the setters see to it. */

static crmm_resource **inside(crmm_device_async_resource_ref *ref)
{
    return ref == NULL ? NULL : &ref->resource;
}

crmm_status crmm_get_current_device_resource_ref(crmm_device_async_resource_ref *ref)
{
    return get_current(__func__, inside(ref));
}

crmm_status crmm_get_per_device_resource_ref(int device, crmm_device_async_resource_ref *ref)
{
    return get(__func__, device, inside(ref));
}

crmm_status crmm_set_per_device_resource_ref(int device, crmm_device_async_resource_ref new_ref,
                                             crmm_device_async_resource_ref *previous)
{
    return set(__func__, device, new_ref.resource, inside(previous));
}

crmm_status crmm_set_current_device_resource_ref(crmm_device_async_resource_ref new_ref,
                                                 crmm_device_async_resource_ref *previous)
{
    return set_current(__func__, new_ref.resource, inside(previous));
}

crmm_status crmm_reset_per_device_resource_ref(int device, crmm_device_async_resource_ref *previous)
{
    return set(__func__, device, NULL, inside(previous));
}

crmm_status crmm_reset_current_device_resource_ref(crmm_device_async_resource_ref *previous)
{
    return set_current(__func__, NULL, inside(previous));
}
