/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_IMPORT_SUPPORT_H
#define CRMM_TESTS_SUPPORT_IMPORT_SUPPORT_H

/* What another process does with a handle that a pool has exported. */

#include <crmm/device/pool_memory_resource.h>

/* A vmm resource whose handles can be exported; the caller's. Skips the test where there are none.
 */
crmm_resource *make_exportable_vmm(uint64_t handle_types, size_t handle_size);

/* Import a handle and map all of it, at an address of its own. */
void *import_handle(const crmm_pool_export *exported, uint64_t handle_type);
void unmap_import(void *mapped, size_t bytes);

#endif
