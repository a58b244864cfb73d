/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_FAULT_INJECTION_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_FAULT_INJECTION_RESOURCE_ADAPTOR_H

#include <stddef.h>
#include <stdint.h>

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/**
 * Options of crmm_fault_injection_resource_adaptor_create(); see crmm/core/options.h. A call fails
 * if any of the rules says so; without a rule none does.
 */
typedef struct crmm_fault_injection_resource_adaptor_options {
    size_t struct_size;       /**< sizeof the struct */
    uint64_t fail_call;       /**< this call fails, counted from 1; 0: no such rule */
    uint64_t fail_call_count; /**< so many calls from `fail_call` on fail; 0: that one only;
                                   UINT64_MAX: all that follow too */
    uint64_t fail_every;      /**< calls fail whose number is a multiple of this; 0: no such rule */
    size_t fail_above;        /**< requests of more bytes than this fail; 0: no such rule */
    uint64_t fail_per_million; /**< of a million calls about so many fail, chosen by `seed`; 0:
                                  none, 1000000: all */
    uint64_t seed;             /**< the same seed chooses the same call numbers */
    uint64_t status;           /**< how they fail, a crmm_status; 0: CRMM_ERROR_OUT_OF_MEMORY */
} crmm_fault_injection_resource_adaptor_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_fault_injection_resource_adaptor_options_init(
    crmm_fault_injection_resource_adaptor_options *options);

/**
 * Create an adaptor that lets chosen allocations fail, so that a program can test what it does
 * then. An allocation that is chosen fails without asking the upstream; all others are passed on.
 * Giving memory back never fails. It has the upstream's properties and device.
 *
 * Calls are numbered from 1 in the order in which they come, those that fail included; requests for
 * 0 bytes and those that no resource could serve do not come here. With the same options and the
 * same calls the same ones fail. With several threads the numbers that fail are the same still, but
 * which thread gets them is not.
 *
 * @param upstream where memory comes from; retained
 * @param options  NULL for all defaults: nothing fails
 * @param out      [out] the adaptor, one reference, the caller's; untouched on failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; `status` is no failure that exists;
 *                                     `fail_per_million` is more than a million;
 *                                     `fail_call_count` without `fail_call`; a wrong struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * Thread-safety: safe, without a lock.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_fault_injection_resource_adaptor_create(
    crmm_resource *upstream, const crmm_fault_injection_resource_adaptor_options *options,
    crmm_resource **out);

/**
 * How many allocations have come so far, those that failed included.
 *
 * @param adaptor a fault_injection_resource_adaptor; anything else is misuse and gives 0
 */
CRMM_API uint64_t crmm_fault_injection_resource_adaptor_calls(const crmm_resource *adaptor);

/**
 * How many of them were made to fail. A loop that lets each call fail in turn ends when this is 0.
 *
 * @param adaptor a fault_injection_resource_adaptor; anything else is misuse and gives 0
 */
CRMM_API uint64_t crmm_fault_injection_resource_adaptor_failures(const crmm_resource *adaptor);

CRMM_END_DECLS

#endif
