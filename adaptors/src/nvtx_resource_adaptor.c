/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/nvtx_resource_adaptor.h>

#include <string.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>
#include <crmm/internal/validate.h>

#include "adaptor.h"
#include "nvtx_events.h"

static const char class_name[] = "nvtx_resource_adaptor";

/* ---- one range a call ---- */

/* The adaptor whose range this thread is in. */
static _Thread_local const crmm_resource *outermost;

/*
 * What an operation remembers until it ends. A call from a callback further down, into another
 * stack or from the top of this one again, is a call of its own.
 */
typedef struct event {
    const crmm_resource *before; /* `outermost`, as it was */
    bool quiet;                  /* the outermost adaptor tells tools about this call */
} event;

static bool is_below(const crmm_resource *resource, const crmm_resource *top)
{
    while (top != NULL) {
        top = crmm_resource_upstream(top);
        if (top == resource) {
            return true;
        }
    }
    return false;
}

static event begin(const crmm_resource *resource, const char *name, size_t bytes)
{
    event begun = {.before = outermost, .quiet = is_below(resource, outermost)};

    if (!begun.quiet) {
        outermost = resource;
        crmm_priv_nvtx_push(name, bytes);
    }
    return begun;
}

static void end(event begun)
{
    if (!begun.quiet) {
        crmm_priv_nvtx_pop();
        outermost = begun.before;
    }
}

static crmm_status end_allocation(event begun, crmm_status status, void *const *ptr, size_t bytes)
{
    if (status == CRMM_SUCCESS && !begun.quiet) {
        crmm_priv_nvtx_add_block(*ptr, bytes);
    }
    end(begun);
    return status;
}

static event begin_deallocation(const crmm_resource *resource, const char *name, const void *ptr,
                                size_t bytes)
{
    event begun = begin(resource, name, bytes);

    if (!begun.quiet) {
        crmm_priv_nvtx_remove_block(ptr);
    }
    return begun;
}

/* ---- operations ---- */

static crmm_status nvtx_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                      void **ptr)
{
    event begun = begin(resource, "allocate_sync", bytes);
    crmm_status status =
        crmm_allocate_sync(crmm_priv_adaptor_upstream(resource), bytes, alignment, ptr);

    return end_allocation(begun, status, ptr, bytes);
}

static crmm_status nvtx_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                 size_t alignment, void **ptr)
{
    event begun = begin(resource, "allocate", bytes);
    crmm_status status =
        crmm_allocate(crmm_priv_adaptor_upstream(resource), stream, bytes, alignment, ptr);

    return end_allocation(begun, status, ptr, bytes);
}

static void nvtx_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes, size_t alignment)
{
    event begun = begin_deallocation(resource, "deallocate_sync", ptr, bytes);

    crmm_deallocate_sync(crmm_priv_adaptor_upstream(resource), ptr, bytes, alignment);
    end(begun);
}

static void nvtx_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr, size_t bytes,
                            size_t alignment)
{
    event begun = begin_deallocation(resource, "deallocate", ptr, bytes);

    crmm_deallocate(crmm_priv_adaptor_upstream(resource), stream, ptr, bytes, alignment);
    end(begun);
}

static void nvtx_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr)
{
    event begun = begin_deallocation(resource, "deallocate", ptr, 0);

    crmm_deallocate_ptr(crmm_priv_adaptor_upstream(resource), stream, ptr);
    end(begun);
}

/* A block that is given back past it stays registered: only identity is equality. */
static const crmm_resource_ops nvtx_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = nvtx_allocate_sync,
    .deallocate_sync = nvtx_deallocate_sync,
    .destroy = crmm_priv_adaptor_destroy,
    .allocate = nvtx_allocate,
    .deallocate = nvtx_deallocate,
    .deallocate_ptr = nvtx_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
};

/* ---- creation ---- */

_Static_assert(sizeof(crmm_nvtx_resource_adaptor_options) == 2 * sizeof(size_t),
               "options structs have no padding");

void crmm_nvtx_resource_adaptor_options_init(crmm_nvtx_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static bool is_on(size_t mode)
{
    if (mode != CRMM_NVTX_FROM_ENVIRONMENT) {
        return mode == CRMM_NVTX_ON;
    }
    const char *value = crmm_priv_environment("CRMM_NVTX");
    return value != NULL && strcmp(value, "1") == 0;
}

crmm_status crmm_nvtx_resource_adaptor_create(crmm_resource *upstream,
                                              const crmm_nvtx_resource_adaptor_options *options,
                                              crmm_resource **out)
{
    crmm_nvtx_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (known.mode > CRMM_NVTX_OFF) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->mode is %zu, none of CRMM_NVTX_FROM_ENVIRONMENT, _ON and _OFF",
                    class_name, known.mode);
    }
    status = crmm_priv_adaptor_check(class_name, upstream, out);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!is_on(known.mode)) {
        *out = crmm_resource_retain(upstream);
        return CRMM_SUCCESS;
    }
    crmm_priv_adaptor *created =
        crmm_priv_adaptor_create(class_name, &nvtx_ops, sizeof(*created), upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    *out = &created->base;
    return CRMM_SUCCESS;
}
