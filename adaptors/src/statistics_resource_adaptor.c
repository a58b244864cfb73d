/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/statistics_resource_adaptor.h>

#include <inttypes.h>
#include <stdio.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/report.h>
#include <crmm/internal/text.h>

#include "adaptor.h"
#include "statistics_counters.h"
#include "statistics_scopes.h"

static const char class_name[] = "statistics_resource_adaptor";

typedef struct statistics {
    crmm_priv_adaptor adaptor;
    crmm_priv_counters counters;
    crmm_priv_scopes scopes;
} statistics;

/* ---- counting ---- */

static void count_allocation(statistics *adaptor, size_t bytes)
{
    crmm_priv_counters_add(&adaptor->counters, (int64_t)bytes);
    crmm_priv_scope *scope = crmm_priv_scope_of(&adaptor->adaptor.base);
    if (scope != NULL) {
        crmm_priv_counter_pair_add(&scope->counted, (int64_t)bytes);
    }
}

/* false: no allocation has so many bytes, which is reported. */
static bool count_deallocation(statistics *adaptor, const void *ptr, size_t bytes, size_t alignment)
{
    if (bytes > PTRDIFF_MAX) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_SIZE_MISMATCH,
                                       .resource_name = class_name,
                                       .ptr = ptr,
                                       .bytes = bytes,
                                       .alignment = alignment},
                         "%s: %p given back with %zu bytes, more than can exist", class_name, ptr,
                         bytes);
        return false;
    }
    crmm_priv_counters_subtract(&adaptor->counters, (int64_t)bytes);
    crmm_priv_scope *scope = crmm_priv_scope_of(&adaptor->adaptor.base);
    if (scope != NULL) {
        crmm_priv_counter_pair_subtract(&scope->counted, (int64_t)bytes);
    }
    return true;
}

/* ---- operations ---- */

static crmm_status statistics_allocate_sync(crmm_resource *resource, size_t bytes, size_t alignment,
                                            void **ptr)
{
    statistics *adaptor = (statistics *)resource;
    crmm_status status = crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);

    if (status == CRMM_SUCCESS) {
        count_allocation(adaptor, bytes);
    }
    return status;
}

static crmm_status statistics_allocate(crmm_resource *resource, crmm_stream stream, size_t bytes,
                                       size_t alignment, void **ptr)
{
    statistics *adaptor = (statistics *)resource;
    crmm_status status = crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);

    if (status == CRMM_SUCCESS) {
        count_allocation(adaptor, bytes);
    }
    return status;
}

/* Counted before the upstream has the memory: from then on another thread may be given it. */
static void statistics_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                       size_t alignment)
{
    statistics *adaptor = (statistics *)resource;

    if (count_deallocation(adaptor, ptr, bytes, alignment)) {
        crmm_deallocate_sync(adaptor->adaptor.upstream, ptr, bytes, alignment);
    }
}

static void statistics_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                  size_t bytes, size_t alignment)
{
    statistics *adaptor = (statistics *)resource;

    if (count_deallocation(adaptor, ptr, bytes, alignment)) {
        crmm_deallocate(adaptor->adaptor.upstream, stream, ptr, bytes, alignment);
    }
}

static void statistics_destroy(crmm_resource *resource)
{
    statistics *adaptor = (statistics *)resource;
    crmm_priv_counter_pair all = crmm_priv_counters_read(&adaptor->counters);
    crmm_priv_counter_pair since;

    /* What is put aside counts too. */
    while (crmm_priv_counters_pop(&adaptor->counters, &since)) {
        all = crmm_priv_counters_read(&adaptor->counters);
    }
    if (all.bytes.value > 0 || all.allocations.value > 0) {
        crmm_priv_report((crmm_misuse){.kind = CRMM_MISUSE_LEAK,
                                       .resource_name = class_name,
                                       .bytes = all.bytes.value > 0 ? (size_t)all.bytes.value : 0},
                         "%s: released with %" PRId64 " allocations of %" PRId64
                         " bytes not given back",
                         class_name, all.allocations.value, all.bytes.value);
    }
    crmm_priv_scopes_finish(&adaptor->scopes);
    crmm_priv_counters_finish(&adaptor->counters);
    crmm_priv_adaptor_destroy(resource);
}

/* The counters have locks, so reading them changes the adaptor. */
static statistics *writable(const crmm_resource *adaptor)
{
    return (statistics *)(uintptr_t)adaptor;
}

static size_t statistics_describe(const crmm_resource *resource, char *text, size_t size)
{
    statistics *adaptor = writable(resource);
    crmm_priv_counter_pair now = crmm_priv_counters_read(&adaptor->counters);
    crmm_priv_text description = crmm_priv_text_begin(text, size);

    crmm_priv_text_append(&description,
                          "%s (bytes %" PRId64 ", peak %" PRId64 ", total %" PRId64
                          "; allocations %" PRId64 ", peak %" PRId64 ", total %" PRId64 ")",
                          class_name, now.bytes.value, now.bytes.peak, now.bytes.total,
                          now.allocations.value, now.allocations.peak, now.allocations.total);
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, description.length);
}

/* Memory goes back to the adaptor that counted it, so only identity is equality. */
static const crmm_resource_ops statistics_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = statistics_allocate_sync,
    .deallocate_sync = statistics_deallocate_sync,
    .destroy = statistics_destroy,
    .allocate = statistics_allocate,
    .deallocate = statistics_deallocate,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = statistics_describe,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_statistics_counter) == 3 * sizeof(int64_t), "frozen");
_Static_assert(sizeof(crmm_statistics_scope) ==
                   sizeof(size_t) + sizeof(char *) + 5 * sizeof(int64_t),
               "structs that grow have no padding");

crmm_status crmm_statistics_resource_adaptor_create(crmm_resource *upstream, crmm_resource **out)
{
    crmm_status status;
    statistics *created = crmm_priv_adaptor_create(class_name, &statistics_ops, sizeof(*created),
                                                   upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    if (!crmm_priv_counters_init(&created->counters)) {
        crmm_priv_adaptor_destroy(&created->adaptor.base);
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the counters", class_name);
    }
    crmm_priv_scopes_init(&created->scopes);
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}

static void hand_out(const crmm_priv_counter_pair *pair, crmm_statistics_counter *bytes,
                     crmm_statistics_counter *allocations)
{
    if (bytes != NULL) {
        *bytes = pair->bytes;
    }
    if (allocations != NULL) {
        *allocations = pair->allocations;
    }
}

crmm_status crmm_statistics_resource_adaptor_counters(const crmm_resource *adaptor,
                                                      crmm_statistics_counter *bytes,
                                                      crmm_statistics_counter *allocations)
{
    crmm_status status = crmm_priv_require_class("crmm_statistics_resource_adaptor_counters",
                                                 adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    crmm_priv_counter_pair now = crmm_priv_counters_read(&writable(adaptor)->counters);
    hand_out(&now, bytes, allocations);
    return CRMM_SUCCESS;
}

crmm_status crmm_statistics_resource_adaptor_push_counters(crmm_resource *adaptor,
                                                           crmm_statistics_counter *bytes,
                                                           crmm_statistics_counter *allocations)
{
    const char *who = "crmm_statistics_resource_adaptor_push_counters";
    crmm_priv_counter_pair pair;
    crmm_status status = crmm_priv_require_class(who, adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_counters_push(&((statistics *)adaptor)->counters, &pair)) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for the counters", who);
    }
    hand_out(&pair, bytes, allocations);
    return CRMM_SUCCESS;
}

crmm_status crmm_statistics_resource_adaptor_pop_counters(crmm_resource *adaptor,
                                                          crmm_statistics_counter *bytes,
                                                          crmm_statistics_counter *allocations)
{
    const char *who = "crmm_statistics_resource_adaptor_pop_counters";
    crmm_priv_counter_pair pair;
    crmm_status status = crmm_priv_require_class(who, adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_counters_pop(&((statistics *)adaptor)->counters, &pair)) {
        return FAIL(CRMM_ERROR_OUT_OF_RANGE, 0, "%s: no counters were pushed", who);
    }
    hand_out(&pair, bytes, allocations);
    return CRMM_SUCCESS;
}

crmm_status crmm_statistics_resource_adaptor_scope_begin(crmm_resource *adaptor, const char *name)
{
    const char *who = "crmm_statistics_resource_adaptor_scope_begin";
    crmm_status status = crmm_priv_require_class(who, adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (name == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: name is NULL", who);
    }
    if (!crmm_priv_scope_begin(&((statistics *)adaptor)->scopes, adaptor, name)) {
        return FAIL(CRMM_ERROR_OUT_OF_MEMORY, 0, "%s: no host memory for scope %s", who, name);
    }
    (void)crmm_resource_retain(adaptor);
    return CRMM_SUCCESS;
}

crmm_status crmm_statistics_resource_adaptor_scope_end(crmm_resource *adaptor,
                                                       crmm_statistics_counter *bytes,
                                                       crmm_statistics_counter *allocations)
{
    const char *who = "crmm_statistics_resource_adaptor_scope_end";
    crmm_priv_counter_pair counted;
    crmm_status status = crmm_priv_require_class(who, adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (!crmm_priv_scope_end(&((statistics *)adaptor)->scopes, adaptor, &counted)) {
        return FAIL(CRMM_ERROR_OUT_OF_RANGE, 0, "%s: this thread has no open scope", who);
    }
    hand_out(&counted, bytes, allocations);
    crmm_resource_release(&adaptor);
    return CRMM_SUCCESS;
}

crmm_status crmm_statistics_resource_adaptor_visit_scopes(
    const crmm_resource *adaptor,
    void (*visitor)(const crmm_statistics_scope *scope, void *user_data), void *user_data)
{
    const char *who = "crmm_statistics_resource_adaptor_visit_scopes";
    crmm_priv_scope_record *record = NULL;
    crmm_statistics_scope figures;
    crmm_status status = crmm_priv_require_class(who, adaptor, &statistics_ops);
    if (status != CRMM_SUCCESS) {
        return status;
    }
    if (visitor == NULL) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0, "%s: visitor is NULL", who);
    }
    while (crmm_priv_scopes_next(&writable(adaptor)->scopes, &record, &figures)) {
        visitor(&figures, user_data);
    }
    return CRMM_SUCCESS;
}

size_t crmm_statistics_resource_adaptor_report_text(const crmm_resource *adaptor, char *text,
                                                    size_t size)
{
    crmm_priv_scope_record *record = NULL;
    crmm_statistics_scope scope;
    crmm_priv_text report = crmm_priv_text_begin(text, size);

    if (!crmm_priv_check_class("crmm_statistics_resource_adaptor_report_text", adaptor,
                               &statistics_ops)) {
        return 0;
    }
    crmm_priv_text_append(&report, "%10s %16s %16s %12s %12s  %s\n", "calls", "peak bytes",
                          "total bytes", "peak count", "total count", "scope");
    while (crmm_priv_scopes_next(&writable(adaptor)->scopes, &record, &scope)) {
        if (scope.calls != 0) {
            crmm_priv_text_append(&report,
                                  "%10" PRIu64 " %16" PRId64 " %16" PRId64 " %12" PRId64
                                  " %12" PRId64 "  %s\n",
                                  scope.calls, scope.peak_bytes, scope.total_bytes,
                                  scope.peak_allocations, scope.total_allocations, scope.name);
        }
    }
    return report.length;
}
