/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_INTERNAL_PREFETCH_H
#define CRMM_INTERNAL_PREFETCH_H

#include <stdbool.h>
#include <stddef.h>

#include <crmm/core/status.h>
#include <crmm/core/stream.h>

/*
 * What crmm_prefetch() does, in the name of `who`, and whether that queued anything; `queued` is
 * written in any case. `ptr` is not NULL, `bytes` is not 0.
 */
crmm_status crmm_priv_prefetch(const char *who, const void *ptr, size_t bytes, int device,
                               crmm_stream stream, bool *queued);

#endif
