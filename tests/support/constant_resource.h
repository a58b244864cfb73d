/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_CONSTANT_RESOURCE_H
#define CRMM_TESTS_SUPPORT_CONSTANT_RESOURCE_H

#include <crmm/interfaces/resource.h>

/*
 * Set up a resource that answers every request, of any size, with one address, its own: for sizes
 * that nobody has, and for addresses that come twice. Its memory must not be used.
 */
void constant_resource_init(struct crmm_resource *resource);

#endif
