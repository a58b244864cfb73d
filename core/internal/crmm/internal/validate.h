/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_VALIDATE_H
#define CRMM_INTERNAL_VALIDATE_H

#include <stdbool.h>

/*
 * Whether every misuse is to be found, at a price: CRMM_VALIDATE in the environment (0 or 1), else
 * the default of the build. Read once, at first use.
 */
bool crmm_priv_validate(void);

/* getenv(), but NULL in set-uid programs. */
const char *crmm_priv_environment(const char *name);

#endif
