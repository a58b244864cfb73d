/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_TESTS_SUPPORT_SAME_CONTAINER_H
#define CRMM_TESTS_SUPPORT_SAME_CONTAINER_H

/*
 * Whether nothing of a container has changed since it was copied: every member, and none of the
 * padding, which a copy need not have.
 */

#include <stdbool.h>

#include <crmm/containers/device_buffer.h>
#include <crmm/containers/device_scalar.h>
#include <crmm/containers/device_uvector.h>

bool same_buffer(const crmm_device_buffer *a, const crmm_device_buffer *b);
bool same_uvector(const crmm_device_uvector *a, const crmm_device_uvector *b);
bool same_scalar(const crmm_device_scalar *a, const crmm_device_scalar *b);

#endif
