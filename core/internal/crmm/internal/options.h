/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_OPTIONS_H
#define CRMM_INTERNAL_OPTIONS_H

#include <stddef.h>

#include <crmm/core/status.h>

/*
 * Load an options struct of any version into the one this library knows.
 *
 *   who         the class, for messages
 *   known       [out] the struct as this library knows it; what the caller's lacks is 0
 *   known_size  sizeof that struct
 *   given       the caller's struct, or NULL for all defaults
 *
 * CRMM_ERROR_INVALID_ARGUMENT: struct_size cannot be right. CRMM_ERROR_UNSUPPORTED: a member past
 * those known here is not 0.
 */
crmm_status crmm_priv_load_options(const char *who, void *known, size_t known_size,
                                   const void *given);

/* What crmm_<class>_options_init() does: zero the struct and set struct_size. NULL is ignored. */
void crmm_priv_init_options(void *options, size_t size);

#endif
