/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CRMM_BENCHMARKS_POOL_CHECK_H
#define CRMM_BENCHMARKS_POOL_CHECK_H

/* Whether an allocator is as fast as the pool has to be on this machine: 0, or 1. What is missed is
 * measured again a few times, and the least counts. */
int check_pool(const char *name);

#endif
