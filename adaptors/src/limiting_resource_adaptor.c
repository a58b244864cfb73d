/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/limiting_resource_adaptor.h>

#include <stdint.h>
#include <stdio.h>

#include <crmm/core/alignment.h>
#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>
#include <crmm/internal/report.h>

#include "adaptor.h"
#include "limiting_budget.h"

static const char class_name[] = "limiting_resource_adaptor";

typedef struct limiting {
    crmm_priv_adaptor adaptor;
    size_t alignment;
    size_t limit; /* as it was asked for */
    crmm_priv_budget budget;
} limiting;

/* ---- accounting ---- */

/* What a request counts for; past any limit where rounding does not fit. */
static size_t charge_of(const limiting *adaptor, size_t bytes)
{
    size_t charge = (bytes + adaptor->alignment - 1) & ~(adaptor->alignment - 1);
    return charge >= bytes ? charge : SIZE_MAX;
}

/* The budget has a lock, so reading it changes the adaptor. */
static size_t allocated_bytes(const crmm_resource *resource)
{
    return crmm_priv_budget_spent(&((limiting *)(uintptr_t)resource)->budget);
}

__attribute__((noinline, cold)) static crmm_status refuse(const limiting *adaptor, size_t bytes)
{
    size_t allocated = allocated_bytes(&adaptor->adaptor.base);
    if (bytes <= adaptor->limit && charge_of(adaptor, bytes) > CRMM_PRIV_BUDGET_MOST) {
        return FAIL_BYTES(CRMM_ERROR_OUT_OF_MEMORY, 0, bytes,
                          "%s: %zu bytes are more than can exist", class_name, bytes);
    }
    crmm_status status =
        FAIL_BYTES(CRMM_ERROR_LIMIT_EXCEEDED, 0, bytes,
                   "%s: %zu bytes more than the %zu allocated would exceed the limit of %zu",
                   class_name, bytes, allocated, adaptor->limit);
    crmm_priv_note_live_bytes(allocated);
    return status;
}

/* What cannot have come from here, as its charge tells. */
__attribute__((noinline, cold)) static void report_foreign(const limiting *adaptor, const void *ptr,
                                                           size_t bytes, size_t alignment)
{
    crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_FOREIGN_POINTER,
                                   .resource_name = class_name,
                                   .ptr = ptr,
                                   .bytes = bytes,
                                   .alignment = alignment},
                     "%s: %p given back with %zu bytes, but only %zu are allocated", class_name,
                     ptr, bytes, allocated_bytes(&adaptor->adaptor.base));
}

/* ---- operations ---- */

static crmm_status limiting_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                          void **ptr)
{
    limiting *adaptor = (limiting *)resource;
    crmm_priv_budget_shard *own = crmm_priv_budget_shard_of(&adaptor->budget);
    size_t charge = charge_of(adaptor, bytes);

    if (!crmm_priv_budget_spend(&adaptor->budget, own, charge)) {
        return refuse(adaptor, bytes);
    }
    crmm_status status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);
    if (status != CRMM_SUCCESS) {
        crmm_priv_budget_refund(own, charge);
    }
    return status;
}

static crmm_status limiting_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                     size_t alignment, void **ptr)
{
    limiting *adaptor = (limiting *)resource;
    crmm_priv_budget_shard *own = crmm_priv_budget_shard_of(&adaptor->budget);
    size_t charge = charge_of(adaptor, bytes);

    if (!crmm_priv_budget_spend(&adaptor->budget, own, charge)) {
        return refuse(adaptor, bytes);
    }
    crmm_status status = crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);
    if (status != CRMM_SUCCESS) {
        crmm_priv_budget_refund(own, charge);
    }
    return status;
}

/* The charge goes back after the memory: upstream never holds more than the limit. */
static void limiting_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                     size_t alignment)
{
    limiting *adaptor = (limiting *)resource;
    crmm_priv_budget_shard *own = crmm_priv_budget_shard_of(&adaptor->budget);
    size_t charge = charge_of(adaptor, bytes);

    if (!crmm_priv_budget_can_refund(&adaptor->budget, own, charge)) {
        report_foreign(adaptor, ptr, bytes, alignment);
        return;
    }
    crmm_deallocate_sync(adaptor->adaptor.upstream, ptr, bytes, alignment);
    crmm_priv_budget_refund(own, charge);
}

static void limiting_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                size_t bytes, size_t alignment)
{
    limiting *adaptor = (limiting *)resource;
    crmm_priv_budget_shard *own = crmm_priv_budget_shard_of(&adaptor->budget);
    size_t charge = charge_of(adaptor, bytes);

    if (!crmm_priv_budget_can_refund(&adaptor->budget, own, charge)) {
        report_foreign(adaptor, ptr, bytes, alignment);
        return;
    }
    crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, bytes, alignment);
    crmm_priv_budget_refund(own, charge);
}

static void limiting_destroy(crmm_resource *resource)
{
    limiting *adaptor = (limiting *)resource;
    size_t allocated = allocated_bytes(resource);

    if (allocated != 0) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                                       .resource_name = class_name,
                                       .bytes = allocated},
                         "%s: released with %zu bytes allocated", class_name, allocated);
    }
    crmm_priv_budget_finish(&adaptor->budget);
    crmm_priv_adaptor_destroy(resource);
}

static size_t limiting_describe(const crmm_resource *resource, char *text, size_t size)
{
    const limiting *adaptor = (const limiting *)resource;
    int length = snprintf(text, size, "%s (limit %zu, allocated %zu)", class_name, adaptor->limit,
                          allocated_bytes(resource));
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, (size_t)length);
}

/* Memory goes back to the adaptor that counted it, so only identity is equality. */
static const crmm_resource_ops limiting_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = limiting_allocate_sync,
    .deallocate_sync = limiting_deallocate_sync,
    .destroy = limiting_destroy,
    .allocate = limiting_allocate,
    .deallocate = limiting_deallocate,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = limiting_describe,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_limiting_resource_adaptor_options) == 2 * sizeof(size_t),
               "options structs have no padding");

void crmm_limiting_resource_adaptor_options_init(crmm_limiting_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

crmm_status crmm_limiting_resource_adaptor_create(
    crmm_resource *upstream, size_t allocation_limit,
    const crmm_limiting_resource_adaptor_options *options, crmm_resource **out)
{
    crmm_limiting_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status != CRMM_SUCCESS) {
        return status;
    }

    size_t alignment = known.alignment != 0 ? known.alignment : CRMM_DEVICE_ALIGNMENT;
    if (!crmm_is_pow2(alignment)) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->alignment %zu is not a power of two", class_name, alignment);
    }
    limiting *created = crmm_priv_adaptor_create(class_name, &limiting_ops, sizeof(*created),
                                                 upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    if (!crmm_priv_budget_init(&created->budget, allocation_limit)) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the counter", class_name);
    }
    created->alignment = alignment;
    created->limit = allocation_limit;
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}

size_t crmm_limiting_resource_adaptor_allocated_bytes(const crmm_resource *adaptor)
{
    return crmm_priv_check_class("crmm_limiting_resource_adaptor_allocated_bytes", adaptor,
                                 &limiting_ops)
               ? allocated_bytes(adaptor)
               : 0;
}

size_t crmm_limiting_resource_adaptor_allocation_limit(const crmm_resource *adaptor)
{
    return crmm_priv_check_class("crmm_limiting_resource_adaptor_allocation_limit", adaptor,
                                 &limiting_ops)
               ? ((const limiting *)adaptor)->limit
               : 0;
}
