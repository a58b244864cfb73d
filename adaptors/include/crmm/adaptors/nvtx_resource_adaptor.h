/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_NVTX_RESOURCE_ADAPTOR_H
#define CRMM_ADAPTORS_NVTX_RESOURCE_ADAPTOR_H

#include <crmm/core/options.h>
#include <crmm/core/resource.h>

CRMM_BEGIN_DECLS

/** Values of the option `mode`. */
enum {
    CRMM_NVTX_FROM_ENVIRONMENT = 0, /**< on where CRMM_NVTX is 1; ignored in set-uid programs */
    CRMM_NVTX_ON = 1,
    CRMM_NVTX_OFF = 2
};

/** Options of crmm_nvtx_resource_adaptor_create(); see crmm/core/options.h. */
typedef struct crmm_nvtx_resource_adaptor_options {
    size_t struct_size; /**< sizeof the struct */
    size_t mode;        /**< CRMM_NVTX_FROM_ENVIRONMENT, CRMM_NVTX_ON or CRMM_NVTX_OFF */
} crmm_nvtx_resource_adaptor_options;

/**
 * Set all options to their defaults.
 *
 * @param options [out] zeroed, with struct_size set; NULL is ignored
 */
CRMM_API void crmm_nvtx_resource_adaptor_options_init(crmm_nvtx_resource_adaptor_options *options);

/**
 * Show the calls and blocks of a stack of resources to tools that understand NVTX (Nsight Systems,
 * compute-sanitizer). Where that is off, as it is by default, `out` is `upstream` itself, retained:
 * a program can always ask for the adaptor, and pays for it only when it is on.
 *
 * Where it is on, `out` is an adaptor that passes every request on and, in the NVTX domain `crmm`,
 *  - makes a range of each call, named `allocate`, `allocate_sync`, `deallocate` or
 *    `deallocate_sync`, whose payload is the bytes that were asked for (0 for a block that is given
 *    back by its address alone);
 *  - registers each block with the bytes that were asked for, as a region of the process-wide heap,
 *    and unregisters it before it is given back. This needs a toolkit whose NVTX has
 *    nvToolsExtMem.h. A block that the upstream then leaves alone, reporting misuse, stays
 *    unregistered.
 * Of several in one stack only the outermost does anything. It has the upstream's properties and
 * device. Functions of the upstream's class take the upstream, not this.
 *
 * @param upstream where memory comes from; retained
 * @param options  NULL for all defaults
 * @param out      [out] the adaptor or the upstream, one reference, the caller's; untouched on
 *                 failure
 *
 * @retval CRMM_ERROR_INVALID_ARGUMENT NULL `upstream` or `out`; a mode that is none; a wrong
 *                                     struct_size
 * @retval CRMM_ERROR_UNSUPPORTED      an option of a newer version is set
 * @retval CRMM_ERROR_OUT_OF_MEMORY    no host memory for the adaptor
 *
 * Thread-safety: safe.
 */
CRMM_API CRMM_NODISCARD crmm_status crmm_nvtx_resource_adaptor_create(
    crmm_resource *upstream, const crmm_nvtx_resource_adaptor_options *options,
    crmm_resource **out);

CRMM_END_DECLS

#endif
