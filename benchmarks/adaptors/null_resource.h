/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_ADAPTORS_NULL_RESOURCE_H
#define CRMM_BENCHMARKS_ADAPTORS_NULL_RESOURCE_H

#include <crmm/core/resource.h>

/* Blocks that a thread may have at a time. */
enum { NULL_RESOURCE_BLOCKS = 64 };

/*
 * A resource that does as good as nothing: it hands out the same few addresses of the calling
 * thread in turn, and no memory is behind them. Immortal in effect; nothing to release.
 */
crmm_resource *null_resource(void);

#endif
