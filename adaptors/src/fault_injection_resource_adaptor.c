/* SPDX-License-Identifier: Apache-2.0 */
#include <crmm/adaptors/fault_injection_resource_adaptor.h>

#include <inttypes.h>
#include <stdio.h>

#include <crmm/internal/fail.h>
#include <crmm/internal/options.h>

#include "adaptor.h"

static const char class_name[] = "fault_injection_resource_adaptor";

enum { MILLION = 1000000 };

typedef struct fault_injection {
    crmm_priv_adaptor adaptor;
    crmm_fault_injection_resource_adaptor_options rules; /* the status is set */
    uint64_t calls;                                      /* atomic */
    uint64_t failures;                                   /* atomic */
} fault_injection;

/* ---- the rules ---- */

/* One of the numbers 0 to 999999, told by the seed and the call alone: the finaliser of SplitMix64
 * (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), scaled. */
static uint64_t draw(uint64_t seed, uint64_t call)
{
    uint64_t mixed = seed + call * UINT64_C(0x9E3779B97F4A7C15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    mixed ^= mixed >> 31;
    return (mixed >> 32) * MILLION >> 32;
}

static bool is_in_range(const crmm_fault_injection_resource_adaptor_options *rules, uint64_t call)
{
    uint64_t count = rules->fail_call_count != 0 ? rules->fail_call_count : 1;
    return rules->fail_call != 0 && call >= rules->fail_call && call - rules->fail_call < count;
}

static bool is_chosen(const crmm_fault_injection_resource_adaptor_options *rules, uint64_t call,
                      size_t bytes)
{
    return is_in_range(rules, call) || (rules->fail_every != 0 && call % rules->fail_every == 0) ||
           (rules->fail_above != 0 && bytes > rules->fail_above) ||
           (rules->fail_per_million != 0 && draw(rules->seed, call) < rules->fail_per_million);
}

/* Count a call, and let it fail if it is chosen. */
static crmm_status judge(fault_injection *adaptor, size_t bytes)
{
    uint64_t call = __atomic_add_fetch(&adaptor->calls, 1, __ATOMIC_RELAXED);

    if (!is_chosen(&adaptor->rules, call, bytes)) {
        return CRMM_SUCCESS;
    }
    (void)__atomic_fetch_add(&adaptor->failures, 1, __ATOMIC_RELAXED);
    return FAIL_BYTES((crmm_status)adaptor->rules.status, 0, bytes,
                      "%s: call %" PRIu64 ", of %zu bytes, was chosen to fail", class_name, call,
                      bytes);
}

/* ---- operations ---- */

static crmm_status fault_injection_allocate_sync(crmm_resource *resource, size_t bytes,
                                                 size_t alignment, void **ptr)
{
    fault_injection *adaptor = (fault_injection *)resource;
    crmm_status status = judge(adaptor, bytes);
    return status != CRMM_SUCCESS
               ? status
               : crmm_allocate_sync(adaptor->adaptor.upstream, bytes, alignment, ptr);
}

static crmm_status fault_injection_allocate(crmm_resource *resource, crmm_stream stream,
                                            size_t bytes, size_t alignment, void **ptr)
{
    fault_injection *adaptor = (fault_injection *)resource;
    crmm_status status = judge(adaptor, bytes);
    return status != CRMM_SUCCESS
               ? status
               : crmm_allocate(adaptor->adaptor.upstream, stream, bytes, alignment, ptr);
}

static size_t fault_injection_describe(const crmm_resource *resource, char *text, size_t size)
{
    const fault_injection *adaptor = (const fault_injection *)resource;
    int length = snprintf(text, size, "%s (calls %" PRIu64 ", failures %" PRIu64 ")", class_name,
                          crmm_fault_injection_resource_adaptor_calls(resource),
                          crmm_fault_injection_resource_adaptor_failures(resource));
    return crmm_priv_describe_over(adaptor->adaptor.upstream, text, size, (size_t)length);
}

static const crmm_resource_ops fault_injection_ops = {
    .struct_size = sizeof(crmm_resource_ops),
    .allocate_sync = fault_injection_allocate_sync,
    .deallocate_sync = crmm_priv_adaptor_deallocate_sync,
    .destroy = crmm_priv_adaptor_destroy,
    .allocate = fault_injection_allocate,
    .deallocate = crmm_priv_adaptor_deallocate,
    .deallocate_ptr = crmm_priv_adaptor_deallocate_ptr,
    .upstream = crmm_priv_adaptor_upstream,
    .describe = fault_injection_describe,
};

/* ---- public interface ---- */

_Static_assert(sizeof(crmm_fault_injection_resource_adaptor_options) ==
                   2 * sizeof(size_t) + 6 * sizeof(uint64_t),
               "options structs have no padding");

void crmm_fault_injection_resource_adaptor_options_init(
    crmm_fault_injection_resource_adaptor_options *options)
{
    crmm_priv_init_options(options, sizeof(*options));
}

static crmm_status check_rules(const crmm_fault_injection_resource_adaptor_options *rules)
{
    if (rules->status > CRMM_ERROR_IO) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->status is %" PRIu64 ", which is no crmm_status", class_name,
                    rules->status);
    }
    if (rules->fail_per_million > MILLION) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->fail_per_million is %" PRIu64 ", more than a million", class_name,
                    rules->fail_per_million);
    }
    if (rules->fail_call_count != 0 && rules->fail_call == 0) {
        return FAIL(CRMM_ERROR_INVALID_ARGUMENT, 0,
                    "%s: options->fail_call_count is %" PRIu64 " without a fail_call", class_name,
                    rules->fail_call_count);
    }
    return CRMM_SUCCESS;
}

crmm_status crmm_fault_injection_resource_adaptor_create(
    crmm_resource *upstream, const crmm_fault_injection_resource_adaptor_options *options,
    crmm_resource **out)
{
    crmm_fault_injection_resource_adaptor_options known;
    crmm_status status = crmm_priv_load_options(class_name, &known, sizeof(known), options);
    if (status == CRMM_SUCCESS) {
        status = check_rules(&known);
    }
    if (status != CRMM_SUCCESS) {
        return status;
    }
    fault_injection *created = crmm_priv_adaptor_create(class_name, &fault_injection_ops,
                                                        sizeof(*created), upstream, out, &status);
    if (created == NULL) {
        return status;
    }
    created->rules = known;
    if (known.status == CRMM_SUCCESS) {
        created->rules.status = CRMM_ERROR_OUT_OF_MEMORY;
    }
    *out = &created->adaptor.base;
    return CRMM_SUCCESS;
}

uint64_t crmm_fault_injection_resource_adaptor_calls(const crmm_resource *adaptor)
{
    return crmm_priv_check_class("crmm_fault_injection_resource_adaptor_calls", adaptor,
                                 &fault_injection_ops)
               ? __atomic_load_n(&((const fault_injection *)adaptor)->calls, __ATOMIC_RELAXED)
               : 0;
}

uint64_t crmm_fault_injection_resource_adaptor_failures(const crmm_resource *adaptor)
{
    return crmm_priv_check_class("crmm_fault_injection_resource_adaptor_failures", adaptor,
                                 &fault_injection_ops)
               ? __atomic_load_n(&((const fault_injection *)adaptor)->failures, __ATOMIC_RELAXED)
               : 0;
}
