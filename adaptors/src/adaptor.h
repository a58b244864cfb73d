/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_ADAPTORS_SRC_ADAPTOR_H
#define CRMM_ADAPTORS_SRC_ADAPTOR_H

#include <crmm/internal/resource.h>

/* What every adaptor begins with. */
typedef struct crmm_priv_adaptor {
    struct crmm_resource base;
    crmm_resource *upstream; /* retained */
} crmm_priv_adaptor;

/*
 * Zeroed storage of `size` bytes, at least a crmm_priv_adaptor, set up over `upstream`, with its
 * properties and device, and one reference. NULL where that failed, described in `*status`.
 *
 *   name      the class
 *   ops       its table; `upstream` is crmm_priv_adaptor_upstream
 *   upstream  NULL is CRMM_ERROR_INVALID_ARGUMENT
 *   out       where the caller will store the adaptor, checked in the same way
 */
void *crmm_priv_adaptor_create(const char *name, const crmm_resource_ops *ops, size_t size,
                               crmm_resource *upstream, crmm_resource *const *out,
                               crmm_status *status);

/* Its check of `upstream` and `out` alone. */
crmm_status crmm_priv_adaptor_check(const char *name, const crmm_resource *upstream,
                                    crmm_resource *const *out);

/* The operation. */
crmm_resource *crmm_priv_adaptor_upstream(const crmm_resource *resource);

/* The operations of an adaptor that takes no part in giving memory back. */
void crmm_priv_adaptor_deallocate_sync(crmm_resource *resource, void *ptr, size_t bytes,
                                       size_t alignment);
void crmm_priv_adaptor_deallocate(crmm_resource *resource, crmm_stream stream, void *ptr,
                                  size_t bytes, size_t alignment);
void crmm_priv_adaptor_deallocate_ptr(crmm_resource *resource, crmm_stream stream, void *ptr);

/* What `destroy` does last: release the upstream, and give the storage back. */
void crmm_priv_adaptor_destroy(crmm_resource *resource);

#endif
