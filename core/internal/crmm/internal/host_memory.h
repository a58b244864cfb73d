/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_HOST_MEMORY_H
#define CRMM_INTERNAL_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* What the system could give to programs without swapping, the pages of files that it would drop
 * for them included. false: it does not say. */
bool crmm_priv_host_available(size_t *bytes);

#endif
